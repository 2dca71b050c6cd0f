"""One worker process, seen from the main process."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from typing import TYPE_CHECKING, Any

from framefold.common import _foreign
from framefold.common.backend import environment_of
from framefold.executor._processes.channels import GIVEN_PATH, MainEnd, over_socket
from framefold.executor._processes.slots import MappedSlots
from framefold.executor._tasks import Tasks
from framefold.executor._wire.pickles import SharedPickle
from framefold.executor._wire.runs import paths

if TYPE_CHECKING:
    from framefold.executor._processes.pool import Pool

#: How long a worker may take to stop what it does for a run that has ended, in seconds; for user
#: code that takes longer, another worker is started.
PATIENCE = 1.0
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
#: Runs a module found on PYTHONPATH, which an interpreter does not look at with -I or -E.
BY_OWN_PATH = (
    "import os, runpy, sys; sys.path[:0] = os.environ['PYTHONPATH'].split(os.pathsep); "
    "runpy.run_module({!r}, run_name='__main__', alter_sys=True)"
)

_numbers = itertools.count()


@dataclass(eq=False)
class Job:
    """A run, as the pool knows it."""

    number: int
    #: Whose workers process it.
    pool: Pool
    #: Whether results of short partitions may wait for each other.
    collects: bool
    #: Sent once to each worker.
    pickled: SharedPickle
    environment: tuple[list[str], bool]
    tasks: Tasks
    #: What a worker's plan has to be.
    fingerprint: str
    #: The names of the UDFs.
    names: str
    #: How many workers without a CUDA device take part, and the devices of the others.
    n_cpus: int
    devices: tuple[int, ...] = ()
    #: The latest change of parameters, and its number.
    change: tuple[int, SharedPickle | None] = (0, None)
    #: Whether workers are to forget it.
    has_ended: bool = False
    #: Set when no worker is busy with it any more.
    gone: threading.Event = field(default_factory=threading.Event)

    @property
    def n_workers(self) -> int:
        """How many workers take part."""
        return self.n_cpus + len(self.devices)


class AssignedRun:
    """What a worker has of a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.slots = MappedSlots()
        #: Whether the worker has planned the run.
        self.planned = False
        #: How many messages with partitions it was given.
        self.n_given = 0
        #: The number of the latest change of parameters that it knows.
        self.n_changes = 0
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
        self._started = start(_command(device), environment_for(device))
        self._process, self.channel = self._started.process, self._started.channel
        self.process_id = self._process.pid
        #: Of no other worker.
        self.number = next(_numbers)
        self.device = device
        #: Whether it counts if it ends before it is ready.
        self.start_counts = True
        self.ready = False
        self.jobs: dict[int, AssignedRun] = {}
        #: Job and partition; the first one is being processed.
        self.queue: deque[tuple[Job, int]] = deque()
        #: Since when it starts, or the first one can be under way.
        self.since = time.monotonic()
        if setup is not None:
            self.channel.send(("setup", setup))

    @property
    def is_busy(self) -> bool:
        """Whether the first task is under way, as far as that can be known."""
        return bool(self.queue) and self.jobs[self.queue[0][0].number].planned

    def give(self, job: Job, indices: list[int]) -> None:
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
            assigned = self.jobs[job.number] = AssignedRun(job)
            message = ("job", job.number, job.collects, job.pickled.message, job.environment)
            self.channel.send(message, job.pickled.descriptors, run=job.number)
        n_changes, change = job.change
        if change is not None and assigned.n_changes < n_changes:
            assigned.n_changes = n_changes
            update = ("update", job.number, change.message)
            self.channel.send(update, change.descriptors, run=job.number)
        tasks = ("tasks", job.number, indices, assigned.slots.returned())
        self.channel.send(tasks, run=job.number)
        assigned.n_given += 1

    def done(self) -> None:
        """The first task is done."""
        self.since = time.monotonic()
        self.queue.popleft()

    def drop(self, job: Job) -> None:
        """Ask the worker to forget a job."""
        assigned = self.jobs.get(job.number)
        if assigned is not None and assigned.stop_by is None:
            left_out = self.channel.withdraw(job.number)
            if "job" not in left_out:
                assigned.stop_by = time.monotonic() + PATIENCE
                self.channel.send(("drop", job.number), run=job.number)
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
            self._process.kill()

    def hang_up(self) -> None:
        """Send and receive nothing any more; a worker that is idle ends then."""
        if self.channel.is_held_up:
            self.kill()  # it has not read for some time
        self.channel.close()

    def end(self, patience: float = 1.0) -> int | None:
        """Release what belongs to a process that has ended or is about to; its exit code."""
        self.hang_up()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)  # one that hangs in the kernel ends when it can
        self._started.close_lifeline()
        return self._process.returncode

    def disown(self) -> None:
        """Forget the process, in a fork of the one that started it."""
        self.channel.disown()
        self._started.close_lifeline()
        self._process.returncode = 0  # or its destructor would complain


