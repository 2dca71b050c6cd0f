"""The default executor: what it takes, when, and that no bit depends on it."""

from __future__ import annotations

import importlib
import sys
import threading
import time
import warnings
from functools import partial

import numpy as np
import pytest
from process_cases import eventually, gone, hard_limit  # noqa: F401 - a fixture
from sample_udfs import Level

import framefold as ff
from framefold.exceptions import InvalidArgumentError, UDFRunCancelled
from framefold.executor import _pace, auto
from framefold.executor.auto import AutoJobExecutor
from framefold.udf import UDF
from framefold.warnings import ThreadsInsteadWarning

pytestmark = pytest.mark.usefixtures("hard_limit")

COUNTS = [0]
CACHE: dict[int, int] = {}
N_FRAMES = 120


class Sums(UDF):
    """Sums whose last bits depend on the order of merging; 1 ms for each frame, if it is slow."""

    seconds = 0.0

    def get_result_buffers(self):
        return {
            "each": self.buffer(kind="nav", dtype="float64"),
            "all": self.buffer(kind="sig", dtype="float32"),
        }

    def process_frame(self, frame):
        time.sleep(self.seconds)
        self.results.each[:] = frame.sum()
        self.results.all[:] += frame * 0.1

    def merge(self, dest, src):
        dest.each[:] = src.each
        dest.all[:] += src.all


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
    """Worker processes are worth while for a hundredth of a second."""
    for name, seconds in (("WORTH", 0.01), ("WORTH_RUNNING", 0.01), ("STARTING", 0.005)):
        monkeypatch.setattr(auto, name, seconds)


@pytest.fixture
def dataset(ctx):
    data = np.random.default_rng(2).random((N_FRAMES, 8, 8)).astype(np.float32)
    return ctx.load("memory", data=data, num_partitions=30)


def assert_right(results, dataset):
    inline = ff.Context.make_with("inline").run_udf(dataset, Sums())
    for name, buffer in inline.items():
        assert results[name].data.tobytes() == buffer.data.tobytes()


def latest(ctx, dataset, udf):
    return ctx.explain(dataset, udf).partition("the latest run of these UDFs: ")[2].strip()


def test_it_is_the_default():
    for context in (ff.Context(), ff.Context.make_with(), ff.Context.make_with("auto")):
        assert type(context.executor) is AutoJobExecutor
        assert context.executor.worker_ids == []


def test_small_runs_stay_here(ctx, dataset, monkeypatch):
    monkeypatch.setattr(auto, "WORTH", 1000.0)
    before = threading.active_count()
    assert_right(ctx.run_udf(dataset, Sums()), dataset)
    assert ctx.executor.worker_ids == []
    assert threading.active_count() == before
    assert "take over where more than 1000 s are left" in ctx.explain(dataset, Sums())
    assert latest(ctx, dataset, Sums())
    assert not latest(ctx, dataset, Level())


@pytest.mark.parametrize("roi", [None, np.arange(N_FRAMES) % 3 == 0])
def test_long_ones_go_to_worker_processes(ctx, dataset, eager, roi):
    steps = list(ctx.run_udf_iter(dataset, [Slow(), ff.SumUDF()], roi=roi))
    inline = ff.Context.make_with("inline")
    expected = inline.run_udf_iter(dataset, [Sums(), ff.SumUDF()], roi=roi)
    for got, wanted in zip(steps, expected, strict=True):
        for mine, theirs in zip(got.buffers, wanted.buffers, strict=True):
            for name in theirs:
                assert mine[name].raw_data.tobytes() == theirs[name].raw_data.tobytes()
    workers = ctx.executor.worker_ids
    assert len(workers) == 2
    assert latest(ctx, dataset, [Slow(), ff.SumUDF()]).startswith("worker processes from part")
    ctx.run_udf(dataset, Slow())
    assert ctx.executor.worker_ids == workers


def test_the_rest_may_go_to_threads(ctx, dataset, monkeypatch):
    class Noting(Slow):
        def process_frame(self, frame):
            super().process_frame(frame)
            self.results.each[:] = threading.get_ident()

    monkeypatch.setattr(_pace, "SHORT", 0.01)
    monkeypatch.setattr(auto, "WORTH", 1000.0)
    assert_right(ctx.run_udf(dataset, Slow()), dataset)
    idents = ctx.run_udf(dataset, Noting())["each"].data
    assert idents[0] == threading.get_ident()
    assert len(set(idents.tolist())) > 1
    assert ctx.executor.worker_ids == []
    assert " s of work were left after partition " in latest(ctx, dataset, Noting())


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


