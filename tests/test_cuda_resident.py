"""Frames that stay in the memory of a CUDA device."""

from __future__ import annotations

import copy
import os
import pickle

import fake_cupy
import numpy as np
import pytest
from cuda_masks import CUPYX
from cuda_udfs import CUPY, NAV, SIG, Frames, Partitions, Tiles, check, ran
from sparse_files import write_raw_csr
from test_cuda_reductions import (
    DTYPES,
    NO_COMPLEX,
    ROI,
    UDFS,
    by_the_kernel,
    check_same,
    frames_for,
    frames_of,
    is_exact,
)

import framefold as ff
from framefold.arrays.cuda import placement
from framefold.exceptions import (
    InvalidArgumentError,
    UnsupportedError,
)
from framefold.udf import UDF


@pytest.fixture(autouse=True)
def several_partitions(monkeypatch):
    """As in runs over more frames than these."""
    monkeypatch.setattr(placement, "RESIDENT_PARTITIONS", 3)
    monkeypatch.setattr(placement, "RESIDENT_PARTITION_BYTES", 1)
    monkeypatch.setattr(placement, "REDUCED_PARTITION_BYTES", 1)


@pytest.fixture
def data():
    return frames_of("uint16")


@pytest.fixture
def dataset(ctx, data):
    return ctx.load("memory", data=data, num_partitions=3)


def n_sent(machine):
    return sum(kind == "copy" for kind, _ in machine.log)


# --- What runs get ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UDFS)
def test_reductions(ctx, device, name):
    for dtype in DTYPES:
        data = frames_for(name, dtype)
        if data.dtype.kind == "c" and name in NO_COMPLEX:
            continue
        dataset = ctx.load("memory", data=data, num_partitions=3)
        with dataset.to_device() as resident:
            for of_roi in (False, True):
                found = ctx.run_udf(resident, UDFS[name](), roi=ROI if of_roi else None)
                expected = by_the_kernel(name, dtype, of_roi=of_roi)
                check_same(found, expected, is_exact(name, data.dtype))
            explained = ctx.explain(resident, UDFS[name]())
            assert ", cupy, " in explained
            assert "30 frames on CUDA device 0" in explained
        del resident
    device.check_released()


class SumOfSquares(UDF):
    """Takes both kinds of arrays, in the dtype of the data."""

    def get_backends(self):
        return (self.BACKEND_NUMPY, self.BACKEND_CUPY)

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {
            "each": self.buffer("nav", dtype="complex128", where="device"),
            "ran": self.buffer("nav", dtype=object),
        }

    def process_frame(self, frame):
        frame = frame.astype(np.complex128)
        self.results.each[:] = (frame * frame).sum()
        self.results.ran[:] = f"{self.meta.array_backend} {self.meta.input_dtype}"


@pytest.mark.parametrize("dtype", ["bool", "uint16", "int64", "float16", "float32", "complex64"])
def test_functions(ctx, device, dtype):
    data = frames_of(dtype)
    dataset = ctx.load("memory", data=data, num_partitions=3)
    resident = dataset.to_device()
    assert (resident.shape, resident.dtype, type(resident)) == (
        dataset.shape,
        dataset.dtype,
        type(dataset),
    )
    expected = (data.astype(complex) ** 2).sum(axis=(2, 3))
    for _ in range(2):
        result = ctx.run_udf(resident, SumOfSquares())
        np.testing.assert_allclose(result["each"].data, expected, rtol=1e-6)
        assert ran(result) == {f"cupy {dtype}"}
        result = ctx.run_udf(resident, SumOfSquares(), roi=ROI)
        np.testing.assert_allclose(result["each"].raw_data, expected[ROI], rtol=1e-6)
    np.testing.assert_array_equal(resident[1, 2:4], data[1, 2:4])


@pytest.mark.parametrize("method", [Tiles, Frames, Partitions])
@pytest.mark.parametrize("format_", [CUPY, *CUPYX])
def test_formats_and_methods(ctx, machine, dataset, data, format_, method):
    resident = dataset.to_device()
    before = n_sent(machine)
    udfs = [method((format_,)), method((CUPY,), tile_bytes=90)]
    for roi in (None, ROI, np.s_[1:3]):
        result = ctx.run_udf(resident, udfs, roi=roi)
        expected = data[np.s_[:, :] if roi is None else roi].reshape(-1, *SIG)
        for each in result:
            np.testing.assert_array_equal(each["each"].raw_data, expected.sum(axis=(1, 2)))
            np.testing.assert_array_equal(each["total"].data, expected.sum(axis=0))
        assert ran(result[0]) == {f"{format_} 0 cuda"}
    assert n_sent(machine) == before


