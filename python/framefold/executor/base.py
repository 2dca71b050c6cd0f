"""What a run needs to know about an executor."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from numbers import Integral
from operator import index
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from framefold.common._integers import MOST, is_integer, whole
from framefold.common._items import has_items
from framefold.common._numbers import as_float
from framefold.common.cores import available_cores
from framefold.common.exceptions import ExecutorSpecException
from framefold.common.scheduler import WorkerInfo, WorkerSet
from framefold.exceptions import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from framefold import _engine
    from framefold.arrays.cuda.placement import Workers
    from framefold.common.progress import ProgressReporter
    from framefold.run.plan import Run
    from framefold.run.results import UDFResultDict

T = TypeVar("T")


class Crew(Protocol):
    """The workers that process the partitions of a run. Used by one thread at a time."""

    def next(self) -> _engine.Partial:
        """The next partial result, in partition order, from ``run.first`` on; waits for it."""

    def merged(self, count: int) -> None:
        """All partitions before ``count`` are merged."""

    @property
    def in_progress(self) -> int:
        """How many partitions are under way, or wait to be merged."""

    def close(self, complete: bool) -> None:
        """End what is under way; called once, when the run is ``complete`` or has failed."""


class Place(Protocol):
    """Where a worker works."""

    @property
    def device(self) -> int | None:
        """The number of its device, if it has one."""

    def active(self) -> AbstractContextManager[None]:
        """While entered, the current thread is the worker."""

    def close(self) -> None:
        """Release what the worker has, whichever thread it was."""


class JobExecutor:
    """Where partitions are processed; changes no bit of the results.

    Attributes
    ----------
    threads : int or None
        0 for the calling thread alone, None for as many threads as there are cores.
    gpus : int, tuple of int, or None
        How many CUDA devices, or which ones, work on UDFs that take arrays of CUDA; None for
        all there are.
    gpus_only : bool
        Whether such UDFs run on devices alone.
    cpus_asked_for : bool
        Whether the CPU works beside devices where these can do all that a run does.
    """

    threads: int | None = None
    gpus: int | tuple[int, ...] | None = None
    gpus_only: bool = False
    cpus_asked_for: bool = False

    def _set_workers(self, what: str, number: int | None, gpus: int | Iterable[int] | None) -> None:
        """Set how many workers there are, and their devices, from arguments.

        Raises
        ------
        InvalidArgumentError
            If they are none, or do not name devices.
        """
        number = None if number is None else whole(what, number, -MOST)
        self.gpus = checked_gpus(gpus)
        self.gpus_only = number == 0 and self.gpus not in (None, 0, ())
        self.cpus_asked_for = bool(number)
        if number is not None and number < 1 and not self.gpus_only:
            raise InvalidArgumentError(
                f"{what} is {number}; use 1 or more, or 0 together with gpus"
            )
        # What cannot run on devices is run on as many workers as there are cores.
        self.threads = None if self.gpus_only else number

    def find_workers(self, wishes: Sequence[tuple[str, ...]]) -> Workers:
        """Who takes part in a run of UDFs that take these formats, some of them of CUDA."""
        from framefold.arrays.cuda.placement import find_workers

        return find_workers(wishes, self.gpus, self.gpus_only, cpus_asked_for=self.cpus_asked_for)

    def crew(self, run: Run) -> Crew | None:
        """Who processes the partitions of a run; None for the engine's threads."""
        return None

    def places(self, run: Run) -> list[Place]:
        """Where each of the engine's threads works, if that is not just any thread."""
        return list(run.places()) if run.devices else []

    def later(
        self, run: Run, progress: ProgressReporter | None, plots: Any
    ) -> tuple[UDFResultDict, ...] | None:
        """Results that are computed when their values are used; None to run at once."""
        return None

    def explain(self, run: Run) -> str:
        """What is to be said about where partitions are processed: lines, or nothing."""
        return ""

    def run_function(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """What a function returns: called on any worker of Dask, otherwise in this process."""
        return fn(*args, **kwargs)

    def map(self, fn: Callable[[Any], T], iterable: Iterable[Any]) -> list[T]:
        """What a function returns for each entry, called as by :meth:`run_function`, in order."""
        return [fn(each) for each in iterable]

    def run_each_worker(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> dict[str, T]:
        """What a function returns on each worker, by name: here, this process is the only one.

        Raises
        ------
        UnsupportedError
            If workers are other processes, which come and go with runs.
        """
        return {worker.name: fn(*args, **kwargs) for worker in self.get_available_workers()}

    def run_each_host(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> dict[str, T]:
        """What a function returns on one worker of each host, by host."""
        return {platform.node(): fn(*args, **kwargs)}

    def get_available_workers(self) -> WorkerSet:
        """The workers that functions can be called on: this process, unless there are others."""
        n_threads = max(1, available_cores() if self.threads is None else self.threads)
        tags = {"CPU": 1, "compute": 1, "ndarray": 1}
        return WorkerSet([WorkerInfo("main", platform.node(), n_threads, tags)])

    def ensure_sync(self) -> JobExecutor:
        """The executor itself: there is no other kind."""
        return self

    def close(self) -> None:
        """Release what the executor holds, and the pinned memory that stays for later runs."""
        staging = sys.modules.get("framefold.arrays.cuda.staging")
        if staging is not None:
            staging.drop_spare()

    def __enter__(self) -> JobExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


#: The name of the reference for what all executors are.
BaseJobExecutor = JobExecutor


def check_seconds(**limits: float | None) -> None:
    """Raise if a time limit, by the name of its parameter, is none."""
    for name, seconds in limits.items():
        if seconds is not None and not (as_float(seconds) or 0.0) > 0:
            raise InvalidArgumentError(f"{name} is {seconds!r}; use a number of seconds above 0")


def cannot_be_pickled(executor: JobExecutor) -> Exception:
    """For executors that have workers."""
    return UnsupportedError(
        f"a {type(executor).__name__} cannot be pickled or copied: its workers belong to it; make "
        f"another context where one is needed, and refer to none in functions that workers run"
    )


def checked_gpus(gpus: int | Iterable[int] | None) -> int | tuple[int, ...] | None:
    """``gpus`` as executors keep it.

    Raises
    ------
    InvalidArgumentError
        If it is no number of devices, and does not name devices.
    """
    if gpus is None:
        return None
    numbers: tuple[Any, ...] = tuple(gpus) if has_items(gpus) else (gpus,)
    if not all(is_integer(n) and n >= 0 for n in numbers):
        raise InvalidArgumentError(
            f"gpus is {gpus!r}, expected how many CUDA devices to use, or the numbers of devices "
            f"such as [0, 1]"
        )
    found = tuple(map(index, numbers))
    return found if has_items(gpus) else found[0]


def listed(devices: int | Iterable[int], name: str) -> list[int]:
    """The entries of a parameter that says how many workers, or which ones."""
    numbers: list[Any] = list(devices) if has_items(devices) else [devices]
    if not all(is_integer(n) and n >= 0 for n in numbers):
        raise InvalidArgumentError(f"{name} is {devices!r}; use how many, or a list of them")
    return numbers if has_items(devices) else list(range(numbers[0]))


def check_main_process_gpu(main_process_gpu: int | bool | None) -> None:
    """Look at an argument that has no effect: partial results are merged on the CPU.

    Raises
    ------
    ExecutorSpecException
        If it is neither the number of a device, nor True, False or None.
    """
    if main_process_gpu is None or isinstance(main_process_gpu, bool):
        return
    if not isinstance(main_process_gpu, Integral) or main_process_gpu < 0:
        raise ExecutorSpecException(
            f"main_process_gpu is {main_process_gpu!r}, expected the number of a device, True, "
            f"False or None; it is of no effect, as partial results are merged on the CPU"
        )
