"""Delmic's Odemis: which acquisition is opened, and its axes."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from real_files import manifest, real_data, real_file
from test_hdf5 import read, values

import framefold as ff

h5py = pytest.importorskip("h5py", reason="h5py writes the files")

FOLDER = "DELMIC/rosettasciio/sparc"
#: Where scans begin in nm, rows and columns, as rosettasciio reads it.
FIRST = {
    "angle-resolved": (1356.9200669989802, -885.4939204581668),
    "e-k": (232.86528637411485, -483.5946834366834),
    "hyperspectral": (1326.3523814094667, -893.1358418555512),
}
READINGS = [
    pytest.param(entry["file"], reading, id=entry["file"].rsplit("sparc-")[-1])
    for entry in manifest("DELMIC")
    for reading in entry["readings"]
    if reading["reader"].startswith("rosettasciio")
]


def acquire(file, number, array, *, title="Spectrum", x=0.0, y=0.0, step=2e-9, **scales):
    """Write one acquisition as Odemis does: C, T or A, Z, Y, X."""
    group = file.create_group(f"Acquisition{number}")
    group["SVIData/Company"] = "Delmic"
    group["PhysicalData/Title"] = title
    group["PhysicalData/HardwareName"] = ["camera"]
    group["PhysicalData/IntegrationTime"] = [0.25]
    data = group.create_group("ImageData")
    data["Image"] = array
    data.update({"XOffset": x, "YOffset": y, "TOffset": 1.7e9})
    units = {"X": "m", "Y": "m", "C": "m", "A": "rad", "T": "s"}
    for letter, scale in {"X": step, "Y": step, **scales}.items():
        data[f"DimensionScale{letter}"] = scale
        data[f"DimensionScale{letter}"].attrs["UNIT"] = units[letter]


def write_scan(path, array, **scales):
    """A scan between images of the sample, and the preview, which is larger."""
    with h5py.File(path, "w") as file:
        acquire(file, 0, values((1, 1, 1, 60, 70), "u2"), title="survey")
        acquire(file, 10, values((1, 1, 1, *array.shape[3:]), "u2"), title="SE")
        acquire(file, 2, array, x=4e-9, y=8e-9, **scales)
        acquire(file, 3, array[..., :1], **scales)
        acquire(file, 4, array)
        del file["Acquisition4/ImageData/Image"]
        file["Preview/Image"] = values((90, 80, 3), "u1")


def test_a_scan_of_spectra(tmp_path):
    array = values((5, 1, 1, 3, 4), "u2")
    write_scan(tmp_path / "a.h5", array, C=np.linspace(500e-9, 504e-9, 5))
    for options in ({}, {"ds_path": "Acquisition2/ImageData/Image"}):
        dataset = ff.Context().open(tmp_path / "a.h5", **options)
        assert (tuple(dataset.shape.nav), tuple(dataset.shape.sig)) == ((3, 4), (5,))
        assert dataset.meta["HDF5 dialect"] == "Delmic"
        assert dataset.meta["data set"] == "/Acquisition2/ImageData/Image"
        assert np.array_equal(read(dataset), array[:, 0, 0].transpose(1, 2, 0))
        # Rows go down, y goes up; the place is that of the middle.
        assert dataset.metadata == pytest.approx(
            {
                "scan_step_x": 2,
                "scan_offset_x": 1,
                "scan_step_y": -2,
                "scan_offset_y": 10,
                "exposure_time": 0.25,
                "detector": "camera",
                "title": "Spectrum",
                "recorded_at": "2023-11-14T22:13:20Z",
                "frame_axes": "wavelength",
            }
        )
        last = dataset.axes[-1]
        assert (last.name, last.unit) == ("wavelength", "nm")
        assert (last.scale, last.offset) == pytest.approx((1, 500))
    others = ff.Context().open(tmp_path / "a.h5").meta["other data sets"]
    for name in ("Preview/Image", "Acquisition0/", "Acquisition10/", "Acquisition3/"):
        assert name in others
    assert "Acquisition2/" not in others
    # What the user says of the axes counts more.
    as_stored = ff.Context().open(tmp_path / "a.h5", sig_dims=2)
    assert np.array_equal(read(as_stored), array)


@pytest.mark.parametrize("letter", ["A", "T"])
def test_a_scan_of_images_of_spectra(tmp_path, letter):
    """Angles or times are rows, wavelengths columns; their steps are no lengths."""
    array = values((5, 6, 1, 3, 4), "u2")
    scales = {"C": np.linspace(500e-9, 504e-9, 5), letter: np.arange(6) * 0.5}
    write_scan(tmp_path / "a.h5", array, **scales)
    dataset = ff.Context().open(tmp_path / "a.h5")
    assert tuple(dataset.shape) == (3, 4, 6, 5)
    assert np.array_equal(read(dataset), array[:, :, 0].transpose(2, 3, 1, 0))
    rows, columns = dataset.axes[2:]
    name, unit = {"A": ("angle", "rad"), "T": ("time", "s")}[letter]
    assert (rows.name, rows.scale, rows.unit) == (name, 0.5, unit)
    assert (columns.name, columns.unit) == ("wavelength", "nm")
    assert "image_step_x" not in dataset.metadata


def test_decays_without_wavelengths(tmp_path):
    array = values((1, 6, 1, 3, 4), "u2")
    write_scan(tmp_path / "a.h5", array, T=0.5)
    dataset = ff.Context().open(tmp_path / "a.h5")
    assert tuple(dataset.shape) == (3, 4, 6)
    assert np.array_equal(read(dataset), array[0, :, 0].transpose(1, 2, 0))
    assert (dataset.axes[-1].name, dataset.axes[-1].scale) == ("time", 0.5)


def write_positions(path, frames, places, title="Angle-resolved"):
    with h5py.File(path, "w") as file:
        acquire(file, 0, values((1, 1, 1, 60, 70), "u2"), title="survey")
        for number, (frame, (x, y)) in enumerate(zip(frames, places, strict=True)):
            acquire(file, number + 1, frame[None, None, None], title=title, x=x, y=y)
            file[f"Acquisition{number + 1}/PhysicalData/PolePosition"] = [[3.0, 4.0]]
        file["Preview/Image"] = values((90, 80, 3), "u1")


def test_an_acquisition_for_each_position(tmp_path):
    """More than ten of them: they are in the order of their numbers."""
    frames = values((12, 8, 10), "u2")
    places = [(x * 2e-9, -y * 3e-9) for y in range(3) for x in range(4)]
    write_positions(tmp_path / "a.h5", frames, places)
    dataset = ff.Context().open(tmp_path / "a.h5")
    assert tuple(dataset.shape) == (3, 4, 8, 10)
    assert np.array_equal(read(dataset), frames.reshape(3, 4, 8, 10))
    steps = {key: dataset.metadata.get(key) for key in ("scan_step_x", "scan_step_y")}
    assert steps == pytest.approx({"scan_step_x": 2, "scan_step_y": -3})
    assert "image_step_x" not in dataset.metadata
    assert dataset.meta["data set"] == "/Acquisition1/ImageData/Image and 11 more"
    one = ff.Context().open(tmp_path / "a.h5", ds_path="Acquisition7/ImageData/Image")
    assert np.array_equal(read(one).reshape(8, 10), frames[6])
    rows = ff.Context().open(tmp_path / "a.h5", sig_dims=1)
    assert np.array_equal(read(rows).reshape(frames.shape), frames)
    assert "scan_step_x" not in rows.metadata

    # Places that make no grid are a line, and images of one place no scan.
    write_positions(tmp_path / "b.h5", frames, [(n**2 * 1e-9, 0.0) for n in range(12)])
    assert tuple(ff.Context().open(tmp_path / "b.h5").shape) == (12, 8, 10)
    write_positions(tmp_path / "c.h5", frames, [(0.0, 0.0)] * 12)
    dataset = ff.Context().open(tmp_path / "c.h5")
    assert dataset.meta["data set"] == "/Acquisition0/ImageData/Image"
    assert "Acquisition12/" in dataset.meta["other data sets"]


def test_others_that_have_such_names(tmp_path):
    """What no one else calls Delmic's is chosen as in any other file."""
    write_scan(tmp_path / "a.h5", values((5, 1, 1, 3, 4), "u2"))
    with h5py.File(tmp_path / "a.h5", "a") as file:
        for name in ("Acquisition0", "Acquisition2", "Acquisition3", "Acquisition10"):
            file[f"{name}/SVIData/Company"][...] = "Huygens"
    dataset = ff.Context().open(tmp_path / "a.h5")
    assert dataset.meta["data set"] == "/Preview/Image"


