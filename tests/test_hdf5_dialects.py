"""What programs do with HDF5: where frames are, which axes they have, and what is said of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from known_oddities import odd
from test_hdf5 import read, values
from vendor_files import write_dm

import framefold as ff
from framefold.exceptions import FramefoldError

h5py = pytest.importorskip("h5py", reason="h5py writes the files")


def test_hyperspy_axes(tmp_path):
    array = values((4, 3, 5, 6), "u2")
    path = tmp_path / "a.hspy"
    with h5py.File(path, "w") as file:
        file.attrs["file_format"] = "HyperSpy"
        for name, data, n_sig in [("small", array[0, 0], 1), ("x", array, 1)]:
            group = file.create_group(f"Experiments/{name}")
            group.create_dataset("data", data=data, chunks=True, compression="gzip")
            for axis in range(data.ndim):
                described = group.create_group(f"axis-{axis}")
                described.attrs["navigate"] = axis < data.ndim - n_sig
    dataset = ff.Context().open(path)
    assert (tuple(dataset.shape.nav), tuple(dataset.shape.sig)) == ((4, 3, 5), (6,))
    assert dataset.meta["HDF5 dialect"] == "HyperSpy"
    assert np.array_equal(read(dataset), array)


@pytest.mark.parametrize("chunks", [None, (5, 6, 1), (2, 3, 2), (5, 6, 7)])
def test_frames_on_the_last_axis(tmp_path, chunks):
    """Velox stores height, width, frames."""
    array = values((5, 6, 7), "i2")
    path = tmp_path / "a.emd"
    with h5py.File(path, "w") as file:
        file.create_dataset("Data/Image/0123/Data", data=array, chunks=chunks)
        file["Data/Image/0123/Metadata"] = np.zeros((9, 7), "u1")
    dataset = ff.Context().open(path)
    assert tuple(dataset.shape) == (7, 5, 6)
    assert np.array_equal(read(dataset), np.moveaxis(array, 2, 0))


@pytest.mark.parametrize("name", ["stack", "0123/Data", "0123/other", "0123/deeper/Data"])
def test_what_is_named_nearly_as_in_velox_is_not_turned(tmp_path, name):
    array = values((5, 6, 7), "i2")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file[f"Data/Image/{name}"] = array
        if name != "0123/Data":
            file["Data/Image/0123/Metadata"] = np.zeros((9, 7), "u1")
            file["Data/Image/0123/deeper/Metadata"] = np.zeros((9, 7), "u1")
    for options in ({}, {"ds_path": f"Data/Image/{name}"}):
        dataset = ff.Context().open(tmp_path / "a.h5", **options)
        assert dataset.meta["HDF5 dialect"] == "plain"
        assert np.array_equal(read(dataset), array)


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize("chunks", [None, (4, 7, 1), (1, 3, 2)])
def test_spectrum_images_of_velox(tmp_path, chunks, as_bytes):
    """Velox stores x, energy, y of a scan."""
    array = values((4, 7, 3), "f4")
    info = {"bincount": "7", "width": "4", "height": "3", "encoding": "float32"}
    acquisition = {"Data": {"dispersion": 0.25, "offset": -10}}
    path = tmp_path / "a.emd"
    with h5py.File(path, "w") as file:
        group = file.create_group("Data/EelsSpectrumImage/0123")
        group.create_dataset("Data", data=array, chunks=chunks)
        for name, said in (("Info", info), ("AcquisitionMetadata", acquisition)):
            text = json.dumps(said)
            group[name] = np.frombuffer(text.encode() + bytes(9), "u1") if as_bytes else [text]
        file["Data/Image/0123/Data"] = values((4, 3, 1), "u2")
    for options in ({}, {"ds_path": "Data/EelsSpectrumImage/0123/Data"}):
        dataset = ff.Context().open(path, **options)
        assert (tuple(dataset.shape.nav), tuple(dataset.shape.sig)) == ((3, 4), (7,))
        assert dataset.meta["HDF5 dialect"] == "Velox"
        assert np.array_equal(read(dataset), array.transpose(2, 0, 1))
        assert dataset.metadata == {"energy_step": 0.25, "energy_offset": -10}
    # What the user says of the axes counts more, and so do sizes that cannot be.
    assert np.array_equal(read(ff.Context().open(path, sig_dims=2)), array)
    with h5py.File(path, "a") as file:
        del file["Data/EelsSpectrumImage/0123/Info"]
        file["Data/EelsSpectrumImage/0123/Info"] = [json.dumps({**info, "bincount": "3"})]
    assert np.array_equal(read(ff.Context().open(path)), array)


def test_lines_of_spectra_of_velox(tmp_path):
    array = values((4, 7), "f4")
    path = tmp_path / "a.emd"
    with h5py.File(path, "w") as file:
        file["Data/EelsSpectrumImage/0123/Data"] = array
    dataset = ff.Context().open(path, ds_path="Data/EelsSpectrumImage/0123/Data")
    assert (tuple(dataset.shape.nav), tuple(dataset.shape.sig)) == ((4,), (7,))
    assert np.array_equal(read(dataset), array)


def write_dm5(path, array, *, tags, unit="nm", code=2):
    """An image as DigitalMicrograph has it, with a thumbnail before it."""
    with h5py.File(path, "w") as file:
        file["ImageList/[0]/ImageData/Data"] = values((9, 9), "u4")
        data = file.create_group("ImageList/[1]/ImageData")
        data["Data"] = array
        data.attrs["DataType"] = np.int32(code)
        for number in range(array.ndim):
            step = data.create_group(f"Calibrations/Dimension/[{number}]")
            last = unit if number == array.ndim - 1 else "nm"
            step.attrs.update({"Scale": np.float32(0.5), "Origin": np.float32(4), "Units": last})
        file.create_group("ImageList/[1]/ImageTags/Meta Data").attrs.update(tags)


def test_steps_of_dm5_without_a_unit(tmp_path):
    write_dm5(tmp_path / "a.dm5", values((20, 21), "f4"), tags={}, unit="")
    with h5py.File(tmp_path / "a.dm5", "a") as file:
        del file["ImageList/[1]/ImageData/Calibrations/Dimension/[0]"].attrs["Units"]
    axes = ff.Context().open(tmp_path / "a.dm5").axes
    assert [repr(axis) for axis in axes[1:]] == ["y: 20 × 0.5, from -2", "x: 21 × 0.5, from -2"]


@odd("does not say in which order its axes .5, 3, 4. are")
def test_spectrum_images_of_dm5(tmp_path):
    """As in .dm3 and .dm4, energies are the first axis unless the file says otherwise."""
    array, path = values((5, 3, 4), "f4"), tmp_path / "a.dm5"
    write_dm5(path, array, tags={"Format": "Spectrum image"}, unit="eV")
    dataset = ff.Context().open(path)
    assert (tuple(dataset.shape.nav), tuple(dataset.shape.sig)) == ((3, 4), (5,))
    assert np.array_equal(read(dataset), array.transpose(1, 2, 0))
    assert dataset.meta["HDF5 dialect"] == "DM5"
    assert dataset.metadata == {
        "scan_step_x": 0.5,
        "scan_step_y": 0.5,
        "scan_offset_x": -2,
        "scan_offset_y": -2,
        "energy_step": 0.5,
        "energy_offset": -2,
    }
    write_dm5(path, array, tags={"Format": "Spectrum image", "Data Order Swapped": True})
    dataset = ff.Context().open(path)
    assert (tuple(dataset.shape.nav), tuple(dataset.shape.sig)) == ((5, 3), (4,))
    assert np.array_equal(read(dataset), array)


@pytest.mark.parametrize("swapped", [None, False, True])
def test_lines_of_spectra_of_dm(tmp_path, swapped):
    """Energies are along rows, whatever the file says of the order, as rosettasciio reads them."""
    array = values((12, 15), "f4")
    tags = {} if swapped is None else {"Data Order Swapped": swapped}
    write_dm5(tmp_path / "a.dm5", array, tags={"Format": "Spectrum image", **tags})
    write_dm(tmp_path / "a.dm4", array, swapped=swapped, spectra=True)
    for path in (tmp_path / "a.dm5", tmp_path / "a.dm4"):
        dataset = ff.Context().open(path)
        assert (tuple(dataset.shape.nav), tuple(dataset.shape.sig)) == ((12,), (15,))
        assert np.array_equal(read(dataset), array)


@odd("does not say in which order its axes .8, 9, 3, 4. are")
@pytest.mark.parametrize("format_", [{}, {"Format": "Image"}])
@pytest.mark.parametrize("swapped", [None, False, np.int8(0), True, np.int8(1)])
def test_four_axes_of_dm5(tmp_path, format_, swapped):
    """As in .dm4, those of the detector are the first ones unless the file says otherwise."""
    array, path = values((8, 9, 3, 4), "f4"), tmp_path / "a.dm5"
    order = {} if swapped is None else {"Data Order Swapped": swapped}
    write_dm5(path, array, tags={**format_, **order})
    dataset = ff.Context().open(path)
    expected = array if swapped else array.transpose(2, 3, 0, 1)
    assert tuple(dataset.shape) == expected.shape
    assert np.array_equal(read(dataset), expected)
    doubts = ["the scan is taken for the last ones" in warning for warning in dataset.warnings]
    assert doubts == ([True] if swapped is None else [])


@odd("does not say in which order its axes .8, 9, 3, 4. are")
def test_dm5_without_tags(tmp_path):
    array, path = values((8, 9, 3, 4), "f4"), tmp_path / "a.dm5"
    write_dm5(path, array, tags={})
    with h5py.File(path, "a") as file:
        del file["ImageList/[1]/ImageTags"]
    dataset = ff.Context().open(path)
    assert (tuple(dataset.shape.nav), tuple(dataset.shape.sig)) == ((3, 4), (8, 9))
    # These are the last ones whatever the order is.
    rows = ff.Context().load("hdf5", path, sig_dims=1)
    assert (tuple(rows.shape), rows.warnings) == (array.shape, [])


@odd("this is a picture in colours")
def test_images_of_dm5(tmp_path):
    array, path = values((5, 3, 4), "u4"), tmp_path / "a.dm5"
    for code in (11, 8, 23):
        write_dm5(path, array, tags={}, code=code)
        dataset = ff.Context().open(path)
        assert np.array_equal(read(dataset), array)
        assert dataset.metadata["image_step_x"] == 0.5
        assert any("colours" in warning for warning in dataset.warnings) == (code != 11)


def nion_properties(n_sig, axes, **metadata):
    """What Nion Swift says of a data item, as its library and its exports have it."""
    units = {"nm": (-4.0, 2.0), "mrad": (-20.0, 5.0), "eV": (-10.0, 0.25)}
    return {
        "type": "data-item",
        "created": "2026-11-22T19:49:50.838147",
        "is_sequence": False,
        "collection_dimension_count": len(axes) - n_sig,
        "datum_dimension_count": n_sig,
        "intensity_calibration": {"offset": 0.0, "scale": 1.0, "units": "counts"},
        "dimensional_calibrations": [
            {"offset": units[unit][0], "scale": units[unit][1], "units": unit} for unit in axes
        ],
        "metadata": metadata,
        "title": "a scan",
        "session": {"instrument": "UltraSTEM 100"},
        "version": 13,
    }


def test_nion_swift(tmp_path):
    array = values((3, 4, 5, 6), "u2")
    camera = {"hardware_source_name": "Ronchigram", "exposure": 0.025, "binning": 2}
    instrument = {"high_tension": 100000.0, "defocus": 5e-7}
    said = nion_properties(
        2,
        ["nm", "nm", "mrad", "mrad"],
        hardware_source=camera,
        instrument=instrument,
        scan={"rotation": np.pi / 6},
    )
    with h5py.File(tmp_path / "item.h5", "w") as file:
        file["data"] = array
        file["data"].attrs["properties"] = json.dumps(said)
    with h5py.File(tmp_path / "export.nhdf", "w") as file:
        file["data/0"] = array[0, 0]
        file["data/1"] = array
        file["data/1"].attrs["properties"] = json.dumps(said)
        file.create_group("index").attrs["1"] = json.dumps({"type": "display_item"})
    for name in ("item.h5", "export.nhdf"):
        dataset = ff.Context().open(tmp_path / name)
        assert dataset.meta["HDF5 dialect"] == "Nion Swift"
        assert np.array_equal(read(dataset), array)
        assert dict(dataset.metadata) == {
            "scan_step_x": 2,
            "scan_step_y": 2,
            "scan_offset_x": -4,
            "scan_offset_y": -4,
            "scan_rotation": pytest.approx(30),
            "acceleration_voltage": 100,
            "defocus": 500,
            "exposure_time": 0.025,
            "angle_step_x": 5,
            "angle_step_y": 5,
            "angle_offset_x": -20,
            "angle_offset_y": -20,
            "binning_x": 2,
            "binning_y": 2,
            "detector": "Ronchigram",
            "microscope": "UltraSTEM 100",
            "recorded_at": "2026-11-22T19:49:50.838147Z",
            "title": "a scan",
        }


def test_spectra_of_nion_swift(tmp_path):
    array = values((3, 4, 50), "f4")
    with h5py.File(tmp_path / "item.h5", "w") as file:
        file["data"] = array
        said = nion_properties(1, ["nm", "nm", "eV"])
        file["data"].attrs["properties"] = json.dumps(said)
    dataset = ff.Context().open(tmp_path / "item.h5")
    assert (tuple(dataset.shape.nav), tuple(dataset.shape.sig)) == ((3, 4), (50,))
    assert (dataset.metadata["energy_step"], dataset.metadata["energy_offset"]) == (0.25, -10)
    with pytest.raises(FramefoldError, match="4 cannot be signal axes"):
        ff.Context().load("hdf5", path=tmp_path / "item.h5", sig_dims=4)
    as_frames = ff.Context().load("hdf5", path=tmp_path / "item.h5", sig_dims=2)
    assert tuple(as_frames.shape.sig) == (4, 50)


def test_nexus_default(tmp_path):
    array, larger = values((4, 5, 6), "u2"), values((9, 9, 9), "u2")
    with h5py.File(tmp_path / "a.nxs", "w") as file:
        file.attrs["default"] = "scan"
        file["other"] = larger
        file["scan/frames/counts"] = array
        file["scan"].attrs["default"] = "frames"
        file["scan/frames"].attrs["signal"] = "counts"
    assert np.array_equal(read(ff.Context().open(tmp_path / "a.nxs")), array)


def test_what_else_there_is_in_a_file_is_listed(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["thumbnail"] = values((20, 30, 3), "u1")
        file["scan/counts"] = values((4, 5, 6), "u2")
        file["dark"] = values((5, 6), "f4")
        file["words"] = "none"
    dataset = ff.Context().open(path)
    assert dataset.meta["data set"] == "/thumbnail"
    assert dataset.meta["other data sets"] == "'scan/counts' [4, 5, 6]"
    named = ff.Context().load("hdf5", path=path, ds_path="scan/counts")
    assert "other data sets" not in named.meta
    with pytest.raises(FramefoldError, match="no data set 'nope'") as caught:
        ff.Context().load("hdf5", path=path, ds_path="nope")
    there = "there are 'thumbnail' [20, 30, 3], 'scan/counts' [4, 5, 6], 'dark' [5, 6]"
    assert there in str(caught.value)
    with h5py.File(path, "a") as file:
        del file["thumbnail"]
    assert "other data sets" not in ff.Context().open(path).meta
