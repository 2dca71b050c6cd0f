"""The axes of data sets: names, steps and units in one place."""

from __future__ import annotations

import json

import numpy as np
import pytest
from real_files import real_file

import framefold as ff
from framefold.common.axes import Axis

h5py = pytest.importorskip("h5py")


@pytest.fixture
def ctx():
    """Axes do not depend on the executor."""
    return ff.Context.make_with("inline")


def write_hspy(path, array, axes):
    """A file as HyperSpy writes it: (name, scale, offset, units, navigate) for each axis."""
    with h5py.File(path, "w") as file:
        file.attrs["file_format"], file.attrs["file_format_version"] = "HyperSpy", "3.3"
        signal = file.create_group("Experiments/scan")
        signal["data"] = array
        for i, (name, scale, offset, units, navigate) in enumerate(axes):
            axis = signal.create_group(f"axis-{i}")
            axis.attrs.update(_type="UniformDataAxis", name=name, units=units, navigate=navigate)
            axis.attrs.update(scale=scale, offset=offset, size=array.shape[i])
        signal.create_group("metadata/Signal").attrs["signal_type"] = ""


@pytest.fixture
def scan(tmp_path):
    path = tmp_path / "scan.hspy"
    axes = [
        ("slow", -0.5, 3.0, "nm", True),
        ("scan_x", 2.0, 0.0, "Å", True),
        ("ky", 0.25, -1.0, "1/nm", False),
        ("kx", 0.25, -2.0, "1/nm", False),
    ]
    write_hspy(path, np.ones((3, 4, 8, 16), "uint8"), axes)
    return path


CALIBRATED = (
    Axis("slow", "nm", -0.5, 3.0, 3, "nav"),
    Axis("scan_x", "nm", 0.2, 0.0, 4, "nav"),
    Axis("ky", "1/nm", 0.25, -1.0, 8, "sig"),
    Axis("kx", "1/nm", 0.25, -2.0, 16, "sig"),
)


def test_axes_are_those_of_the_file(ctx, scan):
    axes = ctx.open(scan).axes
    assert axes == CALIBRATED
    assert [axis.direction for axis in axes] == [-1, 1, 1, 1]
    assert axes[0].values.dtype == np.float64
    assert axes[0].values.tolist() == [3.0, 2.5, 2.0]
    assert [repr(axis) for axis in axes] == [
        "slow: 3 × -0.5 nm, from 3 nm",
        "scan_x: 4 × 0.2 nm",
        "ky: 8 × 0.25 1/nm, from -1 1/nm",
        "kx: 16 × 0.25 1/nm, from -2 1/nm",
    ]


def test_what_is_not_known_counts_positions(ctx):
    axes = ctx.load("memory", data=np.zeros((2, 3, 4, 5, 6), "uint8")).axes
    assert [repr(axis) for axis in axes] == ["scan_2: 2", "scan_y: 3", "scan_x: 4", "y: 5", "x: 6"]
    assert axes[2] == Axis("scan_x", "", 1.0, 0.0, 4, "nav")
    assert not any(axis.is_calibrated for axis in axes)
    assert axes[4].values.tolist() == list(range(6))
    spectra = ctx.load("memory", data=np.zeros((2, 4), "uint8"), sig_dims=1).axes
    assert [repr(axis) for axis in spectra] == ["scan_x: 2", "channel: 4"]


#: All formats that have a place for axes, and how they are asked for.
COPIES = pytest.mark.parametrize(
    ("ending", "options"),
    [("zarr", {}), ("zarr", {"zarr_format": 2}), ("h5", {}), ("hspy", {}), ("zspy", {})],
    ids=["zarr", "zarr-2", "h5", "hspy", "zspy"],
)


@COPIES
def test_axes_are_the_same_in_copies(ctx, tmp_path, scan, ending, options):
    ctx.export_dataset(ctx.open(scan), tmp_path / f"copy.{ending}", **options)
    assert ctx.open(tmp_path / f"copy.{ending}").axes == CALIBRATED


@COPIES
@pytest.mark.parametrize("sig_dims", [1, 3])
def test_each_axis_keeps_its_own_step(ctx, tmp_path, sig_dims, ending, options):
    """Whichever of them are those of frames."""
    own = [(axis.name, axis.scale, axis.offset, axis.unit, False) for axis in CALIBRATED]
    own[:2] = [(*axis[:4], True) for axis in own[:2]]
    write_hspy(tmp_path / "scan.hspy", np.ones((3, 4, 8, 16), "uint8"), own)
    ctx.export_dataset(ctx.open(tmp_path / "scan.hspy"), tmp_path / f"copy.{ending}", **options)
    for path in (tmp_path / "scan.hspy", tmp_path / f"copy.{ending}"):
        dataset = ctx.open(path, sig_dims=sig_dims)
        found = [(axis.scale, axis.offset, axis.unit, axis.size) for axis in dataset.axes]
        assert found == [(axis.scale, axis.offset, axis.unit, axis.size) for axis in CALIBRATED]
        # Quantities say the same, or nothing.
        steps = {name: value for name, value in dataset.metadata.items() if "scan_step" in name}
        assert steps == ({"scan_step_y": 0.2} if sig_dims == 1 else {"scan_step_x": -0.5})


@pytest.mark.parametrize("kind", ["DataAxis", "FunctionalDataAxis"])
def test_axes_without_a_step_are_named(ctx, scan, kind):
    with h5py.File(scan, "a") as file:
        axis = file["Experiments/scan/axis-2"]
        for name in ("scale", "offset"):
            del axis.attrs[name]
        axis.attrs["_type"] = kind
    with pytest.warns(ff.warnings.DataSetWarning, match=r"values of axis-2 \('ky'\) are not"):
        dataset = ctx.open(scan)
    assert repr(dataset.axes[2]) == "ky: 8"


