"""Where partitions are processed if nobody says so: the default."""

from __future__ import annotations

import time
import warnings
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

from framefold.exceptions import InvalidArgumentError, LimitError
from framefold.executor.base import Partials
from framefold.executor.concurrent import ConcurrentJobExecutor

if TYPE_CHECKING:
    from framefold import _engine
    from framefold._planning import Run
    from framefold.executor.processes import ProcessJobExecutor

#: So many seconds are processed on the calling thread, before anything is decided; at least one
#: partition.
TRIAL = 0.02
#: Worker processes take over if so many seconds are left; and so many if they are running already.
WORTH = 2.0
WORTH_RUNNING = 0.5
#: How long worker processes take to start, in seconds; the calling thread goes on meanwhile.
STARTING = 0.3
#: If less is left than this, in seconds, threads are not worth their start.
SHORT = 0.05
#: Threads are kept if they are faster than the calling thread alone by this factor.
GAIN = 1.15
#: How fast an array in memory is copied, in bytes per second, and which share of the work that is
#: left, and of the memory that is left, it may take.
COPYING = 1e9
SHARE = 0.25

Steps = Generator[tuple["_engine.Partial", int], None, None]


class AutoJobExecutor(ConcurrentJobExecutor):
    """Takes threads or worker processes, whichever suits a run; the default.

    Native reductions run on threads. UDFs in Python begin on the calling thread: if the first
    partitions tell that two seconds of work or more are left (half a second, where workers are
    running already), worker processes do the rest; otherwise threads do, or the calling thread
    where threads are no faster. What uses CUDA devices, changes objects outside of its results,
    cannot be pickled, or would need a copy of a large array in memory, stays in this process.

    Results are the same bits in each case. Nothing is started before a run needs it; workers are
    kept until :meth:`close`.

    Parameters
    ----------
    n_threads
        How many threads, or worker processes, there are at most; as many as this process may use
        cores if None.
    gpus
        As for :class:`~framefold.executor.concurrent.ConcurrentJobExecutor`.
    """

    def __init__(
        self, n_threads: int | None = None, *, gpus: int | Iterable[int] | None = None
    ) -> None:
        super().__init__(n_threads, gpus=gpus)
        self._processes: ProcessJobExecutor | None = None
        self._closed = False
        #: The UDFs of the latest run that had a choice, and what became of it.
        self._latest: tuple[tuple[type, ...], str] = ((), "")

    @property
    def n_workers(self) -> int:
        """How many worker processes there are at most."""
        from framefold._planning import available_cores

        return available_cores() if self.threads is None else self.threads

    @property
    def worker_ids(self) -> list[int]:
        """The process ids of the workers that there are now."""
        return [] if self._processes is None else self._processes.worker_ids

    def close(self) -> None:
        """End worker processes, and runs that use them."""
        self._closed = True
        if self._processes is not None:
            self._processes.close()

    def has_own_loop(self, run: Run) -> bool:
        """Whether there is a choice."""
        return self._no_choice(run) is None

    def partials(self, run: Run) -> Partials | None:
        """Partial results from wherever the run goes; None if there is no choice."""
        return self._partials(run) if self._no_choice(run) is None else None

    def explain(self, run: Run) -> str:
        """What is taken, or will be, and why."""
        reason = self._no_choice(run)
        if reason is not None:
            return f"executor    auto: threads, as {reason}\n"
        lines = (
            f"executor    auto: begins on the calling thread; up to {self.n_workers} worker "
            f"processes take over where more than {WORTH:g} s are left, else threads\n"
        )
        kinds, latest = self._latest
        if kinds == _kinds(run):
            lines += f"            the latest run of these UDFs: {latest}\n"
        return lines

    def _no_choice(self, run: Run) -> str | None:
        """Why threads are taken without trying; None if that is open."""
        if all(bridge is None for bridge in run.bridges):
            return "all UDFs run on native kernels"
        if run.devices:
            return "CUDA devices take part"
        if self.n_workers == 1:
            return "there is one core"
        if run.plan.n_partitions == 1:
            return "there is one partition"
        return None

    def _partials(self, run: Run) -> Steps:
        plan = run.plan
        pace = Pace()
        index = 0
        while index < plan.n_partitions:
            yield pace.measured(run, index), 0
            index += 1
            if pace.total >= TRIAL:
                break
        n_left = plan.n_partitions - index
        if not n_left:
            self._say(run, "the calling thread did it all")
            return
        seconds = pace.per_partition * n_left
        if seconds >= (WORTH_RUNNING if self.worker_ids else WORTH):
            index = yield from self._on_processes(run, index, pace)
        else:
            self._say(run, f"{seconds:.2g} s of work were left after partition {index - 1}")
        if index < plan.n_partitions:
            yield from _on_threads(run, index, pace.per_partition)

    def _on_processes(self, run: Run, index: int, pace: Pace) -> Generator[Any, None, int]:
        """Partial results from worker processes; returns the first that they leave to others."""
        from framefold.executor._failures import NotStartedError
        from framefold.executor._outside import Outside

        begun = index
        seconds = pace.per_partition * (run.plan.n_partitions - index)
        reason = _too_large(run, seconds)
        if reason is not None:
            self._say(run, reason)
            return index
        # Meanwhile, the calling thread goes on, at least for one partition.
        start = 0.0 if self.worker_ids else STARTING
        ahead = min(max(1, int(start / pace.per_partition)), run.plan.n_partitions - index - 1)
        before = Outside(run.udfs)
        reason = before.changed
        if reason is not None:
            self._say(run, f"the functions change {reason}, which worker processes could not")
            return index
        try:
            remote = self._workers().remote(run, index + ahead)
        except (InvalidArgumentError, LimitError, NotStartedError, MemoryError, OSError) as error:
            if self._closed:
                raise
            self._stay(run, error)
            return index
        complete = False
        try:
            remote.begin()
            while index < begun + ahead:
                yield pace.measured(run, index), remote.n_in_progress
                index += 1
                remote.merged(index)
            reason = self._second_thoughts(run, index, pace, before)
            if reason is not None:
                remote.abandon()
                self._say(run, reason)
                return index
            self._say(
                run, f"worker processes from partition {index} on, as {seconds:.2g} s were left"
            )
            try:
                for partial, in_progress in remote.partials():
                    yield partial, in_progress
                    del partial
                    index += 1
            except NotStartedError as error:
                remote.abandon()
                self._stay(run, error)
                return index
            complete = True
        finally:
            remote.end(complete=complete)
        return index

    def _second_thoughts(self, run: Run, index: int, pace: Pace, before: Any) -> str | None:
        """Why worker processes should not go on, now that more is known."""
        from framefold.executor._outside import Outside

        changed = before.difference(Outside(run.udfs))
        if changed is not None:
            return f"the functions changed {changed}, which worker processes could not"
        seconds = pace.fastest * (run.plan.n_partitions - index)
        if seconds < STARTING:
            return f"after a slow beginning, {seconds:.2g} s of work were left"
        return None

    def _workers(self) -> ProcessJobExecutor:
        if self._closed:
            raise InvalidArgumentError("this executor is closed; make another context")
        if self._processes is None:
            from framefold.executor.processes import ProcessJobExecutor

            self._processes = ProcessJobExecutor(self.threads)
        return self._processes

    def _stay(self, run: Run, error: BaseException) -> None:
        """Say that worker processes cannot be used, though they would help."""
        from framefold.warnings import ThreadsInsteadWarning

        self._say(run, f"worker processes cannot be used: {error}")
        warnings.warn(
            f"threads go on with this run, which worker processes could do faster: {error}",
            ThreadsInsteadWarning,
            stacklevel=2,
        )

    def _say(self, run: Run, what: str) -> None:
        self._latest = _kinds(run), what


