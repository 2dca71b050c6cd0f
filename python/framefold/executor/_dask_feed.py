"""Hands the partitions of one run to the workers of a Dask cluster.

All of it happens on the event loop of the client, so there are no locks; the merging thread is met
in the run's tasks alone. Each batch of partitions is a task of Dask that is restricted to one
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
from framefold.executor import _dask_messages as messages
from framefold.executor import _dask_work, _failures
from framefold.executor._clock import Clock
from framefold.executor._dask_beginning import Began
from framefold.executor._dask_belongings import Belongings
from framefold.executor._dask_courier import CANCELLED, PATIENCE, Courier, OwnWorkers, done
from framefold.executor._dask_demand import Demand, demand
from framefold.executor._dask_hand import Batch, Hand, State
from framefold.executor._dask_lending import Trays, is_near
from framefold.executor._dask_sending import Sending
from framefold.executor._dask_tasks import BATCH_BYTES, N_TRIED, SHARED_BYTES, ClusterTasks
from framefold.executor._dask_trays import Tray
from framefold.executor._tasks import ATTEMPTS

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
    #: The pickle of a :class:`framefold.executor._dask_work.Shipped`.
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
        As for :class:`framefold.executor._dask_courier.Courier`.
    trays
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
        trays: Trays,
    ) -> None:
        self._client = client
        self._courier = Courier(client, shipment.number, own)
        self._own = own
        self._things = Belongings(client, shipment.number, trays)
        self._demand = Demand(self._things)
        self._run = shipment
        self._tasks = tasks
        self._timeout = timeout
        self._startup_timeout = startup_timeout
        scheduler: Any = client.scheduler
        self._address: str = scheduler.address
        self._hands: dict[str, Hand] = {}
        self._coroutines: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._merged = asyncio.Event()
        self._n_changes = 0
        self._was_usable = False
        self._looked = float("-inf")
        self._clock = Clock(most=2 * POLL)
        self._sending = Sending(self._things, shipment.data, tasks, self._clock)
        self._had_worker = self._clock.seconds
        self._ended = False

    # What the merging thread asks for, on the loop.

    def begin(self) -> None:
        """Begin to hand out partitions."""
        if not self._ended:
            self._start(self._serve())

    def merged(self) -> None:
        """Partitions were merged."""
        self._merged.set()
        self._changed.set()

    def update(self, data: bytes) -> None:
        """Send these parameters along from now on."""
        if not self._ended:
            self._n_changes += 1
            self._start(self._sending.change(self._n_changes, data))

    async def end(self, *, complete: bool) -> None:
        """Forget the run; returns when no worker is busy with it any more, as far as possible."""
        if self._ended:
            return
        self._ended = True
        asked = [hand for hand in self._hands.values() if hand.run is not None]
        busy = [h.address for h in asked if h.batches or h.state is State.PREPARING]
        # Others may have begun with what was taken from them.
        idle = [] if complete else [h.address for h in asked if h.address not in busy]
        self._things.close()
        self.merged()
        if (busy or idle) and self._client.status == "running":
            await self._courier.stop(busy, idle)
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
                await self._look_around()
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

    async def _look_around(self) -> None:
        """Take notice of workers that come and go."""
        now = self._clock.seconds
        if now < self._looked + POLL:
            return
        self._looked = now
        async with asyncio.timeout(ANSWER):
            n_threads = await self._client.nthreads()
        if self._ended:
            return
        for address, n in n_threads.items():
            if address not in self._hands:
                self._hands[address] = Hand(address, n, is_near(address))
        for address in [address for address in self._hands if address not in n_threads]:
            self._let_go(self._hands.pop(address), blamed=True)
        for hand in [hand for hand in self._hands.values() if hand.is_spoilt]:
            self._begin_anew(hand)
        self._invite()
        self._check_hope(now)
        # Workers that are about to come need no call.
        if self._was_usable or now > self._had_worker + POLL / 2:
            n_threads = sum(hand.n_threads for hand in self._hands.values() if hand.takes_part)
            self._demand.tell(demand(self._tasks.schedule.n_open, self._tasks.seconds, n_threads))

    def _invite(self) -> None:
        """Have as many workers plan the run as can be of use."""
        hands = self._hands.values()
        n_threads = sum(hand.n_threads for hand in hands if hand.takes_part)
        for hand in hands:
            if n_threads >= self._tasks.n_partitions:
                break
            if hand.state is State.IDLE:
                hand.state = State.PREPARING
                n_threads += hand.n_threads
                self._start(self._prepare(hand))
        self._tasks.set_n_threads(n_threads)

    def _check_hope(self, now: float) -> None:
        """Fail if no worker can take part."""
        states = {hand.state for hand in self._hands.values()}
        if states & {State.IDLE, State.PREPARING, State.USABLE}:
            self._had_worker = now
        elif states and not self._was_usable:
            hands = list(self._hands.values())
            raise messages.none_can(self._run.names, self._address, hands)
        elif self._own is not None and (reason := self._own.why_none) is not None:
            raise messages.not_started(reason)
        elif now > self._had_worker + self._startup_timeout:
            raise messages.no_worker(self._run.names, self._address, self._startup_timeout)

    async def _prepare(self, hand: Hand) -> None:
        """Have a worker open the data set, plan the run, and process a first batch."""
        hand.settled.clear()
        batch: Batch | None = None
        try:
            data = await self._sending.bring()
            if self._ended or hand.state is State.GONE:
                return
            # What workers die of has to be known; and others go on while a late one prepares.
            together = not self._tasks.schedule.is_careful and self._tasks.seconds is None
            indices = self._take(self._tasks.batch_size()) if together else []
            batch = self._sending.begin(hand, data, indices)
            if indices:
                hand.batches.append(batch)
            if len(indices) == N_TRIED:
                # There is enough for everybody: then nobody waits for the next ones.
                for _ in range(hand.n_threads):
                    if more := self._take(self._tasks.batch_size()):
                        self._give(hand, more)
            told = await hand.answer
            planned: _dask_work.Planned = told.planned if isinstance(told, Began) else told
        except CANCELLED as error:
            self._spoil(hand, error)
            return
        except KilledWorker:
            self._exclude(hand, "it died while it prepared the run")
        except OSError as error:
            # A connection broke: to this worker, or to one that died with data of the run.
            hand.n_broken += 1
            if hand.n_broken < ATTEMPTS:
                self._spoil(hand, error)
                return
            self._exclude(hand, f"{type(error).__name__}: {error}")
        except ModuleNotFoundError as error:
            self._exclude(hand, f"{error.name or error} is not installed there")
        except Exception as error:
            self._exclude(hand, f"{type(error).__name__}: {error}")
        else:
            if self._hands.get(hand.address) is hand:
                self._heed(hand, planned, batch)
        finally:
            hand.settled.set()
        if hand.state is not State.USABLE:
            self._lose(hand)
        if hand.answer is not hand.run:
            self._things.release(hand.answer)
        if batch is not None:
            self._things.release(batch.tray)
        self._changed.set()

    def _heed(self, hand: Hand, planned: _dask_work.Planned, batch: Batch | None) -> None:
        """See to what a worker says about a run."""
        told: Any = planned.told
        if planned.kind == "planned":
            if told != self._run.fingerprint:
                both = self._run.fingerprint, told
                other = messages.planned_differently(self._run.names, hand.address, *both)
                self._tasks.fail(None, other)
            hand.state = State.USABLE
            hand.shares = hand.may_share = planned.shares
            self._was_usable = True
            if batch in hand.batches:
                hand.done_with(batch, self._clock.seconds)
                self._keep(planned.answer or _dask_work.Answer([]), batch)
        elif planned.kind == "other version":
            here = self._run.version
            self._exclude(hand, f"framefold {told} is installed there, {here} here")
        else:
            exception = _failures.unpack(told)
            if planned.kind == "failed":
                self._tasks.fail(None, exception)
            self._exclude(hand, f"{exception}")

    def _lose(self, hand: Hand) -> None:
        """Have others process what was sent to a worker along with the run."""
        batches, hand.batches = hand.batches, []
        for batch in batches:
            self._things.release(batch.future, batch.tray)
            if not self._ended:
                self._put_back(batch.indices)

    def _spoil(self, hand: Hand, error: BaseException) -> None:
        """Begin anew with a worker if it turns out that it is not gone.

        The run has ended, or the worker is gone, or somebody has cancelled everything.
        """
        _failures.let_go(error)  # the future has it, and the frames have the future
        hand.is_spoilt = True
        self._changed.set()

    def _begin_anew(self, hand: Hand) -> None:
        """Forget all that was sent to a worker, and ask it once more."""
        if self._ended or self._hands.get(hand.address) is not hand:
            return
        self._let_go(hand)
        anew = Hand(hand.address, hand.n_threads, hand.may_share)
        anew.n_broken = hand.n_broken
        self._hands[hand.address] = anew

    def _let_go(self, hand: Hand, *, blamed: bool = False) -> None:
        """Have others process what a worker has."""
        hand.state = State.GONE
        things = hand.things
        for batch in list(hand.batches):
            alone = len(batch.indices) == 1 and batch.future.status != "finished"
            self._lost(hand, batch, blamed=blamed and alone)
        self._things.release(*things)
        hand.settled.set()
        self._merged.set()

    def _exclude(self, hand: Hand, reason: str) -> None:
        hand.state, hand.reason = State.EXCLUDED, reason
        self._looked = float("-inf")  # others may be needed in its place

    def _hand_out(self) -> None:
        """Give all workers something to do: first those that have least."""
        tasks = self._tasks
        hands = self._hands.values()
        # For those that plan the run, something is to be left.
        tasks.set_n_threads(sum(hand.n_threads for hand in hands if hand.takes_part))
        usable = [hand for hand in hands if hand.state is State.USABLE]
        tasks.batch_bytes = SHARED_BYTES if all(hand.shares for hand in usable) else BATCH_BYTES
        usable.sort(key=lambda hand: len(hand.batches) / hand.n_threads)
        now = self._clock.seconds
        for n_ahead in range(1, tasks.n_ahead + 1):
            for hand in usable:
                while hand.room(n_ahead, careful=tasks.schedule.is_careful) > 0:
                    in_hand = sum(other.n_to_do(now, tasks.seconds) for other in hands)
                    has = hand.n_to_do(now, tasks.seconds) / hand.n_threads
                    n_wanted = tasks.batch_size(has, in_hand)
                    if not n_wanted:
                        break
                    indices = self._take(n_wanted)
                    if not indices:
                        self._try_again_elsewhere(usable)
                        return
                    self._give(hand, indices)

    def _take(self, n_wanted: int) -> list[int]:
        """The next batch."""
        return sorted(self._tasks.take(n_wanted))

    def _give(self, hand: Hand, indices: list[int]) -> None:
        batch = self._sending.process(hand, indices)
        hand.batches.append(batch)
        self._start(self._follow(hand, batch))

    async def _follow(self, hand: Hand, batch: Batch) -> None:
        """Wait for a batch, and keep what came of it."""
        first = batch.indices[0]
        try:
            if not self._tasks.schedule.may_bring(batch.indices[-1]):
                await done(batch.future)
                while not self._tasks.schedule.may_bring(first) and batch in hand.batches:
                    self._merged.clear()
                    await self._merged.wait()
            answer: _dask_work.Answer = await batch.future
            await hand.settled.wait()
        except CANCELLED as error:
            self._spoil(hand, error)
        except Exception as error:
            await hand.settled.wait()
            if batch not in hand.batches:
                return  # the worker is gone
            if isinstance(error, KilledWorker):
                self._lost(hand, batch, blamed=True)
                return
            hand.batches.remove(batch)
            self._tasks.fail(first, messages.broken(self._run.names, hand.address, error))
        else:
            if batch in hand.batches:
                hand.done_with(batch, self._clock.seconds)
                self._keep(answer, batch)
        finally:
            if batch not in hand.batches:  # or else others have to do it first
                self._things.release(batch.future, batch.tray)
            self._changed.set()

    def _keep(self, answer: _dask_work.Answer, batch: Batch) -> None:
        if self._ended:
            return
        try:
            # In a frame of its own, as exceptions refer to those that they come through.
            self._give_results(answer, batch.tray)
        except MemoryError as error:
            self._tasks.fail(batch.indices[0], error)
            return
        if answer.failure is not None:
            failed, packed = answer.failure
            self._tasks.fail(failed, _failures.unpack(packed))
        self._put_back(batch.indices[len(answer.results) :])

    def _give_results(self, answer: _dask_work.Answer, tray: Tray | None) -> None:
        given: list[Any] = []
        memory = None
        if tray is not None and answer.used:
            memory = self._things.read(tray, answer.used)
        for index, len_bytes, seconds, data, where in answer.results:
            large = where if memory is None else [memory[start : start + n] for start, n in where]
            given.append((index, (data, large), len_bytes, seconds))
        self._tasks.give(given)

    def _put_back(self, indices: list[int]) -> None:
        for index in indices:
            if self._tasks.schedule.is_open(index) and not self._has(index):
                self._tasks.schedule.put_back(index)

    def _lost(self, hand: Hand, batch: Batch, *, blamed: bool) -> None:
        hand.batches.remove(batch)
        for other in (other for each in self._hands.values() for other in each.batches):
            if not set(batch.indices).isdisjoint(other.indices):
                other.is_copied = False  # what is lost may have been the copy
        for index in batch.indices:
            if self._tasks.schedule.is_open(index) and not self._has(index):
                attempts = self._tasks.schedule.lost(index, blamed)
                if attempts >= ATTEMPTS:
                    error = messages.died(self._run.names, index, attempts, hand.address)
                    self._tasks.fail(index, error)

    def _has(self, index: int) -> bool:
        """Whether any worker has a partition."""
        return any(index in b.indices for hand in self._hands.values() for b in hand.batches)

    def _try_again_elsewhere(self, usable: list[Hand]) -> None:
        """Give what everything waits for to a worker that has nothing to do.

        The one that has it may be slow, busy for others, or out of reach.
        """
        tasks, now = self._tasks, self._clock.seconds
        waited_for = tasks.schedule.n_merged
        hands = self._hands.values()
        having = [(h, b) for h in hands for b in h.batches if waited_for in b.indices]
        idle = [hand for hand in usable if hand.takes_part and not hand.batches]
        if not having or not idle or any(batch.is_copied for _, batch in having):
            return
        hand, batch = having[0]
        late = LATE_FIRST
        if hand.state is State.PREPARING and self._was_usable:
            late = LATE  # others have planned the run meanwhile
        elif tasks.seconds is not None:
            late = max(LATE, LATE_TIMES * tasks.seconds * len(batch.indices))
        if now > batch.since + late:
            batch.is_copied = hand.is_late = True
            indices = [index for index in batch.indices if tasks.schedule.is_open(index)]
            if indices:
                self._give(idle[0], indices)
            self._looked = float("-inf")

    def _enforce_timeout(self) -> None:
        if self._timeout is None:
            return
        for hand in self._hands.values():
            for batch in hand.batches:
                # What others have done meanwhile does not matter any more.
                index = next(filter(self._tasks.schedule.is_open, batch.indices), None)
                if index is not None and self._clock.seconds > batch.since + self._timeout:
                    names = self._run.names
                    error = messages.took_too_long(names, index, self._timeout, hand.address)
                    self._tasks.fail(index, error)

    # Helpers.

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._coroutines.add(task)
        task.add_done_callback(self._ended_one)

    def _ended_one(self, task: asyncio.Task[None]) -> None:
        """Nobody waits for a coroutine: what it raises would be lost, and the run would hang."""
        self._coroutines.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._tasks.fail(None, error)
