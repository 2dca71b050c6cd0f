"""What crosses the link to a device, and how the engine's readers and transfers share memory."""

from __future__ import annotations

import threading

import fake_cupy
import numpy as np
import pytest
from cuda_udfs import CUPY, Partitions, Tiles, check, check_released

import framefold as ff
from framefold.arrays.cuda import placement, staging
from framefold.arrays.cuda.staging import StagedTile
from framefold.io.corrections import CorrectionSet
from framefold.udf import UDF


class Wanted(UDF):
    """Tiles in a dtype of its own."""

    def __init__(self, dtype=None, depth=3):
        super().__init__(dtype=dtype, depth=depth)

    def get_backends(self):
        return (CUPY,)

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE if self.params.dtype is None else self.params.dtype

    def get_tiling_preferences(self):
        depth = self.params.depth
        if depth is None:
            return {}
        return {"depth": depth, "total_size": depth * self.meta.dataset_shape.sig.size * 16}

    def get_result_buffers(self):
        dtype = self.meta.input_dtype
        return {"tile": self.buffer("nav", self.meta.dataset_shape.sig, dtype, where="device")}

    def process_tile(self, tile):
        assert tile.dtype == self.meta.input_dtype
        sig = tuple(
            slice(o, o + n) for o, n in zip(self.meta.sig_slice.origin, tile.shape[1:], strict=True)
        )
        self.results.tile[(slice(None), *sig)] = tile


class OnCpu(Wanted):
    def get_backends(self):
        return (self.BACKEND_NUMPY,)


@pytest.fixture
def machine(monkeypatch):
    return fake_cupy.install(monkeypatch)


@pytest.fixture(params=["inline", "threads"])
def ctx(request):
    return ff.Context.make_with(request.param)


def random(dtype, shape, seed=3):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "ui":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("wanted", [None, "float32", "float64", "complex64"])
@pytest.mark.parametrize("native", ["bool", "uint8", "int16", ">u2", "uint32", "int64", "float16",
                                    "float32", ">f4", "float64", "complex64"])  # fmt: skip
def test_the_link_carries_the_dtype_of_the_file(device, ctx, tmp_path, native, wanted):
    data = random(np.dtype(native).newbyteorder("="), (5, 7, 6, 9)).astype(native)
    path = tmp_path / "frames.raw"
    data.tofile(path)
    dataset = ctx.load("raw", path, dtype=native, nav_shape=(5, 7), sig_shape=(6, 9))
    with device.counting_transfers() as n_bytes:
        (result,) = ctx.run_udf(dataset, [Wanted(wanted)])
    common = np.result_type(data.dtype, wanted) if wanted else data.dtype
    assert result["tile"].dtype == common.newbyteorder("=")
    np.testing.assert_array_equal(result["tile"].data, data.astype(common))
    assert device.is_real or sum(n_bytes) == data.nbytes


@pytest.mark.parametrize("wanted", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("native", ["uint16", "float32", "complex64"])
@pytest.mark.parametrize("roi", [False, True])
def test_a_roi_and_corrections_arrive(device, ctx, roi, native, wanted):
    data = random(native, (6, 5, 12, 10))
    rng = np.random.default_rng(8)
    dark, gain = rng.random((12, 10)), rng.random((12, 10)) + 0.5
    # One alone, one in a corner, two beside each other, and one among others that has none.
    excluded = rng.random((12, 10)) < 0.1
    excluded[0, 0] = excluded[5, 5] = excluded[5, 6] = True
    excluded[8:11, 3:6] = True
    dark[excluded] = np.nan
    corrections = CorrectionSet(dark, gain, excluded_pixels=excluded, allow_empty=True)
    dataset = ctx.load("memory", data=data, num_partitions=2)
    mask = rng.random((6, 5)) < 0.5 if roi else None
    with device.counting_transfers() as n_bytes:
        (found,) = ctx.run_udf(dataset, [Wanted(wanted)], roi=mask, corrections=corrections)
    expected = ctx.run_udf(dataset, OnCpu(wanted), roi=mask, corrections=corrections)
    assert found["tile"].dtype == expected["tile"].dtype == np.result_type(native, wanted)
    np.testing.assert_array_equal(found["tile"].raw_data, expected["tile"].raw_data)
    # Pixels cross the link as they are in the file.
    selected = data[slice(None) if mask is None else mask]
    assert device.is_real or sum(n_bytes) == selected.nbytes


def test_parts_of_frames_are_corrected_before(device, ctx):
    data = random("uint16", (6, 5, 64, 32))
    excluded = np.random.default_rng(4).random((64, 32)) < 0.1
    corrections = CorrectionSet(gain=np.full((64, 32), 1.5), excluded_pixels=excluded)
    dataset = ctx.load("memory", data=data, tileshape=(7, 16, 32), num_partitions=2)
    found = ctx.run_udf(dataset, Wanted("float32"), corrections=corrections)
    expected = ctx.run_udf(dataset, OnCpu("float32"), corrections=corrections)
    np.testing.assert_array_equal(found["tile"].data, expected["tile"].data)


def test_large_tiles_are_read_in_pieces(device, ctx):
    """Tiles of 3 MiB, of which each piece is read by another thread."""
    data = random("uint16", (17, 13, 128, 96))
    dataset = ctx.load("memory", data=data, num_partitions=2)
    result = ctx.run_udf(dataset, Wanted("float32", depth=None))
    np.testing.assert_array_equal(result["tile"].data, data.astype("float32"))


def test_a_wait_that_is_forgotten_shows(monkeypatch):
    fake_cupy.install(monkeypatch)
    data = random("uint16", (17, 13, 16, 12))
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=data, num_partitions=1)
    monkeypatch.setattr(StagedTile, "wait", lambda _: None)
    result = ctx.run_udf(dataset, Wanted())
    assert not np.array_equal(result["tile"].data, data)


