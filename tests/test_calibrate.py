"""Steps, units and names of axes that are given, in the place of those of the file."""

from __future__ import annotations

import copy
import json
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import InvalidArgumentError, ReadOnlyError
from framefold.io.corrections import CorrectionSet

FACTS = {
    "scan_step": (0.5, "nm"),
    "pixel_size": "1.5mrad",
    "rotation": 12,
    "centre": (2, 3),
    "names": ["slow", "fast", "ky", "kx"],
}
SHOWN = [
    "slow: 3 × 0.5 nm",
    "fast: 4 × 0.5 nm",
    "ky: 5 × 1.5 mrad, from -3 mrad",
    "kx: 6 × 1.5 mrad, from -4.5 mrad",
]


def shown(dataset):
    return [repr(axis) for axis in dataset.axes]


@pytest.fixture
def ctx():
    return ff.Context.make_with("inline")


@pytest.fixture
def array():
    return np.random.default_rng(1).integers(0, 9, (3, 4, 5, 6)).astype("uint16")


@pytest.fixture
def path(tmp_path, array):
    np.save(tmp_path / "scan.npy", array)
    return tmp_path / "scan.npy"


def test_a_data_set_with_other_axes_is_another_one(ctx, path, array):
    plain = ctx.open(path)
    dataset = plain.calibrate(**FACTS)
    assert shown(dataset) == SHOWN
    assert shown(plain) == ["scan_y: 3", "scan_x: 4", "y: 5", "x: 6"]
    assert plain.metadata == {}
    assert type(dataset) is type(plain)
    assert dataset.metadata == {
        "scan_step_x": 0.5,
        "scan_step_y": 0.5,
        "scan_rotation": 12.0,
        "angle_step_x": 1.5,
        "angle_step_y": 1.5,
        "angle_offset_x": -4.5,
        "angle_offset_y": -3.0,
        "scan_axes": "slow, fast",
        "frame_axes": "ky, kx",
    }
    result = ctx.run_udf(dataset=dataset, udf=ff.SumUDF())["intensity"].data
    assert np.array_equal(result, array.sum((0, 1)))


@pytest.mark.parametrize("unit", ["nm", "Å", "1/nm", "1/A", "mrad", "deg", "eV"])
def test_the_unit_says_which_quantity_it_is(ctx, unit):
    known = {
        "nm": ("image_step_x", 2.0),
        "Å": ("image_step_x", 0.2),
        "1/nm": ("diffraction_step_x", 2.0),
        "1/A": ("diffraction_step_x", 20.0),
        "mrad": ("angle_step_x", 2.0),
        "deg": ("angle_step_x", 2000 * np.pi / 180),
    }
    if unit == "eV":
        spectra = ctx.load("memory", data=np.zeros((3, 8)), sig_dims=1, pixel_size=(2, unit))
        assert spectra.metadata == {"energy_step": 2.0, "energy_offset": 0.0}
        return
    dataset = ctx.load("memory", data=np.zeros((2, 2, 4, 4)), pixel_size=(2, unit))
    name, value = known[unit]
    assert dataset.metadata[name] == pytest.approx(value)
    # Another unit is another quantity, and 0 stays where it was.
    other = dataset.calibrate(centre=(1, 3)).calibrate(pixel_size="10 1/µm")
    assert {key for key in other.metadata if "step" in key} == {
        "diffraction_step_x",
        "diffraction_step_y",
    }
    assert [axis.offset for axis in other.axes[2:]] == pytest.approx([-0.01, -0.03])


