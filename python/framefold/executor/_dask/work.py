"""What a Dask worker does: it plans a run once, and processes partitions of it.

A run lies on a worker as data of Dask, so Dask removes it with the run's futures or with the
client. Tasks call it with nothing but numbers of partitions. Dask's scheduler reads the functions
of tasks, and may be without framefold: so these are functions of the standard library.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._notes import add_note
from framefold.exceptions import UDFRunCancelled
from framefold.executor._dask import devices as dask_devices
from framefold.executor._dask.memory import (
    BufferWriter,
    Machine,
    SharedBuffer,
    machine,
    open_buffer,
)
from framefold.executor._lifeline import end_fork, flush
from framefold.executor._wire import failures, pickles, runs
from framefold.executor._wire.pickles import Places

if TYPE_CHECKING:
    from framefold.run.plan import Run

#: What came of a partition: its number, size in bytes, seconds that it took, pickle, and large
#: arrays or where they are in the buffer.
Result = tuple[int, int, float, bytes, "list[npt.NDArray[np.uint8]] | Places"]


@dataclass
class Answer:
    """What came of a batch.

    A class, since Dask takes lists and tuples apart before they are pickled.

    Attributes
    ----------
    results
        Of the partitions that were processed.
    failure
        The partition that failed, None for all of them, and the exception.
    refusal
        Why the worker cannot take part in the run.
    other_plan
        How the worker's plan differs from the client's, if it does.
    shares
        Whether large arrays are in the buffer, instead of in the results.
    used
        How many bytes of the buffer.
    lost
        The CUDA device that the worker was to use and cannot, and why.
    has_device
        Whether the worker works on one.
    """

    results: list[Result] = field(default_factory=list)
    failure: tuple[int | None, failures.Packed] | None = None
    refusal: str | None = None
    other_plan: str | None = None
    shares: bool = False
    used: int = 0
    lost: tuple[int, str] | None = None
    has_device: bool = False


#: The runs on this worker, which are added on any thread.
_shipped_runs: weakref.WeakSet[ShippedRun] = weakref.WeakSet()
_shipped_runs_lock = threading.Lock()
#: The numbers of the latest runs that were ended early: their tasks may come late.
_cancelled_numbers: deque[str] = deque(maxlen=1000)


class ShippedRun:
    """A run as it lies on workers; planned when it is first called.

    Parameters
    ----------
    number
        Of the run, unlike those of all others.
    client
        The machine that the client is on.
    shipment
        The run.
    answer
        What came of the batch that was processed by the task which made this object.
    """

    def __init__(
        self,
        number: str,
        client: Machine | None,
        shipment: runs.Shipment,
        answer: Answer | None = None,
    ) -> None:
        self.number = number
        self.shipment = shipment
        self.answer = answer
        self._client = client
        self.n_busy = 0
        self._is_fetched = False
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._other_plan: str | None = None
        self._places: dask_devices.Places | None = None
        self._changes = 0
        with _shipped_runs_lock:
            _shipped_runs.add(self)
            self._cancelled = number in _cancelled_numbers

    def __reduce__(self) -> Any:
        self._is_fetched = True
        return ShippedRun, (self.number, self._client, self.shipment, self.answer)

    def __call__(
        self,
        indices: Sequence[int],
        changes: tuple[int, bytes] | None,
        budget: tuple[float, int],
        buffer: Sequence[Any] | None,
    ) -> Answer:
        """Plan the run, and process partitions in order, until one fails or the budget is used up.

        Parameters
        ----------
        indices
            The partitions, or none.
        changes
            The latest changes of parameters with their number, if there are any.
        budget
            Seconds, and bytes of results.
        buffer
            What :class:`framefold.executor._dask.memory.SharedBuffer` consists of: where to leave
            large results, if the client is on this machine.
        """
        with self._lock:
            self.n_busy += 1
            if self._is_fetched:
                # A client that fetches it again gets none, and has the batch processed again.
                self.answer = None
        try:
            with self._lock:
                answer = self._prepare(changes)
            writer = None
            if answer is None:
                answer, writer = Answer(), self._opened(buffer)
                answer.shares = writer is not None
                if self._places is not None:
                    answer.lost, answer.has_device = self._places.lost, self._places.has_device
                self._process(indices, budget, answer, writer)
            return answer
        finally:
            with self._lock:
                self.n_busy -= 1
            flush()

    def _prepare(self, changes: tuple[int, bytes] | None) -> Answer | None:
        """Plan the run as it is now; None if partitions of it can be processed."""
        shipment, here = self.shipment, _engine.__version__
        if shipment.version != here:
            return Answer(refusal=f"framefold {here} is installed there, {shipment.version} here")
        if self._run is None:
            try:
                dataset = shipment.opened()
            except BaseException as exception:
                return Answer(refusal=_described(exception))
            try:
                run, self._other_plan = shipment.planned(dataset)
                self._places = dask_devices.places(run, self)
            except dask_devices.MissingDeviceError as exception:
                return Answer(refusal=str(exception))
            except BaseException as exception:
                note = "raised while framefold prepared a run on a Dask worker"
                add_note(exception, note)
                return Answer(failure=(None, _packed(exception)))
            self._run = run
        if self._other_plan is not None:
            return Answer(other_plan=self._other_plan)
        if self._cancelled:
            return Answer(failure=(None, _packed(UDFRunCancelled("the run was cancelled"))))
        if changes is not None and changes[0] > self._changes:
            try:
                runs.follow(self._run, pickle.loads(changes[1]))
            except BaseException as exception:
                return Answer(failure=(None, _packed(exception)))
            self._changes = changes[0]
        return None

    def _opened(self, buffer: Sequence[Any] | None) -> BufferWriter | None:
        """Where to leave large results; None if they have to be sent."""
        if buffer is None or self._client is None or self._client != machine():
            return None
        return open_buffer(SharedBuffer(*buffer))

    def _process(
        self,
        indices: Sequence[int],
        budget: tuple[float, int],
        answer: Answer,
        writer: BufferWriter | None,
    ) -> None:
        """Process partitions of the run, which is planned, and closes the buffer."""
        assert self._run is not None
        left = list(reversed(indices))
        started = partition_started = time.monotonic()
        size = 0
        process = os.getpid()

        def is_used_up() -> bool:
            return time.monotonic() > started + budget[0] or size > budget[1]

        def take() -> int | None:
            nonlocal partition_started
            end_fork(process)
            partition_started = time.monotonic()
            return left[-1] if left and not (answer.results and is_used_up()) else None

        def upcoming() -> int | None:
            end_fork(process)
            return left[-2] if len(left) > 1 and not is_used_up() else None

        def give(partial: _engine.Partial) -> None:
            nonlocal size
            end_fork(process)
            index, len_bytes = partial.partition, partial.len_bytes
            data, large = pickles.dumps(partial.take_parts(), share=True)
            # Entries of an array of objects may be of any size.
            len_bytes = max(len_bytes, len(data) + sum(array.nbytes for array in large))
            size += len_bytes
            if writer is None:
                where: Any = [np.frombuffer(view, np.uint8) for view in large]
            else:
                where = writer.add(large)
            seconds = time.monotonic() - partition_started
            answer.results.append((index, len_bytes, seconds, data, where))
            left.pop()

        try:
            with nullcontext() if self._places is None else self._places.one():
                self._run.plan.work(take, give, upcoming)
        except BaseException as exception:
            end_fork(process, exception)
            answer.failure = left[-1] if left else None, _packed(exception)
        finally:
            if writer is not None:
                answer.used = writer.used
                writer.close()

    def cancel(self) -> None:
        """Stop processing, within one frame or tile."""
        self._cancelled = True
        if self._run is not None:
            self._run.plan.cancel()

    def close(self) -> None:
        """Release devices, once no partition is or can be processed."""
        if self._places is not None:
            self._places.close()


class FirstBatch(NamedTuple):
    """A task that makes a run on a worker and processes a first batch there.

    Unpickled, it is the :class:`ShippedRun`: two tasks would cost twice as much, and the time
    in between.
    """

    #: The pickle of the run.
    data: bytes
    #: As :meth:`ShippedRun.__call__` takes them.
    indices: Sequence[int]
    changes: tuple[int, bytes] | None
    budget: tuple[float, int]
    buffer: Sequence[Any] | None

    def __reduce__(self) -> Any:
        return process_first, tuple(self)


def process_first(data: bytes, *arguments: Any) -> ShippedRun:
    """What unpickling a :class:`FirstBatch` calls."""
    shipped: ShippedRun = pickle.loads(data)
    shipped.answer = shipped(*arguments)
    return shipped


def _described(exception: BaseException) -> str:
    """What an exception says, also where it is of a class that only pickling changes."""
    return str(failures.unpack(_packed(exception)))


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


class Busy(Enum):
    """What a worker does, seen from one run."""

    NOT_WITH_RUN = "nothing for the run"
    WITH_RUN = "something for the run"
    STUCK = "nothing but what was cancelled and does not end"


async def stop(number: str, patience: float, dask_worker: Any) -> Busy:
    """End a run on this worker, and give user code some seconds to stop."""
    with _shipped_runs_lock:
        _cancelled_numbers.append(number)
    runs = _shipped(number)
    for shipped in runs:
        shipped.cancel()
    deadline = time.monotonic() + patience
    while any(shipped.n_busy for shipped in runs):
        if time.monotonic() > deadline:
            return busy_with(number, dask_worker)
        await asyncio.sleep(0.01)
    for shipped in runs:
        shipped.close()
    return Busy.NOT_WITH_RUN


def busy_with(number: str, dask_worker: Any) -> Busy:
    """What this worker does, for a run; Dask passes the worker."""
    state = dask_worker.state
    # Those that were cancelled keep their threads until they return.
    if sum(task.state == "cancelled" for task in state.executing) >= state.nthreads:
        return Busy.STUCK
    is_busy = any(shipped.n_busy for shipped in _shipped(number))
    return Busy.WITH_RUN if is_busy else Busy.NOT_WITH_RUN


def have_begun(keys: list[Any], dask_worker: Any) -> bool:
    """Whether this worker has begun any of these tasks; Dask passes the worker."""
    tasks = dask_worker.state.tasks
    states = {tasks[key].state for key in keys if key in tasks}
    # The client may not know yet of those that have ended.
    return not states.isdisjoint({"executing", "long-running", "memory", "error"})


def _shipped(number: str) -> list[ShippedRun]:
    with _shipped_runs_lock:
        return [shipped for shipped in _shipped_runs if shipped.number == number]
