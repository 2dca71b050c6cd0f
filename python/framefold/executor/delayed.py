"""Runs as graphs of Dask tasks, computed when their results are."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.common.buffers import BufferDeclaration
from framefold.common.optional import require
from framefold.exceptions import InvalidResultError, UDFError, UnsupportedError
from framefold.executor.base import JobExecutor, check_main_process_gpu
from framefold.udf._resources import get_resources_for_backends
from framefold.udf.base import UDF

if TYPE_CHECKING:
    import dask.array as da

    from framefold._cuda.placement import Workers
    from framefold._partial_results import UDFResultDict
    from framefold._planning import Run
    from framefold.common.progress import ProgressReporter
    from framefold.executor._delayed.graph import Graph, Outline
    from framefold.executor._delayed.tasks import DelayedRun
    from framefold.udf._bridge import Bridge

__all__ = ["DelayedJobExecutor"]


class DelayedJobExecutor(JobExecutor):
    """Makes results Dask arrays, which are computed when somebody asks for them.

    :meth:`framefold.Context.run_udf` returns at once. Each result has its Dask arrays as
    ``delayed_data`` and ``delayed_raw_data``; ``data`` and all else that needs values computes
    them. Buffers of kind ``nav`` have a chunk for each partition. Which scheduler of Dask is used,
    with how many workers, is up to whoever calls ``compute()``, as for any other Dask array.

    Values are those of all other executors, bit for bit; those of UDFs with a ``merge_all`` of
    their own are what that makes of them.

    Runs that have no result, such as those of :class:`~framefold.udf.record.RecordUDF`, and runs
    with partial results (:meth:`framefold.Context.run_udf_iter`) are not delayed: they use threads
    of this process.

    Parameters
    ----------
    main_process_gpu
        Accepted and of no effect: partial results are merged on the CPU.

    Raises
    ------
    MissingLibraryError
        If Dask is not installed.
    """

    gpus = 0

    def find_workers(self, wishes: Sequence[tuple[str, ...]]) -> Workers:
        """Tasks run on the CPU."""
        from framefold._cuda.placement import Workers

        return Workers(why_none="delayed runs use the CPU alone; use another executor")

    def __init__(self, main_process_gpu: int | bool | None = None) -> None:
        check_main_process_gpu(main_process_gpu)
        require("dask.array", "DelayedJobExecutor", "delayed results")

    @classmethod
    def make_local(cls, main_process_gpu: int | bool | None = None) -> DelayedJobExecutor:
        """The same as calling the class."""
        return cls(main_process_gpu)

    def explain(self, run: Run) -> str:
        """When and where the partitions of a run are processed."""
        n = run.plan.n_partitions
        return f"executor    {n} tasks of Dask, one for each partition, when results are computed\n"

    def later(
        self, run: Run, progress: ProgressReporter | None, plots: Any
    ) -> tuple[UDFResultDict, ...] | None:
        """The results, to be computed."""
        if plots is not None and plots is not False:
            raise UnsupportedError(
                "plots show results while they are computed, but a delayed run computes nothing "
                "yet; use run_udf_iter, or another executor"
            )
        from framefold.executor._delayed.tasks import DelayedRun

        outlines = [outlines_of(run, index) for index in range(len(run.udfs))]
        if not all(outlines):
            return None
        for bridge in run.bridges:
            if bridge is not None:
                _begin(run, bridge)
        return _results(DelayedRun(run, tells=progress is not None), outlines, progress)

    @staticmethod
    def get_resources_from_udfs(
        udfs: UDF | Iterable[UDF], user_backends: Iterable[str] | None = None
    ) -> dict[str, int]:
        """The resources that Dask workers must have to run the UDFs.

        Parameters
        ----------
        udfs
            One UDF, or several.
        user_backends
            The array formats that a run is restricted to; no restriction if None.

        Returns
        -------
        dict
            For ``compute(resources=…)``: empty for UDFs that can run on the CPU, since any worker
            will do; ``CUDA``, ``compute`` and ``ndarray`` as far as they are needed by UDFs that
            cannot.
        """
        listed = [udfs] if isinstance(udfs, UDF) else udfs
        return get_resources_for_backends([udf.get_backends() for udf in listed], user_backends)


def outlines_of(run: Run, index: int) -> list[Outline]:
    """The results of a UDF of the run, before they are computed."""
    from framefold._native import _main_side
    from framefold.executor._delayed.graph import Outline

    udf, bridge = run.udfs[index], run.bridges[index]
    if bridge is None and not udf._native_finish:
        declared = run.plan.results_of(index)
        return [
            Outline(name, kind, (*extra,), np.dtype(dtype)) for name, kind, extra, dtype in declared
        ]
    if bridge is None:
        _, buffers = _main_side(udf, run.dataset, run.roi, None)
    else:
        buffers = _declared(bridge)
    return [
        Outline(name, decl.kind, decl.extra_shape, decl.dtype)
        for name, decl in buffers.items()
        if decl.use != "private"
    ]


def _begin(run: Run, bridge: Bridge) -> None:
    """Let the object that the user passed in begin; tasks go on with others like it."""
    from framefold.udf._main_side import Begun

    plan = run.plan
    task = bridge.begin(plan.tile_depth, list(plan.tile_shape), plan.n_partitions).merger()
    bridge.begun = Begun(task.udf, task.arrays)
    bridge.has_ended = True


def _declared(bridge: Bridge) -> dict[str, BufferDeclaration]:
    """The declared buffers of a UDF in Python."""
    from framefold.udf._declarations import declared_buffers

    return declared_buffers(bridge.copy_with(bridge.meta(), bridge.aux_for(0, bridge.n_selected)))


def _results(
    delayed: DelayedRun, outlines: Sequence[Sequence[Outline]], progress: ProgressReporter | None
) -> tuple[UDFResultDict, ...]:
    from framefold.executor._delayed.compute import Computing
    from framefold.executor._delayed.graph import Graph
    from framefold.executor.utils.dask_buffer import DaskResultBufferWrapper

    run = delayed.run
    graph = Graph(delayed)
    flat = None if run.roi is None else run.roi.reshape(-1)
    compute = Computing(delayed, progress)
    results: list[UDFResultDict] = []
    for index, of_udf in enumerate(outlines):
        arrays = _arrays(graph, index, of_udf)
        wrapped = [
            DaskResultBufferWrapper(
                of.kind,
                of.extra_shape,
                of.dtype,
                delayed_raw=arrays[of.name][0],
                delayed_mask=arrays[of.name][1],
                delayed_full=graph.over_scan.get((index, of.name)),
                compute=compute,
                dataset_shape=run.dataset.shape,
                roi=flat,
                valid=delayed.valid,
            )
            for of in of_udf
        ]
        for each in wrapped:
            each._siblings = [weakref.ref(other) for other in wrapped]
        results.append({of.name: each for of, each in zip(of_udf, wrapped, strict=True)})
    return tuple(results)


def _arrays(
    graph: Graph, index: int, outlines: Sequence[Outline]
) -> dict[str, tuple[da.Array, Any]]:
    """The results of a UDF by name, each with its mask if it can have one."""
    from framefold.executor._delayed.graph import Outline

    run = graph.run
    udf, bridge = run.udfs[index], run.bridges[index]
    if bridge is None:
        if not udf._native_finish and all(of.kind == "nav" for of in outlines):
            return {of.name: (graph.nav_rows(index, of, native=True), None) for of in outlines}
        stepwise = all(of.kind != "nav" for of in outlines)
        stepwise = stepwise and run.plan.results(index).take_state() is not None
        return graph.finished_native(index, outlines, stepwise=stepwise)
    buffers = [
        Outline(name, decl.kind, decl.extra_shape, decl.dtype)
        for name, decl in _declared(bridge).items()
        if decl.use != "result_only"
    ]
    if type(udf).merge_all is not UDF.merge_all:
        merged = _merged_by_udf(graph, index, buffers)
    elif type(udf).merge is UDF.merge:
        merged = {of.name: graph.nav_rows(index, of, native=False) for of in buffers}
    else:
        merged = graph.merged(index, buffers)
    if type(udf).get_results is UDF.get_results:
        return {of.name: (merged[of.name], None) for of in outlines}
    return graph.finished(index, merged, outlines)


class PartialResults(dict[str, Any]):
    """The result buffers of one partition by name, which are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"there is no result buffer {name!r}; there are: {', '.join(self)}"
            ) from None


