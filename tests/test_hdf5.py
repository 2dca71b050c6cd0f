"""HDF5 as h5py writes it: each filter, dtype and way of cutting chunks, read in every way."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from known_oddities import POSITIONS_WITHOUT_DATA, odd
from long_runs import IS_LONG
from real_files import manifest, real_data

import framefold as ff
from framefold.exceptions import FramefoldError
from framefold.udf import UDF

h5py = pytest.importorskip("h5py", reason="h5py writes the files")

DTYPES = ["u1", "<u2", ">u2", "<i4", "<u8", "i1", ">i2", "f2", "<f4", ">f8", "<c8", "<c16", "?"]


class Frames(UDF):
    """All frames as they are, in tiles of a given shape."""

    def __init__(self, tile=None, dtype="float64", sig=(1,)):
        super().__init__(tile=tile, dtype=dtype, sig=sig)

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        dtype, sig = self.params.dtype, self.params.sig
        return {"frames": self.buffer(kind="nav", dtype=dtype, extra_shape=sig)}

    def get_tiling_preferences(self):
        depth, total = self.params.tile or (7, 4096)
        return {"depth": depth, "total_size": total}

    def process_tile(self, tile):
        whole = self.results.frames.reshape((-1, *self.params.sig))
        part = self.meta.slice.sig.get()
        whole[(slice(None), *part)] = np.asarray(tile).reshape((-1, *tile.shape[1:]))


def values(shape, dtype, seed=3):
    """Numbers that compress, but not to nothing."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    counts = rng.poisson(3.0, size=shape) * (rng.random(shape) < 0.7)
    if kind.kind == "b":
        return counts > 2
    if kind.kind == "c":
        return (counts + 1j * counts[..., ::-1]).astype(kind)
    if kind.kind == "i":
        return (counts - 4).astype(kind)
    return counts.astype(kind)


def read(dataset, **how):
    udf = Frames(dtype=dataset.dtype, sig=tuple(dataset.shape.sig), **how)
    return np.asarray(ff.Context().run_udf(dataset, udf)["frames"].raw_data).reshape(dataset.shape)


def write(path, array, **how):
    with h5py.File(path, "w") as file:
        file.create_dataset("group/data", data=array, **how)
    return path


def filters():
    """What h5py and hdf5plugin can write here."""
    known = {
        "none": {},
        "gzip": {"compression": "gzip"},
        "gzip, shuffle": {"compression": "gzip", "shuffle": True},
        "gzip, shuffle, checksum": {"compression": "gzip", "shuffle": True, "fletcher32": True},
        "shuffle": {"shuffle": True},
        "checksum": {"fletcher32": True},
        "lzf": {"compression": "lzf"},
        "lzf, shuffle": {"compression": "lzf", "shuffle": True},
    }
    try:
        import hdf5plugin
    except ImportError:
        return known
    known |= {
        "bitshuffle": hdf5plugin.Bitshuffle(cname="none"),
        "bitshuffle, lz4": hdf5plugin.Bitshuffle(cname="lz4"),
        "bitshuffle, zstd": hdf5plugin.Bitshuffle(cname="zstd"),
        "bitshuffle, blocks": hdf5plugin.Bitshuffle(nelems=64, cname="lz4"),
        "lz4": hdf5plugin.LZ4(),
        "lz4, blocks": hdf5plugin.LZ4(nbytes=512),
        "bzip2": hdf5plugin.BZip2(),
        "bzip2, shuffle": {"shuffle": True, **hdf5plugin.BZip2(blocksize=1)},
        "zstd": hdf5plugin.Zstd(),
        "zstd, shuffle": {"shuffle": True, **hdf5plugin.Zstd()},
    }
    for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        for shuffle in (0, 1, 2):
            known[f"blosc {name} {shuffle}"] = hdf5plugin.Blosc(cname=name, shuffle=shuffle)
    return known


FILTERS = filters()
CHUNKS = [
    (1, 1, 12, 14),
    (1, 3, 12, 14),
    (2, 7, 5, 14),
    (3, 2, 12, 14),
    (5, 7, 3, 4),
    (1, 1, 12, 4),
]


def test_third_party_filters_are_there():
    """Without them, the tests below would leave out what detectors write most."""
    pytest.importorskip("hdf5plugin", reason="hdf5plugin brings bitshuffle, LZ4, Zstandard, Blosc")
    names = set(FILTERS)
    assert {"bitshuffle, lz4", "lz4", "zstd", "bzip2", "blosc blosclz 1", "blosc zstd 2"} <= names
    for name in names:
        assert FILTERS[name] or name == "none"


