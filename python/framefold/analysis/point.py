"""One pixel of each frame."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from framefold.analysis.masks import MASK_DTYPE, SingleMaskAnalysis
from framefold.common.container import MaskFactories
from framefold.exceptions import InvalidArgumentError

__all__ = ["PointMaskAnalysis"]


class PointMaskAnalysis(SingleMaskAnalysis):
    """The value of one pixel of each frame.

    Parameters
    ----------
    dataset
        With frames of two axes.
    parameters
        ``cx``, ``cy``: the pixel, by default the middle of the frame; rounded towards zero.
    """

    shape_name: ClassVar[str] = "point"

    def get_mask_factories(self) -> MaskFactories:
        """The pixel."""
        sig = self.frame_shape()
        place = tuple(int(number) for number in self.centre())
        for axis, number, length in zip("yx", place, sig, strict=True):
            if not 0 <= number < length:
                raise InvalidArgumentError(
                    f"the pixel at {axis}={number} is out of bounds: frames of shape {sig} have "
                    f"pixels from 0 to {length - 1} along that axis"
                )
        return [partial(point, place, sig)]


def point(place: tuple[int, ...], sig: tuple[int, int]) -> Any:
    """1 at the pixel, else 0."""
    mask = np.zeros(sig, dtype=MASK_DTYPE)
    mask[place] = 1
    return mask
