"""Executors, under the module path of the reference system."""

from framefold.common.scheduler import WorkerInfo
from framefold.exceptions import UDFRunCancelled
from framefold.executor.base import JobExecutor

__all__ = ["JobCancelledError", "JobExecutor", "WorkerInfo"]

#: What a run that is stopped raises, on every executor.
JobCancelledError = UDFRunCancelled
