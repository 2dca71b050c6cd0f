"""Units are what the file says: numbers come out in the documented ones, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from known_oddities import odd

import framefold as ff

FRAMES = np.arange(3 * 4 * 6 * 8, dtype="u2").reshape(3, 4, 6, 8)


def nexus(path, detector, *, axes=None, data="data"):
    """An entry of NXmx with these fields of a detector: value, unit."""
    h5py = pytest.importorskip("h5py", reason="h5py writes the file")
    with h5py.File(path, "w") as file:
        entry = file.create_group("entry")
        entry.attrs["NX_class"] = "NXentry"
        entry["title"] = "a grid"
        entry["start_time"] = "2026-05-01T12:00:00+02:00"
        group = entry.create_group("instrument/detector")
        group.attrs["NX_class"] = "NXdetector"
        group["description"] = "ARINA"
        for name, (value, unit) in detector.items():
            group[name] = value
            if unit is not None:
                group[name].attrs["units"] = unit
        stored = entry.create_group("data")
        stored.attrs["NX_class"] = "NXdata"
        stored[data] = FRAMES if data == "data" else FRAMES[0]
        if axes:
            stored.attrs["axes"] = list(axes)
            for name, (values, unit) in axes.items():
                stored[name] = values
                stored[name].attrs["units"] = unit
    return ff.Context().open(path)


@pytest.mark.parametrize("data", ["data", "data_000001"])
@pytest.mark.parametrize(
    ("size", "length", "times", "time"),
    [
        (75e-6, "m", 1.0, "s"),
        (0.075, "mm", 1e3, "ms"),
        (np.float32(75), "um", 1e6, "us"),
        (75, "µm", 1e6, "microseconds"),
        (75000, b"nm", 1e3, b"msec"),
        (750000, "Angstroms", 1.0, "Seconds"),
        (75, np.bytes_("µm".encode("latin-1")), 1e6, np.bytes_("µs".encode("latin-1"))),
        (750000, np.bytes_("Å".encode("latin-1")), 1.0, b"s  "),
    ],
)
def test_detectors(tmp_path, data, size, length, times, time):
    dataset = nexus(
        tmp_path / "s.nxs",
        {
            "count_time": (0.25 * times, time),
            "frame_time": (np.array([0.5 * times]), time),
            "x_pixel_size": (size, length),
            "y_pixel_size": (size * 2, length),
            "threshold_energy": (12500.0, "eV"),
            "bit_depth_image": (np.int16(12), None),
        },
        data=data,
    )
    assert dataset.metadata == {
        "exposure_time": pytest.approx(0.25),
        "frame_time": pytest.approx(0.5),
        "pixel_size_x": pytest.approx(75),
        "pixel_size_y": pytest.approx(150),
        "bit_depth": 12,
        "threshold": pytest.approx(12.5),
        "detector": "ARINA",
        "recorded_at": "2026-05-01T12:00:00+02:00",
        "title": "a grid",
    }


def test_units_that_are_not_known_are_listed_and_not_guessed(tmp_path):
    dataset = nexus(
        tmp_path / "s.nxs",
        {
            "count_time": (2.0, "fortnights"),
            "frame_time": (3.0, None),
            "x_pixel_size": (75.0, "pixel"),
            "y_pixel_size": (75.0, "s"),
            "threshold_energy": ("high", "keV"),
        },
    )
    assert set(dataset.metadata) == {"detector", "recorded_at", "title"}
    assert dataset.meta["count_time"] == "2 fortnights"
    assert dataset.meta["frame_time"] == "3 of an unknown unit"
    assert dataset.meta["x_pixel_size"] == "75 pixel"
    assert dataset.meta["y_pixel_size"] == "75 s"


def test_axes_of_nexus(tmp_path):
    axes = {
        "scan_y": (np.arange(3) * 2e-3, "um"),
        "scan_x": (np.arange(4) * 0.5, "furlong"),
        "ky": (np.linspace(1, -1, 6), "1/angstrom"),
        "kx": (np.array([0.0, 1, 2, 4, 8, 16, 32, 64]), "1/nm"),
    }
    dataset = nexus(tmp_path / "s.nxs", {}, axes=axes)
    assert dataset.metadata["scan_step_y"] == pytest.approx(2)
    assert dataset.metadata["diffraction_step_y"] == pytest.approx(-4)
    # Of an unknown unit, and not even.
    assert not {"scan_step_x", "diffraction_step_x"} & set(dataset.metadata)
    assert dataset.meta["step of axis 1"] == "0.5 furlong"


def test_several_detectors_leave_open_which_is_meant(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py writes the file")
    nexus(tmp_path / "s.nxs", {"count_time": (1.0, "s")})
    with h5py.File(tmp_path / "s.nxs", "a") as file:
        instrument = file["entry/instrument"]
        instrument.move("detector", "left")
    assert ff.Context().open(tmp_path / "s.nxs").metadata["exposure_time"] == 1
    with h5py.File(tmp_path / "s.nxs", "a") as file:
        file["entry/instrument"].copy("left", "right")
    assert "exposure_time" not in ff.Context().open(tmp_path / "s.nxs").metadata


@pytest.mark.parametrize("first", [0, 1])
def test_emd(tmp_path, first):
    """Berkeley counts axes from 1 and has all values; py4DSTEM from 0, with two of them."""
    h5py = pytest.importorskip("h5py", reason="h5py writes the file")
    with h5py.File(tmp_path / "s.emd", "w") as file:
        group = file.create_group("root/datacube")
        group.attrs["emd_group_type"] = "array" if first == 0 else 1
        group["data"] = FRAMES
        units = ["A", "A", "A^-1", "mrad"] if first == 0 else ["[n_m]", "[u_m]", "[n_m^-1]", "[]"]
        for axis, unit in enumerate(units):
            values = np.arange(2 if first == 0 else FRAMES.shape[axis]) * 0.5
            group[f"dim{axis + first}"] = values
            group[f"dim{axis + first}"].attrs.update({"units": unit, "name": "x"})
    found = ff.Context().open(tmp_path / "s.emd").metadata
    if first == 0:
        expected = {"scan_step_x": 0.05, "scan_step_y": 0.05}
        expected |= {"diffraction_step_y": 5.0, "angle_step_x": 0.5}
    else:
        expected = {"scan_step_x": 500.0, "scan_step_y": 0.5, "diffraction_step_y": 0.5}
    assert found == pytest.approx(expected)


@odd("axes of frames have the units of a scan")
def test_emd_of_hyperspy(tmp_path):
    """It writes EMD files with all axes in the other order; the data are read as they lie there."""
    hs = pytest.importorskip("hyperspy.api", reason="HyperSpy writes the file")
    signal = hs.signals.Signal2D(FRAMES)
    for axis, units in zip(signal.axes_manager._axes, ["nm", "nm", "1/nm", "1/nm"], strict=True):
        axis.scale, axis.units = 0.5, units
    signal.save(tmp_path / "s.emd")
    dataset = ff.Context().open(tmp_path / "s.emd")
    assert np.array_equal(dataset.shape, FRAMES.T.shape)
    (warning,) = dataset.warnings
    assert "those of the scan the units of diffraction patterns" in warning
    assert ".hspy" in warning


def test_what_hyperspy_writes(tmp_path):
    hs = pytest.importorskip("hyperspy.api", reason="HyperSpy writes the file")
    name = "s.hspy"
    signal = hs.signals.Signal2D(FRAMES)
    for axis, (scale, units) in zip(
        signal.axes_manager._axes,
        [(2.0, "µm"), (5.0, "Å"), (0.25, r"$nm^{-1}$"), (1.5, "mrad")],
        strict=True,
    ):
        axis.scale, axis.units = scale, units
    signal.metadata.General.title = "a title"
    signal.metadata.General.date = "2026-05-01"
    signal.metadata.General.time = "12:00:01"
    signal.set_signal_type("")
    signal.metadata.set_item("Acquisition_instrument.TEM.beam_energy", 200.0)
    signal.metadata.set_item("Acquisition_instrument.TEM.beam_current", 0.5)
    signal.save(tmp_path / name)
    dataset = ff.Context().open(tmp_path / name)
    assert np.array_equal(dataset.shape, FRAMES.shape)
    found = dict(dataset.metadata)
    assert found.pop("title") == "a title"
    assert found.pop("recorded_at") == "2026-05-01T12:00:01"
    assert found == pytest.approx(
        {
            "scan_step_y": 2000.0,
            "scan_step_x": 0.5,
            "diffraction_step_y": 0.25,
            "angle_step_x": 1.5,
            "acceleration_voltage": 200.0,
            "beam_current": 500.0,
        }
    )
    signal.axes_manager[0].units = "parsec"
    signal.save(tmp_path / f"other_{name}")
    other = ff.Context().open(tmp_path / f"other_{name}")
    assert "scan_step_x" not in other.metadata
    assert other.meta["step of axis 1"] == "5 parsec"


@pytest.mark.parametrize("version", [2, 3])
def test_hyperspy_in_zarr(tmp_path, version):
    """The groups of HyperSpy, which cannot write them with zarr 3 itself."""
    zarr = pytest.importorskip("zarr", minversion="3.0", reason="zarr writes the folder")
    root = zarr.open_group(tmp_path / "s.zspy", mode="w", zarr_format=version)
    signal = root.create_group("Experiments/a")
    signal.create_array("data", data=FRAMES)
    for axis, (scale, units) in enumerate(
        [(2.0, "µm"), (5.0, "parsec"), (0.25, r"$A^{-1}$"), (-1.5, "rad")]
    ):
        group = signal.create_group(f"axis-{axis}")
        group.attrs.update({"scale": scale, "offset": 0.0, "units": units, "navigate": axis < 2})
    signal.create_group("metadata/General").attrs.update({"title": "a title", "date": ""})
    tem = signal.create_group("metadata/Acquisition_instrument/TEM")
    tem.attrs.update({"beam_energy": 200, "microscope": "one"})
    dataset = ff.Context().open(tmp_path / "s.zspy")
    found = dict(dataset.metadata)
    assert (found.pop("title"), found.pop("microscope")) == ("a title", "one")
    expected = {"scan_step_y": 2000.0, "acceleration_voltage": 200.0}
    expected |= {"diffraction_step_y": 2.5, "angle_step_x": -1500.0}
    assert found == pytest.approx(expected)
    assert dataset.meta["step of axis 1"] == "5 parsec"


def test_spectra_of_hyperspy(tmp_path):
    hs = pytest.importorskip("hyperspy.api", reason="HyperSpy writes the file")
    signal = hs.signals.Signal1D(FRAMES[0])
    axis = signal.axes_manager.signal_axes[0]
    axis.scale, axis.offset, axis.units = 0.01, -0.5, "keV"
    signal.save(tmp_path / "s.hspy")
    found = ff.Context().open(tmp_path / "s.hspy").metadata
    assert (found["energy_step"], found["energy_offset"]) == pytest.approx((10.0, -500.0))
