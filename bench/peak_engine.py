"""What NumPy's own loops and products reach on this machine, without reading or conversion.

These are no competitors: they bound what an engine can reach that calls the same loops.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from operator import add
from typing import Any

import numpy as np
from numpy_engine import Engine as NumpyEngine
from numpy_engine import open_frames
from work import UnsupportedError, dense_masks

#: Frames of the product: converted beforehand, so that they have to fit in memory.
PRODUCT_BYTES = 256 << 20


class Engine(NumpyEngine):
    """The bare call on all cores."""

    def prepare(self, data: dict[str, Any], task: str, params: dict[str, Any]) -> Any:
        """Make a function of no arguments that makes the call; ``scale`` makes up for less data."""
        if task == "tile-sum":
            return tile_sums(data, params["tile_shape"])
        if task == "masks":
            return mask_product(data, params["n"])
        raise UnsupportedError(f"there is no peak for '{task}'")


def tile_sums(data: dict[str, Any], tile_shape: Sequence[int]) -> Any:
    """Sum tiles of this shape over their frames, on a thread per core."""
    frames = open_frames(data)
    n_threads = os.cpu_count() or 1
    share = -(-len(frames) // n_threads)
    depth, *lengths = tile_shape
    steps = zip(frames.shape[1:], lengths, strict=True)
    corners = list(product(*(range(0, length, step) for length, step in steps)))
    parts = [tuple(map(slice, at, map(add, at, lengths))) for at in corners]

    def part(thread: int) -> Any:
        total = np.zeros(frames.shape[1:], dtype=np.uint64)
        stop = min(len(frames), (thread + 1) * share)
        for start in range(thread * share, stop, depth):
            for sig in parts:
                total[sig] += np.sum(frames[(slice(start, min(stop, start + depth)), *sig)], axis=0)
        return total

    pool = ThreadPoolExecutor(n_threads)
    return lambda: np.sum(list(pool.map(part, range(n_threads))), axis=0)


def mask_product(data: dict[str, Any], n_masks: int) -> Any:
    """Multiply frames that are float32 already with masks, on all cores."""
    frames = open_frames(data)
    stack = dense_masks(n_masks, tuple(data["sig"])).reshape(n_masks, -1).T
    n_part = min(len(frames), max(1, PRODUCT_BYTES // (4 * stack.shape[0])))
    numbers = frames[:n_part].reshape(n_part, -1).astype(np.float32)

    def run() -> Any:
        return numbers @ stack

    run.scale = len(frames) / n_part  # type: ignore[attr-defined]
    return run