class Started:
    """A process, our end of the channel to it, and a pipe that it must not survive, if any."""

    def __init__(
        self, process: subprocess.Popen[bytes], channel: MainEnd, lifeline: int | None
    ) -> None:
        self.process = process
        self.channel = channel
        self._lifeline = lifeline

    def close(self) -> None:
        """Close channel and pipe: the process ends."""
        self.channel.close()
        self.close_lifeline()

    def close_lifeline(self) -> None:
        """Close the pipe."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None


def start(command: list[str], environment: dict[str, str]) -> Started:
    """Start a process that has the other end of a channel.

    The handle of that end, and that of a pipe that ends with this process (or -1), are added to
    ``command``.
    """
    with ExitStack() as if_it_fails, ExitStack() as theirs:
        options: dict[str, Any]
        if sys.platform == "win32":
            ours, other = Pipe()
            channel, lifeline = MainEnd(ours), None
            theirs.callback(other.close)
            handles = (other.fileno(), -1)
            os.set_handle_inheritable(handles[0], True)
            info = subprocess.STARTUPINFO(lpAttributeList={"handle_list": [handles[0]]})
            options = {
                "startupinfo": info,
                "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP,
            }
        else:
            carrier, other_end = socket.socketpair()
            theirs.callback(other_end.close)
            channel = over_socket(carrier, MainEnd)
            reading, lifeline = os.pipe()
            theirs.callback(os.close, reading)
            if_it_fails.callback(os.close, lifeline)
            handles = (other_end.fileno(), reading)
            # Ctrl-C in a terminal is the main process's to deal with.
            options = {"pass_fds": handles, "process_group": 0}
        if_it_fails.callback(channel.close)
        process = subprocess.Popen(
            [*command, *map(str, handles)], stdin=subprocess.DEVNULL, env=environment, **options
        )
        if_it_fails.pop_all()
    return Started(process, channel, lifeline)


def _command(device: int | None) -> list[str]:
    return [*command_of("framefold.executor._processes"), str(-1 if device is None else device)]


def command_of(module: str) -> list[str]:
    """What runs a module in an interpreter like this, in the :func:`environment_for` workers."""
    interpreter = [sys.executable, *_foreign.interpreter_flags(), "-P"]
    if sys.flags.ignore_environment:  # python -E and -I look at no PYTHONPATH
        return [*interpreter, "-c", BY_OWN_PATH.format(module)]
    return [*interpreter, "-m", module]


def environment_for(device: int | None = None) -> dict[str, str]:
    environment = dict(os.environ)
    if device is not None:
        environment.update(environment_of(device))
    environment.update(dict.fromkeys(ONE_THREAD, "1"))
    # Framefold and NumPy may come from anywhere on the path.
    given = environment.get("PYTHONPATH")
    if given is not None:
        environment[GIVEN_PATH] = given
    path = dict.fromkeys(filter(os.path.isabs, paths()))
    environment["PYTHONPATH"] = os.pathsep.join(path)
    return environment
