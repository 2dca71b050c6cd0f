"""Which workers a local Dask cluster has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from framefold.exceptions import InvalidArgumentError


def cluster_spec(
    cpus: int | Iterable[int],
    cudas: int | Iterable[int] = (),
    has_cupy: bool = False,
    name: str = "default",
    num_service: int = 1,
    options: Mapping[str, Any] | None = None,
    preload: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Workers for :meth:`DaskJobExecutor.make_local`: a process for each CPU and CUDA device.

    Parameters
    ----------
    cpus
        How many workers, or an iterable with one entry for each.
    cudas
        How many CUDA devices, or the numbers of devices; one that is named twice gets two workers.
    has_cupy
        Whether workers with a device have the resource ``ndarray``; CuPy is used where it is
        installed.
    num_service
        Accepted and of no effect.
    name
        Names of workers begin with it.
    options
        For :class:`distributed.Worker`. Each has one thread if ``nthreads`` is not given.
    preload
        Modules that workers import when they start.

    Notes
    -----
    Workers have the resources of the reference system: ``CPU`` or ``CUDA``, ``compute``, and
    ``ndarray``.
    """
    from framefold.executor._dask.cluster import LocalWorker
    from framefold.executor._dask.devices import tags

    numbers, devices = _numbers(cpus, "cpus"), _numbers(cudas, "cudas")
    if not numbers and not devices:
        raise InvalidArgumentError("cpus is 0; a cluster needs at least one worker")
    given = {"nthreads": 1, "memory_limit": 0, **(options or {})}
    if preload:
        given["preload"] = list(preload)
    n_threads = given["nthreads"]
    on_cpu = {"resources": tags(n_threads, cuda=False, ndarray=True), **given}
    on_cuda = {"resources": tags(n_threads, cuda=True, ndarray=has_cupy), **given}
    spec: dict[str, Any] = {
        f"{name}-cpu-{number}": {"cls": LocalWorker, "options": {"options": on_cpu}}
        for number in numbers
    }
    for place, device in enumerate(devices):
        repeated = devices[:place].count(device)
        key = f"{name}-cuda-{device}" + (f"-{repeated - 1}" if repeated else "")
        spec[key] = {"cls": LocalWorker, "options": {"options": on_cuda, "device": device}}
    return spec


def _numbers(devices: int | Iterable[int], name: str) -> list[int]:
    numbers = list(range(devices)) if isinstance(devices, int) else list(devices)
    if isinstance(devices, bool) or (isinstance(devices, int) and devices < 0):
        raise InvalidArgumentError(f"{name} is {devices!r}; use how many, or a list of them")
    return numbers
