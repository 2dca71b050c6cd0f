"""Runs inside of an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from framefold.common._tracebacks import shorten
from framefold.run.results import UDFResultDict, UDFResults, result_of
from framefold.run.steps import ResultGenerator, closed_elsewhere, not_the_end

if TYPE_CHECKING:
    import asyncio

    from framefold.udf.base import UDF

__all__ = ["ResultAsyncGenerator", "awaited", "beside", "final_results"]

T = TypeVar("T")


class ResultAsyncGenerator(AsyncIterator[UDFResults]):
    """Yields :class:`UDFResults` after each merge; made by ``run_udf_iter(…, sync=False)``.

    Merging happens on a thread of its own, so that the event loop goes on. Progress is
    reported on that thread; plots are drawn on the thread of the loop. Ends with the run, with
    :meth:`aclose`, when the task that waits for it is cancelled, or when it is garbage
    collected; the run stops within one frame or tile. May be used in an ``async with``
    statement.
    """

    def __init__(self, generator: ResultGenerator) -> None:
        self._generator = generator
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="framefold-async")
        #: The task that called `aclose` before the run was complete.
        self._closed_by: asyncio.Task[Any] | None = None

    async def __anext__(self) -> UDFResults:
        try:
            await self.advance()
            results = self._generator.results_so_far()
            self.update_plots(results)
            return results
        except BaseException as error:
            shorten(error)
            raise

    def update_plots(self, results: UDFResults) -> None:
        """Show the latest results in the plots that are due."""
        try:
            self._generator.update_plots(results)
        except (StopIteration, StopAsyncIteration) as error:  # of user code, as in `_on_thread`
            raise not_the_end(error) from error

    async def advance(self) -> None:
        """Merge the next partition; at the end, raise StopAsyncIteration."""
        import asyncio

        try:
            more = await self._on_thread(self._generator.step)
        except BaseException:
            self._pool.shutdown(wait=False)
            raise
        if not more:
            self._pool.shutdown(wait=False)
            closed_by, self._closed_by = self._closed_by, None  # to be heard of once
            # One that is over may have been made to wait for `aclose`, as `asyncio.wait_for` does.
            if closed_by not in (None, asyncio.current_task()) and not closed_by.done():
                raise closed_elsewhere("task")
            raise StopAsyncIteration

    async def run_to_end(self) -> tuple[UDFResultDict, ...]:
        """Run to the end on the thread, and return the complete results."""
        return await self._on_thread(self._generator.run_to_end)

    async def kept(self, results: UDFResults) -> tuple[UDFResultDict, ...]:
        """As :meth:`ResultGenerator.kept`; they are computed on the thread."""
        return await self._on_thread(lambda: self._generator.kept(results.buffers))

    @property
    def has_plots(self) -> bool:
        """Whether there are plots, which look at results on the way."""
        return self._generator.has_plots

    @property
    def is_complete(self) -> bool:
        """Whether all partitions are merged."""
        return self._generator.is_complete

    def results_so_far(self) -> UDFResults:
        """The results up to the latest merge."""
        return self._generator.results_so_far()

    async def aclose(self) -> None:
        """Stop the run; returns when all its threads have ended.

        As :meth:`ResultGenerator.close`, for tasks in place of threads.
        """
        import asyncio

        if not (self._generator.has_ended or self.is_complete):
            self._closed_by = asyncio.current_task()
        # Directly, as the thread may be busy with a step that this ends.
        self._generator.cancel()
        await self._finish(self._close)

    async def athrow(self, exc: BaseException) -> UDFResults:
        """Stop the run, and raise ``exc``."""
        await self.aclose()
        raise exc

    async def update_parameters_experimental(self, parameters: Sequence[Mapping[str, Any]]) -> None:
        """As :meth:`ResultGenerator.update_parameters_experimental`."""
        self._generator.update_parameters_experimental(parameters)

    async def update(self, udf: UDF, /, **params: Any) -> None:
        """As :meth:`ResultGenerator.update`."""
        self._generator.update(udf, **params)

    def _close(self) -> None:
        self._generator.close_by(None)  # `advance` knows of tasks, which may be on any thread

    async def _finish(self, work: Callable[[], None]) -> None:
        try:
            await self._on_thread(work)
        finally:
            self._pool.shutdown(wait=False)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        """Run ``work`` on the thread; if the waiting task is cancelled, stop the run first."""
        import asyncio

        try:
            return await _on_thread(self._pool, work, self._generator.cancel)
        except asyncio.CancelledError:
            self._close()
            raise

    async def __aenter__(self) -> ResultAsyncGenerator:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


async def final_results(generator: ResultAsyncGenerator) -> tuple[UDFResultDict, ...]:
    """Run to the end; only plots look at results on the way."""
    async with generator:
        if not generator.has_plots:
            return await generator.run_to_end()
        results = None
        while results is None or not generator.is_complete:  # a run of no partition has a step
            results = None  # or they would be computed before the run goes on
            await generator.advance()
            results = generator.results_so_far()
            generator.update_plots(results)
        return await generator.kept(results)


async def beside(work: Callable[[], T]) -> T:
    """What ``work`` gives, on a thread of its own."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="framefold-async")
    try:
        return await _on_thread(pool, work, lambda: None)
    finally:
        pool.shutdown(wait=False)


async def _on_thread(
    pool: ThreadPoolExecutor, work: Callable[[], T], cancel: Callable[[], None]
) -> T:
    """Run ``work`` on a thread of a pool; if the waiting task is cancelled, ``cancel`` ends it."""
    import asyncio

    def guarded() -> T:
        try:
            return work()
        except (StopIteration, StopAsyncIteration) as error:  # which no future can pass on
            raise not_the_end(error) from error

    try:
        future = pool.submit(guarded)
    except RuntimeError:  # the run is over, and with it the thread: nothing is left to wait for
        return guarded()
    waiting = asyncio.wrap_future(future)
    try:
        # Not `asyncio.shield`, which says what the step raises when it is cancelled.
        await asyncio.wait([waiting])
        return waiting.result()
    except asyncio.CancelledError:
        cancel()
        # What the cancelled step raises is lost, also where the task is cancelled once more.
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait([waiting])
        raise
    finally:
        # What went wrong refers to this frame: all of the run would wait for the collector.
        del future, waiting


async def awaited(generator: ResultAsyncGenerator, single: bool) -> Any:
    """What :func:`~framefold.run.results.result_of` says, once the run is complete."""
    try:
        return result_of(await final_results(generator), single)
    except BaseException as error:
        shorten(error)
        raise
