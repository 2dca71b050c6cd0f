"""Sum of log-scaled frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.common.buffers import BufferDeclaration
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from framefold.api import Context
    from framefold.common.buffers import BufferWrapper
    from framefold.io.dataset.base import DataSet


class LogsumUDF(UDF):
    """Sum of the logarithm of all frames: shows weak features next to strong ones.

    Each frame contributes ``log(frame - min(frame) + 1)``.

    Results
    -------
    logsum : kind ``sig``, dtype ``result_type(data, float32)``
    """

    _native_kernel = "logsum"

    def __init__(self) -> None:
        super().__init__()

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One buffer of the shape of a frame."""
        dtype = np.result_type(self.meta.input_dtype, np.float32)
        return {"logsum": self.buffer(kind="sig", dtype=dtype)}

    def process_frame(self, frame: Any) -> None:
        """Add the logarithm of the frame."""
        self.results.logsum[:] += np.log(frame - np.min(frame) + 1)

    def merge(self, dest: Any, src: Any) -> None:
        """Add."""
        dest.logsum[:] += src.logsum


def run_logsum(ctx: Context, dataset: DataSet, roi: Any = None) -> dict[str, BufferWrapper]:
    """Run :class:`LogsumUDF`.

    Parameters
    ----------
    ctx, dataset
        A context and a data set.
    roi
        As for :meth:`~framefold.api.Context.run_udf`.

    Returns
    -------
    dict
        ``logsum``: of the shape of a frame.
    """
    return ctx.run_udf(dataset=dataset, udf=LogsumUDF(), roi=roi)
