"""Executors, under the module path of the reference system."""

from framefold.exceptions import UDFRunCancelled
from framefold.executor.base import JobExecutor, WorkerInfo

__all__ = ["JobCancelledError", "JobExecutor", "WorkerInfo"]

#: What a run that is stopped raises, on every executor.
JobCancelledError = UDFRunCancelled
