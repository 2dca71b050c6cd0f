"""The Fourier spectrum of one frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold import masks
from framefold.analysis.base import frame_results
from framefold.analysis.raw import PickFrameAnalysis
from framefold.common.analysis import AnalysisResultSet
from framefold.common.buffers import BufferWrapper
from framefold.exceptions import InvalidArgumentError

__all__ = ["PickFFTFrameAnalysis"]


class PickFFTFrameAnalysis(PickFrameAnalysis):
    """Magnitudes of the Fourier spectrum of the frame at one position, zero in the middle.

    Parameters
    ----------
    dataset
        Of one to three navigation axes, with frames of two axes.
    parameters
        ``x``, ``y``, ``z``, as for :class:`~framefold.analysis.raw.PickFrameAnalysis`;
        ``real_centerx``, ``real_centery``, ``real_rad``: a circle of the frame to leave out, none
        if ``real_rad`` is missing.

    Results
    -------
    intensity, intensity_lin : shape ``sig``
        The magnitudes, to be seen on a logarithmic and on a linear scale.
    """

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """The spectrum on both scales."""
        frame = udf_results["intensity"].data[0]
        what = f"spectrum of {self.place()}"
        return frame_results(spectrum(frame, self.parameters), what, what)


def spectrum(frame: npt.NDArray[Any], parameters: Mapping[str, Any]) -> npt.NDArray[Any]:
    """Magnitudes of the Fourier spectrum, zero in the middle.

    Parameters
    ----------
    frame
        Of two axes.
    parameters
        With the circle to leave out, as for :class:`PickFFTFrameAnalysis`.

    Raises
    ------
    InvalidArgumentError
        If it has other axes.
    """
    if frame.ndim != 2:
        raise InvalidArgumentError(
            f"a spectrum needs frames of two axes, these have shape {frame.shape}; load the data "
            f"with a sig_shape of two axes"
        )
    radius = parameters.get("real_rad")
    if radius is not None:
        height, width = frame.shape
        centre = (parameters["real_centerx"], parameters["real_centery"])
        frame = np.where(masks.circular(*centre, width, height, radius), 0, frame)
    result: npt.NDArray[Any] = np.abs(np.fft.fftshift(np.fft.fft2(frame)))
    return result
