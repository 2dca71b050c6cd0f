"""Standard deviation of all frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framefold.analysis.base import Analysis, frame_results
from framefold.analysis.getroi import get_roi
from framefold.common.analysis import AnalysisResultSet
from framefold.common.buffers import BufferWrapper
from framefold.udf.base import UDF
from framefold.udf.stddev import StdDevUDF

__all__ = ["SDAnalysis"]


class SDAnalysis(Analysis):
    """Standard deviation of each pixel over the selected frames.

    Parameters
    ----------
    dataset
        What is analysed.
    parameters
        ``roi``, as for :func:`framefold.analysis.getroi.get_roi`; all positions if missing.

    Results
    -------
    intensity, intensity_lin : shape ``sig``
        The standard deviation, to be seen on a logarithmic and on a linear scale.
    """

    def get_udf(self) -> UDF:
        """Standard deviation."""
        return StdDevUDF()

    def get_roi(self) -> Any:
        """What the parameters select."""
        return get_roi(self.parameters, tuple(self.dataset.shape.nav))

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """The standard deviation on both scales."""
        what = "Standard deviation of frames"
        return frame_results(udf_results["std"].data, what, what)
