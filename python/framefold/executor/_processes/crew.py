"""The partitions of one run, handed to a pool of worker processes and collected in order."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framefold import _engine
from framefold.executor._active import active
from framefold.executor._processes.pool import Pool
from framefold.executor._processes.workers import Job
from framefold.executor._tasks import TaskCrew, Tasks, tasks_of
from framefold.executor._wire import code, datasets, pickles, runs
from framefold.executor._wire.failures import held_elsewhere

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
    tasks
        Of the run, if another crew has begun with them.

    Raises
    ------
    InvalidArgumentError
        If something of the run cannot be pickled; names it.
    LimitError
        If there is no memory for what is to be sent.
    """

    def __init__(
        self, pool: Callable[[], Pool], run: Run, collects: bool, tasks: Tasks | None = None
    ) -> None:
        self._pool = pool
        n_workers = run.n_cpus + len(run.devices)
        super().__init__(run, tasks or tasks_of(run, n_workers, run.first))
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

    # For a crew that begins without workers.

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

    def leave(self) -> None:
        """Have workers forget the run, which goes on elsewhere."""
        if self._job is not None:
            self._tasks.stop("the run goes on elsewhere")
            self._end_job(self._job)
            self._job = None

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
