"""Runs as graphs of Dask tasks, computed when their results are."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.arrays.cuda.placement import Workers
from framefold.common.buffers import BufferDeclaration
from framefold.common.optional import require
from framefold.common.shape import Shape
from framefold.common.slice import Slice
from framefold.exceptions import InvalidResultError, UDFError, UnsupportedError
from framefold.executor._delayed.graph import DelayedResult, Graph
from framefold.executor._delayed.progress import computing
from framefold.executor._delayed.tasks import DelayedRun, noting
from framefold.executor.base import JobExecutor, check_main_process_gpu
from framefold.executor.utils.dask_buffer import DaskResultBufferWrapper
from framefold.run.results import UDFResultDict
from framefold.udf._resources import get_resources_for_backends
from framefold.udf.base import UDF
from framefold.udf.data import RESULTS, UDFData
from framefold.udf.engine.changes import own_values
from framefold.udf.engine.declarations import Buffers
from framefold.udf.engine.main_side import twin
from framefold.udf.engine.native import declared_by, finishes_in_python, leave_behind
from framefold.udf.engine.preprocessed import MainSideState
from framefold.udf.engine.results import cast, check_kind
from framefold.udf.native import as_udf

if TYPE_CHECKING:
    import dask.array as da

    from framefold.common.progress import ProgressReporter
    from framefold.run.plan import Run
    from framefold.udf.engine.bridge import Bridge

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
        if run.to_sink is not None:
            raise UnsupportedError(
                "out= writes results while they are computed, but a delayed run computes nothing "
                "yet; use another executor, or save() of the results"
            )
        if plots is not None and plots is not False:
            raise UnsupportedError(
                "plots show results while they are computed, but a delayed run computes nothing "
                "yet; use run_udf_iter, or another executor"
            )
        declared = [_result_buffers(run, index) for index in range(len(run.udfs))]
        if not all(declared):
            return None
        given = run.udfs
        _own_parameters(run)
        for bridge in run.bridges:
            if bridge is not None:
                _preprocess(run, bridge)
        delayed = DelayedRun(run, tells=progress is not None)
        for udf, bridge in zip(given, run.bridges, strict=True):
            if bridge is None:
                leave_behind(udf, run.dataset, run.roi, [], delayed.valid)
        return _results(delayed, declared, progress)

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
        udfs = as_udf(udfs)
        listed = [udfs] if isinstance(udfs, UDF) else [as_udf(udf) for udf in udfs]
        return get_resources_for_backends([udf.get_backends() for udf in listed], user_backends)


def _result_buffers(run: Run, index: int) -> Buffers:
    """The results of a UDF of the run, as they are declared."""
    udf, bridge = run.udfs[index], run.bridges[index]
    if bridge is None and not udf._native_finish:
        return {
            name: BufferDeclaration(kind, extra, dtype, None, None)
            for name, kind, extra, dtype in run.plan.results_of(index)
        }
    declared = declared_by(udf, run.dataset, run.roi) if bridge is None else bridge.declared
    return {name: decl for name, decl in declared.items() if decl.use != "private"}


def _own_parameters(run: Run) -> None:
    """Go on with copies of arrays among the parameters: their owner may fill them anew."""
    # Results of native kernels are finished by what the run has in its list.
    run.udfs = tuple(map(twin, run.udfs))
    for udf, bridge in zip(run.udfs, run.bridges, strict=True):
        recipe = udf if bridge is None else bridge.udf
        recipe._kwargs = own_values(recipe._kwargs)


def _preprocess(run: Run, bridge: Bridge) -> None:
    """Call ``preprocess`` of the user's own object; tasks go on with copies of it."""
    plan = run.plan
    task = bridge.describe_run(plan.tile_depth, list(plan.tile_shape), plan.n_partitions).merger()
    bridge.main_state = MainSideState(task.udf, task.arrays)
    # Twins merge later: what this object has are the initial values, which are no results.
    task.udf.results = UDFData(RESULTS)
    bridge.has_ended = True