def test_steps_of_each_axis(ctx):
    series = ctx.load("memory", data=np.zeros((2, 3, 4, 5)), sig_dims=1)
    for steps in (
        [(10, "K"), (1.0, "s"), (0.5, "nm")],
        "10K, 1 s, 5 Å",
        ["10K", (np.int64(1), "seconds"), (np.array(0.5), "nm")],
    ):
        assert shown(series.calibrate(scan_step=steps)) == [
            "scan_2: 2 × 10 K",
            "scan_y: 3 × 1 s",
            "scan_x: 4 × 0.5 nm",
            "channel: 5",
        ]
    assert shown(series.calibrate(pixel_size="-0.5nm"))[3] == "channel: 5 × -0.5 nm"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"scan_step": 0.5}, ["scan_step is 0.5", "with a unit"]),
        ({"scan_step": (0.5, "furlong")}, ["'furlong'", "nm", "mrad", "K"]),
        ({"scan_step": "0.5 furlong"}, ["'furlong'", "nm"]),
        ({"scan_step": "fast"}, ["'fast'", "0.5nm"]),
        ({"scan_step": [(1, "nm")] * 3}, ["scan_step has 3 values", "2 axes"]),
        ({"scan_step": (float("nan"), "nm")}, ["scan_step", "finite"]),
        ({"pixel_size": (0, "mrad")}, ["pixel_size is 0 mrad"]),
        ({"pixel_size": (True, "mrad")}, ["pixel_size"]),
        ({"pixel_size": [(1, "mrad"), 2]}, ["pixel_size has 2"]),
        ({"pixel_size": []}, ["pixel_size is []"]),
        ({"rotation": "north"}, ["rotation is 'north'", "degrees"]),
        ({"rotation": float("inf")}, ["rotation"]),
        ({"centre": 3}, ["centre is 3", "(cy, cx)"]),
        ({"centre": (1, 2, 3)}, ["centre", "2 axes"]),
        ({"centre": (1, "x")}, ["centre"]),
        ({"centre": np.ma.array([3.0, 4.0], mask=[1, 0])}, ["centre", "(cy, cx)"]),
        ({"centre": {1, 2}}, ["centre is {1, 2}", "(cy, cx)"]),
        ({"rotation": np.ma.masked}, ["rotation is masked", "degrees"]),
        ({"pixel_size": (np.ma.masked, "mrad")}, ["pixel_size", "masked"]),
        ({"names": "abcd"}, ["names is 'abcd'"]),
        ({"names": ["a", "b"]}, ["4 axes"]),
        ({"names": ["a", "b", "c", "a"]}, ["'a'", "twice"]),
        ({"names": ["a", "b", "c", 4]}, ["names"]),
    ],
)
def test_what_does_not_fit_is_named(ctx, path, facts, words):
    dataset = ctx.open(path)
    with pytest.raises(InvalidArgumentError) as caught:
        dataset.calibrate(**facts)
    for word in words:
        assert word in str(caught.value), str(caught.value)
    with pytest.raises(InvalidArgumentError):
        ctx.open(path, **facts)


def test_quantities_of_packages_are_taken(ctx, path):
    dataset = ctx.open(path)
    like_pint = SimpleNamespace(magnitude=0.5, units="nanometer")
    like_astropy = SimpleNamespace(value=np.float64(1.5), unit="mrad")
    known = dataset.calibrate(scan_step=like_pint, pixel_size=(like_astropy, like_astropy))
    assert shown(known) == [
        "scan_y: 3 × 0.5 nm",
        "scan_x: 4 × 0.5 nm",
        "y: 5 × 1.5 mrad",
        "x: 6 × 1.5 mrad",
    ]
    turned = dataset.calibrate(rotation=SimpleNamespace(value=np.pi / 2, unit="rad"))
    assert turned.metadata["scan_rotation"] == pytest.approx(90)


@pytest.mark.parametrize("unit", ["nm", "angstrom", "um", "1/nm", "1/angstrom", "mrad", "deg", "s"])
def test_quantities_of_pint(ctx, path, unit):
    pint = pytest.importorskip("pint", reason="pint is not installed")
    step = pint.UnitRegistry().Quantity(2.0, unit)
    plain = ctx.open(path)
    assert plain.calibrate(pixel_size=step).axes == plain.calibrate(pixel_size=f"2 {unit}").axes


@pytest.mark.parametrize("unit", ["nm", "Angstrom", "um", "1/nm", "1/Angstrom", "mrad", "deg", "s"])
def test_quantities_of_astropy(ctx, path, unit):
    units = pytest.importorskip("astropy.units", reason="astropy is not installed")
    step = 2.0 * units.Unit(unit)
    plain = ctx.open(path)
    assert plain.calibrate(pixel_size=step).axes == plain.calibrate(pixel_size=f"2 {unit}").axes


def test_opening_takes_the_same(ctx, path, array, tmp_path):
    array.tofile(tmp_path / "scan.raw")
    raw = {"dtype": "uint16", "nav_shape": (3, 4), "sig_shape": (5, 6)}
    assert shown(ctx.open(path, **FACTS)) == SHOWN
    assert shown(ctx.load("npy", path, **FACTS)) == SHOWN
    assert shown(ctx.load("raw", tmp_path / "scan.raw", **raw, **FACTS)) == SHOWN
    assert shown(ctx.load("memory", data=array, **FACTS)) == SHOWN
    assert shown(ctx.load(type(ctx.open(path)), path, **FACTS)) == SHOWN
    da = pytest.importorskip("dask.array")
    assert shown(ctx.load("dask", da.from_array(array, chunks=(1, 4, 5, 6)), **FACTS)) == SHOWN


