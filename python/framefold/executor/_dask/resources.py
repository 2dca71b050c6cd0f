"""What one run has on a Dask cluster: tasks, data, and memory that it shares with workers.

All of it has one owner, which releases everything when the run ends, and from then on releases at
once what comes late. Used on the event loop of the client alone.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
from contextlib import suppress
from typing import Any

from distributed import Client, Future

from framefold.executor._dask.buffers import SharedBuffer
from framefold.executor._dask.lending import BufferPool
from framefold.executor._tasks import ATTEMPTS
from framefold.executor._wire.pickles import Bytes

#: What is larger than this, in bytes, is sent to one worker, and from there to the others.
SMALL = 32 << 10

_numbers = itertools.count(1)


class RunResources:
    """Everything that has to be released when the run ends.

    Parameters
    ----------
    client
        Of the cluster.
    number
        Of the run.
    buffers
        Of the client.
    """

    def __init__(self, client: Client, number: str, buffers: BufferPool) -> None:
        self._client = client
        self._number = number
        self._futures: dict[str, Future] = {}
        self._buffers = buffers
        self._lent: set[SharedBuffer] = set()
        self._sending: set[asyncio.Task[Future]] = set()
        self._closed = False

    def submit(
        self, address: str, kind: str, function: Any, *arguments: Any, **named: Any
    ) -> Future:
        """Have one worker call a function.

        Raises
        ------
        concurrent.futures.CancelledError
            If the run has ended.
        """
        if self._closed:
            raise concurrent.futures.CancelledError("the run has ended")
        return self._own(
            self._client.submit(
                function,
                *arguments,
                **named,
                key=self._key(kind),
                pure=False,
                workers=[address],
                allow_other_workers=False,
                # In this order: a first batch that waits for the next one holds up the run.
                fifo_timeout=0,
            )
        )

    def wish(self) -> Future:
        """A task that no worker can do.

        Raises
        ------
        concurrent.futures.CancelledError
            If the run has ended.
        """
        if self._closed:
            raise concurrent.futures.CancelledError("the run has ended")
        key, resources = self._key("wish"), {"framefold-wish": 1.0}
        return self._own(self._client.submit(bool, key=key, pure=False, resources=resources))

    async def argument(self, data: bytes) -> bytes | Future:
        """Bytes as an argument of tasks.

        Large ones are carried from worker to worker; not as a task, which might have to wait.

        Raises
        ------
        OSError
            If they cannot be brought to a worker, for instance as it dies meanwhile.
        concurrent.futures.CancelledError
            If the run ends meanwhile.
        """
        if len(data) <= SMALL:
            return data
        if self._closed:
            raise concurrent.futures.CancelledError("the run has ended")
        # It is not cancelled with its caller: a transfer that has started has to be completed.
        sending = asyncio.get_running_loop().create_task(self._scatter(data))
        self._sending.add(sending)
        sending.add_done_callback(self._sent)
        return await asyncio.shield(sending)

    def lend(self) -> SharedBuffer | None:
        """Memory for the results of a batch; None if there is none."""
        buffer = None if self._closed else self._buffers.lend()
        if buffer is not None:
            self._lent.add(buffer)
        return buffer

    def read(self, buffer: SharedBuffer, used: int) -> Bytes:
        """What a worker has written to memory that was lent for a batch.

        Parameters
        ----------
        used
            How many bytes, as the worker says.

        Raises
        ------
        LimitError
            If there is no room for it.
        """
        return self._buffers.read(buffer, used)

    def release(self, *resources: Any) -> None:
        """Release futures and buffers; other entries, such as None, are ignored."""
        for resource in resources:
            if isinstance(resource, Future):
                self._futures.pop(resource.key, None)
                with suppress(RuntimeError):  # the client is closed, and its loop with it
                    resource.release()
            elif isinstance(resource, SharedBuffer) and resource in self._lent:
                self._lent.remove(resource)
                self._buffers.give_back(resource)

    def close(self) -> None:
        """Release everything, and from now on also what comes late."""
        if self._closed:
            return
        self._closed = True
        # Those first that others do not depend on.
        self.release(*reversed(self._futures.values()), *list(self._lent))
        self._buffers.release_later()

    def _own(self, future: Future) -> Future:
        self._futures[future.key] = future
        return future

    async def _scatter(self, data: bytes) -> Future:
        key = self._key("data")
        try:
            scattered = await self._client.scatter({key: data}, hash=False)
        except BaseException as error:
            self._disown(key)
            if isinstance(error, TimeoutError) or not isinstance(error, Exception):
                raise
            # A worker has died; and the scheduler raises what it comes upon in that case.
            cause = f"{type(error).__name__}: {error}"
            raise ConnectionError(f"data of the run did not arrive ({cause})") from error
        future = self._own(scattered[key])
        if self._closed:
            self.release(future)
            raise concurrent.futures.CancelledError("the run has ended")
        return future

    def _sent(self, sending: asyncio.Task[Future]) -> None:
        self._sending.discard(sending)
        if not sending.cancelled():
            sending.exception()  # its caller has seen it, or was cancelled

    def _disown(self, key: str) -> None:
        """Have the scheduler forget data of which it may know, and that no client wants.

        If a worker dies after it has got data, and before the scheduler knows, the scheduler makes
        an entry for them, fails, and keeps the entry.
        """
        with suppress(Exception):  # without a connection, there is no scheduler to forget it
            # A task takes the place of the entry, if there is one, and goes.
            self._client.submit(bool, key=key, pure=False).release()

    def _key(self, kind: str) -> str:
        return f"framefold_{kind}-{self._number}-{next(_numbers)}"


class Carried:
    """Bytes as an argument of tasks: sent once, and again where they are lost.

    Parameters
    ----------
    resources
        Of the run.
    data
        What to send.
    """

    def __init__(self, resources: RunResources, data: bytes) -> None:
        self._belongings = resources
        self._data = data
        self._sent: bytes | Future | None = None
        self._sending = asyncio.Lock()

    async def argument(self) -> bytes | Future:
        """What to pass to tasks now.

        Raises
        ------
        OSError, concurrent.futures.CancelledError
            As :meth:`RunResources.argument`.
        """
        async with self._sending:
            if getattr(self._sent, "status", "") in ("cancelled", "lost"):
                self.release()
            n_tried = 0
            while self._sent is None:
                try:
                    self._sent = await self._belongings.argument(self._data)
                except ConnectionError:
                    n_tried += 1
                    if n_tried >= ATTEMPTS:
                        raise
            return self._sent

    def release(self) -> None:
        """Release the future."""
        self._belongings.release(self._sent)
        self._sent = None
