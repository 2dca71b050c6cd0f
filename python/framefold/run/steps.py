"""Runs, as a whole or step by step: results after each merge, on the thread that asks for them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from framefold.common._notes import add_note, notes_of
from framefold.common._tracebacks import shortened
from framefold.exceptions import InvalidArgumentError, UDFRunCancelled, WorkerError
from framefold.run.plan import Run
from framefold.run.progress import RunProgress
from framefold.run.results import StepResults, UDFResultDict, UDFResults

if TYPE_CHECKING:
    from framefold import _engine
    from framefold.run.out import Out
    from framefold.udf.base import UDF
    from framefold.viz._live import RunPlots

P = ParamSpec("P")
T = TypeVar("T")


def _or_end(
    work: Callable[Concatenate[ResultGenerator, P], T],
) -> Callable[Concatenate[ResultGenerator, P], T]:
    """Where ``work`` raises, the run ends, and Ctrl-C brings the results so far along.

    They live as long as the exception does.
    """

    # No context manager: its methods are one more place where Ctrl-C can arrive.
    @wraps(work)
    def wrapped(self: ResultGenerator, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            try:
                return work(self, *args, **kwargs)
            except BaseException:
                self._end()  # where the next Ctrl-C is raised, which takes the place of this one
                raise
        except KeyboardInterrupt as error:
            if self._run.out is None:
                with suppress(Exception):  # nothing takes the place of what the user wants
                    error.results = self.results_so_far()  # type: ignore[attr-defined]
            raise

    return wrapped


class ResultGenerator(Iterator[UDFResults]):
    """Yields :class:`UDFResults` after each merge; made by ``Context.run_udf_iter``.

    The run goes on while the next results are waited for. With threads, some partitions are
    processed ahead. Results are computed when ``buffers`` is first looked at; if that has not
    happened when the next results are asked for, and the object is still held, what further merges
    would change is kept then. So results always are those of their step, whenever they are looked
    at.

    Ends with the run, with :meth:`close`, or when it is garbage collected; the run stops within
    one frame or tile. May be used in a ``with`` statement, and closed from any thread.
    """

    def __init__(self, run: Run, progress: RunProgress, plots: RunPlots | None = None) -> None:
        self._run = run
        self._progress = progress
        self._plots = plots
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._stepping = False
        self._closing = False
        self._ended = False
        #: The thread that called `close` before the run was complete.
        self._closed_by: int | None = None
        self._latest: weakref.ref[StepResults] | None = None
        #: What was merged, once the engine does not have it any more.
        self._taken: tuple[_engine._ResultLists, Any] | None = None
        try:
            self._driver = run.driver(progress.merged if progress.is_wanted else None)
        except BaseException:
            run.end(complete=False)
            if run.out is not None:
                run.out.close()
            raise
        if plots is not None:
            try:
                plots.begin(self.results_so_far())
            except BaseException:
                self._end()  # the exception may be kept, and with it this
                raise

    @shortened
    def __next__(self) -> UDFResults:
        with self._lock:
            try:
                results = self.results_so_far() if self.step() else None
                if results is not None:
                    self.update_plots(results)
            except StopIteration as error:  # of user code: it would end the loop over results
                raise not_the_end(error) from error
            if results is None:
                raise StopIteration
            return results

    @_or_end
    def step(self) -> bool:
        """Merge the next partition; whether there was one."""
        with self._lock:
            latest = None if self._latest is None else self._latest()
            if latest is not None:
                latest.settle()
            if self._ended:
                if self._closed_by not in (None, threading.get_ident()):
                    self._closed_by = None  # to be heard of once
                    raise closed_elsewhere("thread")
                return False
            # A region without any data has results, too.
            return self._drive(self._driver.step) or not self._run.partitions

    @_or_end
    def run_to_end(self) -> tuple[UDFResultDict, ...]:
        """Run to the end and return the complete results; only plots look at them on the way."""
        if self._run.out is not None:
            return self._write(self._run.out)
        if self._plots is None:
            self._drive(self._driver.run)
            tasks = self._run.expect_last_look()
            self._taken = self._driver.take()
            whole = self.kept(self._run.wrap(*self._taken))
            del tasks  # what their objects know is kept with the results
            return whole
        results = None
        while not self._ended:
            results = None  # or they would be computed before the run goes on
            self.step()
            results = self.results_so_far()
            self.update_plots(results)
        return self.kept((results or self.results_so_far()).buffers)

    def kept(self, results: tuple[UDFResultDict, ...]) -> tuple[UDFResultDict, ...]:
        """The results of the run, of which copies are kept if that was asked for."""
        if self._run.keeping is not None and self.is_complete:
            self._run.keeping.keep(results)
        return results

    def _write(self, out: Out) -> tuple[UDFResultDict, ...]:
        """Run to the end, and return results that are in files."""
        try:
            self._drive(self._driver.run)
            results = self._run.wrap(*self._driver.snapshot())
            out.finish(results)
        except BaseException as error:
            out.close()
            if out.is_left:
                add_note(
                    error, "what is written stays; the same call with resume=True goes on there"
                )
            raise
        return results

    def _drive(self, work: Any) -> Any:
        """Have the driver do something, and end the run with it if it is complete or fails."""
        if os.getpid() != self._process:  # its threads are not there, and nothing would come
            raise WorkerError(
                "this run belongs to the process that this one is a fork of; begin another one here"
            )
        self._stepping = True
        complete = False
        try:
            self._progress.start()
            done = work()
            complete = self.is_complete
            if complete:
                self._run.end(complete=True)
        finally:
            self._stepping = False
            if complete or self._closing:
                self._end()
        return done

    def _end(self) -> None:
        """Let go of everything, whatever the run has come to; more calls do nothing."""
        if self._ended:
            return
        self._ended = True
        try:
            self._driver.close()
        finally:
            try:
                self._progress.end()
            finally:
                self._run.end(complete=False)  # of no effect if it is complete
                if self._run.out is not None and not self.is_complete:
                    self._run.out.close()

    @property
    def is_complete(self) -> bool:
        """Whether all partitions are merged."""
        return self._driver.n_merged == len(self._run.partitions)

    def results_so_far(self) -> UDFResults:
        """The results up to the latest merge."""
        with self._lock:
            results = StepResults(self._run, self._driver, self._lock, self._taken)
            self._latest = weakref.ref(results)
            return results

    @_or_end
    def update_plots(self, results: UDFResults) -> None:
        """Show the latest results in the plots that are due; ends the run if that fails."""
        if self._plots is not None:
            self._plots.update(results, last=self.is_complete)

    @property
    def has_ended(self) -> bool:
        """Whether the run is over, complete or not."""
        return self._ended

    @property
    def has_plots(self) -> bool:
        """Whether there are plots, which look at results on the way."""
        return self._plots is not None

    def cancel(self) -> None:
        """Ask the run to stop, from any thread; returns at once.

        Partitions that are being processed end with
        :class:`~framefold.exceptions.UDFRunCancelled`.
        """
        self._run.plan.cancel()

    def close(self) -> None:
        """Stop the run; returns when all its threads have ended, or on Ctrl-C.

        A thread that is waiting for results, or asks for the next ones, gets
        :class:`~framefold.exceptions.UDFRunCancelled`; for the one that calls this, there are no
        more.
        """
        self.close_by(threading.get_ident())

    def close_by(self, thread: int | None) -> None:
        """The same, for a thread that knows; for None, all do."""
        self.cancel()
        with self._lock:
            if not (self._ended or self.is_complete):
                self._closed_by = thread
            if self._stepping:  # called by user code from within a step, which then is the last
                self._closing = True
            else:
                self._end()

    def throw(self, exc: BaseException) -> UDFResults:
        """Stop the run, and raise ``exc``."""
        self.close()
        raise exc

    def __del__(self) -> None:
        if "_driver" in self.__dict__ and not self._ended:
            self._run.plan.cancel()
            self._end()

    def update_parameters_experimental(self, parameters: Sequence[Mapping[str, Any]]) -> None:
        """Change parameters of the UDFs while they run.

        Parameters
        ----------
        parameters
            For each UDF a dict of the parameters to change; empty for none.

        Notes
        -----
        Partitions that are processed already, or being processed, keep the old ones. UDFs that
        run on native kernels cannot be changed. Experimental: may change without notice; see
        :meth:`update`.
        """
        self._run.update_parameters(parameters)

    def update(self, udf: UDF, /, **params: Any) -> None:
        """Change parameters of one UDF while it runs.

        Frames that are handed out already keep the old values, all others get the new ones, and
        ``changes`` of the results to come says which was the first of these: so the run can be
        repeated. ``merge`` sees the parameters of the partition that it merges, ``get_results``
        the latest. Arrays, lists and dicts are copied. May be called from any thread.

        Parameters
        ----------
        udf
            The object that was passed to ``run_udf_iter``.
        **params
            The parameters to change, as for :meth:`framefold.UDF.with_params`.

        Raises
        ------
        InvalidArgumentError
            If it is not run, has no such parameter, or the run is over.
        UnsupportedError
            If it runs on a native kernel.
        """
        if self._ended or self.is_complete:
            raise InvalidArgumentError(
                "the run is over, and no frame is left for new parameters; start another run with "
                "udf.with_params(…)"
            )
        self._run.update(udf, params)

    def __enter__(self) -> ResultGenerator:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def closed_elsewhere(what: str) -> UDFRunCancelled:
    """What is raised where a loop over results would end as if the run were complete."""
    return UDFRunCancelled(f"another {what} has closed the run before it was complete")


def not_the_end(error: Exception) -> RuntimeError:
    """What is raised in place of an exception of user code that would end a loop over results."""
    raised = RuntimeError(f"a function raised {type(error).__name__}")
    for note in notes_of(error):
        raised.add_note(note)
    return raised
