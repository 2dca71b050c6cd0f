"""Runs step by step: partial results, their state and lifetime, stopping, progress, plots."""

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

import framefold as ff
from framefold.common.buffers import BufferWrapper
from framefold.common.progress import ProgressReporter, TQDMProgressReporter
from framefold.exceptions import (
    FileAccessError,
    InvalidArgumentError,
    UDFRunCancelled,
    UnsupportedError,
)
from framefold.executor.make import ExecutorSpecException
from framefold.udf import UDF
from framefold.viz.base import Dummy2DPlot


class Level(UDF):
    """The frame's sum plus a parameter, and the maximum over all frames."""

    def __init__(self, offset=0):
        super().__init__(offset=offset)

    def get_result_buffers(self):
        return {
            "level": self.buffer(kind="nav", dtype="float64"),
            "peak": self.buffer(kind="sig"),
        }

    def process_frame(self, frame):
        self.results.level[:] = frame.sum() + self.params.offset
        self.results.peak[:] = np.maximum(self.results.peak, frame)

    def merge(self, dest, src):
        dest.level[:] = src.level
        dest.peak[:] = np.maximum(dest.peak, src.peak)


class Slow(UDF):
    """Sleeps in each frame; counts the frames of all runs of the same object."""

    def __init__(self, started, seconds=0.01):
        super().__init__(started=started, seconds=seconds)

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.params.started.set()
        time.sleep(self.params.seconds)
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


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("with_roi", [False, True])
def test_the_last_partial_results_are_those_of_run_udf(ctx, data, with_roi):
    rng = np.random.default_rng(3)
    floats = rng.normal(size=data.shape).astype(np.float32)
    dataset = ctx.load("memory", data=floats, sig_dims=2, num_partitions=5)
    roi = rng.random((6, 7)) < 0.6 if with_roi else None
    udfs = [ff.SumUDF(), Level(), ff.StdDevUDF(), ff.SumSigUDF()]
    expected = ctx.run_udf(dataset, udfs, roi=roi)
    last = None
    for results in ctx.run_udf_iter(dataset, udfs, roi=roi):
        last = results
    assert len(last) == len(expected) == 4
    for found, wanted in zip(last.buffers, expected, strict=True):
        assert found.keys() == wanted.keys()
        for name in wanted:
            assert same(found[name].raw_data, wanted[name].raw_data)
            assert same(found[name].data, wanted[name].data)
    wanted_damage = np.ones((6, 7), dtype=bool) if roi is None else roi
    assert np.array_equal(last.damage.data, wanted_damage)


def test_results_and_damage_follow_each_merge(ctx, dataset, data):
    frames = data.reshape(42, -1).sum(axis=1)
    flat = data.reshape(42, 10, 12)
    done = 0
    n_steps = 0
    for results in ctx.run_udf_iter(dataset=dataset, udf=Level()):
        merged = results.damage.raw_data
        assert results.damage.kind == "nav"
        assert results.damage.data.shape == (6, 7)
        assert merged.dtype == bool
        assert isinstance(results.buffers, tuple)
        assert results[0] is results.buffers[0]
        now = np.count_nonzero(merged)
        assert now > done
        assert merged[:now].all()
        level = results[0]["level"]
        assert np.array_equal(level.raw_data[:now], frames[:now])
        assert np.isnan(level.data.reshape(-1)[now:]).all()
        assert np.array_equal(level.valid_mask.reshape(-1), merged)
        assert np.array_equal(results[0]["peak"].data, flat[:now].max(axis=0))
        done, n_steps = now, n_steps + 1
    assert done == 42
    assert n_steps == 5


def test_damage_and_roi(ctx, dataset):
    roi = np.zeros((6, 7), dtype=bool)
    roi[1:4, 2:] = True
    sizes = []
    for results in ctx.run_udf_iter(dataset=dataset, udf=ff.SumSigUDF(), roi=roi):
        damage = results.damage.data
        assert not damage[~roi].any()
        assert results.damage.raw_data.shape == (15,)
        assert np.array_equal(results[0]["intensity"].valid_mask, damage)
        sizes.append(np.count_nonzero(damage))
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == 15


