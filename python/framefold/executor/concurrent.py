"""Partitions on threads of this process."""

from __future__ import annotations

from framefold.exceptions import InvalidArgumentError
from framefold.executor.base import JobExecutor


class ConcurrentJobExecutor(JobExecutor):
    """Processes partitions on threads of this process.

    Parameters
    ----------
    n_threads
        How many; as many as the process may use cores if None.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        if n_threads is not None and n_threads < 1:
            raise InvalidArgumentError(f"n_threads is {n_threads}; use 1 or more")
        self.threads = n_threads

    @classmethod
    def make_local(cls, n_threads: int | None = None) -> ConcurrentJobExecutor:
        """The same as calling the class."""
        return cls(n_threads)
