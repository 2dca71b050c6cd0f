"""What a Dask worker does: it plans a run once, and processes partitions of it.

A run lies on a worker as data of Dask, so it goes when nobody needs it any more: with the run, or
with the client. Tasks call it, with nothing but numbers of partitions.
"""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.exceptions import UDFRunCancelled
from framefold.executor import _failures, _job, _shared
from framefold.executor._serving import _flush

if TYPE_CHECKING:
    from framefold._planning import Run

#: What came of a partition: its number, size in bytes, seconds that it took, pickle, large arrays.
Result = tuple[int, int, float, bytes, list[npt.NDArray[np.uint8]]]


class Answer:
    """What came of a batch.

    A class of its own: lists and tuples are taken apart by Dask before they are pickled.

    Parameters
    ----------
    results
        Of the partitions that were processed.
    failure
        The partition that failed, None for all of them, and the exception.
    """

    def __init__(
        self,
        results: list[Result],
        failure: tuple[int | None, _failures.Packed] | None = None,
    ) -> None:
        self.results = results
        self.failure = failure


#: The runs on this worker.
_here: weakref.WeakSet[Shipped] = weakref.WeakSet()


class Shipped:
    """A run as it is sent to workers; planned when it is first called.

    Parameters
    ----------
    number
        Of the run, unlike those of all others.
    version
        Of framefold, where the run was sent from.
    dataset, rest
        Pickles of the data set, and of what else :func:`framefold.executor._job.plan` takes.
    environment
        Where modules are found.
    """

    def __init__(
        self,
        number: str,
        version: str,
        dataset: bytes,
        rest: bytes,
        environment: tuple[list[str], bool],
    ) -> None:
        self._sent = number, version, dataset, rest, environment
        self._begin()

    def _begin(self) -> None:
        self.number = self._sent[0]
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._cancelled = False
        self._changes = 0
        self.n_busy = 0
        _here.add(self)

    def __getstate__(self) -> Any:
        return self._sent

    def __setstate__(self, state: Any) -> None:
        self._sent = state
        self._begin()

    def __call__(self, verb: str, *arguments: Any) -> Any:
        """What tasks call: ``prepare`` or ``process``."""
        with self._lock:
            self.n_busy += 1
        try:
            return getattr(self, verb)(*arguments)
        finally:
            with self._lock:
                self.n_busy -= 1
            _flush()

    def prepare(self) -> tuple[str, str | _failures.Packed]:
        """Open the data set and plan the run.

        Returns
        -------
        tuple
            ``planned`` and the fingerprint of the plan, ``other version`` and which one, or
            ``unreadable`` or ``failed`` and an exception.
        """
        if self._sent[1] != _engine.__version__:
            return "other version", _engine.__version__
        with self._lock:
            try:
                dataset = self._open()
            except BaseException as exception:
                return "unreadable", _failures.pack(exception)
            try:
                return "planned", _job.fingerprint(self._plan(dataset))
            except BaseException as exception:
                exception.add_note("raised while framefold prepared a run on a Dask worker")
                return "failed", _failures.pack(exception)

    def process(
        self,
        indices: Sequence[int],
        changes: tuple[int, bytes] | None,
        budget: tuple[float, int],
    ) -> Answer:
        """Process partitions, in order, until one fails or the budget is used up.

        Parameters
        ----------
        indices
            The partitions.
        changes
            The latest changes of parameters with their number, if there are any.
        budget
            Seconds, and bytes of results.
        """
        try:
            run = self._changed_run(changes)
        except BaseException as exception:
            return Answer([], (None, _failures.pack(exception)))
        results: list[Result] = []
        left = list(reversed(indices))
        started = begun = time.monotonic()
        size = 0

        def take() -> int | None:
            nonlocal begun
            begun = time.monotonic()
            if results and (begun > started + budget[0] or size > budget[1]):
                return None
            return left[-1] if left else None

        def give(partial: _engine.Partial) -> None:
            nonlocal size
            size += partial.len_bytes
            index, len_bytes = partial.partition, partial.len_bytes
            data, large = _shared.dumps(partial.take_parts(), share=True)
            buffers = [np.frombuffer(view, np.uint8) for view in large]
            results.append((index, len_bytes, time.monotonic() - begun, data, buffers))
            left.pop()

        try:
            run.plan.work(take, give)
        except BaseException as exception:
            failure = left[-1] if left else None, _failures.pack(exception)
            exception.__traceback__ = None  # and with it all that the frames refer to
            return Answer(results, failure)
        return Answer(results)

    def cancel(self) -> None:
        """End what is being processed, within one frame or tile."""
        self._cancelled = True
        if self._run is not None:
            self._run.plan.cancel()

    def _open(self) -> Any:
        if self._run is not None:
            return self._run.dataset
        _job.enter_environment(*self._sent[4])
        return pickle.loads(self._sent[2])

    def _plan(self, dataset: Any) -> Run:
        if self._run is None:
            self._run = _job.plan({**pickle.loads(self._sent[3]), "dataset": dataset})
        if self._cancelled:
            raise UDFRunCancelled("the run was cancelled")
        return self._run

    def _changed_run(self, changes: tuple[int, bytes] | None) -> Run:
        with self._lock:
            run = self._plan(self._open())
            if changes is not None and changes[0] > self._changes:
                self._changes = changes[0]
                for bridge, udf in zip(run.bridges, pickle.loads(changes[1]), strict=True):
                    if bridge is not None and udf is not None:
                        bridge.udf = _job.made(udf)
            return run


async def stop(number: str, patience: float) -> bool:
    """End a run on this worker; returns whether user code stopped in time."""
    runs = [shipped for shipped in list(_here) if shipped.number == number]
    for shipped in runs:
        shipped.cancel()
    deadline = time.monotonic() + patience
    while any(shipped.n_busy for shipped in runs):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True


def collect_garbage() -> None:
    """Let go of files and memory of runs that are over: UDFs, meta data and runs form cycles."""
    gc.collect()