def test_kept_results_stay_those_of_their_step(ctx, dataset, data):
    kept = list(ctx.run_udf_iter(dataset=dataset, udf=Level()))
    flat = data.reshape(42, 10, 12)
    assert len(kept) == 5
    for results in kept:
        n = np.count_nonzero(results.damage.raw_data)
        assert np.array_equal(results[0]["peak"].data, flat[:n].max(axis=0))


def test_results_are_computed_only_if_somebody_can_look(ctx, dataset):
    calls = []

    class Counting(Level):
        def get_results(self):
            calls.append(1)
            return {}

    steps = ctx.run_udf_iter(dataset=dataset, udf=Counting())
    for _ in range(5):
        next(steps)  # dropped at once
    assert calls == []
    with pytest.raises(StopIteration):
        next(steps)
    steps = ctx.run_udf_iter(dataset=dataset, udf=Counting())
    first = next(steps)
    assert first.buffers is first.buffers
    assert len(calls) == 1
    steps.close()


def test_failing_get_results_is_reported_to_who_looks(ctx, dataset):
    class Early(Level):
        def get_results(self):
            if not self.results.level.all():
                raise LookupError("not complete")
            return {}

    kept = list(ctx.run_udf_iter(dataset=dataset, udf=Early()))
    with pytest.raises(LookupError, match="not complete"):
        _ = kept[0].buffers
    assert kept[-1][0]["level"].data.all()


def test_steps_after_the_end(ctx, dataset):
    steps = ctx.run_udf_iter(dataset=dataset, udf=ff.SumUDF())
    assert iter(steps) is steps
    last = list(steps)[-1]
    with pytest.raises(StopIteration):
        next(steps)
    steps.close()
    assert last[0]["intensity"].data.any()


def test_arguments_are_checked_at_once(ctx, dataset):
    for call in (ctx.run_udf, ctx.run_udf_iter):
        with pytest.raises(InvalidArgumentError, match="not a UDF; pass an instance"):
            call(dataset=dataset, udf=Level)
        with pytest.raises(InvalidArgumentError, match="list is empty"):
            call(dataset=dataset, udf=[])
        with pytest.raises(InvalidArgumentError, match="ROI"):
            call(dataset=dataset, udf=Level(), roi=np.zeros((6, 7), dtype=bool))
        with pytest.raises(UnsupportedError, match="corrections are not available"):
            call(dataset=dataset, udf=Level(), corrections=object())
        with pytest.raises(InvalidArgumentError, match="progress is a str"):
            call(dataset=dataset, udf=Level(), progress="yes")
        with pytest.raises(InvalidArgumentError, match="'nonsense' is no array format"):
            call(dataset=dataset, udf=Level(), backends="nonsense")
        with pytest.raises(InvalidArgumentError, match="backends is empty"):
            call(dataset=dataset, udf=Level(), backends=())
        with pytest.raises(UnsupportedError, match="only 'numpy' is available"):
            call(dataset=dataset, udf=Level(), backends=("sparse.COO",))
    for backends in ("numpy", ("sparse.COO", "numpy")):
        ctx.run_udf(dataset=dataset, udf=Level(), backends=backends)


# Stopping


class Stalling(UDF):
    """Fast in the first ten frames, 20 ms in each of the others."""

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        if self.meta.slice.origin[0] >= 10:
            time.sleep(0.02)
        self.results.x[:] = 1


@pytest.fixture
def stalling(ctx):
    """A run that has yielded once, with far more to do than a test can wait for."""
    data = np.zeros((4010, 4, 4), dtype=np.float32)
    dataset = ctx.load("memory", data=data, num_partitions=401)

    steps = ctx.run_udf_iter(dataset=dataset, udf=Stalling())
    results = next(steps)
    assert np.count_nonzero(results.damage.raw_data) == 10
    return steps


def test_close(stalling):
    begin = time.monotonic()
    assert stalling.close() is None
    assert time.monotonic() - begin < 1
    assert workers() == []
    with pytest.raises(StopIteration):
        next(stalling)
    stalling.close()


