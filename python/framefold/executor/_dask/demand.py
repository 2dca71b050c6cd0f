"""How a cluster that adapts to its work gets to know how many workers a run has a use for.

Its scheduler counts tasks, and how long they take. It never sees more than a few batches of a run;
tasks that ask for a resource which no worker has stand for the rest: none of them is ever done, and
all are removed with the run.
"""

from __future__ import annotations

import math

from distributed import Future

from framefold.executor._dask.resources import RunResources

#: How long Dask takes a task for that it knows nothing about, in seconds.
UNKNOWN = 0.5
#: What takes longer than this on the workers there are is a case for more of them, in seconds.
LONG_RUN = 5.0
#: With more tasks than this, clusters are asked for no more workers.
MOST = 100


def demand(n_open: int, seconds: float | None, n_threads: int) -> int:
    """How many tasks stand for what is left of a run.

    Parameters
    ----------
    n_open
        How many partitions no worker has.
    seconds
        How long one takes; None if that is not known.
    n_threads
        How many threads of workers take part.
    """
    if n_threads == 0:
        return min(n_open, MOST)
    if seconds is None or n_open * seconds < LONG_RUN * n_threads:
        return 0
    return min(n_open, MOST, math.ceil(n_open * seconds / UNKNOWN))


class Demand:
    """The tasks that stand for what is left of a run.

    Parameters
    ----------
    resources
        Of the run.
    """

    def __init__(self, resources: RunResources) -> None:
        self._resources = resources
        self._futures: list[Future] = []

    def set_n_tasks(self, n_tasks: int) -> None:
        """Keep so many such tasks; their number is reduced only where that makes a difference."""
        if 0 < n_tasks < len(self._futures) < 2 * n_tasks:
            return
        self._resources.release(*self._futures[n_tasks:])
        del self._futures[n_tasks:]
        while len(self._futures) < n_tasks:
            self._futures.append(self._resources.wish())
