"""dask.array on a memory-mapped file, on its threads.

Where dask.array has a method, that is taken; else NumPy's work on blocks is mapped over chunks.
"""

from __future__ import annotations

import platform
from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy_engine import blockwise, exact, open_frames
from work import DERIVED, Array, UnsupportedError, scattered_roi

#: Large enough that scheduling costs little, small enough for several chunks a core.
CHUNK_BYTES = 32 << 20


class Engine:
    """dask.array with its default scheduler: as many threads as there are cores."""

    def versions(self) -> dict[str, str]:
        """Say what runs."""
        versions = {"python": platform.python_version(), "numpy": np.__version__}
        return versions | {"dask": dask.__version__}

    def prepare(self, data: dict[str, Any], task: str, params: dict[str, Any]) -> Any:
        """Make a function of no arguments that does the work and gives the answer."""
        nav, sig = tuple(data["nav"]), tuple(data["sig"])
        if task.startswith("frame-"):
            raise UnsupportedError("nothing here calls a function for each frame")

        def run() -> Array:
            result = np.asarray(graph(data, task, params).compute())
            return (
                result
                if task in DERIVED or result.shape == sig
                else result.reshape((*nav, *result.shape[1:]))
            )

        return run


class Sliced:
    """Something that is cut into chunks when they are computed.

    dask.array cuts NumPy arrays as soon as it gets them, and copies all that they map.
    """

    def __init__(self, frames: Any) -> None:
        self.frames, self.shape, self.dtype = frames, frames.shape, frames.dtype
        self.ndim = len(frames.shape)

    def __getitem__(self, index: Any) -> Array:
        frames, *of_frame = index if isinstance(index, tuple) else (index,)
        return np.asarray(self.frames[frames])[(slice(None), *of_frame)]


def graph(data: dict[str, Any], task: str, params: dict[str, Any]) -> Any:
    """Describe the work; that takes part in the time, as it does for users."""
    nav, sig = tuple(data["nav"]), tuple(data["sig"])
    frames = open_frames(data)
    depth = max(1, CHUNK_BYTES // (int(np.prod(sig)) * frames.dtype.itemsize))
    depth = min(depth, -(-frames.shape[0] // (2 * (dask.system.CPU_COUNT or 1))))
    array = da.from_array(
        Sliced(frames),
        chunks=(depth, *sig),
        name=False,
        asarray=False,
        meta=np.empty((0, 0, 0), dtype=frames.dtype),
    )
    if "roi" in params:
        chosen = np.flatnonzero(scattered_roi(nav, params["roi"]))
        return array[chosen].sum(axis=0, dtype=exact(frames, len(chosen)))
    if task in ("tile-sum", "partition-sum"):
        return array.sum(axis=0)
    if task == "sum":
        return array.sum(axis=0, dtype=exact(frames, frames.shape[0]))
    if task == "cropped-sum":
        middle = array[:, sig[0] // 4 : -(sig[0] // 4), sig[1] // 4 : -(sig[1] // 4)]
        return middle.sum(axis=0, dtype=exact(frames, frames.shape[0]))
    if task == "binned-max":
        return da.coarsen(np.sum, array.astype(np.uint32), {1: 2, 2: 2}).max(axis=0)
    if task == "sumsig":
        return array.sum(axis=(1, 2), dtype=exact(frames, int(np.prod(sig))))
    if task == "max":
        return array.max(axis=0)
    if task == "stddev":
        return array.std(axis=0)
    work, combine = blockwise(task, sig, params)
    if combine is np.concatenate:
        width = {"com": 2}.get(task, params.get("n"))
        chunks = (array.chunks[0], (width,))
        meta = np.empty((0, 0), dtype="float64" if task == "com" else "float32")
        return array.map_blocks(work, drop_axis=(1, 2), new_axis=1, chunks=chunks, meta=meta)
    parts = array.map_blocks(
        lambda block: np.asarray(work(block))[np.newaxis],
        chunks=(1, *sig),
        meta=np.empty((0, 0, 0)),
    )
    return parts.sum(axis=0)
