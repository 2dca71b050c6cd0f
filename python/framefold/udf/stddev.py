"""Standard deviation over all frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common.buffers import BufferDeclaration
from framefold.udf.base import UDF


class StdDevUDF(UDF):
    """Sum, mean, variance and standard deviation over all frames, pixel by pixel.

    Numerically stable: partial results are merged pairwise [1]_.

    Parameters
    ----------
    dtype
        Lower bound for the dtype of the result.
    use_numba
        Accepted for compatibility; without effect.

    Results
    -------
    var, std, mean, varsum, sum : kind ``sig``
        Variance (of the population), its root, mean, sum of squared deviations, and sum.
    num_frames : kind ``single``, int64
        The number of frames.

    References
    ----------
    .. [1] T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating Formulae and a Pairwise Algorithm
       for Computing Sample Variances", COMPSTAT 1982, 30-41.
    """

    _native_kernel = "stddev"

    def __init__(self, dtype: npt.DTypeLike = "float32", use_numba: bool = True) -> None:
        super().__init__(dtype=dtype, use_numba=use_numba)

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The ``dtype`` parameter."""
        dtype: np.dtype[Any] = np.dtype(self.params.dtype)
        return dtype

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """Moments that are merged, and what is computed from them."""
        dtype = np.result_type(self.meta.input_dtype, self.params.dtype, np.float64)
        return {
            "var": self.buffer(kind="sig", dtype=dtype, use="result_only"),
            "std": self.buffer(kind="sig", dtype=dtype, use="result_only"),
            "mean": self.buffer(kind="sig", dtype=dtype, use="result_only"),
            "varsum": self.buffer(kind="sig", dtype=dtype),
            "num_frames": self.buffer(kind="single", dtype="int64"),
            "sum": self.buffer(kind="sig", dtype=dtype),
        }

    def process_frame(self, frame: Any) -> None:
        """Add one frame."""
        self._add(self.results, 1, frame, 0)

    def merge(self, dest: Any, src: Any) -> None:
        """Add the moments of another set of frames."""
        self._add(dest, int(src.num_frames[0]), src.sum, src.varsum)

    @staticmethod
    def _add(dest: Any, n: int, total: Any, varsum: Any) -> None:
        present = int(dest.num_frames[0])
        if n and present:
            delta = total / n - dest.sum / present
            varsum = varsum + delta * np.conj(delta) * (present * n / (present + n))
        dest.varsum[:] += varsum
        dest.sum[:] += total
        dest.num_frames[:] += n

    def get_results(self) -> dict[str, Any]:
        """Divide by the number of frames."""
        n = max(int(self.results.num_frames[0]), 1)
        var = self.results.varsum / n
        return {"var": var, "std": np.sqrt(var), "mean": self.results.sum / n}
