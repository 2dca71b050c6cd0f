"""CUDA devices that fail in the middle of a run, on a stand-in for CuPy: the run, and those after.

What fails are kernels, transfers and allocations, with errors as CuPy raises them.
"""

from __future__ import annotations

import gc
import threading
import warnings

import fake_cupy
import pytest
from cuda_udfs import CUPY, NAV, SIG, Tiles, check, check_released, check_spare, ran
from fake_cuda_errors import ERRORS
from sparse_files import counts

import framefold as ff
from framefold.arrays.cuda import placement, worker
from framefold.exceptions import DeviceError, LimitError
from framefold.utils import devices
from framefold.warnings import LostDeviceWarning

EITHER = ("numpy", CUPY)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("CUDA", "CPU"):
        for prefix in ("FRAMEFOLD", "LIBERTEM"):
            monkeypatch.delenv(f"{prefix}_USE_{name}", raising=False)


@pytest.fixture
def data():
    return counts((*NAV, *SIG), "uint16")


@pytest.fixture
def dataset(ctx, data):
    return ctx.load("memory", data=data, num_partitions=3)


@pytest.fixture
def lost(ctx, machine, dataset):
    """A context of a process that has lost its device."""
    machine.fail("kernel", n_before=5)
    with pytest.raises(DeviceError):
        ctx.run_udf(dataset, Tiles())
    return ctx


def forget(failure):
    failure.value.with_traceback(None)
    failure.value.__cause__.with_traceback(None)


@pytest.mark.parametrize("kind", ["kernel", "copy", "alloc", "pinned", "launch", "set"])
@pytest.mark.parametrize("status", sorted({46, 214, 700, 710, 719}))
def test_an_error_that_breaks_the_device_is_one_clear_error(ctx, machine, dataset, kind, status):
    machine.fail(kind, status, n_before=1)
    with pytest.raises(DeviceError, match="CUDA device 0 failed: cuda") as failure:
        ctx.run_udf(dataset, Tiles())
    name, said = ERRORS[status]
    assert f"{name}: {said}" in str(failure.value)
    assert "backends='numpy'" in str(failure.value)
    assert "restart the process" in str(failure.value)
    assert failure.value.device == 0
    assert isinstance(failure.value, RuntimeError)
    cause = failure.value.__cause__
    assert (type(cause).__module__, cause.status) == ("cupy_backends.cuda.api.runtime", status)
    assert any("Tiles" in note for note in failure.value.__notes__)
    assert devices.lost == {0: f"{name}: {said}"}
    assert devices.detect()["cudas"] == []