@pytest.mark.parametrize("exception", [ValueError("mine"), UDFRunCancelled("mine")])
def test_throw(stalling, exception):
    begin = time.monotonic()
    with pytest.raises(type(exception), match="mine") as caught:
        stalling.throw(exception)
    assert caught.value is exception
    assert time.monotonic() - begin < 1
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


def test_a_dropped_generator_stops(ctx, slow_dataset):
    data = np.zeros((4010, 4, 4), dtype=np.float32)
    dataset = ctx.load("memory", data=data, num_partitions=401)
    steps = ctx.run_udf_iter(dataset=dataset, udf=Stalling())
    next(steps)
    begin = time.monotonic()
    del steps
    gc.collect()
    assert time.monotonic() - begin < 1
    assert workers() == []


def test_closing_from_another_thread(ctx, slow_dataset):
    started = threading.Event()
    steps = ctx.run_udf_iter(dataset=slow_dataset, udf=Slow(started))
    seconds = []

    def stop():
        started.wait(30)
        begin = time.monotonic()
        steps.close()
        seconds.append(time.monotonic() - begin)

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(UDFRunCancelled):
        next(steps)
    stopper.join()
    assert seconds[0] < 1
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
            print("working", flush=True)
            late = sys.argv[3] == "exit" and self.meta.slice.origin[0] >= 10
            time.sleep(1 if late else 0.02)

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
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals work differently")
@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_ctrl_c(executor):
    process = run_script(executor, "4", "interrupt")
    try:
        assert process.stdout.readline() == "working\n"
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)  # the run would take over a minute
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "threads left: 0" in out


def test_the_interpreter_does_not_wait_for_partitions():
    # 0.2 s for the first partition, 10 s for each of the four that are processed ahead.
    process = run_script("threads", "1000", "exit")
    try:
        _, err = process.communicate(timeout=12)
    finally:
        process.kill()
    assert process.returncode == 7, err


# Changing parameters


def test_parameters_change_for_partitions_to_come(data):
    with ff.Context.make_with("inline") as ctx:
        dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=6)
        udf = Level(offset=0.0)
        steps = ctx.run_udf_iter(dataset=dataset, udf=[udf, ff.SumUDF()])
        for n, results in enumerate(steps, start=1):
            level = results[0]["level"].raw_data
            steps.update_parameters_experimental([{"offset": 1000.0 * n}, {}])
    sums = data.reshape(42, -1).sum(axis=1)
    added = (level - sums).reshape(6, 7)
    assert np.array_equal(added, np.repeat(1000.0 * np.arange(6), 7).reshape(6, 7))
    assert udf.params.offset == 0.0


def test_misuse_of_changing_parameters(ctx, dataset):
    with ctx.run_udf_iter(dataset=dataset, udf=[Level(), ff.SumUDF()]) as steps:
        with pytest.raises(InvalidArgumentError, match="got parameters for 1 UDFs, but 2"):
            steps.update_parameters_experimental([{}])
        with pytest.raises(UnsupportedError, match="SumUDF runs on a native kernel"):
            steps.update_parameters_experimental([{}, {"dtype": "float64"}])
        with pytest.raises(TypeError, match="nonsense"):
            steps.update_parameters_experimental([{"nonsense": 1}, {}])
        assert len(list(steps)) == 5


# Progress


class Recorder(ProgressReporter):
    def __init__(self):
        self.states = []

    def start(self, state):
        self.states.append(("start", state))

    def update(self, state):
        self.states.append(("update", state))

    def end(self, state):
        self.states.append(("end", state))


@pytest.mark.parametrize("call", ["run_udf", "run_udf_iter", "plots"])
def test_a_reporter_hears_of_each_merge(ctx, dataset, call):
    recorder = Recorder()
    if call == "run_udf":
        ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), progress=recorder)
    elif call == "plots":
        ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), progress=recorder, plots=[])
    else:
        for _ in ctx.run_udf_iter(dataset=dataset, udf=ff.SumUDF(), progress=recorder):
            pass
    kinds = [kind for kind, _ in recorder.states]
    states = [state for _, state in recorder.states]
    assert kinds == ["start", *["update"] * 5, "end"]
    assert [state.num_part_complete for state in states] == [0, 1, 2, 3, 4, 5, 5]
    frames = [state.num_frames_complete for state in states]
    assert frames[0] == 0
    assert frames[-2:] == [42, 42]
    assert frames[:-1] == sorted(set(frames))
    assert {state.num_frames_total for state in states} == {42}
    assert {state.num_part_total for state in states} == {5}
    assert len({state.progress_id for state in states}) == 1
    assert states[-1].num_part_in_progress == 0


