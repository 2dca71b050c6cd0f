"""Real CUDA devices and CuPy; skipped, in words, where there are none.

What can be shown without a device is in ``test_cuda_logic.py``.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest
from cuda_masks import dense_masks, products, sparse_masks
from sparse_files import counts, write_raw_csr

import framefold as ff
from framefold.common.backend import get_use_cuda
from framefold.exceptions import LimitError
from framefold.udf import UDF
from framefold.udf.masks import ApplyMasksUDF
from framefold.utils.devices import cuda_ids, cupy_installed, why_no_device

if not cuda_ids():
    pytest.skip(f"no CUDA device: {why_no_device()}", allow_module_level=True)
if not cupy_installed():
    pytest.skip("CuPy is not installed", allow_module_level=True)

import cupy

NAV, SIG = (9, 10), (64, 48)
DENSE, SPARSE = UDF.BACKEND_CUPY, tuple(sorted(UDF.CUPY_BACKENDS - {UDF.BACKEND_CUPY}))


@pytest.fixture
def data():
    return counts((*NAV, *SIG), "uint16", density=0.1)


class SumSigUDF(UDF):
    """The specification's example of a function for all array formats."""

    def get_backends(self):
        return self.BACKEND_ALL

    def get_result_buffers(self):
        dtype = np.result_type(self.meta.input_dtype, np.float32)
        return {
            "intensity": self.buffer(kind="nav", dtype=dtype, where="device"),
            "ran": self.buffer(kind="nav", dtype=object),
        }

    def process_tile(self, tile):
        self.results.intensity[:] += self.forbuf(
            np.sum(tile.reshape((tile.shape[0], -1)), axis=1), self.results.intensity
        )
        self.results.ran[:] = f"{self.meta.array_backend} {self.meta.device_class}"


class Masks(UDF):
    """Products with masks, which are on the device once per partition."""

    def get_backends(self):
        return (self.BACKEND_NUMPY, self.BACKEND_CUPY)

    def get_task_data(self):
        masks = self.xp.asarray(self.params.masks.reshape(len(self.params.masks), -1).T)
        return {"masks": masks}

    def get_tiling_preferences(self):
        return {"depth": 8, "total_size": self.params.tile_bytes}

    def get_result_buffers(self):
        n_masks = len(self.params.masks)
        return {"products": self.buffer("nav", (n_masks,), where="device")}

    def process_tile(self, tile):
        part = self.meta.sig_slice.get(sig_only=True)
        masks = self.task_data.masks.reshape((*SIG, -1))[part].reshape(tile[0].size, -1)
        self.results.products[:] += tile.reshape((tile.shape[0], -1)) @ masks


class Spectrum(UDF):
    """The sum of all power spectra, of many frames at a time."""

    def get_backends(self):
        return (self.BACKEND_CUPY,)

    def get_result_buffers(self):
        return {"power": self.buffer("sig", dtype="float64", where="device")}

    def process_frame(self, frame):
        assert isinstance(frame, cupy.ndarray)
        self.results.power[:] += self.xp.abs(self.xp.fft.fft2(frame)) ** 2

    def merge(self, dest, src):
        dest.power[:] += src.power


@pytest.mark.parametrize("native", ["dense", "sparse"])
@pytest.mark.parametrize("format_", [DENSE, *SPARSE])
def test_the_sparse_example(ctx, data, tmp_path, format_, native):
    if native == "dense":
        dataset = ctx.load("memory", data=data, num_partitions=4)
    else:
        path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
        dataset = ctx.load("raw_csr", path, num_partitions=4)
    result = ctx.run_udf(dataset=dataset, udf=SumSigUDF(), backends=format_)
    np.testing.assert_array_equal(result["intensity"].data, data.sum(axis=(2, 3)))
    assert set(result["ran"].raw_data) == {f"{format_} cuda"}


@pytest.mark.parametrize("tile_bytes", [2000, 40_000, float("inf")])
def test_mask_products(ctx, data, tile_bytes):
    masks = np.random.default_rng(2).random((64, *SIG)).astype(np.float32)
    dataset = ctx.load("memory", data=data, num_partitions=3)
    udf = Masks(masks=masks, tile_bytes=tile_bytes)
    result = ctx.run_udf(dataset=dataset, udf=udf, backends="cupy")
    expected = np.tensordot(data.astype(float), masks.astype(float), ([2, 3], [1, 2]))
    np.testing.assert_allclose(result["products"].data, expected, rtol=1e-4)


@pytest.mark.parametrize("native", ["dense", "sparse"])
@pytest.mark.parametrize("format_", [DENSE, *SPARSE])
@pytest.mark.parametrize("make", [dense_masks, sparse_masks])
@pytest.mark.parametrize("dtype", ["float32", "int16", "complex64"])
def test_built_in_masks(ctx, data, tmp_path, native, format_, make, dtype):
    masks = make(5, SIG, dtype)
    if native == "dense":
        dataset = ctx.load("memory", data=data, num_partitions=4)
    else:
        path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
        dataset = ctx.load("raw_csr", path, num_partitions=4)
    udf = ApplyMasksUDF(lambda: masks, backends=(format_,))
    result = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data
    np.testing.assert_allclose(result, products(data, masks), rtol=1e-4)


