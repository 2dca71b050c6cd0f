"""What a ring of the Fourier spectrum of each frame holds."""

from __future__ import annotations

from typing import ClassVar

from framefold.analysis.sumsig import ScanAnalysis
from framefold.udf.base import UDF
from framefold.udf.crystallinity import CrystallinityUDF

__all__ = ["ApplyFFTMask"]


class ApplyFFTMask(ScanAnalysis):
    """Sum over a ring of the Fourier spectrum of each frame.

    Parameters
    ----------
    dataset
        With frames of two axes.
    parameters
        ``rad_in``, ``rad_out``: the radii of the ring; ``real_centerx``, ``real_centery``,
        ``real_rad``: the circle to leave out, none if ``real_rad`` is missing. As for
        :class:`~framefold.udf.crystallinity.CrystallinityUDF`.
    """

    description: ClassVar[str] = "sum over the ring of the Fourier spectrum"

    def get_udf(self) -> UDF:
        """Sum over a ring of the spectrum."""
        given = self.parameters
        radius = given.get("real_rad")
        center = None if radius is None else (given["real_centery"], given["real_centerx"])
        return CrystallinityUDF(
            rad_in=given["rad_in"],
            rad_out=given["rad_out"],
            real_center=center,
            real_rad=radius,
        )
