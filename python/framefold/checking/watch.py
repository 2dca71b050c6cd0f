"""What a UDF does beside its results, and what takes the time."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from functools import wraps
from operator import is_not
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.checking.compare import equal
from framefold.checking.report import Finding
from framefold.checking.rules import OWN
from framefold.checking.sample import Results, Sample
from framefold.compilation.marks import numba_is_installed, options_of
from framefold.udf.base import PROCESS_METHODS, UDF
from framefold.udf.data import UDFData
from framefold.udf.engine.changes import laid_out_to_travel


class _Notes:
    """What was seen in the calls of one run."""

    def __init__(self) -> None:
        self.method = ""
        self.calls = 0
        self.seconds = 0.0
        self.attributes: set[str] = set()
        self.writes = False
        #: What the functions returned that should return nothing: name and class.
        self.returned: dict[str, str] = {}
        #: What each result of kind `nav` was before `merge`, in parts.
        self.unmerged: dict[str, list[npt.NDArray[Any]]] = {}
        #: Those that it changed, and those of which partial results have other values.
        self.merged: set[str] = set()
        self.to_merge: set[str] = set()


def first_run(sample: Sample) -> tuple[Results, list[Finding]]:
    """The results of one run, the first, and what it says of parameters that are written into.

    A later run may write what is there already.
    """
    udf, cls = copy.copy(sample.udf), type(sample.udf)
    # Compiled, they are read-only.
    names = [
        name
        for name in PROCESS_METHODS.values()
        if hasattr(cls, name)
        and not (numba_is_installed() and options_of(getattr(cls, name)) is not None)
    ]
    if sample.is_native or not names:
        return sample.run(), []
    # As the copies for partitions get them: threads share arrays that were laid out, too.
    udf._kwargs = laid_out_to_travel(udf._kwargs)
    parameters = _Parameters(udf._kwargs.items())
    methods = {name: _looking(getattr(cls, name), parameters) for name in names}
    udf.__class__ = type(cls.__name__, (cls,), {"__module__": cls.__module__, **methods})
    results, findings = sample.run(udf=udf), []
    name = sample.udf._shown_name
    if parameters.arrays:
        message = (
            f"{name} writes into {_listed(parameters.arrays)}: threads write there at the same "
            f"time, and each worker process has its own. What is to be kept is a result; what is "
            f"written into beside that is made in get_task_data, where each partition has one"
        )
        findings.append(Finding("state", True, message))
    if parameters.containers:
        message = (
            f"{name} changes {_listed(parameters.containers)}: threads share lists and dicts, and "
            f"what worker processes put there is lost. That is right for a cache, as without it "
            f"results are the same; what is to be kept is a result"
        )
        findings.append(Finding("state", False, message))
    return results, findings


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"self.params.{name}" for name in sorted(names))


class _Parameters:
    """What is in arrays, lists and dicts among the parameters, and in which it has changed."""

    def __init__(self, parameters: Iterable[tuple[str, Any]]) -> None:
        self._before = [
            (name, value, kept) for name, each in parameters for value, kept in _contents(each)
        ]
        #: The names of parameters that are, or hold, arrays that have been written into.
        self.arrays: set[str] = set()
        #: Those that are, or hold, lists and dicts that have other entries.
        self.containers: set[str] = set()

    def look(self) -> None:
        """Compare what is there now."""
        for name, value, kept in self._before:
            if isinstance(value, np.ndarray):
                if name not in self.arrays and not all(map(_has, _parts(value), kept)):
                    self.arrays.add(name)
            else:
                entries = _entries(value)
                if len(entries) != len(kept) or any(map(is_not, entries, kept)):
                    self.containers.add(name)


def _looking(method: Any, parameters: _Parameters) -> Any:
    """The method, with a look at the parameters after two calls, and around ``cleanup``."""
    calls, known = 0, None

    def looking(self: Any, data: Any) -> Any:
        nonlocal calls, known
        calls += 1
        if self is not known:
            known, cleanup = self, self.cleanup

            # The last that is called of a partition: `merge` and `get_results` are not shared.
            def look_and_clean_up() -> None:
                parameters.look()
                cleanup()
                parameters.look()

            self.cleanup = look_and_clean_up
        returned = method(self, data)
        if calls <= 2:
            parameters.look()
        return returned

    return looking


def _contents(value: Any) -> Iterator[tuple[Any, Any]]:
    """The arrays that can be written into, lists and dicts in a value, with what is in them."""
    seen, found = set(), [value]
    while found:
        each = found.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, np.ndarray):
            if each.flags.writeable and not each.dtype.hasobject:
                yield each, [np.array(part) for part in _parts(each)]
        elif isinstance(each, dict | list | tuple):
            entries = _entries(each)
            found += entries
            if not isinstance(each, tuple):
                yield each, entries


def _entries(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*dict.keys(value), *dict.values(value)]
    return list.copy(value) if isinstance(value, list) else list(value)


def _parts(array: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """The values of an array, and of one of numpy.ma which are masked."""
    is_masked = isinstance(array, np.ma.MaskedArray)
    return [np.asarray(array), *([np.ma.getmaskarray(array)] if is_masked else [])]


def _has(array: npt.NDArray[Any], kept: npt.NDArray[Any]) -> bool:
    """Whether it has the values of a copy; what is between the fields has none."""
    if (array.shape, array.dtype) != (kept.shape, kept.dtype):
        return False
    if array.dtype.names is not None:
        return all(_has(array[name], kept[name]) for name in array.dtype.names)
    # In blocks, without room for all of them.
    flags: Any = ["buffered", "external_loop", "zerosize_ok"]
    with np.nditer([array, kept], flags, buffersize=1 << 16) as blocks:
        return all(equal(*block) for block in blocks)


def watched_run(sample: Sample) -> tuple[list[Finding], str]:
    """Run once more; gives what was seen, and a line about the time."""
    if sample.is_native:
        return [], "native kernel: nothing of a run is in Python"
    is_compiled, notes = _is_compiled(sample.planned()), _Notes()
    udf = copy.copy(sample.udf)
    # Compiled, it can neither set attributes nor write into frames: either would not compile.
    udf.__class__ = _watching(type(udf), notes, () if is_compiled else PROCESS_METHODS.values())
    began = perf_counter()
    results = sample.run(udf=udf, partitions=min(2, sample.n_frames))
    around = perf_counter() - began - notes.seconds
    findings = list(_about_merge(notes, results))
    if is_compiled:
        return findings, f"time: {1e3 * around:.2g} ms for a run with two partitions, compiled"
    if notes.method in notes.returned:
        findings.append(
            Finding(
                "returns",
                True,
                f"{notes.method} returns a {notes.returned[notes.method]}, which has no effect: "
                f"results are what it writes, as in self.results.name[:] = …",
            )
        )
    if notes.attributes:
        names = ", ".join(f"self.{name}" for name in sorted(notes.attributes))
        findings.append(
            Finding(
                "state",
                False,
                f"{notes.method} sets {names}, which ends with the partition: each has a copy of "
                f"the object, and only results are merged. What is made once per partition belongs "
                f"into get_task_data",
            )
        )
    if notes.writes:
        findings.append(
            Finding(
                "in place",
                False,
                f"{notes.method} writes into the data that it gets, so framefold makes a copy of "
                f"them for each call. Write data = data * 2 in place of data *= 2",
            )
        )
    each = 1e6 * notes.seconds / sample.n_frames
    time = (
        f"time: {each:.3g} µs a frame in {notes.calls} calls of {notes.method}, and "
        f"{1e3 * around:.2g} ms for the rest of a run with two partitions"
    )
    return findings, time


def _is_compiled(udf: UDF) -> bool:
    """Whether what processes the data is compiled here."""
    return numba_is_installed() and udf._marked_function(udf.get_method()) is not None


def _about_merge(notes: _Notes, results: Results) -> Iterator[Finding]:
    """What is wrong about a merge of the user's own."""
    if "merge" in notes.returned:
        yield Finding(
            "merge",
            True,
            f"merge returns a {notes.returned['merge']}, which has no effect: write into dest, as "
            f"in dest.name[:] += src.name",
        )
    for name, parts in notes.unmerged.items():
        if name not in notes.to_merge - notes.merged or name not in results:
            continue
        # Not what `get_results` computes.
        if equal(results[name].array, np.concatenate(parts)):
            yield Finding(
                "merge",
                True,
                f"merge leaves '{name}' (kind 'nav') as it is, and partial results have other "
                f"values: a merge of your own has to assign results of kind 'nav', too, as in "
                f"dest.{name}[:] = src.{name}",
                name,
            )


