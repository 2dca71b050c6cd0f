"""Dask workers whose CUDA device fails, or is not there, on a stand-in for CuPy in all."""

from __future__ import annotations

import warnings

import fake_cupy
import pytest
from cuda_udfs import CUPY, NAV, SIG, Tiles, check, ran
from process_cases import hard_limit  # noqa: F401 - a fixture
from sparse_files import counts

import framefold as ff
from framefold.exceptions import DeviceError, WorkerError
from framefold.utils import devices
from framefold.warnings import LostDeviceWarning

pytest.importorskip("distributed")
pytestmark = pytest.mark.usefixtures("hard_limit")

EITHER = ("numpy", CUPY)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch, tmp_path_factory):
    for name in ("CUDA", "CPU"):
        for prefix in ("FRAMEFOLD", "LIBERTEM"):
            monkeypatch.delenv(f"{prefix}_USE_{name}", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return fake_cupy.install_for_processes(monkeypatch, tmp_path_factory.mktemp("path"), 2)


@pytest.fixture
def data():
    return counts((*NAV, *SIG), "uint16")


def load(context, data, n=4):
    return context.load("memory", data=data, num_partitions=n)


class Breaks(Tiles):
    """Breaks the device of its worker."""

    def process_tile(self, tile):
        fake_cupy.machine.fail("kernel", device=fake_cupy.machine.device)
        super().process_tile(tile)


def test_a_device_that_breaks(data):
    with ff.Context.make_with("dask", cpus=0, gpus=[1]) as context:
        with pytest.raises(DeviceError, match="CUDA device 1 failed: cudaErrorIllegal") as failure:
            context.run_udf(load(context, data), Breaks())
        assert "restart that to use it again" in str(failure.value)
        # The plan is for devices alone, as no worker is on the CPU.
        with pytest.raises(WorkerError, match="it cannot use CUDA device 1: cudaErrorIllegal"):
            context.run_udf(load(context, data), Tiles())
        check(context.run_udf(load(context, data), Tiles(EITHER), backends="numpy"), data)
    assert devices.lost == {}, "this process has lost nothing"


def test_devices_that_variables_hide(monkeypatch, data):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with ff.Context.make_with("dask", cpus=1, gpus=[0]) as context:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # Until the worker with the device has had a partition.
            for _ in range(20):
                result = context.run_udf(load(context, data, 8), Tiles(EITHER))
                check(result, data)
                assert ran(result) == {"numpy None cpu"}
        assert [warning.category for warning in caught] == [LostDeviceWarning]
        message = str(caught[0].message)
        assert "CUDA device 0 is lost: the Dask worker at " in message
        assert "found cudaErrorNoDevice: no CUDA-capable device is detected, with " in message
        assert "CUDA_VISIBLE_DEVICES=''" in message
        with pytest.raises(WorkerError, match="CUDA_VISIBLE_DEVICES=''"):
            context.run_udf(load(context, data), Tiles())
