"""Sum of all frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framefold.analysis.base import Analysis, frame_results
from framefold.analysis.getroi import get_roi
from framefold.common.analysis import AnalysisResultSet
from framefold.common.buffers import BufferWrapper
from framefold.udf.sum import SumUDF

__all__ = ["SumAnalysis", "SumResultSet"]


class SumResultSet(AnalysisResultSet):
    """The results of :class:`SumAnalysis`, which lists them."""


class SumAnalysis(Analysis):
    """Sum of the selected frames.

    Parameters
    ----------
    dataset
        What is analysed.
    parameters
        ``roi``, as for :func:`framefold.analysis.getroi.get_roi`; all positions if missing.

    Results
    -------
    intensity, intensity_lin : shape ``sig``
        The sum, to be seen on a logarithmic and on a linear scale; the numbers are the same.
    intensity_real, intensity_imag, intensity_angle, intensity_complex
        For complex data, where the first two are the magnitude.
    """

    def get_udf(self) -> SumUDF:
        """Sum."""
        return SumUDF()

    def get_roi(self) -> Any:
        """What the parameters select."""
        return get_roi(self.parameters, tuple(self.dataset.shape.nav))

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """The sum on all scales."""
        total = udf_results["intensity"].data
        return frame_results(total, "sum of frames", "sum of all frames", SumResultSet)