def test_a_reporter_hears_of_the_end_of_failed_runs(ctx, dataset):
    class Failing(Level):
        def process_frame(self, frame):
            raise LookupError("mine")

    for call in (ctx.run_udf, lambda **kwargs: next(ctx.run_udf_iter(**kwargs))):
        recorder = Recorder()
        with pytest.raises(LookupError, match="mine"):
            call(dataset=dataset, udf=Failing(), progress=recorder)
        assert [kind for kind, _ in recorder.states] == ["start", "end"]


def test_a_failing_reporter_ends_the_run(ctx, dataset):
    class Full(Recorder):
        def update(self, state):
            raise OSError("disk full")

    for call in (ctx.run_udf, lambda **kwargs: next(ctx.run_udf_iter(**kwargs))):
        with pytest.raises(OSError, match="disk full"):
            call(dataset=dataset, udf=ff.SumUDF(), progress=Full())


def test_a_progress_bar(ctx, dataset, capsys):
    pytest.importorskip("tqdm")
    for _ in ctx.run_udf_iter(dataset=dataset, udf=ff.SumUDF(), progress=True):
        pass
    error = capsys.readouterr().err
    assert "Partitions 5/5, Frames: 100%" in error
    assert "42.0/42.0" in error
    ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), progress=TQDMProgressReporter())
    assert "Partitions 5/5" in capsys.readouterr().err


# Plots


class Plot(Dummy2DPlot):
    made: list = []  # noqa: RUF012

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.displayed = 0
        self.seen = []
        Plot.made.append(self)

    def display(self):
        self.displayed += 1

    def new_data(self, udf_results, damage, force=False):
        self.seen.append((np.count_nonzero(damage), force))
        self.thread = threading.current_thread()
        super().new_data(udf_results, damage, force=force)


@pytest.fixture
def plotting(ctx):
    Plot.made = []
    return ff.Context(ctx.executor, plot_class=Plot)


def test_all_plots(plotting, dataset, data):
    results = plotting.run_udf(dataset=dataset, udf=[Level(), ff.SumUDF()], plots=True)
    assert [(type(plot.udf), plot.channel) for plot in Plot.made] == [
        (Level, "level"),
        (Level, "peak"),
        (ff.SumUDF, "intensity"),
    ]
    for plot in Plot.made:
        assert plot.displayed == 1
        counts = [count for count, _ in plot.seen]
        assert counts == sorted(set(counts))
        assert counts[-1] == 42
        assert [force for _, force in plot.seen] == [False] * 4 + [True]
        assert plot.thread is threading.main_thread()
    assert np.array_equal(Plot.made[0].data, data.sum(axis=(2, 3)))
    assert np.array_equal(results[0]["peak"].data, data.max(axis=(0, 1)))


def test_plots_of_channels(plotting, dataset, data):
    plotting.run_udf(dataset=dataset, udf=Level(), plots=["peak", ("level", np.sqrt)])
    assert np.array_equal(Plot.made[0].data, data.max(axis=(0, 1)))
    np.testing.assert_allclose(Plot.made[1].data, np.sqrt(data.sum(axis=(2, 3))))
    assert len(Plot.made) == 2
    Plot.made = []
    udfs = [Level(), ff.SumUDF()]
    for _ in plotting.run_udf_iter(dataset=dataset, udf=udfs, plots=[[], ["intensity"]]):
        pass
    assert [plot.udf for plot in Plot.made] == [udfs[1]]
    assert Plot.made[0].seen[-1] == (42, True)


def test_plot_objects(plotting, dataset):
    udfs = [Level(), ff.SumUDF()]
    plot = Plot(dataset, udfs[1])
    plotting.run_udf(dataset=dataset, udf=udfs, plots=[plot])
    assert plot.displayed == 0
    assert len(plot.seen) == 5
    with pytest.raises(InvalidArgumentError, match="not among the UDFs"):
        plotting.run_udf(dataset=dataset, udf=ff.SumUDF(), plots=[plot])


