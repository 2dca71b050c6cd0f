"""A Dask worker: ``python -m framefold.executor._dask.process CONNECTION LIFELINE``.

The rest comes through the connection, where other users of the machine cannot read it: the address
of the scheduler, options, and what the worker has to show there.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import pickle
import sys
from typing import Any

from framefold.executor._dask.settings import quiet
from framefold.executor._processes.channels import connect
from framefold.executor._processes.serving import set_up_process


def main(connection: int, lifeline: int) -> None:
    """Work for a scheduler until it is gone, or the process that started this one."""
    gc.disable()  # looking for garbage in what is being imported takes a seventh of the time
    set_up_process(lifeline)
    channel = connect(connection)
    (startup_data,), _ = channel.receive()
    channel.close()
    asyncio.run(_work(startup_data))


async def _work(startup_data: bytes) -> None:
    """Be a worker until the scheduler is gone."""
    import dask

    if dask.config.get("logging", None) is None:
        dask.config.set({"logging": {"distributed": "warning"}})  # before it is imported
    dask.config.set(quiet())
    logging.getLogger("distributed.worker").addFilter(_shorten)
    from framefold.executor._dask import work as dask_work  # noqa: F401 - while there is nothing to do
    from framefold.executor._dask.security import worker

    gc.freeze()  # what is imported by now stays: there is no need to look for garbage in it
    gc.enable()
    given: tuple[Any, ...] = pickle.loads(startup_data)
    async with worker(*given) as there:
        await there.finished()


def _shorten(record: logging.LogRecord) -> bool:
    """Report a lost connection, such as to a worker that was replaced, without the traceback."""
    if record.exc_info and isinstance(record.exc_info[1], OSError):
        record.exc_info = None
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