def test_functions_on_the_cpu_are_beside_it(device, ctx):
    """What takes NumPy arrays in the same run is no reason for other numbers."""
    data = random("uint16", (6, 5, 12, 10))
    dataset = ctx.load("memory", data=data, num_partitions=2)
    on_device, native, plain = ctx.run_udf(
        dataset, [Wanted("float32"), ff.SumUDF(), Tiles(("numpy",))]
    )
    np.testing.assert_array_equal(on_device["tile"].data, data)
    np.testing.assert_array_equal(native["intensity"].data, data.sum(axis=(0, 1)))
    check(plain, data)


def test_a_file_that_became_shorter_ends_the_run(machine, ctx, tmp_path):
    data = random("uint16", (64, 32, 32))
    path = tmp_path / "frames.raw"
    data.tofile(path)
    dataset = ctx.load("raw", path, dtype="uint16", nav_shape=(64,), sig_shape=(32, 32))
    ctx.run_udf(dataset, Wanted())

    class Shortens(Wanted):
        def process_tile(self, tile):
            with open(path, "r+b") as file:
                file.truncate(40 * 2048)

    with pytest.raises(ff.exceptions.FramefoldError, match=r"frames\.raw"):
        ctx.run_udf(dataset, Shortens())
    check_released(machine)


def test_a_run_can_be_ended_while_it_waits_for_a_transfer(machine, ctx):
    data = random("uint16", (64, 32, 32))
    dataset = ctx.load("memory", data=data, num_partitions=2)
    seen = threading.Event()

    class Fails(Wanted):
        def process_tile(self, tile):
            if self.meta.slice.origin[0] > 20:
                seen.set()
                raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        ctx.run_udf(dataset, Fails())
    assert seen.is_set()
    check_released(machine)
    assert not [t for t in threading.enumerate() if t.name.startswith("framefold-reads")]
    result = ctx.run_udf(dataset, Wanted())
    np.testing.assert_array_equal(result["tile"].data, data)


@pytest.mark.parametrize(
    ("n_cores", "n_devices", "beside_cpus", "n"),
    [
        (16, 1, False, 12),
        (16, 1, True, 8),
        (16, 4, False, 3),
        (6, 1, False, 4),
        (2, 1, False, 2),
        (2, 2, True, 2),
        (128, 1, False, 16),
    ],
)
def test_how_many_threads_read(n_cores, n_devices, beside_cpus, n):
    """Some cores are left to what queues the work of the device."""
    assert placement.n_readers(n_cores, n_devices, beside_cpus=beside_cpus) == n


def test_partitions_and_runs_one_after_the_other_use_the_same_memory(machine):
    ctx = ff.Context.make_with("inline")
    data = random("uint16", (64, 32, 32))
    n_pinned = set()
    # The largest tiles first, as those that are too short for a run are not kept.
    for n_partitions in (2, 16, 2):
        dataset = ctx.load("memory", data=data, num_partitions=n_partitions)
        result = ctx.run_udf(dataset, Wanted(depth=2))
        np.testing.assert_array_equal(result["tile"].data, data)
        n_pinned.add(len(machine.pinned))
    (n,) = n_pinned
    assert 0 < n <= 5


def test_pinned_memory_stays_for_the_next_run_until_the_context_is_closed(monkeypatch, machine):
    data = random("uint16", (64, 32, 32))

    def pinned():
        return [memory() for memory in machine.pinned if memory()]

    with ff.Context.make_with("threads", cpus=0, gpus=[0, 0]) as ctx:
        dataset = ctx.load("memory", data=data, num_partitions=8)
        ctx.run_udf(dataset, Wanted(depth=2))
        first = {id(memory) for memory in pinned()}
        assert first
        ctx.run_udf(dataset, Wanted(depth=2))
        assert {id(memory) for memory in pinned()} & first
        # What is too short for a run goes, and no more stays than may.
        ctx.run_udf(dataset, Wanted(depth=8))
        assert min(map(len, pinned())) >= 8 * 2048
        monkeypatch.setattr(staging, "MOST_SPARE", 20 * 2048)
        ctx.run_udf(dataset, Wanted(depth=8))
        ctx.run_udf(dataset, Wanted(depth=9))
        assert 0 < sum(map(len, pinned())) <= 20 * 2048
    assert pinned() == []