SERIES = (
    Axis("temperature", "K", -10.0, 300.0, 2, "nav"),
    Axis("time", "s", 0.25, 0.0, 3, "nav"),
    Axis("scan_x", "nm", 0.5, 7.0, 4, "nav"),
    Axis("Wavelength", "nm", -0.5, 700.0, 8, "sig"),
)


@pytest.fixture
def series(tmp_path):
    """Axes of which no quantity can say what they are, but for the places in a row."""
    path = tmp_path / "series.hspy"
    axes = [
        ("temperature", -10.0, 300.0, "K", True),
        ("time", 0.25, 0.0, "seconds", True),
        ("scan_x", 5.0, 70.0, "Å", True),
        ("Wavelength", -0.5, 700.0, "nm", False),
    ]
    write_hspy(path, np.ones((2, 3, 4, 8), "uint8"), axes)
    return path


@COPIES
def test_axes_of_which_no_quantity_tells_are_the_same_in_copies(
    ctx, tmp_path, series, ending, options
):
    dataset = ctx.open(series)
    assert dataset.axes == SERIES
    steps = {name: value for name, value in dataset.metadata.items() if name[-2:] in ("_x", "_y")}
    assert steps == {"scan_step_x": 0.5, "scan_offset_x": 7.0}
    copy = tmp_path / f"copy.{ending}"
    ctx.export_dataset(dataset, copy, **options)
    assert ctx.open(copy).axes == SERIES
    assert ctx.open(copy).metadata == dataset.metadata


@COPIES
def test_a_part_begins_where_it_is(ctx, tmp_path, series, ending, options):
    dataset, copy = ctx.open(series), tmp_path / f"copy.{ending}"
    ctx.export_dataset(dataset, copy, roi=dataset.roi[1:, 1:, 2:], **options)
    temperature, time, scan_x, wavelength = ctx.open(copy).axes
    assert (temperature.offset, temperature.size) == (290.0, 1)
    assert (time.offset, time.scale, time.unit, time.size) == (0.25, 0.25, "s", 2)
    assert (scan_x.offset, scan_x.size) == (8.0, 2)
    assert wavelength == SERIES[3]
    # Positions from here and there are counted.
    scattered = np.zeros((2, 3, 4), bool)
    scattered[0, 0, 0] = scattered[1, 2, 1] = True
    ctx.export_dataset(dataset, copy, roi=scattered, overwrite=True, **options)
    assert ctx.open(copy).axes == (Axis("scan_x", "", 1.0, 0.0, 2, "nav"), wavelength)


def test_rows_that_follow_each_other_have_no_steps(ctx, tmp_path, series):
    flat = ctx.open(series, nav_shape=(24,))
    assert [repr(axis) for axis in flat.axes] == [
        "scan_x: 24",
        "Wavelength: 8 × -0.5 nm, from 700 nm",
    ]
    for ending in ("zarr", "h5", "hspy"):
        ctx.export_dataset(flat, tmp_path / f"copy.{ending}")
        assert ctx.open(tmp_path / f"copy.{ending}").axes == flat.axes


def test_frames_and_scans_of_another_shape_have_other_steps(ctx):
    path = real_file("BLO/rosettasciio/test1.blo")
    step = ctx.open(path).axes[-1].scale
    for shape, steps in [
        ((1, 144, 144), [1, step, step]),
        ((288, 72), [1, 1]),
        ((144 * 144,), [1]),
    ]:
        dataset = ctx.open(path, sig_shape=shape)
        assert [axis.scale for axis in dataset.axes[2:]] == steps, shape
    scan = ctx.open(path, nav_shape=(1, 6))
    assert [axis.scale for axis in scan.axes] == [1, 1, step, step]
    assert "scan_step_x" not in scan.metadata


def test_arrays_are_written_with_the_names_of_axes(ctx, tmp_path, scan):
    names = [axis.name for axis in CALIBRATED]
    ctx.export_dataset(ctx.open(scan), tmp_path / "copy.zarr")
    described = json.loads((tmp_path / "copy.zarr" / "zarr.json").read_text())
    assert described["dimension_names"] == names
    assert [axis["name"] for axis in described["attributes"]["axes"]] == names
    ctx.export_dataset(ctx.open(scan), tmp_path / "two.zarr", zarr_format=2)
    described = json.loads((tmp_path / "two.zarr" / ".zattrs").read_text())
    assert described["_ARRAY_DIMENSIONS"] == names
    assert described["sig_dims"] == 2
    assert described["axes"] == [
        {"name": axis.name, "scale": axis.scale, "offset": axis.offset, "units": axis.unit}
        for axis in CALIBRATED
    ]
    ctx.export_dataset(ctx.open(scan), tmp_path / "copy.h5")
    with h5py.File(tmp_path / "copy.h5") as file:
        axes = [file["axes"][name].attrs["name"] for name in ("scan_y", "scan_x", "y", "x")]
        assert axes == names


def test_the_command_line_shows_axes(scan, command):
    shown = command("info", scan)
    lines = [line.split(None, 1)[1] for line in shown.splitlines() if line.startswith("  axis ")]
    assert lines == [repr(axis) for axis in CALIBRATED]
    axes = json.loads(command("info", scan, "--json"))["axes"]
    assert axes[0] == {
        "name": "slow",
        "kind": "nav",
        "size": 3,
        "scale": -0.5,
        "offset": 3.0,
        "unit": "nm",
        "direction": -1,
    }
    assert [axis["kind"] for axis in axes] == ["nav", "nav", "sig", "sig"]
