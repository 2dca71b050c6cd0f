"""Narrow pixels become floats on devices, four at a time where they lie so."""

from __future__ import annotations

import numpy as np
import pytest

import framefold as ff
from framefold.arrays.cuda import pixels
from framefold.udf import UDF

FLOAT = np.dtype(np.float32)


def all_values(dtype):
    """Frames with every number that pixels of that dtype can be."""
    limits = np.iinfo(dtype)
    values = np.arange(limits.min, limits.max + 1).astype(dtype)
    return np.random.default_rng(3).permutation(np.resize(values, (64, 32, 48)).ravel())


@pytest.fixture
def n_kernels(device, monkeypatch):
    """How many kernels were launched that take four pixels at a time."""
    launched, made = [], pixels._kernel

    def kernel(cupy, dtype):
        def launch(fours):
            launched.append(dtype)
            return made(cupy, dtype)(fours)

        return launch

    monkeypatch.setattr(pixels, "_kernel", kernel)
    return lambda: len(launched)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_all_values_are_exact(device, n_kernels, dtype):
    data = all_values(dtype).reshape((64, 32, 48))
    there = device.cupy.asarray(data)
    made = pixels.as_dtype(there, FLOAT)
    assert made.dtype == FLOAT
    assert made.shape == data.shape
    np.testing.assert_array_equal(made.get(), data.astype(np.float32))
    np.testing.assert_array_equal(pixels.as_dtype(there[5:9], FLOAT).get(), data[5:9])
    assert n_kernels() == 2


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((3, 5, 7), "uint16"),
        ((3, 5, 6), "uint8"),
        ((2, 4, 8), "uint32"),
        ((2, 4, 8), "bool"),
        ((2, 4, 8), "float64"),
    ],
)
def test_others_become_floats_one_by_one(device, n_kernels, shape, dtype):
    data = np.random.default_rng(4).integers(0, 2, shape).astype(dtype)
    made = pixels.as_dtype(device.cupy.asarray(data), FLOAT)
    np.testing.assert_array_equal(made.get(), data.astype(np.float32))
    assert n_kernels() == 0


def test_parts_that_lie_apart_or_begin_between_four_pixels(device, n_kernels):
    data = all_values("uint16").reshape((64, 32, 48))
    there = device.cupy.asarray(data)
    np.testing.assert_array_equal(pixels.as_dtype(there[:, :, :8], FLOAT).get(), data[:, :, :8])
    assert n_kernels() == 0
    if device.is_real:  # the stand-in's parts of arrays do not know where they begin
        flat = there.ravel()[3:-1]
        np.testing.assert_array_equal(pixels.as_dtype(flat, FLOAT).get(), data.ravel()[3:-1])
        assert n_kernels() == 0


def test_other_dtypes_and_the_same_one(device, n_kernels):
    data = all_values("uint16").reshape((64, 32, 48))
    there = device.cupy.asarray(data)
    assert pixels.as_dtype(there, there.dtype) is there
    made = pixels.as_dtype(there, np.dtype(np.float64))
    np.testing.assert_array_equal(made.get(), data.astype(np.float64))
    assert n_kernels() == 0


class Sums(UDF):
    """Adds frames in single precision, and notes that it may write to them."""

    def get_backends(self):
        return (self.BACKEND_CUPY,)

    def get_preferred_input_dtype(self):
        return np.float32

    def get_result_buffers(self):
        return {"each": self.buffer("nav", dtype="float32", where="device")}

    def process_frames(self, frames):
        frames[:, 0, 0] = 0
        self.results.each[:] = frames.sum(axis=(1, 2))


@pytest.mark.parametrize("dtype", ["int8", "uint16"])
@pytest.mark.parametrize("resident", [False, True])
def test_functions_get_them(device, n_kernels, dtype, resident):
    data = all_values(dtype)[: 6 * 7 * 8 * 12].reshape((6, 7, 8, 12))
    data[...] %= 100
    expected = data.astype(np.float64).sum(axis=(2, 3)) - data[:, :, 0, 0]
    roi = np.random.default_rng(5).random((6, 7)) < 0.5
    with ff.Context.make_with("threads", cpus=0, gpus=[0]) as ctx:
        dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=3)
        if resident:
            dataset = dataset.to_device()
        for _ in range(2):
            result = ctx.run_udf(dataset, Sums())
            np.testing.assert_array_equal(result["each"].data, expected)
        result = ctx.run_udf(dataset, Sums(), roi=roi)
        np.testing.assert_array_equal(result["each"].raw_data, expected[roi])
        if resident:
            dataset.close()
    assert n_kernels() > 0
    device.check_released()
