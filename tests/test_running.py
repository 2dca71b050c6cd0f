"""Runs step by step: partial results, and what they show at which step."""

from __future__ import annotations

import gc
import itertools
import threading

import numpy as np
import pytest
from sample_udfs import Level

import framefold as ff
from framefold.exceptions import (
    InvalidArgumentError,
    UnsupportedError,
)


def workers():
    return [t for t in threading.enumerate() if t.name.startswith("framefold")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    gc.collect()
    assert workers() == []


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("with_roi", [False, True])
def test_the_last_partial_results_are_those_of_run_udf(ctx, data, with_roi):
    rng = np.random.default_rng(3)
    floats = rng.normal(size=data.shape).astype(np.float32)
    dataset = ctx.load("memory", data=floats, sig_dims=2, num_partitions=5)
    roi = rng.random((6, 7)) < 0.6 if with_roi else None
    udfs = [ff.SumUDF(), Level(), ff.StdDevUDF(), ff.SumSigUDF()]
    expected = ctx.run_udf(dataset, udfs, roi=roi)
    last = None
    for results in ctx.run_udf_iter(dataset, udfs, roi=roi):
        last = results
    assert len(last) == len(expected) == 4
    for found, wanted in zip(last.buffers, expected, strict=True):
        assert found.keys() == wanted.keys()
        for name in wanted:
            assert same(found[name].raw_data, wanted[name].raw_data)
            assert same(found[name].data, wanted[name].data)
    wanted_damage = np.ones((6, 7), dtype=bool) if roi is None else roi
    assert np.array_equal(last.damage.data, wanted_damage)


def test_results_and_damage_follow_each_merge(ctx, dataset, data):
    frames = data.reshape(42, -1).sum(axis=1)
    flat = data.reshape(42, 10, 12)
    done = 0
    n_steps = 0
    for results in ctx.run_udf_iter(dataset=dataset, udf=Level()):
        merged = results.damage.raw_data
        assert results.damage.kind == "nav"
        assert results.damage.data.shape == (6, 7)
        assert merged.dtype == bool
        assert isinstance(results.buffers, tuple)
        assert results[0] is results.buffers[0]
        now = np.count_nonzero(merged)
        assert now > done
        assert merged[:now].all()
        level = results[0]["level"]
        assert np.array_equal(level.raw_data[:now], frames[:now])
        assert np.isnan(level.data.reshape(-1)[now:]).all()
        assert np.array_equal(level.valid_mask.reshape(-1), merged)
        assert np.array_equal(results[0]["peak"].data, flat[:now].max(axis=0))
        done, n_steps = now, n_steps + 1
    assert done == 42
    assert n_steps == 5


def test_damage_and_roi(ctx, dataset):
    roi = np.zeros((6, 7), dtype=bool)
    roi[1:4, 2:] = True
    sizes = []
    for results in ctx.run_udf_iter(dataset=dataset, udf=ff.SumSigUDF(), roi=roi):
        damage = results.damage.data
        assert not damage[~roi].any()
        assert results.damage.raw_data.shape == (15,)
        assert np.array_equal(results[0]["intensity"].valid_mask, damage)
        sizes.append(np.count_nonzero(damage))
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == 15


def test_kept_results_stay_those_of_their_step(ctx, dataset, data):
    kept = list(ctx.run_udf_iter(dataset=dataset, udf=Level()))
    flat = data.reshape(42, 10, 12)
    assert len(kept) == 5
    for results in kept:
        n = np.count_nonzero(results.damage.raw_data)
        assert np.array_equal(results[0]["peak"].data, flat[:n].max(axis=0))


def test_results_are_computed_only_if_they_can_be_seen(ctx, dataset):
    calls = []

    class Counting(Level):
        def get_results(self):
            calls.append(1)
            return {}

    steps = ctx.run_udf_iter(dataset=dataset, udf=Counting())
    for _ in range(5):
        next(steps)  # dropped at once
    assert calls == []
    with pytest.raises(StopIteration):
        next(steps)
    steps = ctx.run_udf_iter(dataset=dataset, udf=Counting())
    first = next(steps)
    assert first.buffers is first.buffers
    assert len(calls) == 1
    steps.close()


def test_failing_get_results_is_reported_to_who_looks(ctx, dataset):
    class Early(Level):
        def get_results(self):
            if not self.results.level.all():
                raise LookupError("not complete")
            return {}

    kept = list(ctx.run_udf_iter(dataset=dataset, udf=Early()))
    with pytest.raises(LookupError, match="not complete"):
        _ = kept[0].buffers
    assert kept[-1][0]["level"].data.all()


def test_steps_after_the_end(ctx, dataset):
    steps = ctx.run_udf_iter(dataset=dataset, udf=ff.SumUDF())
    assert iter(steps) is steps
    last = list(steps)[-1]
    with pytest.raises(StopIteration):
        next(steps)
    steps.close()
    assert last[0]["intensity"].data.any()


def test_arguments_are_checked_at_once(ctx, dataset):
    for call in (ctx.run_udf, ctx.run_udf_iter):
        with pytest.raises(InvalidArgumentError, match="not a UDF; pass an instance"):
            call(dataset=dataset, udf=Level)
        with pytest.raises(InvalidArgumentError, match="list is empty"):
            call(dataset=dataset, udf=[])
        with pytest.raises(InvalidArgumentError, match="ROI"):
            call(dataset=dataset, udf=Level(), roi=np.zeros((6, 6), dtype=bool))
        with pytest.raises(InvalidArgumentError, match="corrections is a object"):
            call(dataset=dataset, udf=Level(), corrections=object())
        with pytest.raises(InvalidArgumentError, match="progress is a str"):
            call(dataset=dataset, udf=Level(), progress="yes")
        with pytest.raises(InvalidArgumentError, match="'nonsense' is no array format"):
            call(dataset=dataset, udf=Level(), backends="nonsense")
        with pytest.raises(InvalidArgumentError, match="backends is empty"):
            call(dataset=dataset, udf=Level(), backends=())
        with pytest.raises(UnsupportedError, match="'numpy' is not among those that backends="):
            call(dataset=dataset, udf=Level(), backends=("sparse.COO",))
    for backends in ("numpy", ("sparse.COO", "numpy")):
        ctx.run_udf(dataset=dataset, udf=Level(), backends=backends)


def test_lists_of_functions_and_formats_end(ctx, dataset):
    level = Level()
    for call in (ctx.run_udf, ctx.run_udf_iter, ctx.explain):
        for udf in (itertools.count(), itertools.repeat(level)):
            with pytest.raises(
                InvalidArgumentError, match=r"udf is a .* more than 10000 items.*list"
            ):
                call(dataset, udf)
        with pytest.raises(InvalidArgumentError, match=r"backends is a .* more than 10000 items"):
            call(dataset, level, backends=itertools.count())
        with pytest.raises(InvalidArgumentError, match="of type set; pass a tuple or a list"):
            call(dataset, {level})
        with pytest.raises(InvalidArgumentError, match=r"array\(3\) is not a UDF"):
            call(dataset, np.array(3))
        with pytest.raises(InvalidArgumentError, match=r"backends is array\('numpy'"):
            call(dataset, level, backends=np.array("numpy"))
    assert len(ctx.run_udf(dataset, (level for _ in range(2)))) == 2


def test_parameters_change_for_partitions_to_come(data):
    with ff.Context.make_with("inline") as ctx:
        dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=6)
        udf = Level(offset=0.0)
        steps = ctx.run_udf_iter(dataset=dataset, udf=[udf, ff.SumUDF()])
        for n, results in enumerate(steps, start=1):
            level = results[0]["level"].raw_data
            steps.update_parameters_experimental([{"offset": 1000.0 * n}, {}])
    sums = data.reshape(42, -1).sum(axis=1)
    added = (level - sums).reshape(6, 7)
    assert np.array_equal(added, np.repeat(1000.0 * np.arange(6), 7).reshape(6, 7))
    assert udf.params.offset == 6000.0  # the object keeps its new parameters


