"""Workers with CUDA devices, on a stand-in for CuPy that shows who forgets to wait."""

from __future__ import annotations

import gc
import threading

import fake_cupy
import numpy as np
import pytest
import scipy.sparse
from sparse_files import counts, write_raw_csr

import framefold as ff
from framefold.common.backend import get_device_class, get_use_cuda, set_use_cuda
from framefold.exceptions import (
    InvalidArgumentError,
    LimitError,
    MissingLibraryError,
    UDFRunCancelled,
    UnsupportedError,
)
from framefold.udf import UDF
from framefold.utils import devices

NAV, SIG = (5, 6), (7, 9)
CUPY = UDF.BACKEND_CUPY
CUPYX = (UDF.BACKEND_CUPY_SCIPY_CSR, UDF.BACKEND_CUPY_SCIPY_CSC, UDF.BACKEND_CUPY_SCIPY_COO)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("CUDA", "CPU"):
        for prefix in ("FRAMEFOLD", "LIBERTEM"):
            monkeypatch.delenv(f"{prefix}_USE_{name}", raising=False)


@pytest.fixture(params=["late", "early"])
def machine(request, monkeypatch):
    """One device with the stand-in for CuPy, whose transfers come late, or early."""
    return fake_cupy.install(monkeypatch, early=request.param == "early")


@pytest.fixture
def data():
    return counts((*NAV, *SIG), "uint16")


@pytest.fixture
def dataset(ctx, data):
    return ctx.load("memory", data=data, num_partitions=3)


class Sums(UDF):
    """Sums over both kinds of axes, with buffers on the device, from many small tiles."""

    def __init__(self, formats=(CUPY,), tile_bytes=400, keep=None, gate=None):
        super().__init__(formats=formats, tile_bytes=tile_bytes, keep=keep, gate=gate)

    def get_backends(self):
        return self.params.formats

    def get_tiling_preferences(self):
        return {"depth": 4, "total_size": self.params.tile_bytes}

    def get_result_buffers(self):
        return {
            "each": self.buffer("nav", dtype="float64", where="device"),
            "total": self.buffer("sig", dtype="float64", where="device"),
            "n_tiles": self.buffer("single", dtype=int),
            "ran": self.buffer("nav", dtype=object),
        }

    def get_task_data(self):
        if self.params.gate is not None:
            self.params.gate.wait(20)  # until all workers have a partition
        return {}

    def add(self, array, n_frames):
        on_device = self.meta.array_backend in self.CUPY_BACKENDS
        assert (self.xp is np) != on_device
        assert isinstance(self.results.each, fake_cupy.ndarray if on_device else np.ndarray)
        assert isinstance(self.results.total, fake_cupy.ndarray if on_device else np.ndarray)
        flat = array.reshape((n_frames, -1))
        self.results.each[:] += self.forbuf(flat.sum(axis=1), self.results.each)
        self.results.total[:] += self.forbuf(flat.sum(axis=0), self.results.total)
        self.results.n_tiles[:] += 1
        self.results.ran[:] = f"{self.meta.array_backend} {get_use_cuda()} {get_device_class()}"
        assert self.meta.device_class == ("cuda" if on_device else "cpu")
        if self.params.keep is not None:
            self.params.keep.append((self.meta.slice.get(), array))

    def merge(self, dest, src):
        assert all(isinstance(array, np.ndarray) for array in src.values())
        dest.each[:] = src.each
        dest.ran[:] = src.ran
        dest.total[:] += src.total
        dest.n_tiles[:] += src.n_tiles

    def get_results(self):
        assert self.xp is np
        return {}


class Tiles(Sums):
    def process_tile(self, tile):
        self.add(tile, len(tile) if isinstance(tile, fake_cupy.ndarray) else tile.shape[0])


class Frames(Sums):
    def process_frame(self, frame):
        self.add(frame, 1)


class Partitions(Sums):
    def process_partition(self, partition):
        self.add(partition, partition.shape[0])


def check(result, data):
    np.testing.assert_array_equal(result["each"].data, data.sum(axis=(2, 3)))
    np.testing.assert_array_equal(result["total"].data, data.sum(axis=(0, 1)))


def ran(result):
    return set(result["ran"].raw_data)


