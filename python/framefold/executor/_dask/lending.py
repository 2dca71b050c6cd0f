"""The buffers of a client: memory that it lends to workers, and keeps from run to run.

Memory that is new has to be found and cleared by the system, which can take longer than all that is
done with it; a worker that gets a buffer again finds it as it was.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import secrets
import threading
import weakref
from contextlib import suppress
from typing import Any

import numpy as np
import psutil  # which distributed needs, too
from distributed.comm import get_address_host

from framefold.exceptions import LimitError
from framefold.executor._dask.buffers import HEADER, TICKET, SharedBuffer, lock, machine, unlock
from framefold.executor._wire import pickles
from framefold.executor._wire.pickles import Bytes

#: So many bytes are kept when no run needs them, for so many seconds.
KEPT_BYTES, KEPT_SECONDS = 64 << 20, 3.0

#: No two buffers of this process, and hardly any of others, ever have the same one.
_tickets = itertools.count(secrets.randbits(48))


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
        if not lock(self.descriptor):
            return None
        ticket = next(_tickets)
        try:
            os.pwrite(self.descriptor, TICKET.pack(ticket), 0)
        finally:
            unlock(self.descriptor)
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


class BufferPool:
    """All buffers of one client; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Free buffers, in the order in which they were given back; and lent ones, by ticket.
        self._free: list[_Memory] = []
        self._lent: dict[int, _Memory] = {}
        self._most_lent = 0
        self._resting: asyncio.TimerHandle | None = None
        self._closed = machine() is None

    def lend(self) -> SharedBuffer | None:
        """A buffer for one batch; None if there is no memory for it, or it cannot be shared."""
        with self._lock:
            if self._closed:
                return None
            self._wake()
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
        """A run has ended: release all free buffers, if no other run starts soon."""
        with self._lock:
            self._wake()
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
                self._resting = loop.call_later(KEPT_SECONDS, self.release_unused)

    def release_unused(self) -> None:
        """Release all buffers that are not lent."""
        with self._lock:
            self._resting = None
            self._free.clear()
            self._most_lent = len(self._lent)

    def close(self) -> None:
        """Release all buffers, and lend none any more."""
        with self._lock:
            self._closed = True
            self._resting = None  # not cancelled: this may be any thread
            self._free.clear()

    def _wake(self) -> None:
        if self._resting is not None:
            with suppress(RuntimeError):  # its loop is closed
                self._resting.cancel()
            self._resting = None
