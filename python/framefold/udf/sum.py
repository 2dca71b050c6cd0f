"""Sum of all frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common._dtypes import as_dtype
from framefold.common.buffers import BufferDeclaration
from framefold.common.sparse import to_dense
from framefold.udf._exact_sums import add, add_frames, sums, sums_fit
from framefold.udf.base import UDF


class SumUDF(UDF):
    """Sum of all frames, pixel by pixel.

    Runs on a native kernel: sums over integer data are exact before they are rounded to the
    result's dtype.

    Parameters
    ----------
    dtype
        Lower bound for the dtype of the result.

    Results
    -------
    intensity : kind ``sig``, dtype ``result_type(data, dtype)``
        Integers and booleans count as 64 bits wide, so that sums do not overflow; sums that do
        not fit even there are an :class:`~framefold.exceptions.InvalidArgumentError`.
    """

    _native_kernel = "sum"

    def __init__(self, dtype: npt.DTypeLike = "float32") -> None:
        super().__init__(dtype=dtype)

    def _native_parameters(self, dtype: np.dtype[Any]) -> dict[str, Any]:
        return {"dtype": as_dtype("dtype of SumUDF", self.params.dtype).name}

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The ``dtype`` parameter."""
        return as_dtype("dtype of SumUDF", self.params.dtype)

    def get_backends(self) -> tuple[str, ...]:
        """All."""
        return self.BACKEND_ALL

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One buffer of the shape of a frame."""
        dtype = np.result_type(self.meta.input_dtype, self.params.dtype)
        wide: dict[str, type[Any]] = {"b": np.int64, "i": np.int64, "u": np.uint64}
        dtype = np.dtype(wide.get(dtype.kind, np.result_type(dtype, np.float32)))
        return {"intensity": self.buffer(kind="sig", dtype=dtype, where="device")}

    def process_tile(self, tile: Any) -> None:
        """Add the frames of the tile."""
        intensity = self.results.intensity
        if isinstance(tile, np.ndarray):
            add_frames(intensity, tile)
        elif (
            intensity.dtype.kind in "iu"
            and tile.dtype.kind in "iu"
            and (isinstance(intensity, np.ndarray) or tile.dtype.itemsize == 8)
        ):
            # On the host, which sees whether they fit; on a device others always do.
            total = to_dense(intensity)
            if sums_fit(tile, axis=0):
                of_pixels = to_dense(sums(tile, axis=0)).reshape(total.shape)
                add(total, of_pixels.astype(total.dtype, casting="same_kind"))
            else:
                add_frames(total, to_dense(tile))
            intensity[:] = self.forbuf(total, intensity)
        else:
            intensity[:] += self.forbuf(sums(tile, axis=0), intensity)

    def merge(self, dest: Any, src: Any) -> None:
        """Add."""
        add(dest.intensity, src.intensity)
