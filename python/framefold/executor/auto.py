"""Where partitions are processed if nobody says so: the default."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

from framefold.exceptions import FileChangedError, InvalidArgumentError, LimitError
from framefold.executor.base import Partials
from framefold.executor.concurrent import ConcurrentJobExecutor

if TYPE_CHECKING:
    from framefold._planning import Run
    from framefold.executor._outside import Outside
    from framefold.executor._pace import Pace
    from framefold.executor.processes import ProcessJobExecutor

#: Worker processes take over if so many seconds are left; and so many if they are running already.
WORTH = 1.0
WORTH_RUNNING = 0.2
#: How long worker processes take to start, in seconds; the calling thread goes on meanwhile.
STARTING = 0.3
#: How fast an array in memory is copied, in bytes per second, and which share of the work that is
#: left, and of the memory that is left, it may take.
COPYING = 1e9
SHARE = 0.25


class AutoJobExecutor(ConcurrentJobExecutor):
    """Takes threads or worker processes, whichever suits a run; the default.

    Native reductions run on threads. UDFs in Python begin on the calling thread: if the first
    partitions tell that a second of work or more is left (a fifth of it, where workers are
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
        super().__init__(n_threads=n_threads, gpus=gpus)
        self._making = threading.Lock()
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

    def _partials(self, run: Run) -> Partials:
        from framefold.executor._pace import Pace, rest_on_threads

        pace = Pace(run)
        for partial in pace.turn():
            yield partial, 0
        if not pace.n_left:
            self._say(run, "the calling thread did it all")
            return
        if pace.n_left > 1 and pace.seconds_left >= (WORTH_RUNNING if self.worker_ids else WORTH):
            yield from self._on_processes(run, pace)
        else:
            self._say(
                run,
                f"{pace.seconds_left:.2g} s of work were left after partition {pace.next - 1}",
            )
        if pace.n_left:
            yield from rest_on_threads(run, pace)

    def _on_processes(self, run: Run, pace: Pace) -> Partials:
        """Partial results from worker processes, as far as they can be used."""
        from framefold.executor._failures import NotStartedError
        from framefold.executor._outside import Outside

        seconds = pace.seconds_left
        before = Outside(run.udfs)
        reason = _too_large(run, seconds)
        if before.changed is not None:
            reason = f"the functions change {before.changed}, which worker processes could not"
        if reason is not None:
            self._say(run, reason)
            return
        # Meanwhile, the calling thread goes on, at least for one partition.
        start = 0.0 if self.worker_ids else STARTING
        n_meanwhile = min(max(1, int(start / pace.per_partition)), pace.n_left - 1)
        first = pace.next + n_meanwhile
        try:
            outside = Outside(run.udfs, anywhere=True).digests
            remote = self._workers().remote(run, first, outside)
        except (InvalidArgumentError, LimitError, NotStartedError, MemoryError, OSError) as error:
            if self._closed:
                raise
            self._stay(run, error)
            return
        complete = False
        try:
            remote.begin()
            while pace.next < first:
                for own in pace.turn(first):
                    yield own, remote.n_in_progress
                    del own
                    remote.merged(pace.next)
            reason = _second_thoughts(run, pace, before)
            if reason is not None:
                remote.abandon()
                self._say(run, reason)
                return
            self._say(run, f"worker processes from partition {first} on, {seconds:.2g} s of work")
            try:
                for partial, in_progress in remote.partials():
                    pace.next += 1
                    yield partial, in_progress
                    del partial
            except Exception as error:
                usable = isinstance(error, NotStartedError) or remote.not_planned
                if not usable or isinstance(error, FileChangedError):
                    raise
                remote.abandon()
                self._stay(run, error)
                return
            complete = True
        finally:
            remote.end(complete=complete)

    def _workers(self) -> ProcessJobExecutor:
        if self._closed:
            raise InvalidArgumentError("this executor is closed; make another context")
        processes = self._processes
        if processes is None:
            from framefold.executor.processes import ProcessJobExecutor

            # The first one, if runs of several threads need it at once. No others have begun.
            with self._making:
                if self._processes is None:
                    self._processes = ProcessJobExecutor(self.threads)
                processes = self._processes
        if self._closed:
            processes.close()
        return processes

    def _stay(self, run: Run, error: BaseException) -> None:
        """Say that worker processes cannot be used, though they would help."""
        from framefold.executor._failures import OtherwiseError
        from framefold.warnings import ThreadsInsteadWarning

        self._say(run, f"worker processes cannot be used: {error}")
        if isinstance(error, OtherwiseError):
            return  # nothing is wrong
        warnings.warn(
            f"threads go on with this run, which worker processes could do faster: {error}",
            ThreadsInsteadWarning,
            stacklevel=2,
        )

    def _say(self, run: Run, what: str) -> None:
        self._latest = _kinds(run), what


def _second_thoughts(run: Run, pace: Pace, before: Outside) -> str | None:
    """Why worker processes should not go on, now that more is known."""
    from framefold.executor._outside import Outside

    changed = before.difference(Outside(run.udfs))
    if changed is not None:
        return f"the functions changed {changed}, which worker processes could not"
    seconds = pace.fastest * pace.n_left
    if seconds < STARTING:
        return f"after a slow beginning, {seconds:.2g} s of work were left"
    return None


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
