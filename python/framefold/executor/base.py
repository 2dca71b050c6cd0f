"""What a run needs to know about an executor."""

from __future__ import annotations


class JobExecutor:
    """Where partitions are processed; changes no bit of the results.

    Attributes
    ----------
    threads : int or None
        0 for the calling thread alone, None for as many threads as there are cores.
    """

    threads: int | None = None

    def close(self) -> None:
        """Release what the executor holds: nothing, for those that start threads per run."""

    def __enter__(self) -> JobExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