def test_parts_of_frames(ctx, machine, dataset, data):
    """Tiles that are narrower than frames lie in memory with gaps."""

    class Rows(Tiles):
        def process_tile(self, tile):
            assert tile.flags.c_contiguous
            assert tile.shape[1:] != SIG
            super().process_tile(tile)

    check(ctx.run_udf(dataset.to_device(), Rows(tile_bytes=80)), data)
    plain = ctx.load("memory", data=data, num_partitions=3, tileshape=(2, 3, 5))
    check(ctx.run_udf(plain.to_device(), Rows(tile_bytes=None)), data)


class Zeroes(UDF):
    """Writes into what it gets, which it must not."""

    def __init__(self, method, dtype):
        super().__init__(method=method, dtype=dtype)
        setattr(self, f"process_{method}", self.clear)

    def clear(self, array):
        array[...] = 0
        self.results.seen[:] += 1

    def get_method(self):
        return self.params.method

    def get_backends(self):
        return (self.BACKEND_CUPY,)

    def get_preferred_input_dtype(self):
        return self.params.dtype

    def get_tiling_preferences(self):
        return {"depth": 3, "total_size": 2000}

    def get_result_buffers(self):
        return {"seen": self.buffer("nav", dtype=int, where="device")}


class ZeroesMasks(ff.ApplyMasksUDF):
    def process_tile(self, tile):
        super().process_tile(tile)
        tile[...] = 0


@pytest.mark.parametrize("method", ["tile", "frame", "frames", "partition"])
@pytest.mark.parametrize("dtype", [UDF.USE_NATIVE_DTYPE, "float64"])
def test_functions_that_write_do_not_change_what_stays(ctx, device, dataset, data, method, dtype):
    resident = dataset.to_device()
    masks = ZeroesMasks(lambda: np.ones((1, *SIG)), backends=("cupy",))
    for roi in (None, np.s_[1:3], ROI):
        ctx.run_udf(resident, [Zeroes(method, dtype), masks], roi=roi)
        found = ctx.run_udf(resident, ff.PickUDF())["intensity"].data
        np.testing.assert_array_equal(found.reshape(data.shape), data)
    both = ctx.run_udf(resident, [Zeroes(method, dtype), ff.SumUDF()])
    np.testing.assert_array_equal(both[1]["intensity"].data, data.sum(axis=(0, 1)))


def test_functions_get_copies_of_their_own(ctx, machine, dataset):
    seen = []

    class Sees(Tiles):
        def process_tile(self, tile):
            seen.append((self.meta.slice.get()[0].start, tile.data.ptr, id(tile.data.mem)))
            self.params.keep.append(tile)  # so that no other one gets its memory

    resident = dataset.to_device()
    ctx.run_udf(resident, [Sees(keep=[]), Sees(keep=[])])
    assert len(set(seen)) == len(seen)
    frames = resident.resident.array.data.mem
    assert id(frames) not in {memory for *_, memory in seen}


def test_step_by_step_and_with_changed_parameters(ctx, machine, dataset, data):
    resident = dataset.to_device()
    steps = list(ctx.run_udf_iter(resident, [Tiles(), ff.SumSigUDF()]))
    assert len(steps) == 3
    check(steps[-1].buffers[0], data)
    np.testing.assert_array_equal(steps[-1].buffers[1]["intensity"].data, data.sum(axis=(2, 3)))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_positions_without_frames(ctx, device, data):
    dataset = ctx.load("memory", data=data, num_partitions=3, sync_offset=-4)
    resident = dataset.to_device()
    for roi in (None, ROI):
        for name in ("sum", "sum of each frame", "frames"):
            found = ctx.run_udf(resident, UDFS[name](), roi=roi)
            check_same(found, ctx.run_udf(dataset, UDFS[name](), roi=roi), exact=True)


