"""One frame as it is."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.analysis.base import Analysis, frame_results
from framefold.common._numbers import count
from framefold.common.analysis import AnalysisResultSet
from framefold.common.buffers import BufferWrapper
from framefold.exceptions import InvalidArgumentError
from framefold.udf.raw import PickUDF

__all__ = ["PickFrameAnalysis", "PickResultSet"]


class PickResultSet(AnalysisResultSet):
    """The results of :class:`PickFrameAnalysis`, which lists them."""


#: The names of navigation coordinates, from the last axis to the first.
NAMES = ("x", "y", "z")


class PickFrameAnalysis(Analysis):
    """The frame at one position of the scan, in the dtype of the data.

    Parameters
    ----------
    dataset
        Of one to three navigation axes.
    parameters
        ``x``; for two navigation axes ``x`` and ``y``, for three ``x``, ``y`` and ``z``. The
        position is ``(x,)``, ``(y, x)`` or ``(z, y, x)``.

    Results
    -------
    intensity, intensity_lin, …
        As for :class:`~framefold.analysis.sum.SumAnalysis`.
    """

    def get_udf(self) -> PickUDF:
        """Pick."""
        return PickUDF()

    def get_roi(self) -> npt.NDArray[np.bool_]:
        """The one position.

        Raises
        ------
        InvalidArgumentError
            If there are not as many coordinates as navigation axes, or one is out of bounds.
        """
        nav = tuple(self.dataset.shape.nav)
        roi = np.zeros(nav, dtype=bool)
        roi[self._position(nav)] = True
        return roi

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """The frame on all scales."""
        frame = udf_results["intensity"].data[0]
        return frame_results(frame, self.place(), self.place(), PickResultSet)

    def place(self) -> str:
        """Which frame, in words."""
        at = " ".join(f"{name}={value}" for name, value in self._given().items())
        return f"the frame at {at}"

    def _given(self) -> dict[str, Any]:
        found = {name: self.parameters.get(name) for name in NAMES}
        return {name: value for name, value in found.items() if value is not None}

    def _position(self, nav: tuple[int, ...]) -> tuple[int, ...]:
        if len(nav) > len(NAMES):
            raise InvalidArgumentError(
                f"the data set has {len(nav)} navigation axes, and a frame can be picked by "
                f"x, y and z only; use run_udf with PickUDF and a ROI"
            )
        given = self._given()
        needed = NAMES[: len(nav)]
        if tuple(given) != needed:
            raise InvalidArgumentError(
                f"got {', '.join(f'{name}={value}' for name, value in given.items())}; the data "
                f"set has {len(nav)} navigation axes, so give {' and '.join(needed)}"
            )
        position = tuple(count(name, given[name], -inf) for name in reversed(needed))
        for name, value, length in zip(reversed(needed), position, nav, strict=True):
            if not 0 <= value < length:
                raise InvalidArgumentError(
                    f"{name}={value} is out of bounds: that axis has {length} positions, "
                    f"from 0 to {length - 1}"
                )
        return position
