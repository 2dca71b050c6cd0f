"""Names that scripts find in :mod:`framefold.api`, as in the reference, beside the context."""

from __future__ import annotations

#: Name and module; imported when it is asked for.
ELSEWHERE = {
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
}
