"""Zarr folders as zarr-python writes them, in versions 2 and 3."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from real_files import real_file
from test_hdf5 import read, values

import framefold as ff
from framefold.exceptions import FramefoldError, UnsupportedError
from framefold.warnings import DataSetWarning

zarr = pytest.importorskip("zarr", minversion="3.0", reason="zarr writes the folders")

CHUNKS = [(1, 1, 12, 14), (1, 3, 12, 14), (2, 7, 5, 14), (3, 2, 12, 14), (5, 7, 3, 4)]


def compressors(version):
    import numcodecs
    from zarr import codecs

    if version == 2:
        yield None
        for name in ("lz4", "zstd", "zlib", "blosclz"):
            for shuffle in (0, 1, 2):
                yield numcodecs.Blosc(cname=name, shuffle=shuffle)
        yield from (numcodecs.Zstd(), numcodecs.GZip(), numcodecs.Zlib(), numcodecs.LZ4())
        yield from (numcodecs.BZ2(1), numcodecs.BZ2(9), numcodecs.LZMA(), numcodecs.LZMA(format=2))
        yield numcodecs.LZMA(check=10, filters=[{"id": 3, "dist": 2}, {"id": 33, "preset": 0}])
        yield numcodecs.LZMA(format=3, filters=[{"id": 33, "preset": 1}])
        yield numcodecs.LZMA(format=3, filters=[{"id": 3, "dist": 256}, {"id": 33}])
    else:
        yield None
        for name in ("lz4", "zstd"):
            yield codecs.BloscCodec(cname=name, shuffle="bitshuffle")
        yield from (codecs.ZstdCodec(), codecs.GzipCodec())
        yield [codecs.ZstdCodec(), codecs.Crc32cCodec()]


@pytest.mark.parametrize("version", [2, 3])
def test_every_compressor_in_chunks_of_every_shape(tmp_path, version):
    array = values((5, 7, 12, 14), "<u2")
    for number, compressor in enumerate(compressors(version)):
        for chunks in CHUNKS[number % 2 :: 2]:
            path = tmp_path / f"{number}{chunks}.zarr"
            zarr.create_array(
                path, data=array, chunks=chunks, compressors=compressor, zarr_format=version
            )
            dataset = ff.Context().open(path)
            assert dataset.format == "zarr"
            assert tuple(dataset.shape) == array.shape
            assert np.array_equal(read(dataset), array), (compressor, chunks)


@pytest.mark.parametrize("version", [2, 3])
def test_separators_that_there_are_not(tmp_path, version):
    """No chunk has a file of such a name, and all would be full of the fill value."""
    path = tmp_path / "a.zarr"
    zarr.create_array(
        path, data=values((2, 3, 4, 5), "u2"), chunks=(1, 1, 4, 5), zarr_format=version
    )
    file = path / {2: ".zarray", 3: "zarr.json"}[version]
    whole = json.loads(file.read_text())
    for separator, words in [("0", '"0"'), ("", '""'), ("./", '"./"'), (1, "that is no text")]:
        if version == 2:
            whole["dimension_separator"] = separator
        else:
            whole["chunk_key_encoding"]["configuration"] = {"separator": separator}
        file.write_text(json.dumps(whole))
        with pytest.raises(UnsupportedError, match=f"separator of chunk keys .*{words}"):
            ff.Context().open(path)


def test_fortran_order_and_separators(tmp_path):
    array = values((5, 7, 12, 14), "<u2")
    for separator in "./":
        path = tmp_path / f"{separator == '.'}.zarr"
        zarr.create_array(
            path,
            data=array,
            chunks=(2, 3, 5, 14),
            order="F",
            zarr_format=2,
            chunk_key_encoding={"name": "v2", "separator": separator},
        )
        assert json.loads((path / ".zarray").read_text())["order"] == "F"
        assert np.array_equal(read(ff.Context().open(path)), array)


@pytest.mark.parametrize("location", ["start", "end"])
def test_shards(tmp_path, location):
    from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec, ZstdCodec

    array = values((6, 8, 12, 14), "<u2")
    path = tmp_path / "a.zarr"
    stored = zarr.create_array(
        path,
        shape=array.shape,
        dtype="u2",
        chunks=(3, 4, 12, 14),
        compressors=None,
        filters=None,
        serializer=ShardingCodec(
            chunk_shape=(1, 2, 12, 7),
            codecs=[BytesCodec(), ZstdCodec()],
            index_codecs=[BytesCodec(), Crc32cCodec()],
            index_location=location,
        ),
    )
    stored[:5] = array[:5]
    dataset = ff.Context().open(path)
    array[5] = 0
    assert np.array_equal(read(dataset), array)
    assert dataset.meta["shard shape"] == "[3, 4, 12, 14]"


@pytest.mark.parametrize("order", [(3, 1, 0, 2), (2, 3, 0, 1), (3, 2, 1, 0), (0, 1, 2, 3)])
@pytest.mark.parametrize("shards", [None, (4, 6, 12, 14)])
def test_transposed_chunks(tmp_path, order, shards):
    from zarr.codecs import TransposeCodec

    array = values((5, 7, 12, 14), "<u2")
    zarr.create_array(
        tmp_path / "a.zarr",
        data=array,
        chunks=(2, 3, 6, 7),
        shards=shards,
        filters=[TransposeCodec(order=order), TransposeCodec(order=(1, 0, 2, 3))],
    )
    dataset = ff.Context().open(tmp_path / "a.zarr")
    assert np.array_equal(read(dataset), array)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize(
    ("dtype", "astype"),
    [("u2", "u2"), ("i8", "i2"), ("u1", "i4"), (">i4", ">i4"), ("f4", "f4"), ("f8", "f8")],
)
def test_differences_in_version_2(tmp_path, order, dtype, astype):
    import numcodecs

    array = (values((5, 7, 12, 14), "u2") % 100).astype(dtype)
    path = tmp_path / "a.zarr"
    stored = zarr.create_array(
        path,
        shape=array.shape,
        dtype=dtype,
        chunks=(2, 3, 6, 7),
        order=order,
        zarr_format=2,
        filters=[numcodecs.Delta(np.dtype(dtype).str, np.dtype(astype).str)],
        compressors=numcodecs.Zstd(),
    )
    stored[:] = array
    dataset = ff.Context().open(path)
    assert dataset.meta["codecs"] == "delta, Zstandard"
    assert np.array_equal(read(dataset), stored[:])
    assert np.array_equal(read(dataset), array)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    ["Delta", "Zlib", "GZip", "LZ4", "Zstd", "Blosc", "Shuffle", "BZ2", "LZMA", "Fletcher32"],
)
def test_codecs_of_numcodecs_in_version_3(tmp_path, name):
    codecs = pytest.importorskip("numcodecs.zarr3", reason="numcodecs writes them for version 3")
    codec = getattr(codecs, name)
    options = {"filters": [codec(dtype="<u2")]} if name == "Delta" else {"compressors": [codec()]}
    array = values((5, 7, 12, 14), "<u2")
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=array, chunks=(2, 3, 6, 7), **options)
    assert f"numcodecs.{name.lower()}" in (path / "zarr.json").read_text()
    assert np.array_equal(read(ff.Context().open(path)), array)


def test_digits_that_were_lost_before(tmp_path):
    import numcodecs

    array = np.linspace(0, 1, 5 * 7 * 12 * 14, dtype="f4").reshape(5, 7, 12, 14)
    for codec in (numcodecs.Quantize(2, "<f4"), numcodecs.BitRound(5)):
        path = tmp_path / f"{codec.codec_id}.zarr"
        options = {"filters": [codec], "zarr_format": 2}
        stored = zarr.create_array(
            path, shape=array.shape, dtype="f4", chunks=(2, 3, 6, 7), **options
        )
        stored[:] = array
        found = read(ff.Context().open(path))
        assert np.array_equal(found, stored[:])
        assert not np.array_equal(found, array)


@pytest.mark.parametrize("shape", [(5, 7, 12, 14), (5, 7, 3, 5)])
def test_checksums_of_hdf5_in_version_2(tmp_path, shape):
    """As descriptions of HDF5 files in the words of Zarr have them; also of odd lengths."""
    import numcodecs

    array = values(shape, "u1")
    path = tmp_path / "a.zarr"
    options = {"filters": [numcodecs.Fletcher32()], "compressors": None, "zarr_format": 2}
    stored = zarr.create_array(path, shape=shape, dtype="u1", chunks=(1, 1, *shape[2:]), **options)
    stored[:] = array
    assert np.array_equal(read(ff.Context().open(path)), array)
    chunk = path / "2.3.0.0"
    damaged = bytearray(chunk.read_bytes())
    damaged[7] ^= 4
    chunk.write_bytes(damaged)
    with pytest.raises(FramefoldError, match="the checksum is"):
        read(ff.Context().open(path))


def in_version_2(path, array, filters, **how):
    stored = zarr.create_array(
        path,
        shape=array.shape,
        dtype=array.dtype,
        chunks=(3, 7, 6, 14),
        zarr_format=2,
        filters=filters,
        compressors=None,
        **how,
    )
    stored[:] = array
    return stored[:]


SCALED = [
    ("f4", "u1", 0.5, 10),
    ("f8", "i2", 13.7, -1000),
    ("f8", "<i8", 1e6, 3),
    (">f4", ">u4", 7, 0.25),
    ("f4", "f4", 3.3, 1),
    ("f8", "f4", 3.3, 1 / 3),
    ("f4", "f8", -2.1, 1 / 3),
    ("i4", "u1", 1, -4),
    ("u2", "i8", 3, 1),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("dtype", "astype", "scale", "offset"), SCALED)
def test_scaled_elements(tmp_path, dtype, astype, scale, offset):
    import numcodecs

    array = values((5, 7, 12, 14), "f8") + np.random.default_rng(3).random((5, 7, 12, 14))
    array = array.astype(dtype)
    dtype, astype = np.dtype(dtype), np.dtype(astype)
    codec = numcodecs.FixedScaleOffset(offset, scale, dtype.str, astype.str)
    path = tmp_path / "a.zarr"
    wanted = in_version_2(path, array, [codec])
    dataset = ff.Context().open(path)
    assert dataset.dtype == dtype.newbyteorder("=")
    assert np.array_equal(read(dataset), wanted)
    if astype.kind in "ui":
        # Differences of them, too.
        path = tmp_path / "b.zarr"
        wanted = in_version_2(path, array, [codec, numcodecs.Delta(astype.str)])
        assert np.array_equal(read(ff.Context().open(path)), wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("decoded", ["u1", "i2", ">u4", "i8", "u8", "f4", ">f8"])
def test_elements_stored_as_another_dtype(tmp_path, decoded):
    import numcodecs

    array = (values((5, 7, 12, 14), "i8") * 40).astype(decoded)
    codecs = pytest.importorskip("numcodecs.zarr3", reason="numcodecs writes them for version 3")
    for encoded in ["i1", "u2", "<i4", ">i8", "u8", "f2", "<f4", "f8"]:
        encoded = np.dtype(encoded)
        if encoded.kind == "f" and np.dtype(decoded).kind in "ui":
            array = np.abs(values((5, 7, 12, 14), "i8")).astype(decoded)
        path = tmp_path / f"{encoded}.zarr"
        codec = numcodecs.AsType(encoded.str, np.dtype(decoded).str)
        wanted = in_version_2(path, array, [codec])
        dataset = ff.Context().open(path)
        assert dataset.dtype == np.dtype(decoded).newbyteorder("=")
        assert np.array_equal(read(dataset), wanted), encoded
        sizes = {encoded.itemsize, np.dtype(decoded).itemsize}
        if np.dtype(decoded).isnative and encoded.isnative and 1 not in sizes:
            path = tmp_path / f"{encoded}-3.zarr"
            how = {"encode_dtype": encoded.str, "decode_dtype": np.dtype(decoded).str}
            filters = [codecs.AsType(**how)]
            stored = zarr.create_array(path, data=array, chunks=(3, 7, 6, 14), filters=filters)
            assert np.array_equal(read(ff.Context().open(path)), stored[:]), encoded


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chunks", [(1, 1, 12, 14), (2, 3, 5, 7), (5, 7, 3, 3)])
def test_truth_values_as_bits(tmp_path, chunks):
    import numcodecs

    array = values((5, 7, 12, 14), "?")
    path = tmp_path / "a.zarr"
    filters = [numcodecs.PackBits()]
    how = {"chunks": chunks, "zarr_format": 2, "compressors": numcodecs.BZ2()}
    zarr.create_array(path, data=array, filters=filters, **how)
    dataset = ff.Context().open(path)
    assert dataset.meta["codecs"] == "bits, bzip2"
    assert np.array_equal(read(dataset), array)
    codecs = pytest.importorskip("numcodecs.zarr3", reason="numcodecs writes them for version 3")
    path = tmp_path / "b.zarr"
    zarr.create_array(path, data=array, filters=[codecs.PackBits()], chunks=chunks)
    assert np.array_equal(read(ff.Context().open(path)), array)


def test_numbers_that_no_integer_is_and_streams_that_are_damaged(tmp_path):
    import numcodecs

    array = np.full((1, 4, 8, 16), 7, dtype="u2")
    path = tmp_path / "a.zarr"
    how = {"chunks": (1, 4, 8, 16), "zarr_format": 2}
    zarr.create_array(
        path, data=array, filters=[numcodecs.AsType("<f4", "<u2")], compressors=None, **how
    )
    chunk = path / "0.0.0.0"
    good = np.frombuffer(chunk.read_bytes(), dtype="<f4")
    assert np.array_equal(read(ff.Context().open(path)), array)
    for odd in (np.nan, np.inf, -1.0, 65536.0):
        bad = good.copy()
        bad[77] = odd
        chunk.write_bytes(bad.tobytes())
        with pytest.raises(FramefoldError, match=r"0\.0\.0\.0.*cannot be uint16|cannot be uint16"):
            read(ff.Context().open(path))
    for number, codec in enumerate([numcodecs.BZ2(), numcodecs.LZMA(), numcodecs.LZMA(format=2)]):
        path = tmp_path / f"{number}.zarr"
        zarr.create_array(path, data=values((1, 4, 8, 16), "u2"), compressors=codec, **how)
        chunk = path / "0.0.0.0"
        whole = chunk.read_bytes()
        dataset = ff.Context().open(path)
        wanted = read(dataset)
        for cut in range(0, len(whole), 7):
            chunk.write_bytes(whole[:cut])
            with pytest.raises(FramefoldError):
                read(ff.Context().open(path))
        # A stream of other data of another length is no chunk.
        for length in (1, 2, 10**6):
            chunk.write_bytes(codec.encode(bytes(length)))
            with pytest.raises(FramefoldError, match="bytes"):
                read(ff.Context().open(path))
        chunk.write_bytes(whole)
        assert np.array_equal(read(ff.Context().open(path)), wanted)


@pytest.mark.skipif(sys.platform != "linux", reason="asks the system how much was read")
def test_chunks_that_are_not_compressed_are_read_once_too(tmp_path):
    def n_read():
        with open("/proc/self/io") as about:
            return int(about.readline().split()[1])

    array = values((64, 4, 16, 16), "u2")
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=array, chunks=(64, 1, 8, 8), compressors=None, zarr_format=2)
    with ff.Context.make_with("inline") as ctx:
        dataset = ctx.open(path)
        assert np.array_equal(read(dataset), array)
        ctx.run_udf(dataset, ff.SumUDF())
        before = n_read()
        total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
        assert n_read() - before < 2 * array.nbytes
        assert np.array_equal(total, array.sum(axis=(0, 1), dtype="f8"))
        chunk = path / "0.1.1.0"
        chunk.write_bytes(chunk.read_bytes()[:-2])
        with pytest.raises(FramefoldError, match=r"0\.1\.1\.0.*8190 bytes.*needs 8192"):
            ctx.run_udf(ctx.open(path), ff.SumUDF())


def test_codecs_that_are_not_read_are_named(tmp_path):
    import numcodecs

    array = values((4, 6, 8, 16), "u2")
    ctx = ff.Context()
    for number, options in enumerate(
        [
            {"filters": [numcodecs.FixedScaleOffset(0, 2, "<u2", "<f2")]},
            {"filters": [numcodecs.AsType("<c8", "<u2")]},
            {"filters": [numcodecs.Base64()]},
            {"compressors": numcodecs.LZMA(format=3, filters=[{"id": 0x4000000000000001}])},
            {"compressors": numcodecs.LZMA(format=3, filters=[{"id": 4}, {"id": 33}])},
        ]
    ):
        path = tmp_path / f"{number}.zarr"
        zarr.create_array(path, data=array, chunks=(1, 2, 8, 16), zarr_format=2, **options)
        name = (options.get("filters") or [options.get("compressors")])[0].codec_id
        with pytest.raises(FramefoldError, match=name):
            ctx.load("zarr", path)
    path = tmp_path / "delta.zarr"
    delta = [numcodecs.Delta("<u2")]
    zarr.create_array(path, data=array, chunks=(1, 2, 8, 16), zarr_format=2, filters=delta)
    described = json.loads((path / ".zarray").read_text())
    for change in ({"dtype": "<f4"}, {"dtype": ">u2"}, {"astype": "<f8"}, {"astype": "blue"}):
        described["filters"] = [{"id": "delta", "dtype": "<u2", "astype": "<u2", **change}]
        (path / ".zarray").write_text(json.dumps(described))
        with pytest.raises(FramefoldError, match="delta"):
            ctx.load("zarr", path)
    # As many differences as elements, and no more.
    described["filters"] = [{"id": "delta", "dtype": "<u2", "astype": "<u4"}]
    (path / ".zarray").write_text(json.dumps(described))
    with pytest.raises(FramefoldError):
        read(ctx.load("zarr", path))
    path = tmp_path / "turned.zarr"
    zarr.create_array(path, data=array, chunks=(1, 2, 8, 16))
    described = json.loads((path / "zarr.json").read_text())
    for order in ([0, 1, 2], [0, 1, 2, 2], [0, 1, 2, 4], [-1, 0, 1, 2], "K", None, 7):
        turned = {"name": "transpose", "configuration": {"order": order}}
        changed = {**described, "codecs": [turned, *described["codecs"]]}
        (path / "zarr.json").write_text(json.dumps(changed))
        with pytest.raises(FramefoldError, match="transpose"):
            ctx.load("zarr", path)


def test_groups_hyperspy_and_what_is_named(tmp_path):
    array, larger = values((4, 3, 5, 6), "u2"), values((9, 9, 9, 9), "u2")
    for version in (2, 3):
        group = zarr.open_group(tmp_path / f"{version}.zarr", mode="w", zarr_format=version)
        group.create_array("a/small", data=array)
        group.create_array("large", data=larger)
        group.create_array("flat", data=larger[0, 0])
        ctx = ff.Context()
        path = tmp_path / f"{version}.zarr"
        assert np.array_equal(read(ctx.open(path)), larger)
        assert np.array_equal(read(ctx.load("zarr", path, ds_path="a/small")), array)
        for name in ("nothing", "../2.zarr/large", "/etc"):
            with pytest.raises(FramefoldError, match="no array"):
                ctx.load("zarr", path, ds_path=name)
    group = zarr.open_group(tmp_path / "a.zspy", mode="w", zarr_format=2)
    group.create_array("Experiments/x/data", data=array)
    for axis in range(4):
        group.create_group(f"Experiments/x/axis-{axis}").attrs["navigate"] = axis < 3
    group.create_array("Experiments/other", data=larger)
    dataset = ff.Context().open(tmp_path / "a.zspy")
    assert (tuple(dataset.shape.nav), tuple(dataset.shape.sig)) == ((4, 3, 5), (6,))
    assert np.array_equal(read(dataset), array)


@pytest.mark.parametrize("version", [2, 3])
def test_of_several_as_large_the_first_by_name_is_taken_and_said(tmp_path, version):
    path = tmp_path / "a.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=version)
    first, second = values((2, 3, 4, 4), "u1"), values((6, 4, 4), "u2")
    group.create_array("b", data=second)
    group.create_array("a", data=first)
    group.create_array("flat", data=values((6, 16), "u2"))
    said = r"'a' \[2, 3, 4, 4\], but 'b' \[6, 4, 4\] is as large: name the array by ds_path"
    with pytest.warns(DataSetWarning, match=said):
        dataset = ff.Context().open(path)
    assert dataset.meta["array"] == "/a"
    assert dataset.meta["other arrays"] == "'b' [6, 4, 4]"
    assert np.array_equal(read(dataset), first)
    named = ff.Context().open(path, ds_path="b")
    assert np.array_equal(read(named), second)
    assert ("other arrays" in named.meta, named.warnings) == (False, [])
    group.create_array("c/d", data=second)
    with pytest.warns(DataSetWarning, match=r"'b' \[6, 4, 4\] \(and 1 more\) is as large"):
        ff.Context().open(path)


def test_others_that_are_smaller_are_listed_without_a_warning(tmp_path):
    """HyperSpy's signals go before all others."""
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("a", data=values((2, 3, 4), "u2"))
    group.create_array("b", data=values((5, 3, 4), "u2"))
    dataset = ff.Context().open(tmp_path / "a.zarr")
    assert (dataset.meta["other arrays"], dataset.warnings) == ("'a' [2, 3, 4]", [])
    group.create_array("Experiments/x/data", data=values((2, 3, 4), "u2"))
    dataset = ff.Context().open(tmp_path / "a.zarr")
    assert (dataset.meta["array"], dataset.warnings) == ("/Experiments/x/data", [])
    assert dataset.meta["other arrays"] == "'b' [5, 3, 4], 'a' [2, 3, 4]"
    group.create_array("Experiments/y/data", data=values((2, 3, 4), "u2"))
    with pytest.warns(DataSetWarning, match="'Experiments/y/data'.* is as large"):
        ff.Context().open(tmp_path / "a.zarr")


