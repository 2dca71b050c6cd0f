"""The viewer of the command line, and a client of its WebSocket, for tests."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from view_client import LIMIT, Client


class SocketClient(Client):
    """A client of a viewer that is served: the link is its first line."""

    def __init__(self, link: str) -> None:
        self._id = 0
        self.session = _Connection(link)


class _Connection:
    """Messages as a session of the engine has them, over a WebSocket (RFC 6455)."""

    def __init__(self, link: str) -> None:
        address = urlsplit(link)
        first = http.client.HTTPConnection(address.netloc, timeout=LIMIT)
        first.request("GET", f"{address.path}?{address.query}")
        cookie = first.getresponse().headers["set-cookie"].split(";")[0]
        first.close()
        self._socket = socket.create_connection((address.hostname, address.port), LIMIT)
        self._file = self._socket.makefile("rb")
        lines = (
            f"GET {address.path}ws HTTP/1.1",
            f"Host: {address.netloc}",
            f"Origin: http://{address.netloc}",
            f"Cookie: {cookie}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        )
        self._socket.sendall("\r\n".join((*lines, "", "")).encode())
        assert b" 101 " in self._file.readline()
        while self._file.readline().strip():
            pass

    def _send(self, kind: int, payload: bytes) -> None:
        n = len(payload)
        length = struct.pack("!BBQ", 0x80 | kind, 0x80 | 127, n)
        # The mask changes nothing.
        self._socket.sendall(length + bytes(4) + payload)

    def receive_text(self, text: str) -> None:
        self._send(1, text.encode())

    def receive_bytes(self, payload: bytes) -> None:
        self._send(2, payload)

    def next(self, _timeout: float) -> str | bytes | bool:
        while True:
            kind, n = self._file.read(2)
            n &= 0x7F
            if n == 126:
                (n,) = struct.unpack("!H", self._file.read(2))
            elif n == 127:
                (n,) = struct.unpack("!Q", self._file.read(8))
            payload = self._file.read(n)
            assert kind & 0x80, "a message in pieces"
            if kind & 0xF == 1:
                return payload.decode()
            if kind & 0xF == 2:
                return payload
            if kind & 0xF == 8:
                return False

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@contextlib.contextmanager
def served(*arguments: str | os.PathLike[str], folder: Path) -> Iterator[SocketClient]:
    """A client of ``framefold view`` with these arguments."""
    command = [sys.executable, "-m", "framefold", "view", *arguments, "--no-browser"]
    running = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        client = SocketClient(running.stdout.readline().strip())
        yield client
        client.session.close()
    finally:
        running.terminate()
        running.communicate(timeout=LIMIT)
