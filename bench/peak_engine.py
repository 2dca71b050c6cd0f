"""What NumPy's own loops and products reach on this machine, without reading or conversion.

These are no competitors: they bound what an engine can reach that calls the same loops.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from format_data import INSIDE
from numpy_engine import Engine as NumpyEngine
from numpy_engine import open_frames
from work import Output, UnsupportedError, dense_masks

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
        if task == "copy":
            return copy(data)
        if task == "decode":
            return decode(data)
        if task == "convert":
            return converted(data)
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


def copy(data: dict[str, Any]) -> Any:
    """Copy as many bytes as the pixels take when they are decoded, on one core."""
    n_part = min(data["decoded_bytes"], PRODUCT_BYTES)
    source, target = np.ones(n_part, np.uint8), np.zeros(n_part, np.uint8)

    def run() -> Any:
        np.copyto(target, source)

    run.scale = data["decoded_bytes"] / n_part  # type: ignore[attr-defined]
    return run


def converted(data: dict[str, Any]) -> Any:
    """Write the data set itself to Zarr, as ``framefold convert`` does."""
    import framefold as ff

    ctx, output = ff.Context.make_with("threads"), Output(data, "copy")
    nav, sig = tuple(data["nav"]), tuple(data["sig"])
    dataset = ctx.load("raw", data["path"], dtype=data["dtype"], nav_shape=nav, sig_shape=sig)
    return lambda: ctx.export_dataset(dataset, output.fresh())


def decode(data: dict[str, Any]) -> Any:
    """Decode all chunks with the compressor's own library, on a thread per core."""
    chunks, shape = stored_chunks(data)
    decode_one = inflate if data["kind"] == "hdf5-gzip" else bitshuffle_decoder(shape)
    n_threads = os.cpu_count() or 1
    pool = ThreadPoolExecutor(n_threads)

    def part(thread: int) -> None:
        out = np.empty(shape, np.uint16)
        for chunk in chunks[thread::n_threads]:
            decode_one(chunk, out)

    return lambda: list(pool.map(part, range(n_threads)))


def inflate(chunk: bytes, out: Any) -> None:
    """Undo gzip, with what Python is linked to."""
    if len(zlib.decompress(chunk, bufsize=out.nbytes)) != out.nbytes:
        raise ValueError("a chunk of another size")


def bitshuffle_decoder(shape: tuple[int, ...]) -> Any:
    """Find the function of the library that comes with h5py's filter."""
    import ctypes

    import hdf5plugin

    found = list(Path(hdf5plugin.__file__).parent.glob("plugins/libh5bshuf.*"))
    if not found:
        raise UnsupportedError("the library of bitshuffle is not there")
    function = ctypes.CDLL(str(found[0])).bshuf_decompress_lz4
    function.restype = ctypes.c_int64
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_size_t] * 3]
    n_cells = int(np.prod(shape))

    def one(chunk: bytes, out: Any) -> None:
        # Before the blocks: the size of the chunk, and that of a block, in bytes.
        block = int.from_bytes(chunk[8:12], "big") // out.itemsize
        start = np.frombuffer(chunk, np.uint8)[12:].ctypes.data
        if function(start, out.ctypes.data, n_cells, out.itemsize, block) <= 0:
            raise ValueError("a chunk that cannot be decoded")

    return one


def stored_chunks(data: dict[str, Any]) -> tuple[list[bytes], tuple[int, ...]]:
    """Read all chunks as they are in the file, and what shape they have."""
    import h5py

    with h5py.File(data["path"]) as file:
        array = file[INSIDE]
        offsets = [
            array.id.get_chunk_info(i).chunk_offset for i in range(array.id.get_num_chunks())
        ]
        return [array.id.read_direct_chunk(offset)[1] for offset in offsets], array.chunks
