"""Panta Rhei's archives and WinView's files: real ones, and what is made here."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from itertools import product

import numpy as np
import pytest
from detector_files import SPE_TYPES, write_spe
from known_oddities import FRAMES_LEFT_OVER, POSITIONS_WITHOUT_DATA, odd
from long_runs import share
from real_files import manifest, real_data, real_file

import framefold as ff
from framefold.exceptions import BadFileError, FramefoldError, UnsupportedError

BACKENDS = ["mmap", "buffered"]


def random(shape, dtype="uint16", seed=1):
    return np.random.default_rng(seed).integers(0, 200, shape).astype(dtype)


def frames_of(ctx, dataset, roi=None):
    return ctx.run_udf(dataset, ff.PickUDF(), roi=roi)["intensity"].raw_data


def problem(call):
    """The error of a call, in words; nothing, if it works."""
    try:
        call()
    except FramefoldError as error:
        return str(error)
    return ""


REAL = [
    pytest.param(entry, id=entry["file"].split("/")[-1])
    for kind in ("PRZ", "SPE")
    for entry in manifest(kind)
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("entry", REAL)
def test_real_files(ctx, entry, backend):
    dataset = ctx.open(real_data() / entry["file"], io_backend=backend)
    reading = entry["readings"][0]
    frames = np.ascontiguousarray(frames_of(ctx, dataset))
    assert dataset.format == ("npy" if entry["file"].endswith("npy") else entry["format"].lower())
    assert frames.dtype == reading["dtype"]
    assert (frames.min(), frames.max()) == (reading["min"], reading["max"])
    assert frames.sum(dtype="float64") == reading["sum_f64"]
    assert frames[0].sum(dtype="float64") == reading["sum_first_frame"]
    digest = hashlib.sha256(frames.astype(frames.dtype.newbyteorder("<")).tobytes()).hexdigest()
    assert digest == reading["sha256_c_order_le"]
    for index, value in reading["probes"]:
        assert frames.reshape(reading["shape"])[tuple(index)] == value


def test_metadata_of_a_real_file(ctx):
    path = real_file("PRZ/rosettasciio/panta_rhei_sample.prz")
    metadata = ctx.open(path).metadata
    assert metadata["acceleration_voltage"] == 200
    assert metadata["camera_length"] == 20
    assert metadata["image_step_x"] == pytest.approx(7.795828292907633)
    assert metadata["detector"] == "pnADF"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@POSITIONS_WITHOUT_DATA
def test_archives_as_numpy_writes_them(ctx, tmp_path, save, backend):
    data = random((3, 4, 6, 7), "int32")
    with (tmp_path / "a.prz").open("wb") as file:
        save(file, data=data, other=np.arange(3))
    dataset = ctx.open(tmp_path / "a.prz", io_backend=backend)
    assert tuple(dataset.shape) == data.shape
    assert np.array_equal(frames_of(ctx, dataset).reshape(data.shape), data)
    roi = np.random.default_rng(2).random((3, 4)) < 0.5
    assert np.array_equal(frames_of(ctx, dataset, roi=roi), data[roi])
    dataset = ctx.load("prz", tmp_path / "a.prz", nav_shape=(12,), sync_offset=3)
    assert dataset.valid_mask.sum() == 9


def test_metadata_in_json(ctx, tmp_path):
    text = json.dumps([{"electron_gun.voltage": 80000, "comment": "µ", "type": "4D"}])
    with (tmp_path / "a.prz").open("wb") as file:
        np.savez(file, data=random((2, 3, 4)), meta_data_json=np.array(text))
    metadata = ctx.open(tmp_path / "a.prz").metadata
    assert metadata == {"acceleration_voltage": pytest.approx(80), "note": "µ"}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_archives(ctx, tmp_path, save):
    data = random((3, 4, 6))
    buffer = io.BytesIO()
    save(buffer, data=data)
    whole = buffer.getvalue()
    path = tmp_path / "a.prz"
    for length in [*range(120), *range(120, len(whole), 37)]:
        path.write_bytes(whole[:length])
        with pytest.raises(FramefoldError):
            ctx.open(path)
    for at, value in share(product(range(len(whole)), (0, 0x7F, 0xFF))):
        damaged = bytearray(whole)
        damaged[at] = value
        path.write_bytes(damaged)
        error = problem(lambda: frames_of(ctx, ctx.open(path)))
        assert "bug in framefold" not in error


def test_bombs_are_refused(ctx, tmp_path):
    path = tmp_path / "a.prz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", bytes(100))
    whole = bytearray(path.read_bytes())
    entry = whole.index(b"PK\x01\x02")
    for size in (2**31, 10**6):
        whole[entry + 24 : entry + 28] = size.to_bytes(4, "little")
        path.write_bytes(whole)
        with pytest.raises(BadFileError, match="which they cannot"):
            ctx.open(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("other.npy", bytes(100))
    with pytest.raises(BadFileError, match=r"no 'data\.npy'; it has other\.npy"):
        ctx.open(path)


@pytest.mark.parametrize("dtype", SPE_TYPES)
@pytest.mark.parametrize("version", [2.5, 3.0])
def test_spe_files(ctx, tmp_path, dtype, version):
    data = random((6, 5, 7), dtype)
    path = tmp_path / "a.spe"
    write_spe(path, data, version=version, gap=16 if version >= 3 else 0)
    for backend in BACKENDS:
        dataset = ctx.open(path, io_backend=backend)
        assert (dataset.format, tuple(dataset.shape), dataset.dtype) == ("spe", data.shape, dtype)
        assert dataset.warnings == []
        assert np.array_equal(frames_of(ctx, dataset), data)
    assert dataset.metadata["exposure_time"] == 0.25
    assert dataset.metadata["recorded_at"] == "22Jul2015 094018"
    roi = np.array([True, False, True, True, False, False])
    assert np.array_equal(frames_of(ctx, dataset, roi=roi), data[roi])


@POSITIONS_WITHOUT_DATA
@FRAMES_LEFT_OVER
@odd("the header promises")
def test_spe_files_that_are_cut_or_lie(ctx, tmp_path):
    data = random((6, 5, 7))
    path = tmp_path / "a.spe"
    write_spe(path, data)
    whole = path.read_bytes()
    for length in [*range(0, 4100, 7), *range(4100, len(whole), 37)]:
        path.write_bytes(whole[:length])
        if length < 4100 + 70:
            assert problem(lambda: ctx.open(path))
            continue
        dataset = ctx.open(path)
        n = (length - 4100) // 70
        assert dataset.valid_mask.sum() == n
        assert "promises 6 frames" in dataset.warnings[0]
        assert np.array_equal(frames_of(ctx, dataset, roi=dataset.valid_mask), data[:n])
    for at in [*range(10, 14), 42, 43, 108, 109, 656, 657, *range(678, 686), *range(1446, 1450)]:
        for value in (0, 0x7F, 0xFF):
            damaged = bytearray(whole)
            damaged[at] = value
            path.write_bytes(damaged)
            error = problem(lambda: frames_of(ctx, ctx.open(path, nav_shape=(2,))))
            assert "bug in framefold" not in error
    write_spe(path, data, version=3.0, gap=6)
    whole = path.read_bytes()
    for length in range(4100 + 76, len(whole), 37):
        # Only the end knows that frames are 76 bytes apart, not 70.
        path.write_bytes(whole[:length])
        with pytest.raises(BadFileError):
            ctx.open(path)
    write_spe(path, data, version=3.0)
    content, region = path.read_bytes(), b'<DataBlock type="Region" count="1"'
    assert region in content
    for several in (b'<DataBlock type="Region"/>' + region, region.replace(b"1", b"2")):
        path.write_bytes(content.replace(region, several))
        with pytest.raises(UnsupportedError, match="several regions"):
            ctx.open(path)
