"""Partitions on the calling thread, and how long they take."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from framefold._running import thread_partials

if TYPE_CHECKING:
    from framefold import _engine
    from framefold._planning import Run

#: Partitions are processed for so many seconds at a time, or until their results take so many
#: bytes: beginning anew for each would cost more than many a short one.
TURN = 0.02
TURN_BYTES = 32 << 20
#: If less is left than this, in seconds, threads are not worth their start.
SHORT = 0.05
#: Threads are kept if they are faster than the calling thread alone by this factor.
GAIN = 1.15

Steps = Generator[tuple["_engine.Partial", int], None, None]


class Pace:
    """How long the partitions of a run take on the calling thread, which it has process them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        #: The next partition.
        self.next = 0
        #: Seconds of the fastest one.
        self.fastest = float("inf")
        self._total = 0.0
        self._n_partitions = 0

    @property
    def per_partition(self) -> float:
        """Seconds for one of them."""
        return max(self._total, 1e-9) / max(1, self._n_partitions)

    @property
    def n_left(self) -> int:
        """How many partitions are left."""
        return self._run.plan.n_partitions - self.next

    @property
    def seconds_left(self) -> float:
        """How long the calling thread would need for them."""
        return self.per_partition * self.n_left

    def turn(self, stop: int | None = None) -> Iterator[_engine.Partial]:
        """Partial results of the next partitions: of at least one, if there is one before ``stop``.

        What goes wrong is raised after the results of those before.
        """
        plan = self._run.plan
        end = plan.n_partitions if stop is None else stop
        done: list[_engine.Partial] = []
        len_bytes = 0
        latest = begin = time.perf_counter()

        def take() -> int | None:
            nonlocal latest
            latest = time.perf_counter()
            index = self.next + len(done)
            if done and (latest - begin > TURN or len_bytes > TURN_BYTES):
                return None
            return index if index < end else None

        def give(partial: _engine.Partial) -> None:
            nonlocal len_bytes
            seconds = time.perf_counter() - latest
            self._total += seconds
            self._n_partitions += 1
            self.fastest = min(self.fastest, seconds)
            len_bytes += partial.len_bytes
            done.append(partial)

        failure: Exception | None = None
        try:
            plan.work(take, give)
        except Exception as exception:
            if plan.cancelled:
                raise
            failure = exception
        done.reverse()
        while done:
            self.next += 1
            yield done.pop()
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # or it would refer to itself: all of the run would wait for the collector


def rest_on_threads(run: Run, pace: Pace) -> Steps:
    """All that is left: on threads, if a few partitions show that they help."""
    end = run.plan.n_partitions
    n_threads = run.n_workers
    n_tried = min(pace.n_left, max(2 * n_threads, int(SHORT / pace.per_partition)))
    if pace.seconds_left > SHORT:
        seconds = pace.per_partition
        tried = range(pace.next, pace.next + n_tried)
        begin = time.perf_counter()
        elsewhere = 0.0
        for partial in thread_partials(run.plan, tried, [None] * n_threads):
            since = time.perf_counter()
            yield partial
            elsewhere += time.perf_counter() - since
        taken = time.perf_counter() - begin - elsewhere
        pace.next = tried.stop
        if taken * GAIN < seconds * n_tried:
            yield from thread_partials(run.plan, range(pace.next, end), [None] * n_threads)
            return
    while pace.n_left:
        for result in pace.turn():
            yield result, 0
