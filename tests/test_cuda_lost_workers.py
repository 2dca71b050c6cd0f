"""Worker processes whose CUDA device fails, or is not there, on a stand-in for CuPy in all."""

from __future__ import annotations

import os
import time
import warnings

import fake_cupy
import pytest
from cuda_udfs import CUPY, NAV, SIG, Meeting, Tiles, check, ran
from process_cases import eventually, gone, hard_limit  # noqa: F401 - a fixture
from sparse_files import counts

import framefold as ff
from framefold.exceptions import DeviceError
from framefold.executor._processes.pool import Pool
from framefold.utils import devices
from framefold.warnings import LostDeviceWarning

EITHER = ("numpy", CUPY)

pytestmark = pytest.mark.usefixtures("hard_limit")


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


def processes(**options):
    return ff.Context.make_with("processes", **options)


class Breaks(Meeting):
    """Breaks the device of its worker where a file is, which it removes."""

    def get_task_data(self):
        return {}

    def process_tile(self, tile):
        if self.params.folder.exists():
            os.unlink(self.params.folder)
            fake_cupy.machine.fail("kernel", device=fake_cupy.machine.device)
        super().process_tile(tile)


def test_the_next_run_has_another_worker(data, tmp_path):
    (tmp_path / "break").touch()
    with processes(cpus=0, gpus=[0]) as context:
        context.run_udf(load(context, data), Tiles())
        before = context.executor.worker_ids
        with pytest.raises(DeviceError, match="CUDA device 0 failed: cudaErrorIll") as failure:
            context.run_udf(load(context, data), Breaks((CUPY,), tmp_path / "break", 1))
        assert "the next run starts another" in str(failure.value)
        assert failure.value.device == 0
        assert any("Breaks" in note for note in failure.value.__notes__)
        assert gone(before)
        assert eventually(lambda: not context.executor.worker_ids)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = context.run_udf(load(context, data), Tiles(EITHER))
        check(result, data)
        assert ran(result) == {"cupy 0 cuda"}
    assert devices.lost == {}, "this process has lost nothing"


class Waits(Meeting):
    """Waits in each worker until so many files are in a folder."""

    def get_task_data(self):
        deadline = time.monotonic() + 60
        while len(list(self.params.folder.iterdir())) < self.params.n_workers:
            assert time.monotonic() < deadline, "no device was found to be of no use"
            time.sleep(0.01)
        return {}


def test_workers_on_the_cpu_go_on_where_variables_hide_devices(monkeypatch, data, tmp_path):
    go_on = Pool._go_on_without

    def found(pool, worker, reason):
        go_on(pool, worker, reason)
        (tmp_path / str(worker.device)).touch()

    monkeypatch.setattr(Pool, "_go_on_without", found)
    with processes(cpus=2, gpus=[0, 1]) as context:
        context.run_udf(load(context, data), Tiles(("numpy",)))
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        with pytest.warns(LostDeviceWarning) as caught:
            result = context.run_udf(load(context, data, 6), Waits(EITHER, tmp_path, 2))
        check(result, data)
        assert ran(result) == {"numpy None cpu"}
        assert {warning.filename for warning in caught} == {__file__}
        assert {str(warning.message) for warning in caught} == {
            f"CUDA device {device} is lost: a worker process found cudaErrorNoDevice: no "
            f"CUDA-capable device is detected, with CUDA_VISIBLE_DEVICES=''. Runs go on with the "
            f"CPU and the devices that are left; restart the process to use it again"
            for device in (0, 1)
        }
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = context.run_udf(load(context, data, 6), Tiles(EITHER))
        check(result, data)
        assert ran(result) == {"numpy None cpu"}
        pids = context.executor.worker_ids
        assert len(pids) <= 2
    assert gone(pids)


@pytest.mark.parametrize("formats", [EITHER, (CUPY,)])
def test_without_workers_on_the_cpu_there_is_one_clear_error(monkeypatch, data, formats):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with processes(cpus=0, gpus=[0, 0]) as context:
        with pytest.raises(DeviceError) as failure:
            context.run_udf(load(context, data), Tiles(formats))
        message = str(failure.value)
        assert message.startswith("CUDA device 0 is lost: a worker process found cudaErrorNoDevice")
        assert "CUDA_VISIBLE_DEVICES=''" in message
        assert "'numpy'" in message
        assert eventually(lambda: not context.executor.worker_ids)
        if formats == EITHER:  # now it is known
            with pytest.warns(LostDeviceWarning, match="CUDA_VISIBLE_DEVICES=''"):
                result = context.run_udf(load(context, data), Tiles(formats))
            check(result, data)
            assert ran(result) == {"numpy None cpu"}
        else:
            with pytest.raises(DeviceError, match="CUDA_VISIBLE_DEVICES=''"):
                context.run_udf(load(context, data), Tiles(formats))
            assert not context.executor.worker_ids


def test_devices_that_are_left_go_on(monkeypatch, data):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")  # one, which is number 0
    with processes(cpus=0, gpus=[0, 1]) as context, warnings.catch_warnings():
        # Whether or not the other worker is there in time.
        warnings.simplefilter("ignore", LostDeviceWarning)

        def is_found():
            result = context.run_udf(load(context, data, 8), Tiles())
            check(result, data)
            assert ran(result) == {"cupy 0 cuda"}
            return len(context.executor.worker_ids) == 1 and context.executor._pool.lost

        assert eventually(is_found, 60)


def test_what_this_process_has_lost_worker_processes_may_use(stand_in, data):
    stand_in.fail("now")
    with ff.Context.make_with("threads") as context, pytest.raises(DeviceError):
        context.run_udf(load(context, data), Tiles())
    assert 0 in devices.lost
    with processes(cpus=0, gpus=[0]) as context:
        result = context.run_udf(load(context, data), Tiles())
        check(result, data)
        assert ran(result) == {"cupy 0 cuda"}
