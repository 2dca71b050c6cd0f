"""Worker processes give the results of one thread, bit for bit, and nothing is left of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest
from executor_cases import load
from process_cases import (
    PerFrame,
    eventually,
    frames,
    hard_limit,  # noqa: F401 - a fixture
)
from sample_udfs import Level

import framefold as ff
from framefold.common._roi import packed_roi, roi_mask
from framefold.exceptions import InvalidArgumentError, LimitError
from framefold.executor.pipelined import PipelinedExecutor
from framefold.executor.processes import ProcessJobExecutor
from framefold.udf import UDF

pytestmark = pytest.mark.usefixtures("hard_limit")


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


def test_native_runs_use_threads(inline, tmp_path):
    dataset = load("memory", "uint16", inline, tmp_path)
    with ff.Context.make_with("processes", cpus=2) as ctx:
        ctx.run_udf(dataset=dataset, udf=[ff.SumUDF(), ff.StdDevUDF()])
        assert ctx.executor.worker_ids == []
        assert "threads: all UDFs run on native kernels" in ctx.explain(dataset, ff.SumUDF())
        assert "up to 2 worker processes" in ctx.explain(dataset, [ff.SumUDF(), Level()])


def meet(folder, own, other, _frame):
    (folder / own).touch()
    deadline = time.monotonic() + 20
    while not (folder / other).exists():
        assert time.monotonic() < deadline, f"{other} does not run beside {own}"
        time.sleep(0.01)


def test_a_run_gets_workers_of_its_own_while_another_one_is_busy_with_its_last_partition(tmp_path):
    with ff.Context.make_with("processes", cpus=2) as ctx:
        data = np.zeros((1, 1, 4, 4), np.uint8)
        dataset = ctx.load("memory", data=data, num_partitions=1)
        one = threading.Thread(
            target=ctx.run_udf, args=(dataset, PerFrame(partial(meet, tmp_path, "one", "two")))
        )
        one.start()
        assert eventually((tmp_path / "one").exists)
        ctx.run_udf(dataset, PerFrame(partial(meet, tmp_path, "two", "one")))
        one.join()


def test_names_of_the_reference():
    spec = PipelinedExecutor.make_spec(cpus=[0, 3], cudas=[])
    assert [worker["name"] for worker in spec] == ["cpu-0", "cpu-3"]
    assert PipelinedExecutor(spec).n_workers == 2
    assert PipelinedExecutor.make_local().n_workers == ProcessJobExecutor().n_workers
    # What goes through the contract as "processes".
    made = [ff.Context.make_with(name, cpus=3).executor for name in ("processes", "pipelined")]
    assert type(made[0]) is type(made[1]) is ProcessJobExecutor
    options = [
        {name: value for name, value in vars(executor).items() if not hasattr(value, "acquire")}
        for executor in made
    ]
    assert options[0] == options[1]
    assert made[1].n_workers == 3
    spec = PipelinedExecutor.make_spec(cpus=1, cudas=[2, 2], has_cupy=True)
    assert [worker["name"] for worker in spec] == ["cuda-2", "cuda-2-1", "cpu-0"]
    assert [worker["has_cupy"] for worker in spec] == [True, True, False]
    executor = PipelinedExecutor(spec)
    assert (executor.gpus, executor.n_workers, executor.gpus_only) == ((2, 2), 1, False)
    assert PipelinedExecutor(spec[:2]).gpus_only
    with pytest.raises(InvalidArgumentError, match="cudas is -1"):
        PipelinedExecutor.make_spec(cpus=1, cudas=-1)
    assert len(PipelinedExecutor.make_spec(cpus=np.int64(2))) == 2
    assert ProcessJobExecutor(np.int64(2), gpus=np.arange(2)).gpus == (0, 1)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_workers": 0}, "n_workers is 0"),
        ({"n_workers": 2.5}, "n_workers=2.5 is not a whole number"),
        ({"gpus": [0, 1.5]}, "gpus is"),
        ({"timeout": 0}, "timeout is 0"),
        ({"startup_timeout": -1.0}, "startup_timeout is -1"),
        ({"startup_timeout": None, "timeout": 30}, "startup_timeout is None, expected a number"),
    ],
)
def test_options(options, match):
    with pytest.raises(InvalidArgumentError, match=match):
        ProcessJobExecutor(**options)


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


def test_interpreters_that_do_not_look_at_the_environment():
    script = (
        # Python passes over what is no text.
        f"import sys; sys.path[:] = {[*sys.path, None, b'folder']!r}\n"
        "import framefold as ff, numpy as np\n"
        "with ff.Context.make_with('processes', cpus=1) as ctx:\n"
        "    dataset = ctx.load('memory', data=np.ones((4, 5, 6)))\n"
        "    assert ctx.map(dataset=dataset, f=np.sum).data.sum() == 120\n"
    )
    # Nor at the packages that are installed.
    command = [sys.executable, "-I", "-S", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
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


class Whole(UDF):
    """Takes each partition as a whole, in double precision."""

    def get_preferred_input_dtype(self):
        return np.float64

    def get_result_buffers(self):
        return {"sum": self.buffer("nav", dtype="float64")}

    def process_partition(self, partition):
        self.results.sum[:] = partition.sum(axis=(1, 2))


def test_no_more_workers_are_started_than_there_is_memory_for_their_tiles(tmp_path):
    about = {"zarr_format": 2, "shape": [4, 10**6, 10**6], "chunks": [1, 100, 100], "order": "C"}
    about |= {"dtype": "<u2", "compressor": None, "fill_value": 0, "filters": None}
    (tmp_path / ".zarray").write_text(json.dumps(about))
    with ff.Context.make_with("processes", cpus=2) as ctx:
        dataset = ctx.load("zarr", tmp_path, sig_dims=2)
        with pytest.raises(LimitError, match="memory"):
            ctx.run_udf(dataset, Whole())
        assert len(ctx.executor.worker_ids) == 1
        # Those that fit are started.
        ctx.run_udf(frames(ctx), Whole())
        assert len(ctx.executor.worker_ids) == 2


class OwnMemory(UDF):
    """The bytes that the process has for itself."""

    def get_result_buffers(self):
        return {
            "bytes": self.buffer("nav", dtype="float64"),
            "n": self.buffer("nav", dtype="int64"),
        }

    def process_frame(self, frame):
        self.results.n[:] = np.count_nonzero(self.meta.roi)
        with open("/proc/self/status") as status:
            (line,) = (line for line in status if line.startswith("RssAnon:"))
        self.results.bytes[:] = int(line.split()[1]) << 10


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_positions_that_are_not_selected_take_no_memory_of_workers(executor, tmp_path):
    if executor == "dask":
        pytest.importorskip("distributed", reason="distributed is not installed")
    path = tmp_path / "scan.raw"
    with path.open("wb") as file:
        file.truncate(1 << 26)
    with ff.Context.make_with(executor, cpus=1) as ctx:
        taken = []
        for nav in ((4, 4), (1 << 13, 1 << 13)):
            n_frames = nav[0] * nav[1]
            frame = {"sig_shape": ((1 << 26) // n_frames,), "dtype": "uint8"}
            ds = ctx.load("raw", path, nav_shape=nav, **frame)
            result = ctx.run_udf(ds, OwnMemory(), roi=[(1, 2), (3, 1)])
            assert result["n"].raw_data.tolist() == [2, 2]
            taken.append(result["bytes"].raw_data.max())
    # Once for the mask of the large scan would be 64 MiB.
    assert taken[1] - taken[0] < 16 << 20


@pytest.mark.parametrize("n_selected", [0, 1, 3, 100, 945])
def test_masks_arrive_as_they_were_sent(n_selected):
    mask = np.zeros(945, bool)
    mask[np.random.default_rng(n_selected).permutation(945)[:n_selected]] = True
    mask = mask.reshape(35, 27)
    sent = packed_roi(mask)
    assert (sent.positions is None) == (n_selected > 14)
    found = roi_mask(sent, (35, 27))
    assert found.dtype == bool
    assert np.array_equal(found, mask)
    assert not found.flags.writeable


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
        assert eventually(lambda: len(list(seen.iterdir())) == len(executor.worker_ids))
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
