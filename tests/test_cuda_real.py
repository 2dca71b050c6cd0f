"""What only a real CUDA device can show: how it breaks, and other processes that use it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import framefold as ff
from framefold.udf import UDF

pytestmark = pytest.mark.parametrize("device", ["real"], indirect=True)

NAV, SIG = (20, 30), (64, 48)


class Deviation(UDF):
    """What numbers of frames deviate from, with buffers of both kinds on the device."""

    def get_backends(self):
        return (self.BACKEND_CUPY,)

    def get_result_buffers(self):
        return {
            "mean": self.buffer("nav", dtype="float64", where="device"),
            "most": self.buffer("sig", dtype="float64", where="device"),
            "where": self.buffer("nav", dtype=object),
        }

    def process_tile(self, tile):
        self.results.mean[:] += tile.reshape((len(tile), -1)).sum(axis=1) / self.params.n_pixels
        self.results.most[:] = self.xp.maximum(self.results.most, tile.max(axis=0))
        self.results.where[:] = f"{self.meta.device_class} {self.meta.array_backend}"

    def merge(self, dest, src):
        dest.mean[:] = src.mean
        dest.where[:] = src.where
        dest.most[:] = np.maximum(dest.most, src.most)


def check(result, data):
    np.testing.assert_allclose(result["mean"].data, data.mean(axis=(2, 3)), rtol=1e-6)
    np.testing.assert_array_equal(result["most"].data, data.max(axis=(0, 1)))
    assert set(result["where"].raw_data) == {"cuda cupy"}


@pytest.fixture
def data():
    return np.random.default_rng(4).integers(0, 4000, (*NAV, *SIG), dtype=np.uint16)


def test_worker_processes_share_a_device(device, data):
    with ff.Context.make_with("processes", cpus=0, gpus=[0, 0]) as context:
        dataset = context.load("memory", data=data, num_partitions=7)
        check(context.run_udf(dataset, Deviation(n_pixels=64 * 48)), data)


def test_a_dask_worker_has_the_device(device, data):
    pytest.importorskip("distributed", reason="distributed is not installed")
    with ff.Context.make_with("dask", cpus=1, gpus=1) as context:
        dataset = context.load("memory", data=data, num_partitions=7)
        check(context.run_udf(dataset, Deviation(n_pixels=64 * 48)), data)


def test_several_workers_of_a_process_share_a_device(device, data):
    with ff.Context.make_with("threads", cpus=0, gpus=[0, 0, 0]) as context:
        dataset = context.load("memory", data=data, num_partitions=50)
        for _ in range(20):
            check(context.run_udf(dataset, Deviation(n_pixels=64 * 48)), data)


BREAKS = """
import sys
import warnings

import numpy as np

import framefold as ff
from framefold.exceptions import DeviceError
from framefold.utils.devices import detect
from framefold.warnings import LostDeviceWarning


class Sums(ff.UDF):
    def get_backends(self):
        return self.params.backends

    def get_result_buffers(self):
        return {"total": self.buffer("nav", dtype="float64", where="device"),
                "where": self.buffer("nav", dtype=object)}

    def process_tile(self, tile):
        if self.params.kernel and self.meta.slice.origin[0] > 20:
            import cupy
            cupy.RawKernel(self.params.kernel, "broken")((1,), (1,), (cupy.int64(0),))
        self.results.total[:] += tile.reshape((len(tile), -1)).sum(axis=1)
        self.results.where[:] = self.meta.device_class


kernel, executor = sys.argv[1:]
data = np.random.default_rng(4).integers(0, 4000, (20, 30, 64, 48), dtype=np.uint16)
with ff.Context.make_with(executor) as ctx:
    dataset = ctx.load("memory", data=data, num_partitions=7)
    both = ("cupy", "numpy")
    whole = ctx.run_udf(dataset, Sums(backends=("cupy",), kernel=""))
    np.testing.assert_array_equal(whole["total"].data, data.sum(axis=(2, 3)))
    try:
        ctx.run_udf(dataset, Sums(backends=("cupy",), kernel=kernel))
    except DeviceError as error:
        assert error.device == 0, error.device
        print("said:", error)
    else:
        raise AssertionError("the run did not fail")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            result = ctx.run_udf(dataset, Sums(backends=both, kernel=""))
            np.testing.assert_array_equal(result["total"].data, data.sum(axis=(2, 3)))
            assert set(result["where"].raw_data) == {"cpu"}
    lost = [each for each in caught if each.category is LostDeviceWarning]
    assert len(lost) == 1, [str(each.message) for each in caught]
    assert list(detect()["cudas"]) == []
    try:
        ctx.run_udf(dataset, Sums(backends=("cupy",), kernel=""))
    except DeviceError as error:
        print("again:", error)
    else:
        raise AssertionError("a device that is lost was used")
print("went on")
"""
WILD = 'extern "C" __global__ void broken(long long at) { *(volatile int*)(at + 8) = 3; }'
TRAP = 'extern "C" __global__ void broken(long long at) { asm("trap;"); }'


@pytest.mark.parametrize("executor", ["inline", "threads"])
@pytest.mark.parametrize("kernel", [WILD, TRAP], ids=["wild", "trap"])
def test_the_process_goes_on_with_the_cpu_when_a_kernel_breaks_the_device(
    device, tmp_path, kernel, executor
):
    """In a process of its own, as the device is lost for it."""
    script = tmp_path / "breaks.py"
    script.write_text(BREAKS)
    done = subprocess.run(
        [sys.executable, script, kernel, executor], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("went on\n")
    assert "said: CUDA device 0 failed: cuda" in done.stdout
    # At the end, CuPy complains that it cannot unload kernels; nothing else is destroyed.
    others = [line for line in done.stderr.splitlines() if "__dealloc__" in line]
    assert all("cupy.cuda.function.Module" in line for line in others), done.stderr


def test_memory_of_the_device_runs_out(device, data):
    class Large(Deviation):
        def process_tile(self, tile):
            device.run_out_of_memory()

    with ff.Context.make_with("threads", cpus=0, gpus=1) as context:
        dataset = context.load("memory", data=data, num_partitions=7)
        with pytest.raises(ff.exceptions.LimitError, match="CUDA device 0") as failure:
            context.run_udf(dataset, Large(n_pixels=64 * 48))
        del failure
        check(context.run_udf(dataset, Deviation(n_pixels=64 * 48)), data)
    device.check_released()
