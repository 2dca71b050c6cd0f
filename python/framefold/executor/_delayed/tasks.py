"""What the tasks of a delayed run do, wherever Dask runs them.

A task is a pure function of what it is given: Dask may run it twice, on another machine, and in
any order that the graph allows. What a task is given, it leaves as it is. Constants come first, and
then what Dask passes on.
"""

from __future__ import annotations

import threading
import uuid
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, reduce
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common import _memory
from framefold.common._notes import add_note
from framefold.common.buffers import BufferWrapper, OverScan
from framefold.exceptions import WorkerError
from framefold.executor._delayed.progress import tell_clients
from framefold.executor._wire import runs
from framefold.udf.engine import native
from framefold.udf.engine.preprocessed import own_objects
from framefold.udf.engine.results import apart

if TYPE_CHECKING:
    from framefold.common.buffers import BufferDeclaration
    from framefold.common.shape import Shape
    from framefold.run.plan import Run
    from framefold.udf.engine.merge_task import MergeTask

#: The parts of one UDF's partial result, as the engine takes them apart.
Parts = list[Any]
Arrays = dict[str, npt.NDArray[Any]]
#: The buffers of a UDF in Python that belong to all frames, and those of kind ``nav``, partition by
#: partition.
Merged = dict[str, Any]

#: The runs of this process, so that one that comes back is the same.
_here: weakref.WeakValueDictionary[str, DelayedRun] = weakref.WeakValueDictionary()


class DelayedRun:
    """A run, as tasks know it: planned again in processes that it was sent to."""

    def __init__(
        self, run: Run | runs.Shipment, key: str | None = None, *, tells: bool = False
    ) -> None:
        self.key = uuid.uuid4().hex if key is None else key
        #: Whether clients hear of each partition.
        self._tells = tells
        self._lock = threading.Lock()
        self._shipment = run if isinstance(run, runs.Shipment) else None
        self._run = None if isinstance(run, runs.Shipment) else run
        #: What is sent beside the data set, as it is now: parameters may change before they are.
        self._rest: bytes | None = None
        if self._run is not None:
            with suppress(Exception):  # it is an error if the run is sent
                self._rest = runs.pickle_rest(self._run)
        #: How many partitions were processed in this process.
        self.n_processed = 0
        _here.setdefault(self.key, self)

    @property
    def run(self) -> Run:
        """The run, planned.

        Raises
        ------
        WorkerError
            If the plan is another one than where the run comes from.
        """
        with self._lock:
            if self._run is None:
                assert self._shipment is not None
                shipment = self._shipment
                if shipment.version != _engine.__version__:
                    raise WorkerError(
                        f"framefold {shipment.version} planned the run, but this worker has "
                        f"{_engine.__version__}; install the same version everywhere"
                    )
                run, differs = shipment.planned(shipment.opened())
                if differs is not None:
                    raise WorkerError(
                        f"the run is not the same on this worker: {differs}; make sure that it "
                        f"sees the same files and has the same versions of all packages"
                    )
                self._run = run
            return self._run

    @cached_property
    def valid(self) -> npt.NDArray[np.bool_]:
        """Which of the selected frames are in a partition."""
        run = self.run
        roi = run.roi
        n_selected = run.dataset.shape.nav.size if roi is None else int(np.count_nonzero(roi))
        valid = _memory.zeros((n_selected,), bool)
        for start, stop in run.partitions:
            valid[start:stop] = True
        return valid

    def count(self, index: int) -> None:
        """Partition ``index`` was processed."""
        with self._lock:
            self.n_processed += 1
        if self._tells:
            tell_clients(self.key, index)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._shipment is None:
            run = self.run
            self._shipment = runs.Shipment.of(run, run.dataset._for_tasks(), self._rest)
        return _received, (self.key, self._shipment, self._tells)


def _received(key: str, shipment: runs.Shipment, tells: bool) -> DelayedRun:
    known = _here.get(key) or DelayedRun(shipment, key, tells=tells)
    return _here.setdefault(key, known)  # another thread may have been faster


def process(index: int, delayed: DelayedRun, blocks: Sequence[Any] = ()) -> list[Parts]:
    """Process a partition; gives the parts of each UDF's partial result.

    With a Dask array as data set, the chunks that the partition needs come along.
    """
    run = delayed.run
    run.dataset._check_files()  # graphs are computed later, and in parts
    with run.dataset._with_blocks(run.partitions[index], run.roi, blocks):
        parts = run.plan.run_partition(index).take_parts()
    delayed.count(index)
    return parts


def pick(udf: int, name: str, shape: tuple[int, ...], parts: list[Parts]) -> npt.NDArray[Any]:
    """One array of a partition's result."""
    return _arrays(parts[udf])[name].reshape(shape)


def _arrays(parts: Parts) -> Arrays:
    """The arrays of one UDF, by name; those of a UDF in Python are one part."""
    if len(parts) == 1 and isinstance(parts[0][1], dict):
        arrays: Arrays = parts[0][1]
        return arrays
    return {name: value for name, value, _ in parts}


