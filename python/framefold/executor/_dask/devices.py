"""CUDA devices of Dask workers: which workers have one, and how they work on it.

A worker with the resource ``CUDA`` has a device: the one that ``FRAMEFOLD_USE_CUDA`` or
``LIBERTEM_USE_CUDA`` names in its environment, or else the first that it sees. The client decides
once what each UDF gets on a device and what on the CPU, from the resources of the workers.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from framefold.arrays.cuda.placement import Workers, needs_devices
from framefold.common.backend import get_use_cuda
from framefold.utils.devices import has_cupy

if TYPE_CHECKING:
    from distributed import Client

    from framefold.arrays.cuda.worker import CpuWorker, DeviceWorker
    from framefold.run.plan import Run

#: The name of the resource.
CUDA = "CUDA"

Resources = Mapping[str, float]


def tags(n_threads: int, *, cuda: bool, ndarray: bool) -> dict[str, float]:
    """The resources of a worker of a local cluster: those of the reference system."""
    kinds = [CUDA if cuda else "CPU", "compute", *(["ndarray"] if ndarray else [])]
    return dict.fromkeys(kinds, n_threads)


def in_spec(spec: Mapping[Any, Any]) -> list[Resources]:
    """The resources of each worker of a specification."""
    given = (worker.get("options", {}) for worker in spec.values())
    return [options.get("options", options).get("resources") or {} for options in given]


def in_cluster(client: Client, patience: float) -> list[Resources]:
    """The resources of each worker of a cluster; waits for a first one."""
    if not client.nthreads():
        task = client.submit(bool, pure=False)  # for which a cluster that adapts starts one
        try:
            client.wait_for_workers(1, timeout=patience)
        except TimeoutError:
            return []  # the run says so in its own words
        finally:
            task.release()
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return [worker.get("resources") or {} for worker in workers]


def find_workers(
    wishes: Sequence[tuple[str, ...]], there: Sequence[Resources], scheduler: str
) -> Workers:
    """Who takes part in a run of UDFs that take these formats, some of them of CUDA.

    Parameters
    ----------
    wishes
        Of the UDFs.
    there
        The resources of each worker.
    scheduler
        Its address, for messages.
    """
    with_device = [resources for resources in there if resources.get(CUDA)]
    if not with_device:
        why = (
            f"no worker of the Dask scheduler at {scheduler} has the resource {CUDA}; start one on "
            f"each device with `dask worker {scheduler} --nthreads 1 --resources {CUDA}=1`"
        )
        return Workers(why_none=why, elsewhere=True)
    on_cpu = len(with_device) < len(there) and not needs_devices(wishes)
    # Which device that is, each worker knows.
    return Workers(on_cpu, (0,), elsewhere=True)


class Places:
    """Where the threads of this worker process partitions of a run in which devices take part."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._device = _usable_device(run)
        self._lock = threading.Lock()
        self._free: list[DeviceWorker | CpuWorker] = []

    @contextmanager
    def one(self) -> Iterator[None]:
        """Let this thread be a worker of the run."""
        with self._lock:
            place = self._free.pop() if self._free else self._run.place(self._device)
        try:
            with place.active():
                yield
        finally:
            with self._lock:
                self._free.append(place)

    def close(self) -> None:
        """Give the memory of the device back, when no task needs it any more."""
        while self._free:
            self._free.pop().close()


def working(places: Places | None) -> AbstractContextManager[None]:
    """Let this thread be a worker of the run whose places these are."""
    return nullcontext() if places is None else places.one()


def places(run: Run, owner: object) -> Places | None:
    """Where this worker processes partitions; None where no devices take part.

    They are closed when ``owner`` goes.

    Raises
    ------
    MissingDeviceError
        If the run is for devices alone, and this worker has none.
    """
    workers = run.workers
    if workers is None or not workers.devices:
        return None
    if not workers.cpus and _usable_device(run) is None:
        if _device() is None:
            raise MissingDeviceError(f"it has no CUDA device (no resource {CUDA})")
        raise MissingDeviceError("CuPy cannot be imported there")
    made = Places(run)
    weakref.finalize(owner, made.close).atexit = False  # the process's memory goes with it
    return made


class MissingDeviceError(Exception):
    """A worker cannot take part in a run, for want of a device or of CuPy."""


def _usable_device(run: Run) -> int | None:
    device = _device()
    return None if device is None or (run.on_cupy and not has_cupy()) else device


def _device() -> int | None:
    """The number of the device of the Dask worker that this is; None for one on the CPU."""
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:  # this is none
        return None
    if not worker.state.total_resources.get(CUDA):
        return None
    return get_use_cuda() or 0
