"""What all engines compute with: masks and regions of interest, the same in every process.

NumPy alone is imported here, because every environment has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


#: What is done on frames that are made of others: the middle half of each axis, bins of 2 × 2,
#: and local maxima above a threshold, counted.
DERIVED = ("cropped-sum", "binned-max", "counted-sum")
#: That threshold: one pixel in a thousand is above it.
COUNTED_ABOVE = 7


class UnsupportedError(Exception):
    """An engine cannot do this; it is left out of the case, with these words."""


def dense_masks(n_masks: int, sig: tuple[int, ...]) -> Array:
    """Masks without structure, so that no engine can gain from any."""
    rng = np.random.default_rng(1)
    return rng.random((n_masks, *sig), dtype=np.float32)


def disk_pixels(n_masks: int, sig: tuple[int, ...], radius: int = 5) -> list[Array]:
    """The flat indices of the pixels of small disks at random places, one array per disk."""
    rng = np.random.default_rng(2)
    height, width = sig
    offsets = np.arange(-radius, radius + 1)
    dy, dx = (axis.ravel() for axis in np.meshgrid(offsets, offsets, indexing="ij"))
    inside = dy**2 + dx**2 <= radius**2
    dy, dx = dy[inside], dx[inside]
    y = rng.integers(radius, height - radius, n_masks)
    x = rng.integers(radius, width - radius, n_masks)
    return [(cy + dy) * width + cx + dx for cy, cx in zip(y, x, strict=True)]


def disk_masks(n_masks: int, sig: tuple[int, ...]) -> Array:
    """The same as a stack of images, 1 inside."""
    stack = np.zeros((n_masks, sig[0] * sig[1]), dtype=np.float32)
    for mask, pixels in zip(stack, disk_pixels(n_masks, sig), strict=True):
        mask[pixels] = 1
    return stack.reshape(n_masks, *sig)


def beam_shifts(nav: tuple[int, ...]) -> Array:
    """A beam that wanders over the detector with the scan: (dy, dx) of each frame, whole pixels."""
    y, x = (axis.ravel() for axis in np.indices(nav))
    tilted = np.stack([y - x / 2, x + y / 4], axis=-1) / max(nav)
    return np.rint(tilted * 16 - 8).astype(np.int64)


def scattered_roi(nav: tuple[int, ...], fraction: float) -> npt.NDArray[np.bool_]:
    """Frames at random places of the scan, at least one."""
    n_frames = int(np.prod(nav))
    rng = np.random.default_rng(3)
    chosen = rng.choice(n_frames, max(1, round(n_frames * fraction)), replace=False)
    roi = np.zeros(n_frames, dtype=bool)
    roi[chosen] = True
    return roi.reshape(nav)


def counted(frames: Array) -> Array:
    """Where pixels are above the threshold, and the largest of 3 × 3; the first of equal ones."""
    height, width = frames.shape[-2:]
    around = np.pad(frames, [(0, 0)] * (frames.ndim - 2) + [(1, 1), (1, 1)])
    peaks = frames > COUNTED_ABOVE
    for number in range(9):
        y, x = divmod(number, 3)
        neighbours = around[..., y : y + height, x : x + width]
        if number < 4:
            peaks &= frames > neighbours
        elif number > 4:
            peaks &= frames >= neighbours
    return peaks


def binned(frames: Array) -> Array:
    """Sums of 2 × 2 pixels of uint16."""
    sums = np.zeros((*frames.shape[:-2], *(n // 2 for n in frames.shape[-2:])), np.uint32)
    for y in (0, 1):
        for x in (0, 1):
            sums += frames[..., y::2, x::2]
    return sums
