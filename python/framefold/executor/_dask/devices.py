"""CUDA devices of Dask workers: which workers have one, and how they work on it.

A worker with the resource ``CUDA`` has a device: the one that ``FRAMEFOLD_USE_CUDA`` or
``LIBERTEM_USE_CUDA`` names in its environment, or else the first that it sees. The client decides
once what each UDF gets on a device and what on the CPU, from the resources of the workers.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from framefold.arrays.cuda.placement import Workers, needs_devices
from framefold.common.backend import _configured
from framefold.utils.devices import has_cupy

if TYPE_CHECKING:
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

    def __init__(self, run: Run, device: int | None, lost: tuple[int, str] | None) -> None:
        self._run = run
        self._device = device
        #: The device that this worker was to use and cannot, and why.
        self.lost = lost
        self._free: list[DeviceWorker | CpuWorker] = []

    @property
    def has_device(self) -> bool:
        """Whether this worker works on one."""
        return self._device is not None

    @contextmanager
    def one(self) -> Iterator[None]:
        """Let this thread be a worker of the run."""
        try:
            place = self._free.pop()
        except IndexError:  # all of them are in use
            place = self._run.place(self._device)
        try:
            with place.active():
                yield
        finally:
            self._free.append(place)

    def close(self) -> None:
        """Give the memory of the device back, when no task needs it any more."""
        while self._free:
            self._free.pop().close()


def places(run: Run, owner: object) -> Places | None:
    """Where this worker processes partitions; None where no devices take part.

    They are closed when ``owner`` goes.

    Raises
    ------
    MissingDeviceError
        If the run is for devices alone, and this worker has none that it can use.
    """
    workers = run.workers
    if workers is None or not workers.devices:
        return None
    device, why_none = _device(), f"it has no CUDA device (no resource {CUDA})"
    if device is not None and run.on_cupy and not has_cupy():
        device, why_none = None, "CuPy cannot be imported there"
    lost = None
    if device is not None and run.on_cupy:
        from framefold.arrays.cuda import errors

        errors.afterwards = "its Dask worker goes on without it; restart that to use it again"
        if (useless := errors.why_useless(device)) is not None:
            lost, why_none = (device, useless), f"it cannot use CUDA device {device}: {useless}"
            device = None
    if device is None and not workers.cpus:
        raise MissingDeviceError(why_none)
    made = Places(run, device, lost)
    weakref.finalize(owner, made.close).atexit = False  # the process's memory goes with it
    return made


class MissingDeviceError(Exception):
    """A worker cannot take part in a run, for want of a device or of CuPy."""


def _device() -> int | None:
    """The number of the device of the Dask worker that this is; None for one on the CPU."""
    from distributed import get_worker

    try:
        worker = get_worker()
    except ValueError:  # this is none
        return None
    if not worker.state.total_resources.get(CUDA):
        return None
    return _configured()[0] or 0  # also if it is lost
