"""Booleans in memory that are other bytes than 0 and 1, as NumPy may have them."""

from __future__ import annotations

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.udf import UDF


class Levels(UDF):
    """The sum of each frame."""

    def get_result_buffers(self):
        return {"level": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.level[:] = frame.sum()


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_any_byte_but_0_is_true_in_a_roi(data, tmp_path, executor):
    good = np.random.default_rng(3).random((6, 7)) > 0.4
    values = np.where(good, np.random.default_rng(4).integers(2, 256, (6, 7)), 0)
    roi = values.astype(np.uint8).view(bool)
    sums = data.sum(axis=(2, 3), dtype=np.float64)
    with shared(executor, cpus=2) as ctx:
        dataset = ctx.load("memory", data=data, num_partitions=3)
        udfs = [Levels(), ff.SumSigUDF(), ff.PickUDF()]
        levels, of_native, picked = ctx.run_udf(dataset, udfs, roi=roi)
        ctx.export_dataset(dataset, tmp_path / "part.npy", roi=roi)
    np.testing.assert_array_equal(levels["level"].raw_data, sums[good])
    np.testing.assert_array_equal(of_native["intensity"].raw_data, sums[good])
    np.testing.assert_array_equal(np.isnan(of_native["intensity"].data), ~good)
    np.testing.assert_array_equal(picked["intensity"].data, data[good])
    np.testing.assert_array_equal(np.load(tmp_path / "part.npy"), data[good])


@pytest.mark.parametrize("order", ["C", "F"])
def test_any_byte_but_0_is_true_in_frames(ctx, tmp_path, order):
    class Bytes(UDF):
        def get_preferred_input_dtype(self):
            return bool

        def get_result_buffers(self):
            return {"bytes": self.buffer(kind="nav", extra_shape=(4, 5), dtype="uint8")}

        def process_frame(self, frame):
            self.results.bytes[:] = frame.view(np.uint8)

    values = np.random.default_rng(5).integers(0, 3, (2, 3, 4, 5), dtype=np.uint8) * 100
    dataset = ctx.load("memory", data=np.asarray(values, order=order).view(bool))
    np.testing.assert_array_equal(ctx.run_udf(dataset, Bytes())["bytes"].data, values > 0)
    ctx.export_dataset(dataset, tmp_path / "frames.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "frames.npy").view(np.uint8), values > 0)
