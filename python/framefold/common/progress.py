"""How far a run is, and the reporters that get it."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

__all__ = ["ProgressReporter", "ProgressState", "TQDMProgressReporter"]


class ProgressState(NamedTuple):
    """How far a run is.

    Attributes
    ----------
    num_frames_complete : float
        Frames of which the results are merged.
    num_frames_total : int
        Frames that the run processes: those inside the ROI that have data.
    num_part_complete : int
        Partitions merged.
    num_part_in_progress : int
        Partitions handed out and not merged yet.
    num_part_total : int
        Partitions of the run.
    progress_id : str
        Tells runs apart that share a reporter.
    """

    num_frames_complete: float
    num_frames_total: int
    num_part_complete: int
    num_part_in_progress: int
    num_part_total: int
    progress_id: str


class ProgressReporter:
    """Base class of what can be passed as ``progress=``.

    All methods are called on the thread that merges, which is the one that runs the UDF or
    takes results from a generator, or that of the event loop for asynchronous runs. For each
    run: ``start`` once, ``update`` after every merge, ``end`` once, however the run ends. One
    reporter may serve several runs; ``state.progress_id`` tells them apart. An exception from
    any of them ends the run.
    """

    def start(self, state: ProgressState) -> None:
        """Hear that the run begins."""
        raise NotImplementedError(f"{type(self).__name__} does not implement start")

    def update(self, state: ProgressState) -> None:
        """Hear that a partition was merged."""
        raise NotImplementedError(f"{type(self).__name__} does not implement update")

    def end(self, state: ProgressState) -> None:
        """Hear that the run is over; ``state`` is the last one reached."""
        raise NotImplementedError(f"{type(self).__name__} does not implement end")


class TQDMProgressReporter(ProgressReporter):
    """A progress bar in the terminal or notebook, by tqdm; what ``progress=True`` shows."""

    def __init__(self) -> None:
        self._bars: dict[str, Any] = {}

    def start(self, state: ProgressState) -> None:
        """Show an empty bar."""
        from tqdm.auto import tqdm

        self._bars[state.progress_id] = tqdm(
            desc=_description(state),
            total=state.num_frames_total,
            unit="frame",
            unit_scale=True,
            disable=sys.stderr is None,  # as in programs without a terminal
        )

    def update(self, state: ProgressState) -> None:
        """Move the bar."""
        bar = self._bars[state.progress_id]
        bar.set_description(_description(state), refresh=False)
        bar.update(state.num_frames_complete - bar.n)

    def end(self, state: ProgressState) -> None:
        """Close the bar where it stands."""
        bar = self._bars.pop(state.progress_id, None)
        if bar is not None:
            bar.set_description(_description(state), refresh=False)
            bar.close()


def _description(state: ProgressState) -> str:
    running = f"({state.num_part_in_progress})" if state.num_part_in_progress else ""
    return f"Partitions {state.num_part_complete}{running}/{state.num_part_total}, Frames"
