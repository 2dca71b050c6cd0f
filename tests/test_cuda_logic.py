"""Tiles on devices, on a stand-in for CuPy that shows who forgets to wait."""

from __future__ import annotations

import threading

import fake_cupy
import numpy as np
import pytest
import scipy.sparse
from cuda_udfs import CUPY, CUPYX, NAV, SIG, Frames, Partitions, Tiles, check, check_released, ran
from sparse_files import counts, write_raw_csr

import framefold as ff
from framefold.arrays.cuda import partition
from framefold.udf import UDF


@pytest.fixture
def data():
    return counts((*NAV, *SIG), "uint16")


@pytest.fixture
def dataset(ctx, data):
    return ctx.load("memory", data=data, num_partitions=3)


# --- What arrives on the device --------------------------------------------------------------


@pytest.mark.parametrize("native", ["dense", "sparse"])
@pytest.mark.parametrize("method", [Tiles, Frames, Partitions])
@pytest.mark.parametrize("format_", [CUPY, *CUPYX])
def test_formats(ctx, machine, data, tmp_path, format_, method, native):
    if native == "dense":
        dataset = ctx.load("memory", data=data, num_partitions=3)
    else:
        path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
        dataset = ctx.load("raw_csr", path, num_partitions=3)
    result = ctx.run_udf(dataset, method((format_,)))
    check(result, data)
    assert ran(result) == {f"{format_} 0 cuda"}
    check_released(machine)
    roi = np.random.default_rng(1).random(NAV) < 0.6
    result = ctx.run_udf(dataset, method((format_,)), roi=roi)
    np.testing.assert_array_equal(result["each"].raw_data, data[roi].sum(axis=(1, 2)))


class OnBoth(Tiles):
    """With a buffer on the host that each partition fills, and others on the device."""

    def get_result_buffers(self):
        moved = {"there": self.buffer("nav", (50,), dtype="float32", where="device")}
        # No numbers of a device.
        stays = {"here": self.buffer("nav", dtype=object, where="device")}
        return {**super().get_result_buffers(), **moved, **stays}


def test_buffers_on_the_device_take_no_memory_of_the_host(ctx, machine, monkeypatch, dataset, data):
    asked, allocate = [], partition.allocate

    def noted(buffers, shape, n_frames):
        asked.append(set(buffers))
        return allocate(buffers, shape, n_frames)

    monkeypatch.setattr(partition, "allocate", noted)
    result = ctx.run_udf(dataset, OnBoth())
    check(result, data)
    assert not result["there"].data.any()
    assert asked
    on_host = {name for name, buffer in OnBoth().get_result_buffers().items() if not buffer.where}
    assert all(names == on_host | {"here"} for names in asked)


class Several(Tiles):
    """Looks at tiles again, with work queued in between."""

    def process_tile(self, tile):
        super().process_tile(tile)
        super().process_tile(tile)


def test_udfs_share_a_tile(ctx, machine, dataset, data):
    udfs = [Tiles(), Several(), Tiles((CUPYX[1],)), Tiles(("numpy",)), ff.SumUDF()]
    *results, plain, native = ctx.run_udf(dataset, udfs)
    for result, times in zip(results, (1, 2, 1), strict=True):
        np.testing.assert_array_equal(result["each"].data, times * data.sum(axis=(2, 3)))
    check(plain, data)
    assert ran(plain) == {"numpy 0 cuda"}
    np.testing.assert_array_equal(native["intensity"].data, data.sum(axis=(0, 1)))
    n_transfers = sum(kind == "copy" for kind, _ in machine.log)
    assert n_transfers == results[0]["n_tiles"].data[0]


def test_dense_and_sparse_tiles_in_turn(machine, data, tmp_path):
    """Of each kind, what is computed late must find the tile that it was given."""
    ctx = ff.Context.make_with("threads", cpus=1, gpus=1)
    path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
    dataset = ctx.load("raw_csr", path, num_partitions=2)
    dense, csr = ("numpy", CUPY), (UDF.BACKEND_SCIPY_CSR, CUPYX[0])
    gate = threading.Barrier(2)
    udfs = [Tiles(dense, gate=gate), Tiles(csr), Several(dense), Frames(csr)]
    one, two, twice, four = ctx.run_udf(dataset, udfs)
    for result in (one, two, four):
        check(result, data)
    np.testing.assert_array_equal(twice["total"].data, 2 * data.sum(axis=(0, 1)))
    assert ran(one) == {"numpy None cpu", "cupy 0 cuda"}
    assert ran(two) == {f"{csr[0]} None cpu", f"{csr[1]} 0 cuda"}