@pytest.mark.parametrize("name", FILTERS)
def test_every_filter_in_chunks_of_every_shape(tmp_path, name):
    array = values((5, 7, 12, 14), "<u2")
    for number, chunks in enumerate(CHUNKS):
        path = write(tmp_path / f"{number}.h5", array, chunks=chunks, **FILTERS[name])
        dataset = ff.Context().load("hdf5", path=path)
        assert tuple(dataset.shape) == array.shape
        assert np.array_equal(read(dataset), array), (name, chunks)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["none", "gzip, shuffle", "lzf", "bitshuffle, lz4", "blosc lz4 1"])
def test_every_dtype(tmp_path, dtype, name):
    if name not in FILTERS:
        pytest.skip("hdf5plugin is not installed")
    array = values((4, 6, 8, 16), dtype)
    for number, chunks in enumerate([None, (1, 2, 8, 16), (2, 3, 4, 8)]):
        if chunks is None and name != "none":
            continue
        path = write(tmp_path / f"{number}.h5", array, chunks=chunks, **FILTERS[name])
        dataset = ff.Context().open(path)
        assert dataset.dtype == np.dtype(dtype).newbyteorder("=")
        assert np.array_equal(read(dataset), array)
        assert dataset.warnings == []


@pytest.mark.parametrize("names", [("re", "im"), ("Real", "Imag"), ("realFloat", "imagFloat")])
def test_pairs_with_the_names_of_complex_numbers_are_such(tmp_path, names):
    array = values((2, 3, 4), "<c8")
    path = write(tmp_path / "a.h5", array.view([(name, "<f4") for name in names]))
    assert np.array_equal(read(ff.Context().open(path)), array)


@pytest.mark.parametrize("names", [("i", "r"), ("x", "y"), ("im", "re"), ("energy", "counts")])
def test_other_pairs_of_numbers_are_not_complex(tmp_path, names):
    pairs = values((2, 3, 4), "<c8").view([(name, "<f4") for name in names])
    path = write(tmp_path / "a.h5", pairs)
    with pytest.raises(FramefoldError, match="no data set of numbers"):
        ff.Context().open(path)
    with pytest.raises(FramefoldError, match=f"records with fields '{names[0]}', '{names[1]}'"):
        ff.Context().open(path, ds_path="group/data")


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
@pytest.mark.parametrize("chunks", [None, *CHUNKS])
@POSITIONS_WITHOUT_DATA
def test_roi_tiles_and_offsets(tmp_path, backend, chunks):
    array = values((5, 7, 12, 14), ">u2")
    how = {"chunks": chunks, "compression": "gzip"} if chunks else {}
    path = write(tmp_path / "a.h5", array, **how)
    flat = array.reshape((-1, 12, 14))
    ctx = ff.Context()
    rng = np.random.default_rng(8)
    for offset, tile in [(0, (1, 100)), (3, (4, 300)), (-4, (40, 10**6)), (20, (3, 60))]:
        dataset = ctx.load("hdf5", path, sync_offset=offset, io_backend=backend)
        roi = rng.random((5, 7)) < 0.4
        udf = Frames(tile=tile, dtype="u2", sig=(12, 14))
        found = ctx.run_udf(dataset, udf, roi=roi)["frames"].raw_data
        wanted = np.flatnonzero(roi) + offset
        there = (wanted >= 0) & (wanted < len(flat))
        assert np.array_equal(np.asarray(found)[there], flat[wanted[there]])


class Starts(UDF):
    """Notes where partitions begin."""

    found: ClassVar[list[int]] = []

    def get_result_buffers(self):
        return {"n": self.buffer(kind="single", dtype="i8")}

    def process_partition(self, partition):
        self.found.append(self.meta.slice.origin[0])

    def merge(self, dest, src):
        dest.n[:] += src.n


def test_partitions_end_where_chunks_do(tmp_path):
    array = values((40, 30, 8, 8), "u2")
    for chunks, together in [((1, 6, 8, 8), 6), ((4, 5, 8, 8), 120), ((3, 30, 8, 8), 90)]:
        path = write(tmp_path / f"{together}.h5", array, chunks=chunks, compression="gzip")
        dataset = ff.Context().load("hdf5", path)
        starts = Starts.found
        starts.clear()
        ff.Context.make_with("inline").run_udf(dataset, Starts())
        assert len(starts) > 1
        assert all(start % together == 0 for start in starts), (chunks, starts)


