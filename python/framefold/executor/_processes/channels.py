"""Messages between the main process and a worker process, in order, both ways.

A message is a pickled tuple. File descriptors can go along where the system can do that, which is
how memory is shared: it has no name, so nothing is left of it when both sides are gone.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import socket
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

#: Whether memory can be handed over as a file descriptor.
CAN_SHARE = hasattr(os, "memfd_create") and hasattr(socket, "send_fds")

#: What is no longer than this, and than a quarter of its memory, always fits into a channel that
#: can take anything at all.
SMALL = 32 << 10 if sys.platform == "linux" else 1 << 10

#: The exit code of a worker whose end was closed by user code.
LOST = 74

#: The variable that holds the PYTHONPATH which the worker's own one stands in for.
GIVEN_PATH = "FRAMEFOLD_GIVEN_PYTHONPATH"


class Channel:
    """One end. Sending and receiving may go on at the same time on two threads.

    Parameters
    ----------
    connection
        Of :mod:`multiprocessing`.
    carrier
        The same as a socket, if file descriptors can be sent over it.
    """

    def __init__(self, connection: Connection, carrier: socket.socket | None = None) -> None:
        self.connection = connection
        self._carrier = carrier
        self._at_once = 0
        if carrier is not None:
            room = carrier.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            self._at_once = min(SMALL, room // 4)

    def send(self, message: tuple[Any, ...], descriptors: Sequence[int] = ()) -> None:
        """Send a message; raises OSError if the other end is closed."""
        self.send_packed(self.packed(message, len(descriptors)), descriptors)

    @staticmethod
    def packed(message: tuple[Any, ...], n_descriptors: int) -> bytes:
        """A message as :meth:`send_packed` takes it."""
        return pickle.dumps((message, n_descriptors), 5)

    def send_packed(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send a message; raises OSError if the other end is closed."""
        self.connection.send_bytes(data)
        for descriptor in descriptors:
            assert self._carrier is not None
            socket.send_fds(self._carrier, [b"d"], [descriptor])

    def takes(self, len_bytes: int) -> bool:
        """Whether a message of so many bytes can be sent at once, before the other end reads."""
        if self._carrier is None or len_bytes > self._at_once:
            return False
        poll = select.poll()
        poll.register(self._carrier, select.POLLOUT)
        return bool(poll.poll(0))

    def shut(self) -> None:
        """Shut the channel: sending and receiving at this end raise from now on."""
        if self._carrier is not None:
            with contextlib.suppress(OSError):
                self._carrier.shutdown(socket.SHUT_RDWR)

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

    def __init__(self, connection: Connection, carrier: socket.socket | None = None) -> None:
        super().__init__(connection, carrier)
        self._file = self._looked_up()

    def send_packed(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send a message; raises OSError if the other end is closed."""
        try:
            # User code may have closed it, and opened a file with the same descriptor.
            if self._carrier is not None and self._looked_up() != self._file:
                os._exit(LOST)
            super().send_packed(data, descriptors)
        except (BrokenPipeError, ConnectionResetError):
            raise
        except OSError:
            os._exit(LOST)

    def _looked_up(self) -> list[tuple[int, int]]:
        if self._carrier is None:
            return []
        found = map(os.fstat, (self.connection.fileno(), self._carrier.fileno()))
        return [(about.st_dev, about.st_ino) for about in found]


def _from_socket(carrier: socket.socket, cls: type[Channel] = Channel) -> Channel:
    return cls(Connection(os.dup(carrier.fileno())), carrier)


def connect(handle: int) -> Channel:
    """The worker's end; ``handle`` is what :func:`start` put on its command line."""
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        return WorkerEnd(PipeConnection(handle))
    os.set_inheritable(handle, False)
    return _from_socket(socket.socket(fileno=handle), WorkerEnd)


def start(command: list[str], environment: dict[str, str]) -> Started:
    """Start a process that has the other end of a channel.

    The handle of that end, and that of a pipe that ends with this process (or -1), are added to
    ``command``.
    """
    if sys.platform == "win32":
        return _start_on_windows(command, environment)
    ours, theirs = socket.socketpair()
    reading, lifeline = os.pipe()
    try:
        with theirs:
            handles = (theirs.fileno(), reading)
            process = subprocess.Popen(
                [*command, *map(str, handles)],
                stdin=subprocess.DEVNULL,
                env=environment,
                pass_fds=handles,
                process_group=0,  # Ctrl-C in a terminal is the main process's to deal with
            )
    except BaseException:
        ours.close()
        os.close(lifeline)
        raise
    finally:
        os.close(reading)
    return Started(process, _from_socket(ours), lifeline)


def _start_on_windows(command: list[str], environment: dict[str, str]) -> Started:
    ours, theirs = Pipe()
    handle = theirs.fileno()
    info = subprocess.STARTUPINFO(  # type: ignore[attr-defined]
        lpAttributeList={"handle_list": [handle]}
    )
    os.set_handle_inheritable(handle, True)  # type: ignore[attr-defined]
    try:
        process = subprocess.Popen(
            [*command, str(handle), "-1"],
            stdin=subprocess.DEVNULL,
            env=environment,
            startupinfo=info,
            creationflags=subprocess.CREATE_NEW_PROCESS_GROUP,  # type: ignore[attr-defined]
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return Started(process, Channel(ours), None)


class Started:
    """A process, our end of the channel to it, and the pipe that it must not survive."""

    def __init__(
        self, process: subprocess.Popen[bytes], channel: Channel, lifeline: int | None
    ) -> None:
        self.process = process
        self.channel = channel
        self._lifeline = lifeline

    def close(self, *, disown: bool = False) -> None:
        """Close what is open; with ``disown``, in a fork, leave the process alone."""
        self.channel.close()
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if disown:
            self.process.returncode = 0  # or its destructor would complain