class Depths(UDF):
    """How deep tiles are, and which kind of worker got them."""

    def __init__(self, gate):
        super().__init__(gate=gate)

    def get_backends(self):
        return (CUPY, self.BACKEND_NUMPY)

    def get_result_buffers(self):
        return {
            "depth": self.buffer("nav", dtype=int),
            "scheme": self.buffer("nav", dtype=int),
            "cuda": self.buffer("nav", dtype=bool),
            "total": self.buffer("nav", dtype="float64", where="device"),
        }

    def get_task_data(self):
        self.params.gate.wait(30)  # until each worker has a partition
        return {}

    def process_tile(self, tile):
        self.results.depth[:] = len(tile)
        self.results.scheme[:] = self.meta.tiling_scheme.depth
        self.results.cuda[:] = self.meta.device_class == "cuda"
        self.results.total[:] = tile.sum(axis=(1, 2))


def test_tiles_suit_the_worker_that_gets_them(machine):
    data = random("uint16", (600, 64, 64)) % 16
    ctx = ff.Context.make_with("threads", cpus=1, gpus=1)
    dataset = ctx.load("memory", data=data, num_partitions=2)
    result = ctx.run_udf(dataset, Depths(threading.Barrier(2)))
    np.testing.assert_array_equal(result["total"].data, data.sum(axis=(1, 2)))
    cuda = result["cuda"].data
    assert cuda.sum() == 300
    assert set(result["depth"].data[cuda]) == {300}
    assert set(result["scheme"].data[cuda]) == {(64 << 20) // (4 * 64 * 64)}
    # On the CPU, a megabyte.
    assert max(result["depth"].data[~cuda]) == result["scheme"].data[~cuda][0] == 64


class InParts(Depths):
    """The same of parts of frames: adding up images, the CPU gets what its caches hold."""

    def get_result_buffers(self):
        image = self.buffer("sig", dtype="float64", where="device")
        return {**super().get_result_buffers(), "image": image}

    def process_tile(self, tile):
        self.results.depth[:] = len(tile)
        self.results.scheme[:] = self.meta.tiling_scheme.depth
        self.results.cuda[:] = self.meta.device_class == "cuda"
        self.results.total[:] += tile.sum(axis=(1, 2))
        self.results.image[:] += tile.sum(axis=0)

    def merge(self, dest, src):
        dest.depth[:] = src.depth
        dest.scheme[:] = src.scheme
        dest.cuda[:] = src.cuda
        dest.total[:] = src.total
        dest.image[:] += src.image


def test_parts_of_frames_are_deep_on_devices_too(machine):
    data = random("uint16", (100, 256, 256)) % 16
    ctx = ff.Context.make_with("threads", cpus=1, gpus=1)
    dataset = ctx.load("memory", data=data, num_partitions=2)
    result = ctx.run_udf(dataset, InParts(threading.Barrier(2)))
    np.testing.assert_array_equal(result["total"].data, data.sum(axis=(1, 2)))
    np.testing.assert_array_equal(result["image"].data, data.sum(axis=0))
    cuda = result["cuda"].data
    run = ctx._plan(dataset, [InParts(threading.Barrier(2))], None)[0]
    n_parts = (256 * 256) // np.prod(run.tile_shape)
    assert n_parts > 1
    assert run.tile_depth < 50
    assert set(result["depth"].data[cuda]) == {50}
    assert set(result["scheme"].data[cuda]) == {n_parts * (64 << 20) // (4 * 256 * 256)}
    assert max(result["depth"].data[~cuda]) == result["scheme"].data[~cuda][0] == run.tile_depth


def test_large_frames_stay_whole(device, ctx):
    """Frames of 4 MiB: parts of them would be too little for a device."""
    data = random("uint16", (17, 1024, 1024))
    dataset = ctx.load("memory", data=data, num_partitions=1)
    result = ctx.run_udf(dataset, Wanted("float32", depth=None))
    np.testing.assert_array_equal(result["tile"].data, data)
    run = ctx._plan(dataset, [Wanted("float32", depth=None)], None)[0]
    assert (run.tile_depth, run.tile_shape) == (16, (1024, 1024))


@pytest.mark.parametrize("method", ["tile", "partition"])
def test_partitions_are_few_on_devices_alone(machine, method):
    data = random("uint16", (600, 64, 64))
    ctx = ff.Context.make_with("threads", cpus=1, gpus=1)

    def n_partitions(formats, **options):
        dataset = ctx.load("memory", data=data, sig_dims=2, **options)
        udf = (Tiles if method == "tile" else Partitions)(formats)
        return ctx._plan(dataset, [udf], None)[0].n_partitions

    assert n_partitions((CUPY,)) == (8 if method == "tile" else 64)
    assert n_partitions((CUPY, "numpy")) > 8
    assert n_partitions((CUPY,), num_partitions=3) == 3


def test_pinned_memory_goes_with_a_context_on_processes(machine):
    data = random("uint16", (64, 32, 32))
    with ff.Context.make_with("processes") as ctx:
        with ctx.load("memory", data=data, sig_dims=2).to_device():
            pass
        assert any(memory() for memory in machine.pinned)
    assert not any(memory() for memory in machine.pinned)