def test_later_runs_go_on_with_the_cpu_and_one_warning(lost, dataset, data):
    with pytest.warns(LostDeviceWarning, match=r"device 0 is lost: cudaError") as caught:
        result = lost.run_udf(dataset, Tiles(EITHER))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    check(result, data)
    assert ran(result) == {"numpy None cpu"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(lost.run_udf(dataset, Tiles(EITHER)), data)
        assert "cupy" not in lost.explain(dataset, Tiles(EITHER))


def test_functions_for_devices_alone_hear_why(lost, machine, dataset, data):
    n_asked = len(machine.log)
    for options in ({}, {"backends": "cupy"}):
        udf = Tiles(EITHER if options else (CUPY,))
        with pytest.raises(DeviceError, match=r"device 0 is lost: cudaErrorIll") as failure:
            lost.run_udf(dataset, udf, **options)
        assert failure.value.device == 0
        assert "'numpy'" in str(failure.value)
    assert len(machine.log) == n_asked, "the device was asked for something"
    # What has nothing to do with devices is not affected.
    check(lost.run_udf(dataset, Tiles(("numpy",))), data)


def test_functions_without_cupy_are_kept_from_the_device_too(lost, dataset, data):
    with pytest.warns(LostDeviceWarning):
        result = lost.run_udf(dataset, Tiles(("cuda", "numpy")))
    assert ran(result) == {"numpy None cpu"}


@pytest.mark.parametrize("gpus", [1, [0], [0, 0]])
def test_devices_that_were_asked_for_by_name(lost, data, gpus):
    """The CPU takes their place, also where it was to take no part."""
    with ff.Context.make_with("threads", cpus=0, gpus=gpus) as context:
        dataset = context.load("memory", data=data, num_partitions=3)
        with pytest.warns(LostDeviceWarning):
            result = context.run_udf(dataset, Tiles(EITHER))
        check(result, data)
        assert ran(result) == {"numpy None cpu"}


def test_the_other_devices_go_on(monkeypatch, data):
    machine = fake_cupy.install(monkeypatch, n_devices=3)
    with ff.Context.make_with("threads", cpus=0, gpus=[0, 1]) as context:
        dataset = context.load("memory", data=data, num_partitions=2)
        machine.fail("kernel", n_before=3, device=0)
        with pytest.raises(DeviceError, match="CUDA device 0 failed") as failure:
            context.run_udf(dataset, Tiles(gate=threading.Barrier(2)))
        forget(failure)
        del failure
        # The one that works has given back what it had.
        gc.collect()
        assert ("device", 1) in machine.freed_pools
        assert ("device", 0) not in machine.freed_pools
        assert ("pinned", 1) in machine.freed_pools
        assert machine.live_bytes() == 0
        with pytest.warns(LostDeviceWarning, match="device 0 is lost") as caught:
            result = context.run_udf(dataset, Tiles())
        assert len(caught) == 1
        check(result, data)
        assert ran(result) == {"cupy 1 cuda"}
        assert devices.detect()["cudas"] == [1, 2]


def test_all_devices_are_lost_one_after_the_other(monkeypatch, data):
    machine = fake_cupy.install(monkeypatch, n_devices=2)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=data, num_partitions=3)
    for device in (0, 1):
        machine.fail("kernel", n_before=3, device=device)
        if device:
            warnings.simplefilter("ignore", LostDeviceWarning)
        with pytest.raises(DeviceError, match=f"CUDA device {device} failed"):
            ctx.run_udf(dataset, Tiles())
    result = ctx.run_udf(dataset, Tiles(EITHER))
    check(result, data)
    assert ran(result) == {"numpy None cpu"}


def test_nothing_is_asked_of_a_lost_device(ctx, machine, monkeypatch, dataset):
    """Freed memory goes back to CuPy; what CUDA would complain about is kept."""
    monkeypatch.setattr(placement, "n_readers", lambda *_args, **_kwargs: 2)
    before = len(worker._left_behind)
    machine.fail("kernel", n_before=7)
    with pytest.raises(DeviceError) as failure:
        ctx.run_udf(dataset, Tiles())
    forget(failure)
    del failure
    gc.collect()
    assert machine.live_bytes() == 0
    check_spare(machine)
    assert machine.n_destroyed_broken == 0
    assert machine.freed_pools == []
    left = worker._left_behind[before:]
    n_streams = sum(isinstance(each, fake_cupy.Stream) for each in left)
    # Those for transfers and for computing, and the events of two slots and of staged tiles.
    n_staged = 3 + 2 * 2
    assert (n_streams, len(left)) == (2, 8 + n_staged)


def test_a_device_that_breaks_where_nothing_is_asked_of_it_any_more(ctx, machine, dataset):
    """A run that is left raises nothing; the next one knows."""
    steps = ctx.run_udf_iter(dataset, Tiles())
    next(steps)
    machine.fail("now", 719)
    steps.close()
    del steps
    gc.collect()
    assert machine.live_bytes() == 0
    assert machine.n_destroyed_broken == 0
    assert devices.lost == {0: "cudaErrorLaunchFailure: unspecified launch failure"}


def test_a_run_that_goes_on_while_another_one_loses_the_device(machine, data):
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=data, num_partitions=3)
    steps = ctx.run_udf_iter(dataset, Tiles())
    next(steps)
    machine.fail("kernel")
    with pytest.raises(DeviceError, match="CUDA device 0 failed: cuda"):
        ctx.run_udf(dataset, Tiles())
    with pytest.raises(DeviceError, match="CUDA device 0 is lost: cuda"):
        next(steps)


def test_an_error_of_user_code_on_a_broken_device_comes_back_as_itself(ctx, machine, dataset):
    class Fails(Tiles):
        def process_tile(self, tile):
            machine.fail("now")
            raise KeyError("on purpose")

    with pytest.raises(KeyError, match="on purpose") as failure:
        ctx.run_udf(dataset, Fails())
    notes = "\n".join(failure.value.__notes__)
    assert "Fails" in notes
    assert "CUDA device 0 failed in this run, too: cudaErrorIllegalAddress" in notes
    assert 0 in devices.lost


