"""Messages between the main process and a worker process, in order, both ways.

A message is a pickled tuple. File descriptors can go along where the system can do that, which is
how memory is shared: it has no name, so nothing is left of it when both sides are gone.

A worker whose user code holds the GIL reads nothing. What does not fit into the channel meanwhile
is sent on a separate thread, so that the pool's thread goes on for all other workers, and ends this
one when its time is over.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import select
import socket
import sys
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection as Pipe

#: Whether memory can be handed over as a file descriptor.
CAN_SHARE = hasattr(os, "memfd_create") and hasattr(socket, "send_fds")

#: What is no longer than this, and than a quarter of its memory, always fits into a channel that
#: can take anything at all.
SMALL = 32 << 10 if sys.platform == "linux" else 1 << 10

#: So many bytes are copied behind their number, to be sent at once.
TOGETHER = 16 << 10

#: So many bytes are asked for at once: memory is taken for all of them, before any is there.
PART = 256 << 10

#: How long the sending thread may take to notice that the channel is shut, in seconds.
PATIENCE = 5.0

#: The exit code of a worker whose end was closed by user code.
LOST = 74

#: The variable that holds the PYTHONPATH which the worker's own one stands in for.
GIVEN_PATH = "FRAMEFOLD_GIVEN_PYTHONPATH"


End = TypeVar("End", bound="Channel")


class Connection:
    """Bytes over a socket, as :mod:`multiprocessing` sends them; importing that takes 15 ms.

    Parameters
    ----------
    handle
        The file descriptor, which becomes its own.
    """

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close it; closing it again does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def fileno(self) -> int:
        """The file descriptor; raises OSError if it is closed."""
        if self._handle is None:
            raise OSError("the connection is closed")
        return self._handle

    def send_bytes(self, data: bytes) -> None:
        """Send so many bytes, after their number."""
        length = len(data).to_bytes(8, "big")
        if len(data) <= TOGETHER:
            self._write(length + data)
        else:
            self._write(length)
            self._write(data)

    def recv_bytes(self) -> bytes:
        """What was sent at once; raises EOFError or OSError if the other end is closed."""
        return self._read(int.from_bytes(self._read(8), "big"))

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self.fileno(), left) :]

    def _read(self, n_bytes: int) -> bytes:
        whole = io.BytesIO()  # gives away what it has; parts that are joined are there twice
        while n_bytes:
            part = os.read(self.fileno(), min(n_bytes, PART))
            if not part:
                raise EOFError("the other end is closed")
            whole.write(part)
            n_bytes -= len(part)
        return whole.getvalue()


class Channel:
    """One end. Sending and receiving may go on at the same time on two threads.

    Parameters
    ----------
    connection
        For messages; of :mod:`multiprocessing` where the system is Windows.
    carrier
        The same as a socket, if file descriptors can be sent over it.
    """

    def __init__(self, connection: Connection | Pipe, carrier: socket.socket | None = None) -> None:
        self.connection = connection
        self._carrier = carrier

    def send(self, message: tuple[Any, ...], descriptors: Sequence[int] = ()) -> None:
        """Send a message; raises OSError if the other end is closed."""
        self._send_packed(_packed(message, descriptors), descriptors)

    def _send_packed(self, data: bytes, descriptors: Sequence[int]) -> None:
        self.connection.send_bytes(data)
        for descriptor in descriptors:
            assert self._carrier is not None
            socket.send_fds(self._carrier, [b"d"], [descriptor])

    def receive(self) -> tuple[tuple[Any, ...], list[int]]:
        """The next message, and the descriptors that came along, which are the caller's.

        Raises
        ------
        EOFError, OSError
            If the other end is closed.
        """
        message, n_descriptors = pickle.loads(self.connection.recv_bytes())
        received: list[int] = []
        try:
            for _ in range(n_descriptors):
                assert self._carrier is not None
                flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
                data, descriptors, _, _ = socket.recv_fds(self._carrier, 1, 1, flags)
                received += descriptors
                if not data or not descriptors:
                    raise EOFError("a message ended early")
        except BaseException:
            for descriptor in received:
                os.close(descriptor)
            raise
        return message, received

    def close(self) -> None:
        """Close this end; closing it again does nothing."""
        with contextlib.suppress(OSError):
            self.connection.close()
        if self._carrier is not None:
            self._carrier.close()


class WorkerEnd(Channel):
    """The worker's end. Where user code has closed it, the process ends: no one else reads it."""

    def __init__(self, connection: Connection | Pipe, carrier: socket.socket | None = None) -> None:
        super().__init__(connection, carrier)
        self._file = self._looked_up()

    def _send_packed(self, data: bytes, descriptors: Sequence[int]) -> None:
        try:
            # User code may have closed it, and opened a file with the same descriptor.
            if self._carrier is not None and self._looked_up() != self._file:
                os._exit(LOST)
            super()._send_packed(data, descriptors)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except OSError:
            os._exit(LOST)

    def _looked_up(self) -> list[tuple[int, int]]:
        if self._carrier is None:
            return []
        found = map(os.fstat, (self.connection.fileno(), self._carrier.fileno()))
        return [(about.st_dev, about.st_ino) for about in found]


