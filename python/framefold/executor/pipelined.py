"""The reference system's name for worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict

from framefold.exceptions import InvalidArgumentError
from framefold.executor._wire import code, pickles
from framefold.executor.base import check_main_process_gpu, listed
from framefold.executor.processes import ProcessJobExecutor

__all__ = ["PipelinedExecutor", "WorkerSpec"]


class WorkerSpec(TypedDict):
    """What is known of a worker before it starts."""

    name: str
    device_id: int
    device_kind: str
    worker_idx: int
    has_cupy: bool


class PipelinedExecutor(ProcessJobExecutor):
    """The same as :class:`ProcessJobExecutor`, with the reference system's arguments.

    Parameters
    ----------
    spec
        From :meth:`make_spec`: one entry for each worker, whose ``device_kind`` and, with
        ``"CUDA"``, ``device_id`` count. One for each core and each CUDA device if None.
    pin_workers
        Accepted and of no effect: the system decides which core a worker runs on.
    startup_timeout
        How many seconds a worker process may take to start.
    cleanup_timeout
        Accepted and of no effect: workers that do not end are killed.
    early_setup
        Called without arguments in each worker before its first run. If it raises, so does the run.
    main_process_gpu
        Accepted and of no effect: partial results are merged on the CPU.
    timeout
        As for :class:`ProcessJobExecutor`.
    """

    def __init__(
        self,
        spec: Sequence[WorkerSpec] | None = None,
        pin_workers: bool = True,
        startup_timeout: float = 60.0,
        cleanup_timeout: float = 10.0,
        early_setup: Callable[[], Any] | None = None,
        main_process_gpu: int | bool | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        check_main_process_gpu(main_process_gpu)
        n_workers, devices = None, None
        if spec is not None:
            devices = [each["device_id"] for each in spec if each["device_kind"] == "CUDA"]
            n_workers = len(spec) - len(devices)
        super().__init__(n_workers, gpus=devices, timeout=timeout, startup_timeout=startup_timeout)
        if early_setup is not None:
            self._setup = _packed(early_setup)

    @classmethod
    def make_local(  # type: ignore[override] # the reference system's own
        cls, main_process_gpu: int | bool | None = None, **options: Any
    ) -> PipelinedExecutor:
        """One worker for each core and device; ``options`` are those of the class."""
        return cls(main_process_gpu=main_process_gpu, **options)

    @staticmethod
    def make_spec(
        cpus: int | Iterable[int], cudas: int | Iterable[int] = (), has_cupy: bool = False
    ) -> list[WorkerSpec]:
        """One entry for each of ``cudas`` and ``cpus``, which are numbers or iterables.

        A CUDA device that is named twice gets two workers. ``has_cupy`` is only noted: CuPy is
        used where it is installed.
        """
        kinds = ("CUDA", listed(cudas, "cudas"), has_cupy), ("CPU", listed(cpus, "cpus"), False)
        spec: list[WorkerSpec] = []
        for kind, devices, with_cupy in kinds:
            for place, device in enumerate(devices):
                repeated = devices[:place].count(device)
                worker = WorkerSpec(
                    name=f"{kind.lower()}-{device}" + (f"-{repeated}" if repeated else ""),
                    device_id=device,
                    device_kind=kind,
                    worker_idx=len(spec),
                    has_cupy=with_cupy,
                )
                spec.append(worker)
        return spec


def _packed(early_setup: Callable[[], Any]) -> bytes:
    if not callable(early_setup):
        raise InvalidArgumentError(
            f"early_setup is {early_setup!r}, expected a function without parameters"
        )
    try:
        return pickles.packed(code.sent(early_setup))
    except Exception as error:
        raise InvalidArgumentError(
            f"early_setup cannot be sent to worker processes: {error}"
        ) from error
