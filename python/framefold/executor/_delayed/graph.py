"""The graph of tasks of a delayed run.

One task for each partition processes all UDFs. Buffers of kind ``nav`` that need no merging are
taken out of its result, chunk by chunk. All else is merged in partition order, some partitions at
a time, as every other executor does it; so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.common import _memory
from framefold.common.buffers import BufferDeclaration, _no_value
from framefold.common.shape import Shape
from framefold.executor._delayed import tasks

if TYPE_CHECKING:
    import dask.array as da
    from dask.delayed import Delayed

    from framefold.executor._delayed.tasks import DelayedRun

#: How many partitions one task merges.
MERGED_TOGETHER = 16

#: A function, whose constant arguments Dask does not look into, and the keys of all others.
Task = tuple[Any, ...]
Layer = dict[Any, Task | Any]


class DelayedResult(NamedTuple):
    """A result of a UDF that is not computed yet."""

    raw: da.Array
    #: The mask that ``get_results`` gives, and what it gives for the whole scan; None if it cannot.
    mask: Delayed | None = None
    #: The result in the shape of the scan, if ``get_results`` has a say in that.
    full: da.Array | None = None


class Graph:
    """The tasks that process partitions, and what is made of their results."""

    def __init__(self, delayed: DelayedRun) -> None:
        run = self.run = delayed.run
        self._id = delayed.key
        self._valid = delayed.valid
        self.shape = run.dataset.shape
        self.n_selected = len(delayed.valid)
        self.partitions = run.partitions
        self._run_key = self._name("run")
        planned = _layer(self._run_key, {self._run_key: delayed})
        name = self._name("partition")
        #: The key of each partition's result.
        self._keys = [(name, index) for index in range(len(run.partitions))]
        array, blocks = run.dataset._blocks(run.partitions, run.roi)
        layer: Layer = {}
        for index, key in enumerate(self._keys):
            task: Task = (partial(tasks.process, index), self._run_key)
            layer[key] = task if array is None else (*task, blocks[index])
        chunks = [] if array is None else [array]
        self._processed = [planned, _layer(name, layer, planned, *chunks)]

    def _name(self, what: str, udf: int | None = None, buffer: str = "") -> str:
        parts = "framefold", what, "" if udf is None else str(udf), buffer, self._id
        return "-".join(part for part in parts if part)

    def chunks(self) -> list[tuple[int, int, int | None]]:
        """The selected frames, cut: start, stop, and the partition that they are."""
        cut: list[tuple[int, int, int | None]] = []
        end = 0
        for index, (start, stop) in enumerate(self.partitions):
            if start > end:
                cut.append((end, start, None))
            if stop > start:
                cut.append((start, stop, index))
                end = stop
        if self.n_selected > end or not cut:
            cut.append((end, self.n_selected, None))
        return cut

    # What needs no merging.

    def nav_rows(self, udf: int, buffer: str, decl: BufferDeclaration, *, native: bool) -> da.Array:
        """A buffer of kind ``nav``, one chunk for each partition."""
        name = self._name("rows", udf, buffer)
        picked = partial(self._picked, udf, buffer, decl)
        return self._rows(name, udf, buffer, decl, picked, self._processed, native=native)

    def partial_results(self, udf: int, buffer: str, decl: BufferDeclaration) -> list[da.Array]:
        """The same buffer of all partitions, one array each."""
        arrays = []
        for index, (start, stop) in enumerate(self.partitions):
            name = self._name("partial", udf, f"{buffer}-{index}")
            shape = decl.flat_shape(self.shape, stop - start)
            task = self._picked(udf, buffer, decl, index)
            arrays.append(_one_chunk(name, task, shape, decl.dtype, self._processed))
        return arrays

    def _picked(self, udf: int, buffer: str, decl: BufferDeclaration, index: int) -> Task:
        """The task that takes a buffer out of the result of partition ``index``."""
        start, stop = self.partitions[index]
        shape = decl.flat_shape(self.shape, stop - start)
        return partial(tasks.pick, udf, buffer, shape), self._keys[index]

    def _rows(
        self,
        name: str,
        udf: int,
        buffer: str,
        decl: BufferDeclaration,
        task_of: Callable[[int], Task],
        needs: Sequence[Any],
        *,
        native: bool = False,
    ) -> da.Array:
        """A ``nav`` buffer of what there is of each partition, and of frames without data."""
        cut = self.chunks()
        layer: Layer = {}
        for k, (start, stop, index) in enumerate(cut):
            if index is not None:
                task = task_of(index)
            elif native:
                shape = decl.flat_shape(self.shape, stop - start)
                task = (partial(_memory.full, shape, _no_value(decl.dtype), decl.dtype),)
            else:
                task = partial(tasks.initial, udf, buffer, start, stop), self._run_key
            layer[name, k, *(0 for _ in decl.extra_shape)] = task
        lengths = tuple(stop - start for start, stop, _ in cut)
        chunks = (lengths, *((length,) for length in decl.extra_shape))
        return _array(name, layer, chunks, decl.dtype, needs)

    # Merging.

    def merged(self, udf: int, buffers: Mapping[str, BufferDeclaration]) -> dict[str, da.Array]:
        """The merged buffers of a UDF in Python, by name."""
        steps, last = self._steps(udf, tasks.merge, self._groups())
        needs = [*self._processed, steps]
        arrays = {}
        for buffer, decl in buffers.items():
            name = self._name("merged", udf, buffer)
            if decl.kind != "nav":
                task = partial(tasks.entry, (buffer,)), last
                shape = decl.flat_shape(self.shape, 0)
                arrays[buffer] = _one_chunk(name, task, shape, decl.dtype, needs)
                continue

            def piece(index: int, buffer: str = buffer) -> Task:
                step, place = divmod(index, MERGED_TOGETHER)
                return partial(tasks.entry, (buffer, place)), (steps.key, step)

            arrays[buffer] = self._rows(name, udf, buffer, decl, piece, needs)
        return arrays

    def finished(
        self, udf: int, merged: dict[str, da.Array], results: Mapping[str, BufferDeclaration]
    ) -> dict[str, DelayedResult]:
        """The results of a UDF in Python that computes them from merged buffers."""
        # Chunks of kind ``nav`` are put together by the task.
        whole = [a.rechunk(dict.fromkeys(range(1, a.ndim), -1)) for a in merged.values()]
        keys = [
            [(array.name, k, *(0 for _ in array.shape[1:])) for k in range(array.numblocks[0])]
            for array in whole
        ]
        name = self._name("finish", udf)
        task = partial(tasks.finish, udf, tuple(merged)), self._run_key, keys
        finished = _layer(name, {(name, 0): task}, *self._processed, *whole)
        return self._results(udf, results, finished)

    def _results(
        self, udf: int, results: Mapping[str, BufferDeclaration], finished: Delayed
    ) -> dict[str, DelayedResult]:
        """What the last task gives, result by result."""
        roi = self.run.roi
        found = {}
        for k, (buffer, decl) in enumerate(results.items()):
            raw = self._item(udf, buffer, decl, k, finished)
            name = self._name("mask", udf, buffer)
            mask = _layer(name, {name: (partial(tasks.entry, (k, 1)), (finished.key, 0))}, finished)
            full = None
            if decl.kind == "nav" and roi is not None:
                name = self._name("whole", udf, buffer)
                shape = (*self.shape.nav, *decl.extra_shape)
                over = partial(
                    tasks.over_whole_scan, k, decl, self.shape, roi.reshape(-1), self._valid
                )
                full = _one_chunk(name, (over, (finished.key, 0)), shape, decl.dtype, [finished])
            found[buffer] = DelayedResult(raw, mask, full)
        return found

    def finished_native(
        self, udf: int, results: Mapping[str, BufferDeclaration], *, stepwise: bool
    ) -> dict[str, DelayedResult]:
        """The results of a native UDF that are merged; in steps, if it can be."""
        *early, (first, keys) = self._groups() if stepwise else [(0, self._keys)]
        steps, before = self._steps(udf, tasks.merge_native, early)
        name = self._name("finish", udf)
        task = partial(tasks.finish_native, udf, first), self._run_key, before, keys
        finished = _layer(name, {(name, 0): task}, *self._processed, steps)
        return self._results(udf, results, finished)

    def _groups(self) -> list[tuple[int, list[Any]]]:
        """Partitions that are merged together: the first, and the keys of all."""
        firsts = range(0, max(1, len(self._keys)), MERGED_TOGETHER)
        return [(first, self._keys[first : first + MERGED_TOGETHER]) for first in firsts]

    def _steps(
        self, udf: int, merge: Callable[..., Any], groups: Sequence[tuple[int, list[Any]]]
    ) -> tuple[Delayed, Any]:
        """The tasks that merge a group each into what the one before left; the last one's key."""
        name = self._name("merge", udf)
        layer: Layer = {}
        last: Any = None
        for k, (first, keys) in enumerate(groups):
            layer[name, k] = (partial(merge, udf, first), self._run_key, last, keys)
            last = (name, k)
        return _layer(name, layer, *self._processed), last

    def _item(
        self, udf: int, buffer: str, decl: BufferDeclaration, k: int, finished: Any
    ) -> da.Array:
        """Result number ``k`` of those that the last task gives."""
        name = self._name("result", udf, buffer)
        task = partial(tasks.entry, (k, 0)), (finished.key, 0)
        shape = decl.flat_shape(self.shape, self.n_selected)
        return _one_chunk(name, task, shape, decl.dtype, [finished])


