"""Sum of log-scaled frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from framefold.common.buffers import BufferDeclaration
from framefold.udf.base import UDF


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
