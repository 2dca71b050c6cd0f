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
    #: When that was, by the clock of the feed.
    since: float
    #: Memory for its results.
    buffer: SharedBuffer | None = None
    #: Whether it was sent to another worker as well, because it takes long.
    is_copied: bool = False


@dataclass(eq=False)
class WorkerState:
    """A worker, from when it is asked to take part until it is gone, or everything begins anew.

    Attributes
    ----------
    address, n_threads
        Of the worker.
    reason
        Why it is excluded, or what it told about the data set.
    run, answer
        Futures of the run on that worker, and of what it says about it; the same one for both if
        a single task does.
    """

    address: str
    n_threads: int
    #: Whether it may be on the client's machine, and leaves large results in shared memory.
    may_share: bool
    state: Participation = Participation.IDLE
    reason: str = ""
    run: Any = None
    answer: Any = None
    batches: list[Batch] = field(default_factory=list)
    #: When the last one that it was done with came back.
    since: float = 0.0
    #: Whether another worker was faster with what this one has had for long.
    is_late: bool = False
    #: Whether it is known if it can take part.
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    #: Whether it is known that it does.
    shares: bool = False
    #: Whether somebody has cancelled what it had, or that is lost: everything is to begin anew.
    needs_restart: bool = False
    #: How often a connection broke while it prepared the run.
    n_broken: int = 0

    @property
    def takes_part(self) -> bool:
        """Whether it gets partitions, now or soon."""
        would = self.state in (Participation.PREPARING, Participation.USABLE)
        return would and not (self.is_late or self.needs_restart)

    @property
    def n_partitions(self) -> int:
        """How many it has."""
        return sum(len(batch.indices) for batch in self.batches)

    def n_to_do(self, now: float, seconds: float | None) -> float:
        """How many it has not processed yet, as far as the time since its last batch tells.

        Parameters
        ----------
        now
            By the clock of the feed.
        seconds
            That a partition takes; None if that is not known.
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
        """All that there is of the run because of this worker."""
        of_batches = [
            resource for batch in self.batches for resource in (batch.future, batch.buffer)
        ]
        return [*of_batches, self.answer, self.run]

    def room(self, n_ahead: int, *, careful: bool) -> int:
        """How many batches more it can have."""
        if self.state is not Participation.USABLE or not self.takes_part:
            return 0
        # What kills a worker is only known if it has one partition at a time.
        most = 1 if careful else self.n_threads * n_ahead
        return most - len(self.batches)