def test_classes_of_formats_take_the_same(ctx, path, array, tmp_path):
    from framefold.io.dataset.hdf5 import H5DataSet
    from framefold.io.dataset.npy import NPYDataSet
    from framefold.io.dataset.raw import RawFileDataSet

    ctx.export_dataset(ctx.open(path), tmp_path / "scan.h5")
    array.tofile(tmp_path / "scan.raw")
    options = {"dtype": array.dtype, "nav_shape": (3, 4), "sig_shape": (5, 6)}
    for dataset in (
        NPYDataSet(path, **FACTS),
        H5DataSet(tmp_path / "scan.h5", "data", **FACTS),
        RawFileDataSet(tmp_path / "scan.raw", **options, **FACTS),
    ):
        assert shown(dataset) == SHOWN
        assert dataset.metadata["scan_rotation"] == 12
        assert shown(pickle.loads(pickle.dumps(dataset))) == SHOWN
        assert shown(dataset.calibrate(names=list("abcd")))[0].startswith("a: 3 × 0.5 nm")
        assert np.array_equal(np.asarray(dataset), array)
    assert shown(NPYDataSet(path)) == shown(ctx.open(path))
    with pytest.raises(InvalidArgumentError, match="no number with a unit"):
        NPYDataSet(path, scan_step="wide")


def test_pickles_and_corrections_keep_them(ctx, path, array):
    da = pytest.importorskip("dask.array")
    facts = {name: FACTS[name] for name in ("scan_step", "rotation", "names")}
    lazy = ctx.load("dask", da.from_array(array, chunks=(1, 4, 5, 6)))
    for plain in (ctx.open(path), ctx.load("memory", data=array), lazy):
        # One after the other is as all at once.
        dataset = plain.calibrate(centre=(2, 3)).calibrate(pixel_size="1.5mrad").calibrate(**facts)
        assert shown(dataset) == SHOWN
        for again in (pickle.loads(pickle.dumps(dataset)), copy.copy(dataset)):
            assert shown(again) == SHOWN
            assert again.metadata == dataset.metadata
            assert np.array_equal(again[1, 2], array[1, 2])
        assert shown(pickle.loads(pickle.dumps(plain))) == shown(plain)
    dark = CorrectionSet(dark=np.ones((5, 6)))
    _, frames = dataset._corrected(dark, np.ones((3, 4), bool))
    assert [axis[0] for axis in frames.axes] == FACTS["names"]


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "delayed"])
def test_runs_of_all_executors_take_them(executor, path, array):
    with shared(executor) as context:
        dataset = context.open(path, **FACTS)
        result = context.run_udf(dataset=dataset, udf=SumOfTiles())["sums"].data
        assert np.array_equal(np.asarray(result), array.sum((2, 3)))
        assert shown(dataset) == SHOWN


def test_workers_of_dask_take_them(path, array):
    with shared("dask", cpus=1) as context:
        dataset = context.open(path, **FACTS)
        result = context.run_udf(dataset=dataset, udf=SumOfTiles())["sums"].data
        assert np.array_equal(result, array.sum((2, 3)))


class SumOfTiles(ff.UDF):
    """A function in Python, which worker processes get with the data set."""

    def get_result_buffers(self):
        return {"sums": self.buffer(kind="nav", dtype="float64")}

    def process_tile(self, tile):
        self.results.sums[:] += tile.sum(axis=(1, 2))


@pytest.mark.parametrize("ending", ["zarr", "h5", "hspy"])
def test_copies_have_them(ctx, path, tmp_path, ending):
    facts = {**FACTS, "scan_step": [(2, "s"), (5, "Å")]}
    dataset = ctx.open(path).calibrate(**facts)
    expected = ["slow: 3 × 2 s", *SHOWN[1:]]
    assert shown(dataset) == expected
    for copied, target in (
        (lambda target: ctx.export_dataset(dataset, target), tmp_path / f"a.{ending}"),
        (
            lambda target: ctx.export_dataset(ctx.open(path), target, **facts),
            tmp_path / f"b.{ending}",
        ),
    ):
        copied(target)
        assert shown(ctx.open(target)) == expected
        assert ctx.open(target).metadata == dataset.metadata


