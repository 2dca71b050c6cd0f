"""Which data set of an HDF5 file is taken, and what is said of those that are not."""

from __future__ import annotations

import numpy as np
import pytest
from test_hdf5 import read, values

import framefold as ff
from framefold.exceptions import BadFileError, FramefoldError, UnsupportedError
from framefold.warnings import DataSetWarning

h5py = pytest.importorskip("h5py", reason="h5py writes the files")


def master(path, link):
    """A file whose frames are in another one, with stacks that are something else."""
    with h5py.File(path, "w") as file:
        file["entry/sample/matrices"] = values((50, 3, 3), "f8")
        file["entry/sample"].attrs["NX_class"] = "NXsample"
        file["entry/flat"] = values((9, 8, 8), "f4")
        file["entry/data/counts"] = link


@pytest.mark.parametrize("declared", [False, True])
def test_what_a_link_leads_to_is_not_replaced_by_something_else(tmp_path, declared):
    array, path = values((4, 3, 8, 8), "u2"), tmp_path / "master.h5"
    master(path, h5py.ExternalLink("frames.h5", "x/frames"))
    if declared:
        with h5py.File(path, "a") as file:
            file.attrs["default"] = "entry"
            file["entry"].attrs["default"] = "data"
            file["entry/data"].attrs["signal"] = "counts"
    with pytest.raises(
        BadFileError, match=r"'entry/data/counts'.*'frames.h5'.*not there"
    ) as caught:
        ff.Context().open(path)
    assert "ds_path" in str(caught.value)
    named = ff.Context().load("hdf5", path, ds_path="entry/flat")
    assert tuple(named.shape) == (9, 8, 8)
    with h5py.File(tmp_path / "frames.h5", "w") as file:
        file["other"] = array
    with pytest.raises(BadFileError, match=r"'entry/data/counts'.*'frames.h5'.*no such data set"):
        ff.Context().open(path)
    with h5py.File(tmp_path / "frames.h5", "w") as file:
        file["x/frames"] = array
    found = ff.Context().open(path)
    assert np.array_equal(read(found), array)
    assert found.meta["other data sets"] == "'entry/flat' [9, 8, 8]"


def test_groups_in_other_files(tmp_path):
    array = values((4, 3, 8, 8), "u2")
    master(tmp_path / "master.h5", h5py.ExternalLink("frames.h5", "x"))
    with h5py.File(tmp_path / "frames.h5", "w") as file:
        file["x/deeper/frames"] = array
        file["x/back"] = h5py.ExternalLink("master.h5", "entry")
    dataset = ff.Context().open(tmp_path / "master.h5")
    assert dataset.meta["data set"] == "/entry/data/counts/deeper/frames"
    assert np.array_equal(read(dataset), array)


def test_what_describes_a_sample_is_never_taken(tmp_path):
    path = tmp_path / "a.nxs"
    with h5py.File(path, "w") as file:
        file["entry/sample/matrices"] = values((50, 3, 3), "f8")
        file["entry/sample"].attrs["NX_class"] = "NXsample"
    with pytest.raises(UnsupportedError, match="'entry/sample/matrices'"):
        ff.Context().open(path)
    with h5py.File(path, "a") as file:
        file["entry/image"] = values((5, 6), "u2")
    assert tuple(ff.Context().open(path).shape) == (1, 5, 6)


@pytest.mark.parametrize("absolute", [False, True])
def test_a_link_to_what_is_there_but_outside(tmp_path, absolute):
    folder, array = tmp_path / "set", values((3, 4, 5), "u2")
    folder.mkdir()
    with h5py.File(tmp_path / "frames.h5", "w") as file:
        file["x"] = array
    link = str(tmp_path / "frames.h5") if absolute else "../frames.h5"
    master(folder / "master.h5", h5py.ExternalLink(link, "x"))
    for name in (None, "entry/data/counts"):
        with pytest.raises(BadFileError, match="outside of its folder") as caught:
            ff.Context().load("hdf5", folder / "master.h5", ds_path=name)
        assert "allow_external_links" in str(caught.value)
        assert "not there" not in str(caught.value)
    named = ff.Context().load(
        "hdf5", folder / "master.h5", ds_path="entry/data/counts", allow_external_links=True
    )
    assert np.array_equal(read(named), array)


