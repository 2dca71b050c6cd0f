"""Results that ``get_results`` gives for the whole scan stay, whatever the ROI."""

from __future__ import annotations

import numpy as np
import pytest

import framefold as ff
from framefold.udf import UDF

SCAN = np.arange(20.0).reshape(4, 5)
ROI = SCAN % 3 == 1


class Computes(UDF):
    """Returns ``value``, in the given dtype."""

    def __init__(self, value, dtype="float32", valid=None):
        super().__init__(value=value, dtype=dtype, valid=valid)

    def get_result_buffers(self):
        extra = self.params.value.shape[2:]
        return {"x": self.buffer("nav", extra_shape=extra, dtype=self.params.dtype)}

    def process_frame(self, frame):
        self.results.x[:] = -1

    def get_results(self):
        value = self.params.value
        return {
            "x": value if self.params.valid is None else self.with_mask(value, self.params.valid)
        }


@pytest.fixture(params=["inline", "threads", "delayed"])
def run(request):
    with ff.Context.make_with(request.param) as ctx:
        frames = np.ones((4, 5, 3, 3), np.float32)
        dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=3)
        yield lambda udf, roi=ROI: ctx.run_udf(dataset, udf, roi=roi)["x"]


@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64"])
@pytest.mark.parametrize("extra", [(), (2,)])
def test_what_is_outside_of_the_roi_stays(run, dtype, extra):
    value = np.broadcast_to(SCAN.reshape(4, 5, *(1 for _ in extra)), (4, 5, *extra)).astype(dtype)
    result = run(Computes(value, dtype))
    if hasattr(result, "delayed_data"):
        np.testing.assert_array_equal(result.delayed_data.compute(), value)
    np.testing.assert_array_equal(result.data, value)
    np.testing.assert_array_equal(result.raw_data, value[ROI])
    inside = np.broadcast_to(ROI.reshape(4, 5, *(1 for _ in extra)), value.shape)
    np.testing.assert_array_equal(result.valid_mask, inside)
    np.testing.assert_array_equal(result.masked_data.mask, ~inside)
    result.replace_array(2 * result.raw_data)
    np.testing.assert_array_equal(result.data[ROI], 2 * value[ROI])


def test_with_a_mask_of_the_whole_scan(run):
    result = run(Computes(SCAN, valid=SCAN > 9))
    np.testing.assert_array_equal(result.data, SCAN)
    np.testing.assert_array_equal(result.valid_mask, ROI & (SCAN > 9))


def test_values_that_the_dtype_cannot_hold_are_looked_for_among_the_results(run):
    result = run(Computes(np.where(ROI, SCAN, 1e30), "float16"))
    np.testing.assert_array_equal(result.data[ROI], SCAN[ROI])


def test_positions_that_are_not_merged_yet_hold_no_number():
    with ff.Context.make_with("inline") as ctx:
        frames = np.ones((4, 5, 3, 3), np.float32)
        dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=3)
        steps = ctx.run_udf_iter(dataset, Computes(SCAN), roi=ROI)
        part = next(steps)
        merged = part.damage.data
        np.testing.assert_array_equal(np.isnan(part[0]["x"].data), ROI & ~merged)
