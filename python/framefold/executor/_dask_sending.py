"""What goes to the workers of a Dask cluster in one run: the run, changed parameters, and batches.

Used on the event loop of the client alone.
"""

from __future__ import annotations

import operator
import pickle
from typing import Any

from distributed import Future

from framefold.executor._clock import Clock
from framefold.executor._dask_beginning import Beginning
from framefold.executor._dask_belongings import Belongings, Carried
from framefold.executor._dask_hand import Batch, Hand
from framefold.executor._dask_tasks import ClusterTasks
from framefold.executor._dask_trays import Tray


class Sending:
    """Sends one run.

    Parameters
    ----------
    things
        What it has on the cluster.
    data
        The pickle of a :class:`framefold.executor._dask_work.Shipped`.
    tasks, clock
        Of the run.
    """

    def __init__(self, things: Belongings, data: bytes, tasks: ClusterTasks, clock: Clock) -> None:
        self._things = things
        self._data = Carried(things, data)
        self._tasks = tasks
        self._clock = clock
        #: The latest parameters with their number, and as they are passed to tasks.
        self._parameters: tuple[int, Carried] | None = None
        self._changes: tuple[int, bytes | Future] | None = None

    async def change(self, number: int, data: bytes) -> None:
        """Send these parameters along from now on, unless there are some of a higher number."""
        carried = Carried(self._things, data)
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
            As :meth:`framefold.executor._dask_belongings.Belongings.argument`.
        """
        data = await self._data.argument()
        if self._parameters is not None:
            number, carried = self._parameters
            argument = await carried.argument()
            if self._parameters[0] == number:
                self._changes = number, argument
        return data

    def begin(self, hand: Hand, data: bytes | Future, indices: list[int]) -> Batch:
        """Have a worker plan the run, and process a first batch, which may be empty.

        Parameters
        ----------
        data
            What :meth:`bring` returned.
        """
        if isinstance(data, Future) or hand.n_threads > 1:
            # It goes from worker to worker; or other threads do not wait for the first batch.
            hand.run = self._things.submit(hand.address, "run", pickle.loads, data)
            batch = self._submit(hand, "begin", indices)
            hand.answer = batch.future
            return batch
        tray, told = self._lend(hand)
        beginning = Beginning(indices, self._tasks.budget, told)
        stream, buffers = beginning.arguments(data, self._changes)
        call = pickle.loads, stream
        hand.run = self._things.submit(hand.address, "partitions", *call, buffers=buffers)
        hand.answer = hand.run
        return Batch(indices, hand.run, self._clock.seconds, tray)

    def process(self, hand: Hand, indices: list[int]) -> Batch:
        """Have a worker process a batch."""
        return self._submit(hand, "process", indices)

    def _submit(self, hand: Hand, verb: str, indices: list[int]) -> Batch:
        tray, told = self._lend(hand)
        # Dask finds futures in tuples, too.
        arguments = indices, self._changes, self._tasks.budget, told
        call = operator.call, hand.run, verb, *arguments
        future = self._things.submit(hand.address, "partitions", *call)
        return Batch(indices, future, self._clock.seconds, tray)

    def _lend(self, hand: Hand) -> tuple[Tray | None, tuple[Any, ...] | None]:
        """Memory for a batch, and as the worker is told of it; its scheduler knows no class."""
        tray = self._things.lend() if hand.may_share else None
        return tray, None if tray is None else tuple(tray)
