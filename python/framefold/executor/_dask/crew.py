"""The partitions of one run, processed by the workers of a Dask cluster and collected in order."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from framefold import _engine
from framefold.common._ending import at_end
from framefold.exceptions import UDFRunCancelled
from framefold.executor._dask.batches import ClusterTasks
from framefold.executor._dask.canceller import CANCELLED
from framefold.executor._dask.feed import Feed
from framefold.executor._dask.messages import lost_scheduler
from framefold.executor._dask.shipping import ship, ship_changes, udfs_of, wait_for_held
from framefold.executor._wire import runs

if TYPE_CHECKING:
    from framefold.executor.dask import DaskJobExecutor
    from framefold.run.plan import Run

#: How long a run waits for workers to stop when it is ended early, in seconds.
LEAVING = 5.0

#: The runs that Dask workers are busy with.
active: dict[str, DaskCrew] = {}


class DaskCrew:
    """The workers of a cluster, for one run.

    Parameters
    ----------
    executor
        Whose workers process it.
    run
        Planned.
    """

    def __init__(self, executor: DaskJobExecutor, run: Run) -> None:
        self._executor = executor
        self._client = executor.client
        self._run = run
        one_by_one = executor._timeout is not None
        self._tasks = ClusterTasks(run.plan.n_partitions, one_by_one=one_by_one)
        self._feed: Feed | None = None
        self._number = ""
        self._known: list[Any] = []
        scheduler: Any = self._client.scheduler
        self._address = scheduler.address

    def next(self) -> _engine.Partial:
        """The next partial result."""
        if self._feed is None:
            self._start()
        assert self._feed is not None
        before, self._known = self._known, udfs_of(self._run)
        if (changes := ship_changes(self._known, before)) is not None:
            self._call(partial(self._feed.update, changes))
        index = self._tasks.schedule.n_merged
        try:
            data, large = self._tasks.collect(index, self._check)
        except UDFRunCancelled:
            # The executor was closed: that is the error to raise, not what followed from it.
            if self._executor._closed:
                raise UDFRunCancelled("the executor was closed during the run") from None
            raise
        return _engine.Partial(index, pickle.loads(data, buffers=large))

    def merged(self, count: int) -> None:
        """All partitions before ``count`` are merged."""
        self._tasks.schedule.merged(count)
        if self._feed is not None:
            self._call(self._feed.merged)

    @property
    def in_progress(self) -> int:
        """How many partitions are under way, or wait to be merged."""
        return self._tasks.schedule.n_in_progress

    def close(self, complete: bool) -> None:
        """Remove the run from the workers; if it was ended early, wait until they have stopped."""
        active.pop(self._number, None)
        if not complete:
            self._run.plan.cancel()
            self._tasks.stop("the run was cancelled")
        if self._feed is None:
            return
        loop: Any = self._client.loop
        ending = self._feed.end(complete=complete)
        try:
            ended = asyncio.run_coroutine_threadsafe(ending, loop.asyncio_loop)
        except RuntimeError:  # the client is closed, and its loop with it
            ending.close()
            return
        # The garbage collector may run this on any thread.
        if not complete and not self._client.asynchronous:
            with suppress(TimeoutError, *CANCELLED):  # it goes on, or the client is closed
                ended.result(LEAVING)

    def stop(self, reason: str) -> None:
        """Stop the run, from any thread: the thread that merges ends it, and says why."""
        self._tasks.fail(None, UDFRunCancelled(reason))

    @property
    def executor(self) -> DaskJobExecutor:
        """Whose workers process the run."""
        return self._executor

    def _start(self) -> None:
        executor, run = self._executor, self._run
        executor._on_loop()  # or it says why not
        wait_for_held(run.dataset, self._client, self._check)
        self._known = udfs_of(run)
        shipment = ship(run)
        call = executor._on_loop()
        limits = executor._timeout, executor._startup_timeout
        own, buffers = executor._own, executor._lend()
        self._feed = Feed(self._client, shipment, self._tasks, *limits, own, buffers)
        self._number = shipment.number
        active[self._number] = self
        call(self._feed.start)

    def _call(self, function: Callable[[], Any]) -> None:
        loop: Any = self._client.loop
        loop.add_callback(function)

    def _check(self) -> None:
        if self._run.plan.cancelled:
            raise UDFRunCancelled("the run was cancelled")
        # Without the client's loop, no other code can notice that the run has ended.
        if self._client.status == "closed" and not self._executor._closed:
            raise lost_scheduler(runs.names(self._run), self._address)


def _stop_all() -> None:
    """Stop what is still under way when the interpreter ends, as it waits for all threads."""
    for crew in list(active.values()):
        crew.stop("the interpreter ends")


at_end(_stop_all)

if hasattr(os, "register_at_fork"):
    # In a fork, they are those of the other process, and their locks may be taken for ever.
    os.register_at_fork(after_in_child=active.clear)
