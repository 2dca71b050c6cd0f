"""What files may hold, and few do."""

from __future__ import annotations

import io
import json
import struct
import sys
import zipfile

import h5py
import numpy as np
import pytest
import tifffile
from test_hdf5 import read, values

import framefold as ff
from framefold.exceptions import BadFileError, FramefoldError, UnsupportedError

zarr = pytest.importorskip("zarr", minversion="3.0", reason="zarr writes the folders")


@pytest.mark.parametrize("version", [2, 3])
def test_attributes_of_zarr_that_json_has_no_words_for(tmp_path, version):
    array = values((4, 8, 16), "u2")
    path = tmp_path / "a.zarr"
    attributes = {"a": float("nan"), "b": [float("inf"), -float("inf")], "sig_dims": 1}
    zarr.create_array(path, data=array, zarr_format=version, attributes=attributes)
    dataset = ff.Context().open(path)
    assert tuple(dataset.shape.sig) == (16,)
    assert np.array_equal(read(dataset), array)


def described(path, **changes):
    description = path / "zarr.json"
    description.write_text(json.dumps(json.loads(description.read_text()) | changes))


def test_what_zarr_says_has_to_be_understood(tmp_path):
    array = values((4, 8, 16), "u2")
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=array, compressors=None)
    for changes, words in [
        ({"zarr_format": 4}, 'version "4"'),
        ({"new": {"must_understand": True}}, 'field "new"'),
        ({"new": 1}, 'field "new"'),
        ({"storage_transformers": [{"name": "twist"}]}, 'storage transformer "twist"'),
    ]:
        before = (path / "zarr.json").read_text()
        described(path, **changes)
        with pytest.raises(UnsupportedError, match=words):
            ff.Context().open(path)
        (path / "zarr.json").write_text(before)
    described(path, new={"must_understand": False}, data_type={"name": "uint16"}, codecs=["bytes"])
    assert np.array_equal(read(ff.Context().open(path)), array)


@pytest.mark.parametrize("compressor", ["none", "zlib"])
def test_filters_of_zarr_that_make_elements_longer(tmp_path, compressor):
    import numcodecs

    array = values((2, 200, 200), "u1")
    options = {
        "filters": [numcodecs.Delta("|u1", "<i8")],
        "compressors": None if compressor == "none" else numcodecs.Zlib(0),
        "zarr_format": 2,
    }
    zarr.create_array(tmp_path / "a.zarr", data=array, chunks=(1, 200, 200), **options)
    assert np.array_equal(read(ff.Context().open(tmp_path / "a.zarr")), array)


@pytest.mark.parametrize("size", [0, 1, 2, None])
def test_shuffled_elements_of_zarr(tmp_path, size):
    import numcodecs

    array = values((2, 8, 16), "<u2")
    path = tmp_path / "a.zarr"
    filters = [numcodecs.Shuffle(**({} if size is None else {"elementsize": size}))]
    zarr.create_array(path, data=array, zarr_format=2, filters=filters)
    if size is None:
        description = path / ".zarray"
        about = json.loads(description.read_text())
        about["filters"] = [{"id": "shuffle"}]
        description.write_text(json.dumps(about))
        assert np.array_equal(zarr.open(path)[:], array)
    assert np.array_equal(read(ff.Context().open(path)), array)


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
def test_shuffled_elements_of_zarr_3(tmp_path):
    from zarr.codecs import numcodecs

    array = values((2, 8, 16), "<u2")
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=array, zarr_format=3, compressors=[numcodecs.Shuffle()])
    description = path / "zarr.json"
    about = json.loads(description.read_text())
    about["codecs"][-1]["configuration"] = {}  # then they have the size of the dtype
    description.write_text(json.dumps(about))
    assert np.array_equal(zarr.open(path)[:], array)
    assert np.array_equal(read(ff.Context().open(path)), array)


def test_descriptions_of_tifffile_with_what_json_has_no_words_for(tmp_path):
    data = values((2, 3, 40, 50), "u2")
    for truncate in (False, True):
        path = tmp_path / f"{truncate}.tif"
        about = {"dose": float("nan")}
        tifffile.imwrite(path, data, photometric="minisblack", metadata=about, truncate=truncate)
        dataset = ff.Context().open(path)
        assert tuple(dataset.shape.nav) == (2, 3)
        assert np.array_equal(read(dataset), data)