@odd("the picture is sheared")
def test_nav_shape_sig_dims_and_what_does_not_fit(tmp_path):
    array = values((6, 10, 8, 9), "u2")
    path = write(tmp_path / "a.h5", array, chunks=(2, 5, 8, 9))
    ctx = ff.Context()
    assert tuple(ctx.load("hdf5", path, nav_shape=(60,)).shape) == (60, 8, 9)
    assert np.array_equal(
        read(ctx.load("hdf5", path, nav_shape=(5, 12))).reshape(array.shape), array
    )
    one = ctx.load("hdf5", path, sig_dims=1)
    assert tuple(one.shape.sig) == (9,)
    assert np.array_equal(read(one), array)
    three = ctx.load("hdf5", path, sig_dims=3)
    assert tuple(three.shape.nav) == (6,)
    assert np.array_equal(read(three), array)
    with pytest.raises(FramefoldError, match="sig_shape is"):
        ctx.load("hdf5", path, sig_shape=(9, 8))
    with pytest.raises(FramefoldError, match="sig_dims"):
        ctx.load("hdf5", path, sig_dims=5)
    with pytest.raises(FramefoldError, match="no data set 'nothing'"):
        ctx.load("hdf5", path, ds_path="nothing")


def test_the_largest_stack_is_taken_unless_another_is_named(tmp_path):
    path = tmp_path / "many.h5"
    small, large, flat = values((3, 4, 5), "u1"), values((2, 3, 6, 7), "f4"), values((99, 99), "u2")
    with h5py.File(path, "w") as file:
        file["a/small"] = small
        file["b/c/large"] = large
        file["image"] = flat
        file["text"] = "nothing"
        file["a/loop"] = h5py.SoftLink("/a")
        file["b/again"] = file["b"]
    ctx = ff.Context()
    assert np.array_equal(read(ctx.load("hdf5", path)), large)
    assert np.array_equal(read(ctx.load("hdf5", path, ds_path="/a/small")), small)
    assert np.array_equal(read(ctx.load("hdf5", path, ds_path="a/loop/loop/small")), small)
    image = ctx.load("hdf5", path, ds_path="image")
    assert tuple(image.shape) == (1, 99, 99)
    with pytest.raises(FramefoldError, match=r"strings|numbers"):
        ctx.load("hdf5", path, ds_path="text")
    with h5py.File(path, "a") as file:
        del file["a"], file["b"]
    assert tuple(ctx.load("hdf5", path).shape) == (1, 99, 99)