def entry(path: tuple[Any, ...], values: Any) -> Any:
    """What is at ``values[path[0]][path[1]]`` and so on."""
    return reduce(getitem, path, values)


def spread(
    length: int,
    places: npt.NDArray[Any],
    valid: npt.NDArray[np.bool_],
    no_value: Any,
    values: npt.NDArray[Any],
) -> npt.NDArray[Any]:
    """Values of selected frames at their places among ``length`` positions."""
    full = _memory.full((length, *values.shape[1:]), no_value, values.dtype)
    full[places] = values[valid]
    return full


def initial(udf: int, name: str, start: int, stop: int, delayed: DelayedRun) -> npt.NDArray[Any]:
    """What a buffer of kind ``nav`` holds for frames that are in no partition."""
    return _merge_task(delayed.run, udf).arrays[name][start:stop].copy()


def merge(
    udf: int,
    first: int,
    delayed: DelayedRun,
    before: Merged | None,
    partitions: Sequence[list[Parts]],
) -> Merged:
    """Merge some partitions of a UDF in Python, beginning with number ``first``."""
    run = delayed.run
    task = _merge_task(run, udf)
    nav = [name for name in task.arrays if task.buffers[name].kind == "nav"]
    if before is not None:
        for name in task.arrays.keys() - nav:
            task.arrays[name][...] = own_objects(before[name])
    if first:
        end = run.partitions[first - 1][1]
        task.merged[:end] = delayed.valid[:end]
    merged: Merged = {**task.arrays, **{name: [] for name in nav}}
    for index, parts in enumerate(partitions, first):
        start, stop = run.partitions[index]
        with noting(f"UDF {task.bridge.name}, partition {index}, merge"):
            partial = {name: own_objects(array) for name, array in _arrays(parts[udf]).items()}
            task.merge(start, stop, partial)
        for name in nav:
            merged[name].append(task.arrays[name][start:stop].copy())
    return merged


def finish(
    udf: int, names: Sequence[str], delayed: DelayedRun, merged: Sequence[Sequence[Any]]
) -> list[tuple[npt.NDArray[Any], tuple[Any, Any]]]:
    """Compute the results of a UDF in Python from the chunks of its merged buffers.

    Each has its mask, if it has one, and what it has for the whole scan in a run with a ROI.
    """
    task = _merge_task(delayed.run, udf)
    for name, chunks in zip(names, merged, strict=True):
        np.concatenate([own_objects(chunk) for chunk in chunks], out=task.arrays[name])
    task.merged[:] = delayed.valid
    with noting(f"UDF {task.bridge.name}, get_results"):
        values = task.results()
    return [apart(value) for value in values]


def over_whole_scan(
    index: int,
    decl: BufferDeclaration,
    shape: Shape,
    roi: npt.NDArray[np.bool_],
    valid: npt.NDArray[np.bool_],
    results: Sequence[Any],
) -> npt.NDArray[Any]:
    """Result ``index`` of :func:`finish` in the shape of the scan."""
    array, (_, full) = results[index]
    raw = array if full is None else OverScan(array, full)
    return BufferWrapper(
        "nav",
        decl.extra_shape,
        decl.dtype,
        raw=raw,
        dataset_shape=shape,
        roi=roi,
        valid=valid,
    ).data


def merge_native(
    udf: int, first: int, delayed: DelayedRun, state: Any, partitions: Sequence[list[Parts]]
) -> Any:
    """Merge some partitions of a native UDF, beginning with number ``first``."""
    return _merged(delayed.run, udf, first, state, partitions).take_state()


def finish_native(
    udf: int, first: int, delayed: DelayedRun, state: Any, partitions: Sequence[list[Parts]]
) -> list[tuple[npt.NDArray[Any], tuple[Any, Any]]]:
    """Merge the last partitions of a native UDF and compute its results, as :func:`finish`."""
    run = delayed.run
    lists, valid = _merged(run, udf, first, state, partitions).snapshot()
    finished = native.finish_native(run.udfs[udf], run.dataset, run.roi, lists[0], valid)
    return [apart(result) for _, _, _, result in finished]


def _merged(
    run: Run, udf: int, first: int, state: Any, partitions: Sequence[list[Parts]]
) -> _engine.Results:
    results = run.plan.results(udf, first, state)
    for index, parts in enumerate(partitions, first):
        results.merge(_engine.Partial(index, [parts[udf]]))
    return results


def _merge_task(run: Run, udf: int) -> MergeTask:
    """The main side of a UDF in Python, with nothing merged."""
    bridge = run.bridges[udf]
    assert bridge is not None
    plan = run.plan
    return bridge.describe_run(plan.tile_depth, list(plan.tile_shape), plan.n_partitions).merger()


@contextmanager
def noting(what: str) -> Iterator[None]:
    """Add to exceptions of user code what it was doing."""
    try:
        yield
    except Exception as error:
        add_note(error, f"raised while framefold ran {what}")
        raise
