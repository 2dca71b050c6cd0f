"""Partitions in worker processes."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from framefold.exceptions import InvalidArgumentError, UDFRunCancelled, WorkerError
from framefold.executor.base import JobExecutor, Partials

if TYPE_CHECKING:
    from framefold._planning import Run
    from framefold.executor._pool import Pool
    from framefold.executor._tasks import Tasks

#: How long a run waits for workers to stop when it is ended early, in seconds.
LEAVING = 3.0

_numbers = itertools.count(1)


class ProcessJobExecutor(JobExecutor):
    """Processes partitions in worker processes, so that Python code runs on all cores.

    Workers are started with the first run that needs them, are kept until :meth:`close`, and end
    with this process, however it ends. They open files themselves, and get each run once. A script
    needs no ``if __name__ == "__main__"``: workers do not run it. Classes and functions of a script
    or notebook are sent to them; those of modules are imported there.

    If all UDFs of a run are native kernels, threads of this process are used: they need no lock,
    and nothing has to be sent.

    Parameters
    ----------
    n_workers
        How many processes; as many as this one may use cores if None.
    timeout
        How many seconds a partition may take. A worker that takes longer is ended, and the run
        fails with :class:`~framefold.exceptions.WorkerTimeoutError`. Any time if None.
    startup_timeout
        How many seconds a worker process may take to start.
    """

    def __init__(
        self,
        n_workers: int | None = None,
        *,
        timeout: float | None = None,
        startup_timeout: float = 60.0,
    ) -> None:
        if n_workers is not None and n_workers < 1:
            raise InvalidArgumentError(f"n_workers is {n_workers}; use 1 or more")
        for name, seconds in (("timeout", timeout), ("startup_timeout", startup_timeout)):
            if seconds is not None and not seconds > 0:
                raise InvalidArgumentError(f"{name} is {seconds}; use a number of seconds above 0")
        self.threads = n_workers
        self._timeout = timeout
        self._startup_timeout = startup_timeout
        self._begin()
        _executors.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._closed = False

    @classmethod
    def make_local(cls, n_workers: int | None = None, **options: Any) -> ProcessJobExecutor:
        """The same as calling the class."""
        return cls(n_workers, **options)

    @property
    def n_workers(self) -> int:
        """How many processes there are at most."""
        from framefold._planning import available_cores

        return available_cores() if self.threads is None else self.threads

    @property
    def worker_ids(self) -> list[int]:
        """The process ids of the workers that there are now."""
        pool = self._pool
        return [] if pool is None or pool.is_closed else pool.process_ids

    def close(self) -> None:
        """End all runs and worker processes; returns when they are gone."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def explain(self, run: Run) -> str:
        """Where the partitions of a run are processed, and why."""
        if not _needs_python(run):
            return "executor    threads: all UDFs run on native kernels, which need no processes\n"
        return f"executor    up to {self.n_workers} worker processes\n"

    def has_own_loop(self, run: Run) -> bool:
        """Whether any UDF of the run is written in Python."""
        return _needs_python(run)

    def partials(self, run: Run) -> Partials | None:
        """Partial results from worker processes; None if threads do it."""
        return self._partials(run) if _needs_python(run) else None

    def _partials(self, run: Run) -> Generator[tuple[Any, int], None, None]:
        from framefold import _engine
        from framefold.executor import _job, _shared
        from framefold.executor._tasks import Tasks
        from framefold.executor._workers import Job

        pool = self._running_pool()
        tasks = Tasks(run.plan.n_partitions, pool.n_workers)
        udfs = [None if bridge is None else bridge.udf for bridge in run.bridges]
        fingerprint = _job.fingerprint(run)
        parcel = _job.ship(run)
        number = next(_numbers)
        # With a timeout, it has to be known what a worker is busy with.
        collects = self._timeout is None
        names = _job.names(run)
        job = Job(number, collects, parcel, _job.environment(), tasks, fingerprint, names)

        def check() -> None:
            if run.plan.cancelled:
                raise UDFRunCancelled("the run was cancelled")

        active = run.plan, tasks
        _active[number] = active
        complete = False
        try:
            pool.begin(job)
            for index in range(tasks.n_partitions):
                udfs = _send_changes(pool, job, run, udfs)
                (data, memory, places), in_progress = tasks.collect(index, check)
                parts = _shared.loads(data, memory, places)
                partial = _engine.Partial(index, parts)
                del parts, memory
                yield partial, in_progress
                del partial
                if tasks.merged(index + 1):
                    pool.wake()
            complete = True
        finally:
            _active.pop(number, None)
            if not complete:
                run.plan.cancel()
                tasks.stop("the run was cancelled")
            gone = pool.end(job)
            # The garbage collector may run this on any thread.
            if not complete and not pool.is_own_thread():
                gone.wait(LEAVING)

    def _running_pool(self) -> Pool:
        from framefold.executor._pool import Pool

        if not sys.executable:
            raise WorkerError(
                "worker processes cannot be started: sys.executable does not name the interpreter; "
                "use the executor 'threads'"
            )
        with self._lock:
            if self._closed:
                raise InvalidArgumentError("this executor is closed; make another context")
            if self._pool is None or self._pool.is_closed:
                self._pool = Pool(self.n_workers, self._timeout, self._startup_timeout)
                weakref.finalize(self, _close_in, os.getpid(), self._pool)
            return self._pool

    def _forget(self) -> None:
        """In a fork, workers are those of the other process: begin anew."""
        pool = self._pool
        self._begin()
        if pool is not None:
            pool.disown()


def _needs_python(run: Run) -> bool:
    return any(bridge is not None for bridge in run.bridges)


def _send_changes(pool: Pool, job: Any, run: Run, known: list[Any]) -> list[Any]:
    """Send parameters that were changed to the workers; returns the UDFs that they know now."""
    udfs = [None if bridge is None else bridge.udf for bridge in run.bridges]
    changed = [
        (None if udf is None or udf is before else udf)
        for udf, before in zip(udfs, known, strict=True)
    ]
    if any(udf is not None for udf in changed):
        from framefold.executor import _job

        pool.update(job, _job.ship_changes(changed, udfs))
    return udfs


def _close_in(process: int, pool: Pool) -> None:
    if os.getpid() == process:
        pool.close()


_executors: weakref.WeakSet[ProcessJobExecutor] = weakref.WeakSet()

#: The runs that worker processes are busy with.
_active: dict[int, tuple[Any, Tasks]] = {}


def _cancel_all() -> None:
    """Stop what is still under way when the interpreter ends, as it waits for all threads."""
    for plan, tasks in list(_active.values()):
        plan.cancel()
        tasks.stop("the interpreter ends")


def _forget_all() -> None:
    _active.clear()
    for executor in list(_executors):
        executor._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)

# The public `atexit` comes too late: its functions are called after threads were waited for.
getattr(threading, "_register_atexit", lambda _function: None)(_cancel_all)