class Pace:
    """How long partitions take on the calling thread."""

    def __init__(self) -> None:
        #: Seconds so far.
        self.total = 0.0
        #: Seconds of the fastest partition.
        self.fastest = float("inf")
        self._n_partitions = 0

    def measured(self, run: Run, index: int) -> _engine.Partial:
        """Process a partition."""
        begin = time.perf_counter()
        partial = run.plan.run_partition(index)
        seconds = time.perf_counter() - begin
        self.total += seconds
        self.fastest = min(self.fastest, seconds)
        self._n_partitions += 1
        return partial

    @property
    def per_partition(self) -> float:
        """Seconds for one of them."""
        return max(self.total, 1e-9) / self._n_partitions


def _on_threads(run: Run, first: int, seconds: float) -> Steps:
    """Partial results from ``first`` on: from threads, if a few partitions show that they help."""
    from framefold._running import inline_partials, thread_partials

    end = run.plan.n_partitions
    n_threads = run.n_workers
    if seconds * (end - first) < SHORT:
        yield from inline_partials(run.plan, range(first, end))
        return
    tried = min(end - first, max(2 * n_threads, int(SHORT / seconds)))
    begin = time.perf_counter()
    elsewhere = 0.0
    for partial in thread_partials(run.plan, range(first, first + tried), [None] * n_threads):
        since = time.perf_counter()
        yield partial
        elsewhere += time.perf_counter() - since
    taken = time.perf_counter() - begin - elsewhere
    rest = range(first + tried, end)
    if taken * GAIN < seconds * tried:
        yield from thread_partials(run.plan, rest, [None] * n_threads)
    else:
        yield from inline_partials(run.plan, rest)


def _too_large(run: Run, seconds: float) -> str | None:
    """Why the data set should not be copied for worker processes."""
    from framefold.executor._shared import available_memory

    len_bytes = run.dataset._bytes_to_copy
    if len_bytes > SHARE * available_memory():
        return f"a copy of the data, {len_bytes} bytes, would take too much memory"
    if len_bytes / COPYING > SHARE * seconds:
        return f"a copy of the data, {len_bytes} bytes, would take too long"
    return None


def _kinds(run: Run) -> tuple[type, ...]:
    return tuple(type(udf) for udf in run.udfs)