class Counting(Slow):
    def process_frame(self, frame):
        super().process_frame(frame)
        COUNTS[0] += 1


class Noting(Slow):
    """Rarely; that can only be seen from the code."""

    def process_frame(self, frame):
        super().process_frame(frame)
        if self.meta.slice.origin[0] == N_FRAMES - 1:
            NOTED.append(1)


NOTED: list[int] = []


class OfTheClass(Slow):
    n_calls = 0

    def postprocess(self):
        type(self).n_calls += 1


class Global(Slow):
    def process_frame(self, frame):
        global TOTAL
        super().process_frame(frame)
        TOTAL += 1


TOTAL = 0


class Counter:
    def __init__(self):
        self.total = 0

    def add(self, number):
        self.total += number


def test_functions_that_change_something_else_stay_here(ctx, dataset, eager):
    appended, calls, values = [], [], np.zeros((N_FRAMES,))

    class Appending(Slow):
        def process_frame(self, frame):
            super().process_frame(frame)
            appended.append(self.meta.slice.origin[0])

    class Filling(Slow):
        def process_frame(self, frame):
            super().process_frame(frame)
            values[self.meta.slice.origin[0]] = 1

    class Helped(Slow):
        def process_frame(self, frame):
            super().process_frame(frame)
            [helper(n) for n in range(1)]

    def helper(_n):
        appended.append(-1)

    class Calling(Slow):
        def __init__(self, call):
            UDF.__init__(self, call=call)

        def process_frame(self, frame):
            super().process_frame(frame)
            self.params.call(-2)

    COUNTS[0], NOTED[:], OfTheClass.n_calls = 0, [], 0
    for udf, name in [
        (Appending(), "'appended'"),
        (Filling(), "'values'"),
        (Helped(), "'appended'"),
        (Calling(appended.append), "parameter 'call' of Calling"),
        (Calling(partial(calls.append)), "parameter 'call' of Calling"),
        (Calling(Counter().add), "parameter 'call' of Calling"),
        (Counting(), "'COUNTS'"),
        (Noting(), "'NOTED'"),
        (OfTheClass(), "OfTheClass.n_calls"),
        (Global(), "'TOTAL'"),
    ]:
        assert_right(ctx.run_udf(dataset, udf), dataset)
        assert name in latest(ctx, dataset, udf), type(udf)
        assert "which worker processes could not" in latest(ctx, dataset, udf)
    assert sorted(appended) == [-2] * N_FRAMES + [-1] * N_FRAMES + list(range(N_FRAMES))
    assert calls == [-2] * N_FRAMES
    assert values.all()
    assert (COUNTS[0], NOTED, OfTheClass.n_calls, TOTAL) == (N_FRAMES, [1], 30, N_FRAMES)


def test_what_is_read_only_or_filled_once_does_no_harm(ctx, dataset, eager):
    table, factors = {"one": [1, 2, 3]}, np.ones(8)

    class Reading(Slow):
        def process_frame(self, frame):
            if 0 not in CACHE:
                CACHE[0] = 1
            super().process_frame(frame * factors * table["one"][0])

        def merge(self, dest, src):
            super().merge(dest, src)
            merged.append(1)  # here, wherever the rest is

    merged = []
    CACHE.clear()
    ctx.run_udf(dataset, Reading())
    assert latest(ctx, dataset, Reading()).startswith("worker processes from partition")
    assert len(merged) == 30


def test_what_cannot_be_sent_stays_here_with_a_warning(ctx, dataset, eager):
    class Locked(Slow):
        def __init__(self, lock):
            UDF.__init__(self, lock=lock)

    with pytest.warns(ThreadsInsteadWarning, match="Locked: parameter 'lock', a lock, cannot"):
        assert_right(ctx.run_udf(dataset, Locked(threading.Lock())), dataset)
    assert latest(ctx, dataset, Locked(threading.Lock())).startswith("worker processes cannot")


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


