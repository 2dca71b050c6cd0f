"""Who takes part in runs with CUDA devices, on a stand-in for CuPy."""

from __future__ import annotations

import threading

import fake_cupy
import numpy as np
import pytest
import scipy.sparse as sparse_arrays
from cuda_udfs import CUPY, CUPYX, NAV, SIG, Frames, Tiles, check, check_beside, ran
from sparse_files import counts, write_raw_csr

import framefold as ff
from framefold.arrays.cuda.placement import devices_by_default
from framefold.common.backend import get_use_cuda, set_use_cuda
from framefold.exceptions import (
    InvalidArgumentError,
    MissingLibraryError,
    UnsupportedError,
)
from framefold.udf import UDF
from framefold.utils import devices


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("CUDA", "CPU"):
        for prefix in ("FRAMEFOLD", "LIBERTEM"):
            monkeypatch.setenv(f"{prefix}_USE_{name}", "")  # so that whatever happens is undone
            monkeypatch.delenv(f"{prefix}_USE_{name}")


@pytest.fixture
def data():
    return counts((*NAV, *SIG), "uint16")


@pytest.fixture
def dataset(ctx, data):
    return ctx.load("memory", data=data, num_partitions=3)


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


def test_workers_without_a_device_neither_hold_up_others_nor_come_last(monkeypatch, tmp_path):
    fake_cupy.install(monkeypatch, n_devices=1)
    check_beside(threads(cpus=3, gpus=[0]), tmp_path, 400, 60)


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

    udfs = [Any(("numpy", "cuda", CUPY, *CUPYX)), ff.SumUDF()]
    result, builtin = ctx.run_udf(dataset, udfs, backends=backends)
    check(result, data)
    assert ran(result) == expected
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


def test_delayed_runs_use_the_cpu(monkeypatch, data):
    pytest.importorskip("dask.array", reason="dask is not installed")
    fake_cupy.install(monkeypatch)
    ctx = ff.Context.make_with("delayed")
    assert ran(ctx.run_udf(load(ctx, data, 2), Tiles(("numpy", CUPY)))) == {"numpy None cpu"}
    with pytest.raises(UnsupportedError, match=r"delayed runs use the CPU alone"):
        ctx.run_udf(load(ctx, data, 2), Tiles())


def test_what_is_missing_is_named(ctx, monkeypatch, dataset):
    fake_cupy.install(monkeypatch, with_cupy=False)
    with pytest.raises(UnsupportedError, match=r"CuPy is not installed.*cupy-cuda12x"):
        ctx.run_udf(dataset, Tiles())
    udfs = [Tiles(("cuda",)), Tiles()]
    monkeypatch.setattr("framefold.arrays.formats._installed", lambda name: name != "cupy")
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


@pytest.mark.parametrize("name", ["FRAMEFOLD_USE_CUDA", "LIBERTEM_USE_CUDA"])
def test_variables_for_devices_that_are_not_there_are_named(monkeypatch, ctx, dataset, name):
    fake_cupy.install(monkeypatch, n_devices=0)
    monkeypatch.setenv(name, "1")
    message = rf"no CUDA device 1, which {name}=1 or .*none \(none in this.*or unset {name}"
    with pytest.raises(InvalidArgumentError, match=message):
        ctx.run_udf(dataset, Tiles(("numpy", CUPY)))
    with pytest.raises(InvalidArgumentError, match=message):
        devices_by_default()
    with pytest.raises(InvalidArgumentError, match=r"no CUDA device 1; .*choose among them$"):
        threads(gpus=[1]).run_udf(dataset, Tiles())


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
    # Arguments of a context count more than settings of the process.
    ctx = threads(cpus=0, gpus=[1])
    assert ran(ctx.run_udf(load(ctx, data, 4), Tiles(("numpy", CUPY)))) == {"cupy 1 cuda"}


def test_explain_shows_both(monkeypatch, data):
    fake_cupy.install(monkeypatch)
    ctx = threads(cpus=2)
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


@pytest.mark.parametrize("executor", ["threads", "auto", "inline"])
def test_devices_work_alone_where_they_can_do_all_unless_the_cpu_is_asked_for(
    monkeypatch, data, executor
):
    fake_cupy.install(monkeypatch, n_devices=2)
    either, cpu = Tiles(("numpy", CUPY)), Tiles(("numpy",))

    def workers(ctx, udfs):
        return ctx._prepare(load(ctx, data, 4), udfs, None, None, None, None).workers

    with ff.Context.make_with(executor) as ctx:
        dataset = load(ctx, data, 4)
        for udfs in ([either], [either, Tiles()]):
            assert workers(ctx, udfs).devices
            assert not workers(ctx, udfs).cpus
        result = ctx.run_udf(dataset, either)
        check(result, data)
        assert ran(result) <= {"cupy 0 cuda", "cupy 1 cuda"}
        # Some of it is for the CPU.
        for udfs in ([either, cpu], [either, ff.SumUDF()]):
            assert workers(ctx, udfs).cpus
        # One thread would read for the device.
        of_cuda = Tiles(("cuda", "numpy"))
        assert workers(ctx, [of_cuda]).cpus
        assert workers(ctx, [of_cuda, either]).cpus
        sparse = ctx.load("memory", data=sparse_arrays.coo_array(data.reshape(30, -1)),
                          nav_shape=NAV, sig_shape=SIG)  # fmt: skip
        assert ctx._prepare(sparse, [either], None, None, None, None).workers.cpus
    if executor != "inline":
        with ff.Context.make_with(executor, cpus=3) as ctx:
            assert workers(ctx, [either]).cpus
