"""The executor that fits the scheduler which Dask uses now."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from framefold.common._foreign import size_of
from framefold.exceptions import MissingLibraryError, UnsupportedError
from framefold.executor.base import JobExecutor, check_main_process_gpu
from framefold.executor.concurrent import ConcurrentJobExecutor
from framefold.executor.inline import InlineJobExecutor
from framefold.executor.processes import ProcessJobExecutor

__all__ = ["get_dask_integration_executor"]


def get_dask_integration_executor(
    main_process_gpu: int | bool | None = None,
) -> JobExecutor:
    """Work where Dask works now.

    Parameters
    ----------
    main_process_gpu
        Accepted and of no effect: partial results are merged on the CPU.

    Returns
    -------
    JobExecutor
        With a client of :mod:`distributed`, its cluster; the client is not closed by the executor.
        Otherwise threads, worker processes or the calling thread of this process, as many as
        ``num_workers`` or ``pool`` of :mod:`dask.config` say.

    Raises
    ------
    UnsupportedError
        If Dask uses a scheduler of another kind, or has none here, as in ``async def`` tasks.
    """
    check_main_process_gpu(main_process_gpu)
    try:
        import dask
        import dask.base
        import dask.local
        import dask.multiprocessing
        import dask.threaded
    except ImportError as error:
        raise MissingLibraryError(
            "Dask is not installed, which this executor needs: pip install 'framefold[dask]'"
        ) from error
    try:
        scheduler = dask.base.get_scheduler() or dask.threaded.get
    except (RuntimeError, ValueError) as error:
        raise UnsupportedError(
            f"Dask has no scheduler here: {error}. In an `async def` task, or with "
            f"Client(asynchronous=True), framefold cannot wait for the cluster: use `def`, another "
            f"client, or another executor, such as Context.make_with('threads')"
        ) from error
    client = _client(scheduler)
    if client is not None:
        from framefold.executor.dask import DaskJobExecutor

        return DaskJobExecutor(client)
    n_workers = dask.config.get("num_workers", None)
    if scheduler is dask.local.get_sync:
        return InlineJobExecutor()
    if scheduler is dask.threaded.get:
        return _on_pool(dask.config.get("pool", None), n_workers) or ConcurrentJobExecutor(
            n_workers
        )
    if scheduler is dask.multiprocessing.get:
        return ProcessJobExecutor(n_workers)
    # dask.config.set(scheduler=an executor of concurrent.futures)
    submit = next(iter(getattr(scheduler, "args", ())), None)
    executor = _on_pool(getattr(submit, "__self__", None), n_workers)
    if executor is None:
        raise UnsupportedError(
            f"the scheduler that Dask uses now, {scheduler!r}, is none that framefold can work on; "
            f"use a distributed.Client, 'threads', 'processes' or 'synchronous', or another "
            f"executor, such as Context.make_with('threads')"
        )
    return executor


def _client(scheduler: Any) -> Any:
    """The client whose method ``get`` the scheduler is, if it is one."""
    owner = getattr(scheduler, "__self__", None)
    module = type(owner).__module__.partition(".")[0]
    return owner if module == "distributed" else None


def _on_pool(pool: Any, n_workers: int | None) -> JobExecutor | None:
    """What does the same as a pool that users gave to Dask, if that is known."""
    import dask.local

    if isinstance(pool, dask.local.SynchronousExecutor):
        return InlineJobExecutor()
    n_workers = n_workers or size_of(pool)
    if isinstance(pool, ThreadPoolExecutor):
        return ConcurrentJobExecutor(n_workers)
    if isinstance(pool, ProcessPoolExecutor):
        return ProcessJobExecutor(n_workers)
    return None
