"""A Dask worker: ``python -m framefold.executor._dask.process LIFELINE``.

The rest comes through standard input, where other users of the machine cannot read it: the address
of the scheduler, options, and what it has to show there, pickled.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import pickle
import signal
import sys
from typing import Any

from framefold.executor._lifeline import end_with
from framefold.executor._processes.serving import _restore_environment


def main(lifeline: int) -> None:
    """Work for a scheduler until it is gone, or the process that started this one."""
    end_with(lifeline)
    _restore_environment()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.stderr is not None:
        faulthandler.enable()  # says what Python was doing when compiled code broke
    asyncio.run(_work(sys.stdin.buffer.read()))


async def _work(startup_data: bytes) -> None:
    import dask

    if dask.config.get("logging", None) is None:
        dask.config.set({"logging": {"distributed": "warning"}})  # before it is imported
    dask.config.set({"distributed.worker.profile.enabled": False})
    logging.getLogger("distributed.worker").addFilter(_shorten)
    from framefold.executor._dask import work as dask_work  # noqa: F401 - while there is nothing to do
    from framefold.executor._dask.security import work

    given: tuple[Any, ...] = pickle.loads(startup_data)
    await work(*given)


def _shorten(record: logging.LogRecord) -> bool:
    """Report a lost connection, such as to a worker that was replaced, without the traceback."""
    if record.exc_info and isinstance(record.exc_info[1], OSError):
        record.exc_info = None
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]))
