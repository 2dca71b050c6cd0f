"""The partitions of one run, processed by the workers of a Dask cluster and collected in order."""

from __future__ import annotations

import concurrent.futures
import pickle
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from framefold import _engine
from framefold.exceptions import UDFRunCancelled
from framefold.executor._active import active
from framefold.executor._dask import feed
from framefold.executor._dask.calls import Begin
from framefold.executor._dask.feed import Feed
from framefold.executor._dask.memory import machine
from framefold.executor._dask.messages import lost_scheduler
from framefold.executor._dask.within import Leave
from framefold.executor._dask.work import ShippedRun
from framefold.executor._dask.workers import ClusterTasks
from framefold.executor._tasks import POLL, TaskCrew
from framefold.executor._wire import code, datasets, failures, runs

if TYPE_CHECKING:
    from framefold.executor.dask import DaskJobExecutor
    from framefold.io.dataset.base import DataSet
    from framefold.run.plan import Run

#: How long a run waits for workers to stop when it is ended early, in seconds.
LEAVING = 5.0


class DaskCrew(TaskCrew):
    """The workers of a cluster, for one run.

    Parameters
    ----------
    executor
        Whose workers process it.
    run
        Planned.
    """

    _tasks: ClusterTasks

    def __init__(self, executor: DaskJobExecutor, run: Run) -> None:
        self.executor = executor
        self._client = executor.client
        one_by_one = executor._timeout is not None
        tasks = ClusterTasks(
            run.plan.n_partitions,
            run.first,
            one_by_one=one_by_one,
            handed_out=run.handed_out,
            partitions=run.partitions,
        )
        super().__init__(run, tasks)
        #: Changes of parameters that are on their way.
        self._n_sending = 0
        self._feed: Feed | None = None
        #: From the thread that asks for the run, which may be another than the one that merges.
        self._leave = Leave(self._client)
        scheduler: Any = self._client.scheduler
        self._address = scheduler.address

    def next(self) -> _engine.Partial:
        """The next partial result."""
        if self._feed is None:
            self._start()
        assert self._feed is not None
        index = self._tasks.schedule.n_merged
        try:
            data, large = self._tasks.collect(index, self.check)
        except UDFRunCancelled:
            # The executor was closed: that is the error to raise, not what followed from it.
            if self.executor._closed:
                raise UDFRunCancelled("the executor was closed during the run") from None
            raise
        self.tell_lost()
        return _engine.Partial(index, pickle.loads(data, buffers=large))

    def merged(self, count: int) -> None:
        """All partitions before ``count`` are merged."""
        self._tasks.schedule.merged(count)
        if self._feed is not None:
            self._call(self._feed.merged)

    def close(self, complete: bool) -> None:
        """Remove the run from the workers; if it was ended early, wait until they have stopped."""
        active.discard(self)
        if not complete:
            self._run.plan.cancel()
            self._tasks.stop("the run was cancelled")
        try:
            self._end(complete)
        finally:
            self._leave.end()

    def _end(self, complete: bool) -> None:
        if self._feed is None:
            return
        ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._call(partial(self._feed.end, ended, complete=complete))
        # The garbage collector may run this on any thread.
        client = self._client
        if not complete and client.status == "running" and not client.asynchronous:
            with suppress(TimeoutError):  # it goes on, or the client is closed
                ended.result(LEAVING)

    def _start(self) -> None:
        run = self._run
        self.executor.check_open()
        wait_for_held(run.dataset, self.executor, runs.names(run), self.check)
        with run.handed_out.lock:
            n_changes = self._shipped_with_run()
            shipment = runs.Shipment.of(run, datasets.sent(run.dataset))
        shipped = ShippedRun(uuid.uuid4().hex[:12], machine(), shipment)
        self.executor.check_open()
        self._feed = Feed(self.executor, runs.names(run), shipped, self._tasks)
        run.handed_out.sent(n_changes)
        active.add(self)
        self._call(self._feed.start)

    def _call(self, function: Callable[[], Any]) -> None:
        loop: Any = self._client.loop
        loop.add_callback(function)

    def check(self) -> None:
        """Raise if the run was cancelled, or cannot end by itself; send what was changed."""
        super().check()
        if self._feed is not None and self._run.handed_out.n_pending > self._n_sending:
            self._send_changes(self._feed)
        # Without the client's loop, no other code can notice that the run has ended.
        if self._client.status == "closed" and not self.executor._closed:
            raise lost_scheduler(runs.names(self._run), self._address)

    def _send_changes(self, feed: Feed) -> None:
        with self._run.handed_out.lock:
            if (changes := self._changed_since()) is not None and changes[0] > self._n_sending:
                shipped = runs.ship_changes(self._run, changes[1], code.packed)
                n_changes, self._n_sending = changes[0] - self._n_sending, changes[0]
                self._call(partial(feed.update, shipped, partial(self._sent, n_changes)))

    def _sent(self, n_changes: int) -> None:
        """Changes go along with all that is handed out from now on: on the loop."""
        with self._run.handed_out.lock:
            self._n_sending -= n_changes
            self._run.handed_out.sent(n_changes)


def wait_for_held(
    dataset: DataSet, executor: DaskJobExecutor, names: str, check: Callable[[], None]
) -> None:
    """Wait for what the cluster computes for a data set: workers would wait for themselves.

    Raises
    ------
    InvalidArgumentError
        If another cluster does so.
    WorkerError
        If no worker can begin any of it for ``startup_timeout``.
    """
    futures = dataset._held
    if not futures:
        return
    client = executor.client
    schedulers = {future.client.scheduler.address for future in futures}
    scheduler: Any = client.scheduler
    if schedulers != {scheduler.address}:
        raise failures.held_elsewhere()
    # Dask's own function for that asks the default client, which may be another or none.
    begin = Begin(executor, names, futures)
    looked = time.monotonic()
    while not all(future.done() for future in futures):
        check()
        time.sleep(POLL)
        if time.monotonic() > looked + feed.POLL:
            client.sync(begin.check)
            looked = time.monotonic()
    for future in futures:
        if future.status != "finished":
            future.result()  # which says why
