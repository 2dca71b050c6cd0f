"""Which device to use, and which there are, asked outside of runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from framefold.common.backend import (
    get_device_class,
    get_use_cpu,
    get_use_cuda,
    set_use_cpu,
    set_use_cuda,
    working_on,
)
from framefold.exceptions import InvalidArgumentError
from framefold.utils import devices

NAMES = [f"{prefix}_USE_{kind}" for prefix in ("FRAMEFOLD", "LIBERTEM") for kind in ("CUDA", "CPU")]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that whatever happens is undone
        monkeypatch.delenv(name)


def asked():
    return get_use_cuda(), get_use_cpu(), get_device_class()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (None, 0, "cpu")),
        ({"LIBERTEM_USE_CUDA": "1"}, (1, None, "cuda")),
        ({"LIBERTEM_USE_CPU": "3"}, (None, 3, "cpu")),
        ({"FRAMEFOLD_USE_CUDA": "2", "LIBERTEM_USE_CUDA": "1"}, (2, None, "cuda")),
        ({"FRAMEFOLD_USE_CPU": "0", "LIBERTEM_USE_CUDA": "1"}, (None, 0, "cpu")),
        ({"FRAMEFOLD_USE_CUDA": " ", "LIBERTEM_USE_CUDA": " 1 "}, (1, None, "cuda")),
        ({"FRAMEFOLD_USE_CUDA": "0", "FRAMEFOLD_USE_CPU": "0"}, (0, None, "cuda")),
    ],
)
def test_environment(monkeypatch, variables, expected):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert asked() == expected


def test_what_was_set_last_counts(monkeypatch):
    monkeypatch.setenv("LIBERTEM_USE_CPU", "0")
    set_use_cuda(1)
    assert asked() == (1, None, "cuda")
    set_use_cpu(4)
    assert asked() == (None, 4, "cpu")
    assert [name for name in NAMES if name in os.environ] == ["FRAMEFOLD_USE_CPU"]


def test_a_worker_knows_its_own_device():
    set_use_cuda(1)
    with working_on(None):
        assert asked() == (None, 0, "cpu")
        with working_on(0):
            assert asked() == (0, None, "cuda")
        assert get_use_cuda() is None
    assert get_use_cuda() == 1


@pytest.mark.parametrize("wrong", ["one", "-1", "0,1", "1.5"])
def test_what_is_no_number(monkeypatch, wrong):
    monkeypatch.setenv("FRAMEFOLD_USE_CUDA", wrong)
    with pytest.raises(InvalidArgumentError, match=r"FRAMEFOLD_USE_CUDA: '.*' is not the number"):
        get_use_cuda()
    with pytest.raises(InvalidArgumentError, match=r"set_use_cuda: '.*' is not the number"):
        set_use_cuda(wrong)


def test_detect():
    found = devices.detect()
    assert found.keys() == {"cpus", "cudas", "has_cupy"}
    assert found["cpus"]
    assert found["cudas"] == list(range(len(found["cudas"])))
    assert isinstance(found["has_cupy"], bool)
    assert bool(devices.why_no_device()) != bool(found["cudas"])


def test_devices_that_are_hidden():
    """CUDA itself counts them; without a driver there are none anyway."""
    script = "from framefold.utils.devices import detect; print(detect()['cudas'])"
    command = [sys.executable, "-c", script]
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command, env=hidden, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "[]"


NO_DEVICE = "the CUDA driver shows no device with CUDA_VISIBLE_DEVICES='7'"


def driver(count, status=0):
    class Driver:
        @staticmethod
        def cuInit(flags):
            return status

        @staticmethod
        def cuDeviceGetCount(pointer):
            pointer._obj.value = count
            return 0

    return Driver


@pytest.mark.parametrize(
    ("loaded", "expected"),
    [
        (driver(2), (2, "")),
        (driver(0), (0, f"{NO_DEVICE} (status 0)")),
        (driver(1, 100), (0, f"{NO_DEVICE} (status 100)")),
        (object(), (0, "libcuda.so.1 is no CUDA driver")),
        (None, (0, "no CUDA driver is installed")),
    ],
)
def test_what_the_driver_says(monkeypatch, loaded, expected):
    def load(name):
        if loaded is None:
            raise OSError(f"{name}: cannot open shared object file")
        return loaded

    monkeypatch.setattr(devices.ctypes, "CDLL", load)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert devices._asked_driver.__wrapped__() == expected


def test_a_broken_cupy_is_none(monkeypatch, tmp_path):
    (tmp_path / "cupy.py").write_text("raise RuntimeError('built for another CUDA')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    assert devices.cupy_installed()
    assert not devices.has_cupy()
