"""Delayed runs on the schedulers of Dask: on threads, and in other processes."""

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from dask_scripts import run_script
from delayed_cases import (
    NAV,
    SIG,
    PerFrame,
    Total,
    assert_each_has_its_own,
    scan,
    with_reused_arrays,
)
from known_oddities import POSITIONS_WITHOUT_DATA
from sample_udfs import Recorder

import framefold as ff
from framefold.exceptions import InvalidArgumentError, WorkerError
from framefold.executor._delayed.tasks import DelayedRun

pytest.importorskip("dask.array", reason="dask.array is not installed")

import dask
import dask.array as da
from delayed_checks import KINDS, check


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("delayed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheduler", ["sync", "threads"])
@POSITIONS_WITHOUT_DATA
def test_threads(inline, ctx, tmp_path, kind, scheduler):
    check(kind, inline, ctx, tmp_path, scheduler=scheduler, num_workers=3)


SCRIPT = """
import sys
import numpy as np
import dask
import dask.array as da
import framefold as ff
from delayed_cases import assert_each_has_its_own, with_reused_arrays


class Mine(ff.UDF):  # of a script: it has to be sent along
    def get_result_buffers(self):
        return {"total": self.buffer(kind="nav"), "sum": self.buffer(kind="sig")}

    def process_frame(self, frame):
        self.results.total[:] = frame.sum()
        self.results.sum[:] += frame / 3

    def merge(self, dest, src):
        dest.total[:] = src.total
        dest.sum[:] += src.sum


if __name__ == "__main__":
    data = np.arange(6 * 7 * 10 * 12, dtype=np.uint16).reshape(6, 7, 10, 12)
    chunked = da.from_array(data, chunks=(2, 3, 5, 12))
    inline, ctx = ff.Context.make_with("inline"), ff.Context.make_with("delayed")
    lazy, expected = [], []
    for dataset in (
        ctx.load("memory", data=data, sig_dims=2, num_partitions=5),
        ctx.load("dask", chunked, sig_dims=2, min_size=0),
    ):
        results = ctx.run_udf(dataset=dataset, udf=[Mine(), ff.SumUDF()])
        lazy += [each.delayed_data for of in results for each in of.values()]
        for of in inline.run_udf(dataset=dataset, udf=[Mine(), ff.SumUDF()]):
            expected += of.values()
    lazy += with_reused_arrays(ctx)
    # All at once, as Dask starts two processes each time.
    values = dask.compute(*lazy, scheduler="processes", num_workers=2)
    assert len(values) == 12
    for array, wanted in zip(values[:6], expected, strict=True):
        assert array.tobytes() == wanted.data.tobytes()
    assert_each_has_its_own(values[6:])
    print("the same")
"""


def test_other_processes(tmp_path):
    folder = os.path.dirname(os.path.abspath(__file__))
    done = run_script(tmp_path, SCRIPT, paths=[folder])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the same\n"


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_arrays_are_filled_anew_for_the_next_run(ctx, scheduler):
    assert_each_has_its_own(dask.compute(*with_reused_arrays(ctx), scheduler=scheduler))


