"""Sum of each frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.common.buffers import BufferDeclaration
from framefold.udf._exact_sums import sums
from framefold.udf._with_params import check_names
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from framefold.api import Context
    from framefold.common.buffers import BufferWrapper
    from framefold.io.dataset.base import DataSet


class SumSigUDF(UDF):
    """Sum of all pixels of each frame: a picture of the scan.

    Runs on a native kernel: sums over integer data are exact before they are rounded.

    Parameters
    ----------
    **kwargs
        Parameters of derived classes; this one has none.

    Raises
    ------
    InvalidArgumentError
        If this class itself is given a parameter.

    Results
    -------
    intensity : kind ``nav``, dtype ``result_type(data, float32)``
    """

    _native_kernel = "sum_sig"

    def __init__(self, **kwargs: Any) -> None:
        if type(self) is SumSigUDF:
            check_names("SumSigUDF", kwargs, ())
        super().__init__(**kwargs)

    def get_backends(self) -> tuple[str, ...]:
        """All."""
        return self.BACKEND_ALL

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One number per frame."""
        dtype = np.result_type(self.meta.input_dtype, np.float32)
        return {"intensity": self.buffer(kind="nav", dtype=dtype, where="device")}

    def process_tile(self, tile: Any) -> None:
        """Add the pixels of each frame of the tile."""
        of_frames = sums(tile.reshape((tile.shape[0], -1)), axis=1)
        self.results.intensity[:] += self.forbuf(of_frames, self.results.intensity)


def run_sumsig(ctx: Context, dataset: DataSet, roi: Any = None) -> dict[str, BufferWrapper]:
    """Run :class:`SumSigUDF`.

    Parameters
    ----------
    ctx, dataset
        A context and a data set.
    roi
        As for :meth:`~framefold.api.Context.run_udf`.

    Returns
    -------
    dict
        ``intensity``: one number per frame.
    """
    return ctx.run_udf(dataset=dataset, udf=SumSigUDF(), roi=roi)
