"""Worker processes, and the thread that hands them the partitions of all runs.

All that concerns workers happens on that one thread; it shares :class:`Tasks` with each run.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import Any

from framefold.exceptions import UDFRunCancelled
from framefold.executor._processes.workers import PATIENCE, Job, Worker
from framefold.executor._tasks import ATTEMPTS
from framefold.executor._wire import failures, runs

#: How many workers in a row may end before they are ready.
FAILED_STARTS = 3
#: How messages name a worker.
A_WORKER = "a worker process"
ENDED = f"{A_WORKER}, which was ended"
#: The longest wait at a time, in seconds: the system knows no infinite numbers.
LONGEST_WAIT = 3600.0


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


class Pool:
    """Processes that are started when there is work.

    Parameters
    ----------
    n_workers
        How many there are at most on the CPU; those with a CUDA device are as many as runs want.
    timeout
        How many seconds a partition may take; None for any.
    startup_timeout
        How many seconds a process may take to start.
    idle
        After how many seconds without a run processes end; None for never.
    setup
        What each process calls before its first run, pickled; None for nothing.
    """

    def __init__(
        self,
        n_workers: int,
        timeout: float | None,
        startup_timeout: float,
        idle: float | None = None,
        setup: bytes | None = None,
    ) -> None:
        self.n_workers = n_workers
        self._setup = setup
        self._timeout = timeout
        self._startup_timeout = startup_timeout
        self._idle = idle
        self._lock = threading.RLock()  # the garbage collector may end a run anywhere
        self._news, self._wake = Pipe(duplex=False)
        self._woken = False
        self._thread: threading.Thread | None = None
        self._closed = False
        #: Those that were submitted, or have ended, since the thread looked.
        self._changed: list[Job] = []
        #: CUDA devices that workers cannot use, and why: none are started for them any more.
        self.lost: dict[int, str] = {}
        # Of the thread alone:
        #: Those under way, or that a worker is still busy with; first the one whose turn it is.
        self._jobs: list[Job] = []
        self._workers: list[Worker] = []
        self._failed_starts = 0
        #: When the latest run ended.
        self._latest = time.monotonic()
        _pools.add(self)

    # What other threads call.

    def submit(self, job: Job) -> None:
        """Start to process the partitions of a job, as its tasks hand them out."""
        with self._lock:
            if self._closed:
                raise UDFRunCancelled("the executor was closed")
            if self._thread is None:
                self._start()
            self._changed.append(job)
        self.wake()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._serve, name="ff-pool", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # there can be no more threads
            self._thread = None
            raise failures.NotStartedError(
                f"worker processes cannot be used, as no thread can be started: {error}; use the "
                f"executor 'inline'"
            ) from error
        except BaseException:  # Ctrl-C: it may run nevertheless, or begin to in a moment
            deadline = time.monotonic() + 0.2
            while self._thread.ident is None and time.monotonic() < deadline:
                time.sleep(0.01)
            if self._thread.ident is None:
                self._thread = None
            raise

    def end(self, job: Job) -> None:
        """Forget a job; its event says that no worker is busy with it any more."""
        job.has_ended = True
        with self._lock:
            if self._closed or self._thread is None:
                job.pickled.close()
                job.gone.set()
                return
            self._changed.append(job)
        self.wake()

    def wake(self) -> None:
        """Have the pool's thread look at what has changed."""
        with self._lock:
            if not self._woken and not self._closed:
                self._wake.send_bytes(b"w")
                self._woken = True  # not before: Ctrl-C may come in between

    def is_own_thread(self) -> bool:
        """Whether this is called on the pool's thread."""
        return threading.current_thread() is self._thread

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    @property
    def process_ids(self) -> list[int]:
        """Of the workers that there are now."""
        return [worker.process_id for worker in list(self._workers)]

    def close(self) -> None:
        """End all runs and processes; returns when they are gone."""
        with self._lock:
            self._closed = True
            thread = self._thread
            # Each time: the first may have been interrupted.
            with suppress(OSError):
                self._wake.send_bytes(b"w")
        if thread is None:
            self._close_pipes()
        elif not self.is_own_thread():
            thread.join()

    def disown(self) -> None:
        """In a fork: close what belongs to the other process, where its thread is."""
        self._closed, self._thread, self._lock = True, None, threading.RLock()
        while self._workers:
            self._workers.pop().disown()
        self._close_pipes()

    def _close_pipes(self) -> None:
        with suppress(OSError):
            self._news.close()
            self._wake.close()

    # The thread.

    def _serve(self) -> None:
        failure: BaseException | None = None
        try:
            while not self._closed:
                self._update_jobs()
                self._hand_out()
                self._listen(self._next_deadline())
                self._enforce_deadlines()
        except BaseException as exception:
            failure = exception
        finally:
            with self._lock:
                self._closed = True
                jobs = [*self._jobs, *self._changed]
                # The pool may stay, and these keep memory of their runs.
                self._jobs, self._changed = [], []
            try:
                for job in jobs:
                    # One for each: a traceback is that of one run.
                    closed = UDFRunCancelled("the executor was closed during the run")
                    job.tasks.fail(None, failure or closed)
                    job.pickled.close()
                _end(self._workers)
            finally:
                for job in jobs:
                    job.gone.set()
                self._close_pipes()

    def _update_jobs(self) -> None:
        """Take in runs that were submitted, and have workers forget those that have ended."""
        with self._lock:
            changed, self._changed = self._changed, []
        for job in changed:
            if not job.has_ended:
                self._jobs.append(job)
                continue
            self._latest = time.monotonic()
            job.pickled.close()
            for worker in list(self._workers):
                try:
                    worker.drop(job)
                except OSError:
                    self._remove(worker)
            self._check_gone(job)

        for worker in list(self._workers):
            if worker.device in self.lost and worker.ready and not worker.jobs:
                worker.kill()  # it gets nothing to do any more
                self._remove(worker)

    def _check_gone(self, job: Job) -> None:
        if job.has_ended and not any(job.number in worker.jobs for worker in self._workers):
            if job in self._jobs:
                self._jobs.remove(job)
            job.gone.set()

    def _hand_out(self) -> None:
        """Give all workers something to do: first those that have nothing."""
        self._start_workers()
        ready = [worker for worker in self._workers if worker.ready]
        for worker in sorted(ready, key=lambda worker: len(worker.queue)):
            task = self._next_tasks(worker)
            if task is None:
                continue
            job, indices = task
            try:
                worker.give(job, indices)
            except OSError:
                self._remove(worker)
                self._start_workers()

    def _next_tasks(self, worker: Worker) -> tuple[Job, list[int]] | None:
        """Partitions of the run whose turn it is, for a worker."""
        n_queued = len(worker.queue)
        for job in list(self._jobs):
            if job.has_ended or not self._takes_part(worker, job):
                continue
            tasks = job.tasks
            # A device may be many times as fast as a core, so times of partitions say little.
            at_hand = min(2, tasks.at_hand) if job.devices and job.n_cpus else tasks.at_hand
            missing = at_hand - n_queued
            # Not one by one: messages cost more than short partitions.
            if missing <= 0 or (n_queued > 1 and missing < n_queued):
                continue
            # Enough is left for the others to have as many.
            missing = min(missing, max(1, tasks.schedule.n_left // (2 * job.n_workers)))
            tasks.schedule.set_devices(self._with_device(job))
            indices = tasks.take(missing, worker.number)
            if indices:
                self._jobs.remove(job)
                self._jobs.append(job)  # the others come first now
                return job, indices
        return None

    def _with_device(self, job: Job) -> set[int]:
        """The numbers of the workers with a device that take part in a run."""
        here = (worker for worker in self._workers if worker.ready)
        return {worker.number for worker in here if worker.device in job.devices}

    def _takes_part(self, worker: Worker, job: Job) -> bool:
        if worker.device is not None:
            return worker.device in job.devices
        others = (other for other in self._workers if other.device is None)
        n_cpus = sum(job.number in other.jobs for other in others)
        return job.number in worker.jobs or n_cpus < job.n_cpus

    def _start_workers(self) -> None:
        there = Counter(worker.device for worker in self._workers)
        # Those with a device are few, and take longest to start.
        missing = sorted((self._wanted() - there).elements(), key=lambda device: device is None)
        for device in missing:
            try:
                self._workers.append(Worker(device, self._setup))
            except OSError as error:
                if not self._workers:
                    self._fail_all(f"a worker process could not be started: {error}")
                return

    def _wanted(self) -> Counter[int | None]:
        """How many workers the runs can use of each device, and how many without one."""
        wanted: Counter[int | None] = Counter()
        n_cpus = 0
        for job in self._jobs:
            if job.has_ended or job.tasks.schedule.is_ending:
                continue
            devices = job.devices[: job.tasks.n_partitions]
            wanted |= Counter(devices)
            n_cpus += min(job.n_cpus, job.tasks.n_partitions - len(devices))
        wanted[None] = min(self.n_workers, n_cpus)
        return wanted

    def _fail_all(self, reason: str) -> None:
        for job in self._jobs:
            job.tasks.fail(None, failures.NotStartedError(f"{reason}; use the executor 'threads'"))

    def _listen(self, deadline: float | None) -> None:
        """Wait for messages, and see to them."""
        connections: dict[Any, Worker | None] = {self._news: None}
        connections.update({worker.channel.connection: worker for worker in self._workers})
        timeout = None
        if deadline is not None:
            timeout = min(max(0.0, deadline - time.monotonic()), LONGEST_WAIT)
        for connection in wait(connections, timeout):
            worker = connections[connection]
            if worker is None:
                with self._lock:
                    self._woken = False
                    self._news.recv_bytes()
            elif worker in self._workers:
                try:
                    message, descriptors = worker.channel.receive()
                except (EOFError, OSError):
                    self._remove(worker)
                else:
                    self._handle(worker, message, descriptors)

    def _handle(self, worker: Worker, message: tuple[Any, ...], descriptors: list[int]) -> None:
        """See to a message."""
        match message:
            case ("ready",):
                worker.ready = True
                worker.since = time.monotonic()
                self._failed_starts = 0
            case ("planned", number, fingerprint) if number in worker.jobs:
                worker.jobs[number].planned = True
                worker.since = time.monotonic()
                job = worker.jobs[number].job
                if fingerprint != job.fingerprint:
                    differs = runs.difference(job.fingerprint, fingerprint)
                    other = failures.planned_differently(A_WORKER, job.names, differs)
                    job.tasks.fail(None, other, planning=True)
                else:
                    job.tasks.is_planned = True
            case ("done", number, results):
                self._take_in(worker, number, results, descriptors)
            case ("failed", number, index, packed) if number in worker.jobs:
                if index is not None:
                    worker.done()
                error = failures.unpack(packed)
                worker.jobs[number].job.tasks.fail(index, error, planning=index is None)
            case ("useless", _, reason):
                self._go_on_without(worker, reason)
            case ("stopped", number) if number in worker.jobs:
                job = worker.jobs[number].job
                worker.stopped(number)
                self._check_gone(job)

    def _take_in(self, worker: Worker, number: int, results: Any, descriptors: list[int]) -> None:
        """Partial results of a job."""
        slots, tasks = worker.jobs[number].slots, worker.jobs[number].job.tasks
        given = []
        for index, len_bytes, seconds, data, filled in results:
            worker.done()
            try:
                memory, places = slots.lend(filled, descriptors) if filled else (None, [])
            except MemoryError as error:
                tasks.fail(index, error)
            else:
                given.append((index, (data, memory, places), len_bytes, seconds))
        tasks.give(given)

    def _go_on_without(self, worker: Worker, reason: str) -> None:
        """Have others process the partitions of a worker that cannot use its device."""
        from framefold.arrays.cuda.errors import is_lost

        device = worker.device
        assert device is not None
        self.lost[device] = reason = f"a worker process found {reason}"
        for job in self._jobs:
            if job.has_ended or device not in job.devices:
                continue
            job.devices = tuple(other for other in job.devices if other != device)
            job.tasks.n_workers = job.n_workers
            if job.n_workers:
                job.tasks.lost[device] = reason
            else:
                job.tasks.fail(None, is_lost(device, reason), planning=True)
        for job, index in worker.queue:
            job.tasks.schedule.put_back(index)
        worker.queue.clear()
        worker.kill()
        self._remove(worker)

    def _next_deadline(self) -> float | None:
        deadlines = [d for worker in self._workers for d in self._deadlines(worker)]
        if self._idle is not None and self._workers and not self._jobs:
            deadlines.append(self._latest + self._idle)
        return min(deadlines, default=None)

    def _deadlines(self, worker: Worker) -> Iterable[float]:
        seconds = self._seconds(worker)
        if seconds is not None:
            yield worker.since + seconds
        busy_with = worker.queue[0][0] if worker.queue else None
        for assigned in worker.jobs.values():
            # It reads this when it is done with partitions of other runs.
            if assigned.stop_by is not None and busy_with in (None, assigned.job):
                yield max(assigned.stop_by, worker.since + PATIENCE)

    def _seconds(self, worker: Worker) -> float | None:
        """How long the worker may take to start, or for its first task; None if that is open."""
        if not worker.ready:
            return self._startup_timeout
        if self._timeout is None or not worker.queue:
            return None
        return self._timeout if worker.is_busy else max(self._timeout, self._startup_timeout)

    def _enforce_deadlines(self) -> None:
        now = time.monotonic()
        if self._idle is not None and not self._jobs and now > self._latest + self._idle:
            _end(self._workers)
        for worker in list(self._workers):
            if min(self._deadlines(worker), default=now + 1) > now:
                continue
            seconds, blamed = self._seconds(worker), True
            if worker.ready and seconds is not None and worker.since + seconds <= now:
                job, index = worker.queue[0]
                known = index if worker.is_busy else None
                late = failures.took_too_long(ENDED, job.names, known, seconds)
                job.tasks.fail(index, late)
                blamed = False
            worker.kill()
            self._remove(worker, blamed=blamed)

    def _remove(self, worker: Worker, *, blamed: bool = True) -> None:
        """Remove a worker that has ended, and have other workers process its partitions."""
        self._workers.remove(worker)
        # Of several, the one that it was busy with need not be the first.
        blamed = blamed and worker.ready and len(worker.queue) == 1
        busy = worker.is_busy
        code = worker.end()
        if not worker.ready and worker.start_counts:
            self._failed_starts += 1
            if self._failed_starts >= FAILED_STARTS:
                self._failed_starts = 0
                # Others that started with it say nothing about the next run.
                for other in self._workers:
                    other.start_counts = False
                reason = failures.describe_exit(code)
                self._fail_all(
                    f"worker processes end before they are ready ({reason}); their messages are "
                    f"above, if there are any"
                )
        for job, index in worker.queue:
            attempts = job.tasks.schedule.lost(index, blamed)
            if attempts >= ATTEMPTS:
                doing = index if busy else None
                job.tasks.fail(index, failures.died(job.names, doing, attempts, code))
        for assigned in worker.jobs.values():
            self._check_gone(assigned.job)


def _end(workers: list[Worker]) -> None:
    """End all workers: those that are idle end by themselves when the channel closes."""
    for worker in workers:
        worker.hang_up()
    deadline = time.monotonic() + PATIENCE + 0.5
    while workers:
        worker = workers.pop()
        worker.end(max(0.0, deadline - time.monotonic()))


def _disown_all() -> None:
    for pool in list(_pools):
        pool.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