def test_what_cannot_be_sent_is_named(ctx):
    class Locked(PerFrame):
        pass

    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2)
    delayed = DelayedRun(ctx._prepare(dataset, Locked(lock=threading.Lock()), None))
    with pytest.raises(InvalidArgumentError, match="parameter 'lock'"):
        pickle.dumps(delayed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "0.0.7"}, "framefold 0.0.7 planned the run, but this worker has"),
        (
            {"fingerprint": "another plan\n"},
            "the run is not the same on this worker: 'another plan' here",
        ),
    ],
)
def test_a_worker_on_which_the_run_is_another_one_refuses(ctx, changes, message):
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2)
    delayed = DelayedRun(ctx._prepare(dataset, PerFrame(), None))
    make, (_, shipment, tells) = delayed.__reduce__()
    with pytest.raises(WorkerError, match=message):
        _ = make("elsewhere", shipment._replace(**changes), tells).run


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_progress(ctx, scheduler):
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2, num_partitions=6)
    heard = Recorder()
    results = ctx.run_udf(dataset=dataset, udf=[PerFrame(), Total()], progress=heard)
    assert not heard.states
    with dask.config.set(scheduler=scheduler):
        assert results[0]["total"].data.shape == NAV
    kinds = [kind for kind, _ in heard.states]
    assert kinds[0] == "start"
    assert kinds[-1] == "end"
    assert kinds.count("start") == kinds.count("end") == 1
    counts = [state.num_part_complete for kind, state in heard.states if kind == "update"]
    assert counts == sorted(counts)
    assert counts[-1] == 6
    if scheduler == "sync":
        assert set(counts) == set(range(1, 7))
    assert heard.states[-1][1].num_frames_complete == 42
    # Each computation has progress of its own.
    heard.states.clear()
    assert results[1]["intensity"].data.shape == SIG
    assert [kind for kind, _ in heard.states][:: len(heard.states) - 1] == ["start", "end"]


def test_progress_is_not_that_of_another_computation(ctx, monkeypatch):
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2, num_partitions=6)
    heard, compute, n_heard = Recorder(), dask.compute, []

    def beside_another(*collections, **options):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(compute, da.ones(10, chunks=1).sum(), scheduler="sync").result()
        n_heard.append(len(heard.states))
        return compute(*collections, **options)

    monkeypatch.setattr(dask, "compute", beside_another)
    results = ctx.run_udf(dataset=dataset, udf=PerFrame(), progress=heard)
    with dask.config.set(scheduler="sync"):
        _ = results["total"].data
    assert n_heard == [1]
    assert [state.num_part_complete for _, state in heard.states] == [0, *range(1, 7), 6]


def test_progress_beside_other_callbacks_and_on_other_schedulers(ctx):
    def own(graph, keys, **options):
        assert not options
        return dask.get(graph, keys)

    ended = []
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2, num_partitions=6)
    for scheduler in ("sync", own):
        heard = Recorder()
        results = ctx.run_udf(dataset=dataset, udf=PerFrame(), progress=heard)
        with (
            dask.config.set(scheduler=scheduler),
            dask.callbacks.Callback(finish=lambda *_: ended.append(True)),
        ):
            _ = results["total"].data
        assert heard.states[-1][1].num_part_complete == 6
        assert len(heard.states) == 8
    assert len(ended) == 2


def test_progress_ends_where_the_run_fails(ctx):
    class Failing(PerFrame):
        def process_frame(self, frame):
            raise KeyError("no")

    heard = Recorder()
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2)
    results = ctx.run_udf(dataset=dataset, udf=Failing(), progress=heard)
    with pytest.raises(KeyError):
        _ = results["total"].data
    assert [kind for kind, _ in heard.states] == ["start", "end"]


MEMORY = """
import resource
import sys

import dask
import numpy as np

sys.path[:0] = [sys.argv[1]]
import framefold as ff
from delayed_cases import Total


def peak():
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # On Linux, `getrusage` counts what the process had before it became this program, too.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


class Wide(Total):
    def get_result_buffers(self):
        return {"intensity": self.buffer(kind="sig", dtype="float64")}


ctx = ff.Context.make_with("delayed")
dataset = ctx.load(
    "memory", data=np.ones((90, 512, 1024), dtype=np.uint8), sig_dims=2, num_partitions=90
)
for udf in (ff.SumUDF(dtype="float64"), Wide()):
    before = peak()
    with dask.config.set(scheduler="threads", num_workers=2):
        ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data
    print((peak() - before) >> 20)
"""


def test_partial_results_do_not_pile_up(tmp_path):
    pytest.importorskip("resource", reason="this system does not tell the peak of memory")
    done = run_script(tmp_path, MEMORY, os.path.dirname(os.path.abspath(__file__)))
    assert done.returncode == 0, done.stderr
    # All partial results of 4 MiB take 360 MiB.
    native, python = map(int, done.stdout.split())
    assert native < 240
    assert python < 240
