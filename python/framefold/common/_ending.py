"""The end of the interpreter: what is stopped then, and what cannot be begun any more.

Functions that scripts registered with :mod:`atexit` are called when all threads but their own have
ended, and libraries refuse to start more. Runs go on to work there, as far as they can.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from framefold.common._foreign import before_threads_end
from framefold.exceptions import WorkerError

with suppress(RuntimeError):  # which it raises at the end; then it is not used
    # It registers its own waiting, which has to come after what is registered below.
    import concurrent.futures.thread  # noqa: F401

#: ``threading.main_thread().is_alive()`` turns False later: threads of pools that the interpreter
#: waits for, and which cannot start more, would see it True.
_state = {"ends": False}


def at_end(function: Callable[[], object]) -> None:
    """Call a function before the interpreter waits for threads; the latest registered one first."""
    try:
        before_threads_end(function)
    except RuntimeError:
        _state["ends"] = True


def is_ending() -> bool:
    """Whether threads were waited for already."""
    return _state["ends"]


def too_late(what: str) -> WorkerError:
    """For what cannot be begun any more."""
    return WorkerError(
        f"{what} when the interpreter ends, as in a function of atexit: run it before, or with "
        f"the executor 'inline'"
    )


at_end(lambda: _state.update(ends=True))