def test_no_results_are_computed_for_plots_that_rest(plotting, dataset):
    calls = []

    class Counting(Level):
        def get_results(self):
            calls.append(1)
            return {}

    udf = Counting()
    plot = Plot(dataset, udf, min_delta=1000)
    del calls[:]
    plotting.run_udf(dataset=dataset, udf=udf, plots=[plot])
    assert [force for _, force in plot.seen] == [False, True]
    assert len(calls) == 2


def test_misuse_of_plots(plotting, dataset):
    def run(plots, udf=None):
        plotting.run_udf(dataset=dataset, udf=udf or Level(), plots=plots)

    with pytest.raises(InvalidArgumentError, match="no result 'nonsense'"):
        run(["nonsense"])
    with pytest.raises(InvalidArgumentError, match="plots is 'level'"):
        run("level")
    with pytest.raises(InvalidArgumentError, match="one list of channels, but 2 UDFs"):
        run(["level"], [Level(), Level()])
    with pytest.raises(InvalidArgumentError, match="for 1 UDFs, but 2"):
        run([["level"]], [Level(), Level()])


@pytest.mark.parametrize("call", ["run_udf", "run_udf_iter"])
def test_a_failing_plot_ends_the_run(plotting, dataset, call):
    class Broken(Plot):
        def update(self, damage, force=False):
            raise LookupError("no screen")

    udf = Level()
    plots = [Broken(dataset, udf)]
    with pytest.raises(LookupError, match="no screen"):
        list(getattr(plotting, call)(dataset=dataset, udf=udf, plots=plots))
    assert workers() == []


# Functions in place of a UDF


def test_functions(ctx, dataset, data):
    def make_buffers():
        return {
            "total": BufferWrapper(kind="nav", dtype="float32"),
            "corners": BufferWrapper(kind="nav", extra_shape=(2,), dtype="float32"),
        }

    def fn(frame, total, corners):
        total[:] = np.sum(frame)
        corners[:] = frame[0, 0], frame[-1, -1]

    result = ctx.run_udf(dataset=dataset, fn=fn, make_buffers=make_buffers)
    assert np.array_equal(result["total"].data, data.sum(axis=(2, 3)))
    assert np.array_equal(result["corners"].data[..., 1], data[..., -1, -1])


def test_functions_with_merge(ctx, dataset, data):
    def make_buffers():
        return {"maxbuf": BufferWrapper(kind="sig", dtype="float32")}

    def fn(frame, maxbuf):
        maxbuf[:] = np.maximum(frame, maxbuf)

    def merge(dest, src):
        dest["maxbuf"][:] = np.maximum(dest["maxbuf"], src["maxbuf"])

    result = ctx.run_udf(dataset=dataset, fn=fn, make_buffers=make_buffers, merge=merge)
    assert np.array_equal(result["maxbuf"].data, data.max(axis=(0, 1)))
    with pytest.raises(InvalidArgumentError, match=r"'maxbuf' is not of kind 'nav'.*pass merge="):
        ctx.run_udf(dataset=dataset, fn=fn, make_buffers=make_buffers)
    with pytest.raises(InvalidArgumentError, match="make_buffers is None"):
        ctx.run_udf(dataset=dataset, fn=fn)
    with pytest.raises(InvalidArgumentError, match="both a UDF and functions"):
        ctx.run_udf(dataset=dataset, udf=Level(), fn=fn, make_buffers=make_buffers)
    with pytest.raises(InvalidArgumentError, match="no UDF"):
        ctx.run_udf(dataset=dataset)


# The rest of the context


def test_roi_helper(ctx, dataset):
    expected = np.zeros((6, 7), dtype=bool)
    expected[1:3, 4] = True
    roi = dataset.roi[1:3, 4]
    assert np.array_equal(roi, expected)
    assert dataset.roi[...].all()
    assert np.count_nonzero(dataset.roi[0, 1]) == 1
    with pytest.raises(IndexError):
        dataset.roi[6]
    result = ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF(), roi=roi)
    assert result["intensity"].raw_data.shape == (2,)


