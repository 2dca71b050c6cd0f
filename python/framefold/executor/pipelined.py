"""The reference system's name for worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict

from framefold.exceptions import InvalidArgumentError, UnsupportedError
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
        From :meth:`make_spec`: one entry for each worker. One for each core if None.
    pin_workers
        Accepted and of no effect: the system decides which core a worker runs on.
    startup_timeout
        How many seconds a worker process may take to start.
    cleanup_timeout
        Accepted and of no effect: workers that do not end are killed.
    early_setup
        Not available: None.
    main_process_gpu
        Not available: None or False.
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
        main_process_gpu: int | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        if early_setup is not None:
            raise UnsupportedError("early_setup: no function can be run in workers; leave it out")
        if main_process_gpu is not None and main_process_gpu is not False:
            raise UnsupportedError("main_process_gpu: no GPU is used; leave it out")
        n_workers = None if spec is None else len(spec)
        super().__init__(n_workers, timeout=timeout, startup_timeout=startup_timeout)

    @classmethod
    def make_local(  # type: ignore[override] # the reference system's own
        cls, main_process_gpu: int | bool | None = None, **options: Any
    ) -> PipelinedExecutor:
        """One worker for each core; ``options`` are those of the class."""
        return cls(main_process_gpu=main_process_gpu, **options)

    @staticmethod
    def make_spec(
        cpus: int | Iterable[int], cudas: int | Iterable[int] = (), has_cupy: bool = False
    ) -> list[WorkerSpec]:
        """One entry for each of ``cpus``, a number or an iterable.

        Raises
        ------
        InvalidArgumentError
            If ``cudas`` names devices: workers use none.
        """
        n_devices = cudas if isinstance(cudas, int) else len(list(cudas))
        if n_devices:
            raise InvalidArgumentError("cudas: worker processes use no GPU; pass an empty list")
        ids = range(cpus) if isinstance(cpus, int) else list(cpus)
        return [
            WorkerSpec(
                name=f"cpu-{device}",
                device_id=device,
                device_kind="CPU",
                worker_idx=index,
                has_cupy=has_cupy,
            )
            for index, device in enumerate(ids)
        ]
