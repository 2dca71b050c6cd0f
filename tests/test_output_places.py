"""Where output goes: nothing that was read is replaced, and nothing that is no file."""

from __future__ import annotations

import copy
import json
import os
import socket
import stat
import sys
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from known_oddities import odd

import framefold as ff
from framefold.exceptions import FileAccessError, FramefoldError, InvalidArgumentError
from framefold.udf.record import RecordUDF


@pytest.fixture
def ctx():
    return ff.Context.make_with("inline")


@pytest.fixture
def dataset(ctx, tmp_path):
    np.save(tmp_path / "scan.npy", np.arange(240, dtype=np.uint16).reshape(4, 3, 4, 5))
    return ctx.load("npy", tmp_path / "scan.npy", sig_dims=2)


def test_files_that_name_the_data_are_inputs_too(ctx, tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py writes the files")
    counts = np.arange(240, dtype=np.uint16).reshape(12, 4, 5)
    with h5py.File(tmp_path / "part.h5", "w") as file:
        file["data"] = counts
    layout = h5py.VirtualLayout(shape=counts.shape, dtype=counts.dtype)
    layout[:] = h5py.VirtualSource("part.h5", "data", shape=counts.shape)
    whole = tmp_path / "whole.h5"
    with h5py.File(whole, "w") as file:
        file.create_virtual_dataset("data", layout)
    before = whole.read_bytes()
    dataset = ctx.open(whole)
    results = ctx.run_udf(dataset=dataset, udf=ff.SumUDF())
    for path in (whole, tmp_path / "part.h5"):
        with pytest.raises(InvalidArgumentError, match="one of the input files"):
            ctx.export_dataset(dataset, path, overwrite=True)
        with pytest.raises(InvalidArgumentError, match="one of the input files"):
            results.save(path, overwrite=True)
    assert whole.read_bytes() == before


def test_each_input_is_named_once(ctx, tmp_path):
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", np.zeros((4, 5)))
    inputs = ctx.open(tmp_path / "*.npy")._inputs
    assert sorted(map(os.path.basename, inputs)) == ["*.npy", "0.npy", "1.npy", "2.npy"]


@pytest.mark.parametrize("how", ["name", "other spelling", "link", "hard link"])
def test_results_replace_no_input(ctx, dataset, tmp_path, how):
    """They know what they were computed from, and copies of them do."""
    scan = path = tmp_path / "scan.npy"
    before = scan.read_bytes()
    if how == "other spelling":
        path = tmp_path / ".." / tmp_path.name / "scan.npy"
    elif how != "name":
        path = tmp_path / "other.npy"
        (os.symlink if how == "link" else os.link)(scan, path)
    result = ctx.run_udf(dataset=dataset.pipe(ff.Flip("y")), udf=ff.SumUDF())["intensity"]
    (so_far,) = list(ctx.run_udf_iter(dataset=dataset, udf=ff.SumUDF()))[-1:]
    for save in (result.save, copy.deepcopy(result).save, so_far.damage.save):
        with pytest.raises(InvalidArgumentError, match=r"\.npy.* one of the input files"):
            save(path, overwrite=True)
    with pytest.raises(InvalidArgumentError, match="one of the input files"):
        ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF(), out=path, overwrite=True)
    with pytest.raises(FileAccessError, match=r"RecordUDF.* one of the input files"):
        ctx.run_udf(dataset=dataset, udf=RecordUDF(path, overwrite=True))
    assert scan.read_bytes() == before
    path = result.save(tmp_path / "result.npy")
    assert result.save(path, overwrite=True) == path


def test_mapped_arrays_are_files(ctx, dataset, tmp_path):
    scan = tmp_path / "scan.npy"
    mapped = np.load(scan, mmap_mode="r")
    for data in (mapped, np.asarray(mapped)[:, 1:]):
        in_memory = ctx.load("memory", data=data, sig_dims=2)
        result = ctx.run_udf(dataset=in_memory, udf=ff.SumUDF())["intensity"]
        for write in (result.save, partial(ctx.export_dataset, in_memory.pipe(ff.Flip("y")))):
            with pytest.raises(InvalidArgumentError, match="one of the input files"):
                write(scan, overwrite=True)
    sparse = pytest.importorskip("scipy.sparse")
    part = np.memmap(tmp_path / "scan.data", np.uint16, "w+", shape=(7,))
    rows = part, np.arange(7, dtype=np.int32), np.array([0, 3, 7])
    data = sparse.csr_array(rows, shape=(2, 20))
    in_memory = ctx.load("memory", data=data, nav_shape=(2,), sig_shape=(4, 5))
    with pytest.raises(InvalidArgumentError, match=r"scan\.data.* one of the input files"):
        ctx.convert(in_memory, tmp_path / "scan.toml", overwrite=True)


