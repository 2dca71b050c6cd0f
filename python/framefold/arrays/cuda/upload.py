"""Brings tiles to the device while the host reads and the device computes.

Two slots take turns, each with memory on the device. A tile lies in pinned memory on the host: the
engine has read it there (see :mod:`framefold.arrays.cuda.staging`), or it is copied into that of
the slot. Its transfer is queued on one stream, and the other stream, on which user code computes,
waits for it. Nothing else waits, other than

- the host, before it writes to pinned memory, for the transfer of some tiles ago;
- a transfer, before it writes to memory of the device, for what was computed with the tile that
  was there, two tiles ago.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from framefold.arrays.cuda.decoding import Encoded
    from framefold.arrays.cuda.staging import StagedTile

Array = npt.NDArray[Any]
#: An array, and the dtype that it is to have on the device.
Piece = tuple[Array, np.dtype[Any]]

#: Arrays begin at multiples of this many bytes, as memory of CUDA does.
ALIGNMENT = 256


class Uploader:
    """Brings arrays to the current device; made, used and closed while it is that.

    Parameters
    ----------
    compute
        The stream on which the arrays are used. Like the one for transfers, it is of the kind
        that the default stream waits for, and that waits for it.
    """

    def __init__(self, compute: Any) -> None:
        import cupy

        self._compute = compute
        self._copy = cupy.cuda.Stream()
        self._slots = [_Slot(cupy), _Slot(cupy)]
        self._turn = 0
        #: The size of the largest tile on the device.
        self.len_bytes = 0

    def upload(self, pieces: Sequence[Piece]) -> list[Any]:
        """The pieces as contiguous CuPy arrays, for use on the stream ``compute``.

        They stay as they are for as long as anybody holds on to one of them, or to a view. The
        host may write over its arrays at once.
        """
        slot, starts = self._next_slot(pieces)
        slot.prepare_host(starts[-1])
        staged = []
        for (array, dtype), start in zip(pieces, starts, strict=False):
            there = slot.staged(start, array.shape, dtype)
            np.copyto(there, array, casting="unsafe")
            staged.append(there)
        return self._transfer(slot, staged, starts)

    def upload_staged(self, tile: StagedTile, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """What the engine has written to ``tile``, as :meth:`upload`.

        The host may write over it when :meth:`StagedTile.wait` returns.
        """
        staged = tile.array(shape, dtype)
        slot, starts = self._next_slot([(staged, dtype)])
        (there,) = self._transfer(slot, [staged], starts)
        tile.queued(self._copy)
        return there

    def upload_encoded(
        self, tile: StagedTile, shape: tuple[int, ...], dtype: np.dtype[Any], encoded: Encoded
    ) -> tuple[Any, Any]:
        """As :meth:`upload_staged`: the pixels of parts that are not encoded, and the other parts.

        Both are as large as all pixels are. The latter is for use at once.
        """
        staged = tile.array(shape, dtype)
        raw = tile.array((staged.nbytes,), np.dtype(np.uint8))
        slot, starts = self._next_slot([(staged, dtype), (raw, raw.dtype)])
        lease = slot.lend()
        pixels, parts = (slot.array(lease, start, raw.shape, raw.dtype) for start in starts[:2])
        for is_encoded, start, stop in encoded.spans(shape, raw.size):
            there = parts if is_encoded else pixels
            there[start:stop].set(raw[start:stop], stream=self._copy)
        self._transferred(slot)
        tile.queued(self._copy)
        return slot.array(lease, starts[0], shape, dtype), parts

    def _next_slot(self, pieces: Sequence[Piece]) -> tuple[_Slot, list[int]]:
        """The slot whose turn it is; where each of the pieces begins in it, and where all end."""
        previous = self._slots[self._turn]
        if previous.in_use:
            previous.note_done(self._compute)
        self._turn = 1 - self._turn
        starts = [0]
        for array, dtype in pieces:
            starts.append(starts[-1] + -(-array.size * dtype.itemsize // ALIGNMENT) * ALIGNMENT)
        self.len_bytes = max(self.len_bytes, starts[-1])
        slot = self._slots[self._turn]
        slot.prepare_device(starts[-1], self._compute, self._copy)
        return slot, starts

    def _transfer(self, slot: _Slot, staged: Sequence[Array], starts: Sequence[int]) -> list[Any]:
        """Queue the transfer of arrays in pinned memory; the arrays on the device."""
        lease, arrays = slot.lend(), []
        for array, start in zip(staged, starts, strict=False):
            there = slot.array(lease, start, array.shape, array.dtype)
            if array.size:
                there.set(array, stream=self._copy)
            arrays.append(there)
        self._transferred(slot)
        return arrays

    def _transferred(self, slot: _Slot) -> None:
        """Have the stream on which arrays are used wait for what was queued."""
        slot.copied.record(self._copy)
        slot.in_use = True
        self._compute.wait_event(slot.copied)

    def close(self) -> None:
        """Wait for transfers, and release the memory that nothing else refers to."""
        self._copy.synchronize()
        self._slots.clear()

    def leave_behind(self) -> list[Any]:
        """Release memory without asking the device; gives the stream and the events."""
        slots, self._slots = self._slots, []
        return [self._copy, *(event for slot in slots for event in slot.events)]


class _Lease:
    """Alive for as long as an array of one tile is referred to. Keeps its memory."""

    __slots__ = ("__weakref__", "memory")

    def __init__(self, memory: Any) -> None:
        self.memory = memory


class _Slot:
    """Memory for one tile on the host, and on the device."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._pinned: Any = None
        self._host: Array = np.empty(0, dtype=np.uint8)
        self._memory: Any = None
        self._size = 0
        self._lease: weakref.ref[_Lease] | None = None
        self._ready = cupy.cuda.Event(disable_timing=True)
        #: The transfer of the latest tile.
        self.copied = cupy.cuda.Event(disable_timing=True)
        #: Whatever was computed with it.
        self.done = cupy.cuda.Event(disable_timing=True)
        self._was_kept = False
        self.in_use = False

    @property
    def events(self) -> list[Any]:
        """All of them."""
        return [self._ready, self.copied, self.done]

    def prepare_host(self, n_bytes: int) -> None:
        """Pinned memory that no transfer reads from any more."""
        if self.in_use:
            self.copied.synchronize()
        if len(self._host) < n_bytes:
            self._pinned = self._cupy.cuda.alloc_pinned_memory(n_bytes)
            self._host = np.frombuffer(self._pinned, dtype=np.uint8, count=n_bytes)

    @property
    def _is_kept(self) -> bool:
        return self._lease is not None and self._lease() is not None

    def note_done(self, compute: Any) -> None:
        """Note that all that was queued so far includes whatever computes with the tile.

        Who keeps the tile may compute with it later, too.
        """
        self.done.record(compute)
        self._was_kept = self._is_kept

    def prepare_device(self, n_bytes: int, compute: Any, copy: Any) -> None:
        """Memory that transfers to come may write to."""
        if self._size >= n_bytes and not self._is_kept:
            if self._was_kept:
                self.note_done(compute)
            copy.wait_event(self.done)
            return
        # From CuPy's pool, which hands memory out in the order of this stream: what was computed
        # with it before may still be under way. What is kept belongs to those who keep it.
        self._memory = None
        self._size = max(n_bytes, self._size)
        self._memory = self._cupy.cuda.alloc(self._size)
        self._ready.record(compute)
        copy.wait_event(self._ready)

    def lend(self) -> _Lease:
        """A lease of the memory, to be held by all arrays of one tile."""
        lease = _Lease(self._memory)
        self._lease = weakref.ref(lease)
        return lease

    def staged(self, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A part of the pinned memory as an array."""
        n_bytes = prod(shape) * dtype.itemsize
        return self._host[start : start + n_bytes].view(dtype).reshape(shape)

    def array(self, lease: _Lease, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """A part of the device's memory as an array."""
        cuda = self._cupy.cuda
        device = lease.memory.device_id
        memory = cuda.UnownedMemory(lease.memory.ptr, self._size, lease, device)
        pointer = cuda.MemoryPointer(memory, start)
        return self._cupy.ndarray(shape, dtype=dtype, memptr=pointer)