@pytest.mark.parametrize("version", [2, 3])
def test_pixels_that_are_packed_are_said_to_be(tmp_path, version):
    """As xarray writes them, with its attributes."""
    packed = {"scale_factor": 0.01, "add_offset": 1.0, "_FillValue": -9999}
    for path, attributes in (("packed.zarr", packed), ("plain.zarr", {"_FillValue": "AAAA+H8="})):
        how = {"zarr_format": version, "chunks": (1, 1, 8, 10), "attributes": attributes}
        zarr.create_array(tmp_path / path, data=values((5, 6, 8, 10), "i2"), **how)
    said = "are packed: scale_factor 0.01, add_offset 1, _FillValue -9999;"
    with pytest.warns(ff.warnings.DataSetWarning, match=said):
        dataset = ff.Context().open(tmp_path / "packed.zarr")
    assert (dataset.meta["scale_factor"], dataset.meta["_FillValue"]) == ("0.01", "-9999")
    assert ff.Context().open(tmp_path / "plain.zarr").warnings == []


def test_damage_is_named(tmp_path):
    array = values((4, 6, 8, 16), "u2")
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=array, chunks=(1, 2, 8, 16), zarr_format=2)
    chunk = path / "1.1.0.0"
    whole = chunk.read_bytes()
    ctx = ff.Context()
    for data in (whole[:30], b"", whole + bytes(10**6), bytes(len(whole))):
        chunk.write_bytes(data)
        with pytest.raises(FramefoldError, match=r"1\.1\.0\.0"):
            read(ctx.open(path))
    # No file at all: the fill value.
    chunk.unlink()
    array[1, 2:4] = 0
    assert np.array_equal(read(ctx.open(path)), array)
    described = json.loads((path / ".zarray").read_text())
    for change in [
        {"shape": [4, 6, -8, 16]},
        {"shape": [2**62] * 4},
        {"chunks": [1, 2, 0, 16]},
        {"chunks": [2**40, 2**40, 1, 1]},
        {"dtype": "|O"},
        {"dtype": [["a", "<f4"]]},
        {"compressor": {"id": "unheard of"}},
        {"order": "K"},
        {"fill_value": "blue"},
    ]:
        (path / ".zarray").write_text(json.dumps({**described, **change}))
        with pytest.raises(FramefoldError):
            read(ctx.open(path))
    (path / ".zarray").write_text("{")
    with pytest.raises(FramefoldError, match="no JSON"):
        ctx.open(path)
    with pytest.raises(FramefoldError, match="directory"):
        ctx.open(tmp_path)


def test_a_real_file():
    folder = real_file("ZSPY/rosettasciio/signal1d_10x10-NestedDirectoryStore.zspy")
    dataset = ff.Context().open(folder)
    expected = zarr.open(folder, mode="r")["Experiments/__unnamed__/data"][:]
    assert dataset.shape.size == expected.size
    assert np.array_equal(read(dataset).reshape(expected.shape), expected)


def test_chunks_are_those_of_the_array_that_was_opened(tmp_path, monkeypatch):
    """In whatever folder the program goes on: there may be an array of that name."""
    ctx = ff.Context.make_with("inline")
    for value, folder in enumerate("ab"):
        (tmp_path / folder).mkdir()
        data = np.full((2, 3, 4, 5), value + 1, np.uint8)
        ctx.export_dataset(ctx.load("memory", data=data), tmp_path / folder / "scan.zarr")
    monkeypatch.chdir(tmp_path / "a")
    dataset = ctx.open("scan.zarr")
    monkeypatch.chdir(tmp_path / "b")
    assert np.all(np.asarray(dataset) == 1)
