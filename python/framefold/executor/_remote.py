"""The partitions of one run, handed to a pool of worker processes and collected in order."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from framefold import _engine
from framefold._ending import at_end
from framefold.exceptions import UDFRunCancelled
from framefold.executor import _job, _shared
from framefold.executor._pool import Pool
from framefold.executor._tasks import Tasks
from framefold.executor._workers import Job

if TYPE_CHECKING:
    from framefold._planning import Run

#: How long a run waits for workers to stop when it is ended early, in seconds.
LEAVING = 3.0

_numbers = itertools.count(1)

#: The runs that worker processes are busy with.
active: dict[int, Remote] = {}


class Remote:
    """The partitions of a run from ``first`` on.

    Parameters
    ----------
    pool
        Whose workers process them.
    run
        Planned, and not cancelled.
    collects
        Whether results of short partitions may wait for each other on the worker.
    first
        All partitions before this one are processed elsewhere.
    outside
        As for :func:`framefold.executor._job.ship`.

    Raises
    ------
    InvalidArgumentError
        If something of the run cannot be pickled; names it.
    LimitError
        If there is no memory for what is to be sent.
    """

    def __init__(
        self,
        pool: Pool,
        run: Run,
        collects: bool,
        first: int = 0,
        outside: dict[str, int] | None = None,
    ) -> None:
        self._pool = pool
        self._run = run
        self._first = self._udfs = _udfs(run)
        #: The next partition to be collected.
        self.next = first
        devices, n_cpus = run.devices, min(run.n_cpus, pool.n_workers)
        self._tasks = Tasks(run.plan.n_partitions, n_cpus + len(devices), first)
        fingerprint = _job.fingerprint(run)
        parcel = _job.ship(run, outside)
        names, environment = _job.names(run), _job.environment()
        number = next(_numbers)
        about = self._tasks, fingerprint, names, n_cpus, devices
        self._job = Job(number, collects, parcel, environment, *about)

    def begin(self) -> None:
        """Have workers process what they can; :meth:`end` has to be called, come what may."""
        active[self._job.number] = self
        self._pool.begin(self._job)

    def merged(self, index: int) -> None:
        """Take notice that all partitions before ``index`` are merged."""
        if self._tasks.merged(index):
            self._pool.wake()

    def partials(self) -> Generator[tuple[_engine.Partial, int], None, None]:
        """The partial results from ``first`` on, each with the number of those under way."""
        plan = self._run.plan

        def check() -> None:
            if plan.cancelled:
                raise UDFRunCancelled("the run was cancelled")

        while self.next < plan.n_partitions:
            self._send_changes()
            (data, memory, places), in_progress = self._tasks.collect(self.next, check)
            parts = _shared.loads(data, memory, places)
            partial = _engine.Partial(self.next, parts)
            del parts, memory
            self.next += 1
            yield partial, in_progress
            del partial
            self.merged(self.next)

    @property
    def not_planned(self) -> bool:
        """Whether the run failed as workers could not plan it, or not as it is planned here."""
        return self._tasks.not_planned

    @property
    def n_in_progress(self) -> int:
        """How many partitions are handed out and not collected."""
        return self._tasks.n_partitions - self._tasks.n_left - self.next

    def stop(self, reason: str) -> None:
        """Hand out nothing more."""
        self._tasks.stop(reason)

    def cancel(self, reason: str) -> None:
        """Stop the whole run, wherever its partitions are processed."""
        self._run.plan.cancel()
        self.stop(reason)

    def abandon(self) -> None:
        """Forget the run, which goes on elsewhere."""
        if self._job.number in active:
            self.stop("other executors go on with the run")
            self._forget()

    def end(self, *, complete: bool) -> None:
        """Forget the run; if it is not complete, wait until no worker is busy with it."""
        if self._job.number not in active:
            return
        try:
            if not complete:
                self.stop("the run was cancelled")
        finally:
            gone = self._forget()
        # The garbage collector may run this on any thread.
        if not complete and not self._pool.is_own_thread():
            gone.wait(LEAVING)

    def _forget(self) -> threading.Event:
        try:
            gone = self._pool.end(self._job)
        except BaseException:  # Ctrl-C, perhaps before anything was done
            self._pool.end(self._job)
            raise
        finally:
            active.pop(self._job.number, None)
        return gone

    def _send_changes(self) -> None:
        """Send parameters that were changed to the workers."""
        udfs, before = _udfs(self._run), self._udfs
        if all(udf is known for udf, known in zip(udfs, before, strict=True)):
            return
        self._udfs = udfs
        # All that is not as in the job: workers that are busy hear of the latest change alone.
        pairs = zip(udfs, self._first, strict=True)
        changed = [None if udf is None or udf is first else udf for udf, first in pairs]
        self._pool.update(self._job, _job.ship_changes(changed, udfs))


def _udfs(run: Run) -> list[Any]:
    return [None if bridge is None else bridge.udf for bridge in run.bridges]


def _cancel_all() -> None:
    """Stop what is still under way when the interpreter ends, as it waits for all threads."""
    for remote in list(active.values()):
        remote.cancel("the interpreter ends")


at_end(_cancel_all)
