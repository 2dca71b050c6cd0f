"""The default executor: what it takes, when, and that no bit depends on it."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
import threading
import time
import warnings
import weakref

import numpy as np
import pytest
from process_cases import eventually, frames, gone, hard_limit  # noqa: F401 - a fixture
from sample_udfs import Level

import framefold as ff
from framefold.exceptions import FramefoldError, InvalidArgumentError, UDFRunCancelled
from framefold.executor import auto
from framefold.executor._wire import pickles
from framefold.executor.auto import AutoJobExecutor
from framefold.udf import UDF
from framefold.warnings import ThreadsInsteadWarning

pytestmark = pytest.mark.usefixtures("hard_limit")

N_FRAMES = 120


class Sums(UDF):
    """Sums whose last bits depend on the order of merging; 1 ms for each frame, if it is slow."""

    seconds = 0.0

    def get_result_buffers(self):
        return {
            "each": self.buffer(kind="nav", dtype="float64"),
            "all": self.buffer(kind="sig", dtype="float32"),
            "pid": self.buffer(kind="nav", dtype="int64"),
        }

    def process_frame(self, frame):
        time.sleep(self.seconds)
        self.results.pid[:] = os.getpid()
        self.results.each[:] = frame.sum()
        self.results.all[:] += frame * 0.1

    def merge(self, dest, src):
        dest.each[:] = src.each
        dest.all[:] += src.all
        dest.pid[:] = src.pid


class Slow(Sums):
    seconds = 0.001


@pytest.fixture
def ctx():
    with ff.Context.make_with("auto", cpus=2) as context:
        yield context
        workers = context.executor.worker_ids
    assert gone(workers)


@pytest.fixture
def eager(monkeypatch):
    """Worker processes are asked for at once."""
    monkeypatch.setattr(auto, "PATIENCE", 0.0)


@pytest.fixture(scope="module")
def kept():
    """A context that keeps its worker processes from test to test."""
    with ff.Context.make_with("auto", cpus=2) as context:
        yield context
        workers = context.executor.worker_ids
    assert gone(workers)


@pytest.fixture
def warm(kept, dataset, eager):
    """Worker processes are running, and idle."""
    kept.run_udf(dataset, Slow())
    pool = kept.executor._processes._pool
    assert eventually(lambda: len(pool._workers) == 2 and all(w.ready for w in pool._workers))
    return kept


@pytest.fixture
def dataset(ctx):
    data = np.random.default_rng(2).random((N_FRAMES, 8, 8)).astype(np.float32)
    return ctx.load("memory", data=data, num_partitions=30)


def assert_right(results, dataset):
    inline = ff.Context.make_with("inline").run_udf(dataset, Sums())
    for name in ("each", "all"):
        assert results[name].data.tobytes() == inline[name].data.tobytes()


def in_workers(results):
    """Which positions were processed by worker processes."""
    return results["pid"].data != os.getpid()


def test_it_is_the_default():
    for context in (ff.Context(), ff.Context.make_with(), ff.Context.make_with("auto")):
        assert type(context.executor) is AutoJobExecutor
        assert context.executor.worker_ids == []


def test_short_runs_start_nothing(ctx, dataset, monkeypatch):
    assert "after 0.1 s" in ctx.explain(dataset, Sums())
    monkeypatch.setattr(auto, "PATIENCE", 1000.0)
    before = set(threading.enumerate())
    results = ctx.run_udf(dataset, Sums())
    assert_right(results, dataset)
    assert not in_workers(results).any()
    assert ctx.executor.worker_ids == []
    assert set(threading.enumerate()) <= before
    assert "begins on the calling thread; 2 worker processes" in ctx.explain(dataset, Sums())


def test_worker_processes_take_over_when_they_are_ready(ctx, eager, tmp_path):
    class Long(Sums):
        """Takes long until a worker process has begun."""

        def __init__(self, main, begun):
            UDF.__init__(self, main=main, begun=begun)

        def process_frame(self, frame):
            if os.getpid() != self.params.main:
                self.params.begun.touch()
            elif not self.params.begun.exists():
                time.sleep(0.01)
            super().process_frame(frame)

    data = np.random.default_rng(2).random((3000, 8, 8)).astype(np.float32)
    dataset = ctx.load("memory", data=data, num_partitions=300)
    results = ctx.run_udf(dataset, Long(os.getpid(), tmp_path / "begun"))
    assert_right(results, dataset)
    elsewhere = in_workers(results)
    assert elsewhere.any()
    assert not elsewhere[:2].any()  # the calling thread does not wait for them
    assert len(ctx.executor.worker_ids) == 2


@pytest.mark.parametrize("roi", [None, np.arange(N_FRAMES) % 3 == 0])
def test_workers_that_are_running_are_used_from_the_beginning(warm, dataset, roi):
    workers = warm.executor.worker_ids
    assert "asked for from the beginning" in warm.explain(dataset, Slow())
    steps = list(warm.run_udf_iter(dataset, [Slow(), ff.SumUDF()], roi=roi))
    inline = ff.Context.make_with("inline")
    expected = inline.run_udf_iter(dataset, [Sums(), ff.SumUDF()], roi=roi)
    for got, wanted in zip(steps, expected, strict=True):
        for mine, theirs in zip(got.buffers, wanted.buffers, strict=True):
            for name in set(theirs) - {"pid"}:
                assert mine[name].raw_data.tobytes() == theirs[name].raw_data.tobytes()
    pids = steps[-1].buffers[0]["pid"].raw_data
    assert set(pids) <= {*workers, os.getpid()}
    assert set(pids) & set(workers)
    assert warm.executor.worker_ids == workers


def test_idle_workers_end(ctx, dataset, eager, monkeypatch):
    monkeypatch.setattr(auto, "IDLE", 0.3)
    ctx.run_udf(dataset, Slow())
    workers = ctx.executor.worker_ids
    assert workers
    assert eventually(lambda: gone(workers))
    assert_right(ctx.run_udf(dataset, Slow()), dataset)


@pytest.mark.parametrize(
    ("udfs", "cpus", "n_partitions", "reason"),
    [
        ([ff.SumUDF()], 2, 4, "all UDFs run on native kernels"),
        ([Slow()], 1, 4, "there is one core"),
        ([Slow()], 2, 1, "there is one partition"),
    ],
)
def test_where_there_is_no_choice(eager, udfs, cpus, n_partitions, reason):
    with ff.Context.make_with("auto", cpus=cpus) as ctx:
        data = np.zeros((20, 4, 4), dtype=np.float32)
        dataset = ctx.load("memory", data=data, num_partitions=n_partitions)
        assert f"auto: threads, as {reason}" in ctx.explain(dataset, udfs)
        ctx.run_udf(dataset, udfs)
        assert ctx.executor.worker_ids == []


def test_an_error_is_the_first_one_wherever_it_comes_from(warm, dataset):
    class Failing(Slow):
        def process_frame(self, frame):
            super().process_frame(frame)
            if self.meta.slice.origin[0] in (50, 90):
                raise ZeroDivisionError(str(self.meta.slice.origin[0]))

    for _ in range(3):
        with pytest.raises(ZeroDivisionError, match="50"):
            warm.run_udf(dataset, Failing())
    assert_right(warm.run_udf(dataset, Slow()), dataset)


class FailsLate(Level):
    """In the second half of the frames."""

    def process_frame(self, frame):
        if self.meta.slice.origin[0] >= 20:
            raise ZeroDivisionError
        super().process_frame(frame)


def test_a_run_that_is_left_before_its_error_is_gone(ctx):
    steps = ctx.run_udf_iter(frames(ctx, 40, 2), FailsLate())
    next(steps)
    left = weakref.ref(steps)
    del steps
    gc.collect()
    assert left() is None
    with pytest.raises(ZeroDivisionError):
        ctx.run_udf(frames(ctx, 40, 2), FailsLate())


def test_what_cannot_be_sent_stays_here_with_a_warning(ctx, dataset, eager):
    class Locked(Slow):
        def __init__(self, lock):
            UDF.__init__(self, lock=lock)

    with pytest.warns(
        ThreadsInsteadWarning, match="Locked: parameter 'lock', a lock, cannot"
    ) as given:
        assert_right(ctx.run_udf(dataset, Locked(threading.Lock())), dataset)
    assert [warning.filename for warning in given] == [__file__]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user's that worker processes import on their own."""
    name = f"module_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        "import time\n"
        "from test_auto import Slow\n"
        "LIMITS = {'low': 1, 'names': {'a', 'b', 'c'}}\n"
        "def helper(frame):\n"
        "    return frame.sum() * LIMITS['low']\n"
        "class Imported(Slow):\n"
        "    def process_frame(self, frame):\n"
        "        super().process_frame(frame)\n"
        "        self.results.each[:] = helper(frame)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(name)
    sys.modules.pop(name, None)


