"""Hands the partitions of one run to the workers of a Dask cluster.

All of it happens on the event loop of the client, so there are no locks; only the run's tasks are
shared with the merging thread. Each batch of partitions is a task of Dask that is restricted to one
worker: a worker gets its next one when it is done with another, and only workers that have opened
the data set get any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

from distributed import Client, KilledWorker

from framefold.exceptions import WorkerError
from framefold.executor._dask import messages
from framefold.executor._dask import work as dask_work
from framefold.executor._dask.batches import BATCH_BYTES, N_TRIED, SHARED_BYTES, ClusterTasks
from framefold.executor._dask.buffers import SharedBuffer
from framefold.executor._dask.canceller import CANCELLED, PATIENCE, Canceller, OwnWorkers, done
from framefold.executor._dask.clock import Clock
from framefold.executor._dask.demand import Demand, demand
from framefold.executor._dask.first import FirstResult
from framefold.executor._dask.lending import BufferPool, is_near
from framefold.executor._dask.resources import RunResources
from framefold.executor._dask.sending import Sending
from framefold.executor._dask.workers import Batch, Participation, WorkerState
from framefold.executor._tasks import ATTEMPTS
from framefold.executor._wire import failures

#: How often to look for workers that came or went, in seconds.
POLL = 0.5
#: How long the scheduler may take to answer, in seconds.
ANSWER = 30.0
#: How long the next partition to be merged may take before another worker gets it, too: so many
#: seconds, and so many times as long as others; and so many seconds as long as none is done.
LATE, LATE_TIMES, LATE_FIRST = 3.0, 5.0, 30.0


class Shipment(NamedTuple):
    """A run, as it is sent."""

    number: str
    #: The pickle of a :class:`framefold.executor._dask.work.ShippedRun`.
    data: bytes
    #: Of framefold here.
    version: str
    #: What a worker's plan has to be.
    fingerprint: str
    #: The names of the UDFs.
    names: str


class Feed:
    """Gives the tasks of one run to workers.

    Parameters
    ----------
    client
        Of the cluster.
    shipment, tasks
        Of the run.
    timeout
        How many seconds a partition may take; None for any.
    startup_timeout
        How many seconds to wait for workers where there are none.
    own
        As for :class:`framefold.executor._dask.canceller.Canceller`.
    buffers
        Of the client.
    """

    def __init__(
        self,
        client: Client,
        shipment: Shipment,
        tasks: ClusterTasks,
        timeout: float | None,
        startup_timeout: float,
        own: OwnWorkers | None,
        buffers: BufferPool,
    ) -> None:
        self._client = client
        self._canceller = Canceller(client, shipment.number, own)
        self._own = own
        self._resources = RunResources(client, shipment.number, buffers)
        self._demand = Demand(self._resources)
        self._run = shipment
        self._tasks = tasks
        self._timeout = timeout
        self._startup_timeout = startup_timeout
        scheduler: Any = client.scheduler
        self._address: str = scheduler.address
        self._workers: dict[str, WorkerState] = {}
        self._coroutines: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._merged = asyncio.Event()
        self._n_changes = 0
        self._was_usable = False
        self._updated_at = float("-inf")
        self._clock = Clock(most=2 * POLL)
        self._sending = Sending(self._resources, shipment.data, tasks, self._clock)
        self._had_worker_at = self._clock.seconds
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

    def update(self, data: bytes) -> None:
        """Send these parameters along from now on."""
        if not self._ended:
            self._n_changes += 1
            self._start_coroutine(self._sending.change(self._n_changes, data))

    async def end(self, *, complete: bool) -> None:
        """Remove the run; waits until no worker is busy with it any more, as far as possible."""
        if self._ended:
            return
        self._ended = True
        asked = [worker for worker in self._workers.values() if worker.run is not None]
        busy = [h.address for h in asked if h.batches or h.state is Participation.PREPARING]
        # Workers without a batch may still process one that was given to another worker.
        idle = [] if complete else [h.address for h in asked if h.address not in busy]
        self._resources.close()
        self.merged()
        if (busy or idle) and self._client.status == "running":
            await self._canceller.stop(busy, idle)
        if self._coroutines:
            # They end with their futures, but for results that are on their way.
            await asyncio.wait(self._coroutines, timeout=PATIENCE)
        for coroutine in self._coroutines:
            coroutine.cancel()

    # The loop.

    async def _serve(self) -> None:
        try:
            while not self._ended:
                self._changed.clear()
                self._clock.tick()
                if self._client.status != "running":
                    raise messages.lost_scheduler(self._run.names, self._address)
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
            detail = f" ({type(error).__name__}: {error})"
            lost = messages.lost_scheduler(self._run.names, self._address, detail)
            self._tasks.fail(None, lost)

    async def _update_workers(self) -> None:
        """Compare the workers of the run with those of the cluster, and ask new ones."""
        now = self._clock.seconds
        if now < self._updated_at + POLL:
            return
        self._updated_at = now
        async with asyncio.timeout(ANSWER):
            n_threads = await self._client.nthreads()
        if self._ended:
            return
        for address, n in n_threads.items():
            if address not in self._workers:
                self._workers[address] = WorkerState(address, n, is_near(address))
        for address in [address for address in self._workers if address not in n_threads]:
            self._release_worker(self._workers.pop(address), blamed=True)
        for worker in [worker for worker in self._workers.values() if worker.needs_restart]:
            self._restart(worker)
        self._ask_workers()
        self._check_workers(now)
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
            if worker.state is Participation.IDLE:
                worker.state = Participation.PREPARING
                n_threads += worker.n_threads
                self._start_coroutine(self._prepare(worker))
        self._tasks.set_n_threads(n_threads)

    def _check_workers(self, now: float) -> None:
        """Fail if no worker can take part."""
        states = {worker.state for worker in self._workers.values()}
        if states & {Participation.IDLE, Participation.PREPARING, Participation.USABLE}:
            self._had_worker_at = now
        elif states and not self._was_usable:
            workers = list(self._workers.values())
            raise messages.none_can(self._run.names, self._address, workers)
        elif self._own is not None and (reason := self._own.why_none) is not None:
            raise messages.not_started(reason)
        elif now > self._had_worker_at + self._startup_timeout:
            raise messages.no_worker(self._run.names, self._address, self._startup_timeout)

    async def _prepare(self, worker: WorkerState) -> None:
        """Have a worker open the data set, plan the run, and process a first batch."""
        worker.settled.clear()
        batch: Batch | None = None
        try:
            data = await self._sending.bring()
            if self._ended or worker.state is Participation.GONE:
                return
            # Without a first batch, if a death has to be traced to one partition, or if other
            # workers have processed partitions already.
            together = not self._tasks.schedule.is_careful and self._tasks.seconds is None
            indices = self._take(self._tasks.batch_size()) if together else []
            batch = self._sending.prepare(worker, data, indices)
            if indices:
                worker.batches.append(batch)
            if len(indices) == N_TRIED:
                # There are enough partitions to send the next batches before this one is done.
                for _ in range(worker.n_threads):
                    if more := self._take(self._tasks.batch_size()):
                        self._give(worker, more)
            answer = await worker.answer
            planned: dask_work.Planned = (
                answer.planned if isinstance(answer, FirstResult) else answer
            )
        except CANCELLED as error:
            self._mark_for_restart(worker, error)
            return
        except KilledWorker:
            self._exclude(worker, "it died while it prepared the run")
        except OSError as error:
            # A connection broke: to this worker, or to one that died with data of the run.
            worker.n_broken += 1
            if worker.n_broken < ATTEMPTS:
                self._mark_for_restart(worker, error)
                return
            self._exclude(worker, f"{type(error).__name__}: {error}")
        except ModuleNotFoundError as error:
            self._exclude(worker, f"{error.name or error} is not installed there")
        except Exception as error:
            self._exclude(worker, f"{type(error).__name__}: {error}")
        else:
            if self._workers.get(worker.address) is worker:
                self._handle_planned(worker, planned, batch)
        finally:
            worker.settled.set()
        if worker.state is not Participation.USABLE:
            self._reassign_batches(worker)
        if worker.answer is not worker.run:
            self._resources.release(worker.answer)
        if batch is not None:
            self._resources.release(batch.buffer)
        self._changed.set()

    def _handle_planned(
        self, worker: WorkerState, planned: dask_work.Planned, batch: Batch | None
    ) -> None:
        """Handle a worker's answer to the request to plan the run."""
        detail: Any = planned.detail
        if planned.kind == "planned":
            if detail != self._run.fingerprint:
                both = self._run.fingerprint, detail
                other = messages.planned_differently(self._run.names, worker.address, *both)
                self._tasks.fail(None, other)
            worker.state = Participation.USABLE
            worker.shares = worker.may_share = planned.shares
            self._was_usable = True
            if batch in worker.batches:
                worker.done_with(batch, self._clock.seconds)
                self._keep_answer(planned.answer or dask_work.Answer([]), batch)
        elif planned.kind == "other version":
            here = self._run.version
            self._exclude(worker, f"framefold {detail} is installed there, {here} here")
        else:
            exception = failures.unpack(detail)
            if planned.kind == "failed":
                self._tasks.fail(None, exception)
            self._exclude(worker, f"{exception}")

    def _reassign_batches(self, worker: WorkerState) -> None:
        """Have other workers process what was sent to this one along with the run."""
        batches, worker.batches = worker.batches, []
        for batch in batches:
            self._resources.release(batch.future, batch.buffer)
            if not self._ended:
                self._put_back(batch.indices)

    def _mark_for_restart(self, worker: WorkerState, error: BaseException) -> None:
        """Ask a worker once more, if it is still there, as its futures were cancelled.

        The run has ended, or the worker has left, or all futures were cancelled from outside.
        """
        failures.clear_traceback(error)  # or future and frames would refer to each other
        worker.needs_restart = True
        self._changed.set()

    def _restart(self, worker: WorkerState) -> None:
        """Give up all that was sent to a worker, and ask it to plan the run once more."""
        if self._ended or self._workers.get(worker.address) is not worker:
            return
        self._release_worker(worker)
        fresh = WorkerState(worker.address, worker.n_threads, worker.may_share)
        fresh.n_broken = worker.n_broken
        self._workers[worker.address] = fresh

    def _release_worker(self, worker: WorkerState, *, blamed: bool = False) -> None:
        """Have other workers process the batches of a worker, and release its resources."""
        worker.state = Participation.GONE
        resources = worker.resources
        for batch in list(worker.batches):
            alone = len(batch.indices) == 1 and batch.future.status != "finished"
            self._reassign_batch(worker, batch, blamed=blamed and alone)
        self._resources.release(*resources)
        worker.settled.set()
        self._merged.set()

    def _exclude(self, worker: WorkerState, reason: str) -> None:
        worker.state, worker.reason = Participation.EXCLUDED, reason
        self._updated_at = float("-inf")  # others may be needed in its place

    def _hand_out(self) -> None:
        """Send batches to workers that have room: first to those that have least."""
        tasks = self._tasks
        workers = self._workers.values()
        # Some partitions have to be left for workers that still plan the run.
        tasks.set_n_threads(sum(worker.n_threads for worker in workers if worker.takes_part))
        usable = [worker for worker in workers if worker.state is Participation.USABLE]
        tasks.batch_bytes = SHARED_BYTES if all(worker.shares for worker in usable) else BATCH_BYTES
        usable.sort(key=lambda worker: len(worker.batches) / worker.n_threads)
        now = self._clock.seconds
        for n_ahead in range(1, tasks.n_ahead + 1):
            for worker in usable:
                while worker.room(n_ahead, careful=tasks.schedule.is_careful) > 0:
                    in_hand = sum(other.n_to_do(now, tasks.seconds) for other in workers)
                    has = worker.n_to_do(now, tasks.seconds) / worker.n_threads
                    n_wanted = tasks.batch_size(has, in_hand)
                    if not n_wanted:
                        break
                    indices = self._take(n_wanted)
                    if not indices:
                        self._try_again_elsewhere(usable)
                        return
                    self._give(worker, indices)

    def _take(self, n_wanted: int) -> list[int]:
        """The next batch."""
        return sorted(self._tasks.take(n_wanted))

    def _give(self, worker: WorkerState, indices: list[int]) -> None:
        batch = self._sending.process(worker, indices)
        worker.batches.append(batch)
        self._start_coroutine(self._follow(worker, batch))

    async def _follow(self, worker: WorkerState, batch: Batch) -> None:
        """Wait for a batch, and take in its results or its error."""
        first = batch.indices[0]
        try:
            if not self._tasks.schedule.may_bring(batch.indices[-1]):
                await done(batch.future)
                while not self._tasks.schedule.may_bring(first) and batch in worker.batches:
                    self._merged.clear()
                    await self._merged.wait()
            answer: dask_work.Answer = await batch.future
            await worker.settled.wait()
        except CANCELLED as error:
            self._mark_for_restart(worker, error)
        except Exception as error:
            await worker.settled.wait()
            if batch not in worker.batches:
                return  # the worker is gone
            if isinstance(error, KilledWorker):
                self._reassign_batch(worker, batch, blamed=True)
                return
            worker.batches.remove(batch)
            self._tasks.fail(first, messages.broken(self._run.names, worker.address, error))
        else:
            if batch in worker.batches:
                worker.done_with(batch, self._clock.seconds)
                self._keep_answer(answer, batch)
        finally:
            if batch not in worker.batches:  # otherwise `_reassign_batch` releases them
                self._resources.release(batch.future, batch.buffer)
            self._changed.set()

    def _keep_answer(self, answer: dask_work.Answer, batch: Batch) -> None:
        if self._ended:
            return
        try:
            # In a separate frame: an exception refers to the frames that it passed through.
            self._give_results(answer, batch.buffer)
        except MemoryError as error:
            self._tasks.fail(batch.indices[0], error)
            return
        if answer.failure is not None:
            failed, packed = answer.failure
            self._tasks.fail(failed, failures.unpack(packed))
        self._put_back(batch.indices[len(answer.results) :])

    def _give_results(self, answer: dask_work.Answer, buffer: SharedBuffer | None) -> None:
        given: list[Any] = []
        memory = None
        if buffer is not None and answer.used:
            memory = self._resources.read(buffer, answer.used)
        for index, len_bytes, seconds, data, where in answer.results:
            large = where if memory is None else [memory[start : start + n] for start, n in where]
            given.append((index, (data, large), len_bytes, seconds))
        self._tasks.give(given)

    def _put_back(self, indices: list[int]) -> None:
        for index in indices:
            if self._tasks.schedule.is_open(index) and not self._is_assigned(index):
                self._tasks.schedule.put_back(index)

    def _reassign_batch(self, worker: WorkerState, batch: Batch, *, blamed: bool) -> None:
        worker.batches.remove(batch)
        for other in (other for each in self._workers.values() for other in each.batches):
            if not set(batch.indices).isdisjoint(other.indices):
                other.is_copied = False  # what is lost may have been the copy
        for index in batch.indices:
            if self._tasks.schedule.is_open(index) and not self._is_assigned(index):
                attempts = self._tasks.schedule.lost(index, blamed)
                if attempts >= ATTEMPTS:
                    error = messages.died(self._run.names, index, attempts, worker.address)
                    self._tasks.fail(index, error)

    def _is_assigned(self, index: int) -> bool:
        """Whether any worker has a partition."""
        return any(index in b.indices for worker in self._workers.values() for b in worker.batches)

    def _try_again_elsewhere(self, usable: list[WorkerState]) -> None:
        """Send the partition to be merged next to an idle worker as well, if it is late.

        The worker that has it may be slow, busy with other runs, or out of reach.
        """
        tasks, now = self._tasks, self._clock.seconds
        waited_for = tasks.schedule.n_merged
        workers = self._workers.values()
        having = [(h, b) for h in workers for b in h.batches if waited_for in b.indices]
        idle = [worker for worker in usable if worker.takes_part and not worker.batches]
        if not having or not idle or any(batch.is_copied for _, batch in having):
            return
        worker, batch = having[0]
        late = LATE_FIRST
        if worker.state is Participation.PREPARING and self._was_usable:
            late = LATE  # others have planned the run meanwhile
        elif tasks.seconds is not None:
            late = max(LATE, LATE_TIMES * tasks.seconds * len(batch.indices))
        if now > batch.since + late:
            batch.is_copied = worker.is_late = True
            indices = [index for index in batch.indices if tasks.schedule.is_open(index)]
            if indices:
                self._give(idle[0], indices)
            self._updated_at = float("-inf")

    def _enforce_timeout(self) -> None:
        if self._timeout is None:
            return
        for worker in self._workers.values():
            for batch in worker.batches:
                # Partitions that other workers have finished meanwhile do not count.
                index = next(filter(self._tasks.schedule.is_open, batch.indices), None)
                if index is not None and self._clock.seconds > batch.since + self._timeout:
                    names = self._run.names
                    error = messages.took_too_long(names, index, self._timeout, worker.address)
                    self._tasks.fail(index, error)

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
