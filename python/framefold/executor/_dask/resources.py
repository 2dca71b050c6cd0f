"""What one run has on a Dask cluster: tasks, data, and memory that it shares with workers.

All of it has one owner, which releases everything when the run ends, and from then on releases at
once what comes late. Used on the event loop of the client alone.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import operator
import pickle
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from distributed import Client, Future

from framefold.executor._dask.memory import BufferPool, SharedBuffer
from framefold.executor._dask.work import FirstBatch
from framefold.executor._dask.workers import LATE, PREFIX, Batch, WorkerState
from framefold.executor._tasks import ATTEMPTS

#: What is larger than this, in bytes, is sent to one worker, and from there to the others.
SMALL = 32 << 10
#: What waits for a future ends within so many seconds once that is released.
BRIEFLY = 0.1

_numbers = itertools.count(1)

T = TypeVar("T")


class RunResources:
    """Everything that has to be released when the run ends.

    Parameters
    ----------
    client
        Of the cluster.
    number
        Of the run.
    buffers, transfers
        Of the executor.
    """

    def __init__(
        self, client: Client, number: str, buffers: BufferPool, transfers: Transfers
    ) -> None:
        self._client = client
        self._number = number
        self._futures: dict[str, Future] = {}
        self._buffers = buffers
        self._lent: set[SharedBuffer] = set()
        self._transfers = transfers
        self._closed = False

    def submit(self, address: str, kind: str, function: Any, *arguments: Any) -> Future:
        """Have one worker call a function.

        Raises
        ------
        concurrent.futures.CancelledError
            If the run has ended.
        """
        # In the order in which they are submitted: a first batch that waits for the next one
        # holds up the run.
        pinned = {"workers": [address], "allow_other_workers": False, "fifo_timeout": 0}
        return self._submit(kind, function, *arguments, **pinned)

    def wish(self) -> Future:
        """A task that no worker can do.

        Raises
        ------
        concurrent.futures.CancelledError
            If the run has ended.
        """
        return self._submit("wish", bool, resources={"framefold-wish": 1.0})

    async def scatter(self, data: bytes, worker: WorkerState) -> Future:
        """Send bytes to a worker: not as a task, which might have to wait.

        Raises
        ------
        OSError
            If they cannot be brought there, for instance as the worker dies meanwhile: the
            scheduler may try to reach it for half a minute, which is not waited for.
        concurrent.futures.CancelledError
            If the run ends meanwhile.
        """
        self._check()
        sending = self._transfers.start(self._scatter(data, worker.address))
        try:
            await asyncio.wait({sending, worker.gone}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise ConnectionError("the worker was gone before data of the run arrived")
        except BaseException:
            sending.add_done_callback(self._came_in_vain)
            raise
        return sending.result()

    def _came_in_vain(self, sending: asyncio.Task[Future]) -> None:
        if not sending.cancelled() and sending.exception() is None:
            self.release(sending.result())

    async def fetch(self, future: Future) -> Any:
        """The result of a task; one that is on its way when the run ends is released afterwards."""
        try:
            return await self._transfers.fetch(future)
        finally:
            if self._closed:
                self.release(future)

    def lend(self) -> SharedBuffer | None:
        """Memory for the results of a batch; None if there is none."""
        buffer = None if self._closed else self._buffers.lend()
        if buffer is not None:
            self._lent.add(buffer)
        return buffer

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

    async def end(self, coroutines: set[asyncio.Task[Any]], timeout: float) -> None:
        """Wait for what waits for futures: when these are released, it ends by itself.

        Those of results that are on their way are released when they are there, or do not come in
        so many seconds.
        """
        if coroutines:
            await asyncio.wait(coroutines, timeout=timeout)
        if coroutines:
            self.release(*list(self._futures.values()))
            await asyncio.wait(coroutines, timeout=BRIEFLY)

    def close(self) -> None:
        """Release everything, and from now on also what comes late."""
        if self._closed:
            return
        self._closed = True
        # Dask reports as errors that it does not find what it brings.
        arriving = {future.key for future in self._transfers.arriving.values()}
        left = [future for future in self._futures.values() if future.key not in arriving]
        # Those first that others do not depend on.
        self.release(*reversed(left), *list(self._lent))
        self._buffers.release_later()

    def _check(self) -> None:
        if self._closed or self._transfers.ended:
            raise concurrent.futures.CancelledError("the run has ended")

    def _submit(self, kind: str, *call: Any, **options: Any) -> Future:
        self._check()
        return self._own(self._client.submit(*call, key=self._key(kind), pure=False, **options))

    def _own(self, future: Future) -> Future:
        self._futures[future.key] = future
        return future

    async def _scatter(self, data: bytes, address: str) -> Future:
        key = self._key("data")
        try:
            scattered = await self._client.scatter({key: data}, workers=[address], hash=False)
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
        self._check()
        return future

    def _disown(self, key: str) -> None:
        """Have the scheduler forget data of which it may know, and that no client wants.

        If a worker dies after it has got data, and before the scheduler knows, the scheduler makes
        an entry for them, fails, and keeps the entry.
        """
        with suppress(Exception):  # without a connection, there is no scheduler to forget it
            # A task takes the place of the entry, if there is one, and goes.
            self._client.submit(bool, key=key, pure=False).release()

    def _key(self, kind: str) -> str:
        return f"{PREFIX}{kind}-{self._number}-{next(_numbers)}"


class Transfers:
    """Data on their way to workers and results on their way from them, for all runs of an executor.

    And what workers are asked when a run ends: of one that is gone before it has answered, the
    scheduler reports an error.

    Data are not cancelled with their caller: what has started has to be completed, before the
    client is closed, too. What arrives for a client that it does not know, a scheduler keeps for
    as long as it runs. A worker whose result does not arrive, as the client was closed, reports
    that as an error.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._fetching: dict[asyncio.Task[Any], Future] = {}
        #: Whether nothing may be sent any more.
        self.ended = False

    def start(self, transfer: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Send something, or ask for it."""
        task = asyncio.get_running_loop().create_task(transfer)
        self._tasks.add(task)
        task.add_done_callback(self._arrived)
        return task

    async def fetch(self, future: Future) -> Any:
        """The result of a task."""
        task = asyncio.current_task()
        assert task is not None
        self._fetching[task] = future
        try:
            return await future
        finally:
            del self._fetching[task]

    @property
    def arriving(self) -> dict[asyncio.Task[Any], Future]:
        """Results on their way, by what waits for them."""
        fetching = self._fetching.items()
        return {task: future for task, future in fetching if future.status == "finished"}

    async def end(self) -> None:
        """Start no more, and wait for those that have started."""
        self.ended = True
        while waited_for := {*self._tasks, *self.arriving}:
            await asyncio.wait(waited_for)

    def _arrived(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # its caller has seen it, or was cancelled


class Payload:
    """Bytes for tasks: small ones travel with each of them, large ones are sent to one worker.

    Where that takes long, they are sent to another one as well, as the first may be stuck, and to a
    third one if that takes twice as long: where it is the network that is slow, few are sent.

    Parameters
    ----------
    resources
        Of the run.
    data
        What to send.
    """

    def __init__(self, resources: RunResources, data: bytes) -> None:
        self._resources = resources
        self._data = data
        #: Set when the latest attempt to send them has ended; None if it has.
        self._sending: asyncio.Event | None = None
        #: How long it may take before another one begins, in seconds.
        self._late = LATE
        #: Later ones have higher numbers.
        self.number = next(_numbers)
        #: What to pass to tasks, once it is there.
        self.argument: bytes | Future | None = data if len(data) <= SMALL else None

    async def bring(self, worker: WorkerState) -> None:
        """Send large data to a worker, again if they were lost there.

        Raises
        ------
        OSError, concurrent.futures.CancelledError
            As :meth:`RunResources.scatter`.
        """
        n_attempts = 0
        while self.is_missing:
            if (sending := self._sending) is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._late):
                        await sending.wait()
                if sending is not self._sending:
                    continue  # it has ended, or another one has begun
                self._late *= 2
            ended = self._sending = asyncio.Event()
            n_attempts += 1
            try:
                sent = await self._resources.scatter(self._data, worker)
            except ConnectionError:
                if n_attempts == ATTEMPTS or worker.gone.done():
                    raise
            else:
                if self.is_missing:
                    sent, self.argument = self.argument, sent
                self._resources.release(sent)
            finally:
                ended.set()
                if self._sending is ended:
                    self._sending = None

    @property
    def is_missing(self) -> bool:
        """Whether they have to be sent: for the first time, or as they were lost."""
        lost = getattr(self.argument, "status", "") in ("cancelled", "lost")
        return self.argument is None or lost

    def release(self) -> None:
        """Release the future."""
        self._resources.release(self.argument)


class Shipping:
    """Sends one run, changes of its parameters, and its batches.

    Parameters
    ----------
    resources
        Of the run.
    data
        The pickle of a :class:`framefold.executor._dask.work.ShippedRun`.
    """

    def __init__(self, resources: RunResources, data: bytes) -> None:
        self._resources = resources
        self._run = Payload(resources, data)
        self._changes: Payload | None = None

    async def change(
        self,
        data: bytes,
        having: Callable[[], list[WorkerState]],
        failed: Callable[[WorkerState, Exception], None],
    ) -> None:
        """Send these parameters along from now on, unless later ones are there before them.

        They are brought to one of the workers that have the run, or get it now, which ``having``
        returns; as long as there are none, to the next that comes. What goes wrong with one is
        given to ``failed``, which has it get the run once more, or leaves it out.
        """
        payload = Payload(self._resources, data)
        loop = asyncio.get_running_loop()
        bringing: dict[WorkerState, asyncio.Task[None]] = {}

        async def bring(worker: WorkerState) -> None:
            try:
                await payload.bring(worker)
            except Exception as error:
                failed(worker, error)

        try:
            while payload.is_missing:
                for worker in having():  # some may have come meanwhile
                    if worker not in bringing:
                        bringing[worker] = loop.create_task(bring(worker))
                waiting = [task for task in bringing.values() if not task.done()]
                if not waiting:
                    break
                await asyncio.wait(waiting, timeout=LATE, return_when=asyncio.FIRST_COMPLETED)
            # Before anything else happens: from now on, workers that come wait for them.
            if self._changes is not None and self._changes.number > payload.number:
                payload.release()
            else:
                if self._changes is not None:
                    self._changes.release()
                self._changes = payload
        finally:
            for task in bringing.values():
                task.cancel()
            await asyncio.gather(*bringing.values(), return_exceptions=True)

    async def bring(self, worker: WorkerState) -> None:
        """Send what tasks need that is large to a worker, as far as it is not on the cluster.

        Raises
        ------
        OSError, concurrent.futures.CancelledError
            As :meth:`RunResources.scatter`.
        """
        await self._run.bring(worker)
        if self._changes is not None:
            await self._changes.bring(worker)

    def first_batch(
        self, worker: WorkerState, indices: list[int], budget: tuple[float, int], now: float
    ) -> Batch:
        """Have a worker plan the run, and process a first batch, which may be empty."""
        data = self._run.argument
        changes = None if self._changes is None else self._changes.argument
        if isinstance(data, Future) or isinstance(changes, Future) or worker.n_threads > 1:
            # Futures cannot be pickled along, and other threads need not wait for the first batch.
            worker.run = self._resources.submit(worker.address, "run", pickle.loads, data)
            return self.batch(worker, indices, budget, now)
        assert data is not None
        buffer = self._resources.lend() if worker.may_share else None
        first = FirstBatch(data, *self._arguments(indices, budget, buffer))
        worker.run = self._resources.submit(
            worker.address, "partitions", pickle.loads, pickle.dumps(first)
        )
        return Batch(indices, worker.run, now, buffer)

    def batch(
        self, worker: WorkerState, indices: list[int], budget: tuple[float, int], now: float
    ) -> Batch:
        """Have a worker process a batch."""
        buffer = self._resources.lend() if worker.may_share else None
        call = operator.call, worker.run, *self._arguments(indices, budget, buffer)
        future = self._resources.submit(worker.address, "partitions", *call)
        return Batch(indices, future, now, buffer)

    def _arguments(
        self, indices: list[int], budget: tuple[float, int], buffer: SharedBuffer | None
    ) -> tuple[Any, ...]:
        """What a run on a worker is called with; the scheduler may be without framefold."""
        known = self._changes
        # Dask finds futures in tuples, too.
        changes = None if known is None else (known.number, known.argument)
        return indices, changes, budget, None if buffer is None else tuple(buffer)


class Demand:
    """Tasks that stand for what is left of a run, so that clusters which adapt start workers.

    Their scheduler counts tasks, and how long they take. It never sees more than a few batches of
    a run; tasks that ask for a resource which no worker has stand for the rest: none of them is
    ever done, and all are removed with the run.

    Parameters
    ----------
    resources
        Of the run.
    """

    def __init__(self, resources: RunResources) -> None:
        self._resources = resources
        self._futures: list[Future] = []

    def set_n_tasks(self, n_tasks: int) -> None:
        """Keep so many such tasks; their number is reduced only where that makes a difference."""
        if 0 < n_tasks < len(self._futures) < 2 * n_tasks:
            return
        self._resources.release(*self._futures[n_tasks:])
        del self._futures[n_tasks:]
        while len(self._futures) < n_tasks:
            self._futures.append(self._resources.wish())