def test_results_step_by_step(ctx, machine, dataset, data):
    steps = list(ctx.run_udf_iter(dataset, Tiles()))
    assert len(steps) == 3
    check(steps[-1][0], data)
    check_released(machine)


def test_aux_data_and_buffers_that_are_not_numbers_stay_on_the_host(ctx, machine, dataset, data):
    class Labelled(UDF):
        def get_backends(self):
            return (self.BACKEND_CUPY,)

        def get_result_buffers(self):
            return {
                "label": self.buffer("nav", dtype="U4", where="device"),
                "scaled": self.buffer("nav", extra_shape=(2,), where="device"),
            }

        def process_frame(self, frame):
            assert isinstance(self.params.factor, np.ndarray)
            self.results.label[:] = "here"
            assert self.results.scaled.shape == (2,)
            self.results.scaled[:] = frame.sum() * float(self.params.factor[0])

    factor = np.arange(30.0).reshape(NAV)
    udf = Labelled(factor=UDF.aux_data(factor, "nav", dtype="float64"))
    result = ctx.run_udf(dataset, udf)
    assert (result["label"].data == "here").all()
    expected = (data.sum(axis=(2, 3)) * factor)[..., np.newaxis]
    np.testing.assert_array_equal(result["scaled"].data, np.broadcast_to(expected, (*NAV, 2)))


@pytest.mark.parametrize("base", [Tiles, Frames])
def test_meta_is_of_the_partition_where_buffers_are_whole(ctx, machine, dataset, base):
    class Ends(base):
        def get_result_buffers(self):
            return {**super().get_result_buffers(), "yx": self.buffer("nav", (2,), int)}

        def postprocess(self):
            assert tuple(self.meta.slice.shape) == tuple(self.meta.partition_shape)
            assert self.meta.tiling_scheme_idx is None
            self.results.yx[:] = self.meta.coordinates

        def merge(self, dest, src):
            super().merge(dest, src)
            dest.yx[:] = src.yx

    result = ctx.run_udf(dataset, Ends())
    assert ran(result) == {"cupy 0 cuda"}
    np.testing.assert_array_equal(result["yx"].raw_data, np.argwhere(np.ones(NAV)))


def test_forbuf_takes_anything_to_either_side(machine):
    udf, host = UDF(), np.arange(6.0)
    there = fake_cupy.asarray(host)
    target = fake_cupy.zeros((2, 3))
    sparse = scipy.sparse.csr_matrix(host.reshape(2, 3))
    for array in (host, there, sparse, fake_cupy.csr_matrix(sparse)):
        np.testing.assert_array_equal(udf.forbuf(array, target).get(), host.reshape(2, 3))
        np.testing.assert_array_equal(udf.forbuf(array, np.zeros((2, 3))), host.reshape(2, 3))


# --- Streams and slots ------------------------------------------------------------------------


def test_the_host_runs_ahead_of_transfers_and_of_the_device(monkeypatch, data):
    machine = fake_cupy.install(monkeypatch)
    ctx = ff.Context.make_with("inline")
    seen = []

    class Watching(Tiles):
        def process_tile(self, tile):
            super().process_tile(tile)
            waits = sum(kind == "host waits" for kind, _ in machine.log)
            seen.append((waits, machine.n_kernels_done))

    dataset = ctx.load("memory", data=data, num_partitions=1)
    result = ctx.run_udf(dataset, Watching())
    check(result, data)
    assert len(seen) > 4
    # Nothing waits in the first three tiles, and then once a tile: for the transfer of two before.
    assert [waits for waits, _ in seen] == [0, 0, 0, *range(1, len(seen) - 2)]
    # Nothing was computed meanwhile that the host, or a transfer it waits for, did not need.
    assert seen[1][1] == 0
    n_kernels = sum(kind == "kernel" for kind, _ in machine.log)
    assert seen[-1][1] < n_kernels * (len(seen) - 1) / len(seen)
    streams = {stream for kind, stream in machine.log if kind == "copy"}
    assert len(streams) == 1
    assert streams.isdisjoint(stream for kind, stream in machine.log if kind == "kernel")


