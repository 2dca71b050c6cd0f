"""The first task of a run on a Dask worker of one thread: its result is the run.

Two tasks, one for the run and one for its first batch, would cost twice as much, and the time in
between.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from distributed import Future

from framefold.executor._dask.work import Planned, ShippedRun


class FirstResult:
    """A run that lies on a worker; on the client, the worker's answer about it.

    Parameters
    ----------
    shipped
        The run, if it is here.
    planned
        What came of planning, and of the first batch.
    data
        The pickled run, to make it again if Dask writes it to disk and reads it back.
    """

    def __init__(self, shipped: ShippedRun | None, planned: Planned, data: bytes) -> None:
        self.planned = planned
        self._shipped = shipped
        self._data = data
        self._lock = threading.Lock()
        self._is_fetched = False

    def __reduce__(self) -> Any:
        self._is_fetched = True
        return FirstResult, (None, self.planned, self._data)

    def __call__(self, verb: str, *arguments: Any) -> Any:
        """As :class:`framefold.executor._dask.work.ShippedRun`."""
        with self._lock:
            if self._shipped is None:
                self._shipped = pickle.loads(self._data)
            if self._is_fetched and self.planned.answer is not None:
                # A client that fetches it again gets no results, and has the batch processed again.
                kind, detail, shares = self.planned.kind, self.planned.detail, self.planned.shares
                self.planned = Planned(kind, detail, None, shares)
        return self._shipped(verb, *arguments)


class FirstTask(NamedTuple):
    """What the worker is to do; pickled, it is a call of :func:`prepare`.

    Dask's scheduler reads the function and the arguments of a task, and may be without framefold:
    so the function is ``pickle.loads``, and this is an argument.
    """

    indices: Sequence[int]
    budget: tuple[float, int]
    buffer: Sequence[Any] | None

    def arguments(
        self, data: bytes, changes: tuple[int, bytes | Future] | None
    ) -> tuple[bytes, list[bytes | Future]]:
        """For ``pickle.loads``: the pickle, and its buffers, which may be futures.

        Parameters
        ----------
        data
            The run.
        changes
            The latest changes of parameters with their number, if there are any.
        """
        number, changed = (None, b"") if changes is None else changes
        buffers = pickle.PickleBuffer(b"run"), pickle.PickleBuffer(b"changes")
        call = _Call((*buffers, number, *self))
        return pickle.dumps(call, 5, buffer_callback=lambda _: None), [data, changed]


class _Call:
    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self._arguments = arguments

    def __reduce__(self) -> Any:
        return prepare, self._arguments


def prepare(
    data: bytes,
    changed: bytes,
    number: int | None,
    indices: Sequence[int],
    budget: tuple[float, int],
    buffer: Sequence[Any] | None,
) -> FirstResult:
    """Open the data set, plan the run, and process the first batch.

    Parameters
    ----------
    data
        The run.
    changed, number
        The latest changes of parameters, if they have a number.
    indices, budget, buffer
        As for :meth:`framefold.executor._dask.work.ShippedRun.process`.
    """
    shipped: ShippedRun = pickle.loads(data)
    changes = None if number is None else (number, changed)
    return FirstResult(shipped, shipped("prepare", indices, changes, budget, buffer), data)
