"""How HDF5 keeps things: layouts of old versions, many links, many attributes, user blocks."""

from __future__ import annotations

import numpy as np
import pytest
from old_hdf5 import with_old_layout, with_one_attribute_for_all
from test_hdf5 import FILTERS, read, values

import framefold as ff
from framefold.exceptions import FramefoldError, UnsupportedError

h5py = pytest.importorskip("h5py", reason="h5py writes the files")


@pytest.mark.parametrize("kind", ["compact", "contiguous", "chunked"])
@pytest.mark.parametrize("version", [1, 2])
def test_layouts_of_old_versions(tmp_path, version, kind):
    path = tmp_path / "a.h5"
    array = values((3, 4, 5), "<u2")
    with h5py.File(path, "w", libver="earliest") as file:
        how = {"chunks": (1, 4, 5), "compression": "gzip"} if kind == "chunked" else {}
        if kind == "compact":
            create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            create.set_layout(h5py.h5d.COMPACT)
            space, dtype = h5py.h5s.create_simple(array.shape), h5py.h5t.py_create(array.dtype)
            made = h5py.h5d.create(file.id, b"x", dtype, space, create)
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, array)
        else:
            file.create_dataset("x", data=array, **how)
        file["filling"] = np.arange(2000, dtype="u1")
    with_old_layout(path, "x", version)
    with h5py.File(path) as file:
        assert np.array_equal(file["x"][()], array), "h5py reads what the test wrote"
    assert np.array_equal(read(ff.Context().load("hdf5", path, ds_path="x")), array)


def test_numbers_in_layouts_of_old_versions(tmp_path):
    """Those that describe axes are read by the same rule."""
    path = tmp_path / "a.emd"
    with h5py.File(path, "w", libver="earliest") as file:
        group = file.create_group("set")
        group.attrs["emd_group_type"] = 1
        group["data"] = values((4, 5, 6), "u2")
        for n, step in enumerate([2.0, 0.5, 0.25]):
            group[f"dim{n + 1}"] = np.arange((4, 5, 6)[n]) * step
            group[f"dim{n + 1}"].attrs["units"] = "nm"
    before = ff.Context().load("hdf5", path).meta
    for n in range(3):
        with_old_layout(path, f"set/dim{n + 1}", 2)
    assert dict(ff.Context().load("hdf5", path).meta) == dict(before)


def many_links(group, dataset, n):
    for number in range(n):
        h5py.h5o.link(dataset.id, group.id, f"other_{number:06}".encode())


def many_attributes(dataset, n):
    dtype, space = h5py.h5t.STD_I64LE, h5py.h5s.create(h5py.h5s.SCALAR)
    for number in range(n):
        name = f"other_{number:06}".encode()
        h5py.h5a.create(dataset.id, name, dtype, space).write(np.array(number))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(
    ("version", "n"), [("latest", 31_500), ("earliest", 31_500), ("latest", 9)]
)
def test_as_many_links_as_there_are(tmp_path, version, n, ordered):
    """In blocks of addresses within blocks of addresses, from 31 428 links on."""
    array = values((2, 3, 4, 5), "u2")
    with h5py.File(tmp_path / "part.h5", "w") as file:
        file["x"] = array[1]
    with h5py.File(tmp_path / "a.h5", "w", libver=version) as file:
        group = file.create_group("entry/data", track_order=ordered)
        group["data_000001"] = array[0]
        # Such a link makes a group of the newer kind in a header of the older one.
        group["data_000002"] = h5py.ExternalLink("part.h5", "x")
        many_links(group, group["data_000001"], n)
    ctx = ff.Context()
    assert np.array_equal(read(ctx.load("hdf5", tmp_path / "a.h5")).ravel(), array.ravel())
    named = ctx.load("hdf5", tmp_path / "a.h5", ds_path=f"entry/data/other_{n - 1:06}")
    assert np.array_equal(read(named), array[0])


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("n", "large"), [(13_400, False), (13_400, True), (9, True)])
def test_as_many_attributes_as_there_are(tmp_path, n, large, ordered):
    """From 13 354 on in blocks within blocks; those above 4 KiB and 64 KiB by themselves."""
    array = values((2, 3, 4, 5), "u2")
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        for part in (0, 1):
            group = file.require_group("entry/data")
            how = {"data": array[part], "track_order": ordered}
            dataset = group.create_dataset(f"data_{part + 1:06}", **how)
            many_attributes(dataset, n if part else 3)
            attributes = dataset.attrs
            # The second part begins after a gap.
            attributes["image_nr_low"] = [1, 7][part]
            if large:
                attributes["words"] = np.bytes_(b"x" * 5000)
                attributes["text"] = np.bytes_(b"x" * 70_000)
    dataset = ff.Context().load("hdf5", tmp_path / "a.h5")
    assert dataset.shape.nav.size == 9
    stack = ff.Context().load("hdf5", tmp_path / "a.h5", ds_path="entry/data/data_000002")
    assert np.array_equal(read(stack), array[1])


