"""A Dask worker: ``python -m framefold.executor._dask_process SCHEDULER OPTIONS LIFELINE``."""

from __future__ import annotations

import asyncio
import faulthandler
import json
import signal
import sys

from framefold.executor._lifeline import end_with
from framefold.executor._serving import _restore_environment


def main(scheduler: str, options: str, lifeline: int) -> None:
    """Work for the scheduler until it is gone, or the process that started this one."""
    end_with(lifeline)
    _restore_environment()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.stderr is not None:
        faulthandler.enable()  # says what Python was doing when compiled code broke
    asyncio.run(_work(scheduler, json.loads(options)))


async def _work(scheduler: str, options: dict[str, object]) -> None:
    import dask

    if dask.config.get("logging", None) is None:
        dask.config.set({"logging": {"distributed": "warning"}})  # before it is imported
    dask.config.set({"distributed.worker.profile.enabled": False})
    from distributed import Worker

    from framefold.executor import _dask_work  # noqa: F401 - while there is nothing to do

    async with Worker(scheduler, **options) as worker:
        await worker.finished()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