def test_modules_that_workers_import(ctx, dataset, eager, module):
    expected = ff.Context.make_with("inline").run_udf(dataset, module.Imported())["each"].data
    assert np.array_equal(ctx.run_udf(dataset, module.Imported())["each"].data, expected)
    assert latest(ctx, dataset, module.Imported()).startswith("worker processes from partition")


def test_modules_that_were_changed_since(ctx, dataset, eager, module, monkeypatch):
    """By assignment, or as a notebook reloads them; workers have what they imported."""

    def results(function=module.helper):
        monkeypatch.setattr(module, "helper", function)
        expected = ff.Context.make_with("inline").run_udf(dataset, module.Imported())
        got = ctx.run_udf(dataset, module.Imported())
        assert got["each"].data.tolist() == expected["each"].data.tolist()
        return latest(ctx, dataset, module.Imported())

    assert results().startswith("worker processes from")
    module.LIMITS["low"] = 2
    said = results()
    assert "LIMITS" in said
    assert said.endswith("is not the same in worker processes")
    module.LIMITS["low"] = 1
    assert results().startswith("worker processes from")
    said = results(lambda frame: frame.max())
    assert said.endswith("is not the same in worker processes")


def test_modules_that_workers_cannot_import(ctx, dataset, eager, module, monkeypatch):
    monkeypatch.setattr(module.Imported, "__module__", "ghost")
    monkeypatch.setitem(sys.modules, "ghost", module)
    with pytest.warns(ThreadsInsteadWarning, match="No module named 'ghost'"):
        got = ctx.run_udf(dataset, module.Imported())
    expected = ff.Context.make_with("inline").run_udf(dataset, module.Imported())
    assert got["all"].data.tobytes() == expected["all"].data.tobytes()


def test_workers_that_do_not_start(ctx, dataset, eager, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.warns(ThreadsInsteadWarning, match="could not be started"):
        assert_right(ctx.run_udf(dataset, Slow()), dataset)
    monkeypatch.setattr(sys, "executable", None)
    with pytest.warns(ThreadsInsteadWarning, match=r"sys\.executable"):
        assert_right(ctx.run_udf(dataset, Slow()), dataset)
    monkeypatch.undo()
    ctx.run_udf(dataset, Slow())
    assert latest(ctx, dataset, Slow())


def test_data_that_are_too_large_to_copy(ctx, dataset, eager, monkeypatch):
    assert dataset._bytes_to_copy == N_FRAMES * 64 * 4
    monkeypatch.setattr(auto, "COPYING", 1e3)
    assert_right(ctx.run_udf(dataset, Slow()), dataset)
    assert latest(ctx, dataset, Slow()).endswith("would take too long")
    monkeypatch.setattr(auto, "SHARE", 1e-12)
    assert_right(ctx.run_udf(dataset, Slow()), dataset)
    assert latest(ctx, dataset, Slow()).endswith("would take too much memory")
    assert ctx.executor.worker_ids == []


def test_a_slow_beginning(ctx, dataset, monkeypatch):
    class Compiling(Sums):
        def preprocess(self):
            if self.meta.slice is not None and self.meta.slice.origin[0] == 0:
                time.sleep(0.2)

    monkeypatch.setattr(auto, "STARTING", 3)
    assert_right(ctx.run_udf(dataset, Compiling()), dataset)
    assert latest(ctx, dataset, Compiling()).startswith("after a slow beginning")


def test_parameters_change_wherever_the_run_is(ctx, dataset, eager):
    class SlowLevel(Level):
        def process_frame(self, frame):
            time.sleep(0.001)
            super().process_frame(frame)

    zeros = ctx.load("memory", data=np.zeros((N_FRAMES, 8, 8)), num_partitions=60)
    with ctx.run_udf_iter(zeros, SlowLevel(offset=1)) as steps:
        next(steps)
        steps.update_parameters_experimental([{"offset": 7}])
        levels = [results[0]["level"].raw_data for results in steps][-1]
    assert levels[0] == 1
    assert levels[-1] == 7
    assert latest(ctx, zeros, SlowLevel()).startswith("worker processes")


def test_closing_in_the_middle(ctx, dataset, eager):
    before = threading.active_count()
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
    assert eventually(lambda: threading.active_count() == before)


def test_no_warning_where_all_is_well(ctx, dataset, eager):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ctx.run_udf(dataset, Slow())
