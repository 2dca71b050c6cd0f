"""Names that scripts find at another place than where they are, as in the reference.

They are for users alone: no module of the package imports them from there.
"""

from __future__ import annotations

from typing import Any

#: Module and name, and the module that has it; imported when it is asked for.
ELSEWHERE = {
    "framefold.api": {
        "Analysis": "framefold.analysis.base",
        "AnalysisResultSet": "framefold.common.analysis",
        "AutoUDF": "framefold.udf.auto",
        "COMAnalysis": "framefold.analysis.com",
        "ConcurrentJobExecutor": "framefold.executor.concurrent",
        "CorrectionSet": "framefold.io.corrections.corrset",
        "DaskJobExecutor": "framefold.executor.dask",
        "DelayedJobExecutor": "framefold.executor.delayed",
        "DiskMaskAnalysis": "framefold.analysis.disk",
        "ExecutorSpecException": "framefold.exceptions",
        "InlineJobExecutor": "framefold.executor.inline",
        "MasksAnalysis": "framefold.analysis.masks",
        "PickFrameAnalysis": "framefold.analysis.raw",
        "PipelinedExecutor": "framefold.executor.pipelined",
        "PointMaskAnalysis": "framefold.analysis.point",
        "RadialFourierAnalysis": "framefold.analysis.radialfourier",
        "ResultAsyncGenerator": "framefold.run.aio",
        "ResultGenerator": "framefold.run.steps",
        "RingMaskAnalysis": "framefold.analysis.ring",
        "SumAnalysis": "framefold.analysis.sum",
        "UDFRunner": "framefold.udf.base",
        "cluster_spec": "framefold.executor.dask",
        "filetypes": "framefold.io.dataset",
        "get_dask_integration_executor": "framefold.executor.integration",
        "load": "framefold.io.dataset",
    },
    "framefold.masks": {
        "make_polar": "framefold.utils",
    },
    "framefold.udf.base": {
        "BufferWrapper": "framefold.common.buffers",
        "DataSetMeta": "framefold.io.dataset.base",
        "DataTile": "framefold.io.dataset.base",
        "NoOpUDF": "framefold.udf.noop",
        "Partition": "framefold.io.dataset.base",
        "Shape": "framefold.common.shape",
        "Slice": "framefold.common.slice",
        "UDFResultDict": "framefold.run.results",
        "UDFResults": "framefold.run.results",
        "UDFRunner": "framefold.run.inspecting",
    },
    "framefold.utils.generate": {
        "make_cartesian": "framefold.utils",
        "make_polar": "framefold.utils",
    },
}


def elsewhere(module: str, name: str) -> Any:
    """What ``name`` is in ``module``.

    Raises
    ------
    AttributeError
        If it is not there, as for any attribute.
    """
    found = ELSEWHERE[module].get(name)
    if found is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(found), name)
