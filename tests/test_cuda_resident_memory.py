"""Memory of frames that stay on a CUDA device: when it is given back, and what does not fit."""

from __future__ import annotations

import gc
import sys

import fake_cupy
import numpy as np
import pytest
from cuda_udfs import Tiles, check, check_released
from test_cuda_reductions import frames_of
from test_cuda_resident import several_partitions  # noqa: F401 - a fixture

import framefold as ff
from framefold.exceptions import (
    InvalidArgumentError,
    LimitError,
    MissingLibraryError,
    UDFRunCancelled,
    UnsupportedError,
)
from framefold.udf import UDF


@pytest.fixture
def data():
    return frames_of("uint16")


@pytest.fixture
def dataset(ctx, data):
    return ctx.load("memory", data=data, num_partitions=3)


def check_nothing_left(machine):
    gc.collect()
    assert machine.live_bytes() == 0


@pytest.mark.parametrize("how", ["close", "with", "let go", "an error"])
def test_memory_is_given_back(ctx, device, dataset, how):
    udfs = [Tiles2(), ff.SumUDF(), ff.CoMUDF()]  # which stay, and know their last run
    resident = dataset.to_device()
    ctx.run_udf(resident, udfs)
    if not device.is_real:
        gc.collect()
        assert device.machine.live_bytes() == resident.resident.n_bytes
    if how == "close":
        resident.close()
        resident.close()
        assert "closed" in repr(resident)
    elif how == "with":
        with resident:
            pass
    elif how == "let go":
        del resident
    else:
        with pytest.raises(KeyError), resident:
            raise KeyError
    device.check_released()
    if not device.is_real:
        assert device.machine.live_bytes() == 0


class Tiles2(UDF):
    """As Tiles, for real devices, too."""

    def get_backends(self):
        return (self.BACKEND_CUPY,)

    def get_result_buffers(self):
        return {"total": self.buffer("sig", dtype="float64", where="device")}

    def process_tile(self, tile):
        self.results.total[:] += tile.sum(axis=0)

    def merge(self, dest, src):
        dest.total[:] += src.total


def test_a_run_whose_frames_are_given_back(ctx, machine, dataset):
    resident = dataset.to_device()

    class Closes(Tiles):
        def process_tile(self, tile):
            resident.close()
            super().process_tile(tile)

    with pytest.raises(InvalidArgumentError, match=r"given back by close\(\)"):
        ctx.run_udf(resident, Closes())
    check_released(machine)


def test_what_does_not_fit(ctx, monkeypatch, data):
    n_bytes = data.nbytes
    machine = fake_cupy.install(monkeypatch, limit=int(n_bytes * 1.2))
    dataset = ctx.load("memory", data=data, num_partitions=3)
    for budget, why in ((None, "80% of what is free"), (n_bytes - 1, "the budget of")):
        match = rf"take {n_bytes} bytes, and CUDA device 0 has.*{why}"
        with pytest.raises(LimitError, match=match):
            dataset.to_device(budget=budget)
    assert machine.log == []
    # What was free a moment ago is not any more.
    monkeypatch.setattr(sys.modules["cupy"].cuda.runtime, "memGetInfo", lambda: (1 << 40, 1 << 40))
    machine.limit = n_bytes - 1
    with pytest.raises(LimitError, match="Out of memory allocating"):
        dataset.to_device()
    # The frames fit, and tiles on the way there do not.
    machine.limit = n_bytes + 10
    with pytest.raises(LimitError, match="memory of CUDA device 0 ran out"):
        dataset.to_device()
    check_nothing_left(machine)
    machine.limit = None
    check(ctx.run_udf(dataset.to_device(budget=n_bytes), Tiles()), data)
    with pytest.raises(InvalidArgumentError, match=r"budget=1\.5 is not a whole number"):
        dataset.to_device(budget=1.5)


class Reports:
    """What a run says of itself; raises after so many merges."""

    def __init__(self, error=None, after=1):
        self.seen, self._error, self._after = [], error, after

    def start(self, state):
        self.seen.append("start")

    def update(self, state):
        self.seen.append(state.num_part_complete)
        if self._error is not None and state.num_part_complete == self._after:
            raise self._error

    def end(self, state):
        self.seen.append("end")


def test_progress_and_a_load_that_is_cancelled(ctx, machine, dataset, data):
    reports = Reports()
    check(ctx.run_udf(dataset.to_device(progress=reports), Tiles()), data)
    assert reports.seen[0] == "start"
    assert reports.seen[-2:] == [3, "end"]
    for error in (KeyboardInterrupt(), UDFRunCancelled("on purpose")):
        with pytest.raises(type(error)) as cancelled:
            dataset.to_device(progress=Reports(error))
        error.with_traceback(None)
        cancelled.value.with_traceback(None)
        del cancelled
        check_released(machine)


def test_what_goes_wrong_on_the_device_shows(ctx, machine, dataset, monkeypatch):
    """Before anybody takes what is there for the frames."""

    def lost(_stream):
        raise RuntimeError("the device is lost")

    monkeypatch.setattr(fake_cupy.Stream, "synchronize", lost)
    with pytest.raises(RuntimeError, match="is lost"):
        dataset.to_device()


def test_a_stage_that_fails(ctx, machine, dataset):
    class Fails(ff.Transform):
        def process_frame(self, frame, out):
            raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError) as failure:
        dataset.pipe(Fails()).to_device()
    failure.value.with_traceback(None)
    del failure
    check_nothing_left(machine)


# --- Without a device ---------------------------------------------------------------------------


def test_what_is_missing(monkeypatch, data):
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=data)
    fake_cupy.install(monkeypatch, n_devices=0)
    with pytest.raises(UnsupportedError, match="cannot be brought to a CUDA device: none in this"):
        dataset.to_device()
    fake_cupy.install(monkeypatch, n_devices=2)
    with pytest.raises(InvalidArgumentError, match="no CUDA device 2; there are: 0, 1"):
        dataset.to_device(2)
    with pytest.raises(InvalidArgumentError, match="device='cuda' is not a whole number"):
        dataset.to_device("cuda")
    for device in (True, False):
        with pytest.raises(InvalidArgumentError, match=f"device={device} is not the number"):
            dataset.to_device(device=device)
    fake_cupy.install(monkeypatch, with_cupy=False)
    monkeypatch.setattr("framefold.utils.devices.has_cupy", lambda: False)
    with pytest.raises(UnsupportedError, match="CuPy is not installed"):
        dataset.to_device()
    with pytest.raises(MissingLibraryError, match=r"needs CuPy.*cupy-cuda12x"):
        dataset.to_device(0)


def test_data_sets_without_one(data):
    ctx = ff.Context.make_with("inline")
    with ctx.load("memory", data=data) as dataset:
        assert dataset.resident is None
    dataset.close()
    np.testing.assert_array_equal(dataset[0, 0], data[0, 0])