def over_socket(carrier: socket.socket, cls: type[End]) -> End:
    """A channel over a socket, which becomes its own."""
    carrier.setblocking(True)  # also after socket.setdefaulttimeout(seconds)
    return cls(Connection(os.dup(carrier.fileno())), carrier)


def connect(handle: int) -> WorkerEnd:
    """The worker's end; ``handle`` is from its command line."""
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        return WorkerEnd(PipeConnection(handle))
    os.set_inheritable(handle, False)
    return over_socket(socket.socket(fileno=handle), WorkerEnd)


class _Queued(NamedTuple):
    """A message that waits until the channel has room for it."""

    #: The number of the run that it belongs to.
    run: int
    #: What it is about: the first entry of the message.
    kind: str
    data: bytes
    #: Duplicates, which are closed once the message is sent.
    descriptors: list[int]


class MainEnd(Channel):
    """The main process's end: sending does not wait until the worker reads. Used by one thread."""

    def __init__(self, connection: Connection | Pipe, carrier: socket.socket | None = None) -> None:
        super().__init__(connection, carrier)
        self._lock = threading.Lock()
        self._waiting: deque[_Queued] = deque()
        self._thread: threading.Thread | None = None
        self._at_once = 0
        if carrier is not None:
            room = carrier.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            self._at_once = min(SMALL, room // 4)

    @property
    def is_held_up(self) -> bool:
        """Whether there is something that has not been sent."""
        return self._thread is not None

    def send(
        self, message: tuple[Any, ...], descriptors: Sequence[int] = (), *, run: int = 0
    ) -> None:
        """Send a message, now or later.

        Parameters
        ----------
        run
            The number of the run that it belongs to.

        Raises
        ------
        OSError
            If the worker is known to have ended.
        """
        data = _packed(message, descriptors)
        if self._thread is None and self._has_room(len(data)):
            self._send_packed(data, descriptors)
            return
        queued = _Queued(run, message[0], data, [os.dup(each) for each in descriptors])
        with self._lock:
            self._waiting.append(queued)
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._go_on, name="ff-sending", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # there can be no more threads: it has to be waited for
                self._waiting.remove(queued)
            else:
                self._thread = thread
                return
        try:
            self._send_packed(queued.data, queued.descriptors)
        finally:
            _close([queued])

    def _has_room(self, len_bytes: int) -> bool:
        """Whether a message of so many bytes can be sent at once, before the other end reads."""
        if self._carrier is None or len_bytes > self._at_once:
            return False
        poll = select.poll()
        poll.register(self._carrier, select.POLLOUT)
        return bool(poll.poll(0))

    def withdraw(self, run: int) -> list[str]:
        """Send no more of a run; of each message that is left out, what it is about."""
        with self._lock:
            left_out = [queued for queued in self._waiting if queued.run == run]
            kept = [queued for queued in self._waiting if queued.run != run]
            self._waiting = deque(kept)
        _close(left_out)
        return [queued.kind for queued in left_out]

    def close(self) -> None:
        """Send and receive nothing any more."""
        with self._lock:
            thread = self._thread
            left_out, self._waiting = self._waiting, deque()
        _close(left_out)
        if thread is not None:
            self._shut()
            thread.join(PATIENCE)
        super().close()

    def disown(self) -> None:
        """Close it in a fork, where there is no such thread, and the lock may be taken for ever."""
        _close(self._waiting)
        self._waiting.clear()
        super().close()

    def _go_on(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                queued = self._waiting.popleft()
            try:
                self._send_packed(queued.data, queued.descriptors)
            except OSError:
                pass  # that the worker is gone is noticed where its messages are read
            except BaseException:
                self._shut()  # or it would wait for the rest for ever
            finally:
                _close([queued])

    def _shut(self) -> None:
        """Have sending and receiving raise from now on."""
        if self._carrier is not None:
            with contextlib.suppress(OSError):
                self._carrier.shutdown(socket.SHUT_RDWR)


def _packed(message: tuple[Any, ...], descriptors: Sequence[int]) -> bytes:
    return pickle.dumps((message, len(descriptors)), 5)


def _close(messages: Iterable[_Queued]) -> None:
    for queued in messages:
        for descriptor in queued.descriptors:
            os.close(descriptor)
