"""What all engines compute with: masks and regions of interest, the same in every process.

NumPy alone is imported here, because every environment has it.
"""

from __future__ import annotations

import shutil
import weakref
from math import floor
from pathlib import Path
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


def beam_shifts(nav: tuple[int, ...], fractions: bool = False) -> Array:
    """A beam that wanders over the detector with the scan: (dy, dx) of each frame.

    In whole pixels, or in float64 as a fit gives them.
    """
    y, x = (axis.ravel() for axis in np.indices(nav))
    shifts = np.stack([y - x / 2, x + y / 4], axis=-1) / max(nav) * 16 - 8
    return shifts if fractions else np.rint(shifts).astype(np.int64)


def corners(shift: Any) -> list[tuple[tuple[int, int], float]]:
    """The shifts by whole pixels that one lies between, and the weight of each."""
    parts = [((floor(s), 1 - (s - floor(s))), (floor(s) + 1, s - floor(s))) for s in shift]
    return [((y, x), a * b) for y, a in parts[0] for x, b in parts[1] if a * b > 0]


class Output:
    """A folder that is written anew by each run, and removed in the end."""

    def __init__(self, data: dict[str, Any], who: str) -> None:
        self._path = Path(data["path"]).with_suffix(f".{who}.zarr")
        self._remove = weakref.finalize(self, shutil.rmtree, self._path, ignore_errors=True)

    def fresh(self) -> Path:
        """Where to write to: there is nothing."""
        shutil.rmtree(self._path, ignore_errors=True)
        return self._path


def glance(frames: Array) -> Array:
    """Some pixels of some frames, to see whether all were written."""
    return np.array(frames[::3, ::5, ::16, ::15])


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