def test_modules_that_were_changed_since(warm, dataset, module, monkeypatch):
    """By assignment, or as a notebook reloads them: workers get the code as it is here."""

    def check(function=module.helper):
        monkeypatch.setattr(module, "helper", function)
        expected = ff.Context.make_with("inline").run_udf(dataset, module.Imported())
        got = warm.run_udf(dataset, module.Imported())
        assert got["each"].data.tolist() == expected["each"].data.tolist()
        assert in_workers(got).any()

    check()
    module.LIMITS["low"] = 2
    check()
    module.LIMITS["low"] = 1
    check()
    check(lambda frame: frame.max())


def test_modules_that_cannot_be_sent(ctx, tmp_path, monkeypatch):
    """As they have a lock: what workers have imported of them is not taken for what is here."""
    name = f"locked_{tmp_path.name}"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    dataset = ctx.load("memory", data=np.ones((4, 2, 2), np.float32), sig_dims=2)
    path = tmp_path / f"{name}.py"
    path.write_text(LOCKED.format(scale=2))
    module = importlib.import_module(name)
    try:
        with ff.Context.make_with("processes", cpus=1) as processes:
            for _ in range(2):  # workers have a model the second time, and a filled cache
                found = processes.run_udf(dataset, module.Locked())["level"].data
                assert found.tolist() == [8] * 4
            path.write_text(LOCKED.format(scale="1 + 2"))  # of another size than what is compiled
            importlib.reload(module)
            with pytest.raises(FramefoldError, match=rf"{name}\.level\.scale is not the same"):
                processes.run_udf(dataset, module.Locked())
    finally:
        sys.modules.pop(name, None)


