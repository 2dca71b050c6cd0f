"""Ctrl-C and cancellation stop a run within a fraction of a second and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import UDFRunCancelled
from framefold.run.plan import Run
from framefold.udf import UDF
from framefold.udf.engine import native

if sys.platform == "win32":
    pytest.skip("signals work differently here", allow_module_level=True)

SCRIPT = """
    import sys, time, threading
    import numpy as np
    import framefold as ff
    from framefold.udf import UDF

    class Slow(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def process_frame(self, frame):
            sys.stdout.write("working\\n")  # in one piece, as others write, too
            sys.stdout.flush()
            time.sleep(0.02)

    ctx = ff.Context.make_with(sys.argv[1], cpus=2)
    dataset = ctx.load("memory", data=np.zeros((100, 100, 8, 8), dtype=np.float32),
                       num_partitions=4)
    try:
        ctx.run_udf(dataset=dataset, udf=Slow())
    except KeyboardInterrupt:
        print("threads left:", threading.active_count() - 1)
        result = ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF())
        print("next run:", result["intensity"].data.shape)
"""


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_ctrl_c(executor):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), executor],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where interrupts are ignored, as in jobs of a shell, children would ignore them, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout.readline().startswith("working")
        os.kill(process.pid, signal.SIGINT)
        # The whole run would take over three minutes.
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "threads left: 0" in out
    assert "next run: (100, 100)" in out


#: Filled where SIGINT arrives.
HEARD = []


class Interrupting(UDF):
    """Counts frames; the frame of that value sends SIGINT to a process, and takes long then.

    It does so when all partitions before its own are merged, as a handler of one's own, which fills
    ``HEARD``, also stops a merge in the middle. Each merge adds a byte to the file ``merged``.
    """

    def __init__(self, pid, at, merged=os.devnull):
        super().__init__(pid=pid, at=at, merged=merged)

    def get_result_buffers(self):
        return {
            "seen": self.buffer(kind="nav", dtype=bool),
            "count": self.buffer(kind="single", dtype="int64"),
        }

    def process_frame(self, frame):
        if frame[0, 0] % 5 == 0:
            time.sleep(0.05)  # results of shorter partitions wait for the next one's
        if frame[0, 0] == self.params.at:
            deadline = time.monotonic() + 30
            while os.path.getsize(self.params.merged) < self.params.at // 5:
                assert time.monotonic() < deadline, "partitions before this one were not merged"
                time.sleep(0.01)
            time.sleep(0.2)  # the last merge ends
            os.kill(self.params.pid, signal.SIGINT)
            for _ in range(3000):  # short steps, as a signal may come just before one
                if HEARD:  # by this process: threads cannot be ended
                    break
                time.sleep(0.01)
        self.results.seen[:] = True
        self.results.count[:] += 1

    def merge(self, dest, src):
        dest.seen[:] = src.seen
        dest.count[:] += src.count
        with open(self.params.merged, "ab") as file:
            file.write(b"m")


@pytest.fixture
def merged(tmp_path):
    path = tmp_path / "merged"
    path.touch()
    return path


@pytest.fixture(scope="module")
def numbered():
    data = np.broadcast_to(np.arange(60, dtype=np.uint16).reshape(6, 10, 1, 1), (6, 10, 2, 2))
    return ff.Context().load("memory", data=data, sig_dims=2, num_partitions=12)


@pytest.fixture(params=["inline", "threads", "processes"])
def interrupted(request, numbered):
    def run(how):
        HEARD.clear()
        try:
            how(ctx)
        except KeyboardInterrupt as error:
            return error
        finally:
            HEARD.clear()
        raise AssertionError("it was not interrupted")

    def hear(*_):
        HEARD.append(True)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, hear)
    try:
        with shared(request.param, **({} if request.param == "inline" else {"cpus": 2})) as ctx:
            yield run
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_keeps_what_is_done(interrupted, numbered, merged):
    udfs = [Interrupting(os.getpid(), 42, merged), ff.SumSigUDF()]
    results = interrupted(lambda ctx: ctx.run_udf(numbered, udfs)).results
    seen, sums = results[0]["seen"], results[1]["intensity"]
    # Whole partitions, all before the one that did not end.
    n_frames = int(results[0]["count"].data[0])
    assert n_frames == 40
    assert np.array_equal(np.flatnonzero(results.damage.data), np.arange(n_frames))
    assert np.array_equal(seen.valid_mask, results.damage.data)
    assert np.array_equal(sums.raw_data[:n_frames], np.arange(n_frames) * 4)
    assert not sums.valid_mask.ravel()[n_frames:].any()


class InterruptingTwice(Interrupting):
    """The same, and again when the first signal has arrived and the run ends."""

    def process_frame(self, frame):
        super().process_frame(frame)
        if frame[0, 0] == self.params.at:
            os.kill(self.params.pid, signal.SIGINT)


def test_ctrl_c_while_threads_finish_keeps_what_is_done(interrupted, numbered, merged):
    udf = InterruptingTwice(os.getpid(), 42, merged)
    results = interrupted(lambda ctx: ctx.run_udf(numbered, udf)).results
    assert results[0]["count"].data == [results.damage.data.sum()] == [40]


class InterruptedHere(Interrupting):
    """The same on the thread of the run."""

    def process_frame(self, frame):
        if frame[0, 0] == self.params.at:
            raise KeyboardInterrupt
        self.results.seen[:] = True


class Short(UDF):
    """A frame of that value sends SIGINT, and its partition is merged at once."""

    def get_result_buffers(self):
        return {"seen": self.buffer(kind="nav", dtype=bool)}

    def process_frame(self, frame):
        if frame[0, 0] == self.params.at:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.002)  # the other threads are done with what they have
        self.results.seen[:] = True


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_ctrl_c_around_a_merge_keeps_what_is_done(executor):
    data = np.broadcast_to(np.arange(60, dtype=np.uint16).reshape(6, 10, 1, 1), (6, 10, 2, 2))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ff.Context.make_with(executor) as ctx:
            dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=60)
            for at in range(20, 40):
                with pytest.raises(KeyboardInterrupt) as caught:
                    ctx.run_udf(dataset, Short(at=at))
                results = caught.value.results
                assert results[0]["seen"].data.sum() == results.damage.data.sum() < 60
                if executor == "inline":
                    assert results.damage.data.sum() in (at, at + 1)
    finally:
        signal.signal(signal.SIGINT, before)


class InterruptedMerge(UDF):
    """SIGINT arrives so many times while the partition that begins with frame 40 is merged."""

    def __init__(self, times, then=None):
        super().__init__(times=times, then=then)

    def get_result_buffers(self):
        return {"count": self.buffer(kind="single", dtype="int64")}

    def process_frame(self, frame):
        self.results.count[:] += 1

    def merge(self, dest, src):
        if dest.count[0] == 40:
            for _ in range(self.params.times):
                signal.raise_signal(signal.SIGINT)
            if self.params.then is not None:
                raise self.params.then
        dest.count[:] += src.count


def test_ctrl_c_waits_for_a_merge_and_a_second_one_does_not(interrupted, numbered):
    handler = signal.default_int_handler
    signal.signal(signal.SIGINT, handler)
    udfs = [ff.SumSigUDF(), InterruptedMerge(1), InterruptedMerge(0)]
    results = interrupted(lambda ctx: ctx.run_udf(numbered, udfs)).results
    counts = results[1]["count"].data[0], results[2]["count"].data[0], results.damage.data.sum()
    assert counts == (45, 45, 45)
    udfs[1] = InterruptedMerge(2)
    results = interrupted(lambda ctx: ctx.run_udf(numbered, udfs)).results
    with pytest.raises(UDFRunCancelled, match="Ctrl-C came while partition 8 was merged"):
        print(results.buffers)
    udfs[1] = InterruptedMerge(1, LookupError("no"))
    interrupt = interrupted(lambda ctx: ctx.run_udf(numbered, udfs))
    assert isinstance(interrupt.__context__, LookupError)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_handler_of_ones_own_is_not_deferred(numbered):
    """Each signal is heard within the merge, which counts them."""

    class Heard(InterruptedMerge):
        def merge(self, dest, src):
            super().merge(dest, src)
            if dest.count[0] == 45:
                assert len(heard) == 2

    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(True))
    try:
        ff.Context.make_with("inline").run_udf(numbered, Heard(2))
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(heard) == 2


def test_ctrl_c_within_a_loop_over_results_keeps_them(numbered):
    def loop():
        for results in ff.Context.make_with("inline").run_udf_iter(numbered, udf):
            last[:] = [results]

    udf, last = InterruptedHere(0, at=42), []
    with pytest.raises(KeyboardInterrupt) as caught:
        loop()
    assert caught.value.results[0]["seen"].data.sum() == 40
    assert np.array_equal(caught.value.results[0]["seen"].data, last[0][0]["seen"].data)


class InterruptedResults(UDF):
    """Looking at results for the first time, when so many frames are merged, is interrupted."""

    def __init__(self, at):
        super().__init__(at=at)

    def get_result_buffers(self):
        return {"count": self.buffer(kind="single", dtype="int64")}

    def process_frame(self, frame):
        self.results.count[:] += 1

    def merge(self, dest, src):
        dest.count[:] += src.count

    def get_results(self):
        if self.results.count[0] == self.params.at and not HEARD:
            HEARD.append(True)
            raise KeyboardInterrupt
        return {"count": self.results.count}


@pytest.mark.parametrize("n_frames", [40, 60])
def test_ctrl_c_while_results_are_computed_keeps_them(numbered, n_frames):
    HEARD.clear()
    ctx = ff.Context.make_with("inline")
    # Those of 40 frames are computed when the run goes on, as they are held.
    run = ctx.run_udf if n_frames == 60 else lambda *run: list(ctx.run_udf_iter(*run))
    with pytest.raises(KeyboardInterrupt) as caught:
        run(numbered, InterruptedResults(n_frames))
    assert caught.value.results[0]["count"].data == [n_frames]
    assert caught.value.results.damage.data.sum() == n_frames


@pytest.mark.parametrize("udf", [ff.CoMUDF, ff.SumSigUDF])
def test_ctrl_c_when_results_are_out_of_the_engine_keeps_them(numbered, monkeypatch, udf):
    ctx = ff.Context.make_with("inline")
    expected = ctx.run_udf(numbered, udf())
    wrap, interrupted = Run.wrap, []

    def interrupts(*args, **more):
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        return wrap(*args, **more)

    monkeypatch.setattr(Run, "wrap", interrupts)
    with pytest.raises(KeyboardInterrupt) as caught:
        ctx.run_udf(numbered, udf())
    (found,) = caught.value.results.buffers
    for name, result in expected.items():
        np.testing.assert_array_equal(found[name].raw_data, result.raw_data)


def test_results_are_gone_with_the_exception(numbered):
    kept = []
    try:
        ff.Context.make_with("inline").run_udf(numbered, InterruptedHere(0, at=42))
    except KeyboardInterrupt as error:
        kept += [weakref.ref(each) for each in (error.results, error.results._run)]
    assert len(kept) == 2
    assert [each() for each in kept] == [None, None]


def test_a_signal_ends_a_tile_of_very_many_chunks(tmp_path):
    """While the second tile is read: the function never gets it."""

    class Stopped(Exception):
        pass

    def stop(_signal, frame):
        while frame is not None:
            places.append(frame.f_code.co_name)
            frame = frame.f_back
        raise Stopped

    class Reads(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def get_tiling_preferences(self):
            return {"depth": 1, "total_size": 1 << 20}

        def preprocess(self):
            times.append(time.thread_time())

        def process_tile(self, tile):
            nonlocal tiles
            tiles += 1
            times.append(time.thread_time())
            # Of time on processors: others that are at work change nothing.
            signal.setitimer(signal.ITIMER_PROF, 0.01)

    about = {"zarr_format": 2, "shape": [2, 500, 500], "chunks": [1, 1, 1], "dtype": "<u2"}
    about |= {"compressor": None, "fill_value": 0, "filters": None, "order": "C"}
    (tmp_path / ".zarray").write_text(json.dumps(about))
    places, times, tiles = [], [], 0
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("zarr", tmp_path, sig_dims=2)
    before = signal.signal(signal.SIGPROF, stop)
    try:
        with pytest.raises(Stopped):
            ctx.run_udf(dataset, Reads())
        ended = time.thread_time()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert "run_udf" in places
    assert "process_tile" not in places
    begun, *_, got_first = times
    assert tiles == 1
    assert ended - got_first < (got_first - begun) / 2


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted as Linux does")
def test_a_signal_ends_setting_up_results(monkeypatch):
    """While rows for very many frames are filled: most of them are never touched."""

    class Stopped(Exception):
        pass

    def resident():
        with open("/proc/self/statm") as file:
            return os.sysconf("SC_PAGE_SIZE") * int(file.read().split()[1])

    def stop(_signal, _frame):
        touched.append(resident() - at_first[0])
        raise Stopped

    def driver(*args):
        at_first.append(resident())
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        return original(*args)

    n_frames = 6 * 10**7
    at_first, touched = [], []
    original = Run.driver
    monkeypatch.setattr(Run, "driver", driver)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=np.broadcast_to(np.float32(1), (n_frames, 1, 1)))
    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(Stopped):
            ctx.run_udf(dataset, ff.CoMUDF.with_params(cy=0, cx=0))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert touched[0] < 16 * n_frames * 3 / 4


class Stopping:
    """Frames of ones; reading frame 50 sends SIGINT and waits until it is heeded."""

    name, extensions = "stopping", ()

    class Source:
        shape, sig, dtype = (12, 10), (64, 64), np.uint16

        def read(self, frames, out):
            out[:] = 1
            if 50 in frames and not Stopping.heeded.is_set():
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                assert Stopping.heeded.wait(60)

    @staticmethod
    def open(path):
        return Stopping.Source()


@pytest.mark.parametrize("name", ["out.npy", "out.zarr", "out.h5", "out.hspy", "out.toml"])
def test_ctrl_c_leaves_nothing_of_what_is_being_written(tmp_path, monkeypatch, name):
    def interrupt(*_args):
        within.extend(path.name for path in target.parent.iterdir())
        Stopping.heeded.set()
        raise KeyboardInterrupt

    def write(dataset):
        if target.suffix == ".toml":
            ctx.convert(dataset, target)
        elif target.suffix == ".npy":
            ctx.export_dataset(dataset, target)
        else:
            ctx.export_dataset(dataset, target, chunks=(1, 1, 64, 64))

    (tmp_path / "source").touch()
    target, within = tmp_path / "written" / name, []
    target.parent.mkdir()
    Stopping.heeded = threading.Event()
    ff.register_format(Stopping)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("stopping", tmp_path / "source")
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            write(dataset)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [entry for entry in within if entry.endswith(".framefold-part")]
    assert list(target.parent.iterdir()) == []
    write(dataset)
    assert tuple(ctx.open(target).shape) == (12, 10, 64, 64)
    assert ctx.run_udf(ctx.open(target), ff.SumUDF())["intensity"].data.sum() == 120 * 64 * 64


def test_a_signal_ends_planning_of_very_many_tiles():
    """Nothing in Python runs between the declarations of results and the end of planning."""

    class Declares(UDF):
        def get_result_buffers(self):
            if stopping:
                # Of time on processors: others that are at work change nothing.
                signal.setitimer(signal.ITIMER_PROF, 0.01)
            began.append(time.thread_time())
            return {"x": self.buffer(kind="nav")}

        def process_tile(self, tile):
            raise AssertionError("it was planned")

    def interrupt(*_args):
        ended.append(time.thread_time())
        raise KeyboardInterrupt

    began, ended, stopping = [], [], False
    ctx = ff.Context.make_with("inline")
    frames = np.broadcast_to(np.float32(1), (4, 1000, 1000))
    dataset = ctx.load("memory", data=frames, tileshape=(1, 1, 1))
    before = signal.signal(signal.SIGPROF, interrupt)
    try:
        explained = ctx.explain(dataset, Declares())
        whole = time.thread_time() - began[-1]
        assert "1000000" in explained
        stopping = True
        for plan in (ctx.explain, ctx.run_udf):
            with pytest.raises(KeyboardInterrupt):
                plan(dataset, Declares())
            assert ended[-1] - began[-1] < whole / 2
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def test_cancel_from_another_thread():
    from framefold.udf.engine.bridge import Bridge

    started = threading.Event()

    class Slow(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def process_frame(self, frame):
            started.set()
            time.sleep(0.01)

    ctx = ff.Context()
    dataset = ctx.load("memory", data=np.zeros((100, 100, 4, 4), dtype=np.float32))
    bridge = Bridge(Slow(), dataset.shape, dataset.dtype, None)
    plan = ff._engine.Plan(dataset._engine, [("Slow", bridge)])

    def stop():
        started.wait(30)
        plan.cancel()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(UDFRunCancelled):
        ff._engine.Driver(plan, 2).run()
    stopper.join()


def test_an_exception_from_a_progress_callback_ends_the_run():
    ctx = ff.Context()
    dataset = ctx.load("memory", data=np.zeros((10, 10, 4, 4), dtype=np.float32))
    plan = ff._engine.Plan(dataset._engine, [native.native_udf(ff.SumUDF(), dataset)])

    def callback(n_merged, in_progress):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        ff._engine.Driver(plan, 2, callback=callback).run()


def test_progress_events_add_up():
    ctx = ff.Context()
    dataset = ctx.load("memory", data=np.zeros((10, 10, 4, 4), dtype=np.float32), num_partitions=7)
    plan = ff._engine.Plan(dataset._engine, [native.native_udf(ff.SumUDF(), dataset)])
    events = []
    ff._engine.Driver(plan, 2, callback=lambda *event: events.append(event)).run()
    assert [n_merged for n_merged, _ in events] == [1, 2, 3, 4, 5, 6, 7]
    assert all(0 <= in_progress <= 7 - n_merged for n_merged, in_progress in events)


def test_a_progress_bar_is_shown(capsys, dataset):
    pytest.importorskip("tqdm")
    ff.Context().run_udf(dataset=dataset, udf=ff.SumUDF(), progress=True)
    assert "42" in capsys.readouterr().err
