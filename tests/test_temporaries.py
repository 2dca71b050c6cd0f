"""What tiles functions of the user get, and what becomes of memory that they throw away."""

import platform
import subprocess
import sys

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.udf import UDF


class Tiles(UDF):
    """Records the shape and the dtype of tiles."""

    def get_preferred_input_dtype(self):
        return self.params.dtype or self.USE_NATIVE_DTYPE

    def get_tiling_preferences(self):
        return super().get_tiling_preferences() | (self.params.wishes or {})

    def get_result_buffers(self):
        return {"shapes": self.buffer(kind="nav", extra_shape=(3,), dtype="int64")}

    def process_tile(self, tile):
        self.results.shapes[:] = tile.shape


@pytest.mark.parametrize(
    ("dtype", "wishes", "tile"),
    [
        (None, None, (32, 256, 256)),
        ("uint16", None, (32, 256, 256)),
        (None, {"total_size": UDF.TILE_SIZE_BEST_FIT}, (32, 64, 256)),
        # It is converted, so it should stay in the cache.
        ("float32", None, (32, 32, 256)),
    ],
)
def test_tiles_are_large_where_nothing_is_done_to_them(tmp_path, dtype, wishes, tile):
    np.zeros((64, 256, 256), "uint16").tofile(tmp_path / "frames.raw")
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load(
        "raw",
        tmp_path / "frames.raw",
        dtype="uint16",
        nav_shape=(64,),
        sig_shape=(256, 256),
        num_partitions=1,
    )
    shapes = ctx.run_udf(dataset, Tiles(dtype=dtype, wishes=wishes))["shapes"].data
    assert {tuple(each) for each in shapes.tolist()} == {tile}


@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_tiles_do_not_depend_on_where_an_array_lies(executor):
    if executor == "dask":
        pytest.importorskip("distributed")
    memory = bytearray(64 * 256 * 256 * 2 + 1)
    data = np.frombuffer(memory, "<u2", offset=1).reshape(64, 256, 256)
    assert not data.flags.aligned
    results = []
    for name, cpus in (("inline", None), (executor, 1)):
        with shared(name, cpus=cpus) as ctx:
            dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=2)
            results.append(ctx.run_udf(dataset, Tiles(dtype=None, wishes=None))["shapes"].data)
    assert np.array_equal(*results)


FAULTS = """
import resource
import numpy as np
import framefold as ff
from framefold.udf import UDF

class Temporaries(UDF):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav", dtype="float64")}
    def process_frame(self, frame):
        # 2 MiB each.
        self.results.x[:] = np.sqrt((frame.astype("float64") + 1) * 2 - 3)[0, 0]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

ctx = ff.Context.make_with("inline")
dataset = ctx.load("memory", data=np.zeros((64, 512, 512), "uint8"))
ctx.run_udf(dataset, Temporaries())
before = faults()
ctx.run_udf(dataset, Temporaries())
print((faults() - before) / 64)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="there is no glibc, which is shapes")
def test_temporary_arrays_do_not_fault_in_their_memory_for_each_frame():
    command = [sys.executable, "-c", FAULTS]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    faults = float(ended.stdout)
    # One temporary array alone has 512 pages.
    assert faults < 100
