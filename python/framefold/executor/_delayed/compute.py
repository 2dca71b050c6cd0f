"""Computing delayed results, with progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from framefold._ending import is_ending
from framefold.executor._delayed.progress import counting
from framefold.executor._delayed.tasks import DelayedRun
from framefold.run.progress import RunProgress

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
        import dask.local

        if is_ending() and dask.base.get_scheduler() is not dask.local.get_sync:
            with dask.config.set(scheduler="synchronous"):
                return self(*collections)
        if self._progress is None:
            return tuple(dask.compute(*collections))
        run_progress = RunProgress(self._progress, self._delayed.run.partitions)
        run_progress.start()
        try:
            with counting(self._delayed, run_progress, collections) as options:
                return tuple(dask.compute(*collections, **options))
        finally:
            run_progress.end()
