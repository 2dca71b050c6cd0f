"""What analyses have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common.analysis import AnalysisResult, AnalysisResultSet
from framefold.common.buffers import BufferWrapper

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet
    from framefold.udf.base import UDF

__all__ = ["Analysis", "frame_results"]


class Analysis:
    """Base class of analyses; run by :meth:`framefold.Context.run`.

    Parameters
    ----------
    dataset
        What is analysed.
    parameters
        By name; each class says which.
    """

    def __init__(self, dataset: DataSet, parameters: Mapping[str, Any] | None = None) -> None:
        self.dataset = dataset
        self.parameters = dict(parameters or {})

    def get_udf(self) -> UDF:
        """The UDF that computes it."""
        raise NotImplementedError(f"{type(self).__name__} does not implement get_udf")

    def get_roi(self) -> npt.NDArray[np.bool_] | None:
        """Which positions it needs, shape ``nav``; None if that is the caller's choice."""
        return None

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """The results from those of the UDF.

        Parameters
        ----------
        udf_results
            Of :meth:`get_udf`.
        roi
            That the UDF was run with, shape ``nav``, or None.
        damage
            Which positions are merged so far: bool, shape ``nav``; or True for all.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement get_udf_results")


def frame_results(frame: npt.NDArray[Any], real: str, complex_: str) -> AnalysisResultSet:
    """The results for something that looks like a frame, on the scales that one looks at it with.

    Parameters
    ----------
    frame
        Real or complex, of the shape of a frame.
    real, complex_
        What it is, for the descriptions of real and of complex data.
    """
    if frame.dtype.kind != "c":
        return AnalysisResultSet(
            [
                _result(frame, "intensity", "log", f"{real} log-scaled", logarithmic=True),
                _result(frame, "intensity_lin", "lin", f"{real} lin-scaled"),
            ]
        )
    magnitude = np.abs(frame)
    return AnalysisResultSet(
        [
            _result(magnitude, "intensity_lin", "magn", f"{complex_} [magn]"),
            _result(
                magnitude, "intensity", "log(magn)", f"{complex_} [log(magn)]", logarithmic=True
            ),
            _result(frame.real, "intensity_real", "real", f"{complex_} [real]"),
            _result(frame.imag, "intensity_imag", "imag", f"{complex_} [imag]"),
            _result(np.angle(frame), "intensity_angle", "angle", f"{complex_} [angle]"),
            _result(frame, "intensity_complex", "complex", f"{complex_} [complex]"),
        ]
    )


def _result(
    data: npt.NDArray[Any], key: str, scale: str, desc: str, logarithmic: bool = False
) -> AnalysisResult:
    def picture(numbers: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        from framefold.viz import visualize_simple

        return visualize_simple(numbers, logarithmic=logarithmic)

    return AnalysisResult(data, picture, f"intensity [{scale}]", desc, key)
