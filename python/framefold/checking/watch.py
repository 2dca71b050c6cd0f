"""What a UDF does beside its results, and what takes the time."""

from __future__ import annotations

import copy
from time import perf_counter
from typing import Any

import numpy as np

from framefold.checking.report import Finding
from framefold.checking.sample import Sample
from framefold.compilation.marks import numba_is_installed
from framefold.udf.base import PROCESS_METHODS, UDF

#: What framefold itself sets on each copy.
OWN = frozenset({"_kwargs", "params", "results", "task_data", "meta"})


class _Notes:
    """What was seen in the calls of one run."""

    def __init__(self) -> None:
        self.method = ""
        self.calls = 0
        self.seconds = 0.0
        self.attributes: set[str] = set()
        self.writes = False


def watched_run(sample: Sample) -> tuple[list[Finding], str]:
    """Run once more; gives what costs, and a line about the time."""
    if sample.is_native:
        return [], "native kernel: nothing of a run is in Python"
    if _is_compiled(sample.udf):
        # It can neither set attributes nor write into frames: either would not compile.
        began = perf_counter()
        sample.run(partitions=min(2, sample.n_frames))
        whole = 1e3 * (perf_counter() - began)
        return [], f"time: {whole:.2g} ms for a run with two partitions, compiled"
    notes = _Notes()
    udf = copy.copy(sample.udf)
    udf.__class__ = _watching(type(udf), notes)
    began = perf_counter()
    sample.run(udf=udf, partitions=min(2, sample.n_frames))
    around = perf_counter() - began - notes.seconds
    findings = []
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


def _watching(cls: type, notes: _Notes) -> type:
    """A subclass that notes what the methods of ``cls`` do."""
    methods = {
        name: _watched(name, getattr(cls, name), notes)
        for name in PROCESS_METHODS.values()
        if hasattr(cls, name)
    }
    return type(cls.__name__, (cls,), {"__module__": cls.__module__, **methods})


def _watched(name: str, method: Any, notes: _Notes) -> Any:
    def watched(self: Any, data: Any) -> Any:
        before = {key: id(value) for key, value in vars(self).items()}
        given = data.copy() if isinstance(data, np.ndarray) and data.flags.writeable else None
        began = perf_counter()
        try:
            return method(self, data)
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


def _has_nan(data: Any) -> bool:
    return bool(data.dtype.kind in "fc")
