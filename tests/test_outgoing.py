"""What is sent to workers that do not read it."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time

import pytest
from process_cases import (
    LIMIT,
    eventually,
    frames,
    gone,
    hard_limit,  # noqa: F401 - a fixture
    open_files,
    sleep_with_the_lock,
)

import framefold as ff
from framefold.exceptions import UDFRunCancelled, WorkerTimeoutError
from framefold.executor._processes import channels, crew
from framefold.executor._processes.channels import Channel, MainEnd, over_socket
from framefold.executor._wire import pickles
from framefold.executor.processes import ProcessJobExecutor
from framefold.udf import UDF

pytestmark = pytest.mark.usefixtures("hard_limit")

#: More than a channel takes at a time.
MUCH = b"much" * (1 << 18)


@pytest.fixture
def ends():
    if not channels.CAN_SHARE:
        pytest.skip("descriptors cannot be sent")
    ours, theirs = socket.socketpair()
    outgoing, incoming = over_socket(ours, MainEnd), over_socket(theirs, Channel)
    yield outgoing, incoming
    outgoing.close()
    incoming.close()
    assert eventually(lambda: "ff-sending" not in [each.name for each in threading.enumerate()])
    if sys.platform == "linux":
        assert not [name for name in open_files() if "memfd:framefold" in name]


def memory(number):
    descriptor = pickles.allocate(8)
    os.pwrite(descriptor, b"memory %d" % number, 0)
    return descriptor


def received(channel):
    message, descriptors = channel.receive()
    texts = [os.pread(each, 8, 0) for each in descriptors]
    for each in descriptors:
        os.close(each)
    return message, texts


def test_messages_that_are_not_read_are_sent_later_in_order(ends):
    outgoing, theirs = ends
    for number in range(4):
        descriptor = memory(number)
        outgoing.send(("job", number, MUCH[: 1 << 7 * number]), [descriptor], run=number)
        os.close(descriptor)
        outgoing.send(("tasks", number), run=number)
    assert outgoing.is_held_up
    for number in range(4):
        expected = ("job", number, MUCH[: 1 << 7 * number])
        assert received(theirs) == (expected, [b"memory %d" % number])
        assert received(theirs) == (("tasks", number), [])
    assert eventually(lambda: not outgoing.is_held_up)
    outgoing.send(("tasks", 5), run=5)
    assert not outgoing.is_held_up
    assert received(theirs) == (("tasks", 5), [])


def test_many_short_messages_that_are_not_read(ends):
    outgoing, theirs = ends
    for number in range(5000):
        outgoing.send(("tasks", number, [number] * 20), run=number)
    assert outgoing.is_held_up
    assert [received(theirs)[0][1] for _ in range(5000)] == list(range(5000))


def test_what_waits_of_a_run_can_be_withdrawn(ends):
    outgoing, theirs = ends
    outgoing.send(("job", 1, MUCH), run=1)
    assert eventually(lambda: not outgoing._waiting)
    descriptor = memory(2)
    for number in (1, 2, 3):
        outgoing.send(("job", number), [descriptor], run=number)
        outgoing.send(("tasks", number), run=number)
    os.close(descriptor)
    assert outgoing.withdraw(2) == ["job", "tasks"]
    assert outgoing.withdraw(2) == []
    outgoing.send(("drop", 3), run=3)
    messages = [received(theirs)[0][:2] for _ in range(6)]
    assert messages == [("job", 1), ("job", 1), ("tasks", 1), ("job", 3), ("tasks", 3), ("drop", 3)]
    assert outgoing.withdraw(3) == []


def test_an_end_in_the_middle_of_a_message(ends, monkeypatch):
    monkeypatch.setattr(channels, "PATIENCE", 2 * LIMIT)  # it must not be waited for
    outgoing, _ = ends
    descriptor = memory(1)
    for number in range(3):
        outgoing.send(("job", number, MUCH), [descriptor], run=number)
    os.close(descriptor)
    outgoing.close()
    assert not outgoing.is_held_up


class Offset(UDF):
    """The parameter, for each frame."""

    def __init__(self, **parameters):
        super().__init__(**parameters)

    def get_result_buffers(self):
        return {"level": self.buffer(kind="nav")}

    def process_partition(self, partition):
        self.results.level[:] = self.params.offset


class Stuck(Offset):
    """Holds the GIL of its worker for ever."""

    def process_partition(self, partition):
        open(self.params.file, "w").close()
        sleep_with_the_lock(partition)


class Waiting(Offset):
    """Never gets ready in a worker."""

    def get_result_buffers(self):
        if os.getpid() != self.params.main:
            time.sleep(3600)
        return super().get_result_buffers()


def table():
    """More than a channel takes."""
    return [str(number) * 10 for number in range(100_000)]


def run_beside(context, udf, n_partitions):
    """Runs something on a thread; the list is what becomes of it."""
    end = []

    def run():
        try:
            end.append(context.run_udf(frames(context, 40, n_partitions), udf))
        except BaseException as exception:
            end.append(exception)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, end


def begin_stuck(context, folder):
    """Has one of two workers get stuck."""
    context.run_udf(frames(context), Offset(offset=1))
    file = folder / "stuck"
    thread, end = run_beside(context, Stuck(offset=0, file=str(file)), 1)
    assert eventually(file.exists, 60)
    return thread, end


def test_time_limits_hold_while_a_worker_that_reads_nothing_is_sent_much(tmp_path):
    with ff.Context(executor=ProcessJobExecutor(2, timeout=2)) as context:
        thread, end = begin_stuck(context, tmp_path)
        udf = Offset(offset=7, table=table())
        level = context.run_udf(frames(context, 40, 40), udf)["level"].data
        assert level.tolist() == [7] * 40
        thread.join()
        assert isinstance(end[0], WorkerTimeoutError)
        workers = context.executor.worker_ids
    assert gone(workers)


def test_closing_while_a_worker_that_reads_nothing_is_sent_much(tmp_path):
    with ff.Context(executor=ProcessJobExecutor(2)) as context:
        runs = [begin_stuck(context, tmp_path)]
        runs.append(run_beside(context, Offset(offset=7, table=table()), 40))
        assert eventually(lambda: len(context.executor._pool._jobs) == 2, 60)
        workers = context.executor.worker_ids
    for thread, end in runs:
        thread.join(20)
        assert isinstance(end[0], UDFRunCancelled)
    assert gone(workers)


def test_a_run_that_a_stuck_worker_has_not_heard_of_ends_without_it(tmp_path, monkeypatch):
    monkeypatch.setattr(crew, "LEAVING", 2 * LIMIT)  # it must not be waited for
    with ff.Context(executor=ProcessJobExecutor(2, timeout=60)) as context:
        begin_stuck(context, tmp_path)
        for _ in range(3):  # the first one is half sent, the others wait
            udf = Offset(offset=7, table=table())
            steps = context.run_udf_iter(frames(context, 4000, 4000), udf)
            next(steps)
            time.sleep(0.3)
            steps.close()
        stuck = max(context.executor._pool._workers, key=lambda worker: len(worker.queue))
        assert len(stuck.jobs) == 1
        workers = context.executor.worker_ids
    assert gone(workers)


def test_where_there_can_be_no_more_threads_it_is_waited_for(monkeypatch):
    def no_more(_thread):
        raise RuntimeError("can't start new thread")

    with ff.Context(executor=ProcessJobExecutor(2)) as context:
        context.run_udf(frames(context), Offset(offset=1))
        workers = context.executor.worker_ids
        monkeypatch.setattr(threading.Thread, "start", no_more)
        level = context.run_udf(frames(context), Offset(offset=2, table=table()))["level"].data
        assert level.tolist() == [2] * 40
        assert context.executor.worker_ids == workers
        monkeypatch.undo()
    assert gone(workers)


def test_a_worker_that_never_gets_ready_for_a_run(monkeypatch):
    with ff.Context(executor=ProcessJobExecutor(2, timeout=4)) as context:
        context.run_udf(frames(context), Offset(offset=1))
        # Only now, as it also says how long workers may take to start.
        monkeypatch.setattr(context.executor._pool, "_startup_timeout", 6)
        expected = "did not get ready for the run within 6 seconds"
        with pytest.raises(WorkerTimeoutError, match=expected):
            context.run_udf(frames(context), Waiting(offset=0, main=os.getpid()))
        monkeypatch.undo()
        context.run_udf(frames(context), Offset(offset=1))