def check_released(machine):
    gc.collect()
    assert machine.live_bytes() == 0
    assert not any(pinned() for pinned in machine.pinned)
    assert ("device", 0) in machine.freed_pools
    assert machine.freed_pools[-1][0] == "pinned"


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
    ctx = threads(cpus=1, gpus=1)
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
    # Nobody waits in the first two tiles, and then once a tile: for the transfer of two ago.
    assert [waits for waits, _ in seen] == [0, 0, *range(1, len(seen) - 1)]
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


def test_kept_tiles_stay_as_they_are(ctx, machine, dataset, data):
    kept = []
    check(ctx.run_udf(dataset, Tiles(keep=kept)), data)
    flat = data.reshape(-1, *SIG)
    assert len(kept) > 10
    for part, array in kept:
        np.testing.assert_array_equal(array.get(), flat[part])
    kept = []
    check(ctx.run_udf(dataset, Frames(keep=kept)), data)
    for part, array in kept:
        np.testing.assert_array_equal(array.get(), flat[part][0])


def test_two_slots_are_enough_unless_tiles_are_kept(monkeypatch, data):
    for keep, many in ((None, False), ([], True)):
        machine = fake_cupy.install(monkeypatch)
        ctx = ff.Context.make_with("inline")
        dataset = ctx.load("memory", data=data, num_partitions=1)
        result = ctx.run_udf(dataset, Tiles(keep=keep))
        assert len(machine.pinned) == 2
        n_tiles = result["n_tiles"].data[0]
        n_kept = len({array.data.mem.owner.memory.mem for _, array in keep or ()})
        assert n_kept == (n_tiles if many else 0)


# --- Who takes part ---------------------------------------------------------------------------


def threads(**options):
    return ff.Context.make_with("threads", **options)


def load(ctx, data, n):
    return ctx.load("memory", data=data, num_partitions=n)


def test_workers_of_both_kinds_share_a_run(monkeypatch, data):
    machine = fake_cupy.install(monkeypatch, n_devices=2)
    ctx = threads(cpus=2, gpus=[0, 1])
    udf = Tiles(("numpy", CUPY), gate=threading.Barrier(4))
    result = ctx.run_udf(load(ctx, data, 4), udf)
    check(result, data)
    assert ran(result) == {"cupy 0 cuda", "cupy 1 cuda", "numpy None cpu"}
    assert set(machine.freed_pools) == {("device", 0), ("device", 1), ("pinned", 0)}


def test_a_device_that_is_named_twice_has_two_workers(monkeypatch, data):
    fake_cupy.install(monkeypatch)
    ctx = threads(cpus=0, gpus=[0, 0])
    result = ctx.run_udf(load(ctx, data, 2), Tiles(("numpy", CUPY), gate=threading.Barrier(2)))
    check(result, data)
    assert ran(result) == {"cupy 0 cuda"}
    # What has nothing to do with devices is not affected.
    assert ran(ctx.run_udf(load(ctx, data, 2), Tiles(("numpy",)))) == {"numpy None cpu"}


def test_a_udf_for_devices_alone_keeps_the_cpu_out(monkeypatch, data):
    fake_cupy.install(monkeypatch, n_devices=2)
    ctx = threads(cpus=2)
    udfs = [Tiles((CUPY,), gate=threading.Barrier(2)), Tiles(("numpy", CUPY)), Frames(("numpy",))]
    only, both, cpu = ctx.run_udf(load(ctx, data, 2), udfs)
    for result in (only, both, cpu):
        check(result, data)
    assert ran(only) == ran(both) == {"cupy 0 cuda", "cupy 1 cuda"}
    assert ran(cpu) == {"numpy 0 cuda", "numpy 1 cuda"}