def test_results_replace_no_folder_that_holds_the_data(ctx, dataset, tmp_path):
    group = tmp_path / "group.zarr"
    group.mkdir()
    (group / ".zgroup").write_text('{"zarr_format": 2}')
    ctx.export_dataset(dataset, group / "0.zarr", zarr_format=2)
    before = sorted(group.rglob("*"))
    results = ctx.run_udf(dataset=ctx.open(group / "0.zarr"), udf=ff.SumUDF())
    for path, reason in [
        (group / "0.zarr", "one of the input files"),
        (group, "would replace a folder that the data set is read from"),
    ]:
        with pytest.raises(InvalidArgumentError, match=reason):
            results.save(path, overwrite=True)
    assert sorted(group.rglob("*")) == before


@pytest.mark.parametrize("opened", ["", "img*.npy", "../*/[a-z]*.npy", "../**/img*"])
def test_results_are_not_added_to_what_they_are_made_of(ctx, tmp_path, command, opened):
    """Opened again, a folder or pattern would find them, too."""
    folder, link = tmp_path / "frames", tmp_path / ".link"
    folder.mkdir()
    link.symlink_to(folder)
    for i in range(3):
        np.save(folder / f"img{i}.npy", np.full((4, 5), i, np.float32))
    dataset = ctx.open(folder / opened)
    result = ctx.run_udf(dataset=dataset.pipe(ff.Flip("y")), udf=ff.SumUDF())["intensity"]
    refusal = "would be one of the files of the data set"
    for path in (folder / "img9.npy", link / "img9.npy"):
        for write in (
            result.save,
            partial(ctx.export_dataset, dataset),
            lambda path: ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF(), out=path),
        ):
            with pytest.raises(InvalidArgumentError, match=refusal):
                write(path)
        with pytest.raises(FileAccessError, match=refusal):
            ctx.run_udf(dataset=dataset, udf=RecordUDF(path))
        assert refusal in command("convert", folder / opened, path, code=2)
        assert refusal in command("run", "sum", folder / (opened or "*"), "-o", path, code=2)
    assert tuple(ctx.open(folder / opened).shape) == (3, 4, 5)
    result.save(folder / "sum.h5")
    result.save(tmp_path / "sum.npy")
    (folder / "results").mkdir()
    ctx.export_dataset(dataset, folder / "results/copy.npy")
    command("run", "sum", folder / (opened or "*.npy"), "-o", "-", "-q")


def test_output_that_is_a_folder_beside_files_that_a_pattern_finds(ctx, tmp_path):
    """Patterns find files, and those in folders where they say so."""
    folder = tmp_path / "frames"
    folder.mkdir()
    for i in range(3):
        np.save(folder / f"img{i}.npy", np.full((4, 5), i, np.float32))
    for pattern, path, is_found in (
        ("frames/*", folder / "sum.zarr", False),
        ("*/*", tmp_path / "sum.zarr", True),
    ):
        result = ctx.run_udf(dataset=ctx.open(tmp_path / pattern), udf=ff.SumUDF())["intensity"]
        with pytest.raises(InvalidArgumentError, match="files") if is_found else nullcontext():
            result.save(path)
        assert path.exists() == (not is_found)
        assert tuple(ctx.open(tmp_path / pattern).shape) == (3, 4, 5)


def test_results_within_a_folder_that_is_read_as_a_whole(ctx, dataset, tmp_path):
    ctx.export_dataset(dataset, tmp_path / "scan.zarr")
    result = ctx.run_udf(dataset=ctx.open(tmp_path / "scan.zarr"), udf=ff.SumUDF())["intensity"]
    with pytest.raises(InvalidArgumentError, match="lies within the folder"):
        result.save(tmp_path / "scan.zarr/sum.npy")


@odd("has sequence number")
def test_headers_are_inputs_too(ctx, tmp_path):
    frame = np.arange(64 * 64, dtype=">u2").reshape(64, 64)
    header = (
        b"MQ1,000001,00384,01,0064,0064,U16,   1x1,01,2020-05-18 16:51:49.971626,0.000555,0,0,0,"
    )
    with open(tmp_path / "scan.mib", "wb") as file:
        for _ in range(4):
            file.write(header.ljust(384, b" ") + frame.tobytes())
    (tmp_path / "scan.hdr").write_text("HDR,\nScanX:\t2\nScanY:\t2\nEnd\t\n")
    dataset = ctx.open(tmp_path / "scan.hdr")
    with pytest.raises(InvalidArgumentError, match="one of the input files"):
        ctx.export_dataset(dataset, tmp_path / "scan.hdr", format="npy", overwrite=True)


@pytest.mark.skipif(sys.platform == "win32", reason="no such files")
def test_what_is_neither_file_nor_folder_stays(ctx, dataset, tmp_path):
    path = tmp_path / "out.npy"
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(os.path.relpath(path) if len(str(path)) > 100 else str(path))
        with pytest.raises(InvalidArgumentError, match="neither a file nor a folder"):
            ctx.export_dataset(dataset, path, overwrite=True)
    assert stat.S_ISSOCK(path.stat().st_mode)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("name", ["out.npy", "out.zarr", "out.h5"])
