"""Partitions in worker processes."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from framefold.common._numbers import number
from framefold.common.cores import available_cores
from framefold.exceptions import InvalidArgumentError, UDFRunCancelled, UnsupportedError
from framefold.executor.base import Crew, JobExecutor, cannot_be_pickled, check_seconds

if TYPE_CHECKING:
    from framefold.arrays.cuda.placement import Workers
    from framefold.executor._processes.pool import Pool
    from framefold.run.plan import Run

T = TypeVar("T")

#: Held while a pool is made, and while this process is forked.
_making = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_making.acquire,
        after_in_parent=_making.release,
        after_in_child=_making.release,
    )


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
        How many processes; as many as this one may use cores if None. With devices, those that
        work on the CPU; 0 to run what can run on devices on devices alone.
    gpus
        The CUDA devices for UDFs that take arrays of CUDA, each with a separate process: how
        many, or the numbers of devices; a number that is named twice gets two processes. All
        there are if None. They are started with the first run that uses devices.
    timeout
        How many seconds a partition may take. A worker that takes longer is ended, and the run
        fails with :class:`~framefold.exceptions.WorkerTimeoutError`. Any time if None.
    startup_timeout
        How many seconds a worker process may take to start; if there is a ``timeout``, also to get
        ready for a run.
    """

    def __init__(
        self,
        n_workers: int | None = None,
        *,
        gpus: int | Iterable[int] | None = None,
        timeout: float | None = None,
        startup_timeout: float = 60.0,
    ) -> None:
        self._set_workers("n_workers", n_workers, gpus)
        check_seconds(timeout=timeout, startup_timeout=startup_timeout)
        self._timeout = timeout
        self._startup_timeout = number("startup_timeout", startup_timeout, most=inf, unit="seconds")
        #: What workers call before their first run, pickled.
        self._setup: bytes | None = None
        #: After how many seconds without a run workers end.
        self._idle: float | None = None
        self._pool: Pool | None = None
        self._closed = False

    @classmethod
    def make_local(cls, n_workers: int | None = None, **options: Any) -> ProcessJobExecutor:
        """The same as calling the class."""
        return cls(n_workers, **options)

    @property
    def n_workers(self) -> int:
        """How many processes work on the CPU at most."""
        return available_cores() if self.threads is None else self.threads

    @property
    def worker_ids(self) -> list[int]:
        """The process ids of the workers that there are now."""
        return [] if self._pool is None else self._pool.process_ids

    def run_each_worker(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> dict[str, T]:
        """Not available: workers come and go with runs.

        Raises
        ------
        UnsupportedError
            Always.
        """
        raise UnsupportedError(
            "worker processes come and go with runs, so no function can be called in each of them; "
            "use PipelinedExecutor(early_setup=function), which calls it in each before its first "
            "run, or get_task_data of a UDF"
        )

    def find_workers(self, wishes: Sequence[tuple[str, ...]]) -> Workers:
        """Who takes part in a run of UDFs that take these formats, some of them of CUDA."""
        from framefold.arrays.cuda.placement import find_workers

        # Workers use devices; what this process has lost, another one may be able to use.
        lost = {} if self._pool is None else dict(self._pool.lost)
        return find_workers(wishes, self.gpus, self.gpus_only, lost, self.cpus_asked_for)

    def close(self) -> None:
        """End all runs and worker processes; returns when they are gone."""
        super().close()
        self._closed = True
        with _making:
            pool = self._pool
        if pool is not None:
            pool.close()

    def explain(self, run: Run) -> str:
        """Where the partitions of a run are processed, and why."""
        if run.is_on_kernels:
            return "executor    threads: all UDFs run on native kernels, which need no processes\n"
        n_cpus = min(run.n_cpus, self.n_workers)
        if not run.devices:
            return f"executor    up to {n_cpus} worker processes\n"
        devices = ", ".join(map(str, run.devices))
        cpus = f"up to {n_cpus} worker processes on the CPU, and " if n_cpus else ""
        return f"executor    {cpus}one for each of the CUDA devices {devices}\n"

    def crew(self, run: Run) -> Crew | None:
        """The worker processes; None if threads do it."""
        if run.is_on_kernels:
            return None
        self._check_open()
        from framefold.executor._processes.crew import ProcessCrew

        # With a timeout, it has to be known what a worker is busy with.
        return ProcessCrew(self._running_pool, run, self._timeout is None)

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidArgumentError("this executor is closed; make another context")

    def _running_pool(self) -> Pool:
        from framefold.executor._processes.pool import Pool
        from framefold.executor._wire.failures import NotStartedError

        if not sys.executable:
            raise NotStartedError(
                "worker processes cannot be started: sys.executable does not name the interpreter; "
                "use the executor 'threads'"
            )
        with _making:
            if self._closed:  # since the run was planned
                raise UDFRunCancelled("the executor was closed during the run")
            if self._pool is None or self._pool.is_closed:
                limits = self._timeout, self._startup_timeout, self._idle
                self._pool = Pool(self.n_workers, *limits, self._setup)
                weakref.finalize(self, self._pool.close)
            return self._pool

    def __reduce__(self) -> Any:
        raise cannot_be_pickled(self)