@pytest.mark.parametrize("kind", ["launch", "set"])
def test_an_error_that_leaves_the_device_usable_comes_back_as_itself(
    ctx, machine, dataset, data, kind
):
    machine.fail(kind, 1, n_before=3, sticky=False)
    with pytest.raises(fake_cupy.CUDARuntimeError, match="invalid argument") as failure:
        ctx.run_udf(dataset, Tiles())
    assert any("Tiles" in note for note in failure.value.__notes__)
    failure.value.with_traceback(None)
    del failure
    assert devices.lost == {}
    check_released(machine)
    result = ctx.run_udf(dataset, Tiles())
    check(result, data)
    assert ran(result) == {"cupy 0 cuda"}


def test_errors_of_compilers_and_of_arguments_are_those_of_user_code(ctx, machine, dataset, data):
    compiles = type("CompileException", (Exception,), {"__module__": "cupy.cuda.compiler"})

    class Wrong(Tiles):
        def process_tile(self, tile):
            raise error

    for error in (compiles("identifier is undefined"), ValueError("shapes")):
        with pytest.raises(type(error), match=str(error)) as failure:
            ctx.run_udf(dataset, Wrong())
        assert not isinstance(failure.value, DeviceError)
    assert devices.lost == {}
    check(ctx.run_udf(dataset, Tiles()), data)


def test_another_device_of_user_code_is_not_the_worker_s(ctx, machine, dataset, data):
    class Elsewhere(Tiles):
        def process_tile(self, tile):
            with fake_cupy.Device(7):
                pass

    with pytest.raises(fake_cupy.CUDARuntimeError, match="invalid device ordinal"):
        ctx.run_udf(dataset, Elsewhere())
    check(ctx.run_udf(dataset, Tiles()), data)


@pytest.mark.parametrize("left", [0, 1])
def test_a_device_that_is_gone_before_the_run(ctx, monkeypatch, data, left):
    """The driver said that there are devices, and CuPy finds fewer."""
    machine = fake_cupy.install(monkeypatch, n_devices=2)
    monkeypatch.setenv("FRAMEFOLD_USE_CUDA", "1")
    machine.n_devices = left
    dataset = ctx.load("memory", data=data, num_partitions=3)
    said = "invalid device ordinal" if left else "no CUDA-capable device is detected"
    with pytest.raises(DeviceError, match=f"CUDA device 1 failed: .*{said}"):
        ctx.run_udf(dataset, Tiles(EITHER))
    with pytest.warns(LostDeviceWarning, match=said):
        result = ctx.run_udf(dataset, Tiles(EITHER))
    check(result, data)
    assert ran(result) == {"numpy None cpu"}


def test_memory_that_runs_out_is_no_loss(ctx, monkeypatch, dataset, data):
    machine = fake_cupy.install(monkeypatch, limit=3000)
    with pytest.raises(LimitError) as failure:
        ctx.run_udf(dataset, Tiles(tile_bytes=4000))
    message = str(failure.value)
    assert "memory of CUDA device 0 ran out (" in message
    # A tile of ten frames is there, and not what is converted from it.
    assert "1.11 KiB of its 2.93 KiB are free; tiles take 1.25 KiB there" in message
    assert "get_tiling_preferences" in message
    assert devices.lost == {}
    machine.limit = None
    check(ctx.run_udf(dataset, Tiles()), data)


def test_memory_of_the_host_that_runs_out(ctx, machine, dataset, data):
    machine.fail("pinned", 2, sticky=False)
    with pytest.raises(LimitError, match="or page-locked memory of the host for it, ran out"):
        ctx.run_udf(dataset, Tiles())
    assert devices.lost == {}
    check(ctx.run_udf(dataset, Tiles()), data)


def test_spare_memory_of_a_lost_device_is_kept(monkeypatch):
    machine = fake_cupy.install(monkeypatch)
    data = counts((*NAV, *SIG), "uint16")
    with ff.Context.make_with("threads", cpus=0, gpus=[0]) as context:
        context.run_udf(context.load("memory", data=data, num_partitions=3), Tiles())
        # Takes few of the tiles that are there.
        machine.fail("kernel", n_before=1)
        with pytest.raises(DeviceError) as failure:
            context.run_udf(context.load("memory", data=data[:1], num_partitions=1), Tiles())
        forget(failure)
        del failure
    gc.collect()
    assert machine.n_destroyed_broken == 0