def test_the_main_side_sees_changed_parameters(ctx, dataset):
    class Scaled(Level):
        def get_results(self):
            return {"peak": np.full_like(self.results.peak, self.params.offset)}

    with ctx.run_udf_iter(dataset=dataset, udf=Scaled(offset=1)) as steps:
        assert (next(steps)[0]["peak"].data == 1).all()
        steps.update_parameters_experimental([{"offset": 2}])
        assert (next(steps)[0]["peak"].data == 2).all()


def test_misuse_of_changing_parameters(ctx, dataset):
    with ctx.run_udf_iter(dataset=dataset, udf=[Level(), ff.SumUDF()]) as steps:
        with pytest.raises(InvalidArgumentError, match="got parameters for 1 UDFs, but 2"):
            steps.update_parameters_experimental([{}])
        with pytest.raises(UnsupportedError, match="SumUDF runs on a native kernel"):
            steps.update_parameters_experimental([{}, {"dtype": "float64"}])
        with pytest.raises(TypeError, match="nonsense"):
            steps.update_parameters_experimental([{"nonsense": 1}, {}])
        assert len(list(steps)) == 5


def test_functions_of_libertem_itself(ctx, dataset):
    theirs = type("UDF", (), {"__module__": "libertem.udf.base"})
    mine = type("Mine", (theirs,), {})
    with pytest.raises(InvalidArgumentError, match="LiberTEM's; call framefold"):
        ctx.run_udf(dataset, [mine()])