@pytest.mark.parametrize("how", ["plain", "emd", "nexus", "hyperspy", "velox"])
def test_images_are_one_frame(tmp_path, how):
    path, image = tmp_path / "a.h5", values((6, 7), "u2")
    with h5py.File(path, "w") as file:
        if how == "emd":
            file["set/data"] = image
            file["set"].attrs["emd_group_type"] = 1
        elif how == "nexus":
            file["entry/data/counts"] = image
            file["entry/data/larger"] = values((9, 9), "u2")
            file.attrs["default"] = "entry"
            file["entry"].attrs["default"] = "data"
            file["entry/data"].attrs["signal"] = "counts"
        elif how == "hyperspy":
            file["Experiments/one/data"] = image
        elif how == "velox":
            file["Data/Image/1/Data"] = image[:, :, None]
            file["Data/Image/1/Metadata"] = np.zeros((9, 1), "u1")
        else:
            file["image"] = image
            file["row"] = np.arange(1000)
    for filetype in ("auto", "hdf5"):
        dataset = ff.Context().load(filetype, path)
        assert tuple(dataset.shape) == (1, 6, 7)
        assert np.array_equal(read(dataset)[0], image)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x", r"'/x' is a group.*name one of its data sets: 'x/a' \[2, 4, 5\], 'x/y/b' \[3\]"),
        ("/", r"'/' is a group.*name one of its data sets: 'x/a'"),
        ("empty", r"'/empty' is a group.*there are 'x/a'"),
    ],
)
def test_a_group_is_no_data_set(tmp_path, name, said):
    arrays = {"x__a": values((2, 4, 5), "u2"), "x__y__b": values((3,), "u2")}
    path = names_of(tmp_path / "a.h5", **arrays)
    with h5py.File(path, "a") as file:
        file.create_group("empty")
    with pytest.raises(FramefoldError, match=said):
        ff.Context().load("hdf5", path, ds_path=name)


def test_a_single_row(tmp_path):
    path, row = tmp_path / "a.h5", values((40,), "u2")
    with h5py.File(path, "w") as file:
        file["row"] = row
    with pytest.raises(UnsupportedError, match=r"'row', has one axis.*sig_dims=1"):
        ff.Context().open(path)
    with pytest.raises(FramefoldError, match="sig_dims=1"):
        ff.Context().load("hdf5", path, ds_path="row")
    for name in (None, "row"):
        dataset = ff.Context().load("hdf5", path, ds_path=name, sig_dims=1)
        assert tuple(dataset.shape) == (1, 40)
        assert np.array_equal(read(dataset)[0], row)


@pytest.mark.parametrize("how", ["plain", "nexus", "hyperspy"])
def test_all_large_data_sets_are_listed(tmp_path, how):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for number in range(12):
            name = f"Experiments/{number:02}/data" if how == "hyperspy" else f"x/{number:02}"
            file[name] = values((2, 3, 4 + (number == 7), 5), "u1")
        if how == "nexus":
            file.attrs["default"] = "x"
            file["x"].attrs.update({"default": ".", "signal": "07"})
    meta = ff.Context().open(path).meta
    assert "07" in meta["data set"]
    others = meta["other data sets"]
    missing = [n for n in range(12) if n != 7 and f"{n:02}" not in others]
    assert not missing
    assert "more" not in others


@pytest.mark.parametrize("size", [512, 1024, 4096, 8192, 1 << 16, 1 << 20])
@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_user_blocks_of_every_size(tmp_path, version, size):
    array = values((5, 6, 8, 10), "<u2")
    path = tmp_path / "a.bin"
    with h5py.File(path, "w", userblock_size=size, libver=version) as file:
        file.create_dataset("chunks", data=array, chunks=(1, 2, 8, 10), compression="gzip")
        for number in range(12):
            file["chunks"].attrs[f"a{number}"] = number
            file[f"link{number}"] = file["chunks"]
    assert np.array_equal(read(ff.Context().open(path)), array)


def test_the_older_format_of_that_name(tmp_path):
    for name in ("a.hdf", "a.h5", "a.bin"):
        (tmp_path / name).write_bytes(b"\x0e\x03\x13\x01" + bytes(1000))
        for filetype in ("auto", "hdf5"):
            with pytest.raises(UnsupportedError, match=r"HDF4.*h4toh5"):
                ff.Context().load(filetype, tmp_path / name)