LOCKED = """
import functools
import threading
from framefold.udf import UDF
lock, found = threading.Lock(), {{}}
def scaled(scale):
    def decorator(function):
        @functools.wraps(function)
        def wrapper(frame):
            return function(frame) * scale
        return wrapper
    return decorator
model = None
class Model:
    def total(self, frame):
        return frame.sum()
@scaled({scale})
def level(frame):
    global model
    with lock:
        model = model or Model()
        return found.setdefault(frame.tobytes(), model.total(frame))
class Locked(UDF):
    def get_result_buffers(self):
        return {{"level": self.buffer(kind="nav")}}
    def process_frame(self, frame):
        self.results.level[:] = level(frame)
"""


def test_modules_that_workers_cannot_import(warm, dataset, module, monkeypatch):
    monkeypatch.setattr(module.Imported, "__module__", "ghost")
    monkeypatch.setitem(sys.modules, "ghost", module)
    got = warm.run_udf(dataset, module.Imported())
    expected = ff.Context.make_with("inline").run_udf(dataset, module.Imported())
    assert got["all"].data.tobytes() == expected["all"].data.tobytes()
    assert in_workers(got).any()


class Opening:
    """A parameter that cannot be had in another process."""

    def __init__(self):
        self.here = os.getpid()

    def __setstate__(self, state):
        self.__dict__.update(state)
        if os.getpid() != self.here:
            raise ModuleNotFoundError("there is no such thing here")


def test_what_workers_cannot_make_stays_here_with_a_warning(warm, dataset):
    class Asking(Slow):
        def __init__(self, opening):
            UDF.__init__(self, opening=opening)

    with pytest.warns(ThreadsInsteadWarning, match="no such thing"):
        results = warm.run_udf(dataset, Asking(Opening()))
    assert_right(results, dataset)
    assert not in_workers(results).any()


