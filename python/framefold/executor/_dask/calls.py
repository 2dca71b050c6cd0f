"""Tasks of a Dask cluster outside of the feed of a run, waited for as runs wait for theirs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from distributed import Future

from framefold.exceptions import WorkerError
from framefold.executor._dask import messages
from framefold.executor._dask.feed import ANSWER, POLL
from framefold.executor._dask.workers import WorkerState, have_begun

if TYPE_CHECKING:
    from framefold.executor.dask import DaskJobExecutor


async def gathered(
    executor: DaskJobExecutor, name: str, futures: list[Future]
) -> tuple[list[Any], BaseException | None]:
    """What tasks return, or one of them raised, waited for as runs do; on the client's event loop.

    An exception is returned: one such as GeneratorExit, raised in a coroutine, would end that
    without an answer.

    Parameters
    ----------
    executor
        Whose client has submitted them.
    name
        Of the function, for messages.
    futures
        Of the tasks.

    Raises
    ------
    WorkerError
        If no worker can begin any of them for ``startup_timeout``, and none has; if the scheduler
        goes away.
    """
    gathering = asyncio.ensure_future(executor.client.gather(futures, asynchronous=True))
    # What it raises when the futures are released is lost.
    gathering.add_done_callback(lambda done: done.cancelled() or done.exception())
    begin = Begin(executor, name, futures)
    try:
        while not (await asyncio.wait([gathering], timeout=POLL))[0]:
            await begin.check()
        try:
            return gathering.result(), None
        except BaseException as error:
            return [], error
    finally:
        for future in futures:  # `gathering` ends with them
            future.release()


class Begin:
    """Whether workers begin some tasks.

    Parameters
    ----------
    executor
        Whose client knows the tasks.
    name
        Of the function or run that waits for them, for messages.
    futures
        Of the tasks.
    """

    def __init__(self, executor: DaskJobExecutor, name: str, futures: list[Future]) -> None:
        self._executor = executor
        self._name = name
        self._futures = futures
        #: How long the whole cluster has run nothing.
        self._seconds = 0.0

    async def check(self) -> None:
        """To be called every ``POLL`` seconds, on the event loop of the client.

        Raises
        ------
        WorkerError
            If no worker can begin any of the tasks for ``startup_timeout``, and none has; if the
            scheduler goes away.
        """
        client = self._executor.client
        scheduler: Any = client.scheduler
        try:
            async with asyncio.timeout(ANSWER):
                workers, running = await client.nthreads(), await scheduler.ncores_running()
        except (OSError, TimeoutError) as error:
            raise messages.lost_scheduler(self._name, scheduler.address) from error
        self._seconds = 0.0 if running else self._seconds + POLL
        if self._seconds > self._executor._startup_timeout:
            keys = [future.key for future in self._futures if not future.done()]
            asked = (have_begun(client, keys, address) for address in workers)
            if keys and not any(await asyncio.gather(*asked)):
                raise _no_worker(self._executor, self._name, list(workers))
            self._seconds = 0.0


def _no_worker(executor: DaskJobExecutor, name: str, addresses: list[str]) -> WorkerError:
    """Why no worker begins anything."""
    scheduler: Any = executor.client.scheduler
    if addresses:
        workers = [WorkerState(address, 1, may_share=False) for address in addresses]
        return messages.paused(name, workers, executor._startup_timeout)
    if executor._own is not None and (reason := executor._own.why_none) is not None:
        return messages.not_started(reason)
    return messages.no_worker(name, scheduler.address, executor._startup_timeout)
