"""Work that Ctrl-C does not stop in the middle: it waits for the end, a second one does not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType

from framefold.common import _foreign

_handlers = _foreign.signal_handlers()
_SIGINT = int(signal.SIGINT)


class Deferring:
    """A context manager in which Ctrl-C waits for the end; the second one does not.

    Does nothing where another handler than Python's own is set. Can be entered any number of times,
    one after the other.
    """

    @staticmethod
    def applies() -> bool:
        """Whether this is the thread that handles signals; no other may enter."""
        return threading.current_thread() is threading.main_thread()

    def __enter__(self) -> None:
        self._handler: Callable[[int, FrameType | None], object] | None = None
        self._came: tuple[int, FrameType | None] | None = None
        handler = _handlers.getsignal(_SIGINT)
        if handler is signal.default_int_handler:
            self._handler = handler
            _handlers.signal(_SIGINT, self._defer)

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if self._handler is None:
            return
        if _handlers.getsignal(_SIGINT) == self._defer:  # or user code has set another one
            _handlers.signal(_SIGINT, self._handler)
        came, self._came = self._came, None
        if came is not None:
            try:
                self._handler(*came)
            except BaseException as raised:
                raised.__context__ = raised.__context__ or error
                raise

    def _defer(self, number: int, frame: FrameType | None) -> None:
        if self._came is None:
            self._came = number, frame
        elif self._handler is not None:
            self._came = None
            self._handler(number, frame)
