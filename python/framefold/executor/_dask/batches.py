"""The partitions of one run, on their way to Dask workers and back.

A task of Dask costs much more than a message between processes, so partitions travel in larger
batches; and results stay on the workers for as long as too many wait here to be merged.
"""

from __future__ import annotations

import math

from framefold.executor._tasks import Tasks

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
