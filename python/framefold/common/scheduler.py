"""The workers of an executor, under the module path of the reference system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["Worker", "WorkerInfo", "WorkerSet"]


class WorkerInfo(NamedTuple):
    """A worker, as :meth:`JobExecutor.get_available_workers` tells of it."""

    name: str
    host: str
    n_threads: int
    #: Tags of Dask: ``CPU`` or ``CUDA``, ``compute``, ``ndarray``.
    resources: Mapping[str, float]

    @property
    def nthreads(self) -> int:
        """``n_threads``, as the reference system spells it."""
        return self.n_threads


Worker = WorkerInfo


class WorkerSet(list[WorkerInfo]):
    """A list of workers that can be sorted out."""

    @property
    def workers(self) -> list[WorkerInfo]:
        """The workers themselves."""
        return list(self)

    def names(self) -> list[str]:
        """Their names."""
        return [worker.name for worker in self]

    def hosts(self) -> set[str]:
        """The hosts that they are on."""
        return {worker.host for worker in self}

    def filter(self, fn: Callable[[WorkerInfo], bool]) -> WorkerSet:
        """Those for which a function says True."""
        return WorkerSet(filter(fn, self))

    def has_cpu(self) -> WorkerSet:
        """Those that work on the CPU."""
        return self.filter(lambda worker: "CPU" in worker.resources)

    def has_cuda(self) -> WorkerSet:
        """Those that work on a CUDA device."""
        return self.filter(lambda worker: "CUDA" in worker.resources)

    def get_by_host(self, host: str) -> WorkerSet:
        """Those on a host."""
        return self.filter(lambda worker: worker.host == host)

    def group_by_host(self) -> list[WorkerSet]:
        """Those on each host, by its name."""
        return [self.get_by_host(host) for host in sorted(self.hosts())]

    def example(self) -> WorkerInfo:
        """The first one."""
        return self[0]

    def concurrency(self) -> int:
        """How many threads they have together."""
        return sum(worker.n_threads for worker in self)

    def has_threaded_workers(self) -> bool:
        """Whether one of them has several threads."""
        return any(worker.n_threads > 1 for worker in self)
