"""Runs step by step: results after each merge, on the thread of whoever asks for them.

The loops here are those of the engine's own drivers, written over the same verbs: partitions
are processed one by one or on several threads, and merged in partition order. They give the
same results, bit for bit.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from framefold import _engine
from framefold._ending import at_end, is_ending
from framefold._partial_results import StepResults, UDFResultDict, UDFResults
from framefold._planning import Run
from framefold._progress import RunProgress

if TYPE_CHECKING:
    from framefold._live import RunPlots

#: How long the merging thread waits before it looks for signals, in seconds.
POLL = 0.05

#: Partial results that wait for their turn are at most one for each thread, and take no more
#: memory than this if they are more than one.
WAITING_BYTES = 256 << 20


class ResultGenerator(Iterator[UDFResults]):
    """Yields :class:`UDFResults` after each merge; made by ``Context.run_udf_iter``.

    The run goes on while the next results are waited for. With threads, some partitions are
    processed ahead. Results are computed when ``buffers`` is first looked at; if that has not
    happened when the next results are asked for, they are computed then, for as long as
    anybody still holds the object. So results always are those of their step, whenever they
    are looked at.

    Ends with the run, with :meth:`close`, or when it is garbage collected; the run stops within
    one frame or tile. May be used in a ``with`` statement, and closed from any thread.
    """

    def __init__(self, run: Run, progress: RunProgress, plots: RunPlots | None = None) -> None:
        self._run = run
        try:
            self._results = run.plan.results()
        except BaseException:
            run.end(complete=False)
            raise
        self._steps = _steps(run, self._results, progress)
        self._plots = plots
        self._lock = threading.RLock()
        self._stepping = False
        self._closing = False
        self._latest: weakref.ref[StepResults] | None = None
        if plots is not None:
            plots.begin(self.results_so_far())

    def __next__(self) -> UDFResults:
        with self._lock:
            self.advance()
            results = self.results_so_far()
            self.update_plots(results)
            return results

    def advance(self) -> None:
        """Merge the next partition; at the end, raise StopIteration."""
        with self._lock:
            latest = None if self._latest is None else self._latest()
            if latest is not None:
                latest.settle()
            self._stepping = True
            try:
                next(self._steps)
            except RuntimeError as error:
                if _is_of_generator(error):
                    for note in getattr(error.__cause__, "__notes__", ()):
                        error.add_note(note)
                raise
            finally:
                self._stepping = False
                if self._closing:
                    self._steps.close()

    def run_to_end(self) -> tuple[UDFResultDict, ...]:
        """Run to the end and return the complete results; only plots look at them on the way."""
        results = None
        while self._plots is not None and not self.is_complete:
            results = None  # or they would be computed before the run goes on
            self.advance()
            results = self.results_so_far()
            self.update_plots(results)
        try:
            while self._plots is None:
                self.advance()
        except StopIteration:
            pass  # the end
        except RuntimeError as error:
            if _is_of_generator(error) and error.__cause__ is not None:
                raise error.__cause__ from error.__cause__.__cause__
            raise
        return (results or self.results_so_far()).buffers

    @property
    def is_complete(self) -> bool:
        """Whether all partitions are merged."""
        return self._results.n_merged == len(self._run.partitions)

    def results_so_far(self) -> UDFResults:
        """The results up to the latest merge."""
        with self._lock:
            results = StepResults(self._run, self._results, self._lock)
            self._latest = weakref.ref(results)
            return results

    def update_plots(self, results: UDFResults) -> None:
        """Show the latest results in the plots that are due; ends the run if that fails."""
        if self._plots is None:
            return
        try:
            self._plots.update(results, last=self.is_complete)
        except BaseException:
            self._steps.close()
            raise

    def cancel(self) -> None:
        """Ask the run to stop, from any thread; returns at once.

        Partitions that are being processed end with
        :class:`~framefold.exceptions.UDFRunCancelled`.
        """
        self._run.plan.cancel()

    def close(self) -> None:
        """Stop the run; returns when all its threads have ended.

        A thread that is waiting for results gets
        :class:`~framefold.exceptions.UDFRunCancelled`.
        """
        self.cancel()
        with self._lock:
            if self._stepping:  # called by user code from within a step, which then is the last
                self._closing = True
            else:
                self._steps.close()
                self._run.end(complete=False)  # if it never began

    def throw(self, exc: BaseException) -> UDFResults:
        """Stop the run, and raise ``exc``."""
        self.cancel()
        with self._lock:
            self._steps.throw(exc)
        raise exc

    def update_parameters_experimental(self, parameters: Sequence[Mapping[str, Any]]) -> None:
        """Change parameters of the UDFs while they run.

        Parameters
        ----------
        parameters
            For each UDF a dict of the parameters to change; empty for none.

        Notes
        -----
        Partitions that are processed already, or being processed, keep the old ones. UDFs that
        run on native kernels cannot be changed. Experimental: may change without notice.
        """
        self._run.update_parameters(parameters)

    def __enter__(self) -> ResultGenerator:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _is_of_generator(error: RuntimeError) -> bool:
    """Whether user code raised StopIteration: Python lets none out of a generator."""
    return isinstance(error.__cause__, StopIteration) and error.args == (
        "generator raised StopIteration",
    )


def _steps(
    run: Run, results: _engine.Results, progress: RunProgress
) -> Generator[None, None, None]:
    """Process and merge; yields after each merge.

    A function and not a method: a generator that is dropped half-way has to be collected.
    """
    try:
        progress.start()
        with closing(_partials(run)) as partials:
            for partial, in_progress in partials:
                results.merge(partial)
                del partial  # its memory can be used again
                if results.n_merged == len(run.partitions):
                    run.end(complete=True)
                progress.merged(results.n_merged, in_progress)
                yield
        run.end(complete=True)
        if not run.partitions:
            yield  # a region without any data has results, too
    finally:
        progress.end()
        run.end(complete=False)


Partials = Generator[tuple[_engine.Partial, int], None, None]


def _partials(run: Run) -> Partials:
    """The partial results in partition order, each with the number of those under way."""
    own = None if run.executor is None else run.executor.partials(run)
    if own is not None:
        return own
    places: list[Place | None] = [*run.places()] if run.devices else [None] * run.n_workers
    indices = range(run.plan.n_partitions)
    if run.threads == 0:
        return _inline(run.plan, indices, places[0])
    return thread_partials(run.plan, indices, places)


class Place(Protocol):
    """Where a worker works, if that is not just any thread."""

    def active(self) -> AbstractContextManager[None]:
        """While entered, the current thread is the worker."""

    def close(self) -> None:
        """Release what the worker has, whichever thread it was."""


def _inline(plan: _engine.Plan, indices: Iterable[int], place: Place | None = None) -> Partials:
    """Partial results of partitions that are processed on the calling thread."""
    try:
        for index in indices:
            with nullcontext() if place is None else place.active():
                partial = plan.run_partition(index)
            yield partial, 0
    finally:
        if place is not None:
            place.close()


def thread_partials(plan: _engine.Plan, indices: range, places: Sequence[Place | None]) -> Partials:
    """Partial results of consecutive partitions on threads, one for each of ``places``."""
    n_threads = len(places)
    if is_ending():  # there are no other threads any more
        yield from _inline(plan, indices, places[0])
        return
    from concurrent.futures import ThreadPoolExecutor

    desk = _Desk(indices, n_threads)
    complete = False
    name = f"framefold-{next(_numbers)}-"
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix=name)
    try:
        _on_threads[id(plan)] = plan, desk
        for place in places:
            pool.submit(desk.work, plan, place)
        for index in indices:
            yield desk.collect(index)
        complete = True
    finally:
        if not complete:
            plan.cancel()
        desk.close()
        _on_threads.pop(id(plan), None)
        # The garbage collector may run this on any thread, even on one of the pool's own.
        own = threading.current_thread() in pool._threads
        pool.shutdown(wait=not own, cancel_futures=True)
        if not own:
            _wait_for_threads(name)


class _Desk:
    """Where the threads of a run and the merging thread meet.

    Partitions are handed out in order, so the next one to be merged is always processed or
    being processed. Few are handed out ahead of the merge: fewer, where they are large.
    """

    def __init__(self, indices: range, n_threads: int) -> None:
        self._stop = indices.stop
        self._n_threads = n_threads
        # Of C, unlike a condition: Ctrl-C cannot come when it is half taken.
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._begun = indices.start
        self._merged = indices.start
        self._largest = 1
        self._closed = False
        self._finished: dict[int, _engine.Partial | BaseException] = {}

    def work(self, plan: _engine.Plan, place: Place | None) -> None:
        """Process partitions on this thread until there are none left."""
        taken: int | None = None

        def take() -> int | None:
            nonlocal taken
            taken = self._take()
            return taken

        def give(partial: _engine.Partial) -> None:
            nonlocal taken
            taken = None
            self._give(partial)

        try:
            if place is None:
                plan.work(take, give)
            else:
                with closing(place), place.active():
                    plan.work(take, give)
        except BaseException as exception:
            # Between two partitions, it is reported as the failure of the next one.
            failed = self._take() if taken is None else taken
            if failed is not None:
                self._finish(failed, exception)

    def collect(self, index: int) -> tuple[_engine.Partial, int]:
        """The result of partition ``index``, and how many are handed out besides."""
        with self._lock:
            # Not longer at a time, so that Ctrl-C is noticed everywhere.
            while index not in self._finished:
                self._news.wait(POLL)
            partial = self._finished.pop(index)
            self._merged = index + 1
            self._news.notify_all()
            if not isinstance(partial, BaseException):
                return partial, self._begun - self._merged
            self._closed = True
        try:
            raise partial
        finally:
            del partial  # or it would refer to itself: all of the run would wait for the collector

    def close(self) -> None:
        """Hand out nothing more."""
        with self._lock:
            self._closed = True
            self._finished.clear()
            self._news.notify_all()

    def _take(self) -> int | None:
        with self._lock:
            while not self._closed and self._begun < self._stop:
                if self._begun < self._merged + self._window():
                    self._begun += 1
                    return self._begun - 1
                self._news.wait()
            return None

    def _give(self, partial: _engine.Partial) -> None:
        with self._lock:
            self._largest = max(self._largest, partial.len_bytes)
        self._finish(partial.partition, partial)

    def _finish(self, index: int, result: _engine.Partial | BaseException) -> None:
        with self._lock:
            if not self._closed:  # or nobody would collect it
                self._finished[index] = result
            self._news.notify_all()

    def _window(self) -> int:
        waiting = max(1, WAITING_BYTES // self._largest)
        return self._n_threads + min(waiting, self._n_threads)


def _wait_for_threads(name: str) -> None:
    """Wait for a thread that the pool does not know of: Ctrl-C came while it was started.

    It has nothing to do, and ends at once.
    """
    deadline = time.monotonic() + 1
    while any(thread.name.startswith(name) for thread in threading.enumerate()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.001)


#: Tells the threads of runs apart.
_numbers = itertools.count()


#: Plans whose partitions are processed on threads right now.
_on_threads: dict[int, tuple[_engine.Plan, _Desk]] = {}


def _cancel_all() -> None:
    """Stop what is still under way when the interpreter ends, as it waits for all threads."""
    for plan, desk in list(_on_threads.values()):
        plan.cancel()
        desk.close()


at_end(_cancel_all)

if hasattr(os, "register_at_fork"):
    # In a fork, they are those of the other process, and their locks may be taken for ever.
    os.register_at_fork(after_in_child=_on_threads.clear)
