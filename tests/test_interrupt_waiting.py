"""Ctrl-C while a run that ends waits for its threads: it ends without them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import framefold as ff
from framefold import _engine
from framefold.common import _daemon_threads
from framefold.udf import UDF

if sys.platform == "win32":
    pytest.skip("signals work differently here", allow_module_level=True)

LIMIT = 60
SHAPE = (4, 5, 2, 2)


class Blocking:
    """Blocks at the frame 13 until it is let through.

    Before, Ctrl-C comes until it is heard so often within a function of that name.
    """

    def __init__(self, times, within):
        self.times, self.within = times, within
        self.heard = 0
        self.begun = threading.Event()
        self.through = threading.Event()
        self.returned = threading.Event()

    def hear(self, _signal, frame):
        while frame is not None:
            if frame.f_code.co_name == self.within:
                self.heard += 1
                raise KeyboardInterrupt
            frame = frame.f_back

    def __call__(self):
        self.begun.set()
        deadline = time.monotonic() + LIMIT
        for n in range(1, self.times + 1):
            while self.heard < n and time.monotonic() < deadline:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)
        self.through.wait(max(0, deadline - time.monotonic()))
        self.returned.set()

    def end(self):
        """Let the thread go on, and see it end."""
        self.through.set()
        deadline = time.monotonic() + LIMIT
        while _engine.threads_left():
            assert time.monotonic() < deadline, "the thread did not end"
            time.sleep(0.01)
        assert self.returned.is_set()


@pytest.fixture
def blocking():
    made = []

    def make(times, within):
        made.append(Blocking(times, within))
        signal.signal(signal.SIGINT, made[0].hear)
        return made[0]

    before = signal.getsignal(signal.SIGINT)
    try:
        yield make
    finally:
        signal.signal(signal.SIGINT, before)
        made[0].end()


class Source:
    blocked = None

    def __init__(self, path):
        self.shape, self.sig, self.dtype = SHAPE[:2], SHAPE[2:], np.float32

    def read(self, frames, out):
        for i, frame in enumerate(frames):
            if frame == 13:
                Source.blocked()
            out[i] = frame + 1


class BlockingFormat:
    name = "blocking"
    extensions = ()

    @staticmethod
    def open(path: Path) -> Source:
        return Source(path)


class Function(UDF):
    """Blocks where frames of the format above do."""

    def get_result_buffers(self):
        return {"intensity": self.buffer("nav")}

    def process_frame(self, frame):
        if frame[0, 0] == 14:
            Source.blocked()
        self.results.intensity[:] = frame.sum()


def loaded(ctx, which, tmp_path):
    if which == "reader":
        ff.register_format(BlockingFormat)
        path = tmp_path / "x.blocking"
        path.write_bytes(b"x")
        return ctx.load("blocking", path, num_partitions=20), ff.SumSigUDF()
    frames = np.broadcast_to(np.arange(1, 21, dtype="f4").reshape(4, 5, 1, 1), SHAPE)
    return ctx.load("memory", data=frames, sig_dims=2, num_partitions=20), Function()


def check_more_runs(ctx):
    dataset = ctx.load("memory", data=np.ones(SHAPE, np.float32), num_partitions=4)
    found = ctx.run_udf(dataset, [ff.SumUDF(), Level()])
    assert np.all(found[0]["intensity"].data == 20)
    assert np.all(found[1]["level"].data == 4)


class Level(UDF):
    def get_result_buffers(self):
        return {"level": self.buffer("nav")}

    def process_frame(self, frame):
        self.results.level[:] = frame.sum()


@pytest.mark.parametrize("which", ["reader", "function"])
def test_a_second_one_does_not_wait_for_a_thread(blocking, tmp_path, which):
    Source.blocked = blocking(2, "run_udf")
    with ff.Context.make_with("threads", cpus=2) as ctx:
        dataset, udf = loaded(ctx, which, tmp_path)
        with pytest.raises(KeyboardInterrupt) as caught:
            ctx.run_udf(dataset, udf)
        assert not Source.blocked.returned.is_set()
        assert isinstance(caught.value.__context__, KeyboardInterrupt)
        results = caught.value.results
        n = int(results.damage.data.sum())
        assert n <= 13
        expected = np.arange(1, n + 1) * 4
        assert np.array_equal(results[0]["intensity"].raw_data[:n], expected)
        check_more_runs(ctx)  # while the thread is blocked
        Source.blocked.end()
        assert np.array_equal(results[0]["intensity"].raw_data[:n], expected)
        check_more_runs(ctx)


@pytest.mark.parametrize("which", ["reader", "function"])
def test_closing_a_run_does_not_wait_after_the_first_one(blocking, tmp_path, which):
    Source.blocked = blocking(1, "close")
    with ff.Context.make_with("threads", cpus=2) as ctx:
        dataset, udf = loaded(ctx, which, tmp_path)
        steps = ctx.run_udf_iter(dataset, udf)
        for _ in range(12):
            next(steps)
        assert Source.blocked.begun.wait(LIMIT)  # it is processed ahead
        with pytest.raises(KeyboardInterrupt):
            steps.close()
        assert not Source.blocked.returned.is_set()
        with pytest.raises(StopIteration):
            next(steps)
        check_more_runs(ctx)


class Called(UDF):
    """Notes what is called of it, and on which thread."""

    calls: ClassVar[list[tuple[int, str]]] = []

    def get_result_buffers(self):
        return {"x": self.buffer("nav")}

    def get_task_data(self):
        self.calls.append((threading.get_ident(), "get_task_data"))
        return {}

    def process_tile(self, tile):
        self.calls.append((threading.get_ident(), "process_tile"))

    def postprocess(self):
        self.calls.append((threading.get_ident(), "postprocess"))


def test_a_thread_that_is_left_behind_calls_nothing_more(blocking, tmp_path):
    stops = blocking(2, "run_udf")
    ident = []

    def blocked():
        ident.append(threading.get_ident())
        stops()

    Source.blocked = blocked
    with ff.Context.make_with("threads", cpus=2) as ctx:
        dataset, _ = loaded(ctx, "reader", tmp_path)
        with pytest.raises(KeyboardInterrupt):
            ctx.run_udf(dataset, Called())
        calls = [name for thread, name in Called.calls if thread == ident[0]]
        stops.end()
        assert [name for thread, name in Called.calls if thread == ident[0]] == calls


def test_ctrl_c_at_exit_does_not_end_the_interpreter_around_a_thread(monkeypatch, capsys):
    codes = []

    def end_threads(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(_engine, "threads_left", lambda: 1)
    monkeypatch.setattr(_engine, "end_threads", end_threads)
    monkeypatch.setattr(os, "_exit", codes.append)
    with suppress(KeyboardInterrupt):  # which would end the tests
        _daemon_threads._end()
    assert codes == [1]
    assert "did not stop" in capsys.readouterr().err