def test_partitions_are_few_and_tiles_deep(machine, monkeypatch):
    monkeypatch.setattr(placement, "TILE_BYTES", 32 << 20)
    ctx = ff.Context.make_with("threads")
    data = np.zeros((40, 100, 64, 64), dtype=np.uint8)
    dataset = ctx.load("memory", data=data)
    resident = dataset.to_device()

    def partitions(udfs, roi=None):
        return ctx.explain(resident, udfs, roi).split("\n")[2].split()[1]

    for name, udf in (("RESIDENT", Tiles(tile_bytes=None)), ("REDUCED", ff.SumUDF())):
        for most, least, n in (
            (16, 4 << 20, 3),
            (16, 1 << 20, 15),
            (8, 1 << 20, 8),
            (8, 1 << 30, 1),
        ):
            monkeypatch.setattr(placement, "RESIDENT_PARTITIONS", most)
            monkeypatch.setattr(placement, f"{name}_PARTITION_BYTES", least)
            assert partitions(udf) == str(n)
    monkeypatch.setattr(placement, "REDUCED_PARTITION_BYTES", 1 << 20)
    assert partitions(ff.SumUDF(), roi=np.s_[:10]) == "3"
    assert len(list(ctx.run_udf_iter(resident, ff.SumUDF(), roi=np.s_[:10]))) == 3
    # Those that read the file, and those that get a partition as a whole.
    for udfs in ([Tiles(), Tiles(("numpy",))], [Partitions(tile_bytes=None)]):
        assert int(partitions(udfs)) > 50
    monkeypatch.setattr(placement, "RESIDENT_PARTITIONS", 1)
    shapes = []

    class Depth(Tiles):
        def process_tile(self, tile):
            shapes.append(tile.shape)

    ctx.run_udf(resident, Depth(tile_bytes=None))
    assert shapes == [(2048, 64, 64), (1952, 64, 64)]
    assert "up to 4000 frames" in ctx.explain(resident, ff.SumUDF())
    large = ctx.load("memory", data=np.zeros((1, 9, 2000, 1000), dtype=np.uint8)).to_device()
    assert "up to 4 frames × [2000, 1000]" in ctx.explain(large, Frames(tile_bytes=None))
    ctx.run_udf(large, Depth(tile_bytes=None))
    assert sum(np.prod(shape) for shape in shapes[2:]) == 9 * 2000 * 1000


# --- What is resident ---------------------------------------------------------------------------


@pytest.mark.parametrize("roi", [ROI, np.s_[2:4], [(0, 0)]])
def test_of_a_region(ctx, device, dataset, data, roi):
    resident = dataset.to_device(roi=roi)
    mask = resident.resident.roi
    assert mask.shape == NAV
    n = np.count_nonzero(mask)
    assert resident.resident.n_bytes == n * data[0, 0].nbytes
    assert resident.shape == dataset.shape
    assert f"{n} of 30 frames on CUDA device 0" in repr(resident)
    part = mask & (np.random.default_rng(2).random(NAV) < 0.7)
    part[tuple(np.argwhere(mask)[-1])] = True
    for chosen in (mask, part):
        found = ctx.run_udf(resident, [ff.PickUDF(), SumOfSquares()], roi=chosen)
        frames = found[0]["intensity"].raw_data
        np.testing.assert_array_equal(frames.reshape(-1, *SIG), data[chosen])
        squares = (data[chosen].astype(float) ** 2).sum(axis=(1, 2))
        np.testing.assert_allclose(found[1]["each"].raw_data, squares)
    more = mask.copy()
    more[4, 5] = True
    n_more = np.count_nonzero(more)
    for chosen, missing in ((None, f"{30 - n} of the 30"), (more, f"1 of the {n_more}")):
        if missing.startswith("1 of") and n_more == n:
            continue
        match = rf"{missing} frames .*dataset\.resident\.roi"
        with pytest.raises(InvalidArgumentError, match=match):
            ctx.run_udf(resident, ff.SumUDF(), roi=chosen)
        # From the file, everything is there.
        everything = ctx.run_udf(resident, ff.SumUDF(), roi=chosen, backends="numpy")
        expected = data.sum(axis=(0, 1)) if chosen is None else data[chosen].sum(axis=0)
        np.testing.assert_array_equal(everything["intensity"].data, expected)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_of_no_frame(ctx, device, dataset):
    resident = dataset.to_device(roi=np.zeros(NAV, bool))
    result = ctx.run_udf(resident, ff.SumUDF(), roi=np.zeros(NAV, bool))
    assert not result["intensity"].data.any()


