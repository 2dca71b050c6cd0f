"""Fluctuation electron microscopy."""  # noqa: N999 - the interface's own name

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from framefold import _engine
from framefold.common._numbers import number, place
from framefold.common.buffers import BufferDeclaration
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.masks._disks import in_disk
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from framefold.api import Context
    from framefold.common.buffers import BufferWrapper
    from framefold.io.dataset.base import DataSet


class FEMUDF(UDF):
    """Standard deviation of the pixels of a ring, for each frame [1]_.

    Medium-range order in a disordered material shows as a large deviation. Pixels that corrections
    exclude count with the value that is put in their place.

    Parameters
    ----------
    center
        The centre of the ring in pixels, as (y, x).
    rad_in, rad_out
        The radii of the ring in pixels: pixels with ``rad_in < distance <= rad_out`` count. That at
        the centre does if ``rad_in`` is below 0.

    Results
    -------
    intensity : kind ``nav``, dtype ``float32``

    Raises
    ------
    InvalidArgumentError
        When run, if there is no pixel in the ring, or one of these is no number.

    References
    ----------
    .. [1] M. M. J. Treacy, J. M. Gibson, "Variable coherence microscopy: a rich source of
       structural information from disordered materials", Acta Cryst. A 52 (1996), 212-220.
    """

    def __init__(self, center: tuple[float, float], rad_in: float, rad_out: float) -> None:
        super().__init__(center=center, rad_in=rad_in, rad_out=rad_out)

    def _doubts(self, dataset: DataSet) -> list[str]:
        # The centre alone: a ring without a pixel is an error.
        cy, cx, _, _ = self._numbers()
        return _engine.doubts("com", {"cy": cy, "cx": cx}, tuple(dataset.shape.sig))

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One number per frame."""
        self._ring()
        return {"intensity": self.buffer(kind="nav", dtype="float32")}

    def get_task_data(self) -> dict[str, Any]:
        """The pixels of the ring."""
        return {"ring": self._ring()}

    def process_frame(self, frame: Any) -> None:
        """The deviation within one frame."""
        pixels = frame[self.task_data.ring]
        deviation = np.std(pixels, dtype=np.result_type(pixels.dtype, np.float64))
        self.results.intensity[:] = deviation.real  # of complex numbers it is one, too

    def _ring(self) -> Any:
        sig = tuple(self.meta.dataset_shape.sig)
        if len(sig) != 2:
            raise UnsupportedError(
                f"FEMUDF: a ring needs frames with two axes, these have shape {sig}; load the "
                f"data with a two-dimensional signal shape"
            )
        cy, cx, rad_in, rad_out = self._numbers()
        y, x = np.ogrid[: sig[0], : sig[1]]
        ring = in_disk(y - cy, x - cx, rad_out) & ~in_disk(y - cy, x - cx, rad_in)
        if not ring.any():
            raise InvalidArgumentError(
                f"FEMUDF: frames of shape {sig} have no pixel in the ring around (y, x) = "
                f"({cy}, {cx}) with radii {rad_in} and {rad_out}; choose rad_in < rad_out, and "
                f"a centre within the frame"
            )
        return ring

    def _numbers(self) -> tuple[float, float, float, float]:
        """The centre as y and x, and the radii."""
        center, rad_in, rad_out = self.params.center, self.params.rad_in, self.params.rad_out
        return (
            *place("center of FEMUDF", center),
            number("rad_in of FEMUDF", rad_in, -inf, inf, "pixels"),
            number("rad_out of FEMUDF", rad_out, -inf, inf, "pixels"),
        )


def run_fem(
    ctx: Context,
    dataset: DataSet,
    center: tuple[float, float],
    rad_in: float,
    rad_out: float,
    roi: Any = None,
) -> dict[str, BufferWrapper]:
    """Run :class:`FEMUDF`.

    Parameters
    ----------
    ctx, dataset
        A context, and a data set with two signal axes.
    center, rad_in, rad_out
        As for :class:`FEMUDF`.
    roi
        As for :meth:`~framefold.api.Context.run_udf`.

    Returns
    -------
    dict
        ``intensity``: one number per frame.
    """
    return ctx.run_udf(dataset=dataset, udf=FEMUDF(center, rad_in, rad_out), roi=roi)
