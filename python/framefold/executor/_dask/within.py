"""Waiting for a cluster within a task of the same cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from distributed import Client, get_worker, rejoin, secede


class Absence:
    """The time for which a thread has left the pool of its worker."""

    def __init__(self) -> None:
        #: What it waits for.
        self.waiting: set[Leave] = set()


class _Here(threading.local):
    """What is known of the current thread."""

    absence: Absence | None = None


_here = _Here()


class Leave:
    """Lets the worker run other tasks while one of its own waits, as Dask does for `compute`.

    What is waited for may be a task for the very thread that waits, if the worker has no other.
    Elsewhere, it has no effect. To be made on the thread of the task, which takes a thread of the
    worker again with the end of the last run that it waits for, if that is on this thread, too.
    Runs beside an event loop end on others: taking a thread would block the loop, so the worker
    goes on to run other tasks until the task has ended.

    Parameters
    ----------
    client
        Of the cluster that is waited for.
    """

    def __init__(self, client: Client) -> None:
        self._absence = _absence(client)
        if self._absence is not None:
            self._absence.waiting.add(self)

    def end(self) -> None:
        """Take a thread of the worker again, once one is free."""
        absence, self._absence = self._absence, None
        if absence is None:
            return
        absence.waiting.discard(self)  # on any thread
        if absence is _here.absence and not absence.waiting:
            _here.absence = None
            with suppress(RuntimeError):  # the worker is closed
                rejoin()


def _absence(client: Client) -> Absence | None:
    """That of the current thread, which leaves if it is one of the client's cluster."""
    if _here.absence is None:
        scheduler: Any = client.scheduler
        try:
            worker: Any = get_worker()
            worker.get_current_task()
            if worker.scheduler.address != scheduler.address:
                return None
            secede()
        except (ValueError, KeyError):
            return None  # there is no worker, it has no task on this thread, or that has left
        _here.absence = Absence()
    return _here.absence


@contextmanager
def on_leave(client: Client) -> Iterator[None]:
    """Wait within, where the thread is perhaps one of the cluster's own."""
    leave = Leave(client)
    try:
        yield
    finally:
        leave.end()