class Doubled(ff.Transform):
    def process_frame(self, frame, out):
        out[:] = frame * 2


def test_of_what_stages_make(ctx, device, dataset, data):
    piped = dataset.pipe(ff.Crop(np.s_[1:7, 1:9]), ff.Bin(2), Doubled())
    expected = 2 * data[..., 1:7, 1:9].astype(int).reshape(*NAV, 3, 2, 4, 2).sum(axis=(3, 5))
    resident = piped.to_device()
    assert resident.stages == piped.stages
    assert resident.resident.n_bytes == piped.shape.size * piped.dtype.itemsize
    for _ in range(2):
        found = ctx.run_udf(resident, [ff.SumUDF(), SumOfSquares()])
        np.testing.assert_array_equal(found[0]["intensity"].data, expected.sum(axis=(0, 1)))
        np.testing.assert_allclose(found[1]["each"].data, (expected**2.0).sum(axis=(2, 3)))
    np.testing.assert_array_equal(resident[3, 4], expected[3, 4])


def test_what_changes_frames_comes_before(ctx, machine, dataset, data):
    resident = dataset.to_device()
    named = resident.calibrate(scan_step="2nm", names=("t", "s", "v", "u"))
    assert named.resident is resident.resident
    result = ctx.run_udf(named, ff.SumUDF())["intensity"]
    np.testing.assert_array_equal(result.data, data.sum(axis=(0, 1)))
    assert [axis.name for axis in result.axes] == ["v", "u"]
    for change in (lambda: resident.pipe(ff.Bin(2)), lambda: resident.orient(flip="y")):
        with pytest.raises(UnsupportedError, match=r"on CUDA device 0 as they are.*to_device\(\)"):
            change()
    named.close()
    with pytest.raises(InvalidArgumentError, match=r"given back by close\(\)"):
        ctx.run_udf(resident, ff.SumUDF())


def test_sparse_data_are_refused(ctx, machine, data, tmp_path):
    path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
    with pytest.raises(UnsupportedError, match=r"its frames are sparse.*export_dataset"):
        ctx.load("raw_csr", path).to_device()
    assert machine.log == []


def test_a_file_that_is_replaced(ctx, machine, data, tmp_path):
    path = tmp_path / "scan.npy"
    np.save(path, data)
    resident = ctx.load("npy", path, sig_dims=2, num_partitions=3).to_device()
    np.save(tmp_path / "other.npy", data[::-1] + 1)
    os.replace(tmp_path / "other.npy", path)
    check(ctx.run_udf(resident, Tiles()), data)
    with pytest.raises(ff.exceptions.FileChangedError):
        ctx.run_udf(resident, ff.SumUDF(), backends="numpy")
    with pytest.raises(ff.exceptions.FileChangedError):
        ctx.run_udf(resident, [Tiles(), Tiles(("numpy",))])


# --- What does not use it -----------------------------------------------------------------------


def test_functions_for_the_cpu_read_the_file(ctx, machine, dataset, data):
    resident = dataset.to_device()
    del machine.log[:]
    plain = ctx.run_udf(resident, Tiles(("numpy",)))
    check(plain, data)
    assert ran(plain) == {"numpy None cpu"}
    either = ctx.run_udf(resident, [Tiles(("numpy", CUPY)), ff.SumUDF()], backends="numpy")
    assert ran(either[0]) == {"numpy None cpu"}
    np.testing.assert_array_equal(either[1]["intensity"].data, data.sum(axis=(0, 1)))
    shifted = ctx.run_udf(resident, ff.CoMUDF(shifts=(0.5, 1)))
    check_same(shifted, ctx.run_udf(dataset, ff.CoMUDF(shifts=(0.5, 1))), exact=True)
    assert machine.log == []
    both = ctx.run_udf(resident, [Tiles(("numpy",)), Tiles(("numpy", CUPY))])
    assert [ran(each) for each in both] == [{"numpy 0 cuda"}, {"cupy 0 cuda"}]
    for each in both:
        check(each, data)
    assert n_sent(machine) == 0
    resident.close()
    check(ctx.run_udf(resident, Tiles(("numpy",))), data)


