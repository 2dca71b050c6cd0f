"""Data sets that stay open in worker processes, from one run to the next.

What is mapped into memory once need not be found in the system's cache page by page again, which
takes up to a fifth of a short run. A data set is kept for some seconds, and used again only if it
is asked for with the same words, and all its files are what they were.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from typing import Any

from framefold.executor._wire.code import packed
from framefold.io.dataset.base import DataSet

#: How long an unused data set stays open, in seconds.
SECONDS = 10.0
#: How many data sets stay open.
MOST = 4

#: Files that were changed within so many seconds are opened anew: the clock of their system is no
#: finer.
SETTLED = 2.0


class Sent:
    """A data set as it goes to worker processes, where :func:`opened` opens it."""

    def __init__(self, dataset: DataSet) -> None:
        self._dataset = dataset

    def __reduce__(self) -> tuple[Any, ...]:
        return opened, (packed(self._dataset),)


def sent(dataset: DataSet) -> Any:
    """What to send of a data set: itself, unless it can be kept open."""
    # Elsewhere, files that are open cannot be removed.
    is_plain = type(dataset).__reduce__ is DataSet.__reduce__
    can_be_kept = sys.platform != "win32" and is_plain and dataset.paths
    return Sent(dataset) if can_be_kept else dataset


_lock = threading.Lock()
_open_datasets: dict[bytes, DataSet] = {}
_timer: threading.Timer | None = None


def opened(data: bytes) -> DataSet:
    """The data set of a pickle.

    Raises
    ------
    FramefoldError
        If it cannot be opened, or is not what it was when it was opened.
    """
    with _lock:
        kept = _open_datasets.pop(data, None)
    if kept is None or not _is_settled(kept):
        dataset: DataSet = pickle.loads(data)
    else:
        dataset = kept
        dataset._check_files()
    with _lock:
        if _is_settled(dataset):
            _open_datasets[data] = dataset  # the latest is the last
        while len(_open_datasets) > MOST:
            del _open_datasets[next(iter(_open_datasets))]
        _forget_later()
    return dataset


def forget() -> None:
    """Close all data sets that no run uses."""
    with _lock:
        _open_datasets.clear()


def _forget_later() -> None:
    global _timer
    if _timer is not None:
        _timer.cancel()
    _timer = threading.Timer(SECONDS, forget)
    _timer.daemon = True
    _timer.start()


def _is_settled(dataset: DataSet) -> bool:
    """Whether all files are there, and none may be changed again without a trace."""
    latest = time.time() - SETTLED
    try:
        return all(os.stat(path).st_mtime <= latest for path in dataset.paths)
    except OSError:
        return False
