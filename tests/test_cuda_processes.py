"""Worker processes that have a CUDA device each, on a stand-in for CuPy in all of them."""

from __future__ import annotations

import os

import fake_cupy
import numpy as np
import pytest
from cuda_udfs import CUPY, NAV, SIG, Meeting, Memory, Tiles, Where, check, check_beside, ran
from process_cases import PerFrame, frames, gone, hard_limit  # noqa: F401 - a fixture
from sparse_files import counts

import framefold as ff
from framefold.common.backend import get_use_cuda
from framefold.exceptions import InvalidArgumentError, LimitError, UnsupportedError
from framefold.executor.processes import ProcessJobExecutor
from framefold.udf import UDF

pytestmark = pytest.mark.usefixtures("hard_limit", "machine")


@pytest.fixture(scope="module")
def module_patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def stand_in(module_patch, tmp_path_factory):
    for name in ("CUDA", "CPU"):
        for prefix in ("FRAMEFOLD", "LIBERTEM"):
            module_patch.delenv(f"{prefix}_USE_{name}", raising=False)
    return fake_cupy.install_for_processes(module_patch, tmp_path_factory.mktemp("path"), 2)


@pytest.fixture(autouse=True)
def machine(stand_in):
    return stand_in


@pytest.fixture(scope="module")
def both(stand_in):
    """Two workers on the CPU, and two with a device."""
    with ff.Context.make_with("processes", cpus=1, gpus=[0, 1]) as context:
        yield context


@pytest.fixture(scope="module")
def data():
    return counts((*NAV, *SIG), "uint16")


class Copies(UDF):
    """Every pixel, as the device got it."""

    def get_backends(self):
        return (CUPY,)

    def get_result_buffers(self):
        sig = tuple(self.meta.dataset_shape.sig)
        return {"copy": self.buffer("nav", sig, "float32", where="device")}

    def get_tiling_preferences(self):
        return {"depth": 4, "total_size": 4 * 4 * self.meta.dataset_shape.sig.size}

    def process_tile(self, tile):
        self.results.copy[:] = tile


@pytest.mark.parametrize(("n_frames", "chunk"), [(61, 4), (90, 8), (150, 16)])
def test_short_partitions_come_before_long_ones(both, tmp_path, n_frames, chunk):
    """Partitions end where chunks do; each worker keeps its staging memory for all of them."""
    h5py = pytest.importorskip("h5py")
    data = np.random.default_rng(n_frames).integers(0, 4000, (n_frames, 16, 12), dtype="uint16")
    path = tmp_path / "chunks.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("frames", data=data, chunks=(chunk, 16, 12), compression="gzip")
    dataset = both.load("hdf5", path, ds_path="frames")
    steps = both.run_udf_iter(dataset, Copies())
    n_merged = [0, *(np.count_nonzero(step.damage.data) for step in steps)]
    assert len(set(np.diff(n_merged))) > 1
    result = both.run_udf(dataset, Copies())
    np.testing.assert_array_equal(result["copy"].raw_data, data)


def load(context, data, n):
    return context.load("memory", data=data, num_partitions=n)


def test_workers_of_both_kinds_share_a_run(both, data, tmp_path):
    dataset = load(both, data, 6)
    result = both.run_udf(dataset, Meeting(("numpy", CUPY), tmp_path, 3))
    check(result, data)
    assert ran(result) == {"cupy 0 cuda", "cupy 1 cuda", "numpy None cpu"}
    assert len(both.executor.worker_ids) == 3
    assert not fake_cupy.machine.log, "the main process used a device"
    explained = both.explain(dataset, Tiles(("numpy", CUPY)))
    assert (
        "up to 1 worker processes on the CPU, and one for each of the CUDA devices 0, 1"
        in explained
    )
    assert "by tile, numpy; on CUDA devices cupy" in explained


def test_workers_without_a_device_neither_hold_up_others_nor_come_last(both, tmp_path):
    check_beside(both, tmp_path, 400, 60)


def test_a_udf_for_devices_alone_keeps_the_cpu_out(both, data, tmp_path):
    udfs = [Meeting((CUPY,), tmp_path, 2), Tiles(("numpy", CUPY)), Tiles(("numpy",))]
    only, either, cpu = both.run_udf(load(both, data, 4), udfs)
    for result in (only, either, cpu):
        check(result, data)
    assert ran(only) == ran(either) == {"cupy 0 cuda", "cupy 1 cuda"}
    assert ran(cpu) == {"numpy 0 cuda", "numpy 1 cuda"}
    plain = both.run_udf(load(both, data, 4), Where(("cuda", "numpy")), backends="cuda")
    assert {each[:3] for each in plain["setting"].raw_data} <= {(0, None, "0"), (1, None, "1")}


def test_what_takes_no_format_of_cuda_runs_on_the_cpu(both, data):
    with_device = both.run_udf(load(both, data, 6), Where((CUPY,)))
    without = both.run_udf(load(both, data, 6), Where(("numpy",)))
    assert not set(with_device["pid"].data.flat) & set(without["pid"].data.flat)
    assert set(without["setting"].raw_data) == {(None, 0, None, None, None)}
    restricted = both.run_udf(load(both, data, 6), Tiles(("numpy", CUPY)), backends="numpy")
    assert ran(restricted) == {"numpy None cpu"}


