"""Runs end within a fraction of a second, however they are stopped, and leave no thread."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from sample_udfs import Level

import framefold as ff
from framefold.common.progress import ProgressReporter
from framefold.exceptions import (
    UDFRunCancelled,
)
from framefold.udf import UDF


class Slow(UDF):
    """Sleeps in each frame; says that it has started, and which frames it has seen."""

    def __init__(self, started, seen=None):
        super().__init__(started=started, seen=[] if seen is None else seen)

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.params.started.set()
        self.params.seen.append(self.meta.slice.origin[0])
        time.sleep(0.01)
        self.results.x[:] = 1


def workers():
    return [t for t in threading.enumerate() if t.name.startswith("framefold")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    gc.collect()
    assert workers() == []


@pytest.fixture
def slow_dataset(ctx):
    """Far more than any test can wait for, with 10 ms per frame: 100 s in 4 partitions."""
    data = np.zeros((100, 100, 4, 4), dtype=np.float32)
    return ctx.load("memory", data=data, num_partitions=4)


class Stalling(UDF):
    """Fast in the first ten frames, 20 ms in each of the others; says which frames it has seen."""

    def __init__(self, seen):
        super().__init__(seen=seen)

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.params.seen.append(self.meta.slice.origin[0])
        if self.meta.slice.origin[0] >= 10:
            time.sleep(0.02)
        self.results.x[:] = 1


#: Of :func:`stalling`.
N_FRAMES = 4010


@pytest.fixture
def seen():
    """The frames that a function has seen: not all of them if its run was stopped."""
    return []


@pytest.fixture
def stalling(ctx, seen):
    """A run that has yielded once, with far more to do than a test can wait for."""
    data = np.zeros((N_FRAMES, 4, 4), dtype=np.float32)
    dataset = ctx.load("memory", data=data, num_partitions=401)

    steps = ctx.run_udf_iter(dataset=dataset, udf=Stalling(seen))
    results = next(steps)
    assert np.count_nonzero(results.damage.raw_data) == 10
    return steps


def test_close(stalling, seen):
    assert stalling.close() is None
    assert len(seen) < N_FRAMES
    assert workers() == []
    with pytest.raises(StopIteration):
        next(stalling)
    stalling.close()


@pytest.mark.parametrize("exception", [ValueError("mine"), UDFRunCancelled("mine")])
def test_throw(stalling, exception, seen):
    with pytest.raises(type(exception), match="mine") as caught:
        stalling.throw(exception)
    assert caught.value is exception
    assert len(seen) < N_FRAMES
    assert workers() == []
    with pytest.raises(StopIteration):
        next(stalling)


def test_with_statement(stalling):
    with pytest.raises(LookupError), stalling as steps:  # noqa: PT012
        assert steps is stalling
        raise LookupError
    assert workers() == []


def test_closing_before_the_first_step(ctx, slow_dataset):
    started = threading.Event()
    steps = ctx.run_udf_iter(dataset=slow_dataset, udf=Slow(started))
    steps.close()
    assert not started.is_set()
    with pytest.raises(StopIteration):
        next(steps)


def test_a_dropped_generator_stops(ctx, seen):
    data = np.zeros((N_FRAMES, 4, 4), dtype=np.float32)
    dataset = ctx.load("memory", data=data, num_partitions=401)
    steps = ctx.run_udf_iter(dataset=dataset, udf=Stalling(seen))
    next(steps)
    del steps
    gc.collect()
    assert len(seen) < N_FRAMES
    assert workers() == []


def test_closing_from_another_thread(ctx, slow_dataset, seen):
    started = threading.Event()
    steps = ctx.run_udf_iter(dataset=slow_dataset, udf=Slow(started, seen))

    def stop():
        started.wait(60)
        steps.close()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(UDFRunCancelled):
        next(steps)
    stopper.join()
    assert len(seen) < 2500  # of 10 000: not even one partition
    with pytest.raises(StopIteration):
        next(steps)


def test_closing_from_within(ctx, dataset):
    class Closing(ProgressReporter):
        def start(self, state):
            pass

        def update(self, state):
            steps.close()

        def end(self, state):
            ended.append(state)

    ended = []
    steps = ctx.run_udf_iter(dataset=dataset, udf=ff.SumUDF(), progress=Closing())
    next(steps)
    assert len(ended) == 1
    assert workers() == []
    with pytest.raises(StopIteration):
        next(steps)


def test_a_cancelled_user_function_cancels(ctx, dataset):
    class Cancelling(Level):
        def process_frame(self, frame):
            raise UDFRunCancelled("I am done")

    with pytest.raises(UDFRunCancelled, match="I am done"):
        ctx.run_udf(dataset=dataset, udf=Cancelling())
    with pytest.raises(UDFRunCancelled, match="I am done"):
        next(ctx.run_udf_iter(dataset=dataset, udf=Cancelling()))


@pytest.mark.parametrize("where", ["process_frame", "postprocess", "merge"])
def test_exceptions_come_back_as_themselves(ctx, dataset, where):
    class Failing(Level):
        def process_frame(self, frame):
            super().process_frame(frame)
            if where == "process_frame" and self.meta.slice.origin[0] == 20:
                self.fail()

        def postprocess(self):
            if where == "postprocess" and self.meta.slice.origin[0] > 20:
                self.fail()

        def merge(self, dest, src):
            super().merge(dest, src)
            if where == "merge" and self.n_merges() == 3:
                self.fail()

        def n_merges(self):
            self.merges = getattr(self, "merges", 0) + 1
            return self.merges

        def fail(self):
            raise KeyError("broken here")

    steps = ctx.run_udf_iter(dataset=dataset, udf=Failing())
    yielded = 0
    with pytest.raises(KeyError, match="broken here") as caught:  # noqa: PT012
        for _ in steps:
            yielded += 1
    assert 0 < yielded < 5
    assert any("Failing" in note and "partition" in note for note in caught.value.__notes__)
    names = [entry.name for entry in caught.traceback]
    assert "fail" in names
    assert workers() == []
    with pytest.raises(StopIteration):
        next(steps)


def test_an_exception_in_the_loop_passes(ctx, dataset):
    def consume():
        for _ in ctx.run_udf_iter(dataset=dataset, udf=ff.SumUDF()):
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        consume()


def test_work_ahead_is_bounded(data):
    begun = []

    class Noting(Level):
        def preprocess(self):
            begun.append(1)

    with ff.Context.make_with("threads", cpus=2) as ctx:
        dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=42)
        steps = ctx.run_udf_iter(dataset=dataset, udf=Noting())
        next(steps)
        time.sleep(0.3)
        # The merged buffers, one merged, and two for each thread.
        assert len(begun) <= 1 + 1 + 4
        assert len(list(steps)) == 41
        assert len(begun) == 1 + 42


SCRIPT = """
    import sys, threading, time
    import numpy as np
    import framefold as ff
    from framefold.udf import UDF

    class Slow(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def process_frame(self, frame):
            sys.stdout.write("working\\n")
            sys.stdout.flush()
            late = sys.argv[3] == "exit" and self.meta.slice.origin[0] >= 100
            time.sleep(3 if late else 0.02)

    ctx = ff.Context.make_with(sys.argv[1], cpus=2)
    data = np.zeros((100, 100, 8, 8), dtype=np.float32)
    dataset = ctx.load("memory", data=data, num_partitions=int(sys.argv[2]))
    steps = ctx.run_udf_iter(dataset=dataset, udf=Slow())
    if sys.argv[3] == "exit":
        next(steps)
        sys.exit(7)
    try:
        next(steps)
    except KeyboardInterrupt:
        print("threads left:", threading.active_count() - 1)
"""


def run_script(*arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where interrupts are ignored, as in jobs of a shell, children would ignore them, too.
        preexec_fn=None if sys.platform == "win32" else heed_interrupts,
    )


def heed_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(sys.platform == "win32", reason="signals work differently")
@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_ctrl_c(executor):
    process = run_script(executor, "4", "interrupt")
    try:
        assert process.stdout.readline().startswith("working")
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)  # the run would take 100 s and more
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "threads left: 0" in out


def test_the_interpreter_does_not_wait_for_partitions():
    # 2 s for the first partition, 300 s for each of the four that are processed ahead.
    process = run_script("threads", "100", "exit")
    try:
        _, err = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 7, err
