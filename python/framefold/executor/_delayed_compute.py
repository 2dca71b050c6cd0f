"""Computing delayed results, and telling how far that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from framefold._progress import RunProgress
from framefold.executor._delayed_tasks import DelayedRun

if TYPE_CHECKING:
    from framefold.common.progress import ProgressReporter


class Computing:
    """Computes Dask collections of one run in one go, on whichever scheduler is current."""

    def __init__(self, delayed: DelayedRun, progress: ProgressReporter | None) -> None:
        self._delayed = delayed
        self._progress = progress

    def __call__(self, *collections: Any) -> Sequence[Any]:
        """The values of all of them."""
        import dask

        if self._progress is None:
            return tuple(dask.compute(*collections))
        told = RunProgress(self._progress, self._delayed.run.partitions)
        told.start()
        try:
            with _counting(self._delayed, told):
                return tuple(dask.compute(*collections))
        finally:
            told.end()


def _counting(delayed: DelayedRun, told: RunProgress) -> Any:
    """While entered, tells after every task how many partitions are processed.

    Where they are processed in other processes, that is estimated from the number of tasks that
    are done. Schedulers of other machines tell nothing before the end.
    """
    from dask.callbacks import Callback

    total = len(delayed.run.partitions)
    before = delayed.n_processed

    class Counting(Callback):  # type: ignore[misc] # Dask's types are not looked at
        known = 0

        def _posttask(self, key: Any, result: Any, dsk: Any, state: Any, worker: Any) -> None:
            counted = delayed.n_processed - before
            if not counted:
                done = len(state["finished"])
                left = sum(len(state[what]) for what in ("ready", "waiting", "running"))
                counted = total * done // max(1, done + left)
            if counted > self.known:
                self.known = min(total, counted)
                told.merged(self.known, min(len(state["running"]), total - self.known))

        def _finish(self, dsk: Any, state: Any, errored: bool) -> None:
            if not errored and self.known < total:
                told.merged(total, 0)

    return Counting()
