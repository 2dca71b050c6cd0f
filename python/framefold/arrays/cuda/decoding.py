"""Chunks that the device decodes: bitshuffle with LZ4."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The largest block of pixels, in bytes: it is decoded in memory that a block of threads shares.
LARGEST_BLOCK = 48 << 10
#: What is noted as the frame that cannot be decoded, if all can.
_NONE = 2**64 - 1


class Encoded(NamedTuple):
    """How parts of a tile are encoded, each of which begins where its pixels would begin."""

    #: Bytes of an element.
    element_bytes: int
    #: Bytes of a block of pixels.
    block_bytes: int
    chunk_frames: int
    #: Frames of a part, but for the last one.
    part_frames: int
    #: For each part how many bytes there are; 0 for pixels.
    lens: Sequence[int]

    def spans(self, shape: tuple[int, ...], n_bytes: int) -> Iterator[tuple[bool, int, int]]:
        """For each part of a tile of pixels: whether it is encoded, and where its bytes are."""
        part_bytes = n_bytes // shape[0] * self.part_frames
        for i, len_bytes in enumerate(self.lens):
            start = i * part_bytes
            yield (
                len_bytes > 0,
                start,
                start + len_bytes if len_bytes else min(start + part_bytes, n_bytes),
            )

    def runs(self, n_frames: int) -> Iterator[tuple[int, int]]:
        """The frames of encoded parts that follow each other."""
        for is_encoded, group in groupby(range(len(self.lens)), lambda i: self.lens[i] > 0):
            parts = list(group)
            if is_encoded:
                stop = (parts[-1] + 1) * self.part_frames
                yield parts[0] * self.part_frames, min(stop, n_frames)


class Decoder:
    """Decodes the tiles of one worker; made and used while its device is current."""

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy
        self._kernels: dict[int, Any] = {}
        self._damaged: Any = None

    def decode(self, encoded: Encoded, parts: Any, pixels: Any, first: int) -> None:
        """Queue on the current stream that parts become pixels.

        Parameters
        ----------
        parts
            What :meth:`Encoded.spans` says, as bytes.
        pixels
            Those of whole frames.
        first
            The number of the first frame, for :meth:`damaged`.
        """
        frame_bytes = prod(pixels.shape[1:]) * pixels.dtype.itemsize
        chunk_bytes = frame_bytes * encoded.chunk_frames
        rest = chunk_bytes % (8 * encoded.element_bytes)
        n_blocks = -(-(chunk_bytes - rest) // encoded.block_bytes)
        n_rows = n_blocks + (rest > 0)
        if self._damaged is None:
            self._damaged = self._cupy.asarray(np.full(1, _NONE, dtype=np.uint64))
        for start, stop in encoded.runs(len(pixels)):
            n_chunks = (stop - start) // encoded.chunk_frames
            self._kernel(encoded.element_bytes)(
                (n_chunks * n_rows,),
                (32,),
                (
                    parts,
                    pixels,
                    self._damaged,
                    np.uint64(first),
                    np.uint64(start // encoded.chunk_frames),
                    np.uint32(encoded.chunk_frames),
                    np.uint32(encoded.part_frames // encoded.chunk_frames),
                    np.uint32(n_blocks),
                    np.uint64(chunk_bytes),
                    np.uint32(encoded.block_bytes),
                    np.uint32(rest),
                ),
                shared_mem=min(encoded.block_bytes, chunk_bytes),
            )

    def damaged(self) -> int | None:
        """The first frame since the last call that could not be decoded; waits for the device."""
        if self._damaged is None:
            return None
        frame = int(self._damaged.get()[0])
        if frame == _NONE:
            return None
        self._damaged = None
        return frame

    def _kernel(self, element_bytes: int) -> Any:
        if element_bytes not in self._kernels:
            options = (f"-DSIZE={element_bytes}",)
            kernel = self._cupy.RawKernel(source(), "decode", options=options)
            self._kernels[element_bytes] = kernel
        return self._kernels[element_bytes]


@cache
def source() -> str:
    """The source of the kernel."""
    return files(__package__).joinpath("decoding.cu").read_text(encoding="utf-8")
