"""The workers of a cluster as one run sees them: what each has, how much it gets, how it stops.

A task of Dask costs much more than a message between processes, so partitions travel in larger
batches; and results stay on the workers for as long as too many wait here to be merged.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from distributed import Client

from framefold.executor._dask import work as dask_work
from framefold.executor._dask.memory import SharedBuffer
from framefold.executor._dask.work import Busy
from framefold.executor._tasks import Tasks

if TYPE_CHECKING:
    from framefold.executor._dask.cluster import LocalCluster

#: What keys of tasks and data of runs begin with.
PREFIX = "framefold_"
#: How long user code may take to stop when a run is ended early, in seconds.
PATIENCE = 1.0
#: How long something that a run waits for may take before another worker gets it, too, in seconds.
LATE = 3.0

#: A batch is work for so many seconds for each thread of all workers, where partitions are shorter:
#: the more threads there are, the more tasks would come at the same time. And for no fewer and no
#: more than these, as nothing of a batch is merged before all of it is done.
SECONDS_PER_THREAD, SHORT_BATCH, LONG_BATCH = 0.01, 0.15, 0.25
#: And for no fewer seconds than this, as long as each thread gets some: a task costs as much.
LEAST_SECONDS = 0.03
#: How many partitions to try, and for how many seconds, before it is known how long they take.
N_TRIED, TRYING_SECONDS = 12, 0.1
#: A worker gives back what it has not begun after so many seconds.
MOST_SECONDS = 1.0
#: Its results take no more than so many bytes, if it is more than one partition.
BATCH_BYTES = 1 << 20
#: The same where results are left in shared memory.
SHARED_BYTES = 16 << 20
#: It is no more than so many partitions.
MOST_IN_BATCH = 256
#: Where partitions take longer than this, in seconds, none waits at the worker for its turn.
LONG = 1.0

#: How long Dask takes a task for that it knows nothing about, in seconds.
UNKNOWN = 0.5
#: What takes longer than this on the workers there are is a case for more of them, in seconds.
LONG_RUN = 5.0
#: With more tasks than this, clusters are asked for no more workers.
MOST_WISHES = 100


class Participation(Enum):
    """Whether a worker takes part in a run."""

    IDLE = "it was not asked"
    PREPARING = "it opens the data set and plans the run"
    USABLE = "it takes part"
    EXCLUDED = "it cannot take part"
    GONE = "it left the cluster"


@dataclass(eq=False)
class Batch:
    """Partitions that are sent together; none to have the run planned alone."""

    indices: list[int]
    future: Any
    #: When they were sent, by the clock of the feed.
    since: float
    #: Memory for its results.
    buffer: SharedBuffer | None = None
    #: When it was first seen that they are done and merged next, so that their results are on their
    #: way, by the clock of the feed.
    fetched_at: float | None = None


@dataclass(eq=False)
class WorkerState:
    """A worker, from when it is asked to take part until it leaves or is asked once more.

    Attributes
    ----------
    address, n_threads
        Of the worker.
    reason
        Why it is excluded.
    run
        The future of the run on that worker.
    """

    address: str
    n_threads: int
    #: Whether it can open buffers in shared memory; before it has tried, whether it may be able to.
    may_share: bool
    state: Participation = Participation.IDLE
    reason: str = ""
    #: Whether that is what it is kept busy with.
    is_stuck: bool = False
    run: Any = None
    #: Done when it leaves, is asked once more, or the run ends.
    gone: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    batches: list[Batch] = field(default_factory=list)
    #: When the latest finished batch came back, by the clock of the feed.
    since: float = 0.0
    #: When it was last asked what it is busy with.
    asked_at: float = 0.0
    #: Whether a batch of this worker took so long that it was sent to another one as well.
    is_late: bool = False
    #: Whether its futures were cancelled or lost: it has to be asked to take part once more.
    needs_restart: bool = False
    #: How often a connection broke while the worker prepared the run, or was sent changes.
    n_broken: int = 0
    #: Of no other worker.
    number: int = field(default_factory=itertools.count().__next__)
    #: Whether it works on a CUDA device, as far as is known.
    has_device: bool = False
    #: Whether it begins no tasks for now, as it uses much memory.
    is_paused: bool = False

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"the Dask worker at {self.address}"

    @property
    def may_take_part(self) -> bool:
        """Whether it takes part, or may do so later."""
        return self.state not in (Participation.EXCLUDED, Participation.GONE)

    @property
    def takes_part(self) -> bool:
        """Whether it gets partitions, now or soon."""
        would = self.state in (Participation.PREPARING, Participation.USABLE)
        return would and not (self.is_late or self.needs_restart or self.is_paused)

    def n_to_do(self, now: float, seconds: float | None) -> float:
        """How many partitions it has not processed yet, from the time since its last batch.

        Parameters
        ----------
        now
            By the clock of the feed.
        seconds
            How long a partition takes; None if that is not known.
        """
        left = float(sum(len(batch.indices) for batch in self.batches))
        if not seconds:
            return left
        for batch in self.batches[: self.n_threads]:
            done = (now - max(batch.since, self.since)) / seconds
            # It has not come back, so it is not quite done.
            left -= max(0.0, min(done, len(batch.indices) - 0.5))
        return left

    @property
    def has_to_do(self) -> bool:
        """Whether there is something that it has not done; results may still have to come."""
        return any(batch.future.status == "pending" for batch in self.batches)

    @property
    def is_idle(self) -> bool:
        """Whether it has planned the run, and has nothing to do."""
        is_ready = self.run is not None and self.run.status == "finished"
        return is_ready and self.takes_part and not self.has_to_do

    def set_gone(self) -> None:
        """Wait no more for data that are on their way to it."""
        if not self.gone.done():
            self.gone.set_result(None)

    def done_with(self, batch: Batch, now: float) -> None:
        """A batch came back."""
        self.batches.remove(batch)
        self.since = now
        self.is_late = False

    def is_silent(self, now: float, patience: float) -> bool:
        """Whether it has given nothing for so many seconds, and was not asked why."""
        pending = [batch.since for batch in self.batches if batch.future.status == "pending"]
        return bool(pending) and now > max(self.since, self.asked_at, min(pending)) + patience

    def room(self, n_ahead: int, *, careful: bool) -> int:
        """How many more batches can be sent to it."""
        if self.state is not Participation.USABLE or not self.takes_part:
            return 0
        # Which partition killed a worker is known only if the worker had one at a time.
        most = 1 if careful else self.n_threads * n_ahead
        return most - len(self.batches)


class ClusterTasks(Tasks):
    """Which partitions are to be processed, and what came of the others.

    Parameters
    ----------
    n_partitions
        Of the run.
    first
        All partitions before this one are merged.
    one_by_one
        Whether it has to be known what each worker is busy with.
    **run
        ``handed_out`` and ``partitions``.
    """

    def __init__(
        self, n_partitions: int, first: int = 0, *, one_by_one: bool = False, **run: Any
    ) -> None:
        super().__init__(n_partitions, n_workers=1, first=first, **run)
        if one_by_one:
            self.schedule.set_careful()
        #: How large the results of a batch may be.
        self.batch_bytes = BATCH_BYTES

    def set_n_threads(self, n_threads: int) -> None:
        """So many threads of workers take part now."""
        self.n_workers = max(1, n_threads)

    @property
    def seconds(self) -> float | None:
        """How long partitions take, once that is known."""
        return self.schedule.seconds

    def batch_size(self, has: float = 0, in_hand: float = 0) -> int:
        """How many partitions to send at a time; 0 if others are to have what is left.

        Parameters
        ----------
        has
            How many partitions each thread of this worker has before it.
        in_hand
            How many all workers have.
        """
        seconds = self.seconds
        if self.schedule.is_careful:
            return 1
        share = math.ceil((self.schedule.n_open + in_hand) / self.n_workers - has)
        if seconds is None:
            return max(1, min(N_TRIED, share // 2))
        if share <= 0 and has:
            return 0
        # Something is left for when others are slower than this one.
        most = max(2 * share // 3, min(share, round(LEAST_SECONDS / max(seconds, 1e-6))))
        return max(1, min(most, self._full_batch))

    @property
    def _full_batch(self) -> int:
        """How many partitions to send at a time where there are enough."""
        seconds = self.seconds
        if self.schedule.is_careful or seconds is None:
            return 1
        most = min(MOST_IN_BATCH, self.batch_bytes // self.schedule.largest)
        wanted = min(max(SHORT_BATCH, SECONDS_PER_THREAD * self.n_workers), LONG_BATCH)
        return max(1, min(most, round(wanted / max(seconds, 1e-6))))

    @property
    def budget(self) -> tuple[float, int]:
        """After how many seconds and bytes a worker is to give back what it has not begun."""
        return (TRYING_SECONDS if self.seconds is None else MOST_SECONDS), self.batch_bytes

    @property
    def n_ahead(self) -> int:
        """How many batches each thread should have, the one that it is busy with included."""
        seconds = self.seconds
        return 1 if self.schedule.is_careful or seconds is None or seconds > LONG else 2

    @property
    def at_hand(self) -> int:
        """How many partitions each thread should have."""
        return max(self._full_batch, self.batch_size()) * self.n_ahead


def demand(n_open: int, seconds: float | None, n_threads: int) -> int:
    """How many tasks stand for what is left of a run.

    Parameters
    ----------
    n_open
        How many partitions no worker has.
    seconds
        How long one takes; None if that is not known.
    n_threads
        How many threads of workers take part.
    """
    if n_threads == 0:
        return min(n_open, MOST_WISHES)
    if seconds is None or n_open * seconds < LONG_RUN * n_threads:
        return 0
    return min(n_open, MOST_WISHES, math.ceil(n_open * seconds / UNKNOWN))


async def stop(
    client: Client, number: str, busy: list[str], idle: list[str], own: LocalCluster | None
) -> None:
    """Have workers stop what they do for a run; replace busy ones that do not.

    Parameters
    ----------
    client
        Of the cluster.
    number
        Of the run.
    busy, idle
        The addresses of those that have partitions, and of those that may still process some.
    own
        The cluster that replaces workers; None to have their nannies restart them.
    """
    asked = [*busy, *idle]
    found = await asyncio.gather(
        *(_ask(client, address, dask_work.stop, number, PATIENCE) for address in asked)
    )
    now = dict(zip(asked, found, strict=True))
    busy = [address for address in busy if now[address] is not Busy.NOT_WITH_RUN]
    if not busy:
        return
    with suppress(Exception):
        async with asyncio.timeout(2 * PATIENCE):
            # Not those that do something for others.
            known = await client.processing()
            free = [each for each in busy if now[each] is Busy.STUCK or not known.get(each, True)]
            await asyncio.gather(*(_replace(client, address, own) for address in free))


async def _replace(client: Client, address: str, own: LocalCluster | None) -> None:
    """End a worker at once if another one comes in its place."""
    if own is not None:
        own.replace(address)
        return
    held = await client.has_what([address])
    if not all(_is_of_runs(key) for keys in held.values() for key in keys):
        return  # others would lose what it holds, for good if that is no task's result
    with suppress(ValueError):  # it has no nanny
        await client.restart_workers([address], timeout=PATIENCE, raise_for_error=False)


def _is_of_runs(key: Any) -> bool:
    """Whether that is data of a run, or a result of one of its tasks."""
    return isinstance(key, str) and key.startswith(PREFIX)


async def busy_with(
    client: Client, number: str, address: str, late: Busy | None = None
) -> Busy | None:
    """What a worker does, seen from a run; ``late`` if it takes long to say, None if it cannot."""
    busy: Busy | None = await _ask(client, address, dask_work.busy_with, number, late=late)
    return busy


async def have_begun(client: Client, keys: list[Any], address: str) -> bool:
    """Whether a worker has begun any of these tasks, or may have, as it takes long to say."""
    return bool(await _ask(client, address, dask_work.have_begun, keys, late=True))


async def _ask(
    client: Client, address: str, function: Any, *arguments: Any, late: Any = None
) -> Any:
    with suppress(Exception):  # it is gone, or without framefold
        try:
            async with asyncio.timeout(2 * PATIENCE):
                found = await client.run(function, *arguments, workers=[address])
                return found[address]
        except TimeoutError:
            return late
    return None