@pytest.mark.parametrize("options", [{}, {"tile": (1, 16, 16)}, {"tile": (2, 16, 16)}])
def test_volumes_in_a_page_of_tiff_are_refused(tmp_path, options):
    path = tmp_path / "a.tif"
    data = values((5, 16, 16), "u2")
    tifffile.imwrite(path, data, photometric="minisblack", volumetric=True, **options)
    with pytest.raises(UnsupportedError, match="volume of 5 planes"):
        ff.Context().open(path)


def test_pages_of_tiff_with_fewer_pixels_of_colours_are_refused(tmp_path):
    path = tmp_path / "a.tif"
    data = values((16, 16, 3), "u1")
    tifffile.imwrite(path, data, photometric="ycbcr", metadata=None)
    assert np.array_equal(read(ff.Context().open(path))[0], data)
    content = path.read_bytes()
    # Tag 530: without it, colours have half as many rows and columns.
    entry = (530).to_bytes(2, "little") + (3).to_bytes(2, "little")
    assert content.count(entry) == 1
    path.write_bytes(content.replace(entry, (531).to_bytes(2, "little") + entry[2:]))
    with pytest.raises(UnsupportedError, match="YCbCr"):
        ff.Context().open(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_chunks_in_archives_that_are_compressed_in_other_ways_are_refused(tmp_path, method):
    array = values((4, 8, 16), "u2")
    zarr.create_array(tmp_path / "a", data=array, chunks=(1, 8, 16), compressors=None)
    path = tmp_path / "a.zarr.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "a/zarr.json", "zarr.json")
        for number in range(4):
            chunk = f"c/{number}/0/0"
            archive.write(tmp_path / "a" / chunk, chunk, method if number == 2 else None)
    with pytest.raises(UnsupportedError, match="'c/2/0/0' in the archive is compressed by"):
        read(ff.Context().open(path))


@pytest.mark.parametrize("system", [0, 3])
def test_names_in_archives_of_windows(tmp_path, system):
    array = values((2, 8, 16), "u2")
    zarr.create_array(tmp_path / "a", data=array, chunks=(1, 8, 16), compressors=None, fill_value=7)
    path = tmp_path / "a.zarr.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("zarr.json", r"c\0\0\0", r"c\1\0\0"):
            info = zipfile.ZipInfo(name)
            info.create_system = system
            archive.writestr(info, (tmp_path / "a" / name.replace("\\", "/")).read_bytes())
    # Elsewhere, a backslash is part of a name.
    assert np.array_equal(
        read(ff.Context().open(path)), array if system == 0 else np.full_like(array, 7)
    )


def test_members_that_do_not_decode_to_what_was_written(tmp_path):
    path = tmp_path / "a.prz"
    content = io.BytesIO()
    np.save(content, values((4, 8, 16), "u2"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=0) as archive:
        archive.writestr("data.npy", content.getvalue())
    assert ff.Context().open(path).format == "prz"
    damaged = bytearray(path.read_bytes())
    damaged[600] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(BadFileError, match="checksum"):
        ff.Context().open(path)


def test_arrays_of_zarr_that_cannot_be_read_may_be_the_frames(tmp_path):
    path = tmp_path / "a.zarr"
    group = zarr.open_group(path, mode="w")
    large, small = values((4, 8, 16), "u2"), values((3, 8, 16), "u2")
    for name, array in (("large", large), ("small", small)):
        group.create_array(name, data=array, compressors=None)
    group.create_array("names", shape=(9, 900, 900), dtype="u2")
    described(path / "names", data_type="string")
    group.create_array("nothing", shape=(0, 900, 900), dtype="u2")
    ctx = ff.Context()
    assert ctx.open(path).meta["array"] == "/large"
    described(path / "large", codecs=["bytes", "unheard-of"])
    with pytest.raises(UnsupportedError, match=r"unheard-of.*if 'large' does not hold the frames"):
        ctx.open(path)
    assert np.array_equal(read(ctx.open(path, ds_path="small")), small)
    described(path / "large", shape=[2, 8, 16])
    assert ctx.open(path).meta["array"] == "/small"
    (path / "large/zarr.json").write_text("{")
    with pytest.raises(BadFileError, match="no JSON"):
        ctx.open(path)


@pytest.mark.skipif(sys.platform != "linux", reason="names of folders are UTF-8 there")
def test_folders_whose_names_are_not_utf_8(tmp_path):
    """The largest array, and not the other one."""
    path = tmp_path / "a.zarr"
    group = zarr.open_group(path, mode="w")
    array = values((5, 3, 4), "u2")
    group.create_array("scan/counts", data=array)
    group.create_array("small", data=array[:2])
    (path / "scan").rename(path / "sc\udce9n")
    dataset = ff.Context().open(path)
    assert dataset.meta["array"] == "/sc\ufffdn/counts"
    assert np.array_equal(read(dataset), array)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_arrays_behind_links_count(tmp_path, monkeypatch):
    path, array = tmp_path / "a.zarr", values((5, 3, 4), "u2")
    zarr.open_group(path, mode="w").create_array("small", data=array[:2])
    zarr.open_group(tmp_path / "b", mode="w").create_array("large", data=array)
    (tmp_path / "b/back").symlink_to(path)
    for name, target in [("link", "../b"), ("same", "small"), ("up", ".."), ("nothing", "x")]:
        (path / name).symlink_to(target)
    with pytest.raises(FramefoldError, match=r"outside.*allow_external_links.*ds_path"):
        ff.Context().open(path)
    dataset = ff.Context().open(path, allow_external_links=True)
    assert (dataset.meta["array"], dataset.warnings) == ("/link/large", [])
    assert dataset.meta["other arrays"] == "'small' [2, 3, 4]"
    assert np.array_equal(read(dataset), array)
    # Links behind links, some of which go round in circles, and a folder that nothing describes.
    zarr.create_array(tmp_path / "c/plain/larger", data=values((6, 3, 4), "u2"), zarr_format=2)
    (tmp_path / "b/more").symlink_to("../c")
    (tmp_path / "c/back").symlink_to("../b")
    dataset = ff.Context().open(path, allow_external_links=True)
    assert (dataset.meta["array"], dataset.warnings) == ("/link/more/plain/larger", [])
    assert dataset.meta["other arrays"] == "'link/large' [5, 3, 4], 'small' [2, 3, 4]"
    (path / "link").unlink()
    (path / "link").symlink_to("../c/plain")
    with pytest.raises(FramefoldError, match=r"outside.*allow_external_links.*ds_path"):
        ff.Context().open(path)
    dataset = ff.Context().open(path, allow_external_links=True)
    assert dataset.meta["array"] == "/link/larger"
    (tmp_path / "b/more").unlink()
    (path / "link").unlink()
    (path / "link").symlink_to("../b")
    monkeypatch.chdir(tmp_path / "b")
    dataset = ff.Context().open("zarr.json", allow_external_links=True)
    assert dataset.meta["other arrays"] == "'back/small' [2, 3, 4]"
    assert np.array_equal(read(dataset), array)


def test_version_3_counts_where_both_describe_an_array(tmp_path):
    """As where zarr made the one of the other, which stays."""
    migration = pytest.importorskip("zarr.metadata.migrate_v3", reason="it came with zarr 3.1.3")
    path, array = tmp_path / "a.zarr", values((5, 3, 4), "u2")
    zarr.create_array(path, data=array, attributes={"scale_factor": 2.0}, zarr_format=2)
    migration.migrate_v2_to_v3(input_store=zarr.storage.LocalStore(path))
    with pytest.warns(UserWarning, match="Zarr v3 will be used"):
        stored = zarr.open_array(path)
    stored.append(array)
    del stored.attrs["scale_factor"]
    dataset = ff.Context().open(path)
    assert dataset.meta["Zarr version"] == "3"
    assert np.array_equal(read(dataset), np.concatenate([array, array]))
    assert dataset.warnings == []


@pytest.mark.parametrize("kind", ["integers in part of 3 bytes", "floats of 16 bytes"])
def test_data_sets_of_hdf5_that_cannot_be_read_may_be_the_frames(tmp_path, kind):
    path = tmp_path / "a.h5"
    small = values((2, 3, 4), "u2")
    stored = h5py.h5t.NATIVE_LDOUBLE
    if kind.startswith("integers"):
        stored = h5py.h5t.STD_U32LE.copy()
        stored.set_size(3)
    with h5py.File(path, "w") as file:
        file["small"] = small
        h5py.h5d.create(file.id, b"large", stored, h5py.h5s.create_simple((4, 8, 16)))
    ctx = ff.Context()
    with pytest.raises(UnsupportedError, match=f"'large' are {kind}.*ds_path"):
        ctx.open(path)
    assert np.array_equal(read(ctx.open(path, ds_path="small")), small)


@pytest.mark.parametrize(("ending", "deepest"), [("h5", 32), ("zarr", 15)])
def test_what_is_too_deep_to_be_looked_at_may_be_the_frames(tmp_path, ending, deepest):
    ctx, array = ff.Context(), values((5, 3, 4), "u2")
    for depth in (deepest, deepest + 1):
        path = tmp_path / f"{depth}.{ending}"
        large, small = "a/" * depth + "large", array[:2]
        if ending == "h5":
            with h5py.File(path, "w") as file:
                file[large], file["small"] = array, small
        else:
            group = zarr.open_group(path, mode="w")
            group.create_array(large, data=array)
            group.create_array("small", data=small)
        if depth == deepest:
            assert np.array_equal(read(ctx.open(path)), array)
            continue
        with pytest.raises(FramefoldError, match=r"not all of them were looked at.*ds_path"):
            ctx.open(path)
        for name, wanted in [(large, array), ("small", small)]:
            assert np.array_equal(read(ctx.open(path, ds_path=name)), wanted)


def test_regions_of_sensors_in_spe_of_version_2(tmp_path):
    frames = values((3, 8, 16), "u2")
    path = tmp_path / "a.spe"
    for n_regions in (0, 1, 2):
        header = bytearray(4100)
        for place, kind, number in [(42, "H", 16), (108, "h", 3), (656, "H", 8), (1446, "i", 3)]:
            struct.pack_into(f"<{kind}", header, place, number)
        struct.pack_into("<h", header, 1510, n_regions)
        struct.pack_into("<I", header, 2996, 0x01234567)
        path.write_bytes(header + frames.tobytes())
        if n_regions < 2:
            assert np.array_equal(read(ff.Context().open(path)), frames)
    with pytest.raises(UnsupportedError, match="several regions"):
        ff.Context().open(path)


def test_paths_of_hdf5_with_dots(tmp_path):
    array = values((2, 3, 4), "u2")
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file["g/data"] = array
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["g/data"] = array
        layout = h5py.VirtualLayout(shape=array.shape, dtype=array.dtype)
        layout[:] = h5py.VirtualSource("source.h5", "./g/data", shape=array.shape)
        file.create_virtual_dataset("virtual", layout)
    for name in ("./g//./data/", "virtual"):
        dataset = ff.Context().load("hdf5", path, ds_path=name)
        assert dataset.warnings == []
        assert np.array_equal(read(dataset), array)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_links_of_hdf5_with_dots(tmp_path, libver):
    array = values((2, 3, 4), "u2")
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file["g/data"] = array
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver) as file:
        # More links than a header has room for, in a heap of new groups.
        for group, n_links in (("few", 0), ("many", 20)):
            file[f"{group}/data"] = array
            for i in range(n_links):
                file[f"{group}/{i}"] = h5py.SoftLink("nowhere")
            file[f"{group}/soft"] = h5py.SoftLink("./data")
            file[f"{group}/from root"] = h5py.SoftLink(f"/./{group}//./data/.")
            file[f"{group}/outside"] = h5py.ExternalLink("source.h5", "/g/./data")
        file["outside"] = h5py.ExternalLink("./source.h5", "./g/data")
        file["group"] = h5py.SoftLink("./few")
    names = ("soft", "from root", "outside")
    paths = [f"{group}/{name}" for group in ("few", "many", "group") for name in names]
    for name in [*paths, "outside", "group/./data"]:
        dataset = ff.Context().load("hdf5", path, ds_path=name)
        assert np.array_equal(read(dataset), array)
