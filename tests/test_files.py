"""Damaged, missing and changing files: a clear error, never a crash and never silent zeros."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from detector_files import write_de_movie, write_frms6, write_mrc, write_seq, write_seq_sidecars
from known_oddities import POSITIONS_WITHOUT_DATA, odd
from vendor_files import write_ser, write_tvips

import framefold as ff
from framefold.exceptions import (
    BadFileError,
    FileAccessError,
    FramefoldError,
    InvalidArgumentError,
)
from framefold.io.dataset import detect
from framefold.udf import UDF
from framefold.udf.record import RecordUDF
from framefold.utils.write_mib import write_mib

SHAPE = (5, 6, 16, 64)


@pytest.fixture
def counts():
    return np.random.default_rng(4).integers(0, 50, SHAPE, dtype=np.uint8)


@pytest.fixture
def files(tmp_path, counts):
    """The same scan in each file format, and how to load it."""
    counts.tofile(tmp_path / "scan.raw")
    np.save(tmp_path / "scan.npy", counts)
    write_mib(tmp_path / "scan.mib", counts)
    raw = {"nav_shape": SHAPE[:2], "sig_shape": SHAPE[2:], "dtype": "uint8"}
    return {
        "raw": (tmp_path / "scan.raw", raw),
        "npy": (tmp_path / "scan.npy", {}),
        "mib": (tmp_path / "scan.mib", {}),
    }


FORMATS = ["raw", "npy", "mib"]
BACKENDS = ["mmap", "buffered"]


def cut(path, n_bytes):
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - n_bytes)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", FORMATS)
def test_whole_files(ctx, files, counts, kind, backend):
    path, options = files[kind]
    dataset = ctx.load(kind, path, io_backend=backend, **options)
    assert tuple(dataset.shape) == SHAPE
    assert dataset.warnings == []
    assert dataset.valid_mask.all()
    assert np.array_equal(
        ctx.run_udf(dataset, ff.PickUDF())["intensity"].data.reshape(SHAPE), counts
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", FORMATS)
@odd("the file is cut short", "whole frames were left out")
@POSITIONS_WITHOUT_DATA
@odd("bytes (of|after)", "left out")
@odd("the frames that are there are used")
@odd("hdr file describes a scan of")
def test_missing_frames_are_invalid_and_never_zero(ctx, files, counts, kind, backend):
    path, options = files[kind]
    cut(path, 3 * 1024 + 100)
    dataset = ctx.load(kind, path, io_backend=backend, **options)
    assert tuple(dataset.shape) == SHAPE
    assert dataset.warnings, "a partial frame was dropped without a word"
    valid = np.arange(30).reshape(5, 6) < (27 if kind == "mib" else 26)
    assert np.array_equal(dataset.valid_mask, valid)

    class Seen(UDF):
        def get_result_buffers(self):
            return {"seen": self.buffer(kind="nav"), "n": self.buffer(kind="single", dtype=int)}

        def process_frame(self, frame):
            self.results.seen[:] = frame.sum()
            self.results.n += 1

        def merge(self, dest, src):
            dest.seen[:] = src.seen
            dest.n[:] += src.n

    sums, seen, std = ctx.run_udf(dataset, [ff.SumSigUDF(), Seen(), ff.StdDevUDF()])
    expected = np.where(valid, counts.sum(axis=(2, 3)), np.nan).astype(np.float32)
    assert np.array_equal(sums["intensity"].data, expected, equal_nan=True)
    assert np.array_equal(seen["seen"].data, expected, equal_nan=True)
    assert np.array_equal(sums["intensity"].valid_mask, valid)
    assert sums["intensity"].masked_data.mask.sum() == (~valid).sum()
    assert seen["n"].data[0] == valid.sum()
    np.testing.assert_allclose(std["std"].data, counts[valid].std(axis=0), rtol=1e-9)


@pytest.mark.parametrize("kind", FORMATS)
def test_paths_may_be_bytes(ctx, files, counts, kind):
    path, options = files[kind]
    dataset = ctx.load(kind, os.fsencode(path), **options)
    result = ctx.run_udf(dataset, ff.SumSigUDF())["intensity"].data
    assert np.array_equal(result, counts.sum(axis=(2, 3)))


@pytest.mark.skipif(os.name != "posix", reason="names are text there")
def test_names_that_the_locale_does_not_know(tmp_path, counts):
    code = (
        "import os, framefold as ff; ctx = ff.Context.make_with('inline'); "
        "(name,) = os.listdir(); dataset = ctx.open(name); (path,) = dataset.paths; "
        "assert os.fspath(path) == name, ascii(path); "
        "ctx.run_udf(dataset, ff.SumUDF())['intensity'].save('sum.npy')"
    )
    np.save(tmp_path / "\u00e4.npy", counts)
    run = [sys.executable, "-X", "utf8=0", "-c", code]
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run(run, cwd=tmp_path, env=environment, check=True)
    assert np.array_equal(np.load(tmp_path / "sum.npy"), counts.sum((0, 1)))


def test_the_sign_of_a_home_folder_is_one_of_shells(ctx, files):
    result = ctx.run_udf(ctx.open(files["npy"][0]), ff.SumUDF())["intensity"]
    for use in (
        lambda: ctx.open("~/no such folder/scan.npy"),
        lambda: ctx.open("~/no such folder/*.npy"),
        lambda: result.save("~/sum.npy"),
    ):
        with pytest.raises(FramefoldError, match="path of your home folder in full"):
            use()
    with pytest.raises(FramefoldError, match="check the path"):
        ctx.open("~backup.npy")


def test_paths_may_be_elements_of_arrays(ctx, files):
    path, _ = files["npy"]
    for names in (np.array([str(path)]), np.array([os.fsencode(path)])):
        assert ctx.open(names[0]).format == "npy"


@pytest.mark.parametrize("kind", FORMATS)
@POSITIONS_WITHOUT_DATA
def test_sync_offset(ctx, files, counts, kind):
    path, options = files[kind]
    flat = counts.sum(axis=(2, 3)).reshape(-1).astype(np.float32)
    for offset in (3, -4, 29, -29):
        dataset = ctx.load(kind, path, sync_offset=offset, **options)
        result = ctx.run_udf(dataset, ff.SumSigUDF())["intensity"].data.reshape(-1)
        source = np.arange(30) + offset
        there = (source >= 0) & (source < 30)
        assert np.array_equal(result[there], flat[source[there]])
        assert np.isnan(result[~there]).all()
        info = dataset.get_sync_offset_info()
        assert info["frames_skipped_start"] == max(0, offset)
        assert info["frames_inserted_start"] == max(0, -offset)
    with pytest.raises(InvalidArgumentError, match=r"sync_offset -30.*\(-30, 30\)"):
        ctx.load(kind, path, sync_offset=-30, **options)


@pytest.mark.parametrize("kind", FORMATS)
@POSITIONS_WITHOUT_DATA
def test_a_roi_of_missing_frames_only(ctx, files, kind):
    path, options = files[kind]
    dataset = ctx.load(kind, path, sync_offset=-6, **options)
    result = ctx.run_udf(dataset, ff.SumSigUDF(), roi=(0, 2))["intensity"]
    assert not result.valid_mask.any()
    assert np.isnan(result.data).all()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_file_that_shrinks_gives_an_error(ctx, files, kind, backend):
    path, options = files[kind]
    dataset = ctx.load(kind, path, io_backend=backend, **options)
    cut(path, 12 * 1024)
    with pytest.raises((BadFileError, OSError), match=path.name):
        ctx.run_udf(dataset, ff.SumSigUDF())


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_shrinks_during_a_run_gives_an_error(ctx, files, kind):
    path, options = files[kind]

    class Cutter(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def process_frame(self, frame):
            if self.meta.slice.origin[0] == 0:
                os.truncate(path, 2000)
            self.results.x[:] = frame.sum()

    dataset = ctx.load(kind, path, num_partitions=10, **options)
    with pytest.raises(BadFileError, match=path.name):
        ctx.run_udf(dataset, Cutter())


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_that_grows_is_read_as_it_was(ctx, files, counts, kind):
    path, options = files[kind]
    dataset = ctx.load(kind, path, **options)
    with path.open("ab") as file:
        file.write(b"\xff" * 5000)
    result = ctx.run_udf(dataset, ff.SumSigUDF())["intensity"].data
    assert np.array_equal(result, counts.sum(axis=(2, 3)).astype(np.float32))


@pytest.mark.parametrize("kind", ["npy", "mib"])
def test_headers_cut_at_every_byte(files, kind):
    ctx = ff.Context.make_with("inline")  # files are opened without the executor
    path, _ = files[kind]
    whole = path.read_bytes()
    header = 128 if kind == "npy" else 384
    for length in range(header + 1):
        path.write_bytes(whole[:length])
        for load in (lambda: ctx.load(kind, path), lambda: ctx.open(path)):
            with pytest.raises(FramefoldError, match=path.name):
                load()


@pytest.mark.parametrize("kind", FORMATS)
def test_empty_missing_and_wrong_files(ctx, files, tmp_path, kind):
    _, options = files[kind]
    empty = tmp_path / f"empty.{kind}"
    empty.write_bytes(b"")
    noise = tmp_path / f"noise.{kind}"
    noise.write_bytes(np.random.default_rng(1).bytes(4000))
    for bad in (empty, tmp_path / f"nowhere.{kind}", tmp_path):
        with pytest.raises(FramefoldError, match=bad.name):
            ctx.load(kind, bad, **options)
    if kind != "raw":
        with pytest.raises(BadFileError, match=f"noise.{kind}"):
            ctx.load(kind, noise)
        with pytest.raises(FramefoldError, match=f"noise.{kind}"):
            ctx.open(noise)


@pytest.mark.parametrize("kind", ["npy", "mib"])
def test_a_renamed_file_is_recognized_by_its_content(ctx, files, tmp_path, kind):
    path, _ = files[kind]
    renamed = tmp_path / "folder" / "data.bin"
    renamed.parent.mkdir()
    shutil.copy(path, renamed)
    dataset = ctx.open(renamed)
    assert dataset.format == kind
    assert dataset.shape.nav.size == 30


@pytest.mark.parametrize("program", ["gzip", "bz2", "lzma"])
def test_files_that_were_compressed_as_a_whole(ctx, files, tmp_path, program):
    module = pytest.importorskip(program, reason="it is part of most builds of Python")
    stored = module.compress(files["npy"][0].read_bytes())
    name = {"bz2": "bzip2", "lzma": "xz"}.get(program, program)
    for path in (tmp_path / f"scan.npy.{name}", tmp_path / "scan.npy"):
        path.write_bytes(stored)
        with pytest.raises(FramefoldError, match=f"compressed as by {name}: decompress it first"):
            ctx.open(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_unreadable_file(ctx, files):
    path, _ = files["npy"]
    path.chmod(0)
    with pytest.raises(OSError, match=r"scan\.npy"):
        ctx.open(path)


@pytest.mark.parametrize("path", [3, None, {"scan.npy"}, "scan.npy\0", "\ud800"], ids=ascii)
def test_what_is_no_path_is_named(ctx, tmp_path, path):
    dataset = ctx.load("memory", data=np.ones((2, 2, 4, 4)))
    results = ctx.run_udf(dataset, ff.SumUDF())
    for call in (
        ctx.open,
        lambda path: ctx.open([tmp_path, path]),
        lambda path: ctx.load("npy", path),
        lambda path: ctx.load("ser", tmp_path / "scan.ser", emipath=path or 3),
        lambda path: ctx.export_dataset(dataset, path),
        lambda path: ctx.convert(dataset, path),
        lambda path: ctx.run_udf(dataset, ff.SumUDF(), out={"intensity": path}),
        results.save,
        results["intensity"].save,
        detect,
        RecordUDF,
    ):
        with pytest.raises(InvalidArgumentError, match=r"(path|out|emipath|filename) is "):
            call(path)


@pytest.mark.skipif(os.name == "nt", reason="links need a permission there")
def test_links_that_lead_back_to_themselves(ctx, tmp_path):
    (tmp_path / "a.npy").symlink_to(tmp_path / "b.npy")
    (tmp_path / "b.npy").symlink_to(tmp_path / "a.npy")
    with pytest.raises(FileAccessError, match="lead back to themselves; name the file itself"):
        ctx.open(tmp_path / "a.npy")


def test_unsupported_npy(ctx, tmp_path):
    path = tmp_path / "objects.npy"
    np.save(path, np.array([[{}]], dtype=object))
    with pytest.raises(FramefoldError, match=r"objects\.npy"):
        ctx.open(path)
    np.save(path, np.zeros((2, 2), dtype=[("a", "i4"), ("b", "f4")]))
    with pytest.raises(FramefoldError, match=r"objects\.npy"):
        ctx.open(path)


@pytest.mark.parametrize("dtype", ["bool", "u1", "<u2", ">i4", ">u8", "<f2", ">f4", "f8", ">c8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_variants(ctx, tmp_path, dtype, order, version):
    rng = np.random.default_rng(7)
    data = np.asarray(rng.integers(0, 2, (3, 4, 5, 6)).astype(dtype), order=order)
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, data, version=version)
    picked = ctx.run_udf(ctx.open(path), ff.PickUDF())["intensity"].data
    assert np.array_equal(picked.reshape(data.shape), data)
    assert picked.dtype == data.dtype.newbyteorder("=")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are UTF-8 there")
def test_names_that_are_not_utf_8(ctx, tmp_path):
    frames = np.random.default_rng(5).integers(0, 500, (3, 4, 6, 8), dtype=np.uint16)
    opened = {}
    for kind, first in [
        ("frms6", "scan_002.frms6"),
        ("mib", "scan1.mib"),
        ("mrc", "scan_00001_movie.mrc"),
        ("patterns", "scan*.mrc"),
        ("seq", "scan.seq"),
        ("ser", "scan_1.ser"),
        ("tvips", "scan_001.tvips"),
    ]:
        (folder := tmp_path / kind).mkdir()
        opened[kind] = folder, first
        if kind == "patterns":
            for i, part in enumerate(frames):
                write_mrc(folder / f"scan{i}.mrc", part)
    write_frms6(tmp_path / "frms6/scan.hdr", frames, frames[0])
    write_mib(tmp_path / "mib/scan", frames, frames_per_file=5)
    write_de_movie(tmp_path / "mrc/scan_00001_movie.mrc", frames)
    write_seq(tmp_path / "seq/scan.seq", frames)
    write_seq_sidecars(tmp_path / "seq/scan.seq", *frames[0, :2].astype("float32"), 2)
    write_ser(tmp_path / "ser/scan_1.ser", frames[0])
    meta = "<ObjectInfo><ExperimentalConditions><MicroscopeConditions><AcceleratingVoltage>200"
    meta += "</AcceleratingVoltage></MicroscopeConditions></ExperimentalConditions></ObjectInfo>"
    (tmp_path / "ser/scan.emi").write_bytes(b"JP\0\0" + meta.encode() + b"\0")
    write_tvips(tmp_path / "tvips", "scan", frames.reshape(12, 6, 8), files=3)
    for folder, first in opened.values():
        wanted = ctx.open(folder / first)
        for path in list(folder.iterdir()):
            # Of another recording, and this one.
            shutil.copy(path, folder / os.fsdecode(b"sc\xe8n" + os.fsencode(path.name[4:])))
            path.rename(folder / os.fsdecode(b"sc\xe9n" + os.fsencode(path.name[4:])))
        if first.startswith("scan*"):
            one = [path.name for path in ctx.open(folder / f"sc\udce9n{first[4:]}").paths]
            assert one == [f"sc\udce9n{i}.mrc" for i in range(3)]
            both = [path.name for path in ctx.open(folder / "sc?n*.mrc").paths]
            assert both == [f"sc{x}n{i}.mrc" for i in range(3) for x in "\udce8\udce9"]
            for path in folder.glob("sc\udce8*"):
                path.unlink()
        dataset = ctx.open(folder / f"sc{'?' if '*' in first else chr(0xDCE9)}n{first[4:]}")
        assert dataset.shape == wanted.shape, folder
        assert dataset.metadata == wanted.metadata, folder
        assert len(dataset.warnings) == len(wanted.warnings), folder
        picked, expected = (
            ctx.run_udf(ds, ff.SumUDF())["intensity"].data for ds in (dataset, wanted)
        )
        assert np.array_equal(picked, expected), folder
    with pytest.raises(BadFileError) as caught:
        ctx.load("mrc", tmp_path / "tvips/sc\udce9n_001.tvips")
    assert caught.value.path == str(tmp_path / "tvips/sc\udce9n_001.tvips")
