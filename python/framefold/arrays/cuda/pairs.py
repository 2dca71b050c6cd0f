"""Sums over frames of narrow pixels, two at a time: a device reads twice as many bytes in a load.

Two sums of 32 bits are counted in one number of 64, where both must have room.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

#: What two pixels are read as, by the dtype of one.
PAIRS = {np.dtype(np.uint8): np.dtype(np.uint16), np.dtype(np.uint16): np.dtype(np.uint32)}

#: The sum of so many pixels of 16 bits has less than 32.
MOST_FRAMES = 1 << 16


def are_paired(frames: Any) -> bool:
    """Whether :func:`sum_of_frames` takes these frames."""
    return frames.dtype in PAIRS and frames.shape[-1] % 2 == 0 and len(frames) <= MOST_FRAMES


def sum_of_frames(frames: Any) -> Any:
    """The sum over the first axis, dtype uint32; ``frames`` are C-contiguous."""
    pairs = frames.view(PAIRS[frames.dtype])
    import cupy

    # The lower half comes first in memory, as the first pixel does.
    return _kernel(cupy, pairs.dtype)(pairs, axis=0).view(np.uint32)


@cache
def _kernel(cupy: Any, dtype: np.dtype[Any]) -> Any:
    n_bits = 4 * dtype.itemsize
    low, high = f"x & {(1 << n_bits) - 1}u", f"x >> {n_bits}"
    return cupy.ReductionKernel(
        f"{dtype.name} x",
        "uint64 y",
        f"(unsigned long long)({low}) | (unsigned long long)({high}) << 32",
        "a + b",
        "y = a",
        "0",
        f"framefold_sum_of_{n_bits}",
    )
