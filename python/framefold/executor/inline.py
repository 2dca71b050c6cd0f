"""Everything on the calling thread."""

from __future__ import annotations

from collections.abc import Iterable

from framefold.executor.base import JobExecutor, checked_gpus


class InlineJobExecutor(JobExecutor):
    """Processes one partition after the other on the calling thread: for debugging.

    Parameters
    ----------
    gpus
        Whether, or on which CUDA device UDFs run that take arrays of CUDA: a number of devices,
        or a list of them, of which the first is used. On the first there is if None.
    """

    threads = 0

    def __init__(self, gpus: int | Iterable[int] | None = None) -> None:
        self.gpus = checked_gpus(gpus)
