"""Partitions on threads of this process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from framefold.common._foreign import size_of
from framefold.exceptions import InvalidArgumentError
from framefold.executor.base import JobExecutor, check_main_process_gpu

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class ConcurrentJobExecutor(JobExecutor):
    """Processes partitions on threads of this process.

    Parameters
    ----------
    client
        A :class:`concurrent.futures.ThreadPoolExecutor`, which says how many; the threads are
        framefold's own. Or their number.
    is_local
        Of no effect.
    main_process_gpu
        Accepted and of no effect: partial results are merged on the CPU.
    n_threads
        How many; as many as the process may use cores if None. With devices, those that work on
        the CPU; 0 to run what can run on devices on devices alone.
    gpus
        The CUDA devices for UDFs that take arrays of CUDA, each with a separate thread: how
        many, or the numbers of devices; a number that is named twice gets two threads. All there
        are if None.
    """

    def __init__(
        self,
        client: ThreadPoolExecutor | int | None = None,
        is_local: bool = False,
        main_process_gpu: int | bool | None = None,
        *,
        n_threads: int | None = None,
        gpus: int | Iterable[int] | None = None,
    ) -> None:
        check_main_process_gpu(main_process_gpu)
        if client is not None:
            n_threads = _threads_of(client)
        self._set_workers("n_threads", n_threads, gpus)

    @classmethod
    def make_local(
        cls,
        n_threads: int | None = None,
        main_process_gpu: int | bool | None = None,
        *,
        gpus: int | Iterable[int] | None = None,
    ) -> ConcurrentJobExecutor:
        """The same as calling the class."""
        return cls(n_threads, main_process_gpu=main_process_gpu, gpus=gpus)


def _threads_of(client: Any) -> int:
    """How many threads a pool has, or the number itself."""
    if isinstance(client, int):
        return client
    from concurrent.futures import ThreadPoolExecutor

    n_threads = size_of(client)
    if not isinstance(client, ThreadPoolExecutor) or n_threads is None:
        raise InvalidArgumentError(
            f"client is a {type(client).__name__}, expected a ThreadPoolExecutor or a number of "
            f"threads; for worker processes use ProcessJobExecutor(n_workers)"
        )
    return n_threads
