"""A disk that is full, and memory that runs out: one clear error, and nothing is left of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from process_cases import hard_limit  # noqa: F401 - a fixture
from sample_udfs import Level
from shared_contexts import shared

from framefold.exceptions import LimitError
from framefold.udf import UDF

if sys.platform != "linux":
    pytest.skip("limits are set in ways of Linux", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("hard_limit")

EXECUTORS = ["inline", "threads", "processes", "auto"]

FULL = """
    import os, sys
    import numpy as np
    import framefold as ff
    from framefold.exceptions import FramefoldError
    from framefold.udf.record import RecordUDF

    class Level(ff.UDF):
        def get_result_buffers(self):
            return {"level": self.buffer(kind="nav")}

        def process_frame(self, frame):
            self.results.level[:] = 5

    class Same(ff.UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav", extra_shape=(32, 32))}

        def process_frame(self, frame):
            self.results.x[:] = frame

    executor, disk = sys.argv[1:]
    rng = np.random.default_rng(1)
    with ff.Context.make_with(executor, cpus=2) as ctx:
        data = rng.random((400, 32, 32)).astype(np.float32)  # 1.6 MB, for a disk of 1 MB
        dataset = ctx.load("memory", data=data, num_partitions=8)
        for name, write in {
            "RecordUDF": lambda path: ctx.run_udf(dataset, RecordUDF(path)),
            "export": lambda path: ctx.export_dataset(dataset, path=path),
            "zarr": lambda path: ctx.export_dataset(dataset, path.replace(".npy", ".zarr")),
            "hdf5": lambda path: ctx.export_dataset(dataset, path.replace(".npy", ".h5")),
            "out": lambda path: ctx.run_udf(dataset, Same(), out=path),
            "zarr-out": lambda path: ctx.run_udf(
                dataset, Same(), out=path.replace(".npy", ".zarr")
            ),
            "convert": lambda path: ctx.convert(dataset, path.replace(".npy", ".toml")),
        }.items():
            try:
                write(os.path.join(disk, "new.npy"))
            except (FramefoldError, OSError) as error:
                print(name, type(error).__name__, error)
            else:
                print(name, "was written")
            print(name, "left", os.listdir(disk))
        np.save(os.path.join(disk, "old.npy"), np.arange(5))
        try:
            ctx.export_dataset(dataset, path=os.path.join(disk, "old.npy"), overwrite=True)
        except FramefoldError as error:
            print("overwriting", error)
        assert np.load(os.path.join(disk, "old.npy")).tolist() == [0, 1, 2, 3, 4]
        assert set(ctx.run_udf(dataset, Level())["level"].data.tolist()) == {5.0}
    print("usable")
"""


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_full_disk(tmp_path, executor):
    if shutil.which("unshare") is None:
        pytest.skip("there is no command to mount a small disk with")
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=1m tmpfs '{disk}'"
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    can = subprocess.run([*isolated, mount], capture_output=True, check=False, timeout=20)
    if can.returncode:
        pytest.skip(f"no small disk can be mounted here: {can.stderr.decode()}")
    (tmp_path / "script.py").write_text(textwrap.dedent(FULL))
    run = f"{mount} && exec '{sys.executable}' '{tmp_path}/script.py' {executor} '{disk}'"
    done = subprocess.run([*isolated, run], capture_output=True, text=True, check=False, timeout=80)
    assert done.returncode == 0, (done.stdout, done.stderr)
    lines = done.stdout.splitlines()
    assert lines[-1] == "usable"
    for name in ("RecordUDF", "export", "zarr", "hdf5", "out", "zarr-out", "convert"):
        said = [line for line in lines if line.startswith(f"{name} ")]
        assert "No space left on device" in said[0], lines
        assert "disk/" in said[0]
        assert said[1] == f"{name} left []", lines
    assert any(line.startswith("overwriting") and "No space" in line for line in lines)


def test_standard_output_that_is_full(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 2, 4, 4)))
    command = [sys.executable, "-m", "framefold", "run", "sumsig", "a.npy", "-o", "-"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 5
    assert "'standard output': could not write the result: No space left" in done.stderr
    assert "; free space on that disk" in done.stderr


@pytest.mark.parametrize("ending", [".npy", ".npz", ".h5", ".tif", ".csv"])
def test_a_command_says_once_that_there_is_no_space(tmp_path, ending):
    np.save(tmp_path / "a.npy", np.random.default_rng(1).random((40, 16, 16)))
    limited = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
        "runpy.run_module('framefold', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited, "run", "pick", "a.npy", "-o", f"b{ending}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("framefold: ")
    assert "File too large" in done.stderr
    assert "; check the space on the disk" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


class Large(UDF):
    def __init__(self, kind, n):
        super().__init__(kind=kind, n=n)

    def get_result_buffers(self):
        return {"x": self.buffer(kind=self.params.kind, extra_shape=(self.params.n,))}

    def process_frame(self, frame):
        raise AssertionError("no frame is read for results that do not fit")

    def merge(self, dest, src):
        dest.x[:] = src.x


@pytest.mark.parametrize("executor", EXECUTORS)
def test_results_too_large_for_any_memory(executor):
    with shared(executor, cpus=2) as ctx:
        data = np.zeros((40, 4, 4), dtype=np.float32)
        dataset = ctx.load("memory", data=data, num_partitions=20)
        for kind in ("nav", "single", "sig"):
            for n in (1 << 44, 1 << 60):
                with pytest.raises(
                    LimitError, match=r"the results would take [\d.]+ TiB, more than .*'x' of Large"
                ):
                    ctx.run_udf(dataset, Large(kind, n))
        assert ctx.run_udf(dataset, Level(offset=5))["level"].data.tolist() == [5] * 40


SHORT_OF_MEMORY = """
    import resource, sys
    import numpy as np
    import framefold as ff

    class Large(ff.UDF):
        # Fits once; a partial result, or the merged one, does not fit besides.
        def __init__(self, n):
            super().__init__(n=n)

        def get_result_buffers(self):
            return {"x": self.buffer(kind="single", extra_shape=(self.params.n,), dtype="uint8")}

        def process_frame(self, frame):
            self.results.x[:] = 1

        def merge(self, dest, src):
            dest.x[:] |= src.x

    with ff.Context.make_with(sys.argv[1], cpus=2) as ctx:
        data = np.zeros((40, 4, 4), dtype=np.float32)
        dataset = ctx.load("memory", data=data, num_partitions=20)
        ctx.run_udf(dataset, Large(10))
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        limit = used + (3 << 26)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            ctx.run_udf(dataset, Large(1 << 27))
        except MemoryError as error:
            print("MemoryError:", error)
        assert ctx.run_udf(dataset, Large(10))["x"].data.tolist() == [1] * 10
    print("usable")
"""


@pytest.mark.parametrize("executor", EXECUTORS)
def test_memory_that_runs_out(tmp_path, executor):
    (tmp_path / "script.py").write_text(textwrap.dedent(SHORT_OF_MEMORY))
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py", executor],
        capture_output=True,
        text=True,
        check=False,
        timeout=80,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    lines = done.stdout.splitlines()
    assert lines[-1] == "usable"
    assert lines[0].startswith("MemoryError:"), lines
