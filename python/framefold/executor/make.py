"""Executors by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

from framefold.common._integers import whole
from framefold.common.cores import available_cores
from framefold.common.exceptions import ExecutorSpecException
from framefold.executor.auto import AutoJobExecutor
from framefold.executor.base import JobExecutor, check_main_process_gpu, checked_gpus, listed
from framefold.executor.concurrent import ConcurrentJobExecutor
from framefold.executor.inline import InlineJobExecutor
from framefold.executor.processes import ProcessJobExecutor

ExecutorName = Literal[
    "auto",
    "inline",
    "synchronous",
    "threads",
    "processes",
    "pipelined",
    "dask",
    "dask-make-default",
    "dask-integration",
    "delayed",
]


def make_executor(
    name: str,
    cpus: int | Iterable[int] | None = None,
    gpus: int | Iterable[int] | None = None,
    main_process_gpu: int | bool | None = None,
) -> JobExecutor:
    """The executor of that name; see :meth:`framefold.Context.make_with`."""
    if name not in get_args(ExecutorName):
        raise ExecutorSpecException(
            f"there is no executor {name!r}; use 'auto', 'inline' (or 'synchronous'), 'threads', "
            f"'processes' (or 'pipelined'), 'dask', 'dask-make-default', 'dask-integration' or "
            f"'delayed'"
        )
    check_main_process_gpu(main_process_gpu)
    if name == "auto":
        return AutoJobExecutor(_count(cpus), gpus=gpus)
    if name == "delayed":
        if cpus is not None or gpus is not None:
            raise ExecutorSpecException(
                "cpus and gpus have no meaning for 'delayed': Dask's scheduler says which workers "
                "there are; leave them out"
            )
        from framefold.executor.delayed import DelayedJobExecutor

        return DelayedJobExecutor()
    if name == "threads":
        return ConcurrentJobExecutor(_count(cpus), gpus=gpus)
    if name == "dask-integration":
        if cpus is not None or gpus is not None:
            raise ExecutorSpecException(
                "cpus and gpus cannot be chosen for 'dask-integration': what Dask uses now is used"
            )
        from framefold.executor.integration import get_dask_integration_executor

        return get_dask_integration_executor()
    if name in ("dask", "dask-make-default"):
        from framefold.executor.dask import DaskJobExecutor, import_distributed

        import_distributed()
        return DaskJobExecutor.make_local(
            _cluster_spec(cpus, checked_gpus(gpus)),
            client_kwargs={"set_as_default": name == "dask-make-default"},
        )
    if name in ("processes", "pipelined"):
        return ProcessJobExecutor(_count(cpus), gpus=gpus)
    return InlineJobExecutor(gpus=gpus)


def _cluster_spec(
    cpus: int | Iterable[int] | None, gpus: int | tuple[int, ...] | None
) -> dict[str, Any]:
    from framefold.arrays.cuda.placement import devices_by_default, picked
    from framefold.executor.dask import cluster_spec
    from framefold.utils.devices import cuda_ids

    devices = devices_by_default() if gpus is None else picked(cuda_ids() if gpus else [], gpus)
    if cpus is not None and not isinstance(cpus, Iterable):
        cpus = whole("cpus", cpus)
    return cluster_spec(available_cores() if cpus is None else cpus, devices, bool(devices))


def _count(cpus: int | Iterable[int] | None) -> int | None:
    if cpus is None:
        return None
    return len(listed(cpus, "cpus")) if isinstance(cpus, Iterable) else whole("cpus", cpus)
