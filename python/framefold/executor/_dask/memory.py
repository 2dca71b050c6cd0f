"""Large results that workers of this machine leave in shared memory, instead of sending them.

A buffer is memory without a name that the client has, and lends to a worker for the large arrays of
one batch. The worker opens it by the client's process id. What it writes after its batch was given
up must not overwrite the results of another batch: each time a buffer is lent it gets another
ticket, and a worker that writes to it holds a lock.

The client keeps buffers from run to run. Memory that is new has to be found and cleared by the
system, which can take longer than all that is done with it.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import secrets
import struct
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import psutil  # which distributed needs, too
from distributed.comm import get_address_host

from framefold.exceptions import LimitError
from framefold.executor._processes.channels import CAN_SHARE
from framefold.executor._wire import pickles
from framefold.executor._wire.pickles import Bytes, Places

#: What identifies a machine: its boot, the namespaces of process ids and network, and the user.
Machine = tuple[str, str, str, int]

#: The ticket, at the beginning of a buffer; arrays come behind so many bytes.
TICKET, HEADER = struct.Struct("<Q"), pickles.ALIGNMENT
#: So many bytes are kept when no run needs them, for so many seconds.
KEPT_BYTES, KEPT_SECONDS = 64 << 20, 3.0

#: No two buffers of this process, and hardly any of others, ever have the same one.
_tickets = itertools.count(secrets.randbits(48))


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


@functools.cache
def _own_addresses() -> set[str]:
    """The addresses of this machine in all networks."""
    found = {each.address for all_ in psutil.net_if_addrs().values() for each in all_}
    return {address.partition("%")[0] for address in found}


def is_near(address: str) -> bool:
    """Whether a worker may be on this machine."""
    with suppress(ValueError, OSError):  # an address of another kind, or ours are not known
        return get_address_host(address) in _own_addresses()
    return False


def _locked(descriptor: int) -> bool:
    """Lock a buffer for as long as this opened file is open; False if another process has it."""
    import fcntl  # where memory can be shared, there it is

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _unlock(descriptor: int) -> None:
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_UN)


# On workers.


class BufferWriter:
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


def open_buffer(buffer: SharedBuffer) -> BufferWriter | None:
    """A buffer to write to; None if it has another ticket by now, or cannot be opened here."""
    try:
        descriptor = os.open(f"/proc/{buffer.process}/fd/{buffer.descriptor}", os.O_RDWR)
    except OSError:
        return None
    with suppress(OSError):
        about = os.fstat(descriptor)
        if (about.st_dev, about.st_ino) == tuple(buffer.file) and _locked(descriptor):
            # Only now: who has the lock may have changed it.
            ticket = os.pread(descriptor, TICKET.size, 0)
            if ticket == TICKET.pack(buffer.ticket):
                return BufferWriter(descriptor)
    os.close(descriptor)
    return None


# On the client.


class _Memory:
    """One buffer."""

    def __init__(self) -> None:
        self.descriptor = pickles.allocate(HEADER)
        weakref.finalize(self, os.close, self.descriptor)
        about = os.fstat(self.descriptor)
        self._file = about.st_dev, about.st_ino
        self._mapped: Any = None
        self._user: weakref.ref[Bytes] | None = None

    def lend(self) -> SharedBuffer | None:
        """The description for a worker; None if another worker still writes to the buffer."""
        if not _locked(self.descriptor):
            return None
        ticket = next(_tickets)
        try:
            os.pwrite(self.descriptor, TICKET.pack(ticket), 0)
        finally:
            _unlock(self.descriptor)
        return SharedBuffer(os.getpid(), self.descriptor, self._file, ticket)

    def read(self, used: int) -> Bytes:
        """What a worker has written; not overwritten while a reference to it exists."""
        if self._mapped is None or len(self._mapped) < used:
            mapped = pickles.mapped(os.dup(self.descriptor), self.size, private=False)
            self._mapped = mapped.base
        # A separate object, to see when it is gone; views of it refer to it.
        memory: Bytes = np.frombuffer(self._mapped, np.uint8)
        self._user = weakref.ref(memory)
        return memory

    @property
    def is_read(self) -> bool:
        """Whether a reference to what was written exists."""
        return self._user is not None and self._user() is not None

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size


class BufferPool:
    """All buffers of one client; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Free buffers, in the order in which they were given back; and lent ones, by ticket.
        self._free: list[_Memory] = []
        self._lent: dict[int, _Memory] = {}
        self._most_lent = 0
        self._n_lent = 0
        self._closed = machine() is None

    def lend(self) -> SharedBuffer | None:
        """A buffer for one batch; None if there is no memory for it, or it cannot be shared."""
        with self._lock:
            if self._closed:
                return None
            for memory in [memory for memory in reversed(self._free) if not memory.is_read]:
                self._free.remove(memory)
                if (buffer := memory.lend()) is not None:
                    break
            else:
                try:
                    memory = _Memory()
                except (OSError, LimitError):
                    return None
                buffer = memory.lend()
            if buffer is not None:
                self._lent[buffer.ticket] = memory
                self._most_lent = max(self._most_lent, len(self._lent))
                self._n_lent += 1
            return buffer

    def read(self, buffer: SharedBuffer, used: int) -> Bytes:
        """What a worker has written to a buffer that is lent.

        Parameters
        ----------
        used
            How many bytes, as the worker says.

        Raises
        ------
        LimitError
            If there is no room for it.
        """
        with self._lock:
            return self._lent[buffer.ticket].read(used)

    def give_back(self, buffer: SharedBuffer) -> None:
        """Take a buffer back, to which no worker is to write any more."""
        with self._lock:
            memory = self._lent.pop(buffer.ticket, None)
            if memory is None or self._closed:
                return
            self._free.append(memory)
            # As many are merged, or about to be. What user code keeps stays there without this.
            del self._free[: -2 * self._most_lent]

    def release_later(self) -> None:
        """A run has ended: release all free buffers, if no other run lends any soon."""
        with self._lock:
            size = 0
            for memory in reversed(self._free.copy()):
                size += memory.size
                if size > KEPT_BYTES:
                    self._free.remove(memory)
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # there will be no other run
                self._free.clear()
            else:
                loop.call_later(KEPT_SECONDS, self.release_unused, self._n_lent)

    def release_unused(self, n_lent: int | None = None) -> None:
        """Release all buffers that are not lent, unless more than ``n_lent`` were lent so far."""
        with self._lock:
            if n_lent in (None, self._n_lent):
                self._free.clear()
                self._most_lent = len(self._lent)

    def close(self) -> None:
        """Release all buffers, and lend none any more."""
        with self._lock:
            self._closed = True
            self._free.clear()
