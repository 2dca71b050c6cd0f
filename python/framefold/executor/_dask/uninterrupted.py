"""Work that Ctrl-C does not stop in the middle, since it is done on a separate thread.

Python raises :class:`KeyboardInterrupt` in the main thread, wherever that is: within the code of a
library, too, which may then leave processes and threads behind that nothing ends.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")

#: How long an interrupted caller waits until what was started is undone, in seconds.
LEAVING = 5.0
#: How often to look, if nothing says so, in seconds.
POLL = 0.1


class Work(Generic[T]):
    """A call that is made once, on another thread.

    Parameters
    ----------
    function
        What to call.
    name
        Of the thread.
    """

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._function = function
        self._name = name
        self._context = contextvars.copy_context()
        self._claim = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()
        self._values: list[T] = []
        self._failure: BaseException | None = None
        #: Whether the call has returned.
        self.finished = False

    def start(self) -> None:
        """Start the thread, unless the call was made: can be called again after Ctrl-C."""
        if not self.finished:
            thread = threading.Thread(target=self._run, name=self._name, daemon=False)
            try:
                thread.start()
            except RuntimeError:  # there can be no more threads
                self._run()

    def withdraw(self) -> bool:
        """Do not make the call; False if it has started."""
        return self._claim.acquire(blocking=False)

    def wait(self, seconds: float = float("inf")) -> bool:
        """Wait until the call has returned, or for so long; whether it has."""
        deadline = time.monotonic() + seconds
        while not self.finished and time.monotonic() < deadline:
            self._done.acquire(timeout=POLL)
        return self.finished

    def check(self) -> None:
        """Raise what the call raised, once."""
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # it refers to this frame

    def result(self) -> T:
        """What the call gave, to be asked for once; raises what it raised."""
        self.check()
        return self._values.pop()

    def _run(self) -> None:
        if not self._claim.acquire(blocking=False):
            return  # another thread does it
        try:
            self._values.append(self._context.run(self._function))
        except BaseException as error:
            self._failure = error
        finally:
            del self._function, self._context
            self.finished = True
            self._done.release()


def made(function: Callable[[], T], undo: Callable[[T], object], name: str) -> T:
    """What a function makes; if the caller is interrupted, it is undone.

    Parameters
    ----------
    function
        Makes something; what it raises is raised here.
    undo
        Takes what was made, and may be called twice.
    name
        Of the thread.
    """
    abandoned = threading.Event()

    def make() -> T:
        value = function()
        if abandoned.is_set():
            undo(value)
        return value

    work = Work(make, name)
    try:
        work.start()
        work.wait()
    except BaseException:
        abandoned.set()
        # It may have looked just before.
        if not work.withdraw() and work.wait(LEAVING):
            with suppress(Exception):
                undo(work.result())
        raise
    return work.result()
