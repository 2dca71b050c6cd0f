"""Every executor gives the results of the calling thread alone, bit for bit."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pickle
import sys
import threading
import types

import numpy as np
import pytest
from executor_cases import NAV, ROIS, SIG, UDFS, assert_same, load
from process_cases import hard_limit  # noqa: F401 - a fixture
from sample_udfs import Level, Recorder

import framefold as ff
from framefold.common.exceptions import ExecutorSpecException
from framefold.exceptions import (
    FramefoldError,
    LimitError,
    UDFRunCancelled,
    UnsupportedError,
    WorkerError,
)
from framefold.executor import auto
from framefold.executor._wire import code
from framefold.executor.delayed import DelayedJobExecutor
from framefold.udf import UDF
from framefold.viz.base import Dummy2DPlot

pytestmark = pytest.mark.usefixtures("hard_limit")

#: What ``make_with`` may know. Those that this version has not are left out.
NAMES = [
    "inline",
    "threads",
    "processes",
    "pipelined",
    "auto",
    "dask",
    "dask-integration",
    "delayed",
]


def make(name):
    # How many workers Dask has is not for framefold to choose.
    chosen = name not in ("dask-integration", "delayed")
    return ff.Context.make_with(name, cpus=2 if chosen else None)


def available(name):
    try:
        make(name).close()
    except (ExecutorSpecException, ImportError):
        return False
    return True


@pytest.fixture(scope="module", params=[*filter(available, NAMES), "auto, at once"])
def ctx(request):
    """A context for each executor; one that takes worker processes for the shortest of runs."""
    name, _, at_once = request.param.partition(", ")
    with pytest.MonkeyPatch.context() as patch:
        if at_once:
            patch.setattr(auto, "PATIENCE", 0.0)
            patch.setattr("framefold.executor._processes.crew.TURN", 0.0)
            patch.setattr(auto, "SHARE", float("inf"))
        with make(name) as context:
            yield context
            if at_once:
                assert len(context.executor.worker_ids) == 2


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


@pytest.mark.parametrize("udfs", UDFS)
@pytest.mark.parametrize("roi", ROIS)
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("memory", "uint16"),
        ("memory", "float32"),
        ("memory", ">u2"),
        ("memory", "int64"),
        ("memory", "complex64"),
        ("raw", "uint8"),
        ("raw", ">f4"),
        ("raw", "float64"),
        ("mib", "uint16"),
        ("raw_csr", "uint32"),
        ("raw_csr", "float32"),
    ],
)
def test_the_same_bits(ctx, inline, tmp_path, kind, dtype, roi, udfs):
    functions = UDFS[udfs]()
    if dtype == "complex64":
        native = [ff.SumUDF(dtype)]
        functions = {"native": native, "python": [Complex()], "mixed": [*native, Complex()]}[udfs]
    dataset = load(kind, dtype, inline, tmp_path)
    expected = inline.run_udf(dataset=dataset, udf=functions, roi=ROIS[roi])
    assert_same(ctx.run_udf(dataset=dataset, udf=functions, roi=ROIS[roi]), expected)


class Complex(UDF):
    """Keeps the imaginary parts."""

    def get_result_buffers(self):
        return {
            "each": self.buffer(kind="nav", dtype="complex128"),
            "all": self.buffer(kind="sig", dtype="complex64"),
        }

    def process_frame(self, frame):
        self.results.each[:] = frame.sum() * 1j
        self.results.all[:] += frame * (0.1 + 0.3j)

    def merge(self, dest, src):
        dest.each[:] = src.each
        dest.all[:] += src.all


class Sparse(UDF):
    """Takes sparse tiles."""

    def get_backends(self):
        return (self.BACKEND_SCIPY_CSR, self.BACKEND_NUMPY)

    def get_result_buffers(self):
        return {"sum": self.buffer(kind="nav"), "format": self.buffer(kind="nav", dtype="U30")}

    def process_tile(self, tile):
        self.results.sum[:] += np.asarray(tile.sum(axis=1)).reshape(-1)
        self.results.format[:] = self.meta.array_backend


@pytest.mark.parametrize("roi", ROIS)
def test_sparse_tiles(ctx, inline, tmp_path, roi):
    pytest.importorskip("scipy.sparse")
    dataset = load("raw_csr", "float32", inline, tmp_path)
    functions = [Sparse(), ff.SumSigUDF()]
    expected = inline.run_udf(dataset, functions, roi=ROIS[roi])
    got = ctx.run_udf(dataset, functions, roi=ROIS[roi])
    assert UDF.BACKEND_SCIPY_CSR in got[0]["format"].data
    assert_same(got, expected)


def test_sparse_arrays_in_memory(ctx, inline):
    sparse = pytest.importorskip("scipy.sparse")
    data = sparse.random(42, 120, 0.1, format="csr", random_state=4, dtype=np.float32)
    dataset = ctx.load("memory", data=data, datashape=(*NAV, *SIG), num_partitions=5)
    functions = [Sparse(), ff.SumUDF(), Level(offset=1)]
    assert_same(ctx.run_udf(dataset, functions), inline.run_udf(dataset, functions))


def test_results_so_far_and_progress(ctx, inline, tmp_path):
    dataset = load("raw", "uint16", inline, tmp_path)
    recorder = Recorder()
    steps = zip(
        ctx.run_udf_iter(dataset, UDFS["mixed"](), progress=recorder),
        inline.run_udf_iter(dataset, UDFS["mixed"]()),
        strict=True,
    )
    for got, expected in steps:
        assert_same(got.buffers, expected.buffers)
        assert np.array_equal(got.damage.data, expected.damage.data)
    assert [kind for kind, _ in recorder.states] == ["start", *["update"] * 5, "end"]
    assert [state.num_part_complete for _, state in recorder.states] == [0, 1, 2, 3, 4, 5, 5]


def test_an_exception_in_the_middle(ctx, inline, tmp_path):
    class Failing(Level):
        def process_frame(self, frame):
            if self.meta.slice.origin[0] == 30:
                raise KeyError("broken here")
            super().process_frame(frame)

    dataset = load("raw", "uint16", inline, tmp_path)
    n_steps = 0
    with pytest.raises(KeyError, match="broken here") as caught:  # noqa: PT012
        for _ in ctx.run_udf_iter(dataset, Failing()):
            n_steps += 1
    # All those before it, and none after.
    assert n_steps == 3
    assert "UDF Failing, partition 3, frame 30" in "".join(caught.value.__notes__)
    expected = inline.run_udf(dataset, Level(offset=3))
    assert_same([ctx.run_udf(dataset, Level(offset=3))], [expected])


def test_an_exception_that_ends_loops(ctx, inline, tmp_path):
    class Failing(Level):
        def process_frame(self, frame):
            if self.meta.slice.origin[0] == 30:
                next(iter(()))
            super().process_frame(frame)

    dataset = load("raw", "uint16", inline, tmp_path)
    with pytest.raises(StopIteration) as caught:
        # Not a result, at least.
        assert ctx.run_udf(dataset, Failing())["level"].data is None
    assert "UDF Failing, partition 3, frame 30" in "".join(caught.value.__notes__)
    # It must not end a loop over results as if they were complete.
    with pytest.raises(RuntimeError, match="StopIteration") as in_loop:
        list(ctx.run_udf_iter(dataset, Failing()))
    assert "UDF Failing, partition 3, frame 30" in "".join(in_loop.value.__notes__)


class ToldError(Exception):
    """Makes a message of what it is given."""

    def __init__(self, what, *, where):
        super().__init__(f"{what} at {where}")
        self.where = where


#: Called where they are raised: not all of them can be sent as they are.
TELLING = {
    "own": lambda: ToldError("found nothing", where=3),
    "unicode": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "os": lambda: FileNotFoundError(2, "nothing there", "dark.npy"),
    "limit": lambda: LimitError("too much"),
    "group": lambda: ExceptionGroup("several", [ToldError("one", where=1), KeyError("two")]),
}


@pytest.mark.parametrize("kind", TELLING)
def test_exceptions_keep_what_they_say(ctx, inline, tmp_path, kind):
    make_one = TELLING[kind]

    class Failing(Level):
        def process_frame(self, frame):
            raise make_one()

    dataset = load("raw", "uint16", inline, tmp_path)
    expected = make_one()
    with pytest.raises(type(expected)) as caught:
        assert ctx.run_udf(dataset, Failing())["level"].data is None
    assert str(caught.value) == str(expected)
    assert getattr(caught.value, "where", None) == getattr(expected, "where", None)
    several = getattr(caught.value, "exceptions", ())
    assert repr(several) == repr(getattr(expected, "exceptions", ()))


OF_A_MODULE = """
import math
import time
import scipy.ndimage
from framefold.udf import UDF
SCALE = {scale}
def helper(frame):
    time.sleep(0.0 if math.isfinite(scipy.ndimage.sum(frame)) else time.localtime(0).tm_gmtoff)
    return frame.max() * 0 + {scale}
