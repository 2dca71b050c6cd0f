"""Brings what belongs to one run to Dask workers, and has them stop.

Used on the event loop of the client alone.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from distributed import Client, Future

from framefold.executor import _dask_work

#: What waiting for a future raises if it is cancelled or released.
CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)
#: What is larger than this, in bytes, is sent to one worker, and from there to the others.
SMALL = 32 << 10
#: How long user code may take to stop when a run is ended early, in seconds.
PATIENCE = 1.0

_numbers = itertools.count(1)

#: Ends the workers with these addresses, and starts others.
Replace = Callable[[list[str]], None]


class Courier:
    """Between the client and the workers.

    Parameters
    ----------
    client
        Of the cluster.
    number
        Of the run.
    replace
        Ends workers and starts others in their place; None to ask their nannies.
    """

    def __init__(self, client: Client, number: str, replace: Replace | None) -> None:
        self._client = client
        self._number = number
        self._replace = replace

    def submit(self, address: str, kind: str, function: Any, *arguments: Any) -> Future:
        """Have one worker call a function."""
        return self._client.submit(
            function,
            *arguments,
            key=self._key(kind),
            pure=False,
            workers=[address],
            allow_other_workers=False,
        )

    async def argument(self, data: bytes) -> bytes | Future:
        """Bytes as an argument of tasks.

        Large ones are carried from worker to worker; not as a task, which might have to wait.
        """
        if len(data) <= SMALL:
            return data
        key = self._key("data")
        future: Future = (await self._client.scatter({key: data}, hash=False))[key]
        return future

    async def stop(self, addresses: list[str]) -> None:
        """Have workers stop what they do for this run; replace those that do not."""
        stopped = await asyncio.gather(*(self._stops(address) for address in addresses))
        busy = [a for a, stops in zip(addresses, stopped, strict=True) if not stops]
        if busy:
            with suppress(Exception):
                async with asyncio.timeout(2 * PATIENCE):
                    await self._restart(busy)

    async def _stops(self, address: str) -> bool:
        """Ask a worker to stop; False if it does not, or does not answer."""
        try:
            async with asyncio.timeout(2 * PATIENCE):
                arguments = (_dask_work.stop, self._number, PATIENCE)
                told = await self._client.run(*arguments, workers=[address])
                return bool(told[address])
        except Exception:
            return False

    async def _restart(self, addresses: list[str]) -> None:
        """Restart workers that user code keeps busy, unless they do something for others."""
        known = await self._client.processing(workers=addresses)
        addresses = [address for address in addresses if not known.get(address)]
        if addresses and self._replace is not None:
            self._replace(addresses)
        elif addresses:
            await self._client.restart_workers(addresses, timeout=PATIENCE, raise_for_error=False)

    def _key(self, kind: str) -> str:
        return f"framefold_{kind}-{self._number}-{next(_numbers)}"


async def done(future: Future) -> None:
    """Wait until a task is done, and leave its result where it is."""
    is_done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell(_future: Future) -> None:
        with suppress(RuntimeError):  # the client is closed, and its loop with it
            loop.call_soon_threadsafe(is_done.set)

    future.add_done_callback(tell)
    await is_done.wait()


def release(data: Any) -> None:
    """Let the cluster forget what a future stands for, if it is one."""
    if isinstance(data, Future):
        data.release()
