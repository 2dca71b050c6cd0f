"""What a worker process does: plans the runs that it is sent, and processes their partitions.

Messages are read on a separate thread, so that a run can be stopped while its user code is
busy, and the process ends with the one that started it.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from queue import SimpleQueue
from typing import Any

from framefold import _engine
from framefold.common._notes import add_note
from framefold.executor._lifeline import end_fork, end_with, flush
from framefold.executor._processes.channels import GIVEN_PATH, Channel, connect
from framefold.executor._processes.slots import Slots
from framefold.executor._wire import failures, pickles, runs
from framefold.executor.base import Place
from framefold.run.plan import Run

#: How long user code may take to end when the main process is gone, in seconds.
LAST_CHANCE = 1.0
#: Results of short partitions wait for each other: for so many seconds, and so many bytes.
LATEST = 0.04
LARGE = 256 << 10


class Job:
    """A run, planned here, and its partial results on their way out: short ones go together."""

    def __init__(
        self,
        channel: Channel,
        number: int,
        run: Run,
        collects: bool,
        shares_memory: bool,
        place: Place | None,
    ) -> None:
        self._channel = channel
        self.number = number
        self.run = run
        #: Whether results of short partitions may wait for each other.
        self._collects = collects
        self.shares_memory = shares_memory
        self.slots = Slots()
        #: What this worker is in a run in which CUDA devices take part.
        self.place = place
        self._results: list[Any] = []
        self._descriptors: list[int] = []
        self._size = 0
        self.sent = self.partition_started = time.monotonic()

    def put(self, partial: _engine.Partial) -> None:
        """The partition is done; what is large, or has waited for some time, is sent at once."""
        now = time.monotonic()
        index, len_bytes = partial.partition, partial.len_bytes
        data, large = pickles.dumps(partial.take_parts())
        # Entries of an array of objects may be of any size.
        len_bytes = max(len_bytes, len(data) + sum(array.nbytes for array in large))
        filled, descriptors = self.slots.fill(large)
        self._results.append((index, len_bytes, now - self.partition_started, data, filled))
        self._descriptors += descriptors
        self._size += len(data)
        if large or not self._collects or self._size > LARGE or now - self.sent > LATEST:
            self.send()

    def send(self) -> None:
        """Send what there is."""
        self.sent = time.monotonic()
        if not self._results:
            return
        flush()
        results, self._results = self._results, []
        descriptors, self._descriptors = self._descriptors, []
        self._size = 0
        try:
            self._channel.send(("done", self.number, results), descriptors)
        finally:
            _close(descriptors)


class Server:
    """Reads the messages of one worker process, and does what they ask for.

    Parameters
    ----------
    channel
        To the main process.
    device
        The number of its CUDA device; None for a worker on the CPU.
    """

    def __init__(self, channel: Channel, device: int | None = None) -> None:
        self._channel = channel
        self._device = device
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        #: What was received, and is to be seen to next.
        self._put_back: Any = None
        self._jobs: dict[int, Job] = {}
        self._dropped: set[int] = set()
        self._lock = threading.Lock()
        #: What was raised when this process was set up, packed.
        self._broken: Any = None

    def read(self) -> None:
        """Receive messages until the main process is gone: on the reading thread."""
        while True:
            try:
                message, descriptors = self._channel.receive()
            except (EOFError, OSError):
                break
            if message[0] == "tasks":
                _, number, indices, free = message
                for index in indices:
                    self._inbox.put((("task", number, index, free), []))
                    free = []
                continue
            if message[0] == "drop":
                self._stop(message[1])
            self._inbox.put((message, descriptors))
        for number in list(self._jobs):
            self._stop(number)
        self._inbox.put((("end",), []))
        time.sleep(LAST_CHANCE)
        os._exit(0)

    def run(self) -> None:
        """Do what messages ask for, in order, until the main process is gone."""
        self._channel.send(("ready",))
        while True:
            message, descriptors = self._next()
            match message:
                case ("setup", function):
                    self._set_up(function)
                case ("job", number, collects, pickled, environment):
                    runs.enter_environment(*environment)
                    self._plan(number, collects, pickled, descriptors)
                case ("task", number, _, _):
                    self._process(number, message)
                case ("update", number, pickled):
                    self._update(number, pickled, descriptors)
                case ("drop", number):
                    self._drop(number)
                    self._end_without_device()
                case ("end",):
                    return

    def _next(self) -> Any:
        put_back, self._put_back = self._put_back, None
        return self._inbox.get() if put_back is None else put_back

    def _stop(self, number: int) -> None:
        """End what is being done for a job: on the reading thread."""
        with self._lock:
            self._dropped.add(number)
            job = self._jobs.get(number)
        if job is not None:
            job.run.plan.cancel()

    def _set_up(self, function: bytes) -> None:
        """Call what the user wants to be called in each worker."""
        try:
            pickle.loads(function)()
        except BaseException as exception:
            add_note(exception, "raised by early_setup in a worker process")
            self._broken = failures.pack(exception)

    def _plan(self, number: int, collects: bool, pickled: Any, descriptors: list[int]) -> None:
        if self._broken is not None:
            _close(descriptors)
            self._channel.send(("failed", number, None, self._broken))
            return
        try:
            run = runs.plan(pickles.load_shared(pickled, descriptors))
            fingerprint = runs.fingerprint(run)
            useless = self._why_useless(run)
        except BaseException as exception:
            note = "raised while framefold prepared a run in a worker process"
            add_note(exception, note)
            self._channel.send(("failed", number, None, failures.pack(exception)))
            return
        if useless is not None:
            self._channel.send(("useless", number, useless))
            return
        with self._lock:
            if number not in self._dropped:
                place = run.place(self._device) if run.devices else None
                self._jobs[number] = Job(
                    self._channel, number, run, collects, bool(descriptors), place
                )
        self._channel.send(("planned", number, fingerprint))

    def _why_useless(self, run: Run) -> str | None:
        """Why this worker cannot use its device for a run; None if it can."""
        if self._device is None or not (run.devices and run.on_cupy):
            return None
        from framefold.arrays.cuda import errors

        errors.afterwards = "its worker process ends, and the next run starts another"
        return errors.why_useless(self._device)

    def _end_without_device(self) -> None:
        """End the process if it has lost its device: another one may be able to use it."""
        if self._device is None or self._jobs:
            return
        from framefold.utils import devices

        if self._device in devices.lost:
            flush()
            os._exit(0)  # CUDA would only complain

    def _process(self, number: int, first: Any) -> None:
        """Process the partitions of one job for as long as there are no other messages."""
        job = self._jobs.get(number)
        if job is None or number in self._dropped:
            return  # it failed, or nothing is wanted of it any more
        self._put_back = (first, [])
        taken: int | None = None
        process = os.getpid()
        job.sent = time.monotonic()

        def take() -> int | None:
            nonlocal taken
            end_fork(process)
            taken = None
            if self._put_back is None and self._inbox.empty():
                job.send()
            message, descriptors = self._next()
            if message[:2] != ("task", number):
                self._put_back = (message, descriptors)
                return None
            if number not in self._dropped:
                job.slots.release(message[3])
                taken = message[2]
                job.partition_started = time.monotonic()
            return taken

        def upcoming() -> int | None:
            end_fork(process)
            if self._put_back is None and not self._inbox.empty():
                self._put_back = self._inbox.get()
            match self._put_back:
                case (("task", of, index, _), _) if of == number:
                    return int(index)
            return None

        def give(partial: _engine.Partial) -> None:
            nonlocal taken
            end_fork(process)
            job.put(partial)
            taken = None

        try:
            with nullcontext() if job.place is None else job.place.active():
                job.run.plan.work(take, give, upcoming)
            job.send()
        except BaseException as exception:
            end_fork(process, exception)
            job.send()
            if number not in self._dropped:
                index = self._next_index(number) if taken is None else taken
                self._channel.send(("failed", number, index, failures.pack(exception)))
            failures.clear_traceback(exception)
        finally:
            flush()

    def _next_index(self, number: int) -> int | None:
        """The partition of a job that comes next; None if that is another message, which stays."""
        message, descriptors = self._next()
        if message[:2] == ("task", number):
            return int(message[2])
        self._put_back = (message, descriptors)
        return None

    def _update(self, number: int, pickled: Any, descriptors: list[int]) -> None:
        job = self._jobs.get(number)
        if job is None:
            _close(descriptors)
            return
        try:
            runs.follow(job.run, pickles.load_shared(pickled, descriptors))
        except BaseException as exception:
            self._channel.send(("failed", number, None, failures.pack(exception)))

    def _drop(self, number: int) -> None:
        with self._lock:
            job = self._jobs.pop(number, None)
            self._dropped.discard(number)
        shares_memory = job is not None and (job.shares_memory or job.slots.in_use)
        if job is not None and job.place is not None:
            job.place.close()
        del job
        if shares_memory:
            gc.collect()  # UDF, meta data and run refer to each other, and to that memory
        self._channel.send(("stopped", number))


def serve(handle: int, lifeline: int, device: int | None = None) -> None:
    """Work for the process at the other end of the channel until it is gone."""
    set_up_process(lifeline)
    gc.freeze()  # what is imported by now stays: there is no need to look for garbage in it
    gc.enable()
    channel = connect(handle)
    # A fork in user code must not inherit it: the main process would not notice our end.
    os.register_at_fork(after_in_child=channel.close)
    server = Server(channel, device)
    threading.Thread(target=server.read, name="framefold-reader", daemon=True).start()
    # Whether the main process went away while it was sent something, the reader finds out.
    with suppress(BrokenPipeError, ConnectionResetError):
        server.run()


def set_up_process(lifeline: int) -> None:
    """Make a worker of this process, which ends when the other end of the pipe is closed."""
    end_with(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.stderr is not None:
        faulthandler.enable()  # says what Python was doing when compiled code broke
    # What was only meant for this process to find framefold is undone.
    given = os.environ.pop(GIVEN_PATH, None)
    if given is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = given
    sys.path[:] = dict.fromkeys(sys.path)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
