"""Worker processes end with the process that started them, and what user code forks ends with them.

That process holds one end of a pipe; the worker asks the system for a signal, and with that its
end, when it is closed. The system does so whatever user code is busy with.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any


def end_with(lifeline: int) -> None:
    """Let this process end when the other end of the pipe is closed; -1 is no pipe."""
    if lifeline < 0:
        return
    signal.signal(signal.SIGIO, signal.SIG_DFL)  # which ends the process
    _watch(lifeline)
    if _is_closed(lifeline):
        os._exit(0)  # the other end was closed before the signal was asked for
    os.register_at_fork(after_in_child=lambda: _end_fork_with(lifeline))


def _end_fork_with(lifeline: int) -> None:
    """The same for a process that user code forked: a signal goes to one process for each opening.

    Where a pipe cannot be opened once more, the fork is left to the code that made it.
    """
    with suppress(OSError):
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        opened = os.open(f"/proc/self/fd/{lifeline}", flags)
        os.dup2(opened, lifeline, inheritable=False)
        os.close(opened)
        _watch(lifeline)
        if _is_closed(lifeline):
            os._exit(0)  # it was closed meanwhile


def _is_closed(lifeline: int) -> bool:
    """Whether the other end is: nothing is ever written to it."""
    poll = select.poll()
    poll.register(lifeline, 0)  # for its end alone
    return bool(poll.poll(0))


def _watch(lifeline: int) -> None:
    import fcntl

    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def end_fork(process: int, exception: BaseException | None = None) -> None:
    """End this process if user code forked it from a worker: it must not send its messages."""
    if os.getpid() == process:
        return
    code: Any = 0
    if isinstance(exception, SystemExit):
        code = exception.code or 0
    elif exception is not None:
        traceback.print_exception(exception)
        code = 1
    flush()
    os._exit(code if isinstance(code, int) else 1)


def flush() -> None:
    """Show what user code printed."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