def _merged_by_udf(graph: Graph, index: int, buffers: Sequence[Outline]) -> dict[str, da.Array]:
    """What the ``merge_all`` of a UDF makes of all partial results."""
    from framefold.common.shape import Shape
    from framefold.common.slice import Slice

    run = graph.run
    bridge = run.bridges[index]
    assert bridge is not None
    by_name = {of.name: graph.partial_results(index, of) for of in buffers}
    sig = run.dataset.shape.sig
    ordered = {}
    for k, (start, stop) in enumerate(graph.partitions):
        shape = Shape((stop - start, *sig), sig_dims=len(sig))
        part = {name: arrays[k] for name, arrays in by_name.items()}
        ordered[Slice((start, *(0 for _ in sig)), shape)] = PartialResults(part)
    own = bridge.own()
    if own is None:
        own = bridge.copy_with(bridge.meta(), bridge.aux_for(0, bridge.n_selected))
    merge_all: Callable[[Any], Any] = own.merge_all
    if not ordered:
        returned: Any = {}
    else:
        try:
            returned = merge_all(ordered)
        except Exception as error:
            error.add_note(f"raised while framefold ran UDF {bridge.name}, merge_all")
            raise
    if not isinstance(returned, Mapping):
        raise UDFError(
            f"{bridge.name}.merge_all returned {type(returned).__name__}, expected a dict of "
            f"buffer name to array"
        )
    unknown = [name for name in returned if name not in by_name]
    if unknown:
        raise InvalidResultError(
            f"{bridge.name}.merge_all returned {unknown[0]!r}, which is none of the buffers to "
            f"merge; these are {', '.join(by_name)}"
        )
    return {of.name: _checked(graph, bridge.name, of, returned.get(of.name)) for of in buffers}


def _checked(graph: Graph, udf: str, of: Outline, value: Any) -> da.Array:
    """A buffer as ``merge_all`` returned it, in its shape and dtype; zeros for None."""
    import dask.array as da

    expected = of.shape(graph.shape, graph.n_selected)
    if value is None:
        return da.zeros(expected, dtype=of.dtype)
    array = da.asarray(value)
    if of.kind == "single" and array.shape == of.extra_shape:
        array = array.reshape(expected)
    n_merged = sum(stop - start for start, stop in graph.partitions)
    if array.shape != of.shape(graph.shape, n_merged):
        raise InvalidResultError(
            f"{udf}.merge_all returned {of.name!r} with shape {array.shape}; declared as "
            f"kind={of.kind!r}, extra_shape={of.extra_shape} it must have shape "
            f"{of.shape(graph.shape, n_merged)}"
        )
    if array.dtype != of.dtype:
        array = array.astype(of.dtype)
    if of.kind != "nav" or n_merged == graph.n_selected:
        return array
    pieces, done = [], 0
    for start, stop, index in graph.chunks():
        if index is None:
            pieces.append(da.zeros((stop - start, *array.shape[1:]), dtype=of.dtype))
        else:
            pieces.append(array[done : done + stop - start])
            done += stop - start
    return da.concatenate(pieces)
