"""Virtual detectors with units, against what NumPy makes of the axes."""

from __future__ import annotations

import numpy as np
import pytest

import framefold as ff
from framefold import detectors
from framefold.exceptions import InvalidArgumentError
from framefold.utils.calibration import electron_wavelength

SIG = (40, 46)
RADIUS = 7.123  # no pixel is as far away


def scan(**facts):
    frames = np.arange(2 * 3 * SIG[0] * SIG[1], dtype=np.float32).reshape(2, 3, *SIG)
    dataset = ff.Context.make_with("inline").load("memory", data=frames, sig_dims=2)
    return dataset.calibrate(**facts) if facts else dataset


def distance(dataset, place=(0.0, 0.0)):
    """From a place on the axes to all pixels, in their unit."""
    y, x = (axis.values - at for axis, at in zip(dataset.axes[-2:], place, strict=True))
    return np.hypot(y[:, np.newaxis], x)


@pytest.mark.parametrize(
    "pixel_size",
    [
        (0.5, "mrad"),
        (-0.5, "mrad"),
        ((0.5, "mrad"), (-0.5, "mrad")),
        ((0.5, "mrad"), (0.81, "mrad")),
        ((-0.61, "mrad"), (0.37, "mrad")),
    ],
)
@pytest.mark.parametrize("centre", [(18, 24), (11.3, 30.7), (0.6, 45)])
def test_radii_and_places_are_those_of_the_axes(pixel_size, centre):
    dataset = scan(pixel_size=pixel_size, centre=centre)
    r = distance(dataset)
    assert 0 < (r <= RADIUS).sum() < r.size
    np.testing.assert_array_equal(detectors.disk(dataset, r=(RADIUS, "mrad")), r <= RADIUS)
    np.testing.assert_array_equal(
        detectors.ring(dataset, ri="2.3 mrad", ro=(RADIUS * 1e-3, "rad")),
        (r > 2.3) & (r <= RADIUS),
    )
    there = (1.9, -2.7)
    np.testing.assert_array_equal(
        detectors.disk(dataset, r=(RADIUS, "mrad"), cy=(1.9, "mrad"), cx="-2.7mrad"),
        distance(dataset, there) <= RADIUS,
    )
    # A centre in pixels, whatever is on the axes there.
    pixel = [
        axis.offset + axis.scale * at for axis, at in zip(dataset.axes[-2:], (7, 9), strict=True)
    ]
    np.testing.assert_array_equal(
        detectors.disk(dataset, r=(RADIUS, "mrad"), cy=7, cx=9),
        distance(dataset, pixel) <= RADIUS,
    )


# Of the second, the radii have no end in pixels, and are rounded.
@pytest.mark.parametrize(("sides", "r"), [((2, 1), 26), ((3, 1), 25)])
def test_pixels_on_the_rim_of_an_ellipse_are_inside(sides, r):
    dataset = scan(pixel_size=tuple((side, "mrad") for side in sides))
    y, x = np.ogrid[:40, :46]
    squared = (sides[0] * (y - 39)) ** 2 + (sides[1] * (x - 20)) ** 2
    place, radius = {"cy": 39, "cx": 20}, f"{r} mrad"
    on_rim = (squared == r**2) & (y != 39) & (x != 20)
    assert on_rim.sum() >= 1
    np.testing.assert_array_equal(detectors.disk(dataset, r=radius, **place), squared <= r**2)
    ring = detectors.ring(dataset, ri=radius, ro="60 mrad", **place)
    np.testing.assert_array_equal(ring, (squared > r**2) & (squared <= 60**2))


