"""Waiting for a cluster within a task of the same cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from distributed import Client, get_worker, rejoin, secede


class Leave:
    """Lets the worker run other tasks while one of its own waits, as Dask does for `compute`.

    What is waited for may be a task for the very thread that waits, if the worker has no other.
    Elsewhere, it has no effect.

    Parameters
    ----------
    client
        Of the cluster that is waited for.
    """

    def __init__(self, client: Client) -> None:
        #: The thread that has left its worker's pool.
        self._thread: int | None = None
        scheduler: Any = client.scheduler
        try:
            worker: Any = get_worker()
            worker.get_current_task()
            if worker.scheduler.address != scheduler.address:
                return
            secede()
        except (ValueError, KeyError):
            return  # there is no worker, it has no task on this thread, or that has left before
        self._thread = threading.get_ident()

    def end(self) -> None:
        """Take a thread of the worker again, once one is free."""
        if self._thread == threading.get_ident():
            self._thread = None
            with suppress(RuntimeError):  # the worker is closed
                rejoin()


@contextmanager
def on_leave(client: Client) -> Iterator[None]:
    """Wait within, where the thread is perhaps one of the cluster's own."""
    leave = Leave(client)
    try:
        yield
    finally:
        leave.end()
