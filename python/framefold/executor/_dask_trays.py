"""Large results that workers of this machine leave in shared memory, instead of sending them.

A tray is memory without a name that a worker process has. It takes the large arrays of one batch,
and is used again when these are merged. The client opens it by the worker's process id; it goes
with the run, or with the worker.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import NamedTuple

from framefold.executor import _shared
from framefold.executor._channel import CAN_SHARE
from framefold.executor._shared import Bytes, Places
from framefold.executor._slots import Filled, MappedSlots

#: Of a system that was started, its process ids, its network, and its user.
Machine = tuple[str, str, str, int]


class Tray(NamedTuple):
    """Where a tray is, as the worker tells the client."""

    number: int
    len_bytes: int
    process: int
    descriptor: int
    #: Device and inode: process ids and descriptors are used again.
    file: tuple[int, int]


def machine() -> Machine | None:
    """What two processes have in common if one can open a tray of the other; None if none can."""
    if not CAN_SHARE:
        return None
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        spaces = os.readlink("/proc/self/ns/pid"), os.readlink("/proc/self/ns/net")
    except OSError:
        return None
    return boot, *spaces, os.getuid()


class Memory:
    """A tray, on the worker."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._descriptor = _shared.allocate(0)
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self._size = 0
        self._end = 0

    def clear(self) -> None:
        """Begin anew."""
        self._end = 0

    def close(self) -> None:
        """Let go of the memory; the client keeps what it has mapped."""
        self._close()

    def add(self, arrays: Sequence[memoryview]) -> Places:
        """Write arrays behind those before; says where.

        Raises
        ------
        LimitError
            If there is not so much memory.
        """
        places, size = _shared.layout(arrays)
        places = [(self._end + start, n) for start, n in places]
        end = self._end + size
        if end > self._size:
            _shared.check_available(end - self._size)
            self._size = end
        _shared.write(self._descriptor, arrays, places)
        # What comes next is aligned, too.
        self._end = -(-end // _shared.ALIGNMENT) * _shared.ALIGNMENT
        return places

    def told(self) -> Tray | None:
        """Where it is; None if it is empty."""
        if not self._end:
            return None
        about = os.fstat(self._descriptor)
        file = about.st_dev, about.st_ino
        return Tray(self.number, self._size, os.getpid(), self._descriptor, file)


class Trays:
    """All trays of one run on a worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[int, Memory] = {}
        self._free: list[int] = []

    def take(self, merged: Sequence[int]) -> Memory:
        """An empty tray; the arrays of those in ``merged`` are not needed any more."""
        with self._lock:
            # Numbers of a process that was here before mean nothing.
            self._free += (number for number in merged if number in self._all)
            if self._free:
                tray = self._all[self._free.pop()]
                tray.clear()
            else:
                tray = Memory(len(self._all) + 1)
                self._all[tray.number] = tray
            return tray

    def put_back(self, tray: Memory) -> None:
        """It is empty, or nobody is going to be told of it."""
        with self._lock:
            if tray.number in self._all:
                self._free.append(tray.number)

    def close(self) -> None:
        """Let go of all of them; nobody is busy with one."""
        with self._lock:
            for tray in self._all.values():
                tray.close()
            self._all.clear()
            self._free.clear()


class MappedTrays:
    """The trays of one worker, as the client sees them."""

    def __init__(self) -> None:
        self._slots = MappedSlots()
        self._mapped: dict[int, Tray] = {}
        self._closed = False

    def memory(self, tray: Tray) -> Bytes:
        """What is in a tray; it is in use for as long as anybody refers to that array.

        Raises
        ------
        OSError
            If it cannot be opened: the worker has died, or this process may not. Or if all of them
            are closed.
        """
        if self._closed:
            raise FileNotFoundError("the run has ended")
        descriptors = []
        # A worker that began anew may have the same address, and other memory.
        if self._mapped.get(tray.number) != tray:
            descriptor = os.open(f"/proc/{tray.process}/fd/{tray.descriptor}", os.O_RDWR)
            about = os.fstat(descriptor)
            if (about.st_dev, about.st_ino) != tray.file:
                os.close(descriptor)
                raise FileNotFoundError(f"the memory of process {tray.process} is gone")
            descriptors.append(descriptor)
            self._mapped[tray.number] = tray
        filled: Filled = tray.number, tray.len_bytes, [], bool(descriptors)
        return self._slots.lend(filled, descriptors)[0]

    def merged(self) -> list[int]:
        """The numbers of trays that nobody refers to any more, once."""
        return self._slots.returned()

    def close(self) -> None:
        """Let go of all memory that nobody refers to, and open none any more."""
        self._closed = True
        self._mapped.clear()
        self._slots = MappedSlots()
