"""What is said when a run on a Dask cluster cannot go on."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import TYPE_CHECKING

from distributed import KilledWorker

from framefold.exceptions import FileAccessError, WorkerError
from framefold.executor._wire.failures import NotStartedError

if TYPE_CHECKING:
    from framefold.executor._dask.workers import WorkerState

#: What waiting for a future raises if it is cancelled or released.
CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)


class CannotTakePartError(WorkerError, FileAccessError):
    """No worker can open the data set, or none has framefold."""


def not_prepared(error: BaseException) -> str:
    """Why a worker cannot take part that was to prepare the run."""
    if isinstance(error, KilledWorker):
        return "it died while it prepared the run"
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name or error} is not installed there"
    if isinstance(error, CANCELLED):
        return (
            "its results are not brought here: a client of Dask brings none any more once that was "
            "cancelled while it waited for a worker out of reach. Close this one and make another"
        )
    return f"{type(error).__name__}: {error}"


def none_can(names: str, scheduler: str, workers: list[WorkerState]) -> WorkerError:
    """For a run that no worker can take part in."""
    return CannotTakePartError(
        f"no worker of the Dask scheduler at {scheduler} can take part in the run of {names}: "
        f"{_reasons(workers)}. Each needs framefold of the version that is used here, and the "
        f"files under the same path"
    )


def stuck(names: str, workers: list[WorkerState], seconds: float) -> WorkerError:
    """For a cluster whose workers are kept busy by code that does not stop."""
    addresses = _listed([worker.address for worker in workers if worker.is_stuck])
    others = [worker for worker in workers if not worker.is_stuck]
    return _not_free(
        names,
        seconds,
        f"all threads of {addresses} were busy with functions that do not return, although what "
        f"they belong to was ended or cancelled.{_others(others)} End these workers, and start "
        f"others without --no-nanny: a nanny replaces such a worker",
    )


def paused(names: str, workers: list[WorkerState], seconds: float) -> WorkerError:
    """For a cluster whose workers begin no tasks, as they use much memory."""
    addresses = _listed([worker.address for worker in workers if worker.may_take_part])
    others = [worker for worker in workers if not worker.may_take_part]
    return _not_free(
        names,
        seconds,
        f"{addresses} were paused by Dask, as they use most of the memory that they may."
        f"{_others(others)} Start workers with --memory-limit 0, as files that are mapped into "
        f"memory count; or open data sets with io_backend='buffered'",
    )


def no_worker(names: str, scheduler: str, seconds: float) -> WorkerError:
    """For a cluster without workers."""
    return WorkerError(
        f"the Dask scheduler at {scheduler} has had no worker for the run of {names} for "
        f"{seconds:g} seconds (startup_timeout); start workers with `dask worker {scheduler}`"
    )


def not_started(reason: str) -> NotStartedError:
    """For a cluster on this machine that has no workers, and gets none."""
    return NotStartedError(
        f"the workers of the Dask cluster on this machine could not be started: {reason}; their "
        f"messages are above, if there are any; use the executor 'threads'"
    )


def lost_scheduler(names: str, scheduler: str, detail: str = "") -> WorkerError:
    """For a run that lost its scheduler."""
    return WorkerError(
        f"the connection to the Dask scheduler at {scheduler} was lost during the run of {names}"
        f"{detail}; see whether it is running, make another context, and run again"
    )


def died(names: str, index: int, attempts: int, address: str) -> WorkerError:
    """For a partition that several workers did not survive."""
    return WorkerError(
        f"a Dask worker died while processing partition {index} of {names}, {attempts} times, the "
        f"last one at {address}: its log says more; it was killed, memory ran out, or compiled "
        f"code broke. Run the UDF with the executor 'inline' to look for the cause"
    )


def broken(names: str, address: str, error: Exception) -> WorkerError:
    """For a task that Dask could not do."""
    return WorkerError(
        f"a task of the run of {names} failed on the Dask worker at {address}, not in user code: "
        f"{type(error).__name__}: {error}"
    )


def _not_free(names: str, seconds: float, why: str) -> WorkerError:
    return WorkerError(
        f"no Dask worker is free for the run of {names}: for {seconds:g} seconds "
        f"(startup_timeout), {why}"
    )


def _others(workers: list[WorkerState]) -> str:
    return f" Others cannot take part: {_reasons(workers)}." if workers else ""


def _reasons(workers: list[WorkerState]) -> str:
    by_reason: dict[str, list[str]] = {}
    for worker in workers:
        by_reason.setdefault(worker.reason, []).append(worker.address)
    return "; ".join(f"{_listed(workers)}: {reason}" for reason, workers in by_reason.items())


def _listed(workers: list[str]) -> str:
    shown = ", ".join(workers[:5])
    return shown if len(workers) <= 5 else f"{shown} and {len(workers) - 5} more"
