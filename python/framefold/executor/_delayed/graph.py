"""The graph of tasks of a delayed run.

One task for each partition processes all UDFs. Buffers of kind ``nav`` that need no merging are
taken out of its result, chunk by chunk. All else is merged in partition order, some partitions at
a time, as every other executor does it; so the bits are the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common.buffers import BufferKind, _no_value
from framefold.common.shape import Shape
from framefold.executor._delayed import tasks

if TYPE_CHECKING:
    import dask.array as da

    from framefold.executor._delayed.tasks import DelayedRun

#: How many partitions one task merges.
MERGED_TOGETHER = 16

Layer = dict[Any, Any]


@dataclass(frozen=True)
class ResultSpec:
    """What is known of a result buffer before it is computed."""

    name: str
    kind: BufferKind
    extra_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def shape(self, dataset: Shape, n_selected: int) -> tuple[int, ...]:
        """Its shape, with flattened navigation axes."""
        if self.kind == "nav":
            return (n_selected, *self.extra_shape)
        if self.kind == "sig":
            return (*dataset.sig, *self.extra_shape)
        return self.extra_shape or (1,)


class Graph:
    """The tasks that process partitions, and what is made of their results."""

    def __init__(self, delayed: DelayedRun) -> None:
        from dask.highlevelgraph import HighLevelGraph

        run = self.run = delayed.run
        self._id = delayed.key
        self._valid = delayed.valid
        #: What ``get_results`` gives in the shape of the scan, by number of the UDF and name.
        self.over_scan: dict[tuple[int, str], da.Array] = {}
        self.shape = run.dataset.shape
        self.n_selected = self.shape.nav.size if run.roi is None else int(np.count_nonzero(run.roi))
        self.partitions = run.partitions
        self._run_key = f"framefold-run-{self._id}"
        self._processed = f"framefold-partition-{self._id}"
        layers = {self._run_key: {self._run_key: delayed}}
        needs = {self._run_key: set[str](), self._processed: {self._run_key}}
        array, blocks = run.dataset._blocks(run.partitions, run.roi)
        layer: Layer = {}
        for index in range(len(run.partitions)):
            task: tuple[Any, ...] = (tasks.Process(index), self._run_key)
            layer[self._processed, index] = task if array is None else (*task, blocks[index])
        layers[self._processed] = layer
        self._base = HighLevelGraph(layers, needs)
        if array is not None:
            self._base = HighLevelGraph.merge(array.__dask_graph__(), self._base)
            self._base.dependencies[self._processed] |= set(array.__dask_layers__())

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

    # What is taken out of partial results.

    def picked(self, udf: int, spec: ResultSpec, index: int) -> tuple[Any, ...]:
        """The task that takes a buffer out of the result of partition ``index``."""
        start, stop = self.partitions[index]
        shape = spec.shape(self.shape, stop - start)
        return (tasks.Pick(udf, spec.name, shape), (self._processed, index))

    def nav_rows(self, udf: int, spec: ResultSpec, *, native: bool) -> da.Array:
        """A buffer that needs no merging, one chunk for each partition."""
        layer: Layer = {}
        lengths = []
        name = self._name("rows", udf, spec.name)
        for k, (start, stop, index) in enumerate(self.chunks()):
            lengths.append(stop - start)
            key = (name, k, *(0 for _ in spec.extra_shape))
            if index is not None:
                layer[key] = self.picked(udf, spec, index)
            else:
                layer[key] = self._gap(udf, spec, start, stop, native)
        chunks = (tuple(lengths), *((length,) for length in spec.extra_shape))
        return self._array(name, layer, chunks, spec.dtype, {self._processed, self._run_key})

    def _gap(
        self, udf: int, spec: ResultSpec, start: int, stop: int, native: bool
    ) -> tuple[Any, ...]:
        """What a ``nav`` buffer holds for frames without data."""
        if native:
            shape = spec.shape(self.shape, stop - start)
            return (tasks.Fill(shape, spec.dtype, _no_value(spec.dtype)),)
        return (tasks.Initial(udf, spec.name, start, stop), self._run_key)

    def blocks(
        self, udf: int, spec: ResultSpec, chunks: Sequence[tuple[int, ...]], firsts: Sequence[int]
    ) -> da.Array:
        """A ``nav`` buffer in blocks of the scan, each a run of frames.

        Parameters
        ----------
        udf, of
            Whose buffer it is, and which.
        chunks
            The lengths of blocks along each navigation axis.
        firsts
            The first frame of each block, in order; a partition starts at each of them.
        """
        within: list[list[tuple[int, Any]]] = [[] for _ in firsts]
        for index, (start, _) in enumerate(self.partitions):
            block = bisect_right(firsts, start) - 1
            within[block].append((start - firsts[block], (self._processed, index)))
        name = self._name("blocks", udf, spec.name)
        layer: Layer = {}
        for number, place in zip(
            product(*(range(len(lengths)) for lengths in chunks)), within, strict=True
        ):
            nav = tuple(lengths[k] for lengths, k in zip(chunks, number, strict=True))
            task = tasks.Block(
                udf, spec.name, nav, spec.extra_shape, spec.dtype, [at for at, _ in place]
            )
            layer[name, *number, *(0 for _ in spec.extra_shape)] = (task, [key for _, key in place])
        whole = (*chunks, *((length,) for length in spec.extra_shape))
        return self._array(name, layer, whole, spec.dtype, {self._processed})

    def partial_results(self, udf: int, spec: ResultSpec) -> list[da.Array]:
        """The same buffer of all partitions, one array each."""
        name = self._name("partials", udf, spec.name)
        arrays = []
        for index, (start, stop) in enumerate(self.partitions):
            shape = spec.shape(self.shape, stop - start)
            own = f"{name}-{index}"
            layer = {(own, *(0 for _ in shape)): self.picked(udf, spec, index)}
            chunks = tuple((length,) for length in shape)
            arrays.append(self._array(own, layer, chunks, spec.dtype, {self._processed}))
        return arrays

    # Merging.

    def groups(self) -> Iterator[tuple[int, list[Any]]]:
        """Partitions that are merged together: the first, and the keys of all."""
        n = len(self.partitions)
        for first in range(0, n, MERGED_TOGETHER):
            stop = min(n, first + MERGED_TOGETHER)
            yield first, [(self._processed, index) for index in range(first, stop)]

    def merged(self, udf: int, buffers: Sequence[ResultSpec]) -> dict[str, da.Array]:
        """The merged buffers of a UDF in Python, by name."""
        name = self._name("merge", udf)
        layer: Layer = {}
        before: Any = None
        for k, (first, keys) in enumerate([*self.groups()] or [(0, [])]):
            layer[name, k] = (tasks.Merge(udf, first), self._run_key, before, keys)
            before = (name, k)
        steps = self._with(name, layer, {self._processed, self._run_key})
        arrays = {}
        for spec in buffers:
            own = self._name("merged", udf, spec.name)
            if spec.kind != "nav":
                shape = spec.shape(self.shape, 0)
                taken: Layer = {(own, *(0 for _ in shape)): (tasks.State(spec.name), before)}
                lengths: tuple[int, ...] = shape[:1]
                rest = shape[1:]
            else:
                taken, rest = {}, spec.extra_shape
                cut = self.chunks()
                lengths = tuple(stop - start for start, stop, _ in cut)
                for k, (start, stop, index) in enumerate(cut):
                    key = (own, k, *(0 for _ in rest))
                    if index is None:
                        taken[key] = self._gap(udf, spec, start, stop, native=False)
                    else:
                        group, place = divmod(index, MERGED_TOGETHER)
                        taken[key] = (tasks.Piece(spec.name, place), (name, group))
            chunks = (lengths, *((length,) for length in rest))
            arrays[spec.name] = self._array(
                own, taken, chunks, spec.dtype, {name, self._run_key}, steps
            )
        return arrays

    def finished(
        self, udf: int, merged: dict[str, da.Array], specs: Sequence[ResultSpec]
    ) -> dict[str, tuple[da.Array, Any]]:
        """The results of a UDF in Python that computes them from merged buffers."""
        from dask.highlevelgraph import HighLevelGraph

        whole = {
            # Chunks of kind ``nav`` are put together by the task.
            name: array.rechunk(dict.fromkeys(range(1, array.ndim), -1))
            for name, array in merged.items()
        }
        keys = [
            [(array.name, k, *(0 for _ in array.chunks[1:])) for k in range(array.numblocks[0])]
            for array in whole.values()
        ]
        name = self._name("finish", udf)
        layer: Layer = {(name, 0): (tasks.Finish(udf, tuple(whole)), self._run_key, keys)}
        graphs = [array.__dask_graph__() for array in whole.values()]
        below = HighLevelGraph.merge(self._base, *graphs)
        needs = {self._run_key, *(array.name for array in whole.values())}
        done = self._with(name, layer, needs, below)
        if self.run.roi is not None:
            for k, spec in enumerate(specs):
                if spec.kind == "nav":
                    self.over_scan[udf, spec.name] = self._whole(udf, k, spec, done, name)
        return self._items(udf, specs, done, name)

    def _whole(self, udf: int, k: int, spec: ResultSpec, below: Any, finish: str) -> da.Array:
        """Result number ``k`` in the shape of the scan, with what it has outside of the ROI."""
        run = self.run
        assert run.roi is not None
        shape = (*self.shape.nav, *spec.extra_shape)
        own = self._name("whole", udf, spec.name)
        task = tasks.Whole(k, spec, self.shape, run.roi.reshape(-1), self._valid)
        layer: Layer = {(own, *(0 for _ in shape)): (task, (finish, 0))}
        chunks = tuple((length,) for length in shape)
        return self._array(own, layer, chunks, spec.dtype, {finish}, below)

    def finished_native(
        self, udf: int, specs: Sequence[ResultSpec], *, stepwise: bool
    ) -> dict[str, tuple[da.Array, Any]]:
        """The results of a native UDF that are merged; in steps, if it can be."""
        groups = [*self.groups()] or [(0, [])]
        if not stepwise:
            groups = [(0, [key for _, keys in groups for key in keys])]
        name = self._name("merge", udf)
        layer: Layer = {}
        before: Any = None
        for k, (first, keys) in enumerate(groups[:-1]):
            layer[name, k] = (tasks.MergeNative(udf, first), self._run_key, before, keys)
            before = (name, k)
        first, keys = groups[-1]
        finish = self._name("finish", udf)
        last: Layer = {(finish, 0): (tasks.FinishNative(udf, first), self._run_key, before, keys)}
        below = self._with(name, layer, {self._processed, self._run_key})
        needs = {self._processed, self._run_key, name}
        return self._items(udf, specs, self._with(finish, last, needs, below), finish)

    def _items(
        self, udf: int, specs: Sequence[ResultSpec], below: Any, finish: str
    ) -> dict[str, tuple[da.Array, Any]]:
        """Each of the results that the last task gives, and its mask."""
        from dask.delayed import Delayed

        items = {}
        for k, spec in enumerate(specs):
            shape = spec.shape(self.shape, self.n_selected)
            own = self._name("result", udf, spec.name)
            layer: Layer = {(own, *(0 for _ in shape)): (tasks.Item(k), (finish, 0))}
            chunks = tuple((length,) for length in shape)
            array = self._array(own, layer, chunks, spec.dtype, {finish}, below)
            own = self._name("mask", udf, spec.name)
            graph = self._with(own, {own: (tasks.Mask(k), (finish, 0))}, {finish}, below)
            items[spec.name] = array, Delayed(own, graph, layer=own)
        return items

    # Layers.

    def _name(self, what: str, udf: int, buffer: str = "") -> str:
        return "-".join(part for part in ("framefold", what, str(udf), buffer, self._id) if part)

    def _with(self, name: str, layer: Layer, needs: set[str], below: Any = None) -> Any:
        from dask.highlevelgraph import HighLevelGraph

        below = self._base if below is None else below
        layers, dependencies = dict(below.layers), dict(below.dependencies)
        layers[name], dependencies[name] = layer, needs
        return HighLevelGraph(layers, dependencies)

    def _array(
        self,
        name: str,
        layer: Layer,
        chunks: tuple[tuple[int, ...], ...],
        dtype: np.dtype[Any],
        needs: set[str],
        below: Any = None,
    ) -> da.Array:
        import dask.array as da

        return da.Array(self._with(name, layer, needs, below), name, chunks, dtype=dtype)


def over_scan(
    raw: da.Array,
    shape: Shape,
    roi: npt.NDArray[np.bool_] | None,
    valid: npt.NDArray[np.bool_],
) -> da.Array:
    """One entry per selected frame as an array in the shape of the scan.

    Positions outside of the ROI or without data hold what stands for no value.
    """
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

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
            spread = tasks.Spread(stop - start, places, there, no_value)
            layer[name, k, *rest] = (spread, (raw.name, k, *rest))
    lengths = tuple(b - a for a, b in pairwise(firsts))
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[raw])
    full = da.Array(graph, name, (lengths, *raw.chunks[1:]), dtype=raw.dtype)
    return full.reshape((*shape.nav, *raw.shape[1:]))