def test_damage_in_blocks_within_blocks(tmp_path):
    """Frames or an error in words, and no other frames."""
    path, array = tmp_path / "a.h5", values((3, 4, 5), "u2")
    with h5py.File(path, "w", libver="latest") as file:
        file["x"] = array
        group = file.create_group("g")
        many_links(group, file["x"], 31_500)
    whole, ctx = path.read_bytes(), ff.Context()
    lengths = {b"FRHP": 140, b"FHIB": 100, b"BTHD": 36}
    for mark, length in lengths.items():
        for at in range(whole.index(mark), whole.index(mark) + length, 7):
            damaged = bytearray(whole)
            damaged[at] ^= 0xFF
            path.write_bytes(damaged)
            with pytest.raises(FramefoldError, match=r"damaged|checksum") as caught:
                ctx.load("hdf5", path, ds_path="g/other_031499")
            assert "bug" not in str(caught.value)


def test_the_same_bytes_again_and_again(tmp_path):
    """Attributes of some 80 MB together in a file of 200 KB are not all read."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        attributes = file.create_dataset("x", data=values((3, 4, 5), "u2")).attrs
        for number in range(3):
            attributes[f"large_{number}"] = np.zeros(7000)
        for number in range(1500):
            attributes[f"other_{number:06}"] = number
    ctx = ff.Context()
    assert read(ctx.load("hdf5", path, ds_path="x")).size == 60
    assert with_one_attribute_for_all(path) > 1300
    with pytest.raises(FramefoldError, match="again and again"):
        ctx.load("hdf5", path, ds_path="x")


def test_attributes_of_a_type_with_a_name(tmp_path):
    """They are left out; what they belong to can be read."""
    array = values((3, 4, 5), "u2")
    for version in ("earliest", "latest"):
        for n in (1, 20):
            path = tmp_path / f"{version}_{n}.h5"
            with h5py.File(path, "w", libver=version) as file:
                file["number"] = np.dtype("<i4")
                file["x"] = array
                for i in range(n):
                    file["x"].attrs.create(f"a{i}", 5, dtype=file["number"])
                file.attrs.create("root", 5, dtype=file["number"])
            assert np.array_equal(read(ff.Context().load("hdf5", path)), array)


@pytest.mark.parametrize("version", ["earliest", "latest"])
@pytest.mark.parametrize("n", [1, 20])
def test_names_that_are_not_utf_8(tmp_path, version, n):
    """Their letters are others, and what has them can be read."""
    path, array = tmp_path / "a.h5", values((3, 4, 5), "u2")
    with h5py.File(path, "w", libver=version) as file:
        group, kind = h5py.h5g.create(file.id, b"M\xfcnchen"), h5py.h5t.STD_U16LE
        made = h5py.h5d.create(group, b"h\xf6he", kind, h5py.h5s.create_simple(array.shape))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, array)
        for i in range(n):
            h5py.h5g.create(file.id, b"\xb5%d" % i)
            h5py.h5a.create(made, b"\xe4%d" % i, kind, h5py.h5s.create(h5py.h5s.SCALAR))
        file.id.links.create_soft(b"zur\xfcck", b"/M\xfcnchen/h\xf6he")
        h5py.h5o.set_comment(made, b"sch\xf6n")
    for options in ({}, {"ds_path": "M?nchen/h?he"}, {"ds_path": "zur?ck"}):
        dataset = ff.Context().load("hdf5", path, **options)
        assert np.array_equal(read(dataset), array)
    assert ff.Context().open(path).meta["data set"] == "/M?nchen/h?he"
    with h5py.File(path, "a", libver=version) as file:
        group = file[b"M\xfcnchen"]
        entry = file.create_group(b"gr\xfcn")
        entry[b"d\xe4"] = group
        file.attrs["default"], entry.attrs["default"] = np.bytes_(b"gr\xfcn"), np.bytes_(b"d\xe4")
        group.attrs.create("signal", b"h\xf6he", dtype=h5py.string_dtype("ascii"))
        file["larger"] = values((9, 4, 5), "u2")
    assert np.array_equal(read(ff.Context().open(path)), array)


@pytest.mark.parametrize("version", ["earliest", "latest"])
@pytest.mark.parametrize("n", [1, 20])
@pytest.mark.parametrize("other", [b"h\xe4he", b"h?he"])
def test_names_that_differ_only_in_what_is_not_utf_8(tmp_path, version, n, other):
    path, array = tmp_path / "a.h5", values((3, 4, 5), "u2")
    with h5py.File(path, "w", libver=version) as file:
        file[b"h\xf6he"], file[other] = array, array[:2]
        for i in range(n):
            file.create_group(f"a{i}")
        file.id.links.create_soft(b"best", b"/h\xf6he")
    for options in ({}, {"ds_path": "h?he"}, {"ds_path": "best"}):
        with pytest.raises(UnsupportedError, match=r"not UTF-8, as 'h\?he'.*rename them"):
            ff.Context().open(path, **options)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize(("name", "dtype"), [("F32LE", "<c8"), ("F64BE", ">c16")])
def test_complex_numbers_by_themselves(tmp_path, libver, name, dtype):
    kind = getattr(h5py.h5t, f"COMPLEX_IEEE_{name}", None)
    if kind is None:
        pytest.skip("HDF5 has them since version 2.0")
    path, array = tmp_path / "a.h5", values((3, 4, 5), "u2") + 1j
    array = array.astype(dtype)
    with h5py.File(path, "w", libver=libver) as file:
        file["small"] = values((3, 4, 4), "u2")
        made = h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple(array.shape))
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, array)
        h5py.h5a.create(made, b"a", kind, h5py.h5s.create(h5py.h5s.SCALAR))
    dataset = ff.Context().open(path)
    assert dataset.dtype == array.dtype.newbyteorder("=")
    assert np.array_equal(read(dataset), array)


@pytest.mark.parametrize("sizes", [(4, 4), (4, 8), (8, 4), (2, 8)])
@pytest.mark.parametrize("version", ["earliest", "v108", "v110", "latest"])
def test_short_addresses_and_lengths(tmp_path, version, sizes):
    """Few files have them; what cannot be read is refused."""
    array = values((3, 6, 4, 5), "u2")
    path = tmp_path / "a.h5"
    create = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    create.set_sizes(*sizes)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    bounds = {
        "earliest": h5py.h5f.LIBVER_EARLIEST,
        "v108": h5py.h5f.LIBVER_V18,
        "v110": h5py.h5f.LIBVER_V110,
        "latest": h5py.h5f.LIBVER_LATEST,
    }
    access.set_libver_bounds(bounds[version], h5py.h5f.LIBVER_LATEST)
    identifier = h5py.h5f.create(str(path).encode(), h5py.h5f.ACC_TRUNC, create, access)
    with h5py.File(identifier) as file:
        group = file.create_group("g")
        many = {"chunks": (1, 2, 4, 5), "maxshape": (None, None, 4, 5)}
        group.create_dataset("plain", data=array)
        group.create_dataset("one", data=array, chunks=array.shape, compression="gzip")
        group.create_dataset("fixed", data=array, chunks=(1, 2, 4, 5), compression="gzip")
        group.create_dataset("grows", data=array, chunks=(1, 2, 4, 5), maxshape=(None, 6, 4, 5))
        group.create_dataset("tree", data=array, compression="gzip", **many)
        names = list(group)
        for number in range(20):
            group["tree"].attrs[f"a{number}"] = number
            group[f"link_{number}"] = group["tree"]
    for name in [*names, "link_7"]:
        try:
            found = ff.Context().load("hdf5", path, ds_path=f"g/{name}")
        except FramefoldError:
            assert sizes[0] != sizes[1] or name == "one", (version, name)
            continue
        assert np.array_equal(read(found), array), name


@pytest.mark.parametrize("dtype", ["<u2", ">i4", "<f4"])
@pytest.mark.parametrize("name", ["gzip", "gzip, shuffle", "lzf", "lzf, shuffle", "zstd"])
def test_what_the_library_decodes_may_be_compressed(tmp_path, dtype, name):
    """What scale-offset makes of a chunk is as long as its values ask for."""
    if name not in FILTERS:
        pytest.skip(f"{name} cannot be written here")
    array = values((5, 6, 8, 10), dtype)
    array[0], array[1, 1] = 0, np.arange(80).reshape(8, 10) * 700 % 30_011
    path = tmp_path / "a.h5"
    nbit = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    nbit.set_chunk((1, 2, 8, 10))
    nbit.set_filter(h5py.h5z.FILTER_NBIT)
    nbit.set_deflate(4)
    with h5py.File(path, "w") as file:
        scaled = file.create_dataset(
            "scaled", data=array, chunks=(1, 4, 8, 10), scaleoffset=0, **FILTERS[name]
        )
        assert np.array_equal(scaled, array)
        shape, kind = h5py.h5s.create_simple(array.shape), h5py.h5t.py_create(array.dtype)
        h5py.Dataset(h5py.h5d.create(file.id, b"nbit", kind, shape, nbit))[...] = array
    for ds_path in ("scaled", "nbit"):
        dataset = ff.Context().load("hdf5", path, ds_path=ds_path)
        assert np.array_equal(read(dataset), array), ds_path
