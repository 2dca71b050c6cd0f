"""Dask workers that have a CUDA device, on a stand-in for CuPy in all processes."""

from __future__ import annotations

import asyncio

import fake_cupy
import pytest
from cuda_udfs import CUPY, NAV, Meeting, Memory, Tiles, Where, check, check_beside, ran
from dask_cases import connected_to, forgotten
from process_cases import eventually, hard_limit  # noqa: F401 - a fixture
from sparse_files import counts

import framefold as ff
import framefold.executor.delayed
from framefold.common.backend import get_use_cuda
from framefold.exceptions import LimitError, UnsupportedError, WorkerError
from framefold.executor._dask import devices as dask_devices
from framefold.executor._dask.cluster import LocalWorker

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.usefixtures("hard_limit")


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module", autouse=True)
def stand_in(patch, tmp_path_factory):
    for name in ("CUDA", "CPU"):
        for prefix in ("FRAMEFOLD", "LIBERTEM"):
            patch.delenv(f"{prefix}_USE_{name}", raising=False)
    return fake_cupy.install_for_processes(patch, tmp_path_factory.mktemp("path"), 2)


@pytest.fixture(scope="module")
def both(stand_in):
    """A worker on the CPU, and one with device 1."""
    with ff.Context.make_with("dask", cpus=1, gpus=[1]) as context:
        assert dask_devices.in_spec(context.executor._own.worker_spec) == [
            {"CPU": 1, "compute": 1, "ndarray": 1},
            {"CUDA": 1, "compute": 1, "ndarray": 1},
        ]
        yield context
        assert forgotten(context.executor)


@pytest.fixture(scope="module")
def connected(both):
    with ff.Context(executor=connected_to(both.executor)) as context:
        yield context


@pytest.fixture(params=["both", "connected"])
def either(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def data():
    return counts((*NAV, 7, 9), "uint16")


def load(context, data, n):
    return context.load("memory", data=data, num_partitions=n)


def test_workers_of_both_kinds_share_a_run(either, data, tmp_path):
    result = either.run_udf(load(either, data, 6), Meeting(("numpy", CUPY), tmp_path, 2))
    check(result, data)
    assert ran(result) == {"cupy 1 cuda", "numpy None cpu"}
    assert not fake_cupy.machine.log, "the client used a device"
    explained = either.explain(load(either, data, 6), Tiles(("numpy", CUPY)))
    assert "by tile, numpy; on CUDA devices cupy" in explained


def test_workers_without_a_device_neither_hold_up_others_nor_come_last(both, tmp_path):
    check_beside(both, tmp_path, 400, 60, may_repeat=True)


def test_a_udf_for_devices_alone_keeps_the_cpu_out(either, data):
    udfs = [Tiles(), Tiles(("numpy", CUPY)), Tiles(("numpy",))]
    only, any_, cpu = either.run_udf(load(either, data, 4), udfs)
    for result in (only, any_, cpu):
        check(result, data)
    assert ran(only) == ran(any_) == {"cupy 1 cuda"}
    assert ran(cpu) == {"numpy 1 cuda"}
    plain = either.run_udf(load(either, data, 4), Where(("cuda", "numpy")), backends="cuda")
    assert {each[:3] for each in plain["setting"].raw_data} == {(1, None, "1")}


def test_what_takes_no_format_of_cuda_runs_anywhere(either, data):
    check(either.run_udf(load(either, data, 6), Tiles(("numpy",))), data)
    restricted = either.run_udf(load(either, data, 6), Tiles(("numpy", CUPY)), backends="numpy")
    check(restricted, data)
    assert ran(restricted) <= {"numpy None cpu", "numpy 1 cuda"}


def test_memory_is_given_back_when_a_run_ends(both, data):
    check(both.run_udf(load(both, data, 4), Tiles()), data)
    assert forgotten(both.executor)

    def given_back():
        result = both.run_udf(load(both, data, 1), Memory())
        check(result, data)
        freed = set(result["freed"].raw_data[0].split())
        return int(result["left"].data[0]) == 0 and {"device", "pinned"} <= freed

    assert eventually(given_back)


def test_tasks_of_dask_itself_find_the_resources_they_ask_for(both):
    resources = ff.executor.delayed.DelayedJobExecutor.get_resources_from_udfs(Tiles())
    assert resources == {"CUDA": 1, "compute": 1, "ndarray": 1}
    future = both.executor.client.submit(get_use_cuda, resources=resources, pure=False)
    assert future.result(timeout=60) == 1


def test_failures(both, data):
    class TooMuch(Tiles):
        def process_tile(self, tile):
            raise fake_cupy.OutOfMemoryError("Out of memory allocating 5 bytes")

    with pytest.raises(LimitError, match="memory of CUDA device 1 ran out"):
        both.run_udf(load(both, data, 2), TooMuch())
    check(both.run_udf(load(both, data, 2), Tiles()), data)


def test_a_worker_that_has_no_cupy(both, data):
    """It works on the CPU where that is allowed, and is left out where it is not."""
    client = both.executor.client

    def without_cupy(value, dask_worker):
        from framefold.executor._dask import devices as dask_devices

        before, dask_devices.has_cupy = dask_devices.has_cupy, value or (lambda: False)
        return before

    before = client.run(without_cupy, None)
    try:
        result = both.run_udf(load(both, data, 6), Tiles(("numpy", CUPY)))
        check(result, data)
        assert ran(result) == {"numpy None cpu"}
        with pytest.raises(WorkerError, match="CuPy cannot be imported there"):
            both.run_udf(load(both, data, 2), Tiles())
    finally:
        client.run(without_cupy, next(iter(before.values())))
    check(both.run_udf(load(both, data, 2), Tiles()), data)


def test_clusters_without_devices(data, monkeypatch):
    with ff.Context.make_with("dask", cpus=1, gpus=0) as context:
        both = Tiles(("numpy", CUPY))
        assert ran(context.run_udf(load(context, data, 2), both)) == {"numpy None cpu"}
        with pytest.raises(UnsupportedError, match=r"no worker .* has the resource CUDA; start"):
            context.run_udf(load(context, data, 2), Tiles())
        # A promise that is not kept: no worker that says so has one.
        monkeypatch.setattr(dask_devices, "in_spec", lambda _spec: [{"CUDA": 1}])
        with pytest.raises(WorkerError, match=r"it has no CUDA device \(no resource CUDA\)"):
            context.run_udf(load(context, data, 2), Tiles())


def test_a_worker_with_a_device_that_comes_late_is_waited_for(monkeypatch, data):
    """The one without has refused by then to take part in a run for devices alone."""
    launch = LocalWorker._launch

    def late(process):
        if process._device is None:
            launch(process)
        else:
            asyncio.get_running_loop().call_later(3, launch, process)

    monkeypatch.setattr(LocalWorker, "_launch", late)
    with ff.Context.make_with("dask", cpus=1, gpus=[1]) as context:
        check(context.run_udf(load(context, data, 4), Tiles()), data)