def test_in_square_pixels_all_masks_are_those_of_the_radius_in_pixels():
    dataset = scan(pixel_size=(0.1, "mrad"), centre=(18.25, 24.5))
    place = {"cy": 18.25, "cx": 24.5}
    for antialiased in (False, True):
        np.testing.assert_array_equal(
            # 0.3 / 0.1 is a bit less than 3.
            detectors.disk(dataset, r="0.3 mrad", antialiased=antialiased),
            detectors.disk(SIG, r=3, antialiased=antialiased, **place),
        )
        np.testing.assert_array_equal(
            detectors.ring(dataset, ri=2, ro="0.7 mrad", antialiased=antialiased),
            detectors.ring(SIG, ri=2, ro=7, antialiased=antialiased, **place),
        )
    np.testing.assert_array_equal(
        detectors.rings(dataset, n=4, ro=(900, "µrad")), detectors.rings(SIG, n=4, ro=9, **place)
    )
    np.testing.assert_array_equal(
        np.stack(detectors.polar(dataset)), np.stack(detectors.polar(SIG, **place))
    )
    np.testing.assert_array_equal(
        detectors.rectangle(dataset, y=1, x=2, height=3, width=4),
        detectors.rectangle(SIG, y=1, x=2, height=3, width=4),
    )


def test_the_centre_is_where_the_axes_are_0_if_they_say_it():
    middle = detectors.disk(SIG, r=3)
    for dataset in (
        scan(),
        scan(pixel_size=(2, "mrad")),
        scan(pixel_size=(2, "mrad"), centre=(0, 0)),
        scan(pixel_size=(2, "mrad"), centre=(-3, 10)),
        scan(pixel_size=(2, "mrad"), centre=(10, 46)),
    ):
        np.testing.assert_array_equal(detectors.disk(dataset, r=3), middle)
    np.testing.assert_array_equal(
        detectors.disk(scan(centre=(10, 12)), r=3), detectors.disk(SIG, r=3, cy=10, cx=12)
    )


@pytest.mark.parametrize("unit", ["1/nm", "1/Å"])
def test_angles_and_inverse_lengths_need_the_voltage(unit, monkeypatch):
    dataset = scan(pixel_size=(0.2, unit), centre=(18, 24))
    with pytest.raises(InvalidArgumentError, match="acceleration voltage"):
        detectors.disk(dataset, r="10 mrad")
    known = {**dataset.metadata, "acceleration_voltage": 200.0}
    monkeypatch.setattr(type(dataset), "metadata", known)
    size = 0.2 if unit == "1/nm" else 2.0
    radius = 10e-3 / (electron_wavelength(200.0) * 1e-3) / size
    assert 1 < radius < 21
    np.testing.assert_array_equal(
        detectors.disk(dataset, r="10 mrad"), detectors.disk(SIG, r=radius, cy=18, cx=24)
    )
    dataset = scan(pixel_size=(0.5, "mrad"), centre=(18, 24))
    radius = 2 * electron_wavelength(200.0) / 0.5
    np.testing.assert_array_equal(
        detectors.disk(dataset, r=(2, "1/nm")), detectors.disk(SIG, r=radius, cy=18, cx=24)
    )


@pytest.mark.parametrize("zero", ["0 mrad", "0.0mrad", "-0 mrad", "0e3 µrad", (0, "rad")])
def test_zero_is_a_place_and_a_radius(zero):
    dataset = scan(pixel_size=(0.5, "mrad"), centre=(18, 24))
    one = np.zeros(SIG, bool)
    one[18, 24] = True
    np.testing.assert_array_equal(detectors.disk(dataset, r=zero, cy=zero, cx=zero), one)
    np.testing.assert_array_equal(
        detectors.ring(dataset, ri=zero, ro=2), detectors.disk(dataset, r=2) & ~one
    )


def test_zero_of_inverse_lengths():
    dataset = scan(pixel_size=(0.5, "1/nm"), centre=(18, 24))
    np.testing.assert_array_equal(
        detectors.disk(dataset, r=3, cy="0 1/nm", cx="0.0 nm^-1"), detectors.disk(dataset, r=3)
    )


