"""How a command ends: what it says, its exit code, and signals."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from framefold.common._tracebacks import without_own_lines
from framefold.exceptions import (
    BadFileError,
    EngineError,
    FileAccessError,
    FramefoldError,
    InvalidArgumentError,
    LimitError,
    UnsupportedError,
)

#: What the engine's command line has for each class of errors, narrower classes first.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (EngineError, 70),
    (InvalidArgumentError, 2),
    (BadFileError, 3),
    (UnsupportedError, 4),
    (LimitError, 4),
    (FileAccessError, 5),
)
_USER_CODE, _INTERRUPTED = 6, 130


class OutputClosedError(Exception):
    """The reader of the output has gone, as in ``framefold run … | head -1``."""


class EndedError(KeyboardInterrupt):
    """A signal ends the command as Ctrl-C does, so that no file is left in the making."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.code = 128 + number


def code_of(interrupt: KeyboardInterrupt) -> int:
    """The exit code of a command that was interrupted."""
    return interrupt.code if isinstance(interrupt, EndedError) else _INTERRUPTED


def report(error: BaseException, file: str | None = None) -> int:
    """Say what went wrong; gives the exit code.

    Parameters
    ----------
    error
        Of framefold, or of a function of one's own.
    file
        The one that the command runs over, where there is one.
    """
    # Where standard error is closed, the exit code is what is left.
    with suppress(OSError):
        if isinstance(error, FramefoldError):
            words = " ".join(str(error).split())
            where = f"'{file}': " if file is not None and error.path is None else ""
            print(f"framefold: {where}{words}", file=sys.stderr)
        else:
            if file is not None:
                error.add_note(f"when it ran over '{file}'")
            traceback.print_exception(without_own_lines(error))
    if isinstance(error, FramefoldError):
        return next((code for kind, code in _CODES if isinstance(error, kind)), _USER_CODE)
    return _USER_CODE


def say(text: str) -> None:
    """Print a result.

    Raises
    ------
    OutputClosedError
        If there is no reader.
    FileAccessError
        If it cannot be written, as on a full disk.
    """
    with _closed_quietly():
        # Names of files that are not UTF-8, as the engine writes them.
        print(os.fsencode(text).decode(errors="replace"), flush=True)


@contextmanager
def ends_well() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end a command as Ctrl-C does, and all output written or dropped.

    Raises
    ------
    OutputClosedError
        If there is no reader.
    FileAccessError
        If it cannot be written, as on a full disk.
    """
    with _signals():
        try:
            yield
        finally:
            with _closed_quietly():
                sys.stdout.flush()


@contextmanager
def _closed_quietly() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # So that the interpreter has nothing to write when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise OutputClosedError from None
        raise FileAccessError(f"could not write to standard output: {error}") from None


@contextmanager
def _signals() -> Iterator[None]:
    before: dict[int, Any] = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # What is ignored, as SIGHUP is under `nohup`, stays so.
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            before[number] = signal.signal(number, _end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
    raise EndedError(number)
