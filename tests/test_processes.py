"""Worker processes give the results of one thread, bit for bit, and nothing is left of them."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from executor_cases import NAV, ROIS, SIG, UDFS, assert_same, load, scan
from process_cases import (
    PerFrame,
    files_and_threads,
    frames,
    gone,
    hard_limit,  # noqa: F401 - a fixture
    new_since,
    nothing_new,
    pool_threads,
    shm,
)
from sample_udfs import Level, Recorder

import framefold as ff
from framefold.exceptions import InvalidArgumentError
from framefold.executor.pipelined import PipelinedExecutor
from framefold.executor.processes import ProcessJobExecutor
from framefold.io.corrections import CorrectionSet
from framefold.udf import UDF

pytestmark = pytest.mark.usefixtures("hard_limit")


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


@pytest.fixture(scope="module")
def ctx():
    before = shm()
    with ff.Context.make_with("processes", cpus=2) as context:
        yield context
        workers = context.executor.worker_ids
        assert workers
    assert gone(workers)
    assert shm() <= before


def strided():
    rng = np.random.default_rng(5)
    block = rng.integers(0, 100, size=(6, 7, 20, 13)).astype(np.uint16)
    sparse = pytest.importorskip("scipy.sparse")
    dense = block[..., :10, :12]
    return {
        "fortran": np.asfortranarray(dense),
        "every second": block[:, :, ::2, 1:],
        "backwards": dense[:, ::-1],
        "broadcast": np.broadcast_to(dense[0, 0], dense.shape),
        "read-only": np.frombuffer(dense.tobytes(), np.uint16).reshape(dense.shape),
        "csr": sparse.csr_matrix(dense.reshape(42, 120)),
    }


@pytest.mark.parametrize(
    "case", ["fortran", "every second", "backwards", "broadcast", "read-only", "csr"]
)
def test_arrays_of_any_layout(ctx, inline, case):
    data = strided()[case]
    options = {"datashape": (6, 7, 10, 12)} if case == "csr" else {}
    dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=4, **options)
    expected = inline.run_udf(dataset=dataset, udf=UDFS["mixed"]())
    assert_same(ctx.run_udf(dataset=dataset, udf=UDFS["mixed"]()), expected)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.shape == dataset.shape
    assert_same(inline.run_udf(dataset=again, udf=UDFS["mixed"]()), expected)


def test_large_partial_results(ctx, inline):
    data = np.random.default_rng(3).random((30, 128, 128)).astype(np.float32)
    dataset = ctx.load("memory", data=data, num_partitions=30)
    udfs = [Level(offset=1), ff.StdDevUDF()]
    ctx.run_udf(frames(ctx), Level())
    before = files_and_threads()
    expected = inline.run_udf(dataset=dataset, udf=udfs)
    assert_same(ctx.run_udf(dataset=dataset, udf=udfs), expected)
    # Memory is let go beside whatever comes next.
    assert nothing_new(before), new_since(before)


def test_what_a_merge_keeps_stays_as_it_is(ctx, inline):
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
    dataset = ctx.load("memory", data=data, num_partitions=20)
    expected = inline.run_udf(dataset=dataset, udf=Keeping())
    for _ in range(3):
        assert_same([ctx.run_udf(dataset=dataset, udf=Keeping())], [expected])


def test_corrections_and_aux_data(ctx, inline, tmp_path):
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
    dataset = load("raw", "uint16", inline, tmp_path)
    arguments = {
        "dataset": dataset,
        "udf": [WithAux(offset=1, factors=factors), ff.SumUDF()],
        "corrections": corrections,
        "roi": ROIS["few"],
    }
    assert_same(ctx.run_udf(**arguments), inline.run_udf(**arguments))


def test_sparse_tiles(ctx, inline, tmp_path):
    pytest.importorskip("scipy.sparse")

    class Sparse(UDF):
        def get_backends(self):
            return (self.BACKEND_SCIPY_CSR, self.BACKEND_NUMPY)

        def get_result_buffers(self):
            return {"sum": self.buffer(kind="nav"), "format": self.buffer(kind="nav", dtype="U30")}

        def process_tile(self, tile):
            self.results.sum[:] += np.asarray(tile.sum(axis=1)).reshape(-1)
            self.results.format[:] = self.meta.array_backend

    dataset = load("raw_csr", "float32", inline, tmp_path)
    for backends in (None, UDF.BACKEND_SCIPY_CSR):
        arguments = {"dataset": dataset, "udf": [Sparse()], "backends": backends}
        got = ctx.run_udf(**arguments)
        assert got[0]["format"].data[0, 0] == UDF.BACKEND_SCIPY_CSR
        assert_same(got, inline.run_udf(**arguments))


def test_functions_without_a_name(ctx, inline, tmp_path):
    dataset = load("memory", "uint16", inline, tmp_path)
    factor = 3
    mapped = ctx.map(dataset, lambda frame: frame.sum() * factor)
    assert np.array_equal(mapped, inline.map(dataset, lambda frame: frame.sum() * factor))
    ctx.export_dataset(dataset, path=tmp_path / "copy.npy")
    assert np.array_equal(np.load(tmp_path / "copy.npy"), scan("uint16"))


def test_results_so_far(ctx, inline, tmp_path):
    dataset = load("memory", "uint16", inline, tmp_path)
    steps = zip(
        ctx.run_udf_iter(dataset=dataset, udf=UDFS["mixed"]()),
        inline.run_udf_iter(dataset=dataset, udf=UDFS["mixed"]()),
        strict=True,
    )
    n_steps = 0
    for got, expected in steps:
        assert_same(got.buffers, expected.buffers)
        assert np.array_equal(got.damage.data, expected.damage.data)
        n_steps += 1
    assert n_steps == 5


def test_progress(ctx, inline, tmp_path):
    dataset = load("memory", "uint16", inline, tmp_path)
    recorder = Recorder()
    ctx.run_udf(dataset=dataset, udf=Level(), progress=recorder)
    kinds = [kind for kind, _ in recorder.states]
    assert kinds == ["start", *["update"] * 5, "end"]
    assert recorder.states[-1][1].num_frames_complete == 42
    assert [state.num_part_complete for _, state in recorder.states] == [0, 1, 2, 3, 4, 5, 5]


def test_parameters_change(ctx):
    dataset = frames(ctx, n_frames=400, n_partitions=100)
    with ctx.run_udf_iter(dataset=dataset, udf=Level(offset=1)) as steps:
        next(steps)
        steps.update_parameters_experimental([{"offset": 7}])
        levels = [results[0]["level"].raw_data for results in steps][-1]
    assert levels[0] == 1
    assert levels[-1] == 7
    assert sorted(levels) == levels.tolist()


def test_two_runs_from_one_event_loop(ctx, inline, tmp_path):
    dataset = load("memory", "uint16", inline, tmp_path)

    async def main():
        runs = [ctx.run_udf(dataset, Level(offset=n), sync=False) for n in range(3)]
        seen = [results async for results in ctx.run_udf_iter(dataset, Level(), sync=False)]
        return await asyncio.gather(*runs), seen

    several, seen = asyncio.run(main())
    for n, results in enumerate(several):
        assert_same([results], [inline.run_udf(dataset, Level(offset=n))])
    assert_same(seen[-1].buffers, seen[-1].buffers)
    assert len(seen) == 5


def test_runs_from_several_threads(ctx, inline, tmp_path):
    dataset = load("memory", "uint16", inline, tmp_path)
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


def test_a_run_within_a_run(ctx, inline, tmp_path):
    dataset = load("memory", "uint16", inline, tmp_path)
    seen = []
    for results in ctx.run_udf_iter(dataset=dataset, udf=Level()):
        seen.append(results)
        inner = ctx.run_udf(dataset=dataset, udf=Level(offset=2))
    assert len(seen) == 5
    assert np.array_equal(inner["level"].data, results[0]["level"].data + 2)


def test_native_runs_use_threads(inline, tmp_path):
    dataset = load("memory", "uint16", inline, tmp_path)
    with ff.Context.make_with("processes", cpus=2) as ctx:
        ctx.run_udf(dataset=dataset, udf=[ff.SumUDF(), ff.StdDevUDF()])
        assert ctx.executor.worker_ids == []
        assert "threads: all UDFs run on native kernels" in ctx.explain(dataset, ff.SumUDF())
        assert "up to 2 worker processes" in ctx.explain(dataset, [ff.SumUDF(), Level()])


def test_work_is_done_in_workers_with_one_thread_each(ctx):
    def check(_frame):
        limits = [os.environ[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")]
        assert limits == ["1"] * 3
        assert "FRAMEFOLD_GIVEN_PYTHONPATH" not in os.environ

    ctx.run_udf(frames(ctx), Level())
    before = pool_threads()  # one for all runs of a context
    pids = set(ctx.run_udf(frames(ctx), PerFrame(check))["pid"].data.tolist())
    assert os.getpid() not in pids
    assert pids <= set(ctx.executor.worker_ids)
    assert set(pool_threads()) <= set(before)


def test_names_of_the_reference():
    spec = PipelinedExecutor.make_spec(cpus=[0, 3], cudas=[])
    assert [worker["name"] for worker in spec] == ["cpu-0", "cpu-3"]
    assert PipelinedExecutor(spec).n_workers == 2
    assert PipelinedExecutor.make_local().n_workers == ProcessJobExecutor().n_workers
    assert isinstance(ff.Context.make_with("pipelined", cpus=3).executor, ProcessJobExecutor)
    spec = PipelinedExecutor.make_spec(cpus=1, cudas=[2, 2], has_cupy=True)
    assert [worker["name"] for worker in spec] == ["cuda-2", "cuda-2-1", "cpu-0"]
    assert [worker["has_cupy"] for worker in spec] == [True, True, False]
    executor = PipelinedExecutor(spec)
    assert (executor.gpus, executor.n_workers, executor.gpus_only) == ((2, 2), 1, False)
    assert PipelinedExecutor(spec[:2]).gpus_only
    with pytest.raises(InvalidArgumentError, match="cudas is -1"):
        PipelinedExecutor.make_spec(cpus=1, cudas=-1)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_workers": 0}, "n_workers is 0"),
        ({"timeout": 0}, "timeout is 0"),
        ({"startup_timeout": -1.0}, "startup_timeout is -1"),
    ],
)
def test_options(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        ProcessJobExecutor(**options)


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

ctx = ff.Context.make_with("processes", cpus=2)
dataset = ctx.load("memory", data=np.ones((4, 5, 6)), num_partitions=4)
print(ctx.run_udf(dataset=dataset, udf=Mine())["x"].data)
print("pids", *ctx.executor.worker_ids)
"""


