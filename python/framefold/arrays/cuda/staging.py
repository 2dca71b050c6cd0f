"""Pinned memory into which threads of the engine read tiles, and from which they reach the device.

The engine fills one tile after the other, ahead of their use, and gives each to the worker when it
is complete. The worker queues its transfer. Before the engine writes to a tile again, it waits for
that transfer, which was queued some tiles ago.

Pinning memory takes as long as sending gigabytes does, so some of it stays for later runs.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.arrays.cuda.decoding import LARGEST_BLOCK, Decoder

Array = npt.NDArray[Any]

#: So many bytes of pinned memory stay for later runs on a device, at most.
MOST_SPARE = 256 << 20

_lock = threading.Lock()
#: Tiles of runs that have ended, by device; no transfer reads from them.
_spare: dict[int, list[StagedTile]] = {}


class Staging:
    """The pinned memory of one worker; made, used and closed while its device is current.

    Parameters
    ----------
    n_readers
        How many threads of the engine read; 0 if all frames are on the device.
    device
        The number of the device.
    """

    def __init__(self, n_readers: int, device: int | None = None) -> None:
        self.n_readers = n_readers
        self._device = device
        #: How many whole frames a tile has; None for as many as planned.
        self.depth: int | None = None
        #: Whether tiles of whole frames are put there without corrections, for the device to apply.
        self.corrects = False
        #: The largest block of a chunk that the device decodes.
        self.block_bytes = LARGEST_BLOCK
        self._decoder: Decoder | None = None
        self._tiles: list[StagedTile] = []
        self._len_bytes = 0

    def prepare(self, n_tiles: int, len_bytes: int) -> list[Array]:
        """Bytes of ``n_tiles`` tiles, each at least as long, for the engine to write.

        No transfer reads from earlier ones any more.
        """
        if len_bytes > self._len_bytes:
            self._tiles.clear()
            self._len_bytes = len_bytes
        if self._device is not None and len(self._tiles) < n_tiles:
            self._tiles += _taken(self._device, n_tiles - len(self._tiles), self._len_bytes)
        while len(self._tiles) < n_tiles:
            self._tiles.append(StagedTile(self._len_bytes))
        return [tile.host for tile in self._tiles[:n_tiles]]

    def close(self) -> None:
        """Leave some of it for later runs. All transfers have ended."""
        tiles, self._tiles, self._len_bytes = self._tiles, [], 0
        if self._device is None:
            return
        with _lock:
            spare = _spare.setdefault(self._device, [])
            free = MOST_SPARE - sum(len(tile.host) for tile in spare)
            for tile in tiles:
                if (free := free - len(tile.host)) < 0:
                    break
                spare.append(tile)

    def tile(self, number: int) -> StagedTile:
        """A tile that the engine has written."""
        return self._tiles[number]

    def wait(self, number: int) -> None:
        """Wait until no transfer reads from a tile any more."""
        self._tiles[number].wait()

    @property
    def decoder(self) -> Decoder:
        """What decodes tiles that come as they are stored."""
        if self._decoder is None:
            self._decoder = Decoder()
        return self._decoder

    def damaged(self) -> int | None:
        """The first frame since the last call that the device could not decode."""
        return None if self._decoder is None else self._decoder.damaged()

    def leave_behind(self) -> list[Any]:
        """The events, to be kept where the device is lost: CUDA would complain of their end."""
        with _lock:
            spare = [] if self._device is None else _spare.pop(self._device, [])
        return [tile.transferred for tile in (*self._tiles, *spare)]


def _taken(device: int, n_tiles: int, len_bytes: int) -> list[StagedTile]:
    """Up to so many tiles that earlier runs have left; those that are too short are dropped."""
    with _lock:
        long = [tile for tile in _spare.pop(device, []) if len(tile.host) >= len_bytes]
        if len(long) > n_tiles:
            _spare[device] = long[n_tiles:]
        return long[:n_tiles]


def drop_spare() -> None:
    """Give back the pinned memory that stays for later runs."""
    with _lock:
        dropped = bool(_spare)
        _spare.clear()
    if dropped:
        with suppress(Exception):  # CUDA refuses where no device is left that works
            sys.modules["cupy"].get_default_pinned_memory_pool().free_all_blocks()


#: For frames that are on the device before the run.
NOTHING_TO_READ = Staging(0)


class StagedTile:
    """Pinned memory for one tile."""

    def __init__(self, len_bytes: int) -> None:
        import cupy

        pinned = cupy.cuda.alloc_pinned_memory(len_bytes)
        #: Its bytes; they keep the memory.
        self.host: Array = np.frombuffer(pinned, dtype=np.uint8, count=len_bytes)
        #: The latest transfer. A thread that waits for it sleeps, and another one can read.
        self.transferred = cupy.cuda.Event(block=True, disable_timing=True)
        self._is_queued = False

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """What the engine has written, as an array."""
        return self.host[: prod(shape) * dtype.itemsize].view(dtype).reshape(shape)

    def queued(self, stream: Any) -> None:
        """Note that a transfer was queued on ``stream``."""
        self.transferred.record(stream)
        self._is_queued = True

    def wait(self) -> None:
        """Wait for all transfers that were queued."""
        if self._is_queued:
            self.transferred.synchronize()
            self._is_queued = False