def test_links_stay_within_the_folder(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    write(tmp_path / "outside.h5", values((3, 4, 5), "u2"))
    for link in ["../outside.h5", str(tmp_path / "outside.h5")]:
        with h5py.File(inside / "a.h5", "w") as file:
            file["x"] = h5py.ExternalLink(link, "/group/data")
        with pytest.raises(FramefoldError, match="outside of its folder"):
            ff.Context().load("hdf5", inside / "a.h5", ds_path="x")
    (inside / "way.h5").symlink_to(tmp_path / "outside.h5")
    with h5py.File(inside / "a.h5", "w") as file:
        file["x"] = h5py.ExternalLink("way.h5", "/group/data")
    with pytest.raises(FramefoldError, match="outside of its folder"):
        ff.Context().load("hdf5", inside / "a.h5", ds_path="x")


def test_links_in_a_circle_end(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = h5py.ExternalLink("b.h5", "/y")
        file["s"] = h5py.SoftLink("/t")
        file["t"] = h5py.SoftLink("/s")
        file["u"] = h5py.SoftLink("/u/v")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["y"] = h5py.ExternalLink("a.h5", "/x")
    for name in ("x", "s", "u"):
        with pytest.raises(FramefoldError):
            ff.Context().load("hdf5", tmp_path / "a.h5", ds_path=name)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("version", ["earliest", "v108", "v110", "latest"])
def test_every_kind_of_index(tmp_path, version, ordered):
    """Each version of the format lists chunks in its own ways."""
    array = values((6, 7, 12, 14), "u2")
    kinds = {
        "fixed": {"chunks": (1, 7, 12, 14)},
        "one": {"chunks": array.shape},
        "extensible": {"chunks": (1, 2, 12, 14), "maxshape": (None, 7, 12, 14)},
        "tree": {"chunks": (2, 2, 6, 14), "maxshape": (None, None, 12, 14)},
    }
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=(version, "latest"), track_order=ordered) as file:
        for name, how in kinds.items():
            for filter_ in ("none", "gzip, shuffle"):
                file.create_dataset(f"{name}/{filter_}", data=array, **how, **FILTERS[filter_])
        file.create_dataset(
            "huge", shape=(700, 30, 2, 2), chunks=(1, 1, 2, 2), dtype="u1", fillvalue=3
        )
        file["huge"][5, 6] = 1
        for number in range(200):
            file.create_group(f"many/{number}")
    ctx = ff.Context()
    for name in kinds:
        for filter_ in ("none", "gzip, shuffle"):
            dataset = ctx.load("hdf5", path, ds_path=f"{name}/{filter_}")
            assert np.array_equal(read(dataset), array), (name, filter_)
    expected = np.full((700, 30, 2, 2), 3)
    expected[5, 6] = 1
    assert np.array_equal(read(ctx.load("hdf5", path, ds_path="huge")), expected)


def test_what_was_never_written_is_the_fill_value(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("chunks", (4, 3, 8, 8), ">i2", chunks=(1, 1, 4, 8), fillvalue=-7)
        file["chunks"][1, 2, :3] = 5
        file.create_dataset("run", (4, 3, 8, 8), "f4", fillvalue=2.5)
    ctx = ff.Context()
    expected = np.full((4, 3, 8, 8), -7)
    expected[1, 2, :3] = 5
    assert np.array_equal(read(ctx.load("hdf5", path, ds_path="chunks")), expected)
    assert (read(ctx.load("hdf5", path, ds_path="run")) == 2.5).all()


def test_chunks_that_were_left_unfiltered(tmp_path):
    """HDF5 stores chunks that a filter fails on, or cannot shrink, as they are."""
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 256, size=(6, 4, 16, 16), dtype="u1")
    path = write(tmp_path / "noise.h5", noise, chunks=(1, 2, 16, 16), compression="lzf")
    assert np.array_equal(read(ff.Context().load("hdf5", path)), noise)
    path = tmp_path / "direct.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", (4, 3, 8, 8), "u2", chunks=(1, 3, 8, 8), compression="gzip")
        data[:] = 4
        data.id.write_direct_chunk((2, 0, 0, 0), np.full((3, 8, 8), 9, "<u2").tobytes(), 1)
    found = read(ff.Context().load("hdf5", path))
    assert (found[2] == 9).all()
    assert (found[[0, 1, 3]] == 4).all()


@pytest.mark.parametrize("index", ["fixed", "extensible", "tree"])
@pytest.mark.parametrize("plain_edges", [False, True])
@pytest.mark.parametrize("user_block", [0, 512])
def test_chunks_at_the_edge_that_went_through_no_filter(tmp_path, index, plain_edges, user_block):
    """The newest layouts can leave chunks alone that reach beyond the array."""
    data = values((5, 7, 8), "u2")
    maxshape = {"extensible": (None, 7, 8), "tree": (None, None, 8)}.get(index, (5, 7, 8))
    chunks = (2, 4, 8)
    for filter_ in ("shuffle", "gzip, shuffle", "checksum"):
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(chunks)
        if "shuffle" in filter_:
            plist.set_shuffle()
        if "gzip" in filter_:
            plist.set_deflate(4)
        if filter_ == "checksum":
            plist.set_fletcher32()
        if plain_edges:
            library().H5Pset_chunk_opts(ctypes.c_int64(plist.id), ctypes.c_uint(2))
        how = {"libver": "latest", "userblock_size": user_block}
        with h5py.File(tmp_path / "a.h5", "w", **how) as file:
            space = h5py.h5s.create_simple(
                data.shape, tuple(n or h5py.h5s.UNLIMITED for n in maxshape)
            )
            made = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_U16LE, space, plist)
            h5py.Dataset(made)[...] = data
        found = read(ff.Context().open(tmp_path / "a.h5"))
        assert np.array_equal(found, data), (index, filter_)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("most", [(5, 7, 8), (9, 7, 8), (5, 20, 8), (6, 8, 17), (50, 40, 30)])
def test_arrays_that_may_grow_up_to_a_limit(tmp_path, most, early):
    """Lists of a fixed length number the chunks of the largest shape that there may be."""
    path = tmp_path / "a.h5"
    data = values((5, 7, 8), "u2")
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((2, 3, 5))
    if early:
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    with h5py.File(path, "w", libver="latest") as file:
        space = h5py.h5s.create_simple(data.shape, most)
        made = h5py.Dataset(h5py.h5d.create(file.id, b"x", h5py.h5t.STD_U16LE, space, plist))
        made[...] = data
    ctx = ff.Context()
    assert np.array_equal(read(ctx.open(path)), data)
    with h5py.File(path, "a") as file:
        file["x"].resize((3, 7, 6))
    assert np.array_equal(read(ctx.open(path)), data[:3, :, :6])


