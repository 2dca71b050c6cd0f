"""Arrays in memory whose tiles are to be in formats of CUDA. On a stand-in."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest
from cuda_udfs import CUPY, CUPYX, NAV, SIG, Tiles, check_released
from sparse_files import counts

import framefold as ff
from framefold.udf import UDF
from framefold.udf.logsum import LogsumUDF
from framefold.udf.sumsigudf import SumSigUDF

FORMATS = (CUPY, *CUPYX)


def built_in():
    masks = [lambda: np.ones(SIG), lambda: np.eye(*SIG)]
    return [
        ff.SumUDF(),
        SumSigUDF(),
        LogsumUDF(),
        ff.StdDevUDF(),
        ff.MaxUDF(),
        ff.PickUDF(),
        ff.CoMUDF(),
        ff.ApplyMasksUDF(mask_factories=masks),
    ]


@pytest.fixture
def data():
    return counts((*NAV, *SIG), "float32")


@pytest.fixture
def machine(monkeypatch):
    return fake_cupy.install(monkeypatch)


@pytest.mark.parametrize("format_", FORMATS)
def test_tiles_are_made_on_the_device(machine, data, format_):
    with ff.Context.make_with("threads", cpus=0, gpus=1) as ctx:
        dataset = ctx.load("memory", data=data, sig_dims=2, array_backends=(format_,))
        assert dataset.native_backends == (format_,)
        # Whatever the function itself would prefer.
        udf = Tiles(formats=(*reversed(FORMATS), UDF.BACKEND_NUMPY))
        result = ctx.run_udf(dataset, udf)
        np.testing.assert_array_equal(result["total"].data, data.sum(axis=(0, 1)))
        np.testing.assert_array_equal(result["each"].data, data.sum(axis=(2, 3)))
        assert set(result["ran"].data.flat) == {f"{format_} 0 cuda"}
    check_released(machine)


@pytest.mark.parametrize("format_", [*FORMATS, UDF.BACKEND_CUDA])
@pytest.mark.parametrize("gpus", [0, 1])
def test_built_in_functions_take_them(machine, data, format_, gpus):
    roi = np.zeros(NAV, dtype=bool)
    roi[2, 3] = True
    plain = ff.Context.make_with("inline", gpus=0)
    expected = plain.load("memory", data=data, sig_dims=2)
    with ff.Context.make_with("threads", cpus=2, gpus=gpus) as ctx:
        dataset = ctx.load("memory", data=data, sig_dims=2, array_backends=(format_,))
        for udf in built_in():
            chosen = roi if isinstance(udf, ff.PickUDF) else None
            found = ctx.run_udf(dataset, udf, roi=chosen)
            for name, buffer in plain.run_udf(expected, udf, roi=chosen).items():
                np.testing.assert_allclose(found[name].data, buffer.data, rtol=1e-5)


def test_without_a_device(data):
    ctx = ff.Context.make_with("inline", gpus=0)
    dataset = ctx.load("memory", data=data, sig_dims=2, array_backends=(CUPY, "numpy"))
    result = ctx.map(dataset, np.sum)
    np.testing.assert_array_equal(result.data, data.sum(axis=(2, 3)))