@pytest.mark.parametrize(
    ("early", "forgotten"), [(False, "wait_event"), (True, "wait_event"), (False, "synchronize")]
)
def test_a_forgotten_wait_shows(monkeypatch, data, early, forgotten):
    """The stand-in does what it is for."""
    fake_cupy.install(monkeypatch, early=early)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=data, num_partitions=3)
    check(ctx.run_udf(dataset, Tiles()), data)
    of = fake_cupy.Stream if forgotten == "wait_event" else fake_cupy.Event
    monkeypatch.setattr(of, forgotten, lambda *_: None)
    result = ctx.run_udf(dataset, Tiles())
    assert not np.array_equal(result["each"].data, data.sum(axis=(2, 3)))


def test_two_slots_are_enough_unless_tiles_are_kept(monkeypatch, data):
    for keep, many in ((None, False), ([], True)):
        machine = fake_cupy.install(monkeypatch)
        ctx = ff.Context.make_with("inline")
        dataset = ctx.load("memory", data=data, num_partitions=1)
        result = ctx.run_udf(dataset, Tiles(keep=keep))
        # What two threads read ahead, what they read next, and what is on its way.
        assert len(machine.pinned) <= 3 + 2 * 2
        n_tiles = result["n_tiles"].data[0]
        n_kept = len({array.data.ptr for _, array in keep or ()})
        assert n_kept == (n_tiles if many else 0)


class Neighbours(Tiles):
    """Compares each tile with the one before, which it drops then."""

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE  # nothing is converted: it gets the memory that is used again

    def get_task_data(self):
        return {"before": []}

    def process_tile(self, tile):
        before = self.task_data.before
        before.append(tile)
        other = before.pop(0) if len(before) > 1 else tile
        super().process_tile(tile * 2 - other)

    def postprocess(self):
        self.results.total[:] += self.task_data.before.pop().sum(axis=0)


@pytest.mark.parametrize("early", [False, True])
def test_what_was_kept_for_one_tile_more(monkeypatch, early):
    """Its memory is written again after what was computed with it last."""
    data = counts((40, *SIG), "uint16").astype("int64")
    fake_cupy.install(monkeypatch, early=early)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=data, num_partitions=2)
    udf = Neighbours(tile_bytes=4 * 8 * data[0].size)
    result = ctx.run_udf(dataset, udf)
    assert result["n_tiles"].data[0] == 10
    before = data.reshape(2, 5, 4, *SIG)[:, [0, 0, 1, 2, 3]].reshape(data.shape)
    each = (2 * data - before).sum(axis=(1, 2))
    np.testing.assert_array_equal(result["each"].data, each)
    last = data.reshape(2, 5, 4, *SIG)[:, -1].sum(axis=(0, 1))
    np.testing.assert_array_equal(result["total"].data, (2 * data - before).sum(axis=0) + last)


class Erases(Tiles):
    """Writes into what it gets, after it has looked."""

    def process_tile(self, tile):
        super().process_tile(tile)
        tile[:] = 0


class ErasesFrames(Frames):
    def process_frame(self, frame):
        super().process_frame(frame)
        frame[:] = 0


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("native", ["dense", "sparse"])
def test_functions_may_write_into_their_tiles(ctx, machine, data, tmp_path, native, resident):
    """Those that get the tile after them see what was read."""
    if native == "sparse" and resident:
        pytest.skip("sparse data cannot stay on a device")
    if native == "dense":
        dataset = ctx.load("memory", data=data, num_partitions=3)
    else:
        path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
        dataset = ctx.load("raw_csr", path, num_partitions=3)
    dataset = dataset.to_device() if resident else dataset
    udfs = [Erases(), ErasesFrames(), Tiles(), Erases(), Frames(), Tiles()]
    for result in ctx.run_udf(dataset, udfs):
        check(result, data)
    for result in ctx.run_udf(dataset, udfs):
        check(result, data)
