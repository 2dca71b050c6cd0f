"""Sizes that a few bytes claim: an error in words, never the end of the process."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from contextlib import suppress

import numpy as np
import pytest

import framefold as ff

if sys.platform != "linux":
    pytest.skip("memory cannot be limited here", allow_module_level=True)

SCRIPT = """
import resource, sys
import numpy as np
import framefold as ff
from framefold.udf import UDF

resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

class Frames(UDF):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}
    def process_frame(self, frame):
        pass

class Extra(Frames):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav", extra_shape=(10**12,))}

ctx = ff.Context.make_with("inline")
def run(case):
    udf = Frames()
    if case == "partitions":
        data = np.broadcast_to(np.float32(1), (10**9, 1, 1))
        dataset, udf = ctx.load("memory", data=data, num_partitions=10**9), ff.SumUDF()
    elif case == "memory":
        dataset = ctx.load("memory", data=np.broadcast_to(np.float32(1), (4, 10**6, 10**6)))
    elif case == "extra":
        dataset, udf = ctx.load("memory", data=np.ones((4, 4, 4))), Extra()
    elif case == "compressed":
        dataset = ctx.load("hdf5", "compressed.h5", ds_path="x", sig_dims=2)
    else:
        dataset = ctx.load("zarr", case, sig_dims=2)
    ctx.run_udf(dataset, udf)

for case in sys.argv[1:]:
    try:
        run(case)
    except ff.exceptions.LimitError as error:
        print(f"{case}: {error}")
"""

#: What files of arrays claim: shapes of the data, and of chunks.
CLAIMS = {
    "large frames": ([4, 10**6, 10**6], [1, 100, 100]),
    "large chunks": ([4, 10**6, 10**6], [1, 10**6, 10**6]),
    "compressed": ([4, 10**6, 10**6], [1, 100, 100]),
    "many frames": ([10**12, 10, 10], [1, 10, 10]),
}
CASES = [*CLAIMS, "partitions", "memory", "extra"]


def said_by(script, *arguments, folder=None):
    """The lines that a script prints, which ends well and does not complain."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """What one process says of all of them, by case."""
    folder = tmp_path_factory.mktemp("claims")
    for case, (shape, chunks) in CLAIMS.items():
        about = {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<u2", "order": "C"}
        about |= {"compressor": None, "fill_value": 0, "filters": None}
        (folder / case).mkdir()
        (folder / case / ".zarray").write_text(json.dumps(about))
    cases = [case for case in CASES if case != "compressed"]
    with suppress(ImportError):
        import h5py

        shape, chunks = CLAIMS["compressed"]
        with h5py.File(folder / "compressed.h5", "w") as file:
            how = {"dtype": "u2", "chunks": tuple(chunks), "compression": "gzip"}
            file.create_dataset("x", shape, **how)[0, :2, :2] = 1
        cases.append("compressed")
    return dict(line.split(": ", 1) for line in said_by(SCRIPT, *cases, folder=folder))


@pytest.mark.parametrize("case", CASES)
def test_claims_are_refused(refused, case):
    if case == "compressed":
        pytest.importorskip("h5py", reason="h5py writes the file")
    assert refused[case]


STAGES = """
import resource, sys
import numpy as np
import framefold as ff

class Frames(ff.UDF):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}
    def process_frame(self, frame):
        pass

resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
ctx = ff.Context.make_with("inline")
dataset = ctx.load("memory", data=np.broadcast_to(np.float32(1), (4, 10**6, 10**6)))
for stage in sys.argv[1:]:
    try:
        ctx.run_udf(dataset.pipe(eval(stage)), Frames())
    except ff.exceptions.LimitError as error:
        print(f"{stage}: {error}")
"""


def test_stages_take_no_memory_for_whole_frames():
    stages = [
        "ff.Bin(2)",
        "ff.Pad(5)",
        "ff.Threshold(1)",
        "ff.Cast('float64')",
        "ff.Log()",
        "ff.Gaussian(1)",
        "ff.Median()",
        "ff.Median((1, 5))",
        "ff.Rotate(90)",
    ]
    said = said_by(STAGES, *stages)
    assert [line.partition(":")[0] for line in said] == stages, said


KERNELS = """
import resource, sys
import numpy as np
import framefold as ff

