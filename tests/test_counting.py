"""Electrons counted, held against NumPy on the whole array, as sparse and as dense frames."""

from __future__ import annotations

import numpy as np
import pytest
from shared_contexts import shared
from stage_cases import NAV, SIG, Frames, check, counted, numbers

import framefold as ff
from framefold.io.corrections import CorrectionSet


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


def test_electrons_are_sparse(ctx, tmp_path):
    rng = np.random.default_rng(14)
    dark = rng.integers(90, 110, SIG).astype("f4")
    frames = rng.poisson(3, (*NAV, *SIG)) * (rng.random((*NAV, *SIG)) < 0.2) * 12
    frames[..., 3, 4] += 300
    array = (frames + dark).astype("uint16")
    dataset = ctx.load("memory", data=array, num_partitions=3)
    counts = dataset.pipe(CorrectionSet(dark=dark), ff.Count(10, maximum=200))
    expected = counted(array.astype("f4") - dark, 10, 200)
    assert 0.01 < expected.mean() < 0.2
    assert counts.native_backends == (ff.UDF.BACKEND_SCIPY_CSR,)
    check(np.asarray(counts), expected, "counts")
    assert counts.stages[-1] == dataset.pipe("count 10 maximum=200").stages[-1]
    # Sparse and dense functions in one run, and all that takes parts of frames.
    masks = [lambda: expected[0, 0], lambda: np.ones(SIG)]
    udfs = [ff.SumUDF(), ff.SumSigUDF(), ff.CoMUDF(), ff.ApplyMasksUDF(masks), Frames()]
    found = ctx.run_udf(dataset=counts, udf=udfs)
    same = ctx.run_udf(dataset=ctx.load("memory", data=expected, num_partitions=3), udf=udfs)
    for one, other in zip(found, same, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name].data, other[name].data, name)
    for name, stages, by_numpy in (
        ("crop", (ff.Crop(np.s_[2:, 1:-3]),), lambda a: a[..., 2:, 1:-3]),
        ("flip", (ff.Flip("yx"),), lambda a: a[..., ::-1, ::-1]),
    ):
        part = counts.pipe(*stages)
        assert part.native_backends == (ff.UDF.BACKEND_SCIPY_CSR,), name
        check(np.asarray(part), by_numpy(expected), name)
    ctx.convert(counts, tmp_path / "counts.toml")
    copy = ctx.open(tmp_path / "counts.toml")
    check(np.asarray(copy), expected, "a copy")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < expected.nbytes
    explained = str(ctx.explain(dataset=counts, udf=ff.SumUDF()))
    assert "count 10 maximum=200" in explained
    assert "csr" in explained


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "delayed"])
def test_counts_are_the_same_everywhere(executor):
    array = numbers((*NAV, *SIG), "uint8", seed=15)
    expected = counted(array, 128)
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=array, num_partitions=3).pipe(ff.Count(128))
        results = ctx.run_udf(dataset=dataset, udf=[ff.SumUDF(), Frames()])
        check(np.asarray(results[1]["frames"].data), expected, executor)
        total = np.asarray(results[0]["intensity"].data)
        np.testing.assert_array_equal(total, expected.sum((0, 1), dtype="f8"))


@pytest.mark.parametrize(
    ("rows", "peaks"),
    [
        # Equal pixels that touch count once, the first of them.
        (["0550", "0550", "0000"], [(0, 1)]),
        (["0050", "0500", "5000"], [(0, 2)]),
        (["5555", "0000", "0000"], [(0, 0)]),
        (["0500", "5050", "0000"], [(0, 1)]),
        # The ends of a V do not touch.
        (["5050", "0500", "0000"], [(0, 0), (0, 2)]),
        # 9 is left out: what is beside it counts.
        (["0000", "0970", "0000"], [(1, 2)]),
        # Threshold 2 is not above itself.
        (["2000", "0003", "0000"], [(1, 3)]),
    ],
)
def test_what_counts(ctx, rows, peaks):
    frame = np.array([list(map(int, row)) for row in rows])
    for dtype in ("uint8", "int64", "float32"):
        data = frame.astype(dtype)[None, None]
        found = np.asarray(ctx.load("memory", data=data).pipe(ff.Count(2, maximum=8)))
        assert [tuple(peak) for peak in np.argwhere(found[0, 0]).tolist()] == peaks
        assert found.max() == 1


def test_what_is_no_number_does_not_count(ctx):
    data = np.full((1, 1, 5, 5), np.nan, "f4")
    data[0, 0, 2, 2], data[0, 0, 0, 0] = 3, np.inf
    found = np.asarray(ctx.load("memory", data=data).pipe(ff.Count(0)))
    assert np.argwhere(found[0, 0]).tolist() == [[0, 0], [2, 2]]
