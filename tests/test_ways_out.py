"""Data that lead out of their folder, or to something that is no file."""

from __future__ import annotations

import json
import os
import shutil
import threading
from contextlib import suppress

import numpy as np
import pytest
from detector_files import write_seq
from sparse_files import write_raw_csr

import framefold as ff
from framefold.exceptions import FramefoldError
from framefold.io.dataset.raw_csr import RawCSRDataSet
from framefold.io.dataset.zarr import ZarrDataSet

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="links and pipes are POSIX")

FRAMES = np.arange(4 * 6 * 5, dtype="<u2").reshape(4, 6, 5)


@pytest.fixture
def ctx():
    return ff.Context.make_with("inline")


def total(dataset):
    return ff.Context.make_with("inline").run_udf(dataset, ff.SumUDF())["intensity"].data


def write_zarr(folder, separator="."):
    """An array of one chunk per frame, without a library."""
    folder.mkdir(parents=True)
    description = {
        "zarr_format": 2,
        "shape": FRAMES.shape,
        "chunks": (1, *FRAMES.shape[1:]),
        "dtype": "<u2",
        "compressor": None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
        "dimension_separator": separator,
    }
    (folder / ".zarray").write_text(json.dumps(description))
    for number, frame in enumerate(FRAMES):
        chunk = folder / separator.join([str(number), "0", "0"])
        chunk.parent.mkdir(parents=True, exist_ok=True)
        chunk.write_bytes(frame.tobytes())
    return folder


@pytest.mark.parametrize("separator", [".", "/"])
def test_chunks_are_not_read_from_outside_of_the_folder(ctx, tmp_path, separator):
    folder = write_zarr(tmp_path / "a.zarr", separator)
    secret = tmp_path / "secret"
    # A chunk with dots is a file; with slashes, the folder that it lies in is one link more.
    chunk = folder / ("2.0.0" if separator == "." else "2")
    chunk.rename(secret)
    chunk.symlink_to("../secret")
    dataset = ctx.open(folder)
    with pytest.raises(FramefoldError, match=r"outside of the folder.*allow_external_links"):
        total(dataset)
    for trusted in (
        ctx.open(folder, allow_external_links=True),
        ZarrDataSet(folder, allow_external_links=True),
    ):
        assert np.array_equal(total(trusted), FRAMES.sum(axis=0))
    # Links within the folder, and one to the folder itself, lead nowhere else.
    chunk.unlink()
    secret.rename(folder / "kept")
    chunk.symlink_to("kept")
    (tmp_path / "link.zarr").symlink_to("a.zarr")
    for path in (folder, tmp_path / "link.zarr"):
        assert np.array_equal(total(ctx.open(path)), FRAMES.sum(axis=0))


@pytest.mark.parametrize("name", [".zarray", ".zattrs", "inner"])
def test_descriptions_are_not_read_from_outside_of_the_folder(ctx, tmp_path, name):
    folder = write_zarr(tmp_path / "group/inner")
    options = {}
    if name == "inner":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to("../elsewhere")
        folder, options = tmp_path / "group", {"ds_path": "inner"}
    else:
        target = tmp_path / "text"
        if name == ".zarray":
            (folder / name).rename(target)
        else:
            target.write_text('{"a": 1}')
        (folder / name).symlink_to(target)
    with pytest.raises(FramefoldError, match="outside of the folder"):
        ctx.load("zarr", folder, **options)
    trusted = ctx.load("zarr", folder, allow_external_links=True, **options)
    assert np.array_equal(total(trusted), FRAMES.sum(axis=0))


@pytest.mark.parametrize("way", ["../secret", "absolute", "link"])
def test_sparse_files_are_those_beside_the_descriptor(ctx, tmp_path, way):
    folder = tmp_path / "sparse"
    folder.mkdir()
    descriptor = write_raw_csr(folder, FRAMES, (4,))
    values = next(path for path in folder.iterdir() if "data" in path.name)
    text = descriptor.read_text()
    assert f'"{values.name}"' in text
    values.rename(tmp_path / "secret")
    if way == "link":
        values.symlink_to("../secret")
    else:
        leading = way if way == "../secret" else str(tmp_path / "secret")
        descriptor.write_text(text.replace(f'"{values.name}"', f'"{leading}"'))
    with pytest.raises(FramefoldError, match=r"outside of the folder.*allow_external"):
        ctx.open(descriptor)
    for trusted in (
        ctx.open(descriptor, allow_external_links=True),
        RawCSRDataSet(descriptor, allow_external_links=True),
    ):
        assert np.array_equal(total(trusted), FRAMES.sum(axis=0))
    # Folders below that of the descriptor are its own, and absolute paths into it as well.
    (folder / "arrays").mkdir()
    values.unlink(missing_ok=True)
    (tmp_path / "secret").rename(folder / "arrays" / "values")
    for leading in ("arrays/values", str(folder / "arrays" / "values")):
        descriptor.write_text(text.replace(f'"{values.name}"', f'"{leading}"'))
        assert np.array_equal(total(ctx.open(descriptor)), FRAMES.sum(axis=0))


def all_files(tmp_path):
    """One data set each, and the files of it."""
    yield "zarr", write_zarr(tmp_path / "a.zarr"), [".zarray", ".zattrs", "1.0.0"]
    (tmp_path / "sparse").mkdir()
    descriptor = write_raw_csr(tmp_path / "sparse", FRAMES, (4,))
    yield "raw_csr", descriptor, [path.name for path in (tmp_path / "sparse").iterdir()]
    (tmp_path / "seq").mkdir()
    write_seq(tmp_path / "seq" / "a.seq", FRAMES)
    beside = ["a.seq", "a.seq.dark.mrc", "a.seq.gain.mrc", "a.seq.Config.Metadata.xml"]
    yield "seq", tmp_path / "seq" / "a.seq", beside


def write_for_readers(pipe, waited, over):
    """What has waited for a writer of a pipe gets one, and reads nothing."""
    while not over.wait(3):
        with suppress(OSError):  # nothing waits, however long it takes
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            waited.append(pipe)


def test_named_pipes_are_refused_and_not_waited_for(ctx, tmp_path):
    for filetype, path, names in all_files(tmp_path):
        for name in names:
            place = (path if path.is_dir() else path.parent) / name
            kept = place.with_name(f"{place.name}.kept")
            if place.exists():
                shutil.move(place, kept)
            os.mkfifo(place)
            waited, over = [], threading.Event()
            rescue = threading.Thread(target=write_for_readers, args=(place, waited, over))
            rescue.start()
            try:
                for by in ({}, {"filetype": filetype}):
                    with pytest.raises(FramefoldError, match=r"regular file|no 'zarr\.json'"):
                        total(ctx.load(by.get("filetype", "auto"), path))
            finally:
                over.set()
                rescue.join()
            assert not waited, f"{filetype}: {name} was waited for"
            place.unlink()
            if kept.exists():
                shutil.move(kept, place)
        assert np.array_equal(total(ctx.load(filetype, path)), FRAMES.sum(axis=0))
