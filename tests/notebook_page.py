"""A notebook's page for tests: messages of its widget travel over HTTP, not Jupyter's channels."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from browser_cases import DIST, HERE

from framefold import _engine
from framefold._viewer.connection import Connection

#: How long a request for messages waits for the next one, in seconds.
WAIT = 5.0


class Channel:
    """What a kernel has sent to the page, in order, and who receives what the page sends."""

    def __init__(self, host: _engine.ViewerHost) -> None:
        self.sent: list[dict[str, Any]] = []
        self.more = threading.Condition()
        self.ended = False
        self.connection = Connection(host, self.send)

    def send(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        encoded = [base64.b64encode(buffer).decode() for buffer in buffers]
        with self.more:
            self.sent.append({"content": content, "buffers": encoded})
            self.more.notify_all()

    def after(self, n: int) -> list[dict[str, Any]]:
        """The messages after the first ``n``, for which it waits a while."""
        with self.more:
            self.more.wait_for(lambda: self.ended or len(self.sent) > n, WAIT)
            return self.sent[n:]

    def receive(self, message: dict[str, Any]) -> None:
        buffers = [base64.b64decode(text) for text in message["buffers"]]
        self.connection.receive(message["content"], buffers)

    def close(self) -> None:
        self.connection.close()
        with self.more:
            self.ended = True
            self.more.notify_all()


def files() -> dict[str, tuple[bytes, str]]:
    """The page, and the module and style that the widget has."""
    if DIST:
        script, style = (Path(DIST, name).read_bytes() for name in ("viewer.js", "viewer.css"))
    else:
        script, style = (text.encode() for text in _engine.viewer_page())
    return {
        "/": ((HERE / "notebook.html").read_bytes(), "text/html"),
        "/notebook.js": ((HERE / "notebook.js").read_bytes(), "text/javascript"),
        "/viewer.js": (script, "text/javascript"),
        "/viewer.css": (style, "text/css"),
    }


def handler_of(channel: Channel) -> type[BaseHTTPRequestHandler]:
    """What answers the requests of the page."""
    known = files()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path == "/messages":
                body = json.dumps(channel.after(int(query.removeprefix("after=")))).encode()
                self.answer(body, "application/json")
            elif path in known:
                self.answer(*known[path])
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            channel.receive(message)
            self.answer(b"", "text/plain")

        def answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", f"{kind}; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            with suppress(OSError):  # the page was closed while it waited
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@contextmanager
def notebook_page(host: _engine.ViewerHost) -> Iterator[str]:
    """The address of a page that shows a viewer as a notebook does."""
    channel = Channel(host)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(channel))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        channel.close()
        server.shutdown()
        server.server_close()
        thread.join()
