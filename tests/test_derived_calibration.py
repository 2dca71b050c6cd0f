"""Sizes of pixels that follow from camera length and acceleration voltage."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from real_files import real_file

import framefold as ff
from framefold.exceptions import InvalidArgumentError
from framefold.utils.calibration import (
    angle_to_inverse,
    camera_pixel_size,
    electron_wavelength,
    inverse_to_angle,
)


@pytest.mark.parametrize(
    ("kilovolts", "picometres"),
    # Williams and Carter, Transmission Electron Microscopy, table 1.2.
    [(100, 3.70), (120, 3.35), (200, 2.51), (300, 1.97), (400, 1.64), (1000, 0.87)],
)
def test_wavelengths_are_those_of_the_textbook(kilovolts, picometres):
    assert round(electron_wavelength(kilovolts), 2) == picometres


def test_angles_and_lengths_are_two_ways_of_saying_it():
    value, unit = angle_to_inverse(1.0, 200)
    assert unit == "1/nm"
    assert value == pytest.approx(1 / 2.5079, rel=1e-4)
    back, unit = inverse_to_angle(value, 200)
    assert (back, unit) == (pytest.approx(1.0), "mrad")


@pytest.mark.parametrize("of", [np.int64, np.uint8, np.float16, np.float32, np.array])
def test_attributes_of_files_are_numbers(of):
    assert electron_wavelength(of(200)) == electron_wavelength(200)
    assert angle_to_inverse(of(3), of(200)) == angle_to_inverse(3, 200)
    assert inverse_to_angle(of(3), of(200)) == inverse_to_angle(3, 200)
    given = {"camera_length": of(200), "pixel_size": np.array([of(55), of(50)])}
    expected = camera_pixel_size(camera_length=200, pixel_size=(55, 50))
    assert camera_pixel_size(**given) == expected


def test_the_camera_says_the_angle_of_a_pixel():
    given = camera_pixel_size(camera_length=500, pixel_size=55, binning=(1, 2))
    assert given == ((0.11, "mrad"), (0.22, "mrad"))
    dataset = ff.Context.make_with("inline").load("memory", data=np.zeros((2, 2, 4, 4)))
    # Nothing is derived by itself, but what is passed on is taken.
    assert not any(axis.is_calibrated for axis in dataset.calibrate(rotation=1).axes)
    y, x = dataset.calibrate(pixel_size=given).axes[2:]
    assert (y.scale, x.scale, x.unit) == (0.11, 0.22, "mrad")


def test_what_is_not_given_is_that_of_the_file():
    known = {"camera_length": 100.0, "pixel_size_x": 55.0, "pixel_size_y": 50.0, "binning_x": 2.0}
    dataset = SimpleNamespace(metadata=known)
    assert camera_pixel_size(dataset) == ((0.5, "mrad"), (1.1, "mrad"))
    assert camera_pixel_size(dataset, camera_length=200) == ((0.25, "mrad"), (0.55, "mrad"))


def test_bins_count_once(tmp_path):
    ctx = ff.Context.make_with("inline")
    # Without the file, too.
    binned = ctx.load("memory", data=np.zeros((2, 2, 8, 8))).pipe(ff.Bin((2, 1)))
    expected = ((0.22, "mrad"), (0.11, "mrad"))
    assert camera_pixel_size(binned, camera_length=500, pixel_size=55) == expected
    # Neither cropped nor turned pixels are others.
    others = binned.pipe(ff.Crop(np.s_[1:, 2:]), ff.Flip("yx"), ff.Bin((1, 3)))
    assert {name: others.metadata[name] for name in ("binning_y", "binning_x")} == {
        "binning_y": 2,
        "binning_x": 3,
    }
    ctx.export_dataset(binned, tmp_path / "copy.zarr")
    copy = ctx.open(tmp_path / "copy.zarr").pipe(ff.Bin(2))
    expected = ((0.44, "mrad"), (0.22, "mrad"))
    assert camera_pixel_size(copy, camera_length=500, pixel_size=55) == expected


@pytest.mark.filterwarnings("ignore:.*leaves out:framefold.warnings.DataSetWarning")
def test_bins_of_a_file_that_knows_its_detector(tmp_path):
    ctx = ff.Context.make_with("inline")
    dataset = ctx.open(real_file("TVIPS/rosettasciio/test_tvips_2345_000.tvips"))
    ctx.export_dataset(dataset, tmp_path / "copy.zarr")
    for source in (dataset, ctx.open(tmp_path / "copy.zarr")):
        y, x = camera_pixel_size(source, camera_length=100)
        assert y == x == (pytest.approx(1e-5), "mrad")
        y, x = camera_pixel_size(source.pipe(ff.Bin(2)), camera_length=100)
        assert y == x == (pytest.approx(2e-5), "mrad")


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: camera_pixel_size(pixel_size=55), "camera_length"),
        (lambda: camera_pixel_size(camera_length=100), "pixel_size"),
        (lambda: camera_pixel_size(camera_length=-1, pixel_size=55), "camera_length is -1"),
        (lambda: camera_pixel_size(camera_length=1, pixel_size=55, binning=0), "binning is 0"),
        (lambda: electron_wavelength(0), "acceleration_voltage is 0"),
        (lambda: camera_pixel_size(camera_length=1, pixel_size=(5, 5, 9)), r"pixel_size is \(5, 5"),
        (lambda: camera_pixel_size(camera_length=1, pixel_size=[5]), r"pixel_size is \[5\]"),
        (lambda: camera_pixel_size(camera_length=1, pixel_size=5, binning=()), r"binning is \(\)"),
        (lambda: camera_pixel_size(camera_length=1, pixel_size="5"), "pixel_size is '5'"),
        (lambda: electron_wavelength(np.ma.masked), "acceleration_voltage is masked"),
        (lambda: angle_to_inverse(np.nan, 200), "angle is nan"),
    ],
)
def test_what_is_missing_is_named(call, word):
    with pytest.raises(InvalidArgumentError, match=word):
        call()
