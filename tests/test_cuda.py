"""What scripts do with CUDA devices: on a real one, and on the stand-in for CuPy as far as it goes.

How the stand-in is driven is in ``test_cuda_logic.py`` and its neighbours.
"""

from __future__ import annotations

import numpy as np
import pytest
from sparse_files import counts, write_raw_csr

import framefold as ff
from framefold.common.backend import get_use_cuda
from framefold.exceptions import LimitError
from framefold.udf import UDF

NAV, SIG = (9, 10), (64, 48)
DENSE, SPARSE = UDF.BACKEND_CUPY, tuple(sorted(UDF.CUPY_BACKENDS - {UDF.BACKEND_CUPY}))


#: What the stand-in cannot compute, or has in a test of its own.
REAL = pytest.mark.parametrize("device", ["real"], indirect=True)


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
        assert type(frame).__module__.partition(".")[0] == "cupy"
        self.results.power[:] += self.xp.abs(self.xp.fft.fft2(frame)) ** 2

    def merge(self, dest, src):
        dest.power[:] += src.power


@pytest.mark.parametrize("native", ["dense", "sparse"])
@pytest.mark.parametrize("format_", [DENSE, *SPARSE])
def test_the_sparse_example(ctx, device, data, tmp_path, format_, native):
    if native == "dense":
        dataset = ctx.load("memory", data=data, num_partitions=4)
    else:
        path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
        dataset = ctx.load("raw_csr", path, num_partitions=4)
    result = ctx.run_udf(dataset=dataset, udf=SumSigUDF(), backends=format_)
    np.testing.assert_array_equal(result["intensity"].data, data.sum(axis=(2, 3)))
    assert set(result["ran"].raw_data) == {f"{format_} cuda"}


@REAL
@pytest.mark.parametrize("tile_bytes", [2000, 40_000, float("inf")])
def test_mask_products(ctx, device, data, tile_bytes):
    masks = np.random.default_rng(2).random((64, *SIG)).astype(np.float32)
    dataset = ctx.load("memory", data=data, num_partitions=3)
    udf = Masks(masks=masks, tile_bytes=tile_bytes)
    result = ctx.run_udf(dataset=dataset, udf=udf, backends="cupy")
    expected = np.tensordot(data.astype(float), masks.astype(float), ([2, 3], [1, 2]))
    np.testing.assert_allclose(result["products"].data, expected, rtol=1e-4)


@REAL
def test_spectrum(ctx, device, data):
    dataset = ctx.load("memory", data=data, num_partitions=3)
    result = ctx.run_udf(dataset=dataset, udf=Spectrum())
    expected = (np.abs(np.fft.fft2(data)) ** 2).sum(axis=(0, 1))
    np.testing.assert_allclose(result["power"].data, expected, rtol=1e-4)


@REAL
def test_cpu_and_devices_together(device, data):
    masks = np.random.default_rng(2).random((3, *SIG)).astype(np.float32)
    ctx = ff.Context.make_with("threads", cpus=2, gpus=1)
    dataset = ctx.load("memory", data=data, num_partitions=30)
    udf = Masks(masks=masks, tile_bytes=20_000)
    result = ctx.run_udf(dataset=dataset, udf=udf)
    expected = np.tensordot(data.astype(float), masks.astype(float), ([2, 3], [1, 2]))
    np.testing.assert_allclose(result["products"].data, expected, rtol=1e-4)


class Keeps(UDF):
    """Keeps what it gets, and where that is from."""

    def get_backends(self):
        return (self.BACKEND_CUPY,)

    def get_result_buffers(self):
        return {}


class KeepsFrames(Keeps):
    def process_frame(self, frame):
        self.params.kept.append((self.meta.slice.get(), frame))


class KeepsTiles(Keeps):
    def get_tiling_preferences(self):
        return {"depth": 4, "total_size": 20_000}

    def process_tile(self, tile):
        self.params.kept.append((self.meta.slice.get(), tile))


@pytest.mark.parametrize("cls", [KeepsFrames, KeepsTiles])
def test_what_is_kept_stays_as_it_is(ctx, device, data, cls):
    kept = []
    dataset = ctx.load("memory", data=data, num_partitions=3)
    ctx.run_udf(dataset=dataset, udf=cls(kept=kept))
    flat = data.reshape(-1, *SIG)
    assert sum(array.size for _, array in kept) == flat.size
    assert len(kept) > 10
    for part, array in kept:
        np.testing.assert_array_equal(array.get(), flat[part].reshape(array.shape))


