"""What docs/guide/same-bits.md says, line by line."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.udf.com import CoMUDF
from framefold.udf.logsum import LogsumUDF
from framefold.udf.masks import ApplyMasksUDF
from framefold.udf.stddev import StdDevUDF
from framefold.udf.sumsigudf import SumSigUDF

RNG = np.random.default_rng(19)
MASKS = RNG.integers(-9, 9, (3, 24, 40))


def functions():
    return {
        "sum": ff.SumUDF(),
        "std": StdDevUDF(),
        "sum_sig": SumSigUDF(),
        "com": CoMUDF.with_params(cy=11, cx=20),
        "masks": ApplyMasksUDF(lambda: MASKS),
        "shifted": ApplyMasksUDF(lambda: MASKS, shifts=(2, -3)),
        "logsum": LogsumUDF(),
    }


def run(ctx, dataset, alone=True):
    udfs = functions()
    if alone:
        results = [ctx.run_udf(dataset, udf) for udf in udfs.values()]
    else:
        results = ctx.run_udf(dataset, list(udfs.values()))
    return {
        (name, key): result[key].raw_data
        for name, result in zip(udfs, results, strict=True)
        for key in result
    }


def cuts(ctx, array, tmp_path):
    """The same frames, cut in several ways."""
    for num_partitions in (1, 3, 7):
        yield ctx.load("memory", data=array, sig_dims=2, num_partitions=num_partitions)
    yield ctx.load("memory", data=array, sig_dims=2, tileshape=(2, 8, 40))
    h5py = pytest.importorskip("h5py")
    for chunks in ((1, 24, 40), (4, 5, 7)):
        path = tmp_path / f"{chunks[0]}.h5"
        if not path.exists():  # another context may have it open
            with h5py.File(path, "w") as file:
                file.create_dataset("data", data=array, chunks=chunks)
        yield ctx.load("hdf5", path=path, ds_path="data", sig_dims=2)


@pytest.fixture(scope="module")
def inline():
    with ff.Context.make_with("inline") as ctx:
        yield ctx


@pytest.mark.parametrize("dtype", ["uint16", "int32", "float32"])
def test_integers_do_not_depend_on_cuts(inline, tmp_path, dtype):
    array = RNG.integers(0, 30_000, (45, 24, 40)).astype(dtype)
    found = [run(inline, dataset) for dataset in cuts(inline, array, tmp_path)]
    for other in found[1:]:
        for key, value in found[0].items():
            if key[0] == "logsum" or (key[0] == "std" and dtype == "float32"):
                continue
            assert np.array_equal(value, other[key], equal_nan=True), key


def masks_of(dtype):
    """Masks of integers of magnitudes up to 8, one of which has no other."""
    masks = np.random.default_rng(20).integers(-8, 9, (3, 24, 40))
    masks[0] = 8
    return masks.astype(dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize(
    ("largest", "mask_dtype", "options"),
    [
        (2**13, "float32", {}),
        (2**13, "int8", {}),
        (2**13, "complex64", {}),
        (2**24, "float32", {"preferred_dtype": "float64"}),
        (2**24, "float32", {"use_sparse": True}),
        (2**13, "float32", {"shifts": (0, 0)}),
        (2**24, "int32", {}),
    ],
)
def test_masks_of_integers_on_integers_in_floats(
    inline, tmp_path, dtype, largest, mask_dtype, options
):
    pytest.importorskip("scipy")
    largest = min(largest, 2**15) if dtype == "float16" else largest
    array = np.random.default_rng(21).integers(largest - 50, largest + 1, (45, 24, 40))
    if dtype == "float16":
        array -= array % 16
    data = array.astype(dtype)
    if dtype == "complex64":
        data = data - data[::-1] * np.complex64(1j)
    masks = masks_of(mask_dtype)
    wide = np.complex128 if "complex" in dtype + mask_dtype else np.float64
    exact = np.tensordot(data.astype(wide), masks.astype(wide), ((1, 2), (1, 2)))
    udf = ApplyMasksUDF(lambda: masks, **options)
    for dataset in cuts(inline, data, tmp_path):
        found = inline.run_udf(dataset, udf)["intensity"].raw_data
        assert np.array_equal(found, exact.astype(found.dtype))


def test_other_numbers_depend_on_cuts_by_rounding(inline, tmp_path):
    array = RNG.normal(size=(45, 24, 40))
    found = [run(inline, dataset) for dataset in cuts(inline, array, tmp_path)]
    exact = {("sum", "intensity"): array.sum(axis=0), ("std", "std"): array.std(axis=0)}
    magnitudes = np.abs(array).sum(axis=0)
    for key, value in exact.items():
        for result in found:
            assert (np.abs(result[key] - value) <= 45 * 2**-52 * magnitudes).all(), key


@pytest.mark.parametrize("dtype", ["uint16", "float32", "float64"])
@pytest.mark.parametrize(
    "executor", [("threads", {"cpus": 3}), ("processes", {"cpus": 2}), ("auto", {"cpus": 2})]
)
def test_executors_do_not_matter(inline, tmp_path, dtype, executor):
    array = RNG.normal(300, 20, (45, 24, 40)).astype(dtype)
    name, options = executor
    with shared(name, **options) as ctx:
        pairs = zip(cuts(inline, array, tmp_path), cuts(ctx, array, tmp_path), strict=True)
        for here, there in pairs:
            expected, found = run(inline, here, alone=False), run(ctx, there, alone=False)
            for key, value in expected.items():
                assert np.array_equal(value, found[key], equal_nan=True), key


class MeansOfParameters(ff.UDF):
    """The last bits of means depend on how arrays are laid out in memory."""

    def get_result_buffers(self):
        n = len(self.params.arrays)
        return {
            "here": self.buffer(kind="nav", extra_shape=(n,), dtype="float32"),
            "merged": self.buffer(kind="single", extra_shape=(n,), dtype="float32"),
        }

    def process_frame(self, frame):
        self.results.here[:] = [np.mean(array) for array in self.params.arrays]

    def merge(self, dest, src):
        dest.here[:] = src.here
        dest.merged[:] = [np.mean(array) for array in self.params.arrays]


class Arrays(NamedTuple):
    """Parameters that belong together."""

    first: Any
    second: Any


@pytest.mark.parametrize("given", ["list", "named tuple", "of files"])
@pytest.mark.parametrize("executor", [("processes", {"cpus": 2}), ("delayed", {})])
def test_views_of_arrays_are_parameters(inline, executor, given, tmp_path):
    values = RNG.normal(300, 20, (9, 61, 43, 9)).astype("float32")
    views = [view for each in values for view in (each[:, ::-1], each[:, :7], each[..., ::2])]
    views = [view for view in views if np.mean(view) != np.mean(view.copy())]
    assert len(views) > 1
    if given == "named tuple":
        views = Arrays(*views[:2])
    elif given == "of files":
        np.save(tmp_path / "values.npy", values)
        mapped = np.load(tmp_path / "values.npy", mmap_mode="r")
        views = [each[:, ::-1] for each in mapped]
    frames = np.zeros((4, 2, 2))
    name, options = executor
    if name == "delayed":
        pytest.importorskip("dask.array")
    with shared(name, **options) as ctx:
        udf = MeansOfParameters(arrays=views)
        expected = inline.run_udf(inline.load("memory", data=frames), udf)
        found = ctx.run_udf(ctx.load("memory", data=frames), udf)
        for key in expected:
            assert np.array_equal(found[key].data, expected[key].data), key
