"""Python UDFs of every method and native reductions in one pass over one real file, with a ROI."""

import numpy as np
import pytest
from real_files import real_file
from shared_contexts import shared

import framefold as ff
from framefold.udf import UDF

SCAN = (
    "MIB/rosettasciio/Merlin_navigation4x2_signalNx256_ROI/"
    "003_merlin_test_roi_sig256x64_nav4x2_hot_pixel_52x_39y.hdr"
)


class Peak(UDF):
    """Position and value of the brightest pixel."""

    calls = "frame"

    def get_result_buffers(self):
        return {
            "position": self.buffer(kind="nav", extra_shape=(2,), dtype=int),
            "value": self.buffer(kind="nav"),
        }

    def process_frame(self, frame):
        position = np.unravel_index(np.argmax(frame), frame.shape)
        self.results.position[:] = position
        self.results.value[:] = frame[position]


class Histogram(UDF):
    """How often each count occurs."""

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"occurrences": self.buffer(kind="single", extra_shape=(16,), dtype="int64")}

    def process_tile(self, tile):
        self.results.occurrences[:] += np.bincount(tile.reshape(-1).astype(int), minlength=16)

    def merge(self, dest, src):
        dest.occurrences[:] += src.occurrences


class Ranked(UDF):
    """The rank of each frame's sum within its partition, and the partition's size."""

    def get_result_buffers(self):
        return {"rank": self.buffer(kind="nav", dtype=int), "size": self.buffer(kind="nav")}

    def process_partition(self, partition):
        sums = partition.sum(axis=(1, 2))
        self.results.rank[:] = np.argsort(np.argsort(sums, kind="stable"), kind="stable")
        self.results.size[:] = len(partition)


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
def test_all_methods_in_one_pass(ctx, backend):
    dataset = ctx.open(real_file(SCAN), io_backend=backend, num_partitions=3)
    assert tuple(dataset.shape) == (2, 4, 64, 256)
    roi = np.ones((2, 4), dtype=bool)
    roi[0, 1] = roi[1, 3] = False

    udfs = [Peak(), Histogram(), Ranked(), ff.SumUDF(), ff.CoMUDF(), ff.PickUDF()]
    peak, histogram, ranked, total, com, picked = ctx.run_udf(dataset, udfs, roi=roi)

    frames = picked["intensity"].raw_data
    assert frames.shape == (6, 64, 256)
    assert frames.dtype == np.uint16
    everything = ctx.run_udf(dataset, ff.PickUDF())["intensity"].raw_data
    assert np.array_equal(frames, everything.reshape(2, 4, 64, 256)[roi])

    flat = frames.reshape(6, -1)
    assert np.array_equal(peak["value"].raw_data, flat.max(axis=1))
    y, x = peak["position"].raw_data.T
    assert np.array_equal(y * 256 + x, flat.argmax(axis=1))
    assert np.array_equal(
        histogram["occurrences"].data, np.bincount(flat.reshape(-1), minlength=16)
    )
    assert np.array_equal(ranked["size"].raw_data, [2] * 6)
    assert sorted(ranked["rank"].raw_data) == [0, 0, 0, 1, 1, 1]
    assert np.array_equal(total["intensity"].data, frames.sum(axis=0))
    weights = np.arange(64)[:, None]
    expected = (frames * weights).sum(axis=(1, 2)) / frames.sum(axis=(1, 2))
    np.testing.assert_allclose(com["raw_com"].raw_data[:, 0], expected, rtol=1e-6)
    assert np.array_equal(com["raw_com"].valid_mask[..., 0], roi)
    assert np.isnan(com["raw_com"].data[~roi]).all()

    plan = ctx.explain(dataset, udfs, roi=roi)
    for line in [
        "Peak: by frame",
        "Histogram: by tile",
        "Ranked: by partition",
        "SumUDF: by tile, dense, uint16, as it is",
        "uint16 → float32",
        "6 frames",
        "3 of 2 frames",
    ]:
        assert line in plan


class Largest(ff.UDF):
    def get_preferred_input_dtype(self):
        return self.params.prefers

    def get_result_buffers(self):
        dtypes = {"largest": self.meta.input_dtype, "gets": "U16"}
        return {name: self.buffer("single", dtype=dtype) for name, dtype in dtypes.items()}

    def process_tile(self, tile):
        self.results.largest[:] = np.maximum(self.results.largest, tile.max())
        self.results.gets[:] = tile.dtype.name

    def merge(self, dest, src):
        dest.largest[:] = np.maximum(dest.largest, src.largest)
        dest.gets[:] = src.gets


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_functions_get_the_dtype_that_they_get_alone(executor):
    frames = np.full((2, 3, 4, 5), 2**53 + 1)
    prefers = (ff.UDF.USE_NATIVE_DTYPE, "float32", "complex64", "int64")
    with shared(executor, cpus=2) as ctx:
        dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=2)
        beside = ctx.run_udf(dataset, [Largest(prefers=each) for each in prefers])
        alone = [ctx.run_udf(dataset, Largest(prefers=each)) for each in prefers]
    for some, same in zip(beside, alone, strict=True):
        assert some["largest"].data.dtype == same["largest"].data.dtype
        assert some["largest"].data == same["largest"].data
        assert some["gets"].data == same["gets"].data == some["largest"].data.dtype.name
    assert [each["largest"].data[0] for each in beside] == [2**53 + 1, 2.0**53, 2.0**53, 2**53 + 1]