@REAL
def test_plain_cuda_knows_its_device(ctx, device, data):
    class Own(UDF):
        def get_backends(self):
            return (self.BACKEND_CUDA,)

        def get_result_buffers(self):
            return {"sum": self.buffer("nav")}

        def process_frame(self, frame):
            assert type(frame) is np.ndarray
            with device.cupy.cuda.Device(get_use_cuda()):
                self.results.sum[:] = float(device.cupy.asarray(frame).sum())

    dataset = ctx.load("memory", data=data, num_partitions=3)
    result = ctx.run_udf(dataset=dataset, udf=Own())
    np.testing.assert_array_equal(result["sum"].data, data.sum(axis=(2, 3)))


@REAL
def test_worker_processes(device, data):
    with ff.Context.make_with("processes", cpus=1, gpus=[0, 0]) as context:
        dataset = context.load("memory", data=data, num_partitions=6)
        alone = context.run_udf(dataset=dataset, udf=Spectrum())["power"].data
        expected = (np.abs(np.fft.fft2(data)) ** 2).sum(axis=(0, 1))
        np.testing.assert_allclose(alone, expected, rtol=1e-4)
        mixed = context.run_udf(dataset=dataset, udf=SumSigUDF(), backends=("numpy", "cupy"))
        np.testing.assert_array_equal(mixed["intensity"].data, data.sum(axis=(2, 3)))
        assert set(mixed["ran"].raw_data) <= {"numpy cpu", "cupy cuda"}


@REAL
def test_dask_workers(device, data):
    pytest.importorskip("distributed")
    with ff.Context.make_with("dask", cpus=1, gpus=1) as context:
        dataset = context.load("memory", data=data, num_partitions=6)
        alone = context.run_udf(dataset=dataset, udf=Spectrum())["power"].data
        expected = (np.abs(np.fft.fft2(data)) ** 2).sum(axis=(0, 1))
        np.testing.assert_allclose(alone, expected, rtol=1e-4)


def test_memory_is_given_back(ctx, device, data):
    dataset = ctx.load("memory", data=data, num_partitions=3)
    for _ in range(2):
        ctx.run_udf(dataset=dataset, udf=SumSigUDF(), backends="cupy")
        device.check_released()


@REAL
def test_memory_is_given_back_by_transforms(ctx, device, data):
    dataset = ctx.load("memory", data=data, num_partitions=3)
    for _ in range(2):
        ctx.run_udf(dataset=dataset, udf=Spectrum())
        device.check_released()


def test_memory_that_runs_out_in_user_code(ctx, device, data):
    class Greedy(SumSigUDF):
        def process_tile(self, tile):
            device.run_out_of_memory()

    dataset = ctx.load("memory", data=data, num_partitions=3)
    with pytest.raises(LimitError, match="memory of CUDA device 0 ran out") as failure:
        ctx.run_udf(dataset=dataset, udf=Greedy(), backends="cupy")
    assert "Greedy" in "".join(failure.value.__notes__)
    assert type(failure.value.__cause__).__name__ == "OutOfMemoryError"
    test_the_sparse_example(ctx, device, data, None, DENSE, "dense")


@REAL
def test_frames_that_stay(ctx, device):
    """64 MiB of them: as the CPU, from one run to the next, and the memory comes back."""
    frames = np.random.default_rng(4).integers(0, 4000, (8, 64, 256, 256), dtype=np.uint16)
    dataset = ctx.load("memory", data=frames, num_partitions=5)
    roi = np.random.default_rng(5).random((8, 64)) < 0.5
    masks = np.random.default_rng(6).integers(0, 5, (64, 256, 256), dtype=np.uint8)
    udfs = [ff.SumUDF(), ff.StdDevUDF(), ff.CoMUDF(r=90), ff.MaxUDF()]
    udfs += [ff.ApplyMasksUDF(lambda: masks), SumSigUDF()]
    with dataset.to_device() as resident:
        assert resident.resident.n_bytes == frames.nbytes
        for chosen in (None, roi, np.s_[2:4]):
            found = ctx.run_udf(dataset=resident, udf=udfs, roi=chosen)
            expected = ctx.run_udf(dataset=dataset, udf=udfs[:-1], roi=chosen)
            for number, (one, other) in enumerate(zip(found[:-1], expected, strict=True)):
                for name, buffer in other.items():
                    exact = number in (0, 3, 4)
                    rtol, atol = (0, 0) if exact else (1e-5, 1e-4)
                    ours, theirs = one[name].raw_data, buffer.raw_data
                    assert ours.dtype == theirs.dtype
                    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)
            sums = frames.sum(axis=(2, 3))[np.s_[:, :] if chosen is None else chosen].reshape(-1)
            np.testing.assert_allclose(found[-1]["intensity"].raw_data, sums, rtol=1e-5)
            assert set(found[-1]["ran"].raw_data) == {"cupy cuda"}
    device.check_released()
