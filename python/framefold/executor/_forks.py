"""User code may fork, and return from a function in both processes: only the worker goes on."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import Any


def end_fork(process: int, exception: BaseException | None = None) -> None:
    """End this process if user code forked it from a worker: it must not speak for that one."""
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