def test_a_part_of_a_dask_array_is_written_with_them(ctx, array, tmp_path):
    da = pytest.importorskip("dask.array")
    dataset = ctx.load("dask", da.from_array(array, chunks=(1, 4, 5, 6)), **FACTS)
    ctx.export_dataset(dataset, tmp_path / "part.h5", roi=dataset.roi[1:])
    expected = ["slow: 2 × 0.5 nm, from 0.5 nm", *SHOWN[1:]]
    assert shown(ctx.open(tmp_path / "part.h5")) == expected


def test_the_command_line_takes_them(ctx, path, command, tmp_path):
    options = ["--scan-step", "0.5nm", "--pixel-size=1.5mrad", "--rotation", "12"]
    options += ["--centre", "2,3", "--names", "slow,fast,ky,kx"]
    axes = json.loads(command("info", path, "--json", *options))["axes"]
    assert [axis["offset"] for axis in axes] == [0, 0, -3, -4.5]
    assert [axis["name"] for axis in axes] == FACTS["names"]
    command("convert", path, tmp_path / "copy.h5", *options)
    assert shown(ctx.open(tmp_path / "copy.h5")) == SHOWN
    command("run", "sum", path, "-o", tmp_path / "sum.npy", *options)
    wrong = command("info", path, "--scan-step", "0.5furlong", code=2)
    assert "furlong" in wrong
    assert "mrad" in wrong
    command("info", path, "--centre", "2", code=2)


def test_axes_say_how_they_are_changed():
    dataset = ff.example_scan()
    for name in ("scale", "offset", "unit", "name", "title"):
        with pytest.raises(ReadOnlyError, match=r"dataset\.calibrate"):
            setattr(dataset.axes[0], name, 3)
        assert dataset.axes[0].scale == 2


@pytest.mark.parametrize("planar", ["contig", "separate"])
def test_one_size_of_a_pixel_is_for_rows_and_columns_of_pictures_in_colours(ctx, tmp_path, planar):
    tifffile = pytest.importorskip("tifffile")
    picture = np.zeros((6, 8, 3) if planar == "contig" else (3, 6, 8), dtype="uint8")
    tifffile.imwrite(tmp_path / "a.tif", picture, photometric="rgb", planarconfig=planar)
    dataset = ctx.open(tmp_path / "a.tif", pixel_size=(5, "nm"))
    shown = {axis.name: (axis.size, axis.scale, axis.unit) for axis in dataset.axes[-3:]}
    assert shown == {"y": (6, 5, "nm"), "x": (8, 5, "nm"), "colour": (3, 1, "")}
    three = dataset.calibrate(pixel_size=[(2, "nm"), (3, "nm"), (4, "nm")])
    assert [axis.scale for axis in three.axes[-3:]] == [2, 3, 4]
    again = ctx.open(tmp_path / "a.tif", pixel_size=(5, "nm")).calibrate(pixel_size=(7, "nm"))
    assert sorted(axis.scale for axis in again.axes[-3:]) == [1, 7, 7]
    ctx.export_dataset(dataset, tmp_path / "a.zarr")
    copy = ctx.open(tmp_path / "a.zarr").axes[-3:]
    assert {axis.name: (axis.size, axis.scale, axis.unit) for axis in copy} == shown


def test_steps_of_colours(ctx, tmp_path):
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "a.tif"
    options = {"imagej": True, "photometric": "rgb", "resolution": (4, 2)}
    tifffile.imwrite(path, np.ones((6, 8, 3), "uint8"), metadata={"unit": "nm"}, **options)
    dataset = ctx.open(path)

    def lines(dataset):
        return [str(axis) for axis in dataset.axes[dataset.shape.nav.dims :]]

    assert lines(dataset) == ["y: 6 × 0.5 nm", "x: 8 × 0.25 nm", "colour: 3"]
    # These are those of the last two axes.
    assert not {"image_step_y", "image_step_x"} & set(dataset.metadata)
    cropped = dataset.pipe("crop :,2:8,1:3")
    assert lines(cropped)[1:] == ["x: 6 × 0.25 nm, from 0.5 nm", "colour: 2"]
    assert lines(ctx.open(path, sig_shape=(48, 3))) == ["y: 48", "colour: 3"]
    assert lines(ctx.open(path, sig_shape=(6, 24))) == ["y: 6", "x: 24"]
    with pytest.raises(ff.exceptions.FramefoldError, match="last axis is 'colour'"):
        ctx.open(path, flip="x")
