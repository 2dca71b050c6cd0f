"""Scripts as processes that tests read from and send signals to, while they run.

They are forked from a process that has imported NumPy, which takes two thirds of the time of a
short script. The package itself is imported in each of them anew. ``forked_scripts`` runs scripts
to their end.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FORKS = """
import gc, json, os, signal, socket, sys, types
import numpy
channel = socket.socket(fileno=int(sys.argv[1]))
gc.freeze()
while True:
    message, streams, *_ = socket.recv_fds(channel, 1 << 20, 2)
    if not message:
        break
    pid = os.fork()
    if pid == 0:
        channel.close()
        for number, stream in enumerate(streams, 1):
            os.dup2(stream, number)
            os.close(stream)
        # Where interrupts are ignored, as in jobs of a shell, children would do so, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        script, *arguments = json.loads(message)
        sys.argv = ["-c", *arguments]
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(script, "<string>", "exec"), vars(sys.modules["__main__"]))
        sys.exit()
    for stream in streams:
        os.close(stream)
    channel.send(str(pid).encode())
    channel.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
"""


class Forked:
    """A script that runs, with what tests use of :class:`subprocess.Popen`."""

    def __init__(self, channel: socket.socket, script: str, *arguments: object) -> None:
        self._channel = channel
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the script
        reading, writing = os.pipe()
        message = json.dumps([script, *map(str, arguments)]).encode()
        socket.send_fds(channel, [message], [writing, self._errors.fileno()])
        os.close(writing)
        self.stdout = os.fdopen(reading)
        self.pid = int(channel.recv(100))
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Send a signal to it, if it has not ended."""
        if not self._has_ended():
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once, if it has not ended."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it prints, and its errors, until it and its children end; killed after `timeout`."""
        late = threading.Timer(timeout, self.kill)
        late.start()
        try:
            out = self.stdout.read()
            self._wait()
        finally:
            late.cancel()
            late.join()
        self._errors.seek(0)
        return out, self._errors.read()

    def close(self) -> None:
        """End it, and forget what it printed."""
        self.kill()
        self._wait()
        self.stdout.close()
        self._errors.close()

    def _wait(self) -> None:
        if self.returncode is None:
            self.returncode = int(self._channel.recv(100))

    def _has_ended(self) -> bool:
        if self.returncode is None:
            try:
                self.returncode = int(self._channel.recv(100, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return False
        return True


@contextmanager
def forked_processes() -> Iterator[Callable[..., Forked]]:
    """Starts scripts; each of them ends the one before."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        command = [sys.executable, "-c", FORKS, str(theirs.fileno())]
        with subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL):
            theirs.close()
            started: list[Forked] = []

            def start(script: str, *arguments: object) -> Forked:
                while started:
                    started.pop().close()
                started.append(Forked(ours, script, *arguments))
                return started[0]

            try:
                yield start
            finally:
                while started:
                    started.pop().close()
                ours.close()
