"""Statistics of each pixel, and the run functions that wrap single UDFs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.udf.logsum import run_logsum
from framefold.udf.stddev import StdDevUDF, consolidate_result, run_stddev
from framefold.udf.sum import SumUDF
from framefold.udf.sumsigudf import run_sumsig

NAMES = ["var", "std", "mean", "varsum", "num_frames", "sum"]


class PythonStdDev(StdDevUDF):
    """The same without the native kernel."""

    def process_frame(self, frame):
        super().process_frame(frame)


class PythonTiles(StdDevUDF):
    """The same, a tile at a time."""

    def get_results(self):
        return super().get_results()


#: Data, parameter, dtype of mean and sum, dtype of the others.
DTYPES = [
    ("u1", None, "f8", "f8"),
    ("u1", "f4", "f4", "f4"),
    ("u2", "f8", "f8", "f8"),
    ("i8", "f4", "f8", "f4"),
    ("f4", "f4", "f4", "f4"),
    ("f8", "f4", "f8", "f4"),
    ("c8", None, "c16", "f8"),
    ("c8", "f4", "c8", "f4"),
    ("f4", "c8", "c8", "f4"),
]


@pytest.mark.parametrize("with_roi", [False, True])
@pytest.mark.parametrize("cls", [StdDevUDF, PythonStdDev, PythonTiles])
@pytest.mark.parametrize(("data_dtype", "dtype", "mean_dtype", "var_dtype"), DTYPES)
def test_statistics(ctx, data, cls, with_roi, data_dtype, dtype, mean_dtype, var_dtype):
    data = (data % 251).astype(data_dtype)
    if data.dtype.kind == "c":
        data = data * np.exp(1j * data.real).astype(data_dtype)
    roi = np.random.default_rng(2).random((6, 7)) < 0.4 if with_roi else None
    dataset = ctx.load("memory", data=data, num_partitions=5)
    result = ctx.run_udf(dataset, cls(dtype=dtype), roi=roi)
    frames = data.reshape((-1, 10, 12)) if roi is None else data[roi]
    frames = frames.astype(np.result_type(data_dtype, "f8"))
    mean = frames.mean(axis=0)
    varsum = (abs(frames - mean) ** 2).sum(axis=0)
    expected = {
        "var": varsum / len(frames),
        "std": np.sqrt(varsum / len(frames)),
        "mean": mean,
        "varsum": varsum,
        "num_frames": np.array([len(frames)]),
        "sum": frames.sum(axis=0),
    }
    assert list(result) == NAMES
    for name, values in expected.items():
        wanted = mean_dtype if name in ("mean", "sum") else var_dtype
        found = result[name].data
        assert found.dtype == ("i8" if name == "num_frames" else wanted), name
        np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_results_so_far_are_those_of_whole_frames(executor):
    data = np.random.default_rng(3).integers(90, 110, (2000, 64, 64)).astype("uint16")
    with shared(executor, cpus=2) as ctx:
        dataset = ctx.load("memory", data=data, sig_dims=2)
        udfs = [StdDevUDF(), SumUDF()]
        assert "bands" in ctx.explain(dataset, udfs)
        n_frames = []
        with ctx.run_udf_iter(dataset, udfs) as steps:
            for step in steps:
                merged = data[step.damage.data]
                n_frames.append(len(merged))
                deviation, total = step
                np.testing.assert_array_equal(total["intensity"].data, merged.sum(axis=0))
                assert deviation["num_frames"].data[0] == len(merged)
                np.testing.assert_allclose(deviation["mean"].data, merged.mean(axis=0), rtol=1e-6)
                np.testing.assert_allclose(deviation["std"].data, merged.std(axis=0), rtol=1e-6)
        assert n_frames == sorted(set(n_frames))
        assert n_frames[-1] == 2000
        assert len(n_frames) > 1


def test_tiles_of_real_numbers_are_copied_once(data):
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=data)
    peaks = []

    class Watched(StdDevUDF):
        def process_tile(self, tile):
            tile = np.ones((4096, *tile.shape[1:]))  # nothing else counts
            tracemalloc.start()
            try:
                super().process_tile(tile)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            peaks.append(peak / tile.nbytes)

    ctx.run_udf(dataset, Watched())
    assert max(peaks) < 1.5


@pytest.mark.filterwarnings("error")
def test_a_deviation_whose_square_is_beyond_the_dtype(data):
    data = data.astype("f4") * 1e30
    expected = data.std(axis=(0, 1), dtype=float)
    for name in ("inline", "delayed"):
        ctx = ff.Context.make_with(name)
        result = ctx.run_udf(ctx.load("memory", data=data), StdDevUDF(dtype="f4"))
        np.testing.assert_allclose(np.asarray(result["std"]), expected, rtol=1e-6)
        assert np.isinf(np.asarray(result["var"])).all()


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_integers_that_doubles_do_not_tell_apart(ctx, data, dtype):
    small = data.astype(dtype)
    large = small + np.array(np.iinfo(dtype).max - small.max(), dtype)
    expected = small.var(axis=(0, 1))
    found = ctx.run_udf(ctx.load("memory", data=large, num_partitions=5), StdDevUDF())
    np.testing.assert_allclose(found["var"].data, expected, rtol=1e-12)
    assert np.array_equal(found["sum"].data, large.astype(object).sum(axis=(0, 1)).astype(float))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of deviations, which are NaN
@pytest.mark.parametrize("cls", [StdDevUDF, PythonStdDev, PythonTiles])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_what_is_infinite_in_one_part_leaves_the_other_of_a_mean(ctx, cls, dtype):
    data = np.full((3, 2, 2), 5 + 2j, dtype)
    data[1, 0, 0], data[2, 1, 1] = complex(np.inf, 2), complex(5, -np.inf)
    found = ctx.run_udf(ctx.load("memory", data=data, sig_dims=2), cls(dtype=dtype))["mean"].data
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.real, [[np.inf, 5], [5, 5]])
    np.testing.assert_array_equal(found.imag, [[2, 2], [2, -np.inf]])


def test_plain_arrays(ctx, dataset, data):
    roi = data[..., 0, 0] % 3 > 0
    result = run_stddev(ctx, dataset, roi=roi)
    assert set(result) == set(NAMES)
    assert np.ndim(result["num_frames"]) == 0
    assert result["num_frames"] == np.count_nonzero(roi)
    for name in ("var", "std", "mean", "varsum", "sum"):
        assert type(result[name]) is np.ndarray
    np.testing.assert_allclose(result["std"], data[roi].std(axis=0))
    again = consolidate_result(ctx.run_udf(dataset, StdDevUDF(), roi=roi))
    assert all(np.array_equal(again[name], result[name]) for name in NAMES)


def test_run_functions_of_sums(ctx, dataset, data):
    roi = data[..., 0, 0] % 3 > 0
    sums = run_sumsig(ctx, dataset)["intensity"].data
    assert np.array_equal(sums, data.sum(axis=(2, 3)))
    frames = data[roi].astype(float)
    least = frames.min(axis=(1, 2), keepdims=True)
    logsum = run_logsum(ctx, dataset, roi=roi)["logsum"].data
    np.testing.assert_allclose(logsum, np.log(frames - least + 1).sum(axis=0), rtol=1e-5)