@pytest.mark.parametrize(
    ("backends", "expected"),
    [
        ("numpy", {"numpy None cpu"}),
        (("cupy",), {"cupy 0 cuda"}),
        (("cuda", "cupy"), {"cuda 0 cuda"}),
        (CUPYX[0], {f"{CUPYX[0]} 0 cuda"}),
    ],
)
def test_restrictions(ctx, monkeypatch, dataset, data, backends, expected):
    fake_cupy.install(monkeypatch)

    class Any(Tiles):
        def process_tile(self, tile):
            if self.meta.array_backend == "cuda":
                assert isinstance(tile, np.ndarray)
                assert isinstance(self.results.total, np.ndarray)
                self.results.each[:] += tile.sum(axis=(1, 2))
                self.results.total[:] += tile.sum(axis=0)
                self.results.ran[:] = f"cuda {get_use_cuda()} {self.meta.device_class}"
            else:
                super().process_tile(tile)

    result, builtin = ctx.run_udf(
        dataset, [Any(("numpy", "cuda", CUPY, *CUPYX)), ff.SumUDF()], backends=backends
    ) if backends != ("cuda", "cupy") else (
        ctx.run_udf(dataset, Any(("numpy", "cuda", CUPY)), backends=backends), None
    )  # fmt: skip
    check(result, data)
    assert ran(result) == expected
    if builtin is not None:
        np.testing.assert_array_equal(builtin["intensity"].data, data.sum(axis=(0, 1)))


def test_plain_cuda_needs_no_cupy(monkeypatch, data, tmp_path):
    fake_cupy.install(monkeypatch, with_cupy=False)
    ctx = threads(cpus=2)

    class Own(UDF):
        def get_backends(self):
            return (self.BACKEND_CUDA,)

        def get_result_buffers(self):
            return {"each": self.buffer("nav", where="device"), "id": self.buffer("nav")}

        def process_frame(self, frame):
            assert type(frame) is np.ndarray
            assert not frame.flags.writeable
            self.results.each[:] = frame.sum()
            self.results.id[:] = get_use_cuda()

    path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
    for dataset in (load(ctx, data, 3), ctx.load("raw_csr", path)):
        result = ctx.run_udf(dataset, Own())
        np.testing.assert_array_equal(result["each"].data, data.sum(axis=(2, 3)))
        assert not result["id"].data.any()


def test_what_is_inherited_from_built_in_functions(ctx, machine, dataset, data):
    """Some of it computes with CuPy; the rest stays with NumPy, on whichever worker."""
    seen = {}

    def watching(of):
        class Watching(of):
            def postprocess(self):
                seen[of.__name__] = self.meta.array_backend

        return Watching()

    udfs = [watching(of) for of in (ff.SumUDF, ff.SumSigUDF, ff.StdDevUDF, ff.MaxUDF, ff.CoMUDF)]
    total, sums, stddev, *_ = ctx.run_udf(dataset, [*udfs, Tiles()])
    np.testing.assert_allclose(total["intensity"].data, data.sum(axis=(0, 1)))
    np.testing.assert_allclose(sums["intensity"].data, data.sum(axis=(2, 3)))
    np.testing.assert_allclose(stddev["var"].data, data.var(axis=(0, 1)), rtol=1e-4)
    assert [seen[name] for name in ("SumUDF", "SumSigUDF")] == [CUPY, CUPY]
    assert [seen[name] for name in ("StdDevUDF", "MaxUDF", "CoMUDF")] == ["numpy"] * 3


def test_layouts_may_differ_between_devices_and_the_cpu(monkeypatch, data, tmp_path):
    """The engine makes one layout; the device makes the other one by itself."""
    fake_cupy.install(monkeypatch)
    ctx = threads(cpus=1, gpus=1)
    path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
    pairs = [
        (ctx.load("raw_csr", path, num_partitions=2), (UDF.BACKEND_SCIPY_CSR, CUPY)),
        (ctx.load("raw_csr", path, num_partitions=2), (UDF.BACKEND_SCIPY_CSR, "cuda")),
        (load(ctx, data, 2), ("numpy", CUPYX[1])),
    ]
    for dataset, formats in pairs:

        class Wide(Tiles):
            def process_tile(self, tile):
                if self.meta.array_backend == "cuda":
                    assert isinstance(tile, np.ndarray)
                    self.results.each[:] += tile.sum(axis=(1, 2))
                    self.results.total[:] += tile.sum(axis=0)
                    self.results.ran[:] = "cuda 0 cuda"
                else:
                    super().process_tile(tile)

        result = ctx.run_udf(dataset, Wide(formats, gate=threading.Barrier(2)))
        check(result, data)
        assert ran(result) == {f"{formats[0]} None cpu", f"{formats[1]} 0 cuda"}