def test_memory_is_given_back_when_a_run_ends(both, data, tmp_path):
    check(both.run_udf(load(both, data, 4), Meeting((CUPY,), tmp_path, 2)), data)
    result = both.run_udf(load(both, data, 1), Memory())
    check(result, data)
    assert int(result["left"].data[0]) == 0
    for freed in result["freed"].raw_data:
        assert {"device", "pinned"} <= set(freed.split())


def test_runs_step_by_step_and_rois(both, data):
    roi = np.arange(30).reshape(NAV) % 3 == 0
    steps = list(both.run_udf_iter(load(both, data, 4), Tiles(), roi=roi))
    np.testing.assert_array_equal(steps[-1].buffers[0]["each"].raw_data, data.sum(axis=(2, 3))[roi])
    steps = both.run_udf_iter(load(both, data, 4), Tiles())
    next(steps)
    steps.close()
    check(both.run_udf(load(both, data, 4), Tiles()), data)


def test_environment_of_workers(monkeypatch, data):
    monkeypatch.setenv("LIBERTEM_USE_CUDA", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    with ff.Context.make_with("processes", cpus=1) as context:
        result = context.run_udf(load(context, data, 2), Where(("numpy", CUPY)))
        # As in other executors, a device that is set is the only worker.
        assert set(result["setting"].raw_data) == {(1, None, "1", "", "4,7")}
        monkeypatch.setenv("LIBERTEM_USE_CUDA", "")
        monkeypatch.setenv("FRAMEFOLD_USE_CPU", "0")
        result = context.run_udf(load(context, data, 2), Where(("numpy", CUPY)))
        assert {each[0] for each in result["setting"].raw_data} <= {1, None}
        assert "CUDA" not in context.explain(load(context, data, 2), Tiles(("numpy", CUPY)))


class Dies(Tiles):
    """Ends its process where a file is, which it removes."""

    def get_task_data(self):
        try:
            os.unlink(self.params.keep)
        except FileNotFoundError:
            return {}
        os._exit(3)

    def process_tile(self, tile):
        self.add(tile[:], len(tile))

    def add(self, array, n_frames):
        self.results.each[:] += array.reshape((n_frames, -1)).sum(axis=1)
        self.results.total[:] += array.sum(axis=0)
        self.results.ran[:] = str(get_use_cuda())


class TooMuch(Tiles):
    def process_tile(self, tile):
        raise fake_cupy.OutOfMemoryError("Out of memory allocating 5 bytes")


def test_failures(data, tmp_path):
    with ff.Context.make_with("processes", cpus=0, gpus=[1]) as context:
        with pytest.raises(LimitError, match="memory of CUDA device 1 ran out"):
            context.run_udf(load(context, data, 2), TooMuch())
        (tmp_path / "die").touch()
        result = context.run_udf(load(context, data, 2), Dies(keep=str(tmp_path / "die")))
        check(result, data)
        assert ran(result) == {"1"}
        # What cannot run on devices is not affected.
        assert context.executor.gpus_only
        pids = context.executor.worker_ids
        assert len(pids) == 1
        check(context.run_udf(load(context, data, 2), Tiles(("numpy",))), data)
    assert gone(pids)


def test_without_devices(monkeypatch, data):
    with ff.Context.make_with("processes", cpus=1, gpus=0) as context:
        assert ran(context.run_udf(load(context, data, 2), Tiles(("numpy", CUPY)))) == {
            "numpy None cpu"
        }
        with pytest.raises(UnsupportedError, match=r"needs a CUDA worker.*made with gpus=0"):
            context.run_udf(load(context, data, 2), Tiles())
    with ff.Context.make_with("processes", cpus=1, gpus=3) as context:
        with pytest.raises(InvalidArgumentError, match="gpus is 3, and CUDA devices there are: 0"):
            context.run_udf(load(context, data, 2), Tiles())
        assert not context.executor.worker_ids
    monkeypatch.setattr("framefold.utils.devices.cuda_ids", list)
    monkeypatch.setattr("framefold.utils.devices.why_no_device", lambda: "none in this test")
    with (
        ff.Context.make_with("processes", cpus=1) as context,
        pytest.raises(UnsupportedError, match=r"needs a CUDA worker.*none in this test"),
    ):
        context.run_udf(load(context, data, 2), Tiles())
    for wrong in (-1, [True], "0"):
        with pytest.raises(InvalidArgumentError, match="expected how many CUDA devices"):
            ProcessJobExecutor(gpus=wrong)
    with pytest.raises(InvalidArgumentError, match="together with gpus"):
        ProcessJobExecutor(0)


def test_built_in_reductions_run_there(both, data):
    dataset = load(both, data, 4)
    udfs = [ff.SumUDF(), ff.CoMUDF(), ff.StdDevUDF(), ff.PickUDF()]
    plain = ff.Context.make_with("inline", gpus=0)
    expected = plain.run_udf(load(plain, data, 4), udfs)
    for one, other in zip(both.run_udf(dataset, udfs, backends="cupy"), expected, strict=True):
        for name, buffer in other.items():
            np.testing.assert_allclose(one[name].data, buffer.data, rtol=1e-5)
    np.testing.assert_array_equal(
        both.run_udf(dataset, ff.SumUDF(), backends="cupy")["intensity"].data, data.sum((0, 1))
    )
    assert not fake_cupy.machine.log, "the main process used a device"
