"""Tracebacks for users: the call that was made, and their own code, not what lies between.

Those of exceptions that user code raised, of framefold's own, and of Ctrl-C are shortened where
they leave framefold. All others are mistakes in framefold, and stay whole, as do all of them where
``FRAMEFOLD_FULL_TRACEBACK`` is set in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

from framefold.common._notes import notes_of
from framefold.exceptions import EngineError, FramefoldError

__all__ = ["shorten", "shortened", "without_own_lines"]

P = ParamSpec("P")
T = TypeVar("T")

#: Set to anything but 0, it keeps tracebacks whole.
VARIABLE = "FRAMEFOLD_FULL_TRACEBACK"
#: Where the files of the package are.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
#: What runs beside an event loop comes from a thread of the standard library's.
_THREADS = os.path.join("concurrent", "futures", "thread.py")
#: How the engine's notes on exceptions of user code begin.
_NOTE = "raised while framefold ran "


def shortened(function: Callable[P, T]) -> Callable[P, T]:
    """What users call: raises exceptions whose tracebacks are short."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            _leave_out_first(error)  # this function's own line
            shorten(error)
            raise

    return call


def _leave_out_first(error: BaseException) -> None:
    first = error.__traceback__
    _set(error, None if first is None else first.tb_next)


def shorten(error: BaseException) -> None:
    """Leave framefold's lines out of a traceback, but for the first one."""
    first = error.__traceback__
    if first is not None and _is_for_users(error):
        first.tb_next = _outside(first.tb_next)


def _outside(traceback: TracebackType | None) -> TracebackType | None:
    """The lines of a traceback that are not framefold's; it is changed.

    What is left out still is in memory as long as the exception: its variables are cleared.
    """
    while traceback is not None and _is_own(traceback):
        _clear(traceback)
        traceback = traceback.tb_next
    last = traceback
    while last is not None:
        following = last.tb_next
        while following is not None and _is_own(following):
            _clear(following)
            following = following.tb_next
        last.tb_next = following
        last = following
    return traceback


def _clear(traceback: TracebackType) -> None:
    with suppress(RuntimeError):  # it still runs
        traceback.tb_frame.clear()


def without_own_lines(error: BaseException) -> BaseException:
    """An exception of user code without framefold's lines in its traceback; others as they are."""
    if _is_for_users(error):
        _set(error, _outside(error.__traceback__))
    return error


def _is_for_users(error: BaseException) -> bool:
    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        return False
    if isinstance(error, EngineError):
        return False
    if isinstance(error, FramefoldError | KeyboardInterrupt):
        return True
    if type(error).__module__ == "framefold.warnings":
        return True
    return any(note.startswith(_NOTE) for note in notes_of(error))


def _is_own(traceback: TracebackType) -> bool:
    name = traceback.tb_frame.f_code.co_filename
    return name.startswith(_PACKAGE) or name.endswith(_THREADS)


def _set(error: BaseException, traceback: TracebackType | None) -> None:
    # The class may forbid to set attributes.
    BaseException.__setattr__(error, "__traceback__", traceback)
