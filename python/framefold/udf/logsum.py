"""Sum of log-scaled frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common.buffers import BufferDeclaration
from framefold.common.sparse import is_sparse, to_csr
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
    logsum : kind ``sig``, float32
    """

    _native_kernel = "logsum"

    def __init__(self) -> None:
        super().__init__()

    def get_backends(self) -> tuple[str, ...]:
        """Those that have any number of axes."""
        return (
            self.BACKEND_CUPY,
            self.BACKEND_NUMPY,
            self.BACKEND_SPARSE_COO,
            self.BACKEND_SPARSE_GCXS,
        )

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """Integers of 64 bits as they are: no float holds how far they are apart."""
        dtype = self.meta.dataset_dtype
        exact = dtype.kind in "iu" and dtype.itemsize == 8
        return self.USE_NATIVE_DTYPE if exact else super().get_preferred_input_dtype()

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One buffer of the shape of a frame."""
        return {"logsum": self.buffer(kind="sig", dtype=np.float32)}

    def process_frame(self, frame: Any) -> None:
        """Add the logarithm of the frame."""
        if is_sparse(frame):
            scaled = _scaled(to_csr(frame.reshape((1, -1))))
            self.results.logsum[:] += self.forbuf(scaled, self.results.logsum)
        else:
            self.results.logsum[:] += np.log(_above(frame, np.min(frame)) + 1)

    def merge(self, dest: Any, src: Any) -> None:
        """Add."""
        dest.logsum[:] += src.logsum


def _scaled(row: Any) -> npt.NDArray[Any]:
    """The logarithm of one sparse frame: one for all zeros, and one for each entry."""
    n_cells, entries = row.shape[1], row.data
    zero = np.zeros(1, entries.dtype)
    is_full = len(entries) == n_cells
    lowest = np.min(entries if is_full else np.append(entries, zero))
    of_entries: npt.NDArray[Any] = np.log(_above(entries, lowest) + 1)
    if is_full:
        return of_entries[np.argsort(row.indices)]
    scaled = np.full(n_cells, np.log(_above(zero, lowest) + 1))
    scaled[row.indices] = of_entries
    return scaled


def _above(values: Any, lowest: Any) -> Any:
    """How far values are above the lowest of them, in double precision."""
    if values.dtype.kind in "iu":
        # As unsigned numbers of as many bits, differences are exact.
        values, lowest = (values - lowest).view(f"u{values.dtype.itemsize}"), 0
    return values.astype(np.result_type(values.dtype, np.float64), copy=False) - lowest


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
