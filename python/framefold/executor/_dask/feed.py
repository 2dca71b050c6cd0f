"""Hands the partitions of one run to the workers of a Dask cluster.

All of it happens on the event loop of the client, so there are no locks; only the run's tasks are
shared with the merging thread. Each batch of partitions is a task of Dask that is restricted to one
worker: a worker gets its next one when it is done with another, and only workers that have opened
the data set get any.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import pickle
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from distributed import Future, KilledWorker

from framefold.exceptions import WorkerError
from framefold.executor._dask import messages
from framefold.executor._dask.memory import SharedBuffer, is_near
from framefold.executor._dask.messages import CANCELLED
from framefold.executor._dask.resources import Demand, RunResources, Shipping
from framefold.executor._dask.work import Answer, Busy, ShippedRun
from framefold.executor._dask.workers import (
    BATCH_BYTES,
    LATE,
    N_TRIED,
    PATIENCE,
    SHARED_BYTES,
    Batch,
    ClusterTasks,
    Participation,
    WorkerState,
    busy_with,
    demand,
    stop,
)
from framefold.executor._tasks import ATTEMPTS
from framefold.executor._wire import failures

if TYPE_CHECKING:
    from framefold.executor.dask import DaskJobExecutor

#: How often to look for workers that came or went, and how long the scheduler may take to answer,
#: in seconds.
POLL, ANSWER = 0.5, 30.0
#: How long the next partition to be merged may take before another worker gets it, too, if that is
#: longer than :data:`LATE`: so many times as long as others; and so many seconds as long as none is
#: done.
LATE_TIMES, LATE_FIRST = 5.0, 30.0


class Feed:
    """Gives the tasks of one run to workers.

    Parameters
    ----------
    executor
        Whose workers process it.
    names
        Of the run's UDFs, for messages.
    shipped
        The run, as it is sent.
    tasks
        Of the run.
    """

    def __init__(
        self, executor: DaskJobExecutor, names: str, shipped: ShippedRun, tasks: ClusterTasks
    ) -> None:
        self._executor = executor
        self._client = client = executor.client
        self._number = shipped.number
        self._names = names
        self._tasks = tasks
        self._resources = RunResources(
            client, shipped.number, executor._buffers, executor._transfers
        )
        self._shipping = Shipping(self._resources, pickle.dumps(shipped, 5))
        self._demand = Demand(self._resources)
        scheduler: Any = client.scheduler
        self._address: str = scheduler.address
        self._workers: dict[str, WorkerState] = {}
        self._coroutines: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._merged = asyncio.Event()
        self._was_usable = False
        #: How long the next result to be merged may take to arrive, in seconds.
        self._late = LATE
        self._updated_at = float("-inf")
        #: For how many seconds the run goes on, without those in which this process was suspended.
        self._clock = 0.0
        self._looked_at = time.monotonic()
        self._had_worker_at = self._clock
        self._ended = False

    # What the merging thread asks for, on the loop.

    def start(self) -> None:
        """Start to hand out partitions."""
        if not self._ended:
            self._start_coroutine(self._serve())

    def merged(self) -> None:
        """Partitions were merged."""
        self._merged.set()
        self._changed.set()

    def update(self, data: bytes, sent: Callable[[], None]) -> None:
        """Send these parameters along from now on; ``sent`` is called once that is so."""
        if not self._ended:
            self._start_coroutine(self._change(data, sent))

    async def _change(self, data: bytes, sent: Callable[[], None]) -> None:
        states = Participation.PREPARING, Participation.USABLE
        workers = self._workers  # which is changed as they come and go

        def failed(worker: WorkerState, error: Exception) -> None:
            if workers.get(worker.address) is worker:
                self._handle_error(worker, None, error)

        def having() -> list[WorkerState]:
            found = [each for each in workers.values() if each.state in states]
            return sorted(found, key=lambda each: not each.takes_part)

        await self._shipping.change(data, having, failed)
        sent()
        self._changed.set()

    def end(self, ended: concurrent.futures.Future[None], *, complete: bool) -> None:
        """Remove the run; ``ended`` is set once no worker is busy with it, as far as possible."""
        if self._ended:
            ended.set_result(None)
            return
        self._ended = True
        asked = [worker for worker in self._workers.values() if worker.run is not None]
        busy = [h.address for h in asked if h.batches or h.state is Participation.PREPARING]
        # Workers without a batch may still process one that was given to another worker.
        idle = [] if complete else [h.address for h in asked if h.address not in busy]
        self._resources.close()
        for worker in self._workers.values():
            worker.set_gone()
        self.merged()
        if self._client.status == "running":
            leaving = self._executor._transfers.start(self._leave(busy, idle))
            leaving.add_done_callback(lambda _leaving: ended.set_result(None))
        else:  # the loop may stop before it begins another coroutine
            self._cancel()
            ended.set_result(None)

    async def _leave(self, busy: list[str], idle: list[str]) -> None:
        """Wait until these workers have stopped, and no coroutine is left."""
        try:
            if busy or idle:
                await stop(self._client, self._number, busy, idle, self._executor._own)
            await self._resources.end(self._coroutines, PATIENCE)
        finally:
            self._cancel()

    def _cancel(self) -> None:
        for coroutine in self._coroutines:
            coroutine.cancel()

    # The loop.

    async def _serve(self) -> None:
        try:
            while not self._ended:
                self._changed.clear()
                before, self._looked_at = self._looked_at, time.monotonic()
                self._clock += min(self._looked_at - before, 2 * POLL)
                if self._client.status != "running":
                    raise messages.lost_scheduler(self._names, self._address)
                await self._update_workers()
                if self._ended:
                    break
                self._hand_out()
                self._enforce_timeout()
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL):
                        await self._changed.wait()
        except WorkerError as error:
            self._tasks.fail(None, error)
        except Exception as error:
            said = str(error) or f"no answer within {ANSWER:g} seconds"
            detail = f" ({type(error).__name__}: {said})"
            lost = messages.lost_scheduler(self._names, self._address, detail)
            self._tasks.fail(None, lost)

    async def _update_workers(self) -> None:
        """Compare the workers of the run with those of the cluster, and ask new ones."""
        now = self._clock
        if now < self._updated_at + POLL:
            return
        self._updated_at = now
        scheduler: Any = self._client.scheduler
        async with asyncio.timeout(ANSWER):
            n_threads = await self._client.nthreads()
            running = await scheduler.ncores_running()
        if self._ended:
            return
        for address, n in n_threads.items():
            if address not in self._workers:
                self._workers[address] = WorkerState(address, n, is_near(address))
            self._workers[address].is_paused = address not in running
        for address in [address for address in self._workers if address not in n_threads]:
            self._release_worker(self._workers.pop(address), blamed=True)
        for worker in [worker for worker in self._workers.values() if worker.needs_restart]:
            self._restart(worker)
        for worker in self._workers.values():
            if worker.is_silent(now, self._executor._startup_timeout):
                worker.asked_at = now
                self._start_coroutine(self._ask_what_it_does(worker))
        self._ask_workers()
        await self._check_workers(now)
        # Workers that are about to come need no call.
        if self._was_usable or now > self._had_worker_at + POLL / 2:
            n_threads = sum(
                worker.n_threads for worker in self._workers.values() if worker.takes_part
            )
            self._demand.set_n_tasks(
                demand(self._tasks.schedule.n_open, self._tasks.seconds, n_threads)
            )

    def _ask_workers(self) -> None:
        """Have as many workers plan the run as can be of use."""
        workers = self._workers.values()
        n_threads = sum(worker.n_threads for worker in workers if worker.takes_part)
        for worker in workers:
            if n_threads >= self._tasks.n_partitions:
                break
            if worker.state is Participation.IDLE and not worker.is_paused:
                worker.state = Participation.PREPARING
                n_threads += worker.n_threads
                self._start_coroutine(self._prepare(worker))
        self._tasks.set_n_threads(n_threads)

    async def _check_workers(self, now: float) -> None:
        """Fail if no worker can take part."""
        own, patience = self._executor._own, self._executor._startup_timeout
        states = {worker.state for worker in self._workers.values()}
        waited = now > self._had_worker_at + patience
        there = [each for each in self._workers.values() if each.may_take_part]
        if any(not worker.is_paused for worker in there):
            self._had_worker_at = now
        elif there and waited:
            maybe = Busy.WITH_RUN  # those that do not answer, as what they do keeps Python's lock
            asked = (busy_with(self._client, self._number, each.address, maybe) for each in there)
            # What they have begun, they bring to an end.
            if Busy.WITH_RUN not in await asyncio.gather(*asked):
                raise messages.paused(self._names, list(self._workers.values()), patience)
            self._had_worker_at = now
        elif there:
            pass  # they may go on
        elif states and any(worker.is_stuck for worker in self._workers.values()):
            raise messages.stuck(self._names, list(self._workers.values()), patience)
        elif states and not self._was_usable and (waited or not self._are_awaited(own)):
            workers = list(self._workers.values())
            raise messages.none_can(self._names, self._address, workers)
        elif own is not None and (reason := own.why_none) is not None:
            raise messages.not_started(reason)
        elif waited:
            raise messages.no_worker(self._names, self._address, patience)

    def _are_awaited(self, own: Any) -> bool:
        """Whether workers of our own cluster, such as one with a device, have yet to come."""
        return own is not None and len(own.worker_spec) > len(self._workers)

    async def _prepare(self, worker: WorkerState) -> None:
        """Have a worker open the data set, plan the run, and process a first batch."""
        indices: list[int] = []
        try:
            await self._shipping.bring(worker)
            if self._ended or worker.state is Participation.GONE:
                return
            # Without partitions, if a death has to be traced to one of them, or if other workers
            # have processed some already.
            together = not self._tasks.schedule.is_careful and self._tasks.seconds is None
            indices = self._take(worker, self._tasks.batch_size()) if together else indices
            now = self._clock
            batch = self._shipping.first_batch(worker, indices, self._tasks.budget, now)
        except (*CANCELLED, Exception) as error:
            self._handle_error(worker, None, error)
            self._put_back(indices)
            return
        worker.batches.append(batch)
        if len(indices) == N_TRIED:
            # There are enough partitions to send the next batches before this one is done.
            for _ in range(worker.n_threads):
                if more := self._take(worker, self._tasks.batch_size()):
                    self._give(worker, more)
        await self._follow(worker, batch, at_once=True)

    def _restart(self, worker: WorkerState) -> None:
        """Give up all that was sent to a worker, and ask it to plan the run once more.

        Its futures were cancelled: from outside, or as data that they need were lost.
        """
        if self._ended or self._workers.get(worker.address) is not worker:
            return
        self._release_worker(worker)
        fresh = WorkerState(worker.address, worker.n_threads, worker.may_share)
        fresh.n_broken = worker.n_broken
        self._workers[worker.address] = fresh

    async def _ask_what_it_does(self, worker: WorkerState) -> None:
        """See why nothing comes from a worker; replace it, or leave it out, if nothing will."""
        since = worker.since
        busy = await busy_with(self._client, self._number, worker.address)
        if self._ended or worker.state is Participation.GONE or worker.since != since:
            return
        timeout, patience = self._executor._timeout, self._executor._startup_timeout
        own = self._executor._own
        if busy is Busy.STUCK and own is not None and own.replace(worker.address):
            self._restart(worker)
        elif busy is Busy.STUCK:
            worker.is_stuck = True
            self._exclude(worker, "its threads are busy with what was cancelled")
        elif busy is Busy.WITH_RUN and worker.state is Participation.PREPARING and timeout:
            late = failures.took_too_long(worker.title, self._names, None, patience)
            self._tasks.fail(None, late)
        self._changed.set()

    def _exclude(self, worker: WorkerState, reason: str) -> None:
        self._release_worker(worker, lost=False)
        worker.state, worker.reason = Participation.EXCLUDED, reason
        self._updated_at = float("-inf")  # others may be needed in its place

    def _release_worker(
        self, worker: WorkerState, *, lost: bool = True, blamed: bool = False
    ) -> None:
        """Have other workers process the batches of a worker, and release what the run has there.

        Parameters
        ----------
        lost, blamed
            As for :meth:`_reassign`; a partition is to blame only if it is certain which one.
        """
        worker.state = Participation.GONE
        worker.set_gone()
        pending = [batch for batch in worker.batches if batch.future.status != "finished"]
        # Of several, the one that it was busy with need not be the first.
        blamed = blamed and sum(len(batch.indices) for batch in pending) == 1
        for batch in list(worker.batches):
            self._reassign(worker, batch, lost=lost, blamed=blamed and batch in pending)
        self._resources.release(worker.run)
        self._merged.set()

    def _hand_out(self) -> None:
        """Send batches to workers that have room: first to those that have least."""
        tasks = self._tasks
        workers = self._workers.values()
        # Some partitions have to be left for workers that still plan the run.
        tasks.set_n_threads(sum(worker.n_threads for worker in workers if worker.takes_part))
        usable = [worker for worker in workers if worker.state is Participation.USABLE]
        tasks.batch_bytes = (
            SHARED_BYTES if all(worker.may_share for worker in usable) else BATCH_BYTES
        )
        usable.sort(key=lambda worker: len(worker.batches) / worker.n_threads)
        now = self._clock
        for n_ahead in range(1, tasks.n_ahead + 1):
            for worker in usable:
                while worker.room(n_ahead, careful=tasks.schedule.is_careful) > 0:
                    in_hand = sum(other.n_to_do(now, tasks.seconds) for other in workers)
                    has = worker.n_to_do(now, tasks.seconds) / worker.n_threads
                    n_wanted = tasks.batch_size(has, in_hand)
                    if not n_wanted:
                        break
                    indices = self._take(worker, n_wanted)
                    if not indices:  # workers with a device may still get some
                        break
                    self._give(worker, indices)
        self._try_again_elsewhere()

    def _take(self, worker: WorkerState, n_wanted: int) -> list[int]:
        """The next batch for a worker."""
        there = (each for each in self._workers.values() if each.has_device and each.takes_part)
        self._tasks.schedule.set_devices({each.number for each in there})
        return sorted(self._tasks.take(n_wanted, worker.number))

    def _give(self, worker: WorkerState, indices: list[int]) -> None:
        batch = self._shipping.batch(worker, indices, self._tasks.budget, self._clock)
        worker.batches.append(batch)
        self._start_coroutine(self._follow(worker, batch))

    async def _follow(self, worker: WorkerState, batch: Batch, *, at_once: bool = False) -> None:
        """Wait for a batch, and take in its results or its error.

        Parameters
        ----------
        at_once
            Whether results must not stay on the worker, as its answer says if it can take part.
        """
        schedule = self._tasks.schedule
        try:
            if not at_once and not schedule.may_bring(batch.indices[-1]):
                await _done(batch.future)
                while not schedule.may_bring(batch.indices[0]) and batch in worker.batches:
                    self._merged.clear()
                    await self._merged.wait()
            result: Answer | ShippedRun = await self._resources.fetch(batch.future)
        except (*CANCELLED, Exception) as error:
            self._handle_error(worker, batch, error)
        else:
            if batch in worker.batches:
                answer = result.answer if isinstance(result, ShippedRun) else result
                # One that was lost on its way says nothing.
                nothing = Answer(shares=worker.may_share, has_device=worker.has_device)
                self._take_in(worker, batch, answer or nothing)
        finally:
            if batch not in worker.batches:  # otherwise `_release_worker` does it
                self._resources.release(batch.buffer)
                if batch.future is not worker.run:
                    self._resources.release(batch.future)
            self._changed.set()

    def _take_in(self, worker: WorkerState, batch: Batch, answer: Answer) -> None:
        """Handle what a worker says of a batch."""
        if answer.refusal is not None:
            self._exclude(worker, answer.refusal)
            return
        if answer.lost is not None:
            device, reason = answer.lost
            self._tasks.lost[device] = f"{worker.title} found {reason}"
        if answer.other_plan is not None:
            difference = answer.other_plan
            other = failures.planned_differently(worker.title, self._names, difference)
            self._tasks.fail(None, other)
        if worker.state is Participation.PREPARING:
            worker.state = Participation.USABLE
            worker.may_share = answer.shares
            self._was_usable = True
        worker.has_device = answer.has_device
        worker.done_with(batch, self._clock)
        if self._ended:
            return
        try:
            # In a separate frame: an exception refers to the frames that it passed through.
            self._give_results(answer, batch.buffer)
        except MemoryError as error:
            self._tasks.fail(next(iter(batch.indices), None), error)
            return
        if answer.failure is not None:
            failed, packed = answer.failure
            self._tasks.fail(failed, failures.unpack(packed))
        self._put_back(batch.indices[len(answer.results) :])

    def _give_results(self, answer: Answer, buffer: SharedBuffer | None) -> None:
        given: list[Any] = []
        memory = None
        if buffer is not None and answer.used:
            memory = self._executor._buffers.read(buffer, answer.used)
        for index, len_bytes, seconds, data, where in answer.results:
            large = where if memory is None else [memory[start : start + n] for start, n in where]
            given.append((index, (data, large), len_bytes, seconds))
        self._tasks.give(given)

    def _handle_error(self, worker: WorkerState, batch: Batch | None, error: BaseException) -> None:
        """Handle what waiting for a batch raised, or sending what it needs; not user code."""
        if batch is not None and batch not in worker.batches:
            return  # the worker is gone, or the batch is given to another one
        # Or it does not take changes of parameters.
        is_preparing = worker.state is Participation.PREPARING or batch is None
        is_there = batch is not None and batch.future.status == "finished"
        # The future is; or what Dask did to bring its result, perhaps with those of others.
        is_cancelled = isinstance(error, CANCELLED)
        # A connection broke: to this worker, or to one that died with data of the run.
        is_broken = (isinstance(error, OSError) or (is_cancelled and is_there)) and is_preparing
        worker.n_broken += is_broken
        if worker.n_broken < ATTEMPTS if is_broken else is_cancelled:
            failures.clear_traceback(error)  # or future and frames would refer to each other
            worker.needs_restart = True
        elif is_preparing:
            self._exclude(worker, messages.not_prepared(error))
        elif isinstance(error, KilledWorker) and batch is not None:
            self._reassign(worker, batch, blamed=True)
        elif isinstance(error, Exception) and batch is not None:
            worker.batches.remove(batch)
            broken = messages.broken(self._names, worker.address, error)
            self._tasks.fail(next(iter(batch.indices), None), broken)
        self._changed.set()

    def _reassign(
        self, worker: WorkerState, batch: Batch, *, lost: bool = True, blamed: bool = False
    ) -> None:
        """Have other workers process a batch.

        Parameters
        ----------
        lost
            Whether the worker may have died of one of its partitions.
        blamed
            Whether it is certain that it did.
        """
        worker.batches.remove(batch)
        self._resources.release(batch.future, batch.buffer)
        for index in self._to_do(batch.indices) if lost else ():
            if (attempts := self._tasks.schedule.lost(index, blamed)) >= ATTEMPTS:
                died = messages.died(self._names, index, attempts, worker.address)
                self._tasks.fail(index, died)
        if not lost:
            self._put_back(batch.indices)

    def _put_back(self, indices: list[int]) -> None:
        """Have partitions processed that were not begun."""
        for index in self._to_do(indices):
            self._tasks.schedule.put_back(index)

    def _to_do(self, indices: list[int]) -> list[int]:
        """Those of some partitions that are not processed, and that no worker has."""
        batches = [batch.indices for worker in self._workers.values() for batch in worker.batches]
        is_open = self._tasks.schedule.is_open
        return [i for i in indices if is_open(i) and not any(i in batch for batch in batches)]

    def _try_again_elsewhere(self) -> None:
        """Send the partition to be merged next to another worker as well, if it is late.

        The worker that has it may be slow, busy with other runs, or out of reach. A result that is
        on its way for long is given up, as Dask may bring it together with that of a worker out of
        reach; the same one computes it again if no other is idle. Each time after twice as long.
        A worker is idle if all that it has is done, whether or not the results arrive.
        """
        tasks, now, workers = self._tasks, self._clock, self._workers.values()
        waited_for = tasks.schedule.n_merged
        having = [(h, b) for h in workers for b in h.batches if waited_for in b.indices]
        idle = [each for each in workers if each.is_idle]
        if not having and idle and (indices := self._take(idle[0], 1)):
            self._give(idle[0], indices)  # what does not arrive leaves no room for more
        if len(having) != 1:
            return
        worker, batch = having[0]
        idle.sort(key=lambda each: each is worker)  # the last one
        if is_done := batch.future.status == "finished":
            batch.fetched_at = now if batch.fetched_at is None else batch.fetched_at
            due = batch.fetched_at + self._late
        else:
            late = LATE_FIRST
            if worker.state is Participation.PREPARING and self._was_usable:
                late = LATE  # others have planned the run meanwhile
            elif tasks.seconds is not None:
                late = max(LATE, LATE_TIMES * tasks.seconds * len(batch.indices))
            due = batch.since + late
        if idle and len(workers) > 1 and now > due:
            self._late *= 2 if is_done else 1
            indices = [index for index in batch.indices if tasks.schedule.is_open(index)]
            if not is_done:
                worker.is_late = True
            elif worker.state is Participation.PREPARING or batch.future is worker.run:
                batch.indices = []  # what it is needed for beside them has to come
            else:
                worker.batches.remove(batch)
                self._resources.release(batch.future, batch.buffer)
            if indices:
                self._give(idle[0], indices)
            self._updated_at = float("-inf")

    def _enforce_timeout(self) -> None:
        timeout = self._executor._timeout
        if timeout is None:
            return
        for worker in self._workers.values():
            for batch in worker.batches:
                # Partitions that other workers have finished meanwhile do not count.
                index = next(filter(self._tasks.schedule.is_open, batch.indices), None)
                if index is not None and self._clock > batch.since + timeout:
                    late = failures.took_too_long(worker.title, self._names, index, timeout)
                    self._tasks.fail(index, late)

    # Helpers.

    def _start_coroutine(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._coroutines.add(task)
        task.add_done_callback(self._coroutine_ended)

    def _coroutine_ended(self, task: asyncio.Task[None]) -> None:
        """Fail the run with what a coroutine raised: no code awaits it, and the run would hang."""
        self._coroutines.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._tasks.fail(None, error)


async def _done(future: Future) -> None:
    """Wait until a task is done, and leave its result where it is."""
    is_done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def set_done(_future: Future) -> None:
        with suppress(RuntimeError):  # the client is closed, and its loop with it
            loop.call_soon_threadsafe(is_done.set)

    future.add_done_callback(set_done)
    await is_done.wait()
