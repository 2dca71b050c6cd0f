"""Results of earlier runs, for ``run_udf(…, cache=True)``: given again where a run is the same.

What has to be the same is what :mod:`framefold.run.provenance` compares for runs that are resumed,
the files as they are now, and what objects have beside their parameters.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.common.buffers import BufferWrapper
from framefold.exceptions import UnsupportedError
from framefold.run.described import described, digest
from framefold.run.provenance import identity
from framefold.run.results import UDFResultDict
from framefold.udf.data import RESULTS, UDFData
from framefold.udf.engine import main_side
from framefold.udf.engine.native import leave_behind

if TYPE_CHECKING:
    from framefold.common.tiling_scheme import TilingScheme
    from framefold.io.dataset.base import DataSet
    from framefold.run.plan import Run

#: How much memory kept results take at most, unless a context is made with another number.
DEFAULT_BYTES = 256 << 20
#: Of files that were written less than so many seconds ago nothing is kept: clocks of file systems
#: may be no finer, and the next write would not be noticed.
SETTLED = 2.0

#: What tells a run from all others.
Key = tuple[tuple[str, str], ...]


class Left(NamedTuple):
    """What a run leaves to the object of a function."""

    results: dict[str, npt.NDArray[Any]]
    tiling_scheme: TilingScheme | None


class Entry(NamedTuple):
    """Results of a run."""

    results: tuple[UDFResultDict, ...]
    #: For each function.
    left: tuple[Left, ...]
    #: Whether each selected frame is merged.
    valid: npt.NDArray[np.bool_]
    #: How much memory a copy takes, once it is made.
    n_bytes: int = 0

    def copied(self) -> Entry:
        """The same with arrays of its own; those that share memory still do."""
        copies = _Copies()
        results = tuple(
            UDFResultDict((name, copies.of_buffer(buffer)) for name, buffer in each.items())
            for each in self.results
        )
        left = tuple(
            Left({name: copies.of(array) for name, array in each.results.items()}, each[1])
            for each in self.left
        )
        return Entry(results, left, copies.of(self.valid), copies.n_bytes)


class Kept:
    """Results of earlier runs; those that were not asked for the longest are dropped first.

    Parameters
    ----------
    most
        How much memory they take at most, in bytes.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, Entry] = OrderedDict()
        self._n_bytes = 0

    def find(self, key: Key) -> Entry | None:
        """The results of a run, with arrays of their own."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
        return entry.copied()

    def put(self, key: Key, entry: Entry) -> None:
        """Keep the results of a run, unless they alone are more than may be kept."""
        if _size(entry) > self.most:
            return  # before it is copied
        entry = entry.copied()
        if entry.n_bytes > self.most:
            return
        with self._lock:
            self._drop(key)
            while self._n_bytes + entry.n_bytes > self.most:
                self._drop(next(iter(self._entries)))
            self._entries[key] = entry
            self._n_bytes += entry.n_bytes

    def clear(self) -> None:
        """Drop all."""
        with self._lock:
            self._entries.clear()
            self._n_bytes = 0

    def _drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._n_bytes -= entry.n_bytes


class Keeping:
    """Finds the results of a run among those that are kept, or keeps them when it is complete.

    Parameters
    ----------
    kept
        Those of earlier runs.
    run
        Planned, and not begun.

    Raises
    ------
    UnsupportedError
        If it is not known whether another run is the same.
    """

    def __init__(self, kept: Kept, run: Run) -> None:
        _check(run)
        self._kept = kept
        self._run = run
        #: The files before the run; None if a change of them may not be noticed.
        self._files = _files(run.dataset)
        try:
            self._key = (*identity(run).items(), *_more(run), ("files", self._files or ""))
        except UnsupportedError as error:
            raise UnsupportedError(f"cache=True is not for this run: {error}") from None

    def found(self) -> Entry | None:
        """The results, if they are kept; then objects of functions are as after a run."""
        found = None if self._files is None else self._kept.find(self._key)
        if found is not None:
            _leave(self._run, found)
        return found

    def keep(self, results: Sequence[UDFResultDict]) -> None:
        """Keep the complete results."""
        arrays = [b._raw for each in results for b in each.values()]
        changed = self._run.changes or _files(self._run.dataset) != self._files
        if self._files is None or changed or any(a is None or a.dtype.hasobject for a in arrays):
            return
        valid = next(buffer._valid for each in results for buffer in each.values())
        assert valid is not None
        left = tuple(_left(self._run, number) for number in range(len(self._run.udfs)))
        self._kept.put(self._key, Entry(tuple(results), left, valid))


def _check(run: Run) -> None:
    """Refuse what nothing can be kept of."""
    if not run.dataset.paths:
        raise UnsupportedError(
            "cache=True is for data sets in files, which tell whether they have changed; data in "
            "memory do not: keep the results in a variable"
        )
    for number, udf in enumerate(run.udfs):
        if not run.result_names(number):
            raise UnsupportedError(
                f"cache=True keeps results, and {type(udf).__name__} has none: what else it does "
                f"would be left out; leave out cache=True"
            )


def _more(run: Run) -> Iterator[tuple[str, str]]:
    """What is to be the same beside what makes a run that can be resumed."""
    yield "array formats", described((run.backends, run.devices, run.on_cupy))
    for number, udf in enumerate(run.udfs):
        for name, value in vars(udf).items():
            if name in (*main_side.OF_A_RUN, "_kwargs", "_dicts", *udf._computed):
                continue
            try:
                yield f"attribute {name!r} of {number}", described(value)
            except UnsupportedError as error:
                raise UnsupportedError(
                    f"the attribute {name!r} of {type(udf).__name__} cannot be compared with that "
                    f"of another run: {error}"
                ) from None


def _files(dataset: DataSet) -> str | None:
    """What all files of a data set are; None if one is not there, or was just written.

    With the time at which the system recorded the last change, which no program can set.
    """
    found: list[tuple[Any, ...]] = list(dataset._engine.opened)
    paths = {Path(path) for path, _ in found} | set(dataset.paths)
    latest = time.time_ns() - int(SETTLED * 1e9)
    try:
        for path in sorted(paths):
            for file in _within(path) if path.is_dir() else (path,):
                stat = os.stat(file)
                if stat.st_mtime_ns > latest:
                    return None
                place = stat.st_dev, stat.st_ino
                found.append((file, *place, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
    except OSError:
        return None
    return digest(repr(found).encode())


def _within(folder: Path) -> Iterator[str]:
    for where, folders, files in os.walk(folder):
        folders.sort()
        yield from (os.path.join(where, name) for name in sorted(files))


def _left(run: Run, number: int) -> Left:
    """What a run has left to the object that was on its main side."""
    udf, bridge = run.udfs[number], run.own_bridges[number]
    scheme = None
    task = None if bridge is None or bridge.main_side is None else bridge.main_side()
    if task is not None:
        udf, scheme = task.udf, task.run.tiling_scheme
    arrays = {name: a for name, a in udf.results.__dict__.items() if isinstance(a, np.ndarray)}
    return Left(arrays, scheme)


def _leave(run: Run, entry: Entry) -> None:
    """Let the objects of a run know what they would know after it."""
    roi = None if run.roi is None else run.roi.reshape(-1)
    for udf, bridge, left in zip(run.udfs, run.own_bridges, entry.left, strict=True):
        if not main_side.is_free(udf):
            continue  # another run has it
        if bridge is None:
            leave_behind(udf, run.dataset, run.roi, [], entry.valid)
        else:
            meta = bridge.meta(
                tiling_scheme=left.tiling_scheme, merged=entry.valid, array_backend=None
            )
            params = {**bridge.udf._kwargs, **bridge.aux_for(0, bridge.n_selected)}
            main_side.enter(udf, params=params, meta=meta)
        role = RESULTS
        if bridge is not None:
            place = {"dataset_shape": run.dataset.shape, "roi": roi, "valid": entry.valid}
            role = RESULTS._replace(declared=bridge.declared, place=place)
        udf.results = UDFData(role, left.results)


class _Copies:
    """Copies of arrays, one for all that are the same memory."""

    def __init__(self) -> None:
        self._made: dict[Any, tuple[npt.NDArray[Any], npt.NDArray[Any]]] = {}

    @property
    def n_bytes(self) -> int:
        """How many bytes they take."""
        return sum(made.nbytes for made, _ in self._made.values())

    def of(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A copy."""
        key = array.ctypes.data, array.shape, array.strides, array.dtype.str
        if array.size == 0 or key not in self._made:
            # With the array, so that no other one gets its address.
            self._made[key] = array.copy("K"), array
        return self._made[key][0]

    def of_buffer(self, buffer: BufferWrapper) -> BufferWrapper:
        """The same buffer with copies of its arrays."""
        made = copy.copy(buffer)
        for name in ("_raw", "_custom_mask", "_given", "_valid", "_roi"):
            array = getattr(buffer, name)
            if array is not None:
                setattr(made, name, self.of(array))
        return made


def _size(entry: Entry) -> int:
    """How many bytes the arrays of results take, at least."""
    buffers = (buffer for each in entry.results for buffer in each.values())
    return sum(buffer._raw.nbytes for buffer in buffers if buffer._raw is not None)
