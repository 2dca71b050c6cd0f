"""The partitions of one run, on their way to Dask workers and back.

The rules are those of :class:`framefold.executor._tasks.Tasks`. A task of Dask costs much more than
a message between processes, so partitions travel in larger batches; and results stay on the
workers for as long as too many wait here to be merged.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import Any

from framefold.executor._tasks import WAITING_BYTES, Tasks

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
#: Where batches take longer than this, in seconds, none waits at the worker for its turn.
LONG = 1.0


class ClusterTasks(Tasks):
    """Which partitions are to be processed, and what came of the others.

    Parameters
    ----------
    n_partitions
        Of the run.
    one_by_one
        Whether it has to be known what each worker is busy with.
    """

    def __init__(self, n_partitions: int, *, one_by_one: bool = False) -> None:
        super().__init__(n_partitions, n_workers=1)
        self._collected = 0
        self._careful = one_by_one
        self._size_known = False
        #: How large the results of a batch may be.
        self.batch_bytes = BATCH_BYTES

    def set_n_threads(self, n_threads: int) -> None:
        """So many threads of workers take part now."""
        with self._lock:
            self._n_workers = max(1, n_threads)

    @property
    def is_careful(self) -> bool:
        """Whether it has to be known what each worker is busy with."""
        return self._careful

    @property
    def seconds(self) -> float | None:
        """How long partitions take, once that is known."""
        return self._seconds

    @property
    def n_open(self) -> int:
        """How many partitions no worker has."""
        return self.n_left + len(self._again)

    @property
    def next_to_merge(self) -> int:
        """The first partition that is not merged."""
        return self._merged

    def batch_size(self, has: float = 0, in_hand: float = 0) -> int:
        """How many partitions to send at a time; 0 if others are to have what is left.

        Parameters
        ----------
        has
            How many partitions each thread of this worker has before it.
        in_hand
            How many all workers have.
        """
        if self._careful:
            return 1
        share = math.ceil((self.n_open + in_hand) / self._n_workers - has)
        if self._seconds is None:
            return max(1, min(N_TRIED, share // 2))
        if share <= 0 and has:
            return 0
        # Something is left for when others are slower than this one.
        most = max(2 * share // 3, min(share, round(LEAST_SECONDS / max(self._seconds, 1e-6))))
        return max(1, min(most, self._full_batch))

    @property
    def _full_batch(self) -> int:
        """How many partitions to send at a time where there are enough."""
        if self._careful or self._seconds is None:
            return 1
        most = min(MOST_IN_BATCH, self.batch_bytes // self._largest)
        wanted = min(max(SHORT_BATCH, SECONDS_PER_THREAD * self._n_workers), LONG_BATCH)
        return max(1, min(most, round(wanted / max(self._seconds, 1e-6))))

    @property
    def budget(self) -> tuple[float, int]:
        """After how many seconds and bytes a worker is to give back what it has not begun."""
        return (TRYING_SECONDS if self._seconds is None else MOST_SECONDS), self.batch_bytes

    @property
    def n_ahead(self) -> int:
        """How many batches each thread should have, the one that it is busy with included."""
        return 1 if self._careful or self._seconds is None or self._seconds > LONG else 2

    @property
    def at_hand(self) -> int:
        """How many partitions each thread should have."""
        return max(self._full_batch, self.batch_size()) * self.n_ahead

    def may_fetch(self, index: int) -> bool:
        """Whether the result of a partition may be brought here."""
        with self._lock:
            if index <= self._merged:
                return True
            # As long as the size of a result is not known, only the next one.
            return self._size_known and (index - self._merged) * self._largest <= WAITING_BYTES

    def give(self, results: Sequence[tuple[int, Any, int, float]]) -> None:
        """Keep results until they are collected; those that came before are left out."""
        with self._lock:
            if not self._wanted:
                return
            fresh = [result for result in results if self.is_open(result[0])]
            self._size_known = self._size_known or bool(fresh)
            super().give(fresh)

    def fail(self, index: int | None, exception: BaseException, *, planning: bool = False) -> None:
        """As that of all tasks; what goes wrong with a partition that another worker did is not."""
        with self._lock:
            if index is None or self.is_open(index):
                super().fail(index, exception, planning=planning)

    def put_back(self, index: int) -> None:
        """Process a partition later, that was handed out and not begun."""
        with self._lock:
            if index < self._limit:
                heapq.heappush(self._again, index)

    def is_open(self, index: int) -> bool:
        """Whether nothing has come of a partition yet."""
        with self._lock:
            done = index < self._collected or index in self._finished or index in self._failed
            return not done

    def collect(self, index: int, check: Callable[[], None]) -> tuple[Any, int]:
        """The result of partition ``index``, and how many are handed out besides."""
        result = super().collect(index, check)
        self._collected = index + 1
        return result

    def _window(self) -> int:
        at_hand = self._n_workers * self.at_hand
        return self._n_workers + at_hand + min(WAITING_BYTES // self._largest, at_hand)