def _results(
    delayed: DelayedRun, declared: Sequence[Buffers], progress: ProgressReporter | None
) -> tuple[UDFResultDict, ...]:
    run = delayed.run
    graph = Graph(delayed)
    flat = None if run.roi is None else run.roi.reshape(-1)
    results: list[UDFResultDict] = []
    for index, buffers in enumerate(declared):
        found = _delayed_results(graph, index, buffers)
        wrapped = {
            name: DaskResultBufferWrapper(
                decl.kind,
                decl.extra_shape,
                decl.dtype,
                delayed_raw=found[name].raw,
                delayed_mask=found[name].mask,
                delayed_full=found[name].full,
                compute=partial(computing, delayed, progress),
                dataset_shape=run.dataset.shape,
                roi=flat,
                valid=delayed.valid,
                about=run.about(index, name, decl.extra_shape),
            )
            for name, decl in buffers.items()
        }
        for each in wrapped.values():
            each._siblings = [weakref.ref(other) for other in wrapped.values()]
        results.append(UDFResultDict(wrapped))
    return tuple(results)


def _delayed_results(graph: Graph, index: int, results: Buffers) -> dict[str, DelayedResult]:
    """The results of a UDF by name."""
    run = graph.run
    udf, bridge = run.udfs[index], run.bridges[index]
    if bridge is None:
        if run.plan.by_rows(index) and not finishes_in_python(udf):
            return {
                name: DelayedResult(graph.nav_rows(index, name, decl, native=True))
                for name, decl in results.items()
            }
        kinds = {decl.kind for decl in results.values()}
        stepwise = "nav" not in kinds and run.plan.results(index).take_state() is not None
        return graph.finished_native(index, results, stepwise=stepwise)
    buffers = {name: decl for name, decl in bridge.declared.items() if decl.use != "result_only"}
    if udf._overrides("merge_all"):
        merged = _merged_by_udf(graph, index, buffers)
    elif not udf._overrides("merge"):
        merged = {
            name: graph.nav_rows(index, name, decl, native=False) for name, decl in buffers.items()
        }
    else:
        merged = graph.merged(index, buffers)
    if not udf._computes_results:
        return {name: DelayedResult(merged[name]) for name in results}
    return graph.finished(index, merged, results)


class PartialResults(dict[str, Any]):
    """The result buffers of one partition by name, which are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"there is no result buffer {name!r}; there are: {', '.join(self)}"
            ) from None


def _merged_by_udf(graph: Graph, index: int, buffers: Buffers) -> dict[str, da.Array]:
    """What the ``merge_all`` of a UDF makes of all partial results."""
    run = graph.run
    bridge = run.bridges[index]
    assert bridge is not None
    by_name = {name: graph.partial_results(index, name, decl) for name, decl in buffers.items()}
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
        name: _checked(
            graph, f"{bridge.name}.merge_all returned {name!r}", decl, returned.get(name)
        )
        for name, decl in buffers.items()
    }


def _checked(graph: Graph, what: str, decl: BufferDeclaration, value: Any) -> da.Array:
    """A buffer as ``merge_all`` returned it, in its shape and dtype; zeros for None."""
    import dask.array as da

    expected = decl.flat_shape(graph.shape, graph.n_selected)
    # Dask cannot tell how large objects are.
    chunks = -1 if decl.dtype.hasobject else "auto"
    if value is None:
        return da.zeros(expected, dtype=decl.dtype, chunks=chunks)
    if isinstance(value, da.Array):
        array = value
    elif decl.dtype.hasobject:
        array = da.from_array(np.asarray(value, dtype=decl.dtype), chunks=chunks)
    else:
        array = da.asarray(value)
    if decl.kind == "single" and array.shape == decl.extra_shape:
        array = array.reshape(expected)
    n_merged = sum(stop - start for start, stop in graph.partitions)
    needed = decl.flat_shape(graph.shape, n_merged)
    if array.shape != needed:
        raise InvalidResultError(
            f"{what} with shape {array.shape}; declared as kind={decl.kind!r}, "
            f"extra_shape={decl.extra_shape} it must have shape {needed}"
        )
    if array.dtype != decl.dtype:
        check_kind(what, array.dtype, decl.dtype)
        array = array.map_blocks(partial(cast, what, decl.dtype), dtype=decl.dtype)
    if decl.kind != "nav" or n_merged == graph.n_selected:
        return array
    pieces, done = [], 0
    for start, stop, index in graph.chunks():
        if index is None:
            shape = (stop - start, *array.shape[1:])
            pieces.append(da.zeros(shape, dtype=decl.dtype, chunks=chunks))
        else:
            pieces.append(array[done : done + stop - start])
            done += stop - start
    return da.concatenate(pieces)
