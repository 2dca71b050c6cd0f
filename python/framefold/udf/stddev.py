"""Standard deviation over all frames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common._dtypes import as_dtype
from framefold.common.buffers import BufferDeclaration
from framefold.common.udf import UDFMethod
from framefold.exceptions import InvalidArgumentError
from framefold.udf.base import UDF, own_method

if TYPE_CHECKING:
    from framefold.api import Context
    from framefold.io.dataset.base import DataSet


class StdDevUDF(UDF):
    """Sum, mean, variance and standard deviation over all frames, pixel by pixel.

    Numerically stable: partial results are merged pairwise [1]_. Runs on a native kernel, which
    computes in double precision; of integers, sums and differences from the mean are exact before
    they are rounded to it, in scans of up to 2³² frames. On CUDA devices, and in classes that
    override a method, integers of 64 bits are rounded first.

    Parameters
    ----------
    dtype
        Lower bound for the dtype of sum and mean, and the dtype (its real counterpart) of the
        others; float64 if None. What is beyond its range is infinite.
    use_numba
        Accepted for compatibility; without effect.

    Results
    -------
    var, std, varsum : kind ``sig``, real
        Variance (of the population), its root, and the sum of squared deviations.
    mean, sum : kind ``sig``, dtype ``result_type(data, dtype)``
        Of complex data these are complex.
    num_frames : kind ``single``, int64
        The number of frames.

    References
    ----------
    .. [1] T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating Formulae and a Pairwise Algorithm
       for Computing Sample Variances", COMPSTAT 1982, 30-41.
    """

    _native_kernel = "stddev"
    _native_finish = True

    def __init__(self, dtype: npt.DTypeLike | None = None, use_numba: bool = True) -> None:
        super().__init__(dtype=dtype, use_numba=use_numba)

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The ``dtype`` parameter, or float64."""
        return self._dtype()

    def get_backends(self) -> tuple[str, ...]:
        """Dense ones: deviations are not sparse."""
        return (self.BACKEND_CUPY, self.BACKEND_NUMPY)

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """Moments that are merged, and what is computed from them."""
        dtype = np.result_type(self.meta.dataset_dtype, self._dtype(), np.float32)
        real = np.zeros(0, np.result_type(self._dtype(), np.float32)).real.dtype
        return {
            "var": self.buffer(kind="sig", dtype=real, use="result_only"),
            "std": self.buffer(kind="sig", dtype=real, use="result_only"),
            "mean": self.buffer(kind="sig", dtype=dtype, use="result_only"),
            "varsum": self.buffer(kind="sig", dtype=real),
            "num_frames": self.buffer(kind="single", dtype="int64"),
            "sum": self.buffer(kind="sig", dtype=dtype),
        }

    def get_method(self) -> UDFMethod | str:
        """Tiles; single frames in classes that have a ``process_frame`` of their own."""
        return own_method(self, StdDevUDF)

    def get_task_data(self) -> dict[str, Any]:
        """How many frames there were, for each part of the frame that tiles have."""
        return {"num_frames": defaultdict(int)}

    def process_tile(self, tile: Any) -> None:
        """Add the frames of a tile."""
        total = tile.sum(axis=0, dtype=self.results.sum.dtype)
        varsum = _squares(tile - total / len(tile)).sum(axis=0)
        part, counts = self.meta.tiling_scheme_idx, self.task_data.num_frames
        self._add(self.results, counts[part], len(tile), total, varsum)
        counts[part] += len(tile)
        # Each part of a frame is a tile of its own.
        self.results.num_frames[:] = max(counts.values())

    def process_frame(self, frame: Any) -> None:
        """Add one frame, for classes that have a ``process_frame`` of their own."""
        self._add(self.results, int(self.results.num_frames[0]), 1, frame, 0)
        self.results.num_frames[:] += 1

    def merge(self, dest: Any, src: Any) -> None:
        """Add the moments of another set of frames."""
        n = int(src.num_frames[0])
        self._add(dest, int(dest.num_frames[0]), n, src.sum, src.varsum)
        dest.num_frames[:] += n

    @staticmethod
    def _add(dest: Any, present: int, n: int, total: Any, varsum: Any) -> None:
        if n and present:
            delta = total / n - dest.sum / present
            varsum = varsum + _squares(delta) * (present * n / (present + n))
        dest.varsum[:] += varsum
        dest.sum[:] += total

    def get_results(self) -> dict[str, Any]:
        """Divide by the number of frames."""
        n = max(int(self.results.num_frames[0]), 1)
        var, total = self.results.varsum / n, self.results.sum
        if total.dtype.kind != "c":
            mean = total / n
        else:
            # A quotient of complex numbers is NaN in both parts where one is infinite.
            mean = np.empty_like(total)
            mean.real, mean.imag = total.real / n, total.imag / n
        return {"var": var, "std": np.sqrt(var), "mean": mean}

    def _dtype(self) -> np.dtype[Any]:
        dtype = self.params.dtype
        found = as_dtype("dtype of StdDevUDF", np.float64 if dtype is None else dtype)
        if found.kind not in "biufc":
            raise InvalidArgumentError(f"dtype of StdDevUDF is {found}, expected one of numbers")
        return found


def _squares(values: Any) -> Any:
    """The squared magnitudes, in the place of real numbers: another array takes as long again."""
    if values.dtype.kind == "c":
        return (values * np.conj(values)).real
    values *= values
    return values


def consolidate_result(udf_result: Mapping[str, Any]) -> dict[str, Any]:
    """The results of :class:`StdDevUDF` as plain arrays.

    Returns
    -------
    dict
        ``num_frames`` as a number; ``varsum``, ``sum``, ``var``, ``std`` and ``mean`` as
        :class:`numpy.ndarray` of the shape of a frame.
    """
    result: dict[str, Any] = {"num_frames": np.asarray(udf_result["num_frames"]).reshape(-1)[0]}
    for name in ("varsum", "sum", "var", "std", "mean"):
        result[name] = np.asarray(udf_result[name])
    return result


def run_stddev(
    ctx: Context, dataset: DataSet, roi: Any = None, progress: bool = False, use_numba: bool = True
) -> dict[str, Any]:
    """Run :class:`StdDevUDF`.

    Parameters
    ----------
    ctx, dataset
        A context and a data set.
    roi, progress
        As for :meth:`~framefold.api.Context.run_udf`.
    use_numba
        Without effect.

    Returns
    -------
    dict
        As :func:`consolidate_result` returns them.
    """
    udf = StdDevUDF(use_numba=use_numba)
    return consolidate_result(ctx.run_udf(dataset=dataset, udf=udf, roi=roi, progress=progress))
