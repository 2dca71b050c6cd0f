"""The computation of a delayed run, and its progress, on any scheduler of Dask."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from framefold.common._ending import is_ending
from framefold.common._foreign import callbacks_of
from framefold.run.progress import RunProgress

if TYPE_CHECKING:
    from framefold.common.progress import ProgressReporter
    from framefold.executor._delayed.tasks import DelayedRun

#: What workers of ``distributed`` send events about. It is one for all runs, since a scheduler
#: keeps some events of each for good.
TOPIC = "framefold-progress"

_lock = threading.Lock()
#: The listeners of each client, each for one run.
_listeners: weakref.WeakKeyDictionary[Any, list[Listener]] = weakref.WeakKeyDictionary()


def computing(
    delayed: DelayedRun, progress: ProgressReporter | None, *collections: Any
) -> Sequence[Any]:
    """The values of collections of one run, computed in one go on the current scheduler."""
    import dask
    import dask.local

    if is_ending() and dask.base.get_scheduler() is not dask.local.get_sync:
        with dask.config.set(scheduler="synchronous"):
            return computing(delayed, progress, *collections)
    if progress is None:
        return tuple(dask.compute(*collections))
    run_progress = RunProgress(progress, delayed.run.partitions)
    run_progress.start()
    try:
        with _counting(delayed, run_progress, collections) as options:
            return tuple(dask.compute(*collections, **options))
    finally:
        run_progress.end()


def tell_clients(key: str, index: int) -> None:
    """Send an event to all clients: a partition of the run ``key`` is processed."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return
    try:
        worker = distributed.get_worker()
    except (AttributeError, ValueError):  # it is being imported; this thread is none of a worker's
        return
    worker.log_event(TOPIC, (key, index))


def _counting(
    delayed: DelayedRun, run_progress: RunProgress, collections: tuple[Any, ...]
) -> AbstractContextManager[dict[str, Any]]:
    """While entered, reports how many partitions are processed on the current scheduler.

    Gives the options with which the collections are to be computed.
    """
    from dask.base import get_scheduler

    scheduler = get_scheduler(collections=collections)
    client = getattr(scheduler, "__self__", None)
    if hasattr(client, "subscribe_topic"):
        return _hearing(client, delayed, run_progress)
    return _calling_back(delayed, run_progress, takes_callbacks=_is_of_dask(scheduler))


def _is_of_dask(scheduler: Any) -> bool:
    """Whether it is a function of Dask, and not a wrapper in user code."""
    import dask.local
    import dask.multiprocessing
    import dask.threaded

    while isinstance(scheduler, partial):
        scheduler = scheduler.func
    local = (dask.local.get_sync, dask.local.get_async)
    return scheduler in (*local, dask.threaded.get, dask.multiprocessing.get)


class Listener:
    """Counts the partitions of a run from the events that workers send."""

    def __init__(self, delayed: DelayedRun, run_progress: RunProgress, n_threads: int) -> None:
        self._key = delayed.key
        self._total = len(delayed.run.partitions)
        self._run_progress = run_progress
        self._n_threads = n_threads
        self._done: set[int] = set()
        #: What a reporter raised, in the thread that hears events.
        self.failure: BaseException | None = None

    def hear(self, key: str, index: int) -> None:
        """Count a partition, if it is of this run. It may be processed, and counted, twice."""
        if key != self._key or index in self._done or self.failure is not None:
            return
        self._done.add(index)
        n_done = len(self._done)
        try:
            self._run_progress.merged(n_done, min(self._n_threads, self._total - n_done))
        except BaseException as error:
            self.failure = error

    def all_done(self) -> None:
        """Report that all partitions are processed, if some events are missing."""
        if self.failure is not None:
            raise self.failure
        if len(self._done) < self._total:
            self._run_progress.merged(self._total, 0)


@contextmanager
def _hearing(
    client: Any, delayed: DelayedRun, run_progress: RunProgress
) -> Iterator[dict[str, Any]]:
    listener = Listener(delayed, run_progress, sum(client.nthreads().values()))
    with _lock:
        listeners = _listeners.setdefault(client, [])
        if not listeners:
            client.subscribe_topic(TOPIC, partial(_hear, listeners))
        listeners.append(listener)
    try:
        yield {}
    finally:
        with _lock:
            listeners.remove(listener)
            if not listeners and client.status == "running":
                client.unsubscribe_topic(TOPIC)
    listener.all_done()


def _hear(listeners: list[Listener], event: tuple[float, tuple[str, int]]) -> None:
    for listener in tuple(listeners):
        listener.hear(*event[1])


@contextmanager
def _calling_back(
    delayed: DelayedRun, run_progress: RunProgress, *, takes_callbacks: bool
) -> Iterator[dict[str, Any]]:
    """On Dask's schedulers of this machine, which call back after every task.

    Where partitions are processed in other processes, their number is estimated from that of the
    tasks that are done.
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
                run_progress.merged(self.known, min(len(state["running"]), total - self.known))

        def _finish(self, dsk: Any, state: Any, errored: bool) -> None:
            if not errored and self.known < total:
                run_progress.merged(total, 0)

    counting = Counting()
    if takes_callbacks and not Callback.active:
        # Those that are active for all are taken by whichever thread computes next.
        yield {"callbacks": callbacks_of(counting)}
    else:
        with counting:
            yield {}