def test_devices_are_looked_for_where_a_udf_takes_them(ctx, monkeypatch, dataset, data):
    def refuse():
        raise AssertionError("looked for devices")

    monkeypatch.setattr(devices, "cuda_ids", refuse)
    monkeypatch.setattr(devices, "has_cupy", refuse)
    monkeypatch.setattr(devices, "cupy_installed", lambda: True)
    check(ctx.run_udf(dataset, Tiles(("numpy",))), data)
    ctx.run_udf(dataset, ff.SumUDF())
    check(ctx.run_udf(dataset, Tiles(("numpy", CUPY)), backends="numpy"), data)
    with pytest.raises(AssertionError, match="looked for devices"):
        ctx.run_udf(dataset, Tiles(("numpy", CUPY)))
    # Without CuPy, its formats are no reason to look.
    monkeypatch.setattr(devices, "cupy_installed", lambda: False)
    check(ctx.run_udf(dataset, Tiles(("numpy", CUPY))), data)


@pytest.mark.parametrize("name", ["inline", "threads"])
def test_without_devices_the_cpu_does_it(monkeypatch, data, name):
    fake_cupy.install(monkeypatch, n_devices=0)
    ctx = ff.Context.make_with(name)
    assert ran(ctx.run_udf(load(ctx, data, 2), Tiles(("numpy", CUPY)))) == {"numpy None cpu"}
    with pytest.raises(UnsupportedError, match=r"'cupy' needs a CUDA worker.*none in this test"):
        ctx.run_udf(load(ctx, data, 2), Tiles())
    fake_cupy.install(monkeypatch)
    ctx = ff.Context.make_with(name, gpus=0)
    assert ran(ctx.run_udf(load(ctx, data, 2), Tiles(("numpy", CUPY)))) == {"numpy None cpu"}
    with pytest.raises(UnsupportedError, match=r"made with gpus=0"):
        ctx.run_udf(load(ctx, data, 2), Tiles())


def test_what_is_missing_is_named(ctx, monkeypatch, dataset):
    fake_cupy.install(monkeypatch, with_cupy=False)
    with pytest.raises(UnsupportedError, match=r"CuPy is not installed.*cupy-cuda12x"):
        ctx.run_udf(dataset, Tiles())
    udfs = [Tiles(("cuda",)), Tiles()]
    monkeypatch.setattr("framefold.udf._formats._installed", lambda name: name != "cupy")
    with pytest.raises(MissingLibraryError, match=r"needs cupy, which is not installed"):
        ctx.run_udf(dataset, udfs)


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        (3, "gpus is 3, and CUDA devices there are: 0, 1"),
        ([0, 2], "no CUDA device 2; there are: 0, 1"),
    ],
)
def test_devices_that_are_not_there(monkeypatch, data, gpus, message):
    fake_cupy.install(monkeypatch, n_devices=2)
    ctx = threads(gpus=gpus)
    check(ctx.run_udf(load(ctx, data, 2), Tiles(("numpy",))), data)
    with pytest.raises(InvalidArgumentError, match=message):
        ctx.run_udf(load(ctx, data, 2), Tiles())


@pytest.mark.parametrize("gpus", [-1, [-1], [True], "0", [0.5], True])
def test_devices_that_are_none(gpus):
    for name in ("inline", "threads"):
        with pytest.raises(InvalidArgumentError, match="expected how many CUDA devices"):
            ff.Context.make_with(name, gpus=gpus)


def test_set_use_cuda_holds_for_runs(monkeypatch, data):
    fake_cupy.install(monkeypatch, n_devices=2)
    monkeypatch.setenv("FRAMEFOLD_USE_CUDA", "0")
    set_use_cuda(1)
    for ctx in (threads(cpus=2), ff.Context.make_with("inline")):
        result = ctx.run_udf(load(ctx, data, 4), Tiles(("numpy", CUPY)))
        assert ran(result) == {"cupy 1 cuda"}
    monkeypatch.setenv("FRAMEFOLD_USE_CPU", "0")
    monkeypatch.delenv("FRAMEFOLD_USE_CUDA")
    ctx = threads(cpus=2)
    assert ran(ctx.run_udf(load(ctx, data, 4), Tiles(("numpy", CUPY)))) == {"numpy None cpu"}
    # What a context is told counts more than what the process is set to.
    ctx = threads(cpus=0, gpus=[1])
    assert ran(ctx.run_udf(load(ctx, data, 4), Tiles(("numpy", CUPY)))) == {"cupy 1 cuda"}


