"""The partitions of one run, on their way to worker processes and back.

Like the engine's own drivers: partitions are handed out in order, and none further than a window
ahead of the merge. So the next one to be merged is always finished or being processed, and no more
than a window of partial results is kept.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from typing import Any

from framefold.exceptions import UDFRunCancelled

#: Partial results that wait for their turn take no more memory than this, if they are more than
#: one for each worker.
WAITING_BYTES = 256 << 20
#: How often a partition is tried on workers that die.
ATTEMPTS = 3
#: Where partitions take longer than this, in seconds, a worker gets one at a time.
SHORT = 0.05
#: Shorter ones are sent several at a time: work for so many seconds, but no more than so many.
AT_HAND = 0.1
MOST_AT_HAND = 32
#: Memory for large partial results costs more than messages: few are made ahead.
LARGE = 64 << 10
#: How long the merging thread waits before it looks for signals and for cancellation, in seconds.
POLL = 0.05


class Tasks:
    """Which partitions are to be processed, and what came of the others.

    One thread collects, in order; another hands out and gives. Either may stop it.

    Parameters
    ----------
    n_partitions, n_workers
        Of the run and the pool.
    first
        The first partition; those before it are processed elsewhere.
    """

    def __init__(self, n_partitions: int, n_workers: int, first: int = 0) -> None:
        self.n_partitions = n_partitions
        self._n_workers = n_workers
        # Of C, unlike a condition: Ctrl-C cannot come when it is half taken.
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._next = first
        self._merged = first
        self._limit = n_partitions
        self._largest = 1
        self._finished: dict[int, Any] = {}
        self._failed: dict[int, BaseException] = {}
        self._failure: BaseException | None = None
        #: Whether anything is to be collected yet.
        self._wanted = True
        #: Whether the failure is one of planning.
        self.not_planned = False
        self._again: list[int] = []
        self._attempts: dict[int, int] = {}
        self._seconds: float | None = None
        #: Whether a worker died: from then on it is always known what each one is busy with.
        self._careful = False
        #: Whether nothing was handed out because of what is not merged.
        self._waits = False

    def take(self) -> int | None:
        """The next partition to process; None if there is none for now."""
        return next(iter(self.take_some(1)), None)

    def take_some(self, n: int) -> list[int]:
        """The next ``n`` partitions to process, or fewer if there are fewer for now."""
        with self._lock:
            if not self._wanted or self._failure is not None:
                return []
            taken = [heapq.heappop(self._again) for _ in range(min(n, len(self._again)))]
            wanted = min(self._next + n - len(taken), self._limit)
            if wanted > self._next:
                stop = max(self._next, min(wanted, self._merged + self._window()))
                self._waits = stop < wanted
                taken.extend(range(self._next, stop))
                self._next = stop
            return taken

    @property
    def n_left(self) -> int:
        """How many partitions were never handed out."""
        return self.n_partitions - self._next

    @property
    def at_hand(self) -> int:
        """How many partitions a worker should have, the one that it is busy with included."""
        if self._careful or self._seconds is None or self._seconds > SHORT:
            return 1
        most = MOST_AT_HAND if self._largest < LARGE else 2
        return min(most, max(2, round(AT_HAND / max(self._seconds, 1e-6))))

    def give(self, results: Sequence[tuple[int, Any, int, float]]) -> None:
        """Keep results of partitions until they are collected.

        Parameters
        ----------
        results
            Partition, result, its size in bytes, and how many seconds it took.
        """
        with self._lock:
            for index, result, len_bytes, seconds in results:
                self._largest = max(self._largest, len_bytes)
                known = seconds if self._seconds is None else self._seconds
                self._seconds = 0.7 * known + 0.3 * seconds
                if self._wanted:
                    self._finished[index] = result
            self._news.notify_all()

    def fail(self, index: int | None, exception: BaseException, *, planning: bool = False) -> None:
        """Keep what went wrong with a partition, or with all of them.

        Earlier partitions go on, so that the first failure in partition order is reported.
        """
        with self._lock:
            if not self._wanted:
                return
            if index is None:
                if self._failure is None:
                    self._failure = exception
                    self.not_planned = planning
            elif index not in self._failed:
                self._failed[index] = exception
                self._limit = min(self._limit, index + 1)
                self._again = [i for i in self._again if i < self._limit]
                heapq.heapify(self._again)
            self._news.notify_all()

    def lost(self, index: int, *, begun: bool) -> int:
        """Process a partition again, whose worker died; returns on how many it certainly was.

        After :data:`ATTEMPTS`, it is not repeated.
        """
        with self._lock:
            self._careful = True
            attempts = self._attempts[index] = self._attempts.get(index, 0) + begun
            if attempts < ATTEMPTS and index < self._limit:
                heapq.heappush(self._again, index)
            return attempts

    def collect(self, index: int, check: Callable[[], None]) -> tuple[Any, int]:
        """The result of partition ``index``, and how many are handed out besides.

        Parameters
        ----------
        check
            Called now and then; ends the wait by raising.

        Raises
        ------
        BaseException
            What was passed to :meth:`fail`.
        """
        with self._lock:
            while True:
                check()
                if index in self._finished:
                    return self._finished.pop(index), self._next - index - 1
                failure = self._failed.get(index) if self._failure is None else self._failure
                if failure is not None:
                    break
                if not self._wanted:
                    raise UDFRunCancelled("the run has failed")
                self._news.wait(POLL)
            self._end()
        try:
            raise failure
        finally:
            del failure  # or it would refer to itself: all of the run would wait for the collector

    def merged(self, count: int) -> bool:
        """So many partitions are merged; returns whether there is more to hand out now."""
        with self._lock:
            self._merged = count
            waited, self._waits = self._waits, False
            return waited

    def stop(self, reason: str) -> None:
        """Hand out nothing more, and keep nothing that comes."""
        with self._lock:
            self.fail(None, UDFRunCancelled(reason))
            self._wanted = False
            self._finished.clear()

    def _end(self) -> None:
        """Let go of everything, as a failure is raised."""
        self._wanted = False
        self._failure = None
        self._finished.clear()
        self._failed.clear()

    def _window(self) -> int:
        waiting = max(1, WAITING_BYTES // self._largest)
        return self._n_workers + min(waiting, self._n_workers * self.at_hand)
