"""Every built-in function on arrays whose tiles are in formats of CUDA, on a stand-in for CuPy."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest
from cuda_udfs import CUPY, CUPYX, check_released
from sparse_files import counts
from test_formats_builtin import BUILTIN, NAV, SIG, compare, in_python

import framefold as ff
from framefold.udf import UDF
from framefold.udf.record import RecordUDF

FORMATS = (CUPY, *CUPYX, UDF.BACKEND_CUDA)
#: Devices alone, devices with the CPU, the CPU alone.
WORKERS = {"device": (0, 1), "both": (2, 1), "cpu": (2, 0)}


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    for name in ("CUDA", "CPU"):
        for prefix in ("FRAMEFOLD", "LIBERTEM"):
            monkeypatch.delenv(f"{prefix}_USE_{name}", raising=False)
    return fake_cupy.install(monkeypatch)


@pytest.fixture(params=WORKERS)
def ctx(request):
    cpus, gpus = WORKERS[request.param]
    with ff.Context.make_with("threads", cpus=cpus, gpus=gpus) as context:
        yield context


def arrays(dtype):
    data = counts((*NAV, *SIG), dtype)
    rng = np.random.default_rng(2)
    for roi in (None, rng.random(NAV) < 0.5):
        yield data, roi, data[np.ones(NAV, bool) if roi is None else roi]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", BUILTIN)
def test_built_in_functions(ctx, machine, name, format_):
    builtin = BUILTIN[name]
    for dtype in ("uint16", "float32"):
        for data, roi, frames in arrays(dtype):
            dataset = ctx.load("memory", data=data, num_partitions=3, array_backends=(format_,))
            assert dataset.native_backends == (format_,)
            compare(builtin, frames, ctx.run_udf(dataset, builtin.make(), roi=roi))
            # As subclasses with hooks of their own run.
            compare(builtin, frames, ctx.run_udf(dataset, in_python(builtin.make()), roi=roi))
            # Beside a function that gets the tiles themselves, if there is a device.
            together = [builtin.make(), Marks()]
            compare(builtin, frames, ctx.run_udf(dataset, together, roi=roi)[0])
    if machine.freed_pools:
        check_released(machine)


class Marks(UDF):
    """Takes everything, and does nothing with it."""

    def get_backends(self):
        return (self.BACKEND_NUMPY, *FORMATS)

    def get_result_buffers(self):
        return {"seen": self.buffer("nav", dtype=object)}

    def process_tile(self, tile):
        self.results.seen[:] = self.meta.array_backend


@pytest.mark.parametrize("format_", FORMATS)
def test_functions_get_the_tiles_in_that_format(machine, format_):
    data = counts((*NAV, *SIG), "uint16")
    with ff.Context.make_with("inline") as ctx:
        dataset = ctx.load("memory", data=data, num_partitions=3, array_backends=(format_,))
        assert set(ctx.run_udf(dataset, Marks())["seen"].raw_data) == {format_}


@pytest.mark.parametrize("format_", FORMATS)
def test_frames_are_recorded(ctx, tmp_path, format_):
    data = counts((*NAV, *SIG), "uint16")
    dataset = ctx.load("memory", data=data, num_partitions=3, array_backends=(format_,))
    ctx.run_udf(dataset, RecordUDF(str(tmp_path / "copy.npy")))
    np.testing.assert_array_equal(np.load(tmp_path / "copy.npy"), data)


@pytest.mark.parametrize("format_", FORMATS)
def test_frames_by_number_and_functions_of_frames(ctx, format_):
    data = counts((*NAV, *SIG), "uint16")
    dataset = ctx.load("memory", data=data, num_partitions=3, array_backends=(format_,))
    np.testing.assert_array_equal(dataset[2, 3], data[2, 3])
    np.testing.assert_array_equal(ctx.map(dataset, np.sum).data, data.sum(axis=(2, 3)))