def test_restrictions(ctx, machine, dataset, data):
    resident = dataset.to_device()
    before = n_sent(machine)
    udfs = [Tiles(("numpy", CUPY, *CUPYX)), ff.SumUDF()]
    for backends, expected in [
        (None, CUPY),
        (("numpy", "cupy"), CUPY),
        ("cupy", CUPY),
        (CUPYX[1], CUPYX[1]),
    ]:
        result, total = ctx.run_udf(resident, udfs, backends=backends)
        check(result, data)
        assert ran(result) == {f"{expected} 0 cuda"}
        np.testing.assert_array_equal(total["intensity"].data, data.sum(axis=(0, 1)))
    assert n_sent(machine) == before


def test_which_devices_runs_may_use(monkeypatch, data):
    fake_cupy.install(monkeypatch, n_devices=2)
    ctx = ff.Context.make_with("threads", cpus=2)
    dataset = ctx.load("memory", data=data, num_partitions=3)
    resident = dataset.to_device(1)
    assert resident.resident.device == 1
    result = ctx.run_udf(resident, [Tiles(("numpy", CUPY)), ff.SumUDF()])
    check(result[0], data)
    assert ran(result[0]) == {"cupy 1 cuda"}
    without = ff.Context.make_with("threads", cpus=2, gpus=0)
    assert ran(without.run_udf(resident, Tiles(("numpy", CUPY)))) == {"numpy None cpu"}
    with pytest.raises(UnsupportedError, match="made with gpus=0"):
        without.run_udf(resident, Tiles())
    other = ff.Context.make_with("inline", gpus=[0])
    with pytest.raises(InvalidArgumentError, match=r"on CUDA device 1, and this run may use 0"):
        other.run_udf(resident, ff.SumUDF())
    monkeypatch.setenv("FRAMEFOLD_USE_CUDA", "1")
    assert dataset.to_device().resident.device == 1


def test_executors_with_other_processes(monkeypatch, tmp_path, data):
    fake_cupy.install_for_processes(monkeypatch, tmp_path)
    with ff.Context.make_with("processes", cpus=1, gpus=1) as ctx:
        resident = ctx.load("memory", data=data, num_partitions=3).to_device()
        with pytest.raises(UnsupportedError, match=r"other processes do not see.*'threads'"):
            ctx.run_udf(resident, Tiles())
        check(ctx.run_udf(resident, Tiles(("numpy",))), data)
    with ff.Context() as auto:
        assert ran(auto.run_udf(resident, Tiles(("numpy", CUPY)))) == {"cupy 0 cuda"}
    pytest.importorskip("dask.array", reason="dask is not installed")
    delayed = ff.Context.make_with("delayed")
    assert ran(delayed.run_udf(resident, Tiles(("numpy", CUPY)))) == {"numpy None cpu"}


def test_copies_and_pickles_hold_no_frames(ctx, machine, dataset, data):
    resident = dataset.to_device()
    for other in (pickle.loads(pickle.dumps(resident)), copy.copy(resident)):
        assert other.resident is None
        np.testing.assert_array_equal(other[2, 2], data[2, 2])


def test_nothing_is_read_of_frames_that_are_resident(ctx, machine, data, tmp_path):
    """The file is emptied while it is open: whatever is read of it is an error."""
    path = tmp_path / "frames.raw"
    data.tofile(path)
    dataset = ctx.load("raw", path, dtype=data.dtype, nav_shape=NAV, sig_shape=SIG)
    with dataset.to_device() as resident:
        with open(path, "r+b") as file:
            file.truncate(0)
        for roi in (None, np.random.default_rng(2).random(NAV) < 0.5):
            frames = data.reshape((-1, *SIG)) if roi is None else data[roi]
            udfs = [Tiles(), ff.SumUDF(), ff.SumSigUDF()]
            own, total, each = ctx.run_udf(resident, udfs, roi=roi)
            np.testing.assert_array_equal(own["each"].raw_data, frames.sum(axis=(1, 2)))
            np.testing.assert_array_equal(total["intensity"].data, frames.sum(axis=0))
            np.testing.assert_array_equal(each["intensity"].raw_data, frames.sum(axis=(1, 2)))
