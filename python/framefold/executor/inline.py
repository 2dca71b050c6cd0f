"""Everything on the calling thread."""

from __future__ import annotations

from framefold.executor.base import JobExecutor


class InlineJobExecutor(JobExecutor):
    """Processes one partition after the other on the calling thread: for debugging."""

    threads = 0
