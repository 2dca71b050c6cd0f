"""What goes to the workers of a Dask cluster in one run: the run, changed parameters, and batches.

Used on the event loop of the client alone.
"""

from __future__ import annotations

import operator
import pickle
from typing import Any

from distributed import Future

from framefold.executor._dask.batches import ClusterTasks
from framefold.executor._dask.buffers import SharedBuffer
from framefold.executor._dask.clock import Clock
from framefold.executor._dask.first import FirstTask
from framefold.executor._dask.resources import Carried, RunResources
from framefold.executor._dask.workers import Batch, WorkerState


class Sending:
    """Sends one run.

    Parameters
    ----------
    resources
        Of the run.
    data
        The pickle of a :class:`framefold.executor._dask.work.ShippedRun`.
    tasks, clock
        Of the run.
    """

    def __init__(
        self, resources: RunResources, data: bytes, tasks: ClusterTasks, clock: Clock
    ) -> None:
        self._resources = resources
        self._data = Carried(resources, data)
        self._tasks = tasks
        self._clock = clock
        #: The latest parameters with their number, and as they are passed to tasks.
        self._parameters: tuple[int, Carried] | None = None
        self._changes: tuple[int, bytes | Future] | None = None

    async def change(self, number: int, data: bytes) -> None:
        """Send these parameters along from now on, unless there are some of a higher number."""
        carried = Carried(self._resources, data)
        argument = await carried.argument()
        if self._parameters is not None and self._parameters[0] > number:
            carried.release()
            return
        if self._parameters is not None:
            self._parameters[1].release()
        self._parameters = number, carried
        self._changes = number, argument

    async def bring(self) -> bytes | Future:
        """The run as an argument of tasks; it is sent again if it is lost, and so are parameters.

        Raises
        ------
        OSError, concurrent.futures.CancelledError
            As :meth:`framefold.executor._dask.resources.RunResources.argument`.
        """
        data = await self._data.argument()
        if self._parameters is not None:
            number, carried = self._parameters
            argument = await carried.argument()
            if self._parameters[0] == number:
                self._changes = number, argument
        return data

    def prepare(self, worker: WorkerState, data: bytes | Future, indices: list[int]) -> Batch:
        """Have a worker plan the run, and process a first batch, which may be empty.

        Parameters
        ----------
        data
            What :meth:`bring` returned.
        """
        if isinstance(data, Future) or worker.n_threads > 1:
            # Data that go from worker to worker, and workers whose other threads need not wait
            # for the first batch, get the run in a separate task.
            worker.run = self._resources.submit(worker.address, "run", pickle.loads, data)
            batch = self._submit(worker, "prepare", indices)
            worker.answer = batch.future
            return batch
        buffer, lent = self._lend(worker)
        first = FirstTask(indices, self._tasks.budget, lent)
        stream, buffers = first.arguments(data, self._changes)
        call = pickle.loads, stream
        worker.run = self._resources.submit(worker.address, "partitions", *call, buffers=buffers)
        worker.answer = worker.run
        return Batch(indices, worker.run, self._clock.seconds, buffer)

    def process(self, worker: WorkerState, indices: list[int]) -> Batch:
        """Have a worker process a batch."""
        return self._submit(worker, "process", indices)

    def _submit(self, worker: WorkerState, verb: str, indices: list[int]) -> Batch:
        buffer, lent = self._lend(worker)
        # Dask finds futures in tuples, too.
        arguments = indices, self._changes, self._tasks.budget, lent
        call = operator.call, worker.run, verb, *arguments
        future = self._resources.submit(worker.address, "partitions", *call)
        return Batch(indices, future, self._clock.seconds, buffer)

    def _lend(self, worker: WorkerState) -> tuple[SharedBuffer | None, tuple[Any, ...] | None]:
        """A buffer for a batch, also as a tuple: the scheduler may be without framefold."""
        buffer = self._resources.lend() if worker.may_share else None
        return buffer, None if buffer is None else tuple(buffer)
