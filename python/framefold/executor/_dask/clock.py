"""Time that does not pass while a process is suspended."""

from __future__ import annotations

import time


class Clock:
    """Time in which this process could do something: not while all is suspended.

    Parameters
    ----------
    most
        How many seconds may pass from one look at it to the next.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._latest = time.monotonic()
        self.seconds = 0.0

    def tick(self) -> None:
        """Look at the time."""
        now = time.monotonic()
        self.seconds += min(now - self._latest, self._most)
        self._latest = now
