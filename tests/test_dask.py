"""Dask clusters give the results of one thread, bit for bit, and nothing is left of a run."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import nullcontext

import numpy as np
import pytest
from process_cases import (
    PerFrame,
    frames,
    gone,
    hard_limit,  # noqa: F401 - a fixture
)
from sample_udfs import Level, Recorder

pytest.importorskip("distributed")

import dask
import dask.array
import distributed
from dask_cases import (
    assert_same,
    connected,  # noqa: F401 - a fixture
    forgotten,
    inline,  # noqa: F401 - a fixture
    local,  # noqa: F401 - a fixture
    local_processes,
    raw_file,
)

import framefold as ff
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.executor._dask.batches import ClusterTasks
from framefold.executor._dask.lending import BufferPool
from framefold.executor._dask.resources import RunResources
from framefold.executor._dask.workers import Batch, WorkerState
from framefold.executor.concurrent import ConcurrentJobExecutor
from framefold.executor.dask import DaskJobExecutor, cluster_spec
from framefold.executor.inline import InlineJobExecutor
from framefold.executor.integration import get_dask_integration_executor
from framefold.executor.processes import ProcessJobExecutor
from framefold.io.corrections import CorrectionSet
from framefold.udf import UDF
from framefold.udf.record import RecordUDF

pytestmark = pytest.mark.usefixtures("hard_limit")

NAV, SIG = (6, 7), (10, 12)


class Everything(UDF):
    """All kinds of buffers, objects, task data, and sums that depend on the order."""

    def get_result_buffers(self):
        return {
            "total": self.buffer(kind="sig", dtype="float32"),
            "place": self.buffer(kind="nav", extra_shape=(2,), dtype="int64"),
            "names": self.buffer(kind="nav", dtype=object),
            "mean": self.buffer(kind="single", dtype="complex128"),
            "hidden": self.buffer(kind="single", dtype="float16", use="private"),
            "ratio": self.buffer(kind="sig", dtype="float64", use="result_only"),
        }

    def get_task_data(self):
        return {"weights": np.linspace(0.1, 1, int(np.prod(self.meta.dataset_shape.sig)))}

    def process_frame(self, frame):
        weights = self.task_data.weights.reshape(frame.shape)
        self.results.total[:] += frame * weights
        self.results.place[:] = self.meta.coordinates[0, :2]
        self.results.names[:] = f"frame {self.meta.slice.origin[0]}"
        self.results.mean[:] += (frame * weights).mean() * 1j
        self.results.hidden[:] += 0.1

    def merge(self, dest, src):
        for name in ("total", "mean", "hidden"):
            getattr(dest, name)[:] += getattr(src, name)
        for name in ("place", "names"):
            getattr(dest, name)[:] = getattr(src, name)

    def get_results(self):
        return {"ratio": self.results.total / np.maximum(self.results.hidden, 1)}


UDFS = {
    "native": lambda: [ff.SumUDF(), ff.StdDevUDF()],
    "python": lambda: [Everything(), Level(offset=3)],
    "mixed": lambda: [ff.SumSigUDF(), Everything(), ff.StdDevUDF(), ff.MaxUDF()],
}
ROIS = {
    "all": None,
    "few": np.arange(42).reshape(NAV) % 5 == 2,
    "one": np.arange(42).reshape(NAV) == 17,
}


@pytest.mark.parametrize("udfs", UDFS)
@pytest.mark.parametrize("roi", ROIS)
@pytest.mark.parametrize("dtype", ["uint16", ">f4"])
def test_the_same_bits(connected, inline, tmp_path, dtype, roi, udfs):  # noqa: F811
    dataset = raw_file(inline, tmp_path, dtype=dtype)
    expected = inline.run_udf(dataset=dataset, udf=UDFS[udfs](), roi=ROIS[roi])
    assert_same(connected.run_udf(dataset=dataset, udf=UDFS[udfs](), roi=ROIS[roi]), expected)


@pytest.mark.parametrize("udfs", UDFS)
def test_arrays_in_memory(local, connected, inline, udfs):  # noqa: F811
    data = np.random.default_rng(7).random((*NAV, *SIG)).astype(np.float32)
    dataset = local.load("memory", data=data[:, :, ::-1], sig_dims=2, num_partitions=5)
    expected = inline.run_udf(dataset=dataset, udf=UDFS[udfs]())
    assert_same(local.run_udf(dataset=dataset, udf=UDFS[udfs]()), expected)
    assert_same(connected.run_udf(dataset=dataset, udf=UDFS[udfs]()), expected)


def test_corrections_aux_data_and_sparse_tiles(connected, inline, tmp_path):  # noqa: F811
    class WithAux(Level):
        def __init__(self, offset, factors):
            UDF.__init__(self, offset=offset, factors=factors)

        def process_frame(self, frame):
            super().process_frame(frame * self.params.factors)

    rng = np.random.default_rng(9)
    corrections = CorrectionSet(
        dark=rng.random(SIG), gain=rng.random(SIG) + 0.5, excluded_pixels=[[3, 4], [5, 6]]
    )
    factors = UDF.aux_data(rng.random(NAV), kind="nav", dtype="float32")
    arguments = {
        "dataset": raw_file(inline, tmp_path),
        "udf": [WithAux(offset=1, factors=factors), ff.SumUDF()],
        "corrections": corrections,
        "roi": ROIS["few"],
    }
    assert_same(connected.run_udf(**arguments), inline.run_udf(**arguments))


def test_many_partitions_travel_together(connected, inline):  # noqa: F811
    dataset = frames(inline, n_frames=3000, n_partitions=1500)
    expected = inline.run_udf(dataset, [Level(offset=2), Numbers()])
    assert_same(connected.run_udf(dataset, [Level(offset=2), Numbers()]), expected)


class Numbers(UDF):
    def get_result_buffers(self):
        return {"number": self.buffer(kind="nav", dtype="int64")}

    def process_frame(self, frame):
        self.results.number[:] = self.meta.slice.origin[0]


def test_large_partial_results(connected, inline):  # noqa: F811
    # More than goes into one batch.
    data = np.random.default_rng(3).random((30, 256, 256)).astype(np.float32)
    dataset = connected.load("memory", data=data, num_partitions=30)
    udfs = [Level(offset=1), ff.StdDevUDF()]
    assert_same(connected.run_udf(dataset, udfs), inline.run_udf(dataset, udfs))


def test_what_a_merge_keeps_stays_as_it_is(connected, inline):  # noqa: F811
    class Keeping(UDF):
        def get_result_buffers(self):
            return {"last": self.buffer(kind="sig"), "sum": self.buffer(kind="single")}

        def process_frame(self, frame):
            self.results.last[:] = frame

        def merge(self, dest, src):
            self.kept = [*getattr(self, "kept", []), src.last]
            dest.last[:] = src.last

        def get_results(self):
            total = sum(float(array.sum()) for array in getattr(self, "kept", []))
            return {"sum": np.array([total], dtype=np.float32)}

    data = np.arange(20 * 128 * 128, dtype=np.float32).reshape(20, 128, 128)
    dataset = connected.load("memory", data=data, num_partitions=20)
    expected = inline.run_udf(dataset=dataset, udf=Keeping())
    assert_same([connected.run_udf(dataset=dataset, udf=Keeping())], [expected])


def test_results_so_far_and_progress(connected, inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    recorder = Recorder()
    steps = zip(
        connected.run_udf_iter(dataset=dataset, udf=UDFS["mixed"](), progress=recorder),
        inline.run_udf_iter(dataset=dataset, udf=UDFS["mixed"]()),
        strict=True,
    )
    n_steps = 0
    for got, expected in steps:
        assert_same(got.buffers, expected.buffers)
        assert np.array_equal(got.damage.data, expected.damage.data)
        n_steps += 1
    assert n_steps == 8
    assert [kind for kind, _ in recorder.states] == ["start", *["update"] * 8, "end"]
    assert recorder.states[-1][1].num_frames_complete == 42


def test_parameters_change(connected):  # noqa: F811
    dataset = frames(connected, n_frames=4000, n_partitions=2000)
    with connected.run_udf_iter(dataset=dataset, udf=Level(offset=1)) as steps:
        next(steps)
        steps.update_parameters_experimental([{"offset": 7}])
        levels = [results[0]["level"].raw_data for results in steps][-1]
    assert levels[0] == 1
    assert levels[-1] == 7
    assert set(levels) == {1, 7}


def test_a_file_that_is_written_is_whole(local, inline, tmp_path):  # noqa: F811
    def fail(frame):
        if frame == 38:
            raise KeyError("a late frame")

    dataset = frames(inline)
    for action, left in ((fail, []), (int, ["frames.npy"])):
        udfs = [RecordUDF(tmp_path / "frames.npy"), PerFrame(action)]
        with pytest.raises(KeyError) if action is fail else nullcontext():
            local.run_udf(dataset, udfs)
        assert os.listdir(tmp_path) == left
    assert np.load(tmp_path / "frames.npy").shape == (40, 4, 4)


def test_two_runs_from_one_event_loop(connected, inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)

    async def main():
        runs = [connected.run_udf(dataset, Level(offset=n), sync=False) for n in range(3)]
        seen = [results async for results in connected.run_udf_iter(dataset, Level(), sync=False)]
        return await asyncio.gather(*runs), seen

    several, seen = asyncio.run(main())
    for n, results in enumerate(several):
        assert_same([results], [inline.run_udf(dataset, Level(offset=n))])
    assert_same([seen[-1][0]], [inline.run_udf(dataset, Level())])
    assert len(seen) == 8


def test_runs_from_several_threads(local, connected, inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    expected = inline.run_udf(dataset, UDFS["mixed"]())
    results = []

    def run(context):
        results.extend(context.run_udf(dataset, UDFS["mixed"]()) for _ in range(2))

    threads = [threading.Thread(target=run, args=(c,)) for c in (local, connected, connected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    for result in results:
        assert_same(result, expected)


def test_a_run_within_a_run(connected, inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    n_steps = 0
    for _ in connected.run_udf_iter(dataset=dataset, udf=Level()):
        inner = connected.run_udf(dataset=dataset, udf=Level(offset=2))
        n_steps += 1
    assert n_steps == 8
    assert_same([inner], [inline.run_udf(dataset=dataset, udf=Level(offset=2))])


def test_nothing_is_left_of_a_run(local, connected, inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    connected.run_udf(dataset, Level())
    with connected.run_udf_iter(dataset, Level()) as steps:
        next(steps)
    assert forgotten(local.executor)
    assert connected.executor.client.futures == {}


def test_work_is_done_in_workers_with_one_thread_each(local, inline):  # noqa: F811
    def check(_frame):
        limits = [os.environ[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")]
        assert limits == ["1"] * 3
        assert "FRAMEFOLD_GIVEN_PYTHONPATH" not in os.environ

    pids = set(local.run_udf(frames(inline), PerFrame(check))["pid"].data.tolist())
    assert pids <= set(local_processes(local.executor))


def test_where_native_runs_go(local, connected, inline):  # noqa: F811
    dataset = frames(inline)
    assert "threads: all UDFs run on native kernels" in local.explain(dataset, ff.SumUDF())
    for context, udf in ((local, Level()), (connected, ff.SumUDF())):
        assert "2 Dask workers with 2 threads" in context.explain(dataset, udf)


def test_several_threads_of_a_worker(inline, tmp_path):  # noqa: F811
    spec = cluster_spec(1, options={"nthreads": 3})
    dataset = raw_file(inline, tmp_path)
    with DaskJobExecutor.make_local(spec) as executor:
        context = ff.Context(executor=DaskJobExecutor(executor.client))
        for udfs in UDFS.values():
            assert_same(context.run_udf(dataset, udfs()), inline.run_udf(dataset, udfs()))
        assert executor.n_workers == 1


def test_the_client_of_a_user_is_not_closed(local, inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    client = local.executor.client
    with ff.Context(executor=DaskJobExecutor(client)) as context:
        context.run_udf(dataset, Level())
    assert client.status == "running"
    with pytest.raises(InvalidArgumentError, match="this executor is closed"):
        context.run_udf(dataset, Level())


def test_make_default(inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    with ff.Context.make_with("dask-make-default", cpus=1) as ctx:
        ctx.run_udf(dataset, Level())
        client = ctx.executor.client
        assert distributed.default_client() is client
        where = dask.delayed(os.getpid)().compute()
        assert [where] == local_processes(ctx.executor)
        assert dask.array.ones(10, chunks=5).sum().compute() == 10
        # And back again: framefold on what Dask uses.
        with ff.Context.make_with("dask-integration") as integrated:
            assert isinstance(integrated.executor, DaskJobExecutor)
            assert integrated.executor.client is client
            expected = inline.run_udf(dataset, UDFS["mixed"]())
            assert_same(integrated.run_udf(dataset, UDFS["mixed"]()), expected)
        assert client.status == "running"
    with pytest.raises(ValueError, match="No clients"):
        distributed.default_client()


def test_plain_dask_is_left_alone(local):  # noqa: F811
    with pytest.raises(ValueError, match="No clients"):
        distributed.default_client()
    assert dask.delayed(os.getpid)().compute() == os.getpid()


@pytest.mark.parametrize(
    ("options", "kind", "n_workers"),
    [
        ({}, ConcurrentJobExecutor, None),
        ({"scheduler": "threads", "num_workers": 3}, ConcurrentJobExecutor, 3),
        ({"scheduler": "processes", "num_workers": 2}, ProcessJobExecutor, 2),
        ({"scheduler": "synchronous"}, InlineJobExecutor, 0),
    ],
)
def test_integration(inline, tmp_path, options, kind, n_workers):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    with dask.config.set(options), ff.Context.make_with("dask-integration") as ctx:
        assert type(ctx.executor) is kind
        assert ctx.executor.threads == n_workers
        assert_same(ctx.run_udf(dataset, UDFS["mixed"]()), inline.run_udf(dataset, UDFS["mixed"]()))


def test_integration_with_pools():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(5) as pool:
        for options in ({"pool": pool}, {"scheduler": pool}):
            with dask.config.set(options):
                executor = get_dask_integration_executor()
                assert isinstance(executor, ConcurrentJobExecutor)
                assert executor.threads == 5
    with (
        dask.config.set(scheduler=lambda *_arguments, **_options: None),
        pytest.raises(UnsupportedError, match="none that framefold can work on"),
    ):
        get_dask_integration_executor()


def test_specifications():
    spec = cluster_spec([0, 3], name="here", preload=["json"], options={"nthreads": 2})
    assert list(spec) == ["here-cpu-0", "here-cpu-3"]
    options = spec["here-cpu-3"]["options"]["options"]
    resources = {"CPU": 2, "compute": 2, "ndarray": 2}
    expected = {"nthreads": 2, "memory_limit": 0, "preload": ["json"], "resources": resources}
    assert options == expected
    spec = cluster_spec(0, [1, 1], has_cupy=True)
    assert list(spec) == ["default-cuda-1", "default-cuda-1-0"]
    options = spec["default-cuda-1"]["options"]
    assert options["device"] == 1
    assert options["options"]["resources"] == {"CUDA": 1, "compute": 1, "ndarray": 1}
    options = cluster_spec(1, 1, options={"resources": {"own": 3}})["default-cuda-0"]["options"]
    assert options["options"]["resources"] == {"own": 3}


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: cluster_spec(0), "at least one worker"),
        (lambda: cluster_spec(-2), "cpus is -2"),
        (lambda: cluster_spec(1, cudas=-1), "cudas is -1"),
        (lambda: DaskJobExecutor("tcp://127.0.0.1:1"), "client is a str"),
        (lambda: DaskJobExecutor.make_local(main_process_gpu=-1), "number of a device"),
        (lambda: ff.Context.make_with("dask", gpus=99), "gpus is 99, and CUDA devices there are"),
        (lambda: ff.Context.make_with("dask-integration", cpus=1), "cannot be chosen"),
    ],
)
def test_options(make, match):
    with pytest.raises((InvalidArgumentError, UnsupportedError), match=match):
        make()


def test_nobody_takes_more_than_a_share():
    tasks = ClusterTasks(128)
    tasks.set_n_threads(2)
    first = tasks.take(32)
    assert first == list(range(32))
    tasks.give([(index, None, 1000, 0.0015) for index in range(8)])
    # 96 are left, and 24 are being processed: 60 each.
    assert tasks.batch_size(8, 24) == 2 * 52 // 3
    assert tasks.batch_size(16, 24) == 2 * 44 // 3
    assert tasks.batch_size(60, 24) == tasks.batch_size(90, 24) == 0
    # What came back is processed by somebody, even if it is all there is.
    while tasks.take(1):
        pass
    tasks.schedule.put_back(31)
    assert tasks.batch_size(0, 0) == 1
    assert tasks.take(1) == [31]


def test_a_worker_does_first_what_it_got_first(local, inline, tmp_path):  # noqa: F811
    local.run_udf(raw_file(inline, tmp_path), Level())  # there are workers now
    client, (address, *_) = local.executor.client, local.executor.client.nthreads()

    async def order():
        resources = RunResources(client, "order", BufferPool())
        try:
            futures = [resources.submit(address, "time", time.monotonic_ns) for _ in range(40)]
            return [await future for future in futures]
        finally:
            resources.close()

    begun = client.sync(order)
    assert begun == sorted(begun)


def test_what_a_worker_has_left_goes_by_the_time():
    worker = WorkerState("tcp://somewhere", 1, may_share=False)
    worker.batches = [Batch([0, 1, 2, 3], None, since=10.0), Batch([4, 5], None, since=10.5)]
    assert worker.n_to_do(12.0, None) == 6
    assert worker.n_to_do(10.0, 0.5) == 6
    assert worker.n_to_do(11.0, 0.5) == 4
    # It is not done with the last one.
    assert worker.n_to_do(20.0, 0.5) == 2.5
    worker.done_with(worker.batches[0], 11.5)
    assert worker.n_to_do(11.5, 0.5) == 2
    assert worker.n_to_do(12.0, 0.5) == 1
    two = WorkerState("tcp://somewhere", 2, may_share=False)
    two.batches = [Batch([0, 1, 2, 3], None, since=10.0), Batch([4, 5], None, since=10.0)]
    assert two.n_to_do(10.5, 0.5) == 4


def test_batches_grow_with_the_number_of_workers():
    tasks = ClusterTasks(100_000)
    sizes = []
    for n_threads in (1, 2, 10, 20, 25, 1000):
        tasks.set_n_threads(n_threads)
        tasks.give([(len(sizes), None, 1000, 0.01)])
        sizes.append(tasks.batch_size())
    assert sizes == [15, 15, 15, 20, 25, 25]


def test_timeouts_are_positive(local):  # noqa: F811
    with pytest.raises(InvalidArgumentError, match="timeout is 0"):
        DaskJobExecutor(local.executor.client, timeout=0)


def test_data_sets_can_be_sent(inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    again = pickle.loads(pickle.dumps(dataset))
    assert_same(inline.run_udf(again, [Level()]), inline.run_udf(dataset, [Level()]))


SCRIPT = """
import numpy as np
import framefold as ff
from framefold.udf import UDF

SCALE = 2

class Mine(UDF):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.x[:] = helper(frame)

def helper(frame):
    print("helping")
    return SCALE * frame.sum()

ctx = ff.Context.make_with("dask", cpus=2)
dataset = ctx.load("memory", data=np.ones((4, 5, 6)), num_partitions=4)
print(ctx.run_udf(dataset=dataset, udf=Mine())["x"].data)
workers = ctx.executor.client.cluster.workers.values()
print("pids", *(worker._process.pid for worker in workers))
"""


@pytest.mark.parametrize("how", ["file", "standard input"])
def test_a_script_needs_no_guard(tmp_path, how):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = {"file": ["script.py"], "standard input": ["-"]}[how]
    done = subprocess.run(
        [sys.executable, *command],
        input=SCRIPT,
        capture_output=True,
        text=True,
        timeout=80,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # Lines of several processes can run into each other where streams are not buffered; and on a
    # busy machine, another worker may do again what everything waits for.
    assert done.stdout.count("helping") >= 4
    assert "[60. 60. 60. 60.]" in lines
    assert done.stderr == ""
    pids = next(line for line in lines if line.startswith("pids")).split()[1:]
    assert len(pids) == 2
    assert gone(map(int, pids))