def test_explain_shows_both(monkeypatch, data):
    fake_cupy.install(monkeypatch)
    ctx = threads()
    dataset = load(ctx, data, 2)
    assert "by tile, numpy; on CUDA devices cupy" in ctx.explain(dataset, Tiles(("numpy", CUPY)))
    alone = ctx.explain(dataset, Tiles(tile_bytes=None))
    assert "by tile, cupy" in alone
    assert "on CUDA" not in alone


def test_tiles_are_larger_where_only_devices_work(monkeypatch):
    fake_cupy.install(monkeypatch)
    ctx = threads()
    dataset = ctx.load("memory", data=np.zeros((1, 400, 64, 64), dtype=np.uint8), num_partitions=1)
    seen = []

    class Depth(Tiles):
        def process_tile(self, tile):
            seen.append(tile.shape)

    ctx.run_udf(dataset, Depth(tile_bytes=None))
    assert seen == [(400, 64, 64)]
    ctx.run_udf(dataset, Depth(tile_bytes=1 << 20))
    assert len(seen) > 2


# --- The end of a run --------------------------------------------------------------------------


class Failing(Tiles):
    def process_tile(self, tile):
        super().process_tile(tile)
        if self.meta.slice.get()[0].start >= 10:
            raise KeyError("on purpose")


def test_memory_is_given_back_after_errors(ctx, machine, dataset, data):
    with pytest.raises(KeyError, match="on purpose") as failure:
        ctx.run_udf(dataset, Failing())
    assert "Failing" in "".join(failure.value.__notes__)
    failure.value.with_traceback(None)
    del failure
    check_released(machine)
    check(ctx.run_udf(dataset, Tiles()), data)


def test_memory_is_given_back_when_a_run_is_closed(ctx, machine, dataset):
    steps = ctx.run_udf_iter(dataset, Tiles())
    next(steps)
    assert get_use_cuda() is None  # between steps, this thread is nobody's worker
    assert fake_cupy.machine.device == 0
    steps.close()
    del steps
    check_released(machine)


def test_memory_is_given_back_after_cancellation(ctx, machine, dataset):
    class Cancels(Tiles):
        def process_tile(self, tile):
            super().process_tile(tile)
            begun[0].cancel()

    begun = []
    begun.append(ctx.run_udf_iter(dataset, Cancels()))
    with pytest.raises(UDFRunCancelled) as cancelled:
        list(begun[0])
    cancelled.value.with_traceback(None)
    begun.clear()
    del cancelled
    check_released(machine)


def test_memory_that_runs_out_is_told_clearly(ctx, monkeypatch, dataset, data):
    machine = fake_cupy.install(monkeypatch, limit=1000)
    with pytest.raises(LimitError, match=r"memory of CUDA device 0 ran out.*smaller tiles"):
        ctx.run_udf(dataset, Tiles())
    gc.collect()
    assert machine.live_bytes() == 0
    machine.limit = None
    check(ctx.run_udf(dataset, Tiles()), data)


class Greedy(Tiles):
    def process_tile(self, tile):
        fake_cupy.alloc(1 << 40)


def test_memory_that_runs_out_in_user_code(ctx, monkeypatch, dataset):
    fake_cupy.install(monkeypatch, limit=1 << 30)
    with pytest.raises(LimitError, match="ran out") as failure:
        ctx.run_udf(dataset, Greedy())
    assert "Greedy" in "".join(failure.value.__notes__)
    assert isinstance(failure.value.__cause__, fake_cupy.OutOfMemoryError)


def test_pools_are_left_alone_while_another_run_goes_on(monkeypatch, data):
    machine = fake_cupy.install(monkeypatch)
    ctx = ff.Context.make_with("inline")
    dataset = load(ctx, data, 3)
    steps = ctx.run_udf_iter(dataset, Tiles())
    next(steps)
    ctx.run_udf(dataset, Tiles())
    assert machine.freed_pools == []
    steps.close()
    assert machine.freed_pools == [("device", 0), ("pinned", 0)]