N = 10**7  # of which arrays are too large for what the allocator keeps of freed ones
data = np.broadcast_to(np.float32(1), (1, N // 4000, 4000))
ctx = ff.Context.make_with("inline")
dataset = ctx.load("memory", data=data)
ctx.run_udf(ctx.load("memory", data=np.ones((4, 8, 8), np.float32)), ff.SumUDF())
# More than what is reported takes, less than what it is computed in.
for udf, bytes_per_pixel in [
    (ff.SumUDF(), 6), (ff.MaxUDF(), 6), (ff.LogsumUDF(), 6), (ff.StdDevUDF(), 50)
]:
    used = 4096 * int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (used + bytes_per_pixel * N, resource.RLIM_INFINITY))
    try:
        ctx.run_udf(dataset, udf)
    except ff.exceptions.LimitError as error:
        print(error)
"""


def test_sums_that_there_is_no_memory_for_are_refused():
    lines = said_by(KERNELS)
    assert ["there is no memory" in line for line in lines] == [True] * 4, lines


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m.radial_bins(4, 4, 8, 8, n_bins=2**70),
        lambda m: m.radial_bins(4, 4, 8, 8, n_bins=10**12),
        lambda m: m.circular(4, 4, 10**6, 10**7, 3),
        lambda m: m.circular(4, 4, 10**6, 10**7, 3, antialiased=True),
        lambda m: m.polar_map(4, 4, 10**6, 10**7),
        lambda m: m.rectangular(4, 4, 2, 2, 10**7, 10**7),
        lambda m: m.gradient_x(10**6, 10**7),
        lambda m: m.gradient_y(10**6, 10**7),
    ],
)
def test_masks_that_there_is_no_memory_for_are_refused(ask):
    from framefold import masks
    from framefold.exceptions import LimitError

    with pytest.raises(LimitError, match="there is no memory"):
        ask(masks)


def test_rings_that_there_is_no_memory_for_are_refused():
    context = ff.Context.make_with("inline")
    dataset = context.load("memory", data=np.ones((2, 2, 8, 8), np.float32))
    with pytest.raises(ff.exceptions.LimitError, match="there is no memory"):
        context.run(context.create_radial_fourier_analysis(dataset, n_bins=2**70))


def test_results_over_a_scan_that_there_is_no_memory_for_are_refused():
    from framefold.common.buffers import BufferWrapper
    from framefold.common.shape import Shape

    raw = np.zeros(2, np.float32)
    shape = Shape((10**7, 10**7, 1, 1), sig_dims=2)
    valid = np.array([True, False])
    roi = np.zeros(4, bool)
    roi[:2] = True
    result = BufferWrapper("nav", raw=raw, dataset_shape=shape, roi=roi, valid=valid)
    with pytest.raises(ff.exceptions.LimitError, match="there is no memory"):
        _ = result.data


@pytest.mark.parametrize("roi", [(3, 4), [(1, 2)], np.s_[2:3, 1], [((1, 2), False)]])
def test_rois_of_scans_that_there_is_no_memory_for_are_refused(roi):
    context = ff.Context.make_with("inline")
    frames = np.broadcast_to(np.float32(1), (2**22, 2**22, 1, 1))
    dataset = context.load("memory", data=frames)
    with pytest.raises(ff.exceptions.LimitError, match=r"there is no memory.* dataset\[index\]"):
        context.run_udf(dataset, ff.SumUDF(), roi=roi)
    assert dataset[3, 4] == [[1]]


FEW_BYTES = """
import sys
import framefold as ff

ctx = ff.Context.make_with(sys.argv[2], cpus=1)
dataset = ctx.open(sys.argv[1])
try:
    ctx.run_udf(dataset, [ff.SumUDF(), ff.SumSigUDF()])
except ff.exceptions.BadFileError as error:
    print(error)
# In kibibytes. `getrusage` counts what the process had before it became this program, too.
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of memory is another one")
@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_what_few_bytes_cannot_become_takes_no_memory(tmp_path, executor):
    h5py = pytest.importorskip("h5py", reason="h5py writes the file")
    shape, path = (2, 16384, 16384), tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        how = {"dtype": "u2", "chunks": (1, *shape[1:]), "compression": "gzip"}
        data = file.create_dataset("x", shape, **how)
        for frame in range(2):
            data.id.write_direct_chunk((frame, 0, 0), zlib.compress(b"0" * 1000))
    said, peak = said_by(FEW_BYTES, str(path), executor)
    assert "cannot become the 536870912 that the chunk's shape needs" in said
    # Frames of 512 MiB, sums of 1 GiB.
    assert int(peak) < 300 << 10
