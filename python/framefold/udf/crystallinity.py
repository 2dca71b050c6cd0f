"""Crystallinity: how much of a frame repeats itself."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from framefold import masks
from framefold.common._numbers import number, place
from framefold.common.buffers import BufferDeclaration
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.masks._disks import in_disk
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from framefold.api import Context
    from framefold.common.buffers import BufferWrapper
    from framefold.io.dataset.base import DataSet


class CrystallinityUDF(UDF):
    """Sum over a ring of the Fourier spectrum of each frame.

    A lattice of disks makes peaks in the spectrum, an amorphous ring does not. The zero order
    disk can be left out, by a circle in the frame. Sums up the magnitudes of the columns of the
    spectrum from frequency 0 on: those to its left are, in real data, mirror images. Column 0 is
    there as a whole, so that what lies on it counts twice, and a frame that is turned by 90 degrees
    can have up to twice or half the number.

    Parameters
    ----------
    rad_in, rad_out
        The radii of the ring, in pixels of the spectrum (periods per frame): where
        ``rad_in < distance <= rad_out``.
    real_center
        Centre (y, x) in pixels of the circle to leave out.
    real_rad
        Its radius in pixels, rim included. Nothing is left out if one of both is None.

    Results
    -------
    intensity : kind ``nav``, dtype ``float32``

    Raises
    ------
    InvalidArgumentError
        When run, if there is nothing in the ring.
    """

    def __init__(
        self,
        rad_in: float,
        rad_out: float,
        real_center: tuple[float, float] | None = None,
        real_rad: float | None = None,
    ) -> None:
        super().__init__(rad_in=rad_in, rad_out=rad_out, real_center=real_center, real_rad=real_rad)

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One number per frame."""
        if self.meta.input_dtype.kind == "c":
            raise UnsupportedError(
                "CrystallinityUDF: complex frames are not supported; use their squared magnitude"
            )
        self._ring()
        return {"intensity": self.buffer(kind="nav", dtype="float32")}

    def get_task_data(self) -> dict[str, Any]:
        """The ring in the spectrum, and the pixels to keep."""
        keep = None
        center, radius = self.params.real_center, self.params.real_rad
        if center is not None and radius is not None:
            height, width = self.meta.dataset_shape.sig
            cy, cx = place("real_center of CrystallinityUDF", center)
            keep = ~masks.circular(cx, cy, width, height, radius)
        return {"ring": self._ring(), "keep": keep}

    def process_frame(self, frame: Any) -> None:
        """The sum for one frame."""
        keep = self.task_data.keep
        if keep is not None:
            frame = np.where(keep, frame, 0)
        spectrum = np.fft.rfft2(frame)
        self.results.intensity[:] = np.sum(np.abs(spectrum[self.task_data.ring]))

    def _ring(self) -> Any:
        sig = tuple(self.meta.dataset_shape.sig)
        if len(sig) != 2:
            raise UnsupportedError(
                f"CrystallinityUDF: a spectrum needs frames with two axes, these have shape "
                f"{sig}; load the data with a two-dimensional signal shape"
            )
        rad_in = number("rad_in of CrystallinityUDF", self.params.rad_in, -inf, inf)
        rad_out = number("rad_out of CrystallinityUDF", self.params.rad_out, -inf, inf)
        periods_y = np.fft.fftfreq(sig[0], 1 / sig[0])
        periods_x = np.fft.rfftfreq(sig[1], 1 / sig[1])
        periods = periods_y[:, np.newaxis], periods_x
        ring = in_disk(*periods, rad_out) & ~in_disk(*periods, rad_in)
        if not ring.any():
            raise InvalidArgumentError(
                f"CrystallinityUDF: the spectrum of frames of shape {sig} has nothing in the "
                f"ring with radii {rad_in} and {rad_out}; choose rad_in < rad_out"
            )
        return ring


def run_analysis_crystall(
    ctx: Context,
    dataset: DataSet,
    rad_in: float,
    rad_out: float,
    real_center: tuple[float, float] | None = None,
    real_rad: float | None = None,
    roi: Any = None,
    progress: bool = False,
) -> dict[str, BufferWrapper]:
    """Run :class:`CrystallinityUDF`.

    Parameters
    ----------
    ctx, dataset
        A context, and a data set with two signal axes.
    rad_in, rad_out, real_center, real_rad
        As for :class:`CrystallinityUDF`.
    roi, progress
        As for :meth:`~framefold.api.Context.run_udf`.

    Returns
    -------
    dict
        ``intensity``: one number per frame.
    """
    udf = CrystallinityUDF(rad_in, rad_out, real_center, real_rad)
    return ctx.run_udf(dataset=dataset, udf=udf, roi=roi, progress=progress)
