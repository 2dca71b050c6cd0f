"""Progress of one run, on its way to a reporter."""

from __future__ import annotations

from typing import Any

import numpy as np

from framefold.common.progress import ProgressReporter, ProgressState, TQDMProgressReporter
from framefold.exceptions import InvalidArgumentError


class RunProgress:
    """Tells a reporter how far one run is; does nothing without one.

    Parameters
    ----------
    reporter
        From :func:`progress_reporter`.
    partitions
        The frames of each partition, as ``(start, stop)``, in merge order.
    """

    def __init__(
        self, reporter: ProgressReporter | None, partitions: list[tuple[int, int]]
    ) -> None:
        self._reporter = reporter
        self._lengths = [stop - start for start, stop in partitions]
        self._state = ProgressState(0, sum(self._lengths), 0, 0, len(partitions), "")
        self._open = False

    def start(self) -> None:
        """Report that the run begins."""
        if self._reporter is not None and not self._open:
            import uuid

            self._open = True
            self._state = self._state._replace(progress_id=str(uuid.uuid4()))
            self._reporter.start(self._state)

    def merged(self, n_merged: int, in_progress: int) -> None:
        """Report that ``n_merged`` partitions are merged, and how many more are handed out."""
        if self._reporter is None:
            return
        self._state = self._state._replace(
            num_frames_complete=sum(self._lengths[:n_merged]),
            num_part_complete=n_merged,
            num_part_in_progress=in_progress,
        )
        self._reporter.update(self._state)

    def end(self) -> None:
        """Report that the run is over; more calls do nothing."""
        if self._reporter is not None and self._open:
            self._open = False
            self._state = self._state._replace(num_part_in_progress=0)
            self._reporter.end(self._state)

    @property
    def is_wanted(self) -> bool:
        """Whether there is a reporter."""
        return self._reporter is not None


def progress_reporter(progress: Any) -> ProgressReporter | None:
    """The reporters that the ``progress`` argument of a run means.

    Raises
    ------
    InvalidArgumentError
        If it is neither a truth value nor a reporter.
    """
    if progress is None or isinstance(progress, (bool, int, np.bool_)):
        return TQDMProgressReporter() if progress else None
    if isinstance(progress, ProgressReporter) or all(
        callable(getattr(progress, name, None)) for name in ("start", "update", "end")
    ):
        reporter: ProgressReporter = progress
        return reporter
    raise InvalidArgumentError(
        f"progress is a {type(progress).__name__}; use True, False or a ProgressReporter"
    )
