"""Results that are files: ``run_udf(…, out=…)``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from framefold import _engine
from framefold.common._paths import absolute, as_words, path_text
from framefold.common.buffers import BufferDeclaration
from framefold.exceptions import (
    BadFileError,
    FramefoldError,
    InvalidArgumentError,
    UnsupportedError,
)
from framefold.results.layout import Labelled, Stored, labelled, numeric, with_masks_apart
from framefold.results.mapped import MappedBufferWrapper, stored
from framefold.results.refusals import as_refusal
from framefold.results.saving import group_names, without_invalid
from framefold.results.trees import labelled_arrays
from framefold.results.zarr_files import write_zarr
from framefold.run.asked import Asked
from framefold.run.provenance import check_files, identity, of_udf, provenance, stamps
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from framefold.run.plan import Run
    from framefold.run.results import UDFResultDict

#: The number of a UDF, and the name of a result.
Key = tuple[int, str]
#: For each UDF the names of results that go to files as they come; None for all that can.
Wishes = list[list[str] | None]


def wishes(asked: Asked, udfs: Sequence[UDF]) -> Wishes:
    """What the planner is to know of it."""
    if not isinstance(asked.out, Mapping):
        return [None for _ in udfs]
    wanted: Wishes = []
    for group in _groups(udfs):
        before = f"{group}/" if group else ""
        names = [str(name) for name in asked.out if str(name).startswith(before)]
        wanted.append([name.removeprefix(before) for name in names])
    return wanted


class Out:
    """The files of a run.

    Made when the run is planned, which refuses what cannot be written; :meth:`finish` when it is
    complete; :meth:`close` in any case.

    Parameters
    ----------
    run
        Planned with :func:`wishes`.
    asked
        What is to be written.

    Raises
    ------
    InvalidArgumentError
        If there is no such result, two results go to one file, a file exists and is not to be
        overwritten, is one of the data set, or is being written by another run; if a part of an
        earlier run was left by another one.
    UnsupportedError
        If a file cannot hold a result, or the run cannot be resumed.
    FileAccessError
        If a file cannot be written.
    """

    def __init__(self, run: Run, asked: Asked) -> None:
        self._run = run
        self._groups = _groups(run.udfs)
        self._declared = {
            (number, name): declared
            for number in range(len(run.udfs))
            for name, declared in _declared(run, number).items()
        }
        #: Where each result goes, and each path once.
        self._targets = self._find_targets(asked.out)
        self._paths = list(dict.fromkeys(self._targets.values()))
        self._check_targets()
        passed_on = {(number, name) for number, name in run.plan.to_sink}
        #: Those that go to files as they come, in the engine's order.
        self.passed_on = [key for key in self._declared if key in passed_on]
        self._stored = {key: self._layout(key) for key in self.passed_on}
        why_not = self._why_not_resumed()
        if asked.resume and why_not is not None:
            raise UnsupportedError(f"resume=True is not for this run: {why_not}")
        about = self._about(asked.resume) if why_not is None else None
        paths = [(path, path.suffix == ".zarr") for path in self._paths]
        inputs = run.dataset._inputs
        self.files = _engine.RowFiles(paths, asked.overwrite, asked.resume, inputs)
        self._may_stay = about is not None
        try:
            #: How many partitions are there of an earlier run.
            self.n_merged, position = self._there(about)
            self.files.prepare(
                [self._entry(key) for key in self.passed_on],
                None if about is None else json.dumps(about),
                self.n_merged,
                position,
            )
        except BaseException:
            self.close()
            raise

    def wrapped(self, key: Key) -> bool:
        """Whether a result goes to a file as it comes."""
        return key in self._stored

    def finish(self, results: Sequence[UDFResultDict]) -> None:
        """Write what is not there yet, give files their names, and have results show them."""
        with as_refusal(self._paths[0]):
            for key in self.passed_on:
                self._map(results, key, self.files.parts[self._number(key)])
            for path, part in zip(self._paths, self.files.parts, strict=True):
                self._write_rest(results, path, part)
            self.files.publish()
            for key in self.passed_on:
                self._map(results, key, self._targets[key])

    @property
    def is_left(self) -> bool:
        """Whether there is a part of the results that another run can go on with."""
        return self._may_stay and any(part.exists() for part in self.files.parts)

    def close(self) -> None:
        """Leave parts that can be gone on with, and remove others; of no effect after the end."""
        if self._may_stay:
            self.files.keep()
        else:
            self.files.discard()

    def _find_targets(self, out: Any) -> dict[Key, Path]:
        names = {self._name(key): key for key in self._declared}
        if not names:
            raise InvalidArgumentError("there is nothing to write: the UDFs have no results")
        if not isinstance(out, Mapping):
            path = Path(absolute(path_text("out", out)))
            if path.suffix == ".npy" and len(names) > 1:
                raise InvalidArgumentError(
                    f".npy holds one result, and there are {', '.join(names)}; use .zarr, or one "
                    f"file for each: out={{{next(iter(names))!r}: '{path}', …}}"
                )
            return dict.fromkeys(names.values(), path)
        targets: dict[Key, Path] = {}
        for name, given in out.items():
            if name not in names:
                raise InvalidArgumentError(
                    f"out names {name!r}, and there is no such result; there are "
                    f"{', '.join(map(repr, names))}"
                )
            path = Path(absolute(path_text("out", given)))
            if realpath(path) in map(realpath, targets.values()):
                raise InvalidArgumentError(f"out has two results go to '{path}'; use two files")
            targets[names[name]] = path
        return targets

    def _check_targets(self) -> None:
        for key, path in self._targets.items():
            if path.suffix not in (".zarr", ".npy"):
                raise InvalidArgumentError(
                    f"'{path}' is neither .zarr nor .npy, which results can be written to while "
                    f"the run goes on; others are written by save() of the results"
                )
            dtype = np.dtype(self._declared[key].dtype)
            if dtype.kind not in "biufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
                raise UnsupportedError(
                    f"the result {self._name(key)!r} has dtype {dtype}, which {path.suffix} does "
                    f"not hold; leave it out: out={{name: path}} for the others"
                )

    def _why_not_resumed(self) -> str | None:
        """Why a part of the run is of no use for another one; None if it is."""
        others = [self._name(key) for key in self._declared if key not in self._stored]
        if others:
            return (
                f"it needs all results to be nav buffers that merge by assignment and go to files, "
                f"and {others[0]!r} does not"
            )
        if not self._run.dataset.paths:
            return "it needs a data set in files, which tell whether they are the same"
        return None

    def _about(self, resume: bool) -> dict[str, Any] | None:
        """What a record says of the run; None if it cannot be compared with others."""
        try:
            parts = identity(self._run)
        except UnsupportedError as error:
            if resume:
                raise UnsupportedError(f"resume=True is not for this run: {error}") from None
            return None
        return {
            "what": "results of a framefold run that has not come to its end; the same call of "
            "run_udf with resume=True goes on with it",
            "of_partitions": self._run.plan.n_partitions,
            "run": parts,
            "results": {self._place(path): self._names_in(path) for path in self._paths},
            "files": [as_words(path) for path in self._run.dataset.paths],
            "stamps": stamps(self._run),
        }

    def _place(self, path: Path) -> str:
        """What a record calls a file: its name; its path if another file has the same name."""
        names = [other.name for other in self._paths]
        return as_words(path.name if names.count(path.name) == 1 else path)

    def _names_in(self, path: Path) -> list[str]:
        """The results that go to a file."""
        return [self._name(key) for key, target in self._targets.items() if target == path]

    def _there(self, about: dict[str, Any] | None) -> tuple[int, int]:
        """How many partitions and positions there are of an earlier run."""
        records = self.files.records
        found = [
            self._compared(path, text, about)
            for path, text in zip(self._paths, records, strict=True)
            if text is not None and about is not None
        ]
        return min(found) if found and None not in records else (0, 0)

    def _compared(self, path: Path, text: str, about: dict[str, Any]) -> tuple[int, int]:
        """How far the part of an earlier run is, if that was the same run."""
        anew = "to begin anew, leave resume=True out, which replaces what is there"
        try:
            record = json.loads(text)
            parts, known = record["run"], record["stamps"]
            there = record["results"].get(self._place(path), [])
            n_merged, position = record["partitions"], record["positions"]
            ours = about["run"]
            differing = [name for name in {**parts, **ours} if parts.get(name) != ours.get(name)]
            in_range = 0 <= n_merged <= about["of_partitions"] and position >= 0
            if not (differing or in_range):  # another run has numbers of its own
                raise ValueError("its numbers are out of range")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadFileError(
                f"the record of the earlier run that was to write '{path}' cannot be read "
                f"({type(error).__name__}: {error}); {anew}"
            ) from None
        if there != self._names_in(path):
            raise InvalidArgumentError(
                f"the earlier run was to write other results to '{path}' ({there} there, "
                f"{self._names_in(path)} here); {anew}"
            )
        if differing:
            name = differing[0]
            raise InvalidArgumentError(
                f"the earlier run that was to write '{path}' was another one: the {name} differs "
                f"({parts.get(name, 'none')} there, {ours.get(name, 'none')} here); {anew}"
            )
        try:
            check_files(self._run, known)
        except FramefoldError as error:
            raise BadFileError(
                f"the data set is not the one that '{path}' was begun with: {error}; {anew}"
            ) from error
        return n_merged, position

    def _layout(self, key: Key) -> Stored:
        declared = self._declared[key]
        shape = (*self._run.dataset.shape.nav, *declared.extra_shape)
        return stored(shape, np.dtype(declared.dtype))

    def _entry(self, key: Key) -> tuple[int, str, int, tuple[Path, int] | None]:
        """What the engine has to know of a result and its file."""
        place = None
        if self._targets[key].suffix == ".zarr":
            layout = self._stored[key]
            chunk_bytes = prod(layout.chunk) * layout.dtype.itemsize
            place = self._data_file(key), chunk_bytes
        return (*key, self._number(key), place)

    def _number(self, key: Key) -> int:
        return self._paths.index(self._targets[key])

    def _data_file(self, key: Key) -> Path:
        """The file with the data within a folder."""
        zeros = ("0" for _ in self._stored[key].shape)
        return Path(self._groups[key[0]], key[1], "c", *zeros)

    def _map(self, results: Sequence[UDFResultDict], key: Key, where: Path) -> None:
        number, name = key
        buffer = results[number][name]
        assert isinstance(buffer, MappedBufferWrapper)
        path = self._targets[key]
        if path.suffix == ".zarr":
            buffer.map(where / self._data_file(key), 0, path)
            return
        size = prod(self._stored[key].shape) * buffer.dtype.itemsize
        buffer.map(where, where.stat().st_size - size, path)

    def _write_rest(self, results: Sequence[UDFResultDict], path: Path, part: Path) -> None:
        keys = [key for key, target in self._targets.items() if target == path]
        if path.suffix == ".npy":
            if keys[0] not in self._stored:
                with part.open("wb") as file:
                    result = labelled(results[keys[0][0]][keys[0][1]])
                    array = without_invalid(numeric(result, ".npy"), result.valid)
                    np.lib.format.write_array(file, array, allow_pickle=False)
            return
        groups: dict[str, list[Labelled]] = {}
        for key in keys:
            groups.setdefault(self._groups[key[0]], []).append(self._labelled(results, key))
        groups = {group: with_masks_apart(found) for group, found in groups.items()}
        about = {"": provenance(self._run)}
        for number, group in enumerate(self._groups):
            about[group] = {**about.get(group, {}), **of_udf(self._run.udfs[number])}
        write_zarr(part, labelled_arrays(groups, about), version=3)

    def _labelled(self, results: Sequence[UDFResultDict], key: Key) -> Labelled:
        number, name = key
        buffer, group = results[number][name], self._groups[number]
        udf = group or buffer.about.udf
        if not isinstance(buffer, MappedBufferWrapper):
            return labelled(buffer)._replace(name=name, udf=udf)
        valid = buffer.valid_positions
        mask = None if valid.all() else valid
        layout = self._stored[key]
        return Labelled(name, udf, buffer.unit, buffer.data, buffer.axes, mask, layout)

    def _name(self, key: Key) -> str:
        return f"{self._groups[key[0]]}/{key[1]}".lstrip("/")


def _groups(udfs: Sequence[UDF]) -> list[str]:
    """The names of the groups of a file, as ``save`` gives them; none for a single UDF."""
    return [""] if len(udfs) == 1 else group_names([udf._shown_name for udf in udfs])


def _declared(run: Run, number: int) -> dict[str, BufferDeclaration]:
    """The results of a UDF of the run, as they are declared."""
    udf, bridge = run.udfs[number], run.own_bridges[number]
    if bridge is None and not udf._native_finish:
        return {
            name: BufferDeclaration(kind, extra, dtype, None, None)
            for name, kind, extra, dtype in run.plan.results_of(number)
        }
    if bridge is None:
        from framefold.udf.engine.native import declared_by

        declared: Mapping[str, BufferDeclaration] = declared_by(udf, run.dataset, run.roi)
    else:
        declared = bridge.declared
    return {name: each for name, each in declared.items() if each.use != "private"}
