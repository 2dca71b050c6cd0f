"""Has Dask workers stop what they do for a run.

Used on the event loop of the client alone.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from contextlib import suppress
from typing import Protocol

from distributed import Client, Future

from framefold.executor._dask import work as dask_work

#: What waiting for a future raises if it is cancelled or released.
CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)
#: How long user code may take to stop when a run is ended early, in seconds.
PATIENCE = 1.0


class OwnWorkers(Protocol):
    """The workers of a cluster that was started here."""

    def replace(self, addresses: list[str]) -> None:
        """End these workers at once; others are started in their place."""

    @property
    def why_none(self) -> str | None:
        """Why there will be no worker; None if there are some, or may be."""


class Canceller:
    """Stops one run on the workers.

    Parameters
    ----------
    client
        Of the cluster.
    number
        Of the run.
    own
        Replaces workers that do not stop; None to have their nannies restart them.
    """

    def __init__(self, client: Client, number: str, own: OwnWorkers | None) -> None:
        self._client = client
        self._number = number
        self._own = own

    async def stop(self, busy: list[str], idle: list[str]) -> None:
        """Have workers stop what they do for this run; replace busy ones that do not."""
        asked = [*busy, *idle]
        stopped = await asyncio.gather(*(self._stops(address) for address in asked))
        running = [each for each, stops in zip(asked, stopped, strict=True) if not stops]
        busy = [each for each in busy if each in running]
        if busy:
            with suppress(Exception):
                async with asyncio.timeout(2 * PATIENCE):
                    await self._restart(busy)

    async def _stops(self, address: str) -> bool:
        """Ask a worker to stop; False if it does not, or does not answer."""
        try:
            async with asyncio.timeout(2 * PATIENCE):
                arguments = (dask_work.stop, self._number, PATIENCE)
                answers = await self._client.run(*arguments, workers=[address])
                return bool(answers[address])
        except Exception:
            return False

    async def _restart(self, addresses: list[str]) -> None:
        """Restart workers that user code keeps busy, unless they do something for others."""
        known = await self._client.processing()
        addresses = [each for each in addresses if each in known and not known[each]]
        if addresses and self._own is not None:
            self._own.replace(addresses)
        elif addresses:
            await self._client.restart_workers(addresses, timeout=PATIENCE, raise_for_error=False)


async def done(future: Future) -> None:
    """Wait until a task is done, and leave its result where it is."""
    is_done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def set_done(_future: Future) -> None:
        with suppress(RuntimeError):  # the client is closed, and its loop with it
            loop.call_soon_threadsafe(is_done.set)

    future.add_done_callback(set_done)
    await is_done.wait()
