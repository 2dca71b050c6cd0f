"""The partitions of one run, processed by the workers of a Dask cluster and collected in order."""

from __future__ import annotations

import asyncio
import os
import pickle
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from distributed import Client

from framefold import _engine
from framefold.common._ending import at_end
from framefold.exceptions import UDFRunCancelled
from framefold.executor._dask.feed import Feed
from framefold.executor._dask.memory import machine
from framefold.executor._dask.messages import lost_scheduler
from framefold.executor._dask.resources import CANCELLED
from framefold.executor._dask.work import Shipment
from framefold.executor._dask.workers import ClusterTasks
from framefold.executor._tasks import POLL
from framefold.executor._wire import datasets, failures, pickles, runs
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from framefold.executor.dask import DaskJobExecutor
    from framefold.io.dataset.base import DataSet
    from framefold.run.plan import Run

#: Of framefold; workers need the same.
VERSION = _engine.__version__
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
        self.executor = executor
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
            if self.executor._closed:
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

    def _start(self) -> None:
        run = self._run
        self.executor.check_open()
        wait_for_held(run.dataset, self._client, self._check)
        self._known = udfs_of(run)
        self._number = uuid.uuid4().hex[:12]
        shipped = ship(run, self._number)
        self.executor.check_open()
        self._feed = Feed(self.executor, run, shipped, self._tasks)
        active[self._number] = self
        self._call(self._feed.start)

    def _call(self, function: Callable[[], Any]) -> None:
        loop: Any = self._client.loop
        loop.add_callback(function)

    def _check(self) -> None:
        if self._run.plan.cancelled:
            raise UDFRunCancelled("the run was cancelled")
        # Without the client's loop, no other code can notice that the run has ended.
        if self._client.status == "closed" and not self.executor._closed:
            raise lost_scheduler(runs.names(self._run), self._address)


def ship(run: Run, number: str) -> Shipment:
    """A run as it is sent to workers.

    Parameters
    ----------
    number
        Of the run, unlike those of all others.

    Raises
    ------
    InvalidArgumentError
        If something of it cannot be pickled; names it.
    """
    contents = runs.contents(run)
    try:
        dataset, _ = pickles.dumps_by_value(datasets.sent(contents.pop("dataset")), share=False)
        rest, _ = pickles.dumps_by_value(contents, share=False)
    except MemoryError:
        raise
    except Exception as error:
        raise failures.cannot_be_sent(list(run.udfs), run.dataset, error) from error
    where = runs.environment(), runs.checksum(runs.fingerprint(run)), machine()
    return Shipment(number, VERSION, dataset, rest, *where)


def wait_for_held(dataset: DataSet, client: Client, check: Callable[[], None]) -> None:
    """Wait for what the cluster computes for a data set: workers would wait for themselves.

    Raises
    ------
    InvalidArgumentError
        If another cluster does so.
    """
    futures = dataset._held
    if not futures:
        return
    schedulers = {future.client.scheduler.address for future in futures}
    scheduler: Any = client.scheduler
    if schedulers != {scheduler.address}:
        raise failures.held_elsewhere()
    # Dask's own function for that asks the default client, which may be another or none.
    while not all(future.done() for future in futures):
        check()
        time.sleep(POLL)
    for future in futures:
        if future.status != "finished":
            future.result()  # which says why


def udfs_of(run: Run) -> list[UDF | None]:
    """The UDFs of a run as they are now; None for native kernels."""
    return [None if bridge is None else bridge.udf for bridge in run.bridges]


def ship_changes(udfs: list[UDF | None], known: list[UDF | None]) -> bytes | None:
    """Parameters that were changed as they are sent to workers; None if the workers know them.

    Raises
    ------
    InvalidArgumentError
        As :func:`ship`.
    """
    if all(udf is before for udf, before in zip(udfs, known, strict=True)):
        return None
    recipes = [None if udf is None else runs.recipe(udf) for udf in udfs]
    try:
        data, _ = pickles.dumps_by_value(recipes, share=False)
    except Exception as error:
        asked = [udf for udf in udfs if udf is not None]
        raise failures.cannot_be_sent(asked, None, error) from error
    return data


def _stop_all() -> None:
    """Stop what is still under way when the interpreter ends, as it waits for all threads."""
    for crew in list(active.values()):
        crew.stop("the interpreter ends")


at_end(_stop_all)

if hasattr(os, "register_at_fork"):
    # In a fork, they are those of the other process, and their locks may be taken for ever.
    os.register_at_fork(after_in_child=active.clear)
