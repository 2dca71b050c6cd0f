"""The engine's schedule of one run, between the thread that merges and the one that hands out.

The rules are those of ``exec::Schedule``, for all executors. This module decides how many
partitions are sent at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from framefold import _engine
from framefold.exceptions import UDFRunCancelled
from framefold.udf.engine.changes import HandedOut

if TYPE_CHECKING:
    from framefold.run.plan import Run
    from framefold.udf.engine.changes import Version, Versions

#: How often a partition is tried on workers that die.
ATTEMPTS = _engine.Schedule.ATTEMPTS
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

    One thread collects results, in order; another hands out partitions and adds their results.
    Either may stop the run.

    Parameters
    ----------
    n_partitions, n_workers
        Of the run and the pool.
    first
        All partitions before this one are merged.
    handed_out
        Of the run: how far partitions are handed out.
    partitions
        The frames of each.
    """

    def __init__(
        self,
        n_partitions: int,
        n_workers: int,
        first: int = 0,
        handed_out: HandedOut | None = None,
        partitions: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.n_partitions = n_partitions
        self.schedule = _engine.Schedule(n_partitions, n_workers, first)
        self.n_workers = n_workers
        self.handed_out = HandedOut() if handed_out is None else handed_out
        self._partitions = partitions
        # Of C, unlike a condition: Ctrl-C cannot come when it is half taken.
        self._news = threading.Condition(threading.RLock())
        self._reason = "the run has failed"
        #: Whether the failure is one of planning.
        self.not_planned = False
        #: Whether a worker has planned the run.
        self.is_planned = False
        #: CUDA devices that workers cannot use, and why: the run goes on without them.
        self.lost: dict[int, str] = {}

    def take(self, n: int, worker: int | None = None) -> list[int]:
        """The next ``n`` partitions for a worker to process, or fewer if there are fewer for now.

        None as long as there are changes of parameters that workers have not been sent.

        Parameters
        ----------
        n
            How many.
        worker
            Its number, by which the schedule knows whether it has a device.
        """
        self.schedule.set_workers(self.n_workers, self.at_hand)
        with self.handed_out.lock:
            if self.handed_out.n_pending:
                return []
            taken = self.schedule.take(n, worker)
            for index in taken if self._partitions else ():
                self.handed_out.mark(self._partitions[index][1])
            return taken

    @property
    def at_hand(self) -> int:
        """How many partitions a worker should have, the one that it is busy with included."""
        seconds = self.schedule.seconds
        if self.schedule.is_careful or seconds is None or seconds > SHORT:
            return 1
        most = MOST_AT_HAND if self.schedule.largest < LARGE else 2
        return min(most, max(2, round(AT_HAND / max(seconds, 1e-6))))

    def give(self, results: Sequence[tuple[int, Any, int, float]]) -> None:
        """Keep results of partitions until they are collected.

        Parameters
        ----------
        results
            Partition, result, its size in bytes, and how many seconds it took.
        """
        for result in results:
            self.schedule.finished(*result)
        self.notify()

    def fail(self, index: int | None, exception: BaseException, *, planning: bool = False) -> None:
        """Keep what went wrong with a partition, or with all of them."""
        if self.schedule.failed(index, exception) and index is None:
            self.not_planned = planning
        self.notify()

    def collect(self, index: int, check: Callable[[], None], timeout: float | None = None) -> Any:
        """The result of partition ``index``, the next one to be merged.

        Parameters
        ----------
        check
            Called now and then; ends the wait by raising.
        timeout
            After how many seconds to return None; waits for as long as it takes if None.

        Raises
        ------
        BaseException
            What was passed to :meth:`fail`.
        """
        with self._news:
            while True:
                check()
                if (found := self.schedule.next()) is not None:
                    assert found[0] == index
                    return found[1]
                if self.schedule.is_closed:
                    raise UDFRunCancelled(self._reason)
                there_is_news = self._news.wait(POLL if timeout is None else timeout)
                if timeout is not None and not there_is_news:
                    return None

    def notify(self) -> None:
        """Wake the merging thread."""
        with self._news:
            self._news.notify_all()

    def stop(self, reason: str) -> None:
        """Hand out no more partitions, and drop results that come."""
        if not self.schedule.is_closed:
            self._reason = reason
        self.schedule.close()
        self.notify()


def tasks_of(run: Run, n_workers: int, first: int = 0) -> Tasks:
    """Those of a run whose partitions before ``first`` are merged."""
    return Tasks(run.plan.n_partitions, n_workers, first, run.handed_out, run.partitions)


class TaskCrew:
    """What crews have in common whose workers are other processes.

    Parameters
    ----------
    run
        Planned.
    tasks
        Of the run.
    """

    def __init__(self, run: Run, tasks: Tasks) -> None:
        self._run = run
        self._tasks = tasks
        #: What copies of each UDF were made of when the run was sent.
        self._first: list[Versions | None] = []

    @property
    def in_progress(self) -> int:
        """How many partitions are under way, or wait to be merged."""
        return self._tasks.schedule.n_in_progress

    def check(self) -> None:
        """Raise if the run was cancelled."""
        if self._run.plan.cancelled:
            raise UDFRunCancelled("the run was cancelled")

    def tell_lost(self) -> None:
        """Warn of CUDA devices that workers cannot use, where the run goes on without them."""
        if self._tasks.lost:
            from framefold.arrays.cuda.errors import tell_lost

            tell_lost(self._tasks.lost.copy())

    def stop(self, reason: str) -> None:
        """Stop the run, from any thread: the thread that merges ends it, and says why."""
        self._tasks.fail(None, UDFRunCancelled(reason))

    def _shipped_with_run(self) -> int:
        """Take notice that a run is sent as it is now; gives how many changes are among that."""
        self._first = [None if bridge is None else bridge.versions for bridge in self._run.bridges]
        return self._run.handed_out.n_pending

    def _changed_since(self) -> tuple[int, list[list[Version] | None]] | None:
        """How many changes of parameters are to be sent, and what of each UDF; None if none is.

        What no frame that is not merged was processed with is left out.
        """
        handed_out, n_merged = self._run.handed_out, self._tasks.schedule.n_merged
        if not handed_out.n_pending:
            return None
        with handed_out.lock:
            merged = self._run.partitions[n_merged - 1][1] if n_merged else 0
            changed: list[list[Version] | None] = []
            for bridge, first in zip(self._run.bridges, self._first, strict=True):
                if bridge is None or first is None or bridge.versions == first:
                    changed.append(None)
                    continue
                latest = bridge.versions.at(merged).first
                known = {id(version.udf) for version in first}
                changed.append(
                    [v for v in bridge.versions if v.first >= latest and id(v.udf) not in known]
                )
            return handed_out.n_pending, changed