def test_workers_that_cannot_open_what_they_share_are_done_without(warm, dataset):
    class Crowded(Slow):
        def __init__(self, here):
            UDF.__init__(self, here=here)

        def process_frame(self, frame):
            if os.getpid() != self.params.here and self.meta.slice.origin[0] > N_FRAMES // 2:
                raise pickles.OpenFilesError("there are too many")
            super().process_frame(frame)

    with pytest.warns(ThreadsInsteadWarning, match="there are too many"):
        assert_right(warm.run_udf(dataset, Crowded(os.getpid())), dataset)


def test_workers_that_do_not_start(ctx, dataset, eager, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.warns(ThreadsInsteadWarning, match="could not be started"):
        assert_right(ctx.run_udf(dataset, Slow()), dataset)
    monkeypatch.setattr(sys, "executable", None)
    with pytest.warns(ThreadsInsteadWarning, match=r"sys\.executable"):
        assert_right(ctx.run_udf(dataset, Slow()), dataset)
    monkeypatch.undo()
    assert_right(ctx.run_udf(dataset, Slow()), dataset)


def test_data_that_are_too_large_to_copy(ctx, dataset, eager, monkeypatch):
    assert dataset._bytes_to_copy == N_FRAMES * 64 * 4
    monkeypatch.setattr(auto, "SHARE", 1e-12)
    assert_right(ctx.run_udf(dataset, Slow()), dataset)
    assert "would take too much memory" in ctx.explain(dataset, Slow())
    assert ctx.executor.worker_ids == []


def test_a_copy_takes_no_more_than_the_process_may_have():
    """Here by a limit of its addresses; in containers, by that of their control group."""
    script = """
import resource
import numpy as np
import framefold as ff

class Sums(ff.UDF):
    def get_result_buffers(self):
        return {"sums": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.results.sums[:] = frame.sum()

ctx = ff.Context.make_with("auto", cpus=2)
dataset = ctx.load("memory", data=np.ones((64, 64, 64, 64), dtype=np.uint16))
print("begins on the calling thread" in ctx.explain(dataset, Sums()))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 25), resource.RLIM_INFINITY))
print("threads, as a copy of the data, 33554432 bytes," in ctx.explain(dataset, Sums()))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_parameters_change_wherever_the_run_is(warm):
    class SlowLevel(Level):
        def process_frame(self, frame):
            time.sleep(0.001)
            super().process_frame(frame)

    zeros = warm.load("memory", data=np.zeros((N_FRAMES, 8, 8)), num_partitions=60)
    with warm.run_udf_iter(zeros, SlowLevel(offset=1)) as steps:
        next(steps)
        steps.update_parameters_experimental([{"offset": 7}])
        levels = [results[0]["level"].raw_data for results in steps][-1]
    assert levels[0] == 1
    assert levels[-1] == 7


def test_closing_in_the_middle(ctx, dataset, eager):
    before = set(threading.enumerate())
    with ctx.run_udf_iter(dataset, Slow()) as steps:
        for _ in range(20):
            next(steps)
    assert_right(ctx.run_udf(dataset, Slow()), dataset)

    class Slower(Slow):
        seconds = 0.01  # or the rest is soon done on a machine that does much else

    steps = ctx.run_udf_iter(dataset, Slower())
    for _ in range(20):
        next(steps)
    ctx.close()
    with pytest.raises(UDFRunCancelled, match="closed"):
        list(steps)
    with pytest.raises(InvalidArgumentError, match="this executor is closed"):
        ctx.run_udf(dataset, Slow())
    assert eventually(lambda: set(threading.enumerate()) <= before)


@pytest.mark.parametrize("name", ["auto", "processes"])
def test_closing_before_workers_are_asked_for(dataset, eager, name):
    ctx = ff.Context.make_with(name, cpus=2)
    steps = ctx.run_udf_iter(dataset, Slow())
    ctx.close()
    with pytest.raises(UDFRunCancelled, match="the executor was closed during the run"):
        list(steps)


def test_no_warning_where_all_is_well(ctx, dataset, eager):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_right(ctx.run_udf(dataset, Slow()), dataset)
