"""Copies of functions with some parameters changed."""

from __future__ import annotations

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import InvalidArgumentError, UDFError
from framefold.udf import UDF
from framefold.udf.com import CoMParams

DATA = np.random.default_rng(5).integers(0, 100, (4, 5, 6, 7)).astype(np.float32)


class Above(UDF):
    """Counts what is above a threshold, and adds AUX data."""

    def __init__(self, threshold=50, weights=None, aux=0):
        super().__init__(threshold=threshold, weights=weights, aux=aux)

    def get_result_buffers(self):
        return {"n": self.buffer("nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.n[:] = (frame > self.params.threshold).sum() + self.params.aux


class Doubles(UDF):
    """Its constructor passes on something else than it was given."""

    def __init__(self, radius):
        super().__init__(radius=2 * radius)


class Careless(UDF):
    def __init__(self):
        pass


@pytest.fixture
def dataset(ctx):
    return ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)


def test_what_is_changed_and_what_stays(ctx, dataset):
    weights = np.ones(3)
    udf = Above(threshold=20, weights=weights)
    other = udf.with_params(threshold=80)
    assert type(other) is Above
    assert (udf.params.threshold, other.params.threshold) == (20, 80)
    assert other.params.weights is weights
    first, second = ctx.run_udf(dataset, [udf, other])
    np.testing.assert_array_equal(first["n"].data, (DATA > 20).sum(axis=(2, 3)))
    np.testing.assert_array_equal(second["n"].data, (DATA > 80).sum(axis=(2, 3)))
    assert repr(other) == repr(Above(threshold=80, weights=weights))


def test_aux_data_can_be_changed(ctx, dataset):
    aux = UDF.aux_data(np.arange(20), kind="nav", dtype="float64")
    other = Above().with_params(aux=aux)
    found = ctx.run_udf(dataset, other)["n"].data
    expected = (DATA > 50).sum(axis=(2, 3)) + np.arange(20).reshape(4, 5)
    np.testing.assert_array_equal(found, expected)


def test_after_a_run_and_with_attributes(ctx, dataset):
    udf = Above(threshold=20)
    udf.note = "of this object"
    ctx.run_udf(dataset, udf)
    other = udf.with_params(threshold=30)
    assert not hasattr(other, "meta")
    assert not hasattr(other, "note")
    assert list(other.results) == []


@pytest.mark.parametrize("udf", [Above(), ff.CoMUDF(), ff.ReductionUDF("com"), ff.SumUDF()])
def test_parameters_that_there_are_not(udf):
    with pytest.raises(InvalidArgumentError, match="has no parameter 'nonsense'; its parameters"):
        udf.with_params(nonsense=1)


def test_the_closest_is_named():
    with pytest.raises(InvalidArgumentError, match=r"'treshold', did you mean 'threshold'; its"):
        Above().with_params(treshold=5)
    with pytest.raises(InvalidArgumentError, match="LogsumUDF has no parameter 'x'; it has none"):
        ff.LogsumUDF().with_params(x=5)


def test_constructors_get_what_they_passed_on():
    udf = Doubles(3)
    assert udf.with_params(radius=5).params.radius == 10
    assert udf.with_params().params.radius == 12  # as a copy for a partition has it
    assert udf.copy().params.radius == 12


def test_a_constructor_that_passes_nothing_on():
    with pytest.raises(UDFError, match=r"does not call super\(\).__init__"):
        Careless().with_params(x=1)


def test_centres_of_mass_keep_what_is_not_changed(ctx, dataset):
    udf = ff.CoMUDF.with_params(cy=2, cx=3, r=2.5)
    other = udf.with_params(cy=1)
    assert other.params.com_params == CoMParams(cy=1, cx=3, r=2.5)
    assert udf.params.com_params == CoMParams(cy=2, cx=3, r=2.5)
    found = ctx.run_udf(dataset, other)["raw_com"].data
    expected = ctx.run_udf(dataset, ff.CoMUDF(cy=1, cx=3, r=2.5))["raw_com"].data
    np.testing.assert_array_equal(found, expected)
    whole = CoMParams(r=4)
    assert udf.with_params(com_params=whole).params.com_params == whole
    with pytest.raises(InvalidArgumentError, match="got both com_params and others"):
        udf.with_params(com_params=whole, cy=1)
    with pytest.raises(InvalidArgumentError, match="choose ri < r"):
        udf.with_params(ri=7)


def test_classes_that_derive_from_centres_of_mass():
    class Mine(ff.CoMUDF):
        def __init__(self, com_params=None, factor=1):
            super().__init__(com_params)
            self._kwargs["factor"] = factor

    udf = Mine(CoMParams(cy=2, r=3), factor=5)
    other = udf.with_params(r=2)
    assert type(other) is Mine
    assert other.params.com_params == CoMParams(cy=2, r=2)
    assert other._kwargs["factor"] == 5
    assert udf.with_params(factor=6)._kwargs == {"com_params": CoMParams(cy=2, r=3), "factor": 6}
    assert type(Mine.with_params(cy=1)) is Mine


def test_the_masks_are_not_those_of_the_other(ctx, dataset):
    calls = []

    def masks():
        calls.append(1)
        return np.ones((2, 6, 7), np.float32)

    udf = ff.ApplyMasksUDF(masks)
    ctx.run_udf(dataset, udf)
    other = udf.with_params(mask_factories=lambda: np.full((1, 6, 7), 2, np.float32))
    found = ctx.run_udf(dataset, other)["intensity"].data
    np.testing.assert_allclose(found[..., 0], 2 * DATA.sum(axis=(2, 3)), rtol=1e-6)
    shifted = udf.with_params(shifts=(1, 0))
    found = ctx.run_udf(dataset, shifted)["intensity"].data
    np.testing.assert_allclose(found[..., 0], DATA[:, :, 1:].sum(axis=(2, 3)), rtol=1e-6)


def test_reductions_by_name(ctx, dataset):
    udf = ff.ReductionUDF("com", r=2.0)
    other = udf.with_params(cy=2)  # of the row, though it was not given before
    assert other._kwargs == {"reduction": "com", "r": 2.0, "cy": 2}
    (one, two) = ctx.run_udf(dataset, [other, ff.ReductionUDF("com", r=2.0, cy=2)])
    np.testing.assert_array_equal(one["raw_com"].data, two["raw_com"].data)


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_copies_on_the_way_to_workers(executor):
    class OwnCopies(Above):
        @classmethod
        def new_for_partition(cls, kwargs, partition, roi):
            return cls(**kwargs)

    with shared(executor, cpus=1) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2)
        found = ctx.run_udf(dataset, OwnCopies(threshold=3).with_params(threshold=9))["n"].data
    np.testing.assert_array_equal(found, (DATA > 9).sum(axis=(2, 3)))
