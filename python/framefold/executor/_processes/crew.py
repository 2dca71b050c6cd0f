"""The partitions of one run, handed to a pool of worker processes and collected in order."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framefold import _engine
from framefold.exceptions import (
    FileChangedError,
    InvalidArgumentError,
    LimitError,
)
from framefold.executor._processes.pool import Pool
from framefold.executor._processes.workers import Job
from framefold.executor._tasks import POLL, TaskCrew, Tasks, active
from framefold.executor._wire import code, datasets, pickles, runs
from framefold.executor._wire.failures import NotStartedError, held_elsewhere

if TYPE_CHECKING:
    from framefold.run.plan import Run

#: How long a run waits for workers to stop when it is ended early, in seconds.
LEAVING = 3.0

_numbers = itertools.count(1)


class ProcessCrew(TaskCrew):
    """The crew of a run whose partitions are processed by worker processes.

    Parameters
    ----------
    pool
        Called when the run starts: the pool whose workers process the partitions.
    run
        Planned.
    collects
        Whether results of short partitions may wait for each other on the worker.

    Raises
    ------
    InvalidArgumentError
        If something of the run cannot be pickled; names it.
    LimitError
        If there is no memory for what is to be sent.
    """

    def __init__(self, pool: Callable[[], Pool], run: Run, collects: bool) -> None:
        self._pool = pool
        n_workers = run.n_cpus + len(run.devices)
        super().__init__(run, self._tasks_of(run, n_workers, run.first))
        self._collects = collects
        self._job: Job | None = None

    # As a crew.

    def next(self) -> _engine.Partial:
        """The next partial result."""
        if self._job is None:
            self.start()
        index = self._tasks.schedule.n_merged
        result = self._tasks.collect(index, self.check)
        self.tell_lost()
        return self.partial(index, result)

    def merged(self, count: int) -> None:
        """Take notice that all partitions before ``count`` are merged."""
        if self._tasks.schedule.merged(count) and self._job is not None:
            self._job.pool.wake()

    def close(self, complete: bool) -> None:
        """Forget the run; if it is not complete, wait until no worker is busy with it."""
        if not complete:
            self._run.plan.cancel()
        job = self._job
        if job is None or self not in active:
            return
        try:
            if not complete:
                self._tasks.stop("the run was cancelled")
        finally:
            self._end_job(job)
        # The garbage collector may run this on any thread.
        if not complete and not job.pool.is_own_thread():
            job.gone.wait(LEAVING)

    # For subclasses.

    def start(self) -> None:
        """Have workers process what they can."""
        run = self._run
        if run.dataset._held:
            raise held_elsewhere()
        pool = self._pool()
        with run.handed_out.lock:
            n_changes = self._shipped_with_run()
            pickled = runs.ship(run, datasets.sent(run.dataset), code.shared)
        devices = run.devices
        # Beside what was just copied.
        n_cpus = run.plan.workers_that_fit(min(run.n_cpus, pool.n_workers))
        self._tasks.n_workers = n_cpus + len(devices)
        job = Job(
            number=next(_numbers),
            pool=pool,
            collects=self._collects,
            pickled=pickled,
            environment=runs.environment(),
            tasks=self._tasks,
            fingerprint=runs.fingerprint(run),
            names=runs.names(run),
            n_cpus=n_cpus,
            devices=devices,
        )
        self._job = job
        run.handed_out.sent(n_changes)
        active.add(self)
        pool.submit(job)

    def partial(self, index: int, result: Any) -> _engine.Partial:
        """The partial result, from what was collected."""
        data, memory, places = result
        return _engine.Partial(index, pickles.loads(data, memory, places))

    def stop(self, reason: str) -> None:
        """Stop the run, on the calling thread, too."""
        self._run.plan.cancel()
        self._tasks.stop(reason)

    @staticmethod
    def _tasks_of(run: Run, n_workers: int, first: int = 0) -> Tasks:
        return Tasks(run.plan.n_partitions, n_workers, first, run.handed_out, run.partitions)

    def _end_job(self, job: Job) -> None:
        try:
            job.pool.end(job)
        except BaseException:  # Ctrl-C, perhaps before anything was done
            job.pool.end(job)
            raise
        finally:
            active.discard(self)

    def check(self) -> None:
        """Raise if the run was cancelled; send what was changed meanwhile."""
        super().check()
        if self._job is None or (changes := self._changed_since()) is None:
            return
        n_changes, changed = changes
        shipped = runs.ship_changes(self._run, changed, code.shared)
        # Workers get it before their next partition: none is handed out until it is there.
        self._job.change = self._job.change[0] + 1, shipped
        self._run.handed_out.sent(n_changes)
        self._job.pool.wake()


#: How long the calling thread processes partitions before it merges them, in seconds, and how many
#: bytes of results it keeps.
TURN = 0.02
TURN_BYTES = 32 << 20


class AutoCrew(ProcessCrew):
    """A process crew where the calling thread processes partitions until a worker is ready.

    Parameters
    ----------
    pool, run, collects
        As for :class:`ProcessCrew`.
    patience
        For how many seconds to process here before worker processes are started.
    cannot
        Called with the error if worker processes cannot be used: the run goes on here.
    """

    def __init__(
        self,
        pool: Callable[[], Pool],
        run: Run,
        collects: bool,
        patience: float,
        cannot: Callable[[BaseException], None],
    ) -> None:
        super().__init__(pool, run, collects)
        self._patience = patience
        self._report_unusable = cannot
        self._started_at: float | None = None
        self._alone = False

    def next(self) -> _engine.Partial:
        """The next partial result."""
        if self._started_at is None:
            self._started_at = time.monotonic()
        index = self._tasks.schedule.n_merged
        while True:
            if not self._alone and self._job is None and self._is_time():
                self._start_workers()
            here = self._processes_here()
            found = self._collected(index, 0.0 if here else POLL)
            if found is None and here and not self._take_turn():
                found = self._collected(index, POLL)
            if found is not None:
                return self.partial(index, found)

    def partial(self, index: int, result: Any) -> _engine.Partial:
        """The partial result, wherever it came from."""
        own = isinstance(result, _engine.Partial)
        return result if own else super().partial(index, result)

    def _is_time(self) -> bool:
        assert self._started_at is not None
        left = self._tasks.schedule.n_left > 1
        return left and time.monotonic() - self._started_at >= self._patience

    def _processes_here(self) -> bool:
        """Whether this thread processes partitions, as no worker has planned the run yet."""
        return self._job is None or self._alone or not self._tasks.is_planned

    def _start_workers(self) -> None:
        try:
            self.start()
        except (InvalidArgumentError, LimitError, NotStartedError, MemoryError, OSError) as error:
            self._go_on_alone(error)

    def _collected(self, index: int, timeout: float) -> Any:
        try:
            return self._tasks.collect(index, self.check, timeout)
        except FileChangedError:
            raise
        except Exception as error:
            without_workers = isinstance(error, NotStartedError | pickles.OpenFilesError)
            if self._alone or not (without_workers or self._tasks.not_planned):
                raise
            self._go_on_alone(error)
            return None

    def _go_on_alone(self, error: BaseException) -> None:
        """Process here whatever is left."""
        self._alone = True
        if self._job is not None:
            self._tasks.stop("the run goes on elsewhere")
            self._end_job(self._job)
            self._job = None
        first = self._tasks.schedule.n_merged
        self._tasks = self._tasks_of(self._run, 1, first)
        self._report_unusable(error)

    def _take_turn(self) -> bool:
        """Process some partitions on this thread; whether there were any."""
        schedule = self._tasks.schedule
        taken: int | None = None
        n_done = len_bytes = 0
        latest = start = time.perf_counter()

        def take() -> int | None:
            nonlocal latest, taken
            latest = time.perf_counter()
            over = latest - start > TURN or len_bytes > TURN_BYTES
            taken = None if n_done and over else next(iter(schedule.take(1)), None)
            return taken

        def give(partial: _engine.Partial) -> None:
            nonlocal len_bytes, n_done, taken
            n_done += 1
            len_bytes += partial.len_bytes
            seconds = time.perf_counter() - latest
            schedule.finished(partial.partition, partial, partial.len_bytes, seconds)
            taken = None

        try:
            self._run.plan.work(take, give)
        except Exception as exception:
            if self._run.plan.cancelled:
                raise
            if taken is not None and taken != schedule.n_merged:
                # It fails again when its turn comes. An exception that waits for that would keep
                # the frames that called it, and with them a run that is left meanwhile.
                schedule.put_back(taken)
                return n_done > 0
            # An error between two partitions counts as that of the next one to be merged.
            self._tasks.fail(schedule.n_merged, exception)
            return True
        return n_done > 0
