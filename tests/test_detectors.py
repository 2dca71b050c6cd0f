"""Virtual detectors by name: one order of parameters, which is none."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import framefold as ff
from framefold import detectors, masks
from framefold.exceptions import InvalidArgumentError

SHAPE = (10, 13)


def test_each_is_the_mask_of_the_reference_with_x_and_y_in_their_places() -> None:
    place, theirs = {"cy": 3, "cx": 8}, (8, 3, 13, 10)
    for ours, other in [
        (detectors.disk(SHAPE, r=2.5, **place), masks.circular(*theirs, 2.5)),
        (
            detectors.disk(SHAPE, r=2.5, antialiased=True, **place),
            masks.circular(*theirs, 2.5, True),
        ),
        (detectors.ring(SHAPE, ri=2, ro=4, **place), masks.ring(*theirs, 4, 2)),
        (
            detectors.rings(SHAPE, n=3, ri=1, ro=7, normalize=True, **place),
            masks.radial_bins(*theirs, 7, 1, 3, True, False),
        ),
        (detectors.rings(SHAPE, n=3), masks.radial_bins(6, 5, 13, 10, n_bins=3, use_sparse=False)),
        (np.stack(detectors.polar(SHAPE, **place)), np.stack(masks.polar_map(*theirs))),
    ]:
        assert ours.dtype == other.dtype
        np.testing.assert_array_equal(ours, other)


def test_a_rectangle_has_the_rows_and_columns_that_it_says() -> None:
    expected = np.zeros(SHAPE, dtype=bool)
    expected[2:5, 7:9] = True
    np.testing.assert_array_equal(detectors.rectangle(SHAPE, y=2, x=7, height=3, width=2), expected)
    expected = np.zeros(SHAPE, dtype=bool)
    expected[:2, 11:] = True
    np.testing.assert_array_equal(
        detectors.rectangle(SHAPE, y=-3, x=11, height=5, width=9), expected
    )
    assert not detectors.rectangle(SHAPE, y=-3, x=0, height=2, width=2).any()


def test_all_but_the_shape_is_given_by_name() -> None:
    for name in detectors.__all__:
        first, *others = inspect.signature(getattr(detectors, name)).parameters.values()
        assert first.name == "shape"
        assert {each.kind for each in others} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: detectors.ring(SHAPE, ri=4, ro=4), "ri=4 is not below ro=4"),
        (lambda: detectors.disk((10,), r=2), r"frames of shape \(10,\) have 1"),
        (lambda: detectors.disk(SHAPE, cy=np.nan, r=2), "not finite"),
        (
            lambda: detectors.rectangle(SHAPE, y=0, x=0, height=-1, width=1),
            "height=-1 .* from 0 up",
        ),
        (
            lambda: detectors.rectangle(SHAPE, y=0.5, x=0, height=1, width=1),
            "y=0.5 is not a whole number",
        ),
    ],
)
def test_what_makes_no_sense_is_said(make, message) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


def test_the_middle_is_that_of_the_engine() -> None:
    ctx, rng = ff.Context.make_with("inline"), np.random.default_rng(7)
    dataset = ctx.load("memory", data=rng.poisson(3, (4, 5, 64, 64)).astype("uint16"), sig_dims=2)
    sig = dataset.shape.sig
    ours = ff.ApplyMasksUDF([lambda: ff.detectors.disk(sig, r=3.5)])
    results = ctx.run_udf(dataset, [ours, ff.ReductionUDF("masks", disk=3.5)])
    np.testing.assert_array_equal(*(result["intensity"].data for result in results))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("cy", lambda value: detectors.disk(SHAPE, r=2, cy=value)),
        ("r", lambda value: detectors.disk(SHAPE, r=value)),
        ("ri", lambda value: detectors.ring(SHAPE, ri=value, ro=3)),
        ("height", lambda value: detectors.rectangle(SHAPE, y=0, x=0, height=value, width=1)),
        ("n", lambda value: detectors.rings(SHAPE, n=value)),
        ("the shape of a frame", lambda value: detectors.disk((value, 5), r=2)),
    ],
)
@pytest.mark.parametrize("value", [np.ma.masked, np.ma.array(3, mask=True), "3", [3]])
def test_what_is_masked_or_no_number_is_refused(name, make, value) -> None:
    with pytest.raises(
        InvalidArgumentError, match=rf"(?s)^{name}(=| is ).*(expected a|not a whole)"
    ):
        make(value)


def test_rings_without_end_cover_the_frame() -> None:
    np.testing.assert_array_equal(
        detectors.rings(SHAPE, n=3, ro=np.inf), detectors.rings(SHAPE, n=3)
    )
    with pytest.raises(InvalidArgumentError, match=r"n is 2\.5, expected a whole number from 1"):
        detectors.rings(SHAPE, n=2.5)