@pytest.mark.parametrize("how", ["file", "module", "standard input"])
def test_a_script_needs_no_guard(tmp_path, how):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = {"file": ["script.py"], "module": ["-m", "script"], "standard input": ["-"]}[how]
    done = subprocess.run(
        [sys.executable, *command],
        input=SCRIPT,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # Lines of several processes can run into each other where streams are not buffered.
    assert done.stdout.count("helping") == 4
    assert "[60. 60. 60. 60.]" in lines
    assert done.stderr == ""
    pids = next(line for line in lines if line.startswith("pids")).split()[1:]
    assert len(pids) == 2
    assert gone(map(int, pids))


def test_packages_written_for_the_reference(tmp_path):
    (tmp_path / "published.py").write_text(
        "from libertem.udf import UDF\n"
        "class Published(UDF):\n"
        "    def get_result_buffers(self):\n"
        "        return {'x': self.buffer(kind='nav')}\n"
        "    def process_frame(self, frame):\n"
        "        self.results.x[:] = frame.sum()\n"
    )
    script = (
        "import framefold as ff, numpy as np\n"
        "ff.install_as_libertem()\n"
        "from published import Published\n"
        "with ff.Context.make_with('processes', cpus=1) as ctx:\n"
        "    dataset = ctx.load('memory', data=np.ones((4, 5, 6)))\n"
        "    assert ctx.run_udf(dataset=dataset, udf=Published())['x'].data.sum() == 120\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr


class Growing(UDF):
    """Partial results whose size nothing tells beforehand."""

    def get_result_buffers(self):
        return {"much": self.buffer(kind="single", dtype=object)}

    def process_partition(self, partition):
        self.results.much[0] = np.ones((self.meta.slice.origin[0] + 1) << 18, np.uint8)

    def merge(self, dest, src):
        dest.much[0] = int(src.much[0].sum())


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_memory_of_partial_results_is_bounded_though_they_grow():
    with ff.Context.make_with("processes", cpus=1) as ctx:
        mapped = []
        for _ in ctx.run_udf_iter(frames(ctx, 40, 40), Growing()):
            with open("/proc/self/maps") as maps:
                places = [line.split()[0].split("-") for line in maps if "memfd:framefold" in line]
            mapped.append(sum(int(end, 16) - int(start, 16) for start, end in places))
        # One that is merged, those that may be made ahead, and the space of one that is smaller.
        assert max(mapped) <= 5 * (40 << 18)


def test_workers_are_set_up(inline, tmp_path):
    seen = tmp_path / "seen"
    seen.mkdir()

    def set_up():
        os.environ["FRAMEFOLD_TEST_SET_UP"] = "done"
        (seen / str(os.getpid())).touch()

    def look(_frame):
        assert os.environ["FRAMEFOLD_TEST_SET_UP"] == "done"

    executor = PipelinedExecutor(PipelinedExecutor.make_spec(2), early_setup=set_up)
    with ff.Context(executor=executor) as ctx:
        pids = ctx.run_udf(frames(ctx), PerFrame(look))["pid"].data
        ctx.run_udf(frames(ctx), PerFrame(look))
        assert {str(pid) for pid in pids} <= {path.name for path in seen.iterdir()}
        assert len(list(seen.iterdir())) == len(executor.worker_ids)
    assert "FRAMEFOLD_TEST_SET_UP" not in os.environ


def test_workers_that_cannot_be_set_up():
    def fail():
        raise OSError("no licence")

    with ff.Context(executor=PipelinedExecutor(early_setup=fail)) as ctx:
        for _ in range(2):
            with pytest.raises(OSError, match="no licence") as caught:
                ctx.run_udf(frames(ctx), PerFrame(len_of_nothing))
        assert "raised by early_setup in a worker process" in caught.value.__notes__[0]
    with pytest.raises(InvalidArgumentError, match="expected a function"):
        PipelinedExecutor(early_setup="import numba")
    lock = threading.Lock()
    with pytest.raises(InvalidArgumentError, match="early_setup cannot be sent"):
        PipelinedExecutor(early_setup=lambda: lock.acquire())


def len_of_nothing(_frame):
    return 0