def test_built_in_masks_that_are_shifted(ctx, data):
    masks = dense_masks(3, SIG)
    dataset = ctx.load("memory", data=data, num_partitions=4)
    udf = ApplyMasksUDF(lambda: masks, backends=(DENSE,), shifts=(2, -3))
    result = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data
    np.testing.assert_allclose(result, products(data, masks, (2, -3)), rtol=1e-4)


def test_spectrum(ctx, data):
    dataset = ctx.load("memory", data=data, num_partitions=3)
    result = ctx.run_udf(dataset=dataset, udf=Spectrum())
    expected = (np.abs(np.fft.fft2(data)) ** 2).sum(axis=(0, 1))
    np.testing.assert_allclose(result["power"].data, expected, rtol=1e-4)


def test_cpu_and_devices_together(data):
    masks = np.random.default_rng(2).random((3, *SIG)).astype(np.float32)
    ctx = ff.Context.make_with("threads", cpus=2, gpus=1)
    dataset = ctx.load("memory", data=data, num_partitions=30)
    udf = Masks(masks=masks, tile_bytes=20_000)
    result = ctx.run_udf(dataset=dataset, udf=udf)
    expected = np.tensordot(data.astype(float), masks.astype(float), ([2, 3], [1, 2]))
    np.testing.assert_allclose(result["products"].data, expected, rtol=1e-4)


def test_kept_frames_stay_as_they_are(ctx, data):
    kept = {}

    class Keeps(Spectrum):
        def process_frame(self, frame):
            kept[self.meta.slice.get()[0].start] = frame

    dataset = ctx.load("memory", data=data, num_partitions=3)
    ctx.run_udf(dataset=dataset, udf=Keeps(kept=kept))
    flat = data.reshape(-1, *SIG)
    assert len(kept) == len(flat)
    for index, frame in kept.items():
        np.testing.assert_array_equal(frame.get(), flat[index])


def test_plain_cuda_knows_its_device(ctx, data):
    class Own(UDF):
        def get_backends(self):
            return (self.BACKEND_CUDA,)

        def get_result_buffers(self):
            return {"sum": self.buffer("nav")}

        def process_frame(self, frame):
            assert type(frame) is np.ndarray
            with cupy.cuda.Device(get_use_cuda()):
                self.results.sum[:] = float(cupy.asarray(frame).sum())

    dataset = ctx.load("memory", data=data, num_partitions=3)
    result = ctx.run_udf(dataset=dataset, udf=Own())
    np.testing.assert_array_equal(result["sum"].data, data.sum(axis=(2, 3)))


def test_worker_processes(data):
    with ff.Context.make_with("processes", cpus=1, gpus=[0, 0]) as context:
        dataset = context.load("memory", data=data, num_partitions=6)
        alone = context.run_udf(dataset=dataset, udf=Spectrum())["power"].data
        expected = (np.abs(np.fft.fft2(data)) ** 2).sum(axis=(0, 1))
        np.testing.assert_allclose(alone, expected, rtol=1e-4)
        mixed = context.run_udf(dataset=dataset, udf=SumSigUDF(), backends=("numpy", "cupy"))
        np.testing.assert_array_equal(mixed["intensity"].data, data.sum(axis=(2, 3)))
        assert set(mixed["ran"].raw_data) <= {"numpy cpu", "cupy cuda"}


def test_dask_workers(data):
    pytest.importorskip("distributed")
    with ff.Context.make_with("dask", cpus=1, gpus=1) as context:
        dataset = context.load("memory", data=data, num_partitions=6)
        alone = context.run_udf(dataset=dataset, udf=Spectrum())["power"].data
        expected = (np.abs(np.fft.fft2(data)) ** 2).sum(axis=(0, 1))
        np.testing.assert_allclose(alone, expected, rtol=1e-4)


def test_memory_is_given_back(ctx, data):
    dataset = ctx.load("memory", data=data, num_partitions=3)
    pool = cupy.get_default_memory_pool()
    for _ in range(2):
        ctx.run_udf(dataset=dataset, udf=Spectrum())
        gc.collect()
        assert pool.used_bytes() == 0
        assert cupy.get_default_pinned_memory_pool().n_free_blocks() == 0


def test_memory_that_runs_out(ctx, data):
    class Greedy(Spectrum):
        def process_frame(self, frame):
            cupy.empty(1 << 50, dtype=np.uint8)

    dataset = ctx.load("memory", data=data, num_partitions=3)
    with pytest.raises(LimitError, match="memory of CUDA device 0 ran out"):
        ctx.run_udf(dataset=dataset, udf=Greedy())
    test_spectrum(ctx, data)