def library():
    """The C library that h5py has loaded."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        name = line.split()[-1]
        if "libhdf5" in name and "_hl" not in name:
            return ctypes.CDLL(name)
    pytest.skip("the library cannot be called from here")


def test_userblock_scale_offset_and_nbit(tmp_path):
    array = values((5, 6, 8, 10), "<u2")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=1024) as file:
        file.create_dataset("plain", data=array)
        file.create_dataset("chunks", data=array, chunks=(1, 2, 8, 10), compression="gzip")
        file.create_dataset("scaled", data=array, chunks=(1, 2, 8, 10), scaleoffset=0)
    ctx = ff.Context()
    for name in ("plain", "chunks", "scaled"):
        assert np.array_equal(read(ctx.load("hdf5", path, ds_path=name)), array), name
    scaled = ctx.load("hdf5", path, ds_path="scaled")
    assert "by the HDF5 library" in scaled.meta["filters"]


def test_pixels_that_are_packed_are_said_to_be(tmp_path):
    path = tmp_path / "a.nc"
    with h5py.File(path, "w") as file:
        file["x"] = values((5, 6, 8, 10), "i2")
        file["x"].attrs.update(scale_factor=[0.01], add_offset=1.0, _FillValue=np.int16([-9999]))
        file["plain"] = values((5, 6, 8, 10), "f4")
        file["plain"].attrs.update(scale_factor=1.0, add_offset=0.0, _FillValue=np.nan)
        file["filled"] = values((5, 6, 8, 10), "u2")
        file["filled"].attrs.update(scale_factor=np.nan, _FillValue=np.uint16(65535))
    said = "are packed: scale_factor 0.01, add_offset 1, _FillValue -9999;"
    with pytest.warns(ff.warnings.DataSetWarning, match=said):
        dataset = ff.Context().load("hdf5", path, ds_path="x")
    assert (dataset.meta["scale_factor"], dataset.meta["_FillValue"]) == ("0.01", "-9999")
    for name in ("plain", "filled"):
        assert ff.Context().load("hdf5", path, ds_path=name).warnings == []


def test_what_cannot_be_read_is_refused_in_words(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("records", (3, 4, 5), [("a", "u1"), ("b", "f4")])
        file.create_dataset("outside", (3, 4, 5), "u1", external=[("pixels.bin", 0, 60)])
        elsewhere = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        elsewhere.set_external(b"pixels.bin", 0, h5py.h5f.UNLIMITED)
        grows = h5py.h5s.create_simple((3, 4, 5), (h5py.h5s.UNLIMITED, 4, 5))
        h5py.h5d.create(file.id, b"grows", h5py.h5t.STD_U8LE, grows, elsewhere)
        unusual = h5py.h5t.IEEE_F32LE.copy()
        unusual.set_norm(h5py.h5t.NORM_NONE)
        h5py.h5d.create(file.id, b"norm", unusual, h5py.h5s.create_simple((3, 4, 5)))
    refused = {"records": "records", "outside": "other files", "grows": "other files"}
    for name, words in {**refused, "norm": "IEEE"}.items():
        with pytest.raises(FramefoldError, match=words):
            ff.Context().load("hdf5", tmp_path / "a.h5", ds_path=name)


DAMAGE = """
import sys
from pathlib import Path
import framefold as ff
from framefold.exceptions import FramefoldError
source, target, step = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
whole = source.read_bytes()
expected = ff.Context().run_udf(ff.Context().open(source), ff.SumSigUDF())["intensity"].raw_data
outcomes = {"error": 0, "same": 0, "other": 0}
ctx = ff.Context.make_with("inline")
def attempt(data):
    target.unlink(missing_ok=True)
    target.write_bytes(data)
    try:
        dataset = ctx.load("hdf5", target)
        if dataset.shape.size > 10**7:
            outcomes["other"] += 1
            return
        found = ctx.run_udf(dataset, ff.SumSigUDF())["intensity"].raw_data
    except FramefoldError as error:
        assert "bug" not in str(error).lower(), error
        outcomes["error"] += 1
        return
    same = found.shape == expected.shape and (found == expected).all()
    outcomes["same" if same else "other"] += 1
for n in range(0, len(whole), step):
    attempt(whole[:n])