def test_quantities_of_packages_are_taken():
    dataset = scan(pixel_size=(0.5, "mrad"), centre=(18, 24))
    expected = detectors.disk(dataset, r=(3, "mrad"))
    pint = pytest.importorskip("pint", reason="pint has the quantities")
    np.testing.assert_array_equal(detectors.disk(dataset, r=3 * pint.UnitRegistry().mrad), expected)
    units = pytest.importorskip("astropy.units", reason="astropy has the quantities")
    np.testing.assert_array_equal(detectors.disk(dataset, r=3 * units.mrad), expected)


SQUARE = {"pixel_size": (0.5, "mrad"), "centre": (18, 24)}
OBLONG = {"pixel_size": ((0.5, "mrad"), (0.8, "mrad")), "centre": (18, 24)}


@pytest.mark.parametrize(
    ("facts", "make", "message"),
    [
        ({}, lambda ds: detectors.disk(SIG, r="10 mrad"), "pass the data set in its place"),
        ({}, lambda ds: detectors.disk(SIG, r=3, cy="1 mrad"), "pass the data set in its place"),
        ({}, lambda ds: detectors.disk(ds, r="10 mrad"), r"axes y and x .* no unit; .*calibrate"),
        (SQUARE, lambda ds: detectors.disk(ds, r="10 nm"), "in mrad: one is not the other"),
        (SQUARE, lambda ds: detectors.disk(ds, r="10 1/nm"), "acceleration voltage"),
        (SQUARE, lambda ds: detectors.disk(ds, r=(10, "parsec")), "not known"),
        (SQUARE, lambda ds: detectors.disk(ds, r="10"), r"r is '10', expected a number of pixels"),
        (SQUARE, lambda ds: detectors.disk(ds, r="far"), "r is 'far', expected a number of pixels"),
        (SQUARE, lambda ds: detectors.disk(ds, r="1mrad,2mrad"), "expected a number of pixels"),
        (SQUARE, lambda ds: detectors.disk(ds, r=[1, 2]), "expected a number of pixels"),
        (SQUARE, lambda ds: detectors.disk(ds, r="-1 mrad"), "0 or more"),
        (SQUARE, lambda ds: detectors.disk(ds, r=-1), "0 or more"),
        (SQUARE, lambda ds: detectors.disk(ds, r=None), "r is None, expected a number of pixels"),
        (SQUARE, lambda ds: detectors.disk(ds, r=np.nan), "0 or more"),
        (SQUARE, lambda ds: detectors.ring(ds, ri=-2, ro=3), "0 or more"),
        (SQUARE, lambda ds: detectors.ring(ds, ri="2 mrad", ro=3), "is not below ro=3"),
        (OBLONG, lambda ds: detectors.ring(ds, ri=2, ro="9 mrad"), "both with a unit, or both in"),
        (
            OBLONG,
            lambda ds: detectors.disk(ds, r="2 mrad", antialiased=True),
            "in height and 2.5 in width",
        ),
        (OBLONG, lambda ds: detectors.rings(ds, n=2, ro="2 mrad"), "rings are round"),
    ],
)
def test_what_cannot_be_is_said(facts, make, message):
    with pytest.raises(InvalidArgumentError, match=message):
        make(scan(**facts))


def test_a_run_with_such_a_mask_is_a_sum_of_these_pixels():
    dataset = scan(pixel_size=((0.61, "mrad"), (-0.37, "mrad")), centre=(18, 24))
    mask = detectors.ring(dataset, ri="2.3 mrad", ro="6.1 mrad")
    udf = ff.ApplyMasksUDF([lambda: mask])
    found = ff.Context.make_with("inline").run_udf(dataset, udf)["intensity"].data[..., 0]
    r = distance(dataset)
    data = np.asarray(dataset).astype(np.float64)
    # Ten pixels along y are 6.1 mrad.
    expected = data[..., (r > 2.3) & (r <= 6.1 + 1e-9)].sum(-1)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