def _watching(cls: type[UDF], notes: _Notes, names: Iterable[str]) -> type:
    """A subclass that notes what these methods of ``cls`` do, and a merge of its own."""
    methods = {
        name: _watched(name, getattr(cls, name), notes) for name in names if hasattr(cls, name)
    }
    if cls.merge is not UDF.merge and options_of(cls.merge) is None:
        methods["merge"] = _watched_merge(cls.merge, notes)
    return type(cls.__name__, (cls,), {"__module__": cls.__module__, **methods})


def _watched(name: str, method: Any, notes: _Notes) -> Any:
    def watched(self: Any, data: Any) -> Any:
        before = {key: id(value) for key, value in vars(self).items()}
        given = data.copy() if isinstance(data, np.ndarray) and data.flags.writeable else None
        began = perf_counter()
        try:
            returned = method(self, data)
            if returned is not None:
                notes.returned[name] = type(returned).__name__
            return returned
        finally:
            notes.seconds += perf_counter() - began
            notes.calls += 1
            notes.method = name
            after = {key: id(value) for key, value in vars(self).items()}
            notes.attributes |= {
                key for key in after if key not in OWN and before.get(key) != after[key]
            }
            if given is not None and not np.array_equal(given, data, equal_nan=_has_nan(given)):
                notes.writes = True

    return watched


def _watched_merge(merge: Any, notes: _Notes) -> Any:
    # The wrapped function says whether it is called by name.
    @wraps(merge)
    def watched(self: Any, *sides: Any, **by_name: Any) -> Any:
        dest, src = sides or (by_name["dest"], by_name["src"])
        before = {
            name: array.copy()
            for name, array in vars(dest).items()
            if UDFData.get_buffer(dest, name).kind == "nav"
        }
        partial = {name: vars(src)[name].copy() for name in before}
        returned = merge(self, *sides, **by_name)
        if returned is not None and returned is not dest:
            notes.returned["merge"] = type(returned).__name__
        for name, array in before.items():
            notes.unmerged.setdefault(name, []).append(array)
            if not equal(vars(dest)[name], array):
                notes.merged.add(name)
            if not equal(partial[name], array):
                notes.to_merge.add(name)
        return returned

    return watched


def _has_nan(data: Any) -> bool:
    return bool(data.dtype.kind in "fc")
