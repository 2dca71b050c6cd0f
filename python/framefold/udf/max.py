"""Maximum over all frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common.buffers import BufferDeclaration
from framefold.udf.base import UDF


class MaxUDF(UDF):
    """Maximum over all frames, pixel by pixel; NaN wins.

    Results
    -------
    intensity : kind ``sig``, dtype of the data
    """

    _native_kernel = "max"

    def __init__(self) -> None:
        super().__init__()

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The dtype of the data."""
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One buffer of the shape of a frame."""
        return {"intensity": self.buffer(kind="sig", dtype=self.meta.input_dtype)}

    def preprocess(self) -> None:
        """Begin with the smallest value of the dtype."""
        self.results.intensity[:] = _smallest(self.meta.input_dtype)

    def process_tile(self, tile: Any) -> None:
        """Take the larger."""
        self.results.intensity[:] = np.maximum(self.results.intensity, np.max(tile, axis=0))

    def merge(self, dest: Any, src: Any) -> None:
        """Take the larger."""
        dest.intensity[:] = np.maximum(dest.intensity, src.intensity)


def _smallest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf
