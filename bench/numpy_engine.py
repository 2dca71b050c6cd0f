"""Plain NumPy on a memory-mapped file: the code that one would write without any engine.

Whatever needs temporary arrays goes over the file block by block, as large scans demand.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
from format_data import COMPRESSED, open_format
from sparse_numpy import sparse_work
from work import (
    DERIVED,
    Array,
    UnsupportedError,
    beam_shifts,
    binned,
    corners,
    counted,
    dense_masks,
    disk_pixels,
    glance,
    scattered_roi,
)

BLOCK_BYTES = 8 << 20


class Engine:
    """NumPy, on one thread but where its matrix product takes more."""

    def versions(self) -> dict[str, str]:
        """Say what runs."""
        return {"python": platform.python_version(), "numpy": np.__version__}

    def prepare(self, data: dict[str, Any], task: str, params: dict[str, Any]) -> Any:
        """Make a function of no arguments that does the work and gives the answer."""
        nav, sig = tuple(data["nav"]), tuple(data["sig"])
        if data["format"] == "raw_csr":
            return sparse_work(data, task, params)

        def finish(result: Array, per_frame: bool) -> Array:
            if task in DERIVED:
                return result
            return result.reshape((*nav, *result.shape[1:])) if per_frame else result.reshape(sig)

        if "roi" in params:
            chosen = np.flatnonzero(scattered_roi(nav, params["roi"]))
            flat = open_frames(data)
            return lambda: flat[chosen].sum(axis=0)
        decoded = data["format"] == "mib" or data["kind"] in (*COMPRESSED, "k2is", "hdf5")
        work, per_frame = whole(task, sig, decoded)
        if task == "to-zarr":
            return lambda: glance(open_frames(data).reshape((*nav, *sig)))
        if task == "shifted-masks":
            work, per_frame = shifted_masks(nav, sig, params), True
        if work is None:
            block_work, combine = blockwise(task, sig, params)
            per_frame = combine is np.concatenate

            def work(frames: Array) -> Array:
                return combine([block_work(block) for block in blocks(frames)])

        if params.get("fresh") or data["format"] == "mib":
            return lambda: finish(work(open_frames(data)), per_frame)
        frames = open_frames(data)
        return lambda: finish(work(frames), per_frame)


def open_frames(data: dict[str, Any]) -> Any:
    """Map the file: an array of shape (frames, *sig), or something that is cut like one."""
    shape = (int(np.prod(data["nav"])), *data["sig"])
    if data["kind"] is not None:
        return open_format(data)
    if data["format"] == "mib":
        return MibFrames(data, shape)
    return np.memmap(data["path"], dtype=data["dtype"], mode="r", shape=shape)


def blocks(frames: Any) -> Any:
    """Cut into blocks of whole frames."""
    frame_bytes = int(np.prod(frames.shape[1:])) * frames.dtype.itemsize
    depth = max(1, BLOCK_BYTES // frame_bytes)
    return (frames[start : start + depth] for start in range(0, frames.shape[0], depth))


def whole(
    task: str, sig: tuple[int, ...], decoded: bool
) -> tuple[Callable[[Any], Array] | None, bool]:
    """Find what one expression does on all frames, and whether it gives a value per frame."""
    if task == "frame-noop":
        return no_op, True
    if task == "frame-sum":
        return (lambda frames: np.array([np.sum(frame) for frame in frames[:]])), True
    if task == "frame-brightest":
        return (lambda frames: np.array([frame.argmax() for frame in frames[:]])), True
    if task == "frame-largest":
        return (lambda frames: np.array([frame.max() for frame in frames[:]])), True
    if task == "frame-add":
        return add_frames, False
    if task == "stddev":
        return stddev, False
    if decoded or task not in ("sum", "sumsig", "max"):
        return None, False
    if task == "sum":
        return (lambda frames: frames.sum(axis=0, dtype=exact(frames, len(frames)))), False
    if task == "max":
        return (lambda frames: frames.max(axis=0)), False
    n_pixels = int(np.prod(sig))
    return (
        lambda frames: frames.reshape(-1, n_pixels).sum(axis=1, dtype=exact(frames, n_pixels))
    ), True


def no_op(frames: Any) -> Array:
    """Look at each frame, do nothing."""
    result = np.zeros(frames.shape[0])
    for _ in frames[:]:
        pass
    return result


def add_frames(frames: Any) -> Array:
    """Add one frame after the other."""
    total = np.zeros(frames.shape[1:], np.uint64)
    for frame in frames[:]:
        total += frame
    return total


def shifted_masks(
    nav: tuple[int, ...], sig: tuple[int, ...], params: dict[str, Any]
) -> Callable[[Any], Array]:
    """Multiply each frame with the masks where they lie on it; fractions are interpolated."""
    stack = dense_masks(params["n"], sig)
    shifts = beam_shifts(nav, params.get("fractions", False))

    def windows(shift: int, length: int) -> tuple[slice, slice]:
        return (
            slice(max(0, -shift), length - max(0, shift)),
            slice(max(0, shift), length + min(0, shift)),
        )

    def work(frames: Any) -> Array:
        result = np.zeros((len(shifts), len(stack)), np.float32)
        for i, shift in enumerate(shifts):
            for (dy, dx), weight in corners(shift):
                (mask_y, y), (mask_x, x) = windows(dy, sig[0]), windows(dx, sig[1])
                under = frames[i, y, x].astype(np.float32)
                result[i] += weight * np.einsum("myx,yx->m", stack[:, mask_y, mask_x], under)
        return result

    return work


def blockwise(
    task: str, sig: tuple[int, ...], params: dict[str, Any]
) -> tuple[Callable[[Array], Array], Callable[[list[Array]], Array]]:
    """Find what is done with each block, and with the list of what that gives."""
    if task in ("tile-sum", "partition-sum"):
        return (lambda block: np.sum(block, axis=0)), add  # as the functions that UDFs call
    if task == "sum":
        return (lambda block: block.sum(axis=0, dtype=exact(block, len(block)))), add
    if task == "sumsig":
        return (
            lambda block: flat(block).sum(axis=1, dtype=exact(block, int(np.prod(sig))))
        ), np.concatenate
    if task == "max":
        return (lambda block: block.max(axis=0)), lambda parts: np.max(parts, axis=0)
    if task in DERIVED:
        middle = np.s_[:, sig[0] // 4 : -(sig[0] // 4), sig[1] // 4 : -(sig[1] // 4)]
        if task == "cropped-sum":
            return (lambda block: block[middle].sum(axis=0, dtype=exact(block, len(block)))), add
        if task == "counted-sum":
            return (lambda block: counted(block).sum(axis=0, dtype=np.uint32)), add
        return (lambda block: binned(block).max(axis=0)), lambda parts: np.max(parts, axis=0)
    if task == "logsum":
        return logsum, add
    if task == "com":
        return com(sig), np.concatenate
    if task == "masks":
        stack = dense_masks(params["n"], sig).reshape(params["n"], -1).T
        return (lambda block: flat(block).astype(np.float32, copy=False) @ stack), np.concatenate
    if task == "disks":
        pixels = disk_pixels(params["n"], sig)
        starts = np.cumsum([0, *(len(disk) for disk in pixels[:-1])])
        gathered = np.concatenate(pixels)
        return (
            lambda block: np.add.reduceat(
                flat(block)[:, gathered], starts, axis=1, dtype=np.float32
            )
        ), np.concatenate
    raise UnsupportedError(f"there is no task '{task}' here")


def exact(array: Array, n_added: int) -> Any:
    """The fastest dtype that so many values can be summed in; float64 for floats."""
    if array.dtype.kind == "f":
        return np.float64
    return np.uint32 if n_added * int(np.iinfo(array.dtype).max) < 2**32 else np.uint64


def flat(block: Array) -> Array:
    """One row per frame."""
    return block.reshape(block.shape[0], -1)


def add(parts: list[Array]) -> Array:
    """Sum what the blocks gave, in 64 bits."""
    return np.sum(parts, axis=0)


def logsum(block: Array) -> Array:
    """Sum frames on a logarithmic scale."""
    lowest = block.min(axis=(1, 2), keepdims=True)
    return np.log((block - lowest + 1).astype(np.float32, copy=False)).sum(axis=0, dtype=np.float64)


def stddev(frames: Any) -> Array:
    """Take the standard deviation of each pixel from sums and sums of squares."""
    total: Any = 0
    squares: Any = 0
    for block in blocks(frames):
        total = total + block.sum(axis=0, dtype=np.float64)
        numbers = block.astype(np.float32, copy=False)
        squares = squares + np.einsum("fyx,fyx->yx", numbers, numbers)
    n_frames = frames.shape[0]
    return np.sqrt(squares / n_frames - (total / n_frames) ** 2)


def com(sig: tuple[int, ...]) -> Callable[[Array], Array]:
    """Make what finds the centre of mass (y, x) of each frame of a block."""
    y, x = (np.arange(n, dtype=np.float64) for n in sig)

    def of_block(block: Array) -> Array:
        rows = block.sum(axis=2, dtype=exact(block, sig[1])).astype(np.float64)
        columns = block.sum(axis=1, dtype=exact(block, sig[0])).astype(np.float64)
        total = rows.sum(axis=1)
        return np.stack([rows @ y / total, columns @ x / total], axis=1)

    return of_block


class MibFrames:
    """Raw frames of one Merlin chip, decoded as they are asked for."""

    def __init__(self, data: dict[str, Any], shape: tuple[int, ...]) -> None:
        self.shape, self.dtype = shape, np.dtype(data["dtype"])
        self.bits = data["mib_bits"]
        payload = int(np.prod(shape[1:])) * {1: 1, 6: 8, 12: 16}[self.bits] // 8
        record = np.dtype([("header", "V384"), ("words", ">u8", payload // 8)])
        self.records = np.memmap(data["path"], dtype=record, mode="r", shape=shape[:1])

    def __getitem__(self, index: slice) -> Array:
        # The first pixel is in the least significant place of each big-endian word.
        words = self.records["words"][index].astype("<u8")
        if self.bits == 1:
            pixels = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        else:
            pixels = words.view(self.dtype)
        return pixels.reshape((-1, *self.shape[1:]))
