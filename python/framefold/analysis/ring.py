"""What falls onto a ring: a virtual annular dark-field detector."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import ClassVar

from framefold import masks
from framefold.analysis.masks import MASK_DTYPE, SingleMaskAnalysis
from framefold.common.container import MaskFactories
from framefold.exceptions import InvalidArgumentError

__all__ = ["RingMaskAnalysis"]


class RingMaskAnalysis(SingleMaskAnalysis):
    """The sum over a ring of each frame.

    Parameters
    ----------
    dataset
        With frames of two axes.
    parameters
        ``cx``, ``cy``: the centre in pixels, by default the middle of the frame. ``ro``: the
        outer radius in pixels, by default half the shorter side. ``ri``: the inner radius, by
        default 0.8 of ``ro``, which has to be finite then.
    """

    shape_name: ClassVar[str] = "ring"

    def get_mask_factories(self) -> MaskFactories:
        """The ring."""
        height, width = self.frame_shape()
        cy, cx = self.centre()
        outer = self.number("ro", min(height, width) / 2)
        inner = self.number("ri", outer * 0.8)
        if inner == inf:
            raise InvalidArgumentError(f"a ring from {inner} to {outer} is empty; pass a finite ri")
        return [partial(ring, cx, cy, width, height, outer, inner)]


def ring(cx: float, cy: float, width: int, height: int, outer: float, inner: float) -> masks.Mask:
    """1 on the ring, else 0."""
    return masks.ring(cx, cy, width, height, outer, inner).astype(MASK_DTYPE)
