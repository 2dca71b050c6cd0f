"""Large results that workers of this machine leave in shared memory, instead of sending them.

A buffer is memory without a name that the client has, and lends to a worker for the large arrays of
one batch. The worker opens it by the client's process id. What it writes after its batch was given
up must not overwrite the results of another batch: each time a buffer is lent it gets another
ticket, and a worker that writes to it holds a lock.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from framefold.executor._processes.channels import CAN_SHARE
from framefold.executor._wire import pickles
from framefold.executor._wire.pickles import Places

#: What identifies a machine: its boot, the namespaces of process ids and network, and the user.
Machine = tuple[str, str, str, int]

#: The ticket, at the beginning of a buffer; arrays come behind so many bytes.
TICKET, HEADER = struct.Struct("<Q"), pickles.ALIGNMENT


class SharedBuffer(NamedTuple):
    """Where a buffer is, as the client tells the worker."""

    process: int
    descriptor: int
    #: Device and inode: process ids and descriptors are used again.
    file: tuple[int, int]
    ticket: int


def machine() -> Machine | None:
    """What two processes have in common if one can open a buffer of the other; None if none can."""
    if not CAN_SHARE:
        return None
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        spaces = os.readlink("/proc/self/ns/pid"), os.readlink("/proc/self/ns/net")
    except OSError:
        return None
    return boot, *spaces, os.getuid()


def lock(descriptor: int) -> bool:
    """Lock a buffer for as long as this opened file is open; False if another process has it."""
    import fcntl  # where memory can be shared, there it is

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def unlock(descriptor: int) -> None:
    """Release the lock."""
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_UN)


class Filling:
    """A buffer that a worker writes to.

    Parameters
    ----------
    descriptor
        Of the buffer, open for this alone.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._end = HEADER
        #: Behind the last byte of what is in it; 0 if that is nothing.
        self.used = 0

    def add(self, arrays: Sequence[memoryview]) -> Places:
        """Write arrays behind those before; says where.

        Raises
        ------
        LimitError
            If there is not so much memory.
        """
        places, size = pickles.layout(arrays)
        places = [(self._end + start, n) for start, n in places]
        if not size:
            return places
        end = self._end + size
        if end > self._size:
            pickles.check_available(end - self._size)
            self._size = end
        pickles.write(self._descriptor, arrays, places)
        self.used = end
        # What comes next is aligned, too.
        self._end = -(-end // pickles.ALIGNMENT) * pickles.ALIGNMENT
        return places

    def close(self) -> None:
        """Write nothing more."""
        os.close(self._descriptor)


def open_buffer(buffer: SharedBuffer) -> Filling | None:
    """A buffer to write to; None if it has another ticket by now, or cannot be opened here."""
    try:
        descriptor = os.open(f"/proc/{buffer.process}/fd/{buffer.descriptor}", os.O_RDWR)
    except OSError:
        return None
    with suppress(OSError):
        about = os.fstat(descriptor)
        if (about.st_dev, about.st_ino) == tuple(buffer.file) and lock(descriptor):
            # Only now: who has the lock may have changed it.
            ticket = os.pread(descriptor, TICKET.size, 0)
            if ticket == TICKET.pack(buffer.ticket):
                return Filling(descriptor)
    os.close(descriptor)
    return None