def _layer(name: str, layer: Layer, *needs: Any) -> Delayed:
    """Tasks and, below them, what they need: a collection of Dask."""
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    graph = HighLevelGraph.from_collections(name, layer, dependencies=needs)
    return Delayed(name, graph, layer=name)


def _array(
    name: str, layer: Layer, chunks: Any, dtype: np.dtype[Any], needs: Sequence[Any]
) -> da.Array:
    import dask.array as da

    return da.Array(_layer(name, layer, *needs).dask, name, chunks, dtype=dtype)


def _one_chunk(
    name: str, task: Task, shape: tuple[int, ...], dtype: np.dtype[Any], needs: Sequence[Any]
) -> da.Array:
    layer = {(name, *(0 for _ in shape)): task}
    return _array(name, layer, tuple((length,) for length in shape), dtype, needs)


def over_scan(
    raw: da.Array,
    shape: Shape,
    roi: npt.NDArray[np.bool_] | None,
    valid: npt.NDArray[np.bool_],
) -> da.Array:
    """One entry per selected frame as an array in the shape of the scan.

    Positions outside of the ROI or without data hold what stands for no value.
    """
    if roi is None and valid.all():
        return raw.reshape((*shape.nav, *raw.shape[1:]))
    n_nav = shape.nav.size
    positions = np.arange(n_nav) if roi is None else np.flatnonzero(roi)
    bounds = np.cumsum((0, *raw.chunks[0]))
    # A chunk takes the positions from its first frame up to that of the next one.
    firsts = [int(positions[b]) if b < len(positions) else n_nav for b in bounds]
    firsts[0], firsts[-1] = 0, n_nav
    name = f"framefold-over-scan-{raw.name}"
    no_value = _no_value(raw.dtype)
    layer: Layer = {}
    for k, (start, stop) in enumerate(pairwise(firsts)):
        part = slice(bounds[k], bounds[k + 1])
        there = valid[part]
        places = positions[part][there] - start
        for rest in product(*(range(n) for n in raw.numblocks[1:])):
            spread = partial(tasks.spread, stop - start, places, there, no_value)
            layer[name, k, *rest] = (spread, (raw.name, k, *rest))
    lengths = tuple(b - a for a, b in pairwise(firsts))
    full = _array(name, layer, (lengths, *raw.chunks[1:]), raw.dtype, [raw])
    return full.reshape((*shape.nav, *raw.shape[1:]))