print("cut", outcomes)
assert outcomes["other"] == 0 < outcomes["error"], outcomes
outcomes.update(dict.fromkeys(outcomes, 0))
for at in range(0, len(whole), step):
    for flip in (0x01, 0x80, 0xFF):
        attempt(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
print("flip", outcomes)
assert outcomes["error"] > 0
"""


@pytest.mark.parametrize("version", ["earliest", "latest"])
def test_damaged_files_give_errors(tmp_path, version):
    """In a process of their own, which has to come to its end."""
    source = tmp_path / "a.h5"
    with h5py.File(source, "w", libver=version) as file:
        file.create_dataset(
            "x/y", data=values((4, 5, 6, 6), "u2"), chunks=(1, 2, 6, 6), compression="gzip"
        )
        file["x"].attrs["text"] = "words"
    step = max(1, source.stat().st_size // (700 if IS_LONG else 233))
    done = subprocess.run(
        [sys.executable, "-c", DAMAGE, source, tmp_path / "b.h5", str(step)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "panicked" not in done.stderr, done.stderr


COMMAND = "from framefold.cli import main; main()"


def test_the_command_line_names_the_data_set(tmp_path):
    array = values((4, 5, 6, 7), "u2")
    path = write(tmp_path / "a.h5", array, chunks=(1, 5, 6, 7), compression="gzip")
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "info", path, "--json", "--ds-path", "group/data"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    info = json.loads(done.stdout)
    assert "group/data" in done.stdout
    assert info["format"] == "hdf5"


ENTRIES = [
    pytest.param(entry, id=f"{kind} {number}")
    for kind in ("APP5", "DECTRIS_HDF5", "DELMIC", "EMD", "FPD_HDF5", "HDF5", "HSPY", "NXS")
    for number, entry in enumerate(manifest(kind))
    if any("dataset" in reading for reading in entry["readings"])
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_real_files_against_h5py(ctx, entry):
    path = real_data() / entry["file"]
    for reading in entry["readings"]:
        if "dataset" not in reading:
            continue
        dataset = ctx.load("hdf5", path, ds_path=reading["dataset"])
        found = read(dataset).astype("float64")
        if reading["dataset"].startswith("/Data/Image/") and len(reading["shape"]) == 3:
            found = np.moveaxis(found, 0, 2)
        if entry["format"] == "DELMIC" and reading["shape"][0] > 1 and len(reading["shape"]) == 5:
            # Wavelengths, angles, 1, y, x: axes in the other order.
            n, rows = len(found) * found.shape[1], reading["shape"][1]
            found = found.reshape(n, rows, -1).T
        found = found.reshape(reading["shape"])
        np.testing.assert_equal(found.min(), reading["min"])
        np.testing.assert_equal(found.max(), reading["max"])
        np.testing.assert_allclose(found.sum(), reading["sum_f64"], rtol=1e-12)
        for index, value in reading["probes"]:
            assert found[tuple(index)] == pytest.approx(value, rel=1e-12, nan_ok=True)
        total = ctx.run_udf(dataset, ff.SumSigUDF())["intensity"].data
        np.testing.assert_allclose(total.sum(), reading["sum_f64"], rtol=1e-5, atol=1e-12)


def test_a_file_that_is_being_written(tmp_path):
    """What was flushed is read; what comes later is not part of a data set that is open."""
    frames = values((9, 8, 10), "u2")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        data = file.create_dataset("x", (3, 8, 10), "u2", maxshape=(None, 8, 10), chunks=(1, 8, 10))
        file.swmr_mode = True
        data[:] = frames[:3]
        data.flush()
        early = ff.Context().load("hdf5", path, ds_path="x", nav_shape=(3,))
        assert np.array_equal(read(early), frames[:3])
        data.resize(9, axis=0)
        data[3:] = frames[3:]
        data.flush()
        assert np.array_equal(read(early), frames[:3])
        late = ff.Context().load("hdf5", path, ds_path="x")
        assert np.array_equal(read(late).reshape(frames.shape), frames)


@pytest.mark.parametrize("ending", ["de5", "hspy", "nxs", "emd"])
def test_other_endings(tmp_path, ending):
    """Direct Electron's files, among others, are HDF5 by another name."""
    frames = values((9, 8, 10), "u2")
    path = write(tmp_path / f"a.{ending}", frames, chunks=(1, 8, 10), compression="gzip")
    dataset = ff.Context().open(path)
    assert dataset.format == "hdf5"
    assert np.array_equal(read(dataset), frames)
