"""One worker process, seen from the main process."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple

from framefold.common import _foreign
from framefold.common.backend import environment_of
from framefold.executor._processes.channels import GIVEN_PATH, start
from framefold.executor._processes.outgoing import Outgoing
from framefold.executor._processes.slots import MappedSlots
from framefold.executor._tasks import Tasks
from framefold.executor._wire.runs import absolute

#: One thread for each worker: there is a worker for each core. Read by these libraries when they
#: are imported.
ONE_THREAD = (
    "BLIS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PYFFTW_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)

_numbers = itertools.count(1)


class Job(NamedTuple):
    """A run, as the pool knows it."""

    number: int
    #: Whether results of short partitions may wait for each other.
    collects: bool
    #: Sent once to each worker.
    pickled: Any
    environment: tuple[list[str], bool]
    tasks: Tasks
    #: What a worker's plan has to be.
    fingerprint: str
    #: The names of the UDFs.
    names: str
    #: How many workers without a CUDA device take part, and the devices of the others.
    n_cpus: int
    devices: tuple[int, ...] = ()

    @property
    def n_workers(self) -> int:
        """How many workers take part."""
        return self.n_cpus + len(self.devices)


class AssignedRun:
    """What a worker has of a job."""

    def __init__(self) -> None:
        self.slots = MappedSlots()
        #: Whether the worker has planned the run.
        self.planned = False
        #: How many messages with partitions it was given.
        self.n_given = 0
        #: The number of the latest change of parameters that it knows.
        self.updates = 0
        #: When it has to have stopped, if it is to.
        self.stop_by: float | None = None


class Worker:
    """A process, and what it has to do. Used by the pool's thread alone.

    Parameters
    ----------
    device
        The number of its CUDA device; None for a worker on the CPU.
    setup
        What it calls before its first run, pickled; None for nothing.

    Raises
    ------
    OSError
        If the process cannot be started.
    """

    def __init__(self, device: int | None = None, setup: bytes | None = None) -> None:
        self._started = start(_command(device), _environment(device))
        self.device = device
        self.channel = self._started.channel
        self._outgoing = Outgoing(self.channel)
        self.started_at = time.monotonic()
        self.ready = False
        self.jobs: dict[int, AssignedRun] = {}
        #: Job and partition; the first one is being processed.
        self.queue: deque[tuple[Job, int]] = deque()
        #: Since when the first one can be under way.
        self.since = self.started_at
        if setup is not None:
            self._outgoing.send(0, ("setup", setup))

    @property
    def is_busy(self) -> bool:
        """Whether the first task is under way, as far as that can be known."""
        return self.ready and bool(self.queue) and self.jobs[self.queue[0][0].number].planned

    def give(self, job: Job, indices: list[int], update: tuple[int, Any]) -> None:
        """Send tasks, and before that the run, if the worker does not know it.

        Raises
        ------
        OSError
            If the worker is gone; the tasks are in the queue nevertheless.
        """
        if not self.queue:
            self.since = time.monotonic()
        self.queue.extend((job, index) for index in indices)
        assigned = self.jobs.get(job.number)
        if assigned is None:
            assigned = self.jobs[job.number] = AssignedRun()
            message = ("job", job.number, job.collects, job.pickled.message, job.environment)
            self._outgoing.send(job.number, message, job.pickled.descriptors)
        if assigned.updates < update[0]:
            assigned.updates, pickled = update
            change = ("update", job.number, pickled.message)
            self._outgoing.send(job.number, change, pickled.descriptors)
        tasks = ("tasks", job.number, indices, assigned.slots.returned())
        self._outgoing.send(job.number, tasks)
        assigned.n_given += 1

    def done(self) -> None:
        """The first task is done."""
        self.since = time.monotonic()
        self.queue.popleft()

    def drop(self, job: Job, patience: float) -> None:
        """Ask the worker to forget a job."""
        assigned = self.jobs.get(job.number)
        if assigned is not None and assigned.stop_by is None:
            left_out = self._outgoing.withdraw(job.number)
            if "job" not in left_out:
                assigned.stop_by = time.monotonic() + patience
                self._outgoing.send(job.number, ("drop", job.number))
            if left_out.count("tasks") == assigned.n_given:
                self.stopped(job.number)  # it has heard of no partition, and will not

    def stopped(self, number: int) -> None:
        """The worker has forgotten a job."""
        if self.queue and self.queue[0][0].number == number:
            self.since = time.monotonic()
        self.jobs.pop(number, None)
        self.queue = deque(task for task in self.queue if task[0].number != number)

    def kill(self) -> None:
        """End the process at once."""
        with suppress(OSError):
            self._started.process.kill()

    def hang_up(self) -> None:
        """Send and receive nothing any more; a worker that is idle ends then."""
        if self._outgoing.is_held_up:
            self.kill()  # it has not read for some time
        self._outgoing.close()
        self.channel.close()

    def end(self, patience: float = 1.0) -> int | None:
        """Release what belongs to a process that has ended or is about to; its exit code."""
        process = self._started.process
        self.hang_up()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)  # one that hangs in the kernel ends when it can
        self._started.close()
        return process.returncode

    def disown(self) -> None:
        """Forget the process, in a fork of the one that started it."""
        self._outgoing.disown()
        self._started.close(disown=True)


def _command(device: int | None) -> list[str]:
    flags = _foreign.interpreter_flags()
    number = str(-1 if device is None else device)
    return [sys.executable, *flags, "-P", "-m", "framefold.executor._processes", number]


def _environment(device: int | None = None) -> dict[str, str]:
    environment = dict(os.environ)
    if device is not None:
        environment.update(environment_of(device))
    environment.update(dict.fromkeys(ONE_THREAD, "1"))
    # Framefold and NumPy may come from anywhere on the path.
    given = environment.get("PYTHONPATH")
    if given is not None:
        environment[GIVEN_PATH] = given
    path = dict.fromkeys(path for entry in sys.path if os.path.isabs(path := absolute(entry)))
    environment["PYTHONPATH"] = os.pathsep.join(path)
    return environment
