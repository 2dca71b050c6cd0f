"""Electrons counted in frames of a sparse exposure, by a function compiled with Numba.

Each electron leaves a spot of a few pixels. A pixel counts as one if it is above a threshold and
the brightest of its neighbours. In NumPy that takes a dozen passes over a frame; compiled by
Numba it takes one, and without the interpreter's lock it runs on all threads at once::

    pip install numba
    python examples/numba_counting.py
"""

from __future__ import annotations

import time
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

import framefold as ff

Array = npt.NDArray[Any]


@numba.njit(nogil=True)
def count(frames: Array, threshold: float, image: Array, counts: Array) -> None:
    """Add the electrons of each frame to ``image``, and their number to ``counts``."""
    depth, height, width = frames.shape
    for i in range(depth):
        frame = frames[i]
        for y in range(1, height - 1):
            for x in range(1, width - 1):
                value = frame[y, x]
                if value <= threshold:
                    continue
                # Of equal neighbours, the first in reading order is the brightest.
                before = max(
                    frame[y - 1, x - 1], frame[y - 1, x], frame[y - 1, x + 1], frame[y, x - 1]
                )
                after = max(
                    frame[y, x + 1], frame[y + 1, x - 1], frame[y + 1, x], frame[y + 1, x + 1]
                )
                if value > before and value >= after:
                    image[y, x] += 1
                    counts[i] += 1


class CountUDF(ff.UDF):
    """Electrons per frame (``counts``) and per pixel (``image``)."""

    def __init__(self, threshold: float) -> None:
        super().__init__(threshold=threshold)

    def get_result_buffers(self) -> Any:
        return {
            "counts": self.buffer(kind="nav", dtype=np.int64),
            "image": self.buffer(kind="sig", dtype=np.int64),
        }

    def process_partition(self, partition: Array) -> None:
        """Count; whole frames are needed, because neighbours are looked at."""
        count(partition, self.params.threshold, self.results.image, self.results.counts)

    def merge(self, dest: Any, src: Any) -> None:
        dest.counts[:] = src.counts
        dest.image[:] += src.image


def exposure(n_frames: int, size: int = 128, electrons: float = 40) -> tuple[Array, Array]:
    """Simulated frames, and how many electrons hit each of them; no two of them touch."""
    rng = np.random.default_rng(7)
    cells = size // 4
    hits = rng.random((n_frames, cells, cells)) < electrons / cells**2
    frames = rng.poisson(1.0, (n_frames, size, size)).astype(np.uint16)
    for frame, y, x in zip(*np.nonzero(hits), strict=True):
        top, left = 4 * y + rng.integers(1, 3), 4 * x + rng.integers(1, 3)
        frames[frame, top, left] += 60
        frames[frame, top, left - 1] += 20
    return frames, hits.sum(axis=(1, 2))


def main() -> None:
    frames, true_counts = exposure(1024)
    ctx = ff.Context()
    dataset = ctx.load("memory", data=frames.reshape(32, 32, *frames.shape[1:]), sig_dims=2)
    udf = CountUDF(threshold=30)
    ctx.run_udf(dataset=dataset, udf=udf, roi=(0, 0))  # compiles the function
    start = time.perf_counter()
    result = ctx.run_udf(dataset=dataset, udf=udf)
    seconds = time.perf_counter() - start
    found = result["counts"].raw_data
    assert result["image"].data.sum() == found.sum()
    rate = frames.nbytes / seconds / 1e9
    right = np.mean(found == true_counts)
    print(f"{found.sum()} electrons in {len(found)} frames at {rate:.1f} GB/s")
    print(f"all of them found in {right:.1%} of the frames")


if __name__ == "__main__":
    main()
