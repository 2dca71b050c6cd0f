"""The Fourier spectrum of the sum of all frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framefold.analysis.base import picture_of
from framefold.analysis.rawfft import spectrum
from framefold.analysis.sum import SumAnalysis
from framefold.common.analysis import AnalysisResult, AnalysisResultSet
from framefold.common.buffers import BufferWrapper

__all__ = ["SumfftAnalysis"]


class SumfftAnalysis(SumAnalysis):
    """Magnitudes of the Fourier spectrum of the sum of the selected frames, zero in the middle.

    Parameters
    ----------
    dataset
        With frames of two axes.
    parameters
        ``real_centerx``, ``real_centery``, ``real_rad``: a circle of the sum to leave out, none if
        ``real_rad`` is missing. ``roi``, as for :func:`framefold.analysis.getroi.get_roi`.

    Results
    -------
    intensity : shape ``sig``
        The magnitudes, to be seen on a logarithmic scale.
    """

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """The spectrum."""
        numbers = spectrum(udf_results["intensity"].data, self.parameters)
        what = "fft of sum of all frames"
        return AnalysisResultSet(
            [AnalysisResult(numbers, picture_of(True), "intensity", what, "intensity")]
        )
