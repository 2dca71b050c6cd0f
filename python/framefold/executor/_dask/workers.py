"""One Dask worker as a run sees it: what it has, and whether it can take part."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from framefold.executor._dask.buffers import SharedBuffer


class Participation(Enum):
    """Whether a worker takes part in a run."""

    IDLE = "it was not asked"
    PREPARING = "it opens the data set and plans the run"
    USABLE = "it takes part"
    EXCLUDED = "it cannot take part"
    GONE = "it left the cluster"


@dataclass(eq=False)
class Batch:
    """Partitions that are sent together."""

    indices: list[int]
    future: Any
    #: When they were sent, by the clock of the feed.
    since: float
    #: Memory for its results.
    buffer: SharedBuffer | None = None
    #: Whether it was sent to another worker as well, because it takes long.
    is_copied: bool = False


@dataclass(eq=False)
class WorkerState:
    """A worker, from when it is asked to take part until it leaves or is asked once more.

    Attributes
    ----------
    address, n_threads
        Of the worker.
    reason
        Why it is excluded.
    run, answer
        Futures of the run on that worker, and of the answer to the request to plan it; the same
        future if one task does both.
    """

    address: str
    n_threads: int
    #: Whether it may be on the client's machine, and so may get buffers in shared memory.
    may_share: bool
    state: Participation = Participation.IDLE
    reason: str = ""
    run: Any = None
    answer: Any = None
    batches: list[Batch] = field(default_factory=list)
    #: When the latest finished batch came back, by the clock of the feed.
    since: float = 0.0
    #: Whether a batch of this worker took so long that it was sent to another one as well.
    is_late: bool = False
    #: Set once the worker has planned the run or refused it.
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    #: Whether the worker has opened a shared buffer, and leaves large results there.
    shares: bool = False
    #: Whether its futures were cancelled or lost: it has to be asked to take part once more.
    needs_restart: bool = False
    #: How often a connection broke while the worker prepared the run.
    n_broken: int = 0

    @property
    def takes_part(self) -> bool:
        """Whether it gets partitions, now or soon."""
        would = self.state in (Participation.PREPARING, Participation.USABLE)
        return would and not (self.is_late or self.needs_restart)

    @property
    def n_partitions(self) -> int:
        """How many partitions it has been sent and not answered."""
        return sum(len(batch.indices) for batch in self.batches)

    def n_to_do(self, now: float, seconds: float | None) -> float:
        """How many of them are not processed yet, estimated from the time since its last batch.

        Parameters
        ----------
        now
            By the clock of the feed.
        seconds
            How long a partition takes; None if that is not known.
        """
        left = float(self.n_partitions)
        if not seconds:
            return left
        for batch in self.batches[: self.n_threads]:
            done = (now - max(batch.since, self.since)) / seconds
            # It has not come back, so it is not quite done.
            left -= max(0.0, min(done, len(batch.indices) - 0.5))
        return left

    def done_with(self, batch: Batch, now: float) -> None:
        """A batch came back."""
        self.batches.remove(batch)
        self.since = now
        self.is_late = False

    @property
    def resources(self) -> list[Any]:
        """The futures and buffers that the run has because of this worker."""
        of_batches = [
            resource for batch in self.batches for resource in (batch.future, batch.buffer)
        ]
        return [*of_batches, self.answer, self.run]

    def room(self, n_ahead: int, *, careful: bool) -> int:
        """How many more batches can be sent to it."""
        if self.state is not Participation.USABLE or not self.takes_part:
            return 0
        # Which partition killed a worker is known only if the worker had one at a time.
        most = 1 if careful else self.n_threads * n_ahead
        return most - len(self.batches)
