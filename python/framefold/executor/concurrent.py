"""Partitions on threads of this process."""

from __future__ import annotations

from collections.abc import Iterable

from framefold.exceptions import InvalidArgumentError
from framefold.executor.base import JobExecutor, checked_gpus


class ConcurrentJobExecutor(JobExecutor):
    """Processes partitions on threads of this process.

    Parameters
    ----------
    n_threads
        How many; as many as the process may use cores if None. With devices, those that work on
        the CPU; 0 to run what can run on devices on devices alone.
    gpus
        The CUDA devices for UDFs that take arrays of CUDA, each with a thread of its own: how
        many, or the numbers of devices; a number that is named twice gets two threads. All there
        are if None.
    """

    def __init__(
        self, n_threads: int | None = None, *, gpus: int | Iterable[int] | None = None
    ) -> None:
        self.gpus = checked_gpus(gpus)
        self.gpus_only = n_threads == 0 and self.gpus not in (None, 0, ())
        if n_threads is not None and n_threads < 1 and not self.gpus_only:
            raise InvalidArgumentError(
                f"n_threads is {n_threads}; use 1 or more, or 0 together with gpus"
            )
        # What cannot run on devices is run on as many threads as there are cores.
        self.threads = None if self.gpus_only else n_threads

    @classmethod
    def make_local(
        cls, n_threads: int | None = None, *, gpus: int | Iterable[int] | None = None
    ) -> ConcurrentJobExecutor:
        """The same as calling the class."""
        return cls(n_threads, gpus=gpus)