class Scaled(UDF):
    def get_result_buffers(self):
        return {{"level": self.buffer(kind="nav")}}
    def process_frame(self, frame):
        self.results.level[:] = helper(frame) + SCALE * 10
"""


@pytest.mark.filterwarnings("ignore::framefold.warnings.ThreadsInsteadWarning")
def test_modules_are_as_they_are_here(ctx, tmp_path, monkeypatch):
    """Workers may have imported something else by their names, or find nothing."""
    name = f"module_of_{tmp_path.name}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    dataset = ctx.load("memory", data=np.zeros((4, 2, 4, 4), "float32"), num_partitions=4)

    def write(folder, scale, age):
        path = folder / f"{name}.py"
        path.write_text(OF_A_MODULE.format(scale=scale))
        os.utime(path, (age, age))  # the cache of compiled code goes by the time
        return path

    def level(cls):
        (found,) = set(ctx.run_udf(dataset, cls())["level"].data.ravel().tolist())
        return found

    def derived(base):
        class Derived(base):
            pass

        return Derived

    write(tmp_path, 1, 1e9)
    module = importlib.import_module(name)
    try:
        mine = derived(module.Scaled)
        assert level(module.Scaled) == level(mine) == 11
        module.SCALE = 5
        assert level(module.Scaled) == level(mine) == 51
        write(tmp_path, 2, 1.1e9)
        importlib.reload(module)
        assert level(module.Scaled) == level(derived(module.Scaled)) == level(mine) == 22
        path = write(elsewhere, 3, 1.2e9)
        spec = importlib.util.spec_from_file_location(name, path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert level(module.Scaled) == 33
        # Where nothing is found under its name.
        module.Scaled.__module__ = module.helper.__module__ = module.__name__ = "ghost"
        monkeypatch.setitem(sys.modules, "ghost", module)
        assert level(module.Scaled) == 33
        # What cannot be sent must not become what the workers have.
        module = sys.modules[name] = types.ModuleType(name)
        exec(OF_A_MODULE.format(scale=4), vars(module))
        module.helper.__kwdefaults__ = {"lock": threading.Lock()}
        told = None
        try:
            assert level(module.Scaled) == 44
        except FramefoldError as error:
            told = str(error)
        assert told is None or "is not the same in worker processes" in told
        assert told is None or "lock" in told
    finally:
        sys.modules.pop(name, None)


def test_code_that_cannot_be_made_is_an_error():
    sent = pickle.dumps(threading.Thread)
    python = sys.version_info[:2]
    assert code._made(sent, python) is threading.Thread
    with pytest.raises(WorkerError, match=r"it is of Python 2\.7"):
        code._made(sent, (2, 7))
    with pytest.raises(WorkerError, match=r"code cannot be made of what was sent .*Threat"):
        code._made(sent.replace(b"Thread", b"Threat"), python)


def test_plots_are_updated(ctx, inline, tmp_path):
    seen = []

    class Plot(Dummy2DPlot):
        def update(self, damage, force=False):
            seen.append((int(np.count_nonzero(damage)), force, threading.current_thread()))

    dataset = load("raw", "uint16", inline, tmp_path)
    udf = Level(offset=2)
    if isinstance(ctx.executor, DelayedJobExecutor):
        with pytest.raises(UnsupportedError, match="computes nothing yet"):
            ctx.run_udf(dataset, udf, plots=[Plot(dataset, udf)])
        return
    ctx.run_udf(dataset, udf, plots=[Plot(dataset, udf)])
    expected = [int(np.count_nonzero(r.damage.data)) for r in inline.run_udf_iter(dataset, udf)]
    assert [count for count, _, _ in seen] == expected
    assert [force for _, force, _ in seen] == [False] * 4 + [True]
    assert {thread for _, _, thread in seen} == {threading.current_thread()}


def test_a_second_run_while_one_is_going_on(ctx, inline, tmp_path):
    dataset = load("raw", "uint16", inline, tmp_path)
    expected = inline.run_udf(dataset, UDFS["mixed"]())
    last = None
    for results in ctx.run_udf_iter(dataset, UDFS["mixed"]()):
        last = results
        assert_same(ctx.run_udf(dataset, UDFS["mixed"]()), expected)
    assert_same(last.buffers, expected)


def test_runs_from_several_threads(ctx, inline, tmp_path):
    dataset = load("raw", "uint16", inline, tmp_path)
    expected = inline.run_udf(dataset, UDFS["mixed"]())
    results = []

    def run():
        results.extend(ctx.run_udf(dataset, UDFS["mixed"]()) for _ in range(3))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 9
    for result in results:
        assert_same(result, expected)


def test_within_a_running_event_loop(ctx, inline, tmp_path):
    dataset = load("raw", "uint16", inline, tmp_path)
    expected = inline.run_udf(dataset, UDFS["python"]())

    async def main():
        blocking = ctx.run_udf(dataset, UDFS["python"]())
        return blocking, await ctx.run_udf(dataset, UDFS["python"](), sync=False)

    for results in asyncio.run(main()):
        assert_same(results, expected)


def test_a_run_that_is_left_can_be_followed_by_others(ctx, inline, tmp_path):
    dataset = load("raw", "uint16", inline, tmp_path)
    expected = inline.run_udf(dataset, UDFS["mixed"]())
    for n in range(4):
        steps = ctx.run_udf_iter(dataset, UDFS["mixed"]())
        for _ in range(n):
            next(steps)
        if n == 1:
            with pytest.raises(UDFRunCancelled):
                steps.throw(UDFRunCancelled("enough"))
        elif n == 2:
            del steps
        else:
            steps.close()
        assert_same(ctx.run_udf(dataset, UDFS["mixed"]()), expected)