@pytest.mark.parametrize("dtype", [">u2", "float64", "complex64", "bool"])
def test_export(ctx, tmp_path, data, dtype):
    array = (data % 2 if dtype == "bool" else data).astype(dtype)
    source, target = tmp_path / "source.raw", tmp_path / "out.npy"
    array.tofile(source)
    dataset = ctx.load(
        "raw", source, dtype=dtype, nav_shape=(6, 7), sig_shape=(10, 12), num_partitions=4
    )
    recorder = Recorder()
    assert ctx.export_dataset(dataset, path=target, progress=recorder) is None
    written = np.load(target)
    assert written.dtype == dataset.dtype
    assert np.array_equal(written, array)
    assert recorder.states[-1][1].num_frames_complete == 42
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.npy", "source.raw"]


def test_export_of_missing_frames(ctx, tmp_path, data):
    dataset = ctx.load("memory", data=data, sig_dims=2, sync_offset=-3)
    ctx.export_dataset(dataset, path=tmp_path / "out.npy")
    written = np.load(tmp_path / "out.npy").reshape(42, 10, 12)
    assert not written[:3].any()
    assert np.array_equal(written[3:], data.reshape(42, 10, 12)[:-3])


def test_misuse_of_export(ctx, tmp_path, data, dataset):
    target = tmp_path / "out.npy"
    target.write_text("precious")
    with pytest.raises(FileExistsError, match="exists; pass overwrite=True") as caught:
        ctx.export_dataset(dataset, path=target)
    assert isinstance(caught.value, FileAccessError)
    assert target.read_text() == "precious"
    ctx.export_dataset(dataset, path=target, overwrite=True)
    assert np.array_equal(np.load(target), data)
    with pytest.raises(InvalidArgumentError, match=r"does not end in \.npy"):
        ctx.export_dataset(dataset, path=tmp_path / "out.raw")
    with pytest.raises(FileAccessError, match="cannot write"):
        ctx.export_dataset(dataset, path=tmp_path / "nowhere" / "out.npy")
    with pytest.raises(InvalidArgumentError, match="that the data set is read from"):
        ctx.export_dataset(ctx.open(target), path=target, overwrite=True)


def test_a_failed_export_leaves_the_old_file(ctx, tmp_path, dataset):
    class Full(Recorder):
        def update(self, state):
            raise RuntimeError("stop")

    target = tmp_path / "out.npy"
    target.write_text("precious")
    with pytest.raises(RuntimeError, match="stop"):
        ctx.export_dataset(dataset, path=target, overwrite=True, progress=Full())
    assert target.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["out.npy"]


def test_contexts_by_name():
    assert ff.Context.make_with("synchronous").executor.threads == 0
    assert ff.Context.make_with("threads", cpus=3).executor.threads == 3
    assert ff.Context.make_with("threads", cpus=[4, 5], gpus=0).executor.threads == 2
    context = ff.Context.make_with("inline", plot_class=Plot, snooze_timeout=5)
    assert context.plot_class is Plot
    for name, match in [("dusk", "no executor 'dusk'"), ("dask", "not available yet")]:
        with pytest.raises(ExecutorSpecException, match=match):
            ff.Context.make_with(name)
    for wrong in ({"gpus": 1}, {"gpus": [0]}, {"main_process_gpu": True}, {"main_process_gpu": 0}):
        with pytest.raises(ExecutorSpecException, match="uses no GPU"):
            ff.Context.make_with("threads", **wrong)


def test_map_takes_all_arguments(ctx, dataset, data):
    recorder = Recorder()
    result = ctx.map(dataset, np.max, progress=recorder, corrections=None, backends="numpy")
    assert np.array_equal(result.data, data.max(axis=(2, 3)))
    assert recorder.states


def test_display(ctx, dataset):
    shown = ctx.display(dataset, Level())
    assert "level" in shown._repr_html_()
    assert "Level" in str(shown)


def test_the_default_plot_is_that_of_matplotlib():
    pytest.importorskip("matplotlib")
    from framefold.viz.mpl import MPLLive2DPlot

    assert ff.Context().plot_class is MPLLive2DPlot
