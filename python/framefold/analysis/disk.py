"""What falls onto a disk: a virtual bright-field detector."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from framefold import masks
from framefold.analysis.masks import MASK_DTYPE, SingleMaskAnalysis
from framefold.common.container import MaskFactories

__all__ = ["DiskMaskAnalysis"]


class DiskMaskAnalysis(SingleMaskAnalysis):
    """The sum over a disk of each frame.

    Parameters
    ----------
    dataset
        With frames of two axes.
    parameters
        ``cx``, ``cy``: the centre in pixels, by default the middle of the frame. ``r``: the
        radius in pixels, by default 0.3 of half the shorter side. A pixel counts where its
        distance to the centre is not more.
    """

    shape_name: ClassVar[str] = "disk"

    def get_mask_factories(self) -> MaskFactories:
        """The disk."""
        height, width = self.frame_shape()
        cy, cx = self.centre()
        radius = self.number("r", min(height, width) / 2 * 0.3)
        # Numbers are bound, not this analysis: a mask is sent to workers without the data.
        return [partial(disk, cx, cy, width, height, radius)]


def disk(cx: float, cy: float, width: int, height: int, radius: float) -> masks.Mask:
    """1 on the disk, else 0."""
    return masks.circular(cx, cy, width, height, radius).astype(MASK_DTYPE)
