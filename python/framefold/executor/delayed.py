"""Runs as graphs of Dask tasks, computed when their results are."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
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
    from framefold.common.progress import ProgressReporter
    from framefold.executor._delayed.graph import DelayedResult, Graph, ResultSpec
    from framefold.executor._delayed.tasks import DelayedRun
    from framefold.run.plan import Run
    from framefold.run.results import UDFResultDict
    from framefold.udf._bridge import Bridge

__all__ = ["DelayedJobExecutor"]


class DelayedJobExecutor(JobExecutor):
    """Makes results Dask arrays, which are computed when their values are used.

    :meth:`framefold.Context.run_udf` returns at once. Each result has its Dask arrays as
    ``delayed_data`` and ``delayed_raw_data``; ``data`` and all else that needs values computes
    them. Buffers of kind ``nav`` have a chunk for each partition. Which scheduler of Dask is used,
    with how many workers, is up to the caller of ``compute()``, as for any other Dask array.

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

        specs = [result_specs(run, index) for index in range(len(run.udfs))]
        if not all(specs):
            return None
        for bridge in run.bridges:
            if bridge is not None:
                _preprocess(run, bridge)
        return _results(DelayedRun(run, tells=progress is not None), specs, progress)

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


def result_specs(run: Run, index: int) -> list[ResultSpec]:
    """The results of a UDF of the run, before they are computed."""
    from framefold.executor._delayed.graph import ResultSpec
    from framefold.udf._native import _main_side

    udf, bridge = run.udfs[index], run.bridges[index]
    if bridge is None and not udf._native_finish:
        declared = run.plan.results_of(index)
        return [
            ResultSpec(name, kind, (*extra,), np.dtype(dtype))
            for name, kind, extra, dtype in declared
        ]
    if bridge is None:
        _, buffers = _main_side(udf, run.dataset, run.roi, None)
    else:
        buffers = _declared(bridge)
    return [
        ResultSpec(name, decl.kind, decl.extra_shape, decl.dtype)
        for name, decl in buffers.items()
        if decl.use != "private"
    ]


def _preprocess(run: Run, bridge: Bridge) -> None:
    """Call ``preprocess`` of the user's own object; tasks go on with copies of it."""
    from framefold.udf._preprocessed import MainSideState

    plan = run.plan
    task = bridge.describe_run(plan.tile_depth, list(plan.tile_shape), plan.n_partitions).merger()
    bridge.main_state = MainSideState(task.udf, task.arrays)
    bridge.has_ended = True


def _declared(bridge: Bridge) -> dict[str, BufferDeclaration]:
    """The declared buffers of a UDF in Python."""
    from framefold.udf._declarations import declared_buffers

    return declared_buffers(bridge.copy_with(bridge.meta(), bridge.aux_for(0, bridge.n_selected)))


def _results(
    delayed: DelayedRun, specs: Sequence[Sequence[ResultSpec]], progress: ProgressReporter | None
) -> tuple[UDFResultDict, ...]:
    from framefold.executor._delayed.graph import Graph
    from framefold.executor._delayed.progress import computing
    from framefold.executor.utils.dask_buffer import DaskResultBufferWrapper

    run = delayed.run
    graph = Graph(delayed)
    flat = None if run.roi is None else run.roi.reshape(-1)
    results: list[UDFResultDict] = []
    for index, udf_specs in enumerate(specs):
        found = _delayed_results(graph, index, udf_specs)
        wrapped = {
            spec.name: DaskResultBufferWrapper(
                spec.kind,
                spec.extra_shape,
                spec.dtype,
                delayed_raw=found[spec.name].raw,
                delayed_mask=found[spec.name].mask,
                delayed_full=found[spec.name].full,
                compute=partial(computing, delayed, progress),
                dataset_shape=run.dataset.shape,
                roi=flat,
                valid=delayed.valid,
            )
            for spec in udf_specs
        }
        for each in wrapped.values():
            each._siblings = [weakref.ref(other) for other in wrapped.values()]
        results.append(dict(wrapped))
    return tuple(results)


def _delayed_results(
    graph: Graph, index: int, specs: Sequence[ResultSpec]
) -> dict[str, DelayedResult]:
    """The results of a UDF by name."""
    from framefold.executor._delayed.graph import DelayedResult, ResultSpec

    run = graph.run
    udf, bridge = run.udfs[index], run.bridges[index]
    if bridge is None:
        kinds = {spec.kind for spec in specs}
        if kinds == {"nav"} and not udf._native_finish:
            rows = {spec.name: graph.nav_rows(index, spec, native=True) for spec in specs}
            return {name: DelayedResult(array) for name, array in rows.items()}
        stepwise = "nav" not in kinds and run.plan.results(index).take_state() is not None
        return graph.finished_native(index, specs, stepwise=stepwise)
    buffers = [
        ResultSpec(name, decl.kind, decl.extra_shape, decl.dtype)
        for name, decl in _declared(bridge).items()
        if decl.use != "result_only"
    ]
    if type(udf).merge_all is not UDF.merge_all:
        merged = _merged_by_udf(graph, index, buffers)
    elif type(udf).merge is UDF.merge:
        merged = {spec.name: graph.nav_rows(index, spec, native=False) for spec in buffers}
    else:
        merged = graph.merged(index, buffers)
    if type(udf).get_results is UDF.get_results:
        return {spec.name: DelayedResult(merged[spec.name]) for spec in specs}
    return graph.finished(index, merged, specs)


class PartialResults(dict[str, Any]):
    """The result buffers of one partition by name, which are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"there is no result buffer {name!r}; there are: {', '.join(self)}"
            ) from None


def _merged_by_udf(graph: Graph, index: int, buffers: Sequence[ResultSpec]) -> dict[str, da.Array]:
    """What the ``merge_all`` of a UDF makes of all partial results."""
    from framefold.common.shape import Shape
    from framefold.common.slice import Slice
    from framefold.executor._delayed.tasks import noting

    run = graph.run
    bridge = run.bridges[index]
    assert bridge is not None
    by_name = {spec.name: graph.partial_results(index, spec) for spec in buffers}
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
        with noting(f"UDF {bridge.name}, merge_all"):
            returned = merge_all(ordered)
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
    return {
        spec.name: _checked(graph, bridge.name, spec, returned.get(spec.name)) for spec in buffers
    }


def _checked(graph: Graph, udf: str, spec: ResultSpec, value: Any) -> da.Array:
    """A buffer as ``merge_all`` returned it, in its shape and dtype; zeros for None."""
    import dask.array as da

    expected = spec.shape(graph.shape, graph.n_selected)
    if value is None:
        return da.zeros(expected, dtype=spec.dtype)
    array = da.asarray(value)
    if spec.kind == "single" and array.shape == spec.extra_shape:
        array = array.reshape(expected)
    n_merged = sum(stop - start for start, stop in graph.partitions)
    if array.shape != spec.shape(graph.shape, n_merged):
        raise InvalidResultError(
            f"{udf}.merge_all returned {spec.name!r} with shape {array.shape}; declared as "
            f"kind={spec.kind!r}, extra_shape={spec.extra_shape} it must have shape "
            f"{spec.shape(graph.shape, n_merged)}"
        )
    if array.dtype != spec.dtype:
        array = array.astype(spec.dtype)
    if spec.kind != "nav" or n_merged == graph.n_selected:
        return array
    pieces, done = [], 0
    for start, stop, index in graph.chunks():
        if index is None:
            pieces.append(da.zeros((stop - start, *array.shape[1:]), dtype=spec.dtype))
        else:
            pieces.append(array[done : done + stop - start])
            done += stop - start
    return da.concatenate(pieces)