def test_a_link_stays_and_what_it_leads_to_is_replaced(ctx, dataset, tmp_path, name):
    disk = tmp_path / "disk"
    disk.mkdir()
    ctx.export_dataset(dataset, disk / name)
    (tmp_path / name).symlink_to(disk / name)
    with pytest.raises(FramefoldError, match="exists"):
        ctx.export_dataset(dataset, tmp_path / name)
    other = ctx.load("memory", data=np.ones((2, 3, 4), np.float32), sig_dims=2)
    ctx.export_dataset(other, tmp_path / name, overwrite=True)
    assert (tmp_path / name).is_symlink()
    assert tuple(ctx.open(disk / name).shape) == (2, 3, 4)
    assert {entry.name for entry in disk.iterdir()} == {name}
    assert {entry.name for entry in tmp_path.iterdir()} == {"disk", "scan.npy", name}


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions")
def test_a_file_that_is_replaced_keeps_its_permissions(ctx, dataset, tmp_path):
    path = tmp_path / "out.npy"
    ctx.export_dataset(dataset, path)
    path.chmod(0o600)
    ctx.export_dataset(dataset, path, overwrite=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("ending", [".npy", ".zarr"])
def test_names_as_long_as_can_be(ctx, dataset, tmp_path, ending):
    path = tmp_path / ("x" * (255 - len(ending)) + ending)
    for overwrite in (False, True):
        ctx.export_dataset(dataset, path, overwrite=overwrite)
    assert {entry.name for entry in tmp_path.iterdir()} == {"scan.npy", path.name}


def test_a_folder_that_does_not_exist_is_named(ctx, dataset, tmp_path):
    with pytest.raises(FileAccessError, match="find the folder of the output") as caught:
        ctx.export_dataset(dataset, tmp_path / "nofold" / "out.npy")
    assert "nofold" in str(caught.value)
    assert "create it" in str(caught.value)


@pytest.mark.parametrize("compression", ["blosc", "zstd", "gzip"])
def test_damage_to_chunks_of_zarr_is_noticed(ctx, tmp_path, compression):
    data = np.random.default_rng(0).integers(0, 4000, (6, 8, 16, 16), dtype=np.uint16)
    dataset = ctx.load("memory", data=data, sig_dims=2)
    path = tmp_path / "out.zarr"
    ctx.export_dataset(dataset, path, compression=compression)
    said = json.loads((path / "zarr.json").read_text())
    codecs = [each["name"] for each in said["codecs"][0]["configuration"]["codecs"]]
    assert (codecs[-1] == "crc32c") == (compression != "gzip")
    total = ctx.run_udf(ctx.open(path), ff.SumUDF())["intensity"].data
    assert np.array_equal(total, data.sum(axis=(0, 1)))
    (shard,) = (each for each in path.rglob("*") if each.is_file() and each.name != "zarr.json")
    whole = shard.read_bytes()
    for place in range(20, len(whole) - 400, 997):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        shard.write_bytes(damaged)
        with pytest.raises(FramefoldError):
            ctx.run_udf(ctx.open(path), ff.SumUDF())


def test_zarr_python_reads_what_is_written(ctx, tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr reads the array")
    data = np.arange(6 * 8 * 16 * 16, dtype=np.uint16).reshape(6, 8, 16, 16)
    for compression in ("blosc", "zstd"):
        path = tmp_path / f"{compression}.zarr"
        dataset = ctx.load("memory", data=data, sig_dims=2)
        ctx.export_dataset(dataset, path, compression=compression)
        assert np.array_equal(zarr.open_array(str(path), mode="r")[:], data)


@odd("bytes after the last", "positions? (has|have) no data")
def test_raw_files_that_end_within_a_frame(ctx, tmp_path):
    whole = np.arange(6 * 20, dtype=np.uint16).tobytes()
    (tmp_path / "1.bin").write_bytes(whole[:100])
    (tmp_path / "2.bin").write_bytes(whole[100:])
    how = {"dtype": "uint16", "sig_shape": (4, 5), "nav_shape": (6,)}
    with pytest.raises(
        FramefoldError, match="20 bytes follow the last of 2 whole frames"
    ) as caught:
        ctx.load("raw", [tmp_path / "1.bin", tmp_path / "2.bin"], **how)
    assert "1.bin" in str(caught.value)
    # Of the last one, the rest is left out, with a warning.
    (tmp_path / "1.bin").write_bytes(whole[:80])
    (tmp_path / "2.bin").write_bytes(whole[80:-10])
    dataset = ctx.load("raw", [tmp_path / "1.bin", tmp_path / "2.bin"], **how)
    sums = ctx.run_udf(dataset, ff.SumSigUDF())["intensity"].data
    assert sums[:5].tolist() == np.frombuffer(whole, "u2").reshape(6, 20).sum(axis=1)[:5].tolist()
