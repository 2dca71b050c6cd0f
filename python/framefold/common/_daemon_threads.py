"""What has to be done before the interpreter ends: see ``ending.rs`` of the extension."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading

from framefold import _engine

#: How long user code on daemon threads is waited for, in seconds.
SECONDS = 5.0

_process = os.getpid()


def _end() -> None:
    """Keep threads that are in the engine from being ended there, which would abort the process."""
    if os.getpid() != _process:
        return
    if threading.active_count() == 1 and not _engine.threads_left():
        return
    try:
        if _engine.end_threads(SECONDS):
            return
    except KeyboardInterrupt:  # with threads inside, the interpreter must not go on to end
        pass
    with contextlib.suppress(Exception):
        print(
            f"framefold: a run on another thread did not stop within {SECONDS:g} s; "
            f"the process ends without waiting for it",
            file=sys.stderr,
        )
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(1)


atexit.register(_end)
