"""Fluctuation electron microscopy: how much a ring of each frame varies."""

from __future__ import annotations

from typing import ClassVar

from framefold.analysis.sumsig import ScanAnalysis
from framefold.udf.base import UDF
from framefold.udf.FEM import FEMUDF

__all__ = ["FEMAnalysis"]


class FEMAnalysis(ScanAnalysis):
    """Standard deviation of the pixels of a ring, for each frame.

    Parameters
    ----------
    dataset
        With frames of two axes.
    parameters
        ``cx``, ``cy``, ``ri``, ``ro``: centre and radii of the ring, as for
        :class:`~framefold.udf.FEM.FEMUDF`.
    """

    description: ClassVar[str] = "standard deviation over the ring"

    def get_udf(self) -> UDF:
        """Standard deviation over a ring."""
        given = self.parameters
        return FEMUDF(center=(given["cy"], given["cx"]), rad_in=given["ri"], rad_out=given["ro"])
