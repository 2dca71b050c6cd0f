"""What the tasks of a delayed run do, wherever Dask runs them.

A task is a pure function of what it is given: Dask may run it twice, on another machine, and in
any order that the graph allows. What a task is given, it leaves as it is.
"""

from __future__ import annotations

import pickle
import threading
import uuid
import weakref
from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common import _memory
from framefold.common.buffers import ArrayWithMask, BufferWrapper, OverScan, _no_value
from framefold.exceptions import WorkerError
from framefold.executor._delayed.progress import tell_clients
from framefold.executor._wire import pickles, runs
from framefold.executor._wire.failures import cannot_be_sent

if TYPE_CHECKING:
    from framefold.run.plan import Run
    from framefold.udf._bridge import MergeTask

#: The parts of one UDF's partial result, as the engine takes them apart.
Parts = list[Any]
Arrays = dict[str, npt.NDArray[Any]]

#: The runs of this process, so that one that comes back is the same.
_here: weakref.WeakValueDictionary[str, DelayedRun] = weakref.WeakValueDictionary()


class DelayedRun:
    """A run, as tasks know it: planned again in processes that it was sent to."""

    def __init__(self, run: Run, *, tells: bool = False) -> None:
        self.key = uuid.uuid4().hex
        #: Whether clients hear of each partition.
        self._tells = tells
        self._lock = threading.Lock()
        self._run: Run | None = run
        self._sent: tuple[Any, ...] | None = None
        #: How many partitions were processed in this process.
        self.n_processed = 0
        _here[self.key] = self

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
                assert self._sent is not None
                _, version, environment, fingerprint, data, _ = self._sent
                if version != _engine.__version__:
                    raise WorkerError(
                        f"framefold {version} planned the run, but this worker has "
                        f"{_engine.__version__}; install the same version everywhere"
                    )
                runs.enter_environment(*environment)
                value = pickle.loads(data)
                run = runs.plan(value)
                for bridge, main_state in zip(run.bridges, value["main_states"], strict=True):
                    if bridge is not None:
                        bridge.main_state = main_state
                found = runs.fingerprint(run)
                if found != fingerprint:
                    raise WorkerError(
                        f"the run is not the same on this worker: "
                        f"{runs.difference(fingerprint, found)}; make sure that it sees the same "
                        f"files and has the same versions of all packages"
                    )
                self._run = run
            return self._run

    @cached_property
    def valid(self) -> npt.NDArray[np.bool_]:
        """Which of the selected frames are in a partition."""
        run = self.run
        n_selected = run.dataset.shape.nav.size
        if run.roi is not None:
            n_selected = int(np.count_nonzero(run.roi))
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
        if self._sent is None:
            run = self.run
            value = runs.contents(run)
            value["dataset"] = run.dataset._for_tasks()
            try:
                value["main_states"] = [
                    bridge.main_state.for_others(bridge.udf)
                    if bridge is not None and bridge.main_state is not None
                    else None
                    for bridge in run.bridges
                ]
                data, _ = pickles.dumps_by_value(value, share=False)
            except (MemoryError, OSError):
                raise
            except Exception as error:
                raise cannot_be_sent(list(run.udfs), value["dataset"], error) from error
            environment = runs.environment()
            version, fingerprint = _engine.__version__, runs.fingerprint(run)
            self._sent = self.key, version, environment, fingerprint, data, self._tells
        return _received, self._sent


def _received(key: str, *rest: Any) -> DelayedRun:
    known = _here.get(key)
    if known is not None:
        return known
    received = DelayedRun.__new__(DelayedRun)
    received.key = key
    received._lock = threading.Lock()
    received._run = None
    received._sent = (key, *rest)
    received._tells = rest[-1]
    received.n_processed = 0
    return _here.setdefault(key, received)


class Task:
    """A function whose constant arguments Dask does not look into."""

    def __init__(self, *constants: Any) -> None:
        self.constants = constants

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.constants


class Process(Task):
    """Processes partition ``index``; gives the parts of each UDF's partial result.

    With a Dask array as data set, the chunks that the partition needs come along.
    """

    def __call__(self, delayed: DelayedRun, blocks: Sequence[Any] = ()) -> list[Parts]:
        """Process."""
        (index,) = self.constants
        run = delayed.run
        run.dataset._check_files()  # graphs are computed later, and in parts
        with run.dataset._with_blocks(run.partitions[index], run.roi, blocks):
            parts = run.plan.run_partition(index).take_parts()
        delayed.count(index)
        return parts


class Pick(Task):
    """Takes one array out of a partition's result: of UDF number ``udf``, by its name."""

    def __call__(self, parts: list[Parts]) -> Any:
        """Take it."""
        udf, name, shape = self.constants
        return _arrays(parts[udf])[name].reshape(shape)


def _arrays(parts: Parts) -> Arrays:
    """The arrays of one UDF, by name; those of a UDF in Python are one part."""
    if len(parts) == 1 and isinstance(parts[0][1], dict):
        arrays: Arrays = parts[0][1]
        return arrays
    return {name: value for name, value, _ in parts}


class Item(Task):
    """Takes entry ``index``, without its mask if it has one."""

    def __call__(self, values: Sequence[Any]) -> Any:
        """Take it."""
        value = values[self.constants[0]]
        if isinstance(value, OverScan):
            value = value.part
        return value.arr if isinstance(value, ArrayWithMask) else value


class Mask(Task):
    """Takes the mask of entry ``index``, and what it has for the whole scan; None for neither."""

    def __call__(self, values: Sequence[Any]) -> tuple[Any, Any]:
        """Take them."""
        value: Any = values[self.constants[0]]
        given = None
        if isinstance(value, OverScan):
            value, given = value.part, value.full
        return (value.mask if isinstance(value, ArrayWithMask) else None), given


