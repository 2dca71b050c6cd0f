"""What a Dask worker does: it plans a run once, and processes partitions of it.

A run lies on a worker as data of Dask, so Dask removes it with the run's futures or with the
client. Tasks call it with nothing but numbers of partitions.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.exceptions import UDFRunCancelled
from framefold.executor._dask import devices as dask_devices
from framefold.executor._dask.buffers import Filling, Machine, SharedBuffer, machine, open_buffer
from framefold.executor._lifeline import end_fork, flush
from framefold.executor._wire import failures, pickles, runs
from framefold.executor._wire.pickles import Places

if TYPE_CHECKING:
    from framefold.run.plan import Run

#: What came of a partition: its number, size in bytes, seconds that it took, pickle, and large
#: arrays or where they are in the buffer.
Result = tuple[int, int, float, bytes, "list[npt.NDArray[np.uint8]] | Places"]


class Answer:
    """What came of a batch.

    A class, since Dask takes lists and tuples apart before they are pickled.

    Parameters
    ----------
    results
        Of the partitions that were processed.
    failure
        The partition that failed, None for all of them, and the exception.
    used
        How many bytes of the buffer, if there are large arrays in it instead of in the results.
    """

    def __init__(
        self,
        results: list[Result],
        failure: tuple[int | None, failures.Packed] | None = None,
        used: int = 0,
    ) -> None:
        self.results = results
        self.failure = failure
        self.used = used


class Planned:
    """A worker's answer to the request to plan a run, with the results of its first batch.

    Parameters
    ----------
    kind
        ``planned``, ``other version``, ``unreadable`` or ``failed``.
    detail
        The fingerprint of the plan, the version of framefold, or an exception, as ``kind`` says.
    answer
        What came of the first batch, if the plan is the right one.
    shares
        Whether large results are left in shared memory.
    """

    def __init__(
        self,
        kind: str,
        detail: str | failures.Packed,
        answer: Answer | None = None,
        shares: bool = False,
    ) -> None:
        self.kind = kind
        self.detail = detail
        self.answer = answer
        self.shares = shares


#: The runs on this worker, which are added on any thread.
_shipped_runs: weakref.WeakSet[ShippedRun] = weakref.WeakSet()
_shipped_runs_lock = threading.Lock()
#: The numbers of the latest runs that were ended early: their tasks may come late.
_cancelled_numbers: deque[str] = deque(maxlen=1000)


class ShippedRun:
    """A run as it is sent to workers; planned when it is first called.

    Parameters
    ----------
    number
        Of the run, unlike those of all others.
    version
        Of framefold, where the run was sent from.
    dataset, rest
        Pickles of the data set, and of what else :func:`framefold.executor._wire.runs.plan` takes.
    environment
        Where modules are found.
    checksum
        Of the fingerprint that the plan has to have.
    machine
        Where the client is.
    """

    def __init__(
        self,
        number: str,
        version: str,
        dataset: bytes,
        rest: bytes,
        environment: tuple[list[str], bool],
        checksum: int,
        machine: Machine | None,
    ) -> None:
        self._sent = number, version, dataset, rest, environment, checksum, machine
        self._reset()

    def _reset(self) -> None:
        self.number = self._sent[0]
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._places: dask_devices.Places | None = None
        self._cancelled = False
        self._changes = 0
        self.n_busy = 0
        with _shipped_runs_lock:
            _shipped_runs.add(self)
            self._cancelled = self.number in _cancelled_numbers

    def __getstate__(self) -> Any:
        return self._sent

    def __setstate__(self, state: Any) -> None:
        self._sent = state
        self._reset()

    def __call__(self, verb: str, *arguments: Any) -> Any:
        """What tasks call: ``prepare`` or ``process``."""
        with self._lock:
            self.n_busy += 1
        try:
            return getattr(self, verb)(*arguments)
        finally:
            with self._lock:
                self.n_busy -= 1
            flush()

    def prepare(
        self,
        indices: Sequence[int],
        changes: tuple[int, bytes] | None,
        budget: tuple[float, int],
        buffer: Sequence[Any] | None,
    ) -> Planned:
        """Open the data set, plan the run, and process the first batch.

        Parameters
        ----------
        indices
            The partitions, or none.
        changes, budget, buffer
            As for :meth:`process`.
        """
        if self._sent[1] != _engine.__version__:
            return Planned("other version", _engine.__version__)
        with self._lock:
            try:
                dataset = self._open()
            except BaseException as exception:
                return Planned("unreadable", _packed(exception))
            try:
                detail = runs.fingerprint(self._plan(dataset))
            except dask_devices.MissingDeviceError as exception:
                return Planned("unreadable", _packed(exception))
            except BaseException as exception:
                failures.add_note(
                    exception, "raised while framefold prepared a run on a Dask worker"
                )
                return Planned("failed", _packed(exception))
        shares = self._opened(buffer)
        if shares is not None:
            shares.close()
        answer = None
        if indices and runs.checksum(detail) == self._sent[5]:
            answer = self.process(indices, changes, budget, buffer)
        return Planned("planned", detail, answer, shares is not None)

    def process(
        self,
        indices: Sequence[int],
        changes: tuple[int, bytes] | None,
        budget: tuple[float, int],
        buffer: Sequence[Any] | None,
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
        buffer
            What :class:`framefold.executor._dask.buffers.SharedBuffer` consists of: where to leave
            large results, if the client is on this machine.
        """
        if self._sent[1] != _engine.__version__:
            return Answer([])  # the answer of `prepare` says why
        try:
            run = self._changed_run(changes)
        except BaseException as exception:
            return Answer([], (None, _packed(exception)))
        filling = self._opened(buffer)
        results: list[Result] = []
        left = list(reversed(indices))
        started = partition_started = time.monotonic()
        size = 0
        process = os.getpid()

        def take() -> int | None:
            nonlocal partition_started
            end_fork(process)
            partition_started = time.monotonic()
            if results and (partition_started > started + budget[0] or size > budget[1]):
                return None
            return left[-1] if left else None

        def give(partial: _engine.Partial) -> None:
            nonlocal size
            end_fork(process)
            index, len_bytes = partial.partition, partial.len_bytes
            data, large = pickles.dumps(partial.take_parts(), share=True)
            # Entries of an array of objects may be of any size.
            len_bytes = max(len_bytes, len(data) + sum(array.nbytes for array in large))
            size += len_bytes
            if filling is None:
                where: Any = [np.frombuffer(view, np.uint8) for view in large]
            else:
                where = filling.add(large)
            results.append((index, len_bytes, time.monotonic() - partition_started, data, where))
            left.pop()

        failure = None
        try:
            with dask_devices.working(self._places):
                run.plan.work(take, give)
        except BaseException as exception:
            end_fork(process, exception)
            failure = left[-1] if left else None, _packed(exception)
        finally:
            if filling is not None:
                filling.close()
        return Answer(results, failure, 0 if filling is None else filling.used)

    def cancel(self) -> None:
        """Stop processing, within one frame or tile."""
        self._cancelled = True
        if self._run is not None:
            self._run.plan.cancel()

    def close(self) -> None:
        """Release devices, once no partition is or can be processed."""
        if self._places is not None:
            self._places.close()

    def _opened(self, buffer: Sequence[Any] | None) -> Filling | None:
        """Where to leave large results; None if they have to be sent."""
        if buffer is None or self._sent[6] is None or self._sent[6] != machine():
            return None
        return open_buffer(SharedBuffer(*buffer))

    def _open(self) -> Any:
        if self._run is not None:
            return self._run.dataset
        runs.enter_environment(*self._sent[4])
        return pickle.loads(self._sent[2])

    def _plan(self, dataset: Any) -> Run:
        if self._run is None:
            run = runs.plan({**pickle.loads(self._sent[3]), "dataset": dataset})
            self._places = dask_devices.places(run, self)
            self._run = run
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
                        bridge.replace(runs.made(udf))
            return run


def _packed(exception: BaseException) -> failures.Packed:
    """An exception as it is sent; its traceback is cleared, so that frames release their data."""
    packed = failures.pack(exception)
    seen: set[int] = set()
    chain: list[BaseException | None] = [exception]
    while chain:
        each = chain.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            failures.clear_traceback(each)
            chain += each.__cause__, each.__context__
            if isinstance(each, BaseExceptionGroup):
                chain += each.exceptions
    return packed


async def stop(number: str, patience: float) -> bool:
    """End a run on this worker; returns whether user code stopped in time."""
    with _shipped_runs_lock:
        _cancelled_numbers.append(number)
        runs = [shipped for shipped in _shipped_runs if shipped.number == number]
    for shipped in runs:
        shipped.cancel()
    deadline = time.monotonic() + patience
    while any(shipped.n_busy for shipped in runs):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    for shipped in runs:
        shipped.close()
    return True


def collect_garbage() -> None:
    """Release files and memory of runs that are over: UDFs, meta data and runs form cycles."""
    gc.collect()