@pytest.mark.parametrize(("name", "reading"), READINGS)
def test_real_files_are_as_rosettasciio_reads_them(name, reading):
    dataset = ff.Context().open(real_data() / name)
    assert list(dataset.shape) == reading["shape"]
    frames = np.ascontiguousarray(read(dataset))
    assert str(frames.dtype) == reading["dtype"]
    assert hashlib.sha256(frames.tobytes()).hexdigest() == reading["sha256_c_order_le"]
    assert dataset.metadata["title"] == reading["title"]
    for axis, expected in zip(dataset.axes, reading["axes"], strict=True):
        if expected["scale"] is not None:
            assert axis.scale == pytest.approx(expected["scale"], rel=1e-9)
            assert axis.unit == expected["units"]
    first = FIRST[name.rsplit("sparc-")[-1].removesuffix(".h5")]
    assert [axis.offset for axis in dataset.axes[:2]] == pytest.approx(first, rel=1e-9)


@pytest.mark.parametrize("kind", ["e-k", "hyperspectral"])
def test_real_files_are_as_h5py_reads_them(kind):
    path = real_file(f"{FOLDER}-{kind}.h5")
    dataset = ff.Context().open(path)
    with h5py.File(path) as file:
        data = file["Acquisition2/ImageData"]
        stored = data["Image"][:, :, 0]
        wavelengths = data["DimensionScaleC"][:] * 1e9
    expected = stored.transpose(2, 3, 1, 0).reshape(tuple(dataset.shape))
    assert np.array_equal(read(dataset), expected)
    sums = ff.Context().run_udf(dataset, ff.SumSigUDF())["intensity"].data
    assert np.array_equal(sums, expected.reshape(*sums.shape, -1).sum(axis=-1))
    axis = dataset.axes[-1]
    assert (axis.name, axis.unit) == ("wavelength", "nm")
    # They are stored in single precision.
    found = axis.offset + axis.scale * np.arange(len(wavelengths))
    np.testing.assert_allclose(found, wavelengths, rtol=1e-5)