class Whole(Task):
    """Takes entry ``index`` in the shape of the scan, in a run with a ROI."""

    def __call__(self, values: Sequence[Any]) -> npt.NDArray[Any]:
        """Take it."""
        index, of, shape, roi, valid = self.constants
        return BufferWrapper(
            of.kind,
            of.extra_shape,
            of.dtype,
            raw=values[index],
            dataset_shape=shape,
            roi=roi,
            valid=valid,
        ).data


class Piece(Task):
    """Takes the frames of one partition out of what :class:`Merge` gave."""

    def __call__(self, merged: tuple[Arrays, Sequence[Arrays]]) -> npt.NDArray[Any]:
        """Take them."""
        name, index = self.constants
        piece: npt.NDArray[Any] = merged[1][index][name]
        return piece


class State(Task):
    """Takes a buffer that belongs to all frames out of what :class:`Merge` gave."""

    def __call__(self, merged: tuple[Arrays, Sequence[Arrays]]) -> npt.NDArray[Any]:
        """Take it."""
        return merged[0][self.constants[0]]


class Fill(Task):
    """Makes an array of one value."""

    def __call__(self) -> npt.NDArray[Any]:
        """Make it."""
        shape, dtype, value = self.constants
        return _memory.full(shape, value, dtype)


class Spread(Task):
    """Puts values of selected frames to their places among ``length`` positions."""

    def __call__(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Put them there."""
        length, places, valid, no_value = self.constants
        spread = _memory.full((length, *values.shape[1:]), no_value, values.dtype)
        spread[places] = values[valid]
        return spread


class Block(Task):
    """Makes a block of the scan of the frames of some partitions, which begin at ``places``."""

    def __call__(self, partitions: Sequence[list[Parts]]) -> npt.NDArray[Any]:
        """Make it."""
        udf, name, nav, extra_shape, dtype, places = self.constants
        parts = [_arrays(of_all[udf])[name] for of_all in partitions]
        n_frames = prod(nav)
        if len(parts) == 1 and len(parts[0]) == n_frames:
            return parts[0].reshape((*nav, *extra_shape))
        block = _memory.full((n_frames, *extra_shape), _no_value(dtype), dtype)
        for place, part in zip(places, parts, strict=True):
            block[place : place + len(part)] = part
        return block.reshape((*nav, *extra_shape))


class Initial(Task):
    """What a buffer of kind ``nav`` holds for frames that are in no partition."""

    def __call__(self, delayed: DelayedRun) -> npt.NDArray[Any]:
        """Make it."""
        udf, name, start, stop = self.constants
        return _merge_task(delayed.run, udf).arrays[name][start:stop].copy()


class Merge(Task):
    """Merges some partitions of a UDF in Python, beginning with number ``first``.

    Gives the buffers that belong to all frames, and those of kind ``nav`` partition by partition.
    """

    def __call__(
        self,
        delayed: DelayedRun,
        before: tuple[Arrays, Sequence[Arrays]] | None,
        partitions: Sequence[list[Parts]],
    ) -> tuple[Arrays, list[Arrays]]:
        """Merge."""
        udf, first = self.constants
        run = delayed.run
        task = _merge_task(run, udf)
        if before is not None:
            for name, array in before[0].items():
                task.arrays[name][...] = array
        if first:
            end = run.partitions[first - 1][1]
            task.merged[:end] = delayed.valid[:end]
        pieces = []
        nav = [name for name in task.arrays if task.buffers[name].kind == "nav"]
        for index, parts in enumerate(partitions, first):
            start, stop = run.partitions[index]
            try:
                task.merge(start, stop, _arrays(parts[udf]))
            except Exception as error:
                error.add_note(
                    f"raised while framefold ran UDF {task.bridge.name}, partition {index}, merge"
                )
                raise
            pieces.append({name: task.arrays[name][start:stop].copy() for name in nav})
        state = {name: array for name, array in task.arrays.items() if name not in nav}
        return state, pieces


class Finish(Task):
    """Computes the results of a UDF in Python from its merged buffers."""

    def __call__(self, delayed: DelayedRun, merged: Sequence[Any]) -> list[Any]:
        """Compute."""
        udf, names = self.constants
        run = delayed.run
        task = _merge_task(run, udf)
        for name, value in zip(names, merged, strict=True):
            array = task.arrays[name]
            values = value if isinstance(value, list) else [value]
            stop = 0
            for part in values:
                start, stop = stop, stop + len(part)
                array[start:stop] = part
        task.merged[:] = delayed.valid
        try:
            return task.results()
        except Exception as error:
            error.add_note(f"raised while framefold ran UDF {task.bridge.name}, get_results")
            raise


class MergeNative(Task):
    """Merges some partitions of a native UDF, beginning with number ``first``."""

    def __call__(self, delayed: DelayedRun, state: Any, partitions: Sequence[list[Parts]]) -> Any:
        """Merge."""
        udf, first = self.constants
        return _merged(delayed.run, udf, first, state, partitions).take_state()


class FinishNative(Task):
    """Merges the last partitions of a native UDF and computes its results."""

    def __call__(
        self, delayed: DelayedRun, state: Any, partitions: Sequence[list[Parts]]
    ) -> list[Any]:
        """Merge and compute."""
        from framefold._native import finish_native

        udf, first = self.constants
        run = delayed.run
        lists, valid = _merged(run, udf, first, state, partitions).snapshot()
        finished = finish_native(run.udfs[udf], run.dataset, run.roi, lists[0], valid)
        return [array for _, _, _, array in finished]


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
