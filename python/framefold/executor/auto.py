"""Where partitions are processed if no executor is named: the default."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from framefold import _engine
from framefold.common import _memory
from framefold.common._telling import tell
from framefold.exceptions import LimitError
from framefold.executor.base import Crew
from framefold.executor.concurrent import ConcurrentJobExecutor
from framefold.executor.processes import ProcessJobExecutor
from framefold.warnings import ThreadsInsteadWarning

if TYPE_CHECKING:
    from framefold.run.plan import Run

#: Worker processes are started when a run has taken so many seconds on the calling thread.
PATIENCE = 0.1
#: They end when there was no run for so many seconds.
IDLE = 120.0
#: A copy of an array in memory may take this share of the memory that is left.
SHARE = 0.25


class AutoJobExecutor(ConcurrentJobExecutor):
    """Native reductions run on threads, functions in Python on worker processes; the default.

    A run of functions or transforms in Python begins on the calling thread. When it has taken
    0.1 s, worker processes start in the background, and take over as soon as they are ready. They
    are kept for later runs, which use them from the beginning, and end when there was no run for
    two minutes.
    Threads are used where CUDA devices take part, where there is one core or one partition, and
    where a copy of an array in memory would take more than a quarter of the memory that is left.
    Where something cannot be sent to worker processes, a warning names it, and the run goes on on
    the calling thread.

    Results are the same bits in each case. What a function changes outside of its results stays in
    the process that it runs in, as in the reference system; use ``make_with("threads")`` or
    ``"inline"`` where that matters.

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
        self._processes = ProcessJobExecutor(self.threads)

    @property
    def n_workers(self) -> int:
        """How many worker processes there are at most."""
        return self._processes.n_workers

    @property
    def worker_ids(self) -> list[int]:
        """The process ids of the workers that there are now."""
        return self._processes.worker_ids

    def close(self) -> None:
        """End worker processes, and runs that use them."""
        super().close()
        self._processes.close()

    def crew(self, run: Run) -> Crew | None:
        """The calling thread and worker processes; None for threads."""
        if self._why_threads(run) is not None:
            return None
        self._processes._check_open()
        self._processes._idle = IDLE
        from framefold.executor._auto_crew import AutoCrew

        patience = 0.0 if self.worker_ids else PATIENCE
        return AutoCrew(self._processes._running_pool, run, patience, self._cannot)

    def explain(self, run: Run) -> str:
        """What is taken, and why."""
        reason = self._why_threads(run)
        if reason is not None:
            return f"executor    auto: threads, as {reason}\n"
        when = "from the beginning" if self.worker_ids else f"after {PATIENCE:g} s"
        return (
            f"executor    auto: begins on the calling thread; {self.n_workers} worker processes "
            f"are asked for {when}, and take over when they are ready\n"
        )

    def _why_threads(self, run: Run) -> str | None:
        """Why threads are taken; None if worker processes are."""
        if not run.is_interpreted:
            native = all(bridge is None for bridge in run.bridges)
            udfs = "all UDFs run on native kernels" if native else "all UDFs are compiled"
            return f"{udfs}, and all transforms are compiled" if run.dataset._transforms else udfs
        if run.devices:
            return "CUDA devices take part"
        if self.n_workers == 1:
            return "there is one core"
        if run.plan.n_partitions == 1:
            return "there is one partition"
        len_bytes = run.dataset._bytes_to_copy
        try:
            _engine.check_memory(min(int(len_bytes / SHARE), _memory.MOST))
        except LimitError:
            return f"a copy of the data, {len_bytes} bytes, would take too much memory"
        return None

    def _cannot(self, error: BaseException) -> None:
        """Say that worker processes cannot be used, though they would help."""
        if self._processes._closed:
            raise error
        tell(
            f"the calling thread goes on with this run, which worker processes could do faster: "
            f"{error}",
            ThreadsInsteadWarning,
        )
