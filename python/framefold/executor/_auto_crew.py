"""A run that begins on the calling thread, and goes on in worker processes.

Nothing of them is imported before they are wanted: that takes longer than many a first run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framefold import _engine
from framefold.exceptions import FileChangedError, InvalidArgumentError, LimitError
from framefold.executor._tasks import POLL, TaskCrew, tasks_of

if TYPE_CHECKING:
    from framefold.executor._processes.crew import ProcessCrew
    from framefold.executor._processes.pool import Pool
    from framefold.run.plan import Run


#: How long the calling thread processes partitions before it merges them, in seconds, and how many
#: bytes of results it keeps.
TURN = 0.02
TURN_BYTES = 32 << 20


class AutoCrew(TaskCrew):
    """The calling thread, until a worker process is ready, and worker processes from then on.

    Parameters
    ----------
    pool
        Called when workers are wanted: the pool whose workers process the partitions.
    run
        Planned.
    patience
        For how many seconds to process here before worker processes are started.
    cannot
        Called with the error if worker processes cannot be used: the run goes on here.
    """

    def __init__(
        self,
        pool: Callable[[], Pool],
        run: Run,
        patience: float,
        cannot: Callable[[BaseException], None],
    ) -> None:
        super().__init__(run, tasks_of(run, run.n_cpus, run.first))
        self._pool = pool
        self._patience = patience
        self._report_unusable = cannot
        self._started_at: float | None = None
        #: Those that were asked for.
        self._workers: ProcessCrew | None = None
        self._alone = False

    # As a crew.

    def next(self) -> _engine.Partial:
        """The next partial result."""
        if self._started_at is None:
            self._started_at = time.monotonic()
        index = self._tasks.schedule.n_merged
        while True:
            if not self._alone and self._workers is None and self._is_time():
                self._start_workers()
            here = self._processes_here()
            found = self._collected(index, 0.0 if here else POLL)
            if found is None and here and not self._take_turn():
                found = self._collected(index, POLL)
            if found is not None:
                if isinstance(found, _engine.Partial):
                    return found
                assert self._workers is not None
                return self._workers.partial(index, found)

    def merged(self, count: int) -> None:
        """Take notice that all partitions before ``count`` are merged."""
        if self._workers is not None:
            self._workers.merged(count)
        else:
            self._tasks.schedule.merged(count)

    def close(self, complete: bool) -> None:
        """Forget the run; if it is not complete, wait until no worker is busy with it."""
        if self._workers is not None:
            self._workers.close(complete)
        elif not complete:
            self._run.plan.cancel()

    # Workers.

    def check(self) -> None:
        """Raise if the run was cancelled; send workers what was changed meanwhile."""
        if self._workers is not None:
            self._workers.check()
        else:
            super().check()

    def _is_time(self) -> bool:
        assert self._started_at is not None
        left = self._tasks.schedule.n_left > 1
        return left and time.monotonic() - self._started_at >= self._patience

    def _processes_here(self) -> bool:
        """Whether this thread processes partitions, as no worker has planned the run yet."""
        return self._workers is None or not self._tasks.is_planned

    def _start_workers(self) -> None:
        from framefold.executor._processes.crew import ProcessCrew
        from framefold.executor._wire.failures import NotStartedError

        self._workers = ProcessCrew(self._pool, self._run, True, self._tasks)
        try:
            self._workers.start()
        except (InvalidArgumentError, LimitError, NotStartedError, MemoryError, OSError) as error:
            self._go_on_alone(error)

    def _collected(self, index: int, timeout: float) -> Any:
        try:
            return self._tasks.collect(index, self.check, timeout)
        except FileChangedError:
            raise
        except Exception as error:
            if not self._is_of_workers(error):
                raise
            self._go_on_alone(error)
            return None

    def _is_of_workers(self, error: Exception) -> bool:
        """Whether the run may go on without them."""
        if self._workers is None:
            return False
        from framefold.executor._wire.failures import NotStartedError
        from framefold.executor._wire.pickles import OpenFilesError

        return isinstance(error, NotStartedError | OpenFilesError) or self._tasks.not_planned

    def _go_on_alone(self, error: BaseException) -> None:
        """Process here whatever is left."""
        self._alone = True
        if self._workers is not None:
            self._workers.leave()
            self._workers = None
        self._tasks = tasks_of(self._run, 1, self._tasks.schedule.n_merged)
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
