"""Messages between sessions of the engine and whatever carries them to clients."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from framefold import _engine

#: Text goes as ``{"text": …}``, bytes as the buffer of an empty message, ``{"closed": why}`` last.
Send = Callable[[dict[str, Any], list[bytes]], None]

#: How long a thread waits for a message, in seconds, before it looks whether it is still wanted.
WAIT = 3600.0
#: A widget that is shown in more places closes the sessions of the oldest ones.
MOST_SESSIONS = 16
#: Only short texts begin a session.
MOST_HELLO = 4096


class Connection:
    """The sessions of one widget: one for each place where it is shown.

    Parameters
    ----------
    host
        What makes sessions.
    send
        A bound method that takes messages for the client, from any thread. It is held weakly: when
        its object is gone, sessions end.
    """

    def __init__(self, host: _engine.ViewerHost, send: Send) -> None:
        self._host = host
        self._send = weakref.WeakMethod(send)
        self._sessions: dict[Any, _engine.ViewerSession] = {}
        self._lock = threading.Lock()
        self._closed = False
        weakref.finalize(self, _close_all, self._sessions, self._lock).atexit = False

    def receive(self, content: Any, buffers: Sequence[Any] = ()) -> None:
        """Take a message of a client; nothing of it is code or a path."""
        if not isinstance(content, dict):
            return
        view, text = content.get("view"), content.get("text")
        if not isinstance(view, (str, int, type(None))):
            return
        if content.get("ended") is True:
            self._end(view)
        elif isinstance(text, str):
            session = self._session(view, anew=_is_hello(text))
            if session is not None:
                session.receive_text(text)
        for buffer in buffers:
            session = self._session(view)
            if session is not None:
                session.receive_bytes(bytes(buffer))

    def close(self) -> None:
        """End all sessions; more calls do nothing."""
        self._closed = True
        _close_all(self._sessions, self._lock)

    def _session(self, view: Any, anew: bool = False) -> _engine.ViewerSession | None:
        with self._lock:
            if self._closed:
                return None
            session = self._sessions.get(view)
            if session is not None and not anew:
                return session
            # A page that is loaded again begins from the beginning.
            old = [self._sessions.pop(view)] if session is not None else []
            while len(self._sessions) >= MOST_SESSIONS:
                old.append(self._sessions.pop(next(iter(self._sessions))))
            session = self._sessions[view] = self._host.session()
        for each in old:
            each.close()
        threading.Thread(
            target=_pass_on,
            args=(session, self._send, view, weakref.ref(self)),
            name="framefold-view",
            daemon=True,
        ).start()
        return session

    def _end(self, view: Any) -> None:
        with self._lock:
            session = self._sessions.pop(view, None)
        if session is not None:
            session.close()

    def _has_ended(self, view: Any, session: _engine.ViewerSession) -> bool:
        """Let go of a session that ended by itself; whether it was in use."""
        with self._lock:
            if self._sessions.get(view) is not session:
                return False
            del self._sessions[view]
            return True


def _pass_on(
    session: _engine.ViewerSession,
    send: weakref.WeakMethod[Send],
    view: Any,
    connection: weakref.ref[Connection],
) -> None:
    """Wait for messages of a session, without the processor, and send them."""
    to = {} if view is None else {"view": view}
    while (message := session.next(WAIT)) is not False:
        passing = send()
        if passing is None:
            break
        try:
            if isinstance(message, str):
                passing({**to, "text": message}, [])
            elif message is not None:
                passing(to, [message])
        except Exception:  # the channel is gone, so the error has no receiver
            break
        del passing
    session.close()
    owner, passing = connection(), send()
    if owner is None or passing is None or not owner._has_ended(view, session):
        return
    try:
        passing({**to, "closed": "the viewer has ended"}, [])
    except Exception:
        return


def _is_hello(text: str) -> bool:
    if len(text) > MOST_HELLO:
        return False
    try:
        message = json.loads(text)
    except ValueError:
        return False
    return isinstance(message, dict) and message.get("type") == "hello"


def _close_all(sessions: dict[Any, _engine.ViewerSession], lock: threading.Lock) -> None:
    with lock:
        ended = list(sessions.values())
        sessions.clear()
    for session in ended:
        session.close()