def test_no_other_data_set_takes_the_place_of_what_was_cut_off(tmp_path):
    path = tmp_path / "a.h5"
    survey = values((1, 1, 1, 6, 7), "u2")
    with h5py.File(path, "w") as file:
        for number, array in enumerate([survey, values((5, 1, 1, 30, 40), "u2")]):
            file[f"Acquisition{number}/SVIData/Company"] = "Delmic"
            file[f"Acquisition{number}/ImageData/Image"] = array
            file.flush()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000])
    words = f"a.h5.*cut short: of the {len(whole)} bytes.*{len(whole) - 1000} are.*ds_path"
    with pytest.raises(BadFileError, match=words):
        ff.Context().open(path)
    with pytest.warns(ff.warnings.DataSetWarning, match="cut short"):
        dataset = ff.Context().open(path, ds_path="Acquisition0/ImageData/Image")
    assert np.array_equal(read(dataset).reshape(survey.shape), survey)


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_only_what_is_cut_short_is_called_so(tmp_path, version):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=version) as file:
        file["x"] = values((5, 6, 8, 10), "<u2")
        address = h5py.h5o.get_info(file["x"].id).addr
    whole = path.read_bytes()
    for end in (len(whole) - 1, len(whole) // 2, 200):
        path.write_bytes(whole[:end])
        with pytest.raises(BadFileError, match=f"cut short: of the {len(whole)} bytes.*{end} are"):
            ff.Context().open(path)
    damaged = bytearray(whole)
    damaged[address + 24 : address + 64] = b"\xff" * 40
    path.write_bytes(damaged)
    with pytest.raises(FramefoldError) as caught:
        ff.Context().open(path)
    assert "cut short" not in str(caught.value)


def names_of(path, **arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name.replace("__", "/")] = array
    return path


@pytest.mark.parametrize(
    ("first", "second"),
    [("a", "g__b"), ("g__b", "z"), ("g__h__b", "g__z"), ("a__data", "z__data"), ("x10", "x9")],
)
def test_of_several_as_large_the_first_by_name_is_taken_and_said(tmp_path, first, second):
    """Those in a group stand where the group does, whichever was written first."""
    arrays = {second: values((6, 4, 4), "u2"), first: values((2, 3, 4, 4), "u1")}
    path = names_of(tmp_path / "a.h5", **arrays)
    taken, other = (name.replace("__", "/") for name in (first, second))
    said = rf"'{taken}' \[2, 3, 4, 4\], but '{other}' \[6, 4, 4\] is as large.*ds_path"
    with pytest.warns(DataSetWarning, match=said):
        dataset = ff.Context().open(path)
    assert dataset.meta["data set"] == f"/{taken}"
    assert np.array_equal(read(dataset), arrays[first])
    named = ff.Context().load("hdf5", path, ds_path=other)
    assert tuple(named.shape) == (6, 4, 4)


def test_of_hyperspys_signals_that_are_as_large_it_is_said_too(tmp_path):
    array = values((2, 3, 4, 4), "u2")
    path = names_of(tmp_path / "a.h5", Experiments__b__data=array, Experiments__a__data=array + 1)
    with pytest.warns(DataSetWarning, match="'Experiments/b/data'.*is as large"):
        dataset = ff.Context().open(path)
    assert dataset.meta["data set"] == "/Experiments/a/data"


@pytest.mark.parametrize("name", ["data", "/data"])
def test_frames_that_framefold_wrote_are_the_same_by_their_name(tmp_path, name):
    """Their kind, their steps and what is known of them."""
    ctx = ff.Context()
    spectra = ctx.load("memory", data=values((2, 3, 5), "f4"), sig_dims=1)
    spectra = spectra.calibrate(scan_step=(2, "nm"), pixel_size=(0.5, "eV"))
    path = tmp_path / "a.h5"
    ctx.export_dataset(spectra, path)
    named = ctx.open(path, ds_path=name)
    assert named.shape == spectra.shape
    assert named.axes == ctx.open(path).axes == spectra.axes
    assert dict(named.metadata) == dict(spectra.metadata)


def test_other_names_of_what_is_taken_are_no_other_data(tmp_path):
    array = values((2, 3, 4, 4), "u2")
    with h5py.File(tmp_path / "frames.h5", "w") as file:
        file["data"] = array
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["entry/data"] = array
        file["again"] = file["entry/data"]
        file["soft"] = h5py.SoftLink("/entry/data")
    assert np.array_equal(read(ff.Context().open(tmp_path / "a.h5")), array)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["external"] = h5py.ExternalLink("frames.h5", "data")
    with pytest.warns(DataSetWarning, match="'external'.* is as large"):
        ff.Context().open(tmp_path / "a.h5")


def test_an_empty_signal_of_hyperspy_is_not_replaced_by_something_else(tmp_path):
    frames = values((2, 3, 4, 4), "u2")
    path = names_of(tmp_path / "a.h5", Experiments__a__data=frames[:0], other=frames)
    with pytest.raises(BadFileError, match="there is nothing in it"):
        ff.Context().open(path)
