"""Formats of microscopes' programs: all options through Python and the command line."""

from __future__ import annotations

import hashlib
import json
import pickle
import struct

import numpy as np
import pytest
from known_oddities import FRAMES_LEFT_OVER, POSITIONS_WITHOUT_DATA, odd
from real_files import manifest, real_data, real_file
from vendor_files import (
    DM_TYPES,
    SER_TYPES,
    write_dm,
    write_k2is,
    write_ser,
    write_tvips,
)

import framefold as ff
from framefold.exceptions import (
    BadFileError,
    FramefoldError,
    InvalidArgumentError,
    UnsupportedError,
)

BACKENDS = ["mmap", "buffered"]


def random(shape, dtype, seed=1):
    values = np.random.default_rng(seed).integers(0, 100, shape)
    return values.astype(dtype)


def frames_of(ctx, dataset, roi=None):
    """The frames of all positions that have data."""
    picked = ctx.run_udf(dataset, ff.PickUDF(), roi=roi)["intensity"].raw_data
    valid = dataset.valid_mask if roi is None else dataset.valid_mask[roi]
    return np.asarray(picked)[valid.reshape(-1)]


def matches(frames, reading):
    """Whether these are the numbers that an independent reader got."""
    in_order = np.ascontiguousarray(frames, dtype=frames.dtype.newbyteorder("<"))
    digest = hashlib.sha256(in_order.tobytes()).hexdigest()
    return frames.dtype == reading["dtype"] and digest == reading["sha256_c_order_le"]


def is_numeric(reading):
    return "sum_f64" in reading and not reading["dtype"].startswith("[")


REAL = [
    pytest.param(entry, id=f"{kind}-{entry['file'].split('/')[-1]}")
    for kind in ("DM", "SER", "TVIPS")
    for entry in manifest(kind)
    if not entry["file"].endswith(".emi") and is_numeric(entry["readings"][0])
]


@pytest.mark.parametrize("entry", REAL)
@pytest.mark.parametrize("backend", BACKENDS)
@odd("dataset_index chooses another one", "elements that were planned")
@POSITIONS_WITHOUT_DATA
def test_real_files(ctx, entry, backend):
    path = real_data() / entry["file"]
    # Other readers give arrays as they lie in the file.
    options = {"force_c_order": True} if entry["format"] == "DM" else {}
    dataset = ctx.open(path, io_backend=backend, **options)
    frames = frames_of(ctx, dataset)
    reading = entry["readings"][0]
    assert dataset.format == entry["format"].lower()
    assert frames.size == np.prod(reading["shape"])
    assert matches(frames, reading)
    assert frames.min() == reading["min"]
    assert frames.max() == reading["max"]
    np.testing.assert_allclose(frames.sum(dtype="float64"), reading["sum_f64"], rtol=1e-12)
    shaped = frames.reshape(reading["shape"])
    for index, value in reading["probes"]:
        assert shaped[tuple(index)] == pytest.approx(value, rel=1e-12), index


@pytest.mark.parametrize("entry", REAL)
def test_real_files_on_the_command_line(entry, tmp_path, command):
    path = real_data() / entry["file"]
    options = ["--force-c-order"] if entry["format"] == "DM" else []
    info = json.loads(command("info", "--json", path, *options))
    assert info["format"] == entry["format"].lower()
    command("run", "pick", path, "-o", tmp_path / "frames.npy", *options)
    # Positions of elements that were not recorded come last, and are NaN.
    frames = np.load(tmp_path / "frames.npy")[: info["n_frames"]]
    if info["n_positions_without_data"]:
        frames = frames.astype(info["dtype"])
    assert matches(frames, entry["readings"][0])


@pytest.mark.parametrize("dtype", DM_TYPES)
@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("swapped", [True, False, None])
@odd("the file does not say in which order its axes")
def test_dm_in_either_order(ctx, tmp_path, dtype, version, swapped):
    scan = random((3, 4, 5, 6), dtype)
    stored = scan if swapped else scan.transpose(2, 3, 0, 1)
    write_dm(tmp_path / "a.dm4", stored, version=version, swapped=swapped)
    for backend in BACKENDS:
        dataset = ctx.open(tmp_path / "a.dm4", io_backend=backend)
        assert dataset.format == "dm"
        assert tuple(dataset.shape) == scan.shape
        assert bool(dataset.warnings) == (swapped is None)
        assert np.array_equal(frames_of(ctx, dataset).reshape(scan.shape), scan)
        roi = np.zeros((3, 4), dtype=bool)
        roi[1, 1:3] = roi[2, 0] = True
        assert np.array_equal(frames_of(ctx, dataset, roi=roi), scan[roi])
    total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
    np.testing.assert_allclose(total, scan.sum(axis=(0, 1)), rtol=1e-6)


@POSITIONS_WITHOUT_DATA
@odd("the file does not say in which order its axes")
def test_dm_options(ctx, tmp_path):
    data = random((6, 4, 5), "uint16")
    path = tmp_path / "a.dm3"
    write_dm(path, data, version=3)
    dataset = ctx.load("dm", path=path, nav_shape=(2, 3), num_partitions=3)
    assert tuple(dataset.shape) == (2, 3, 4, 5)
    dataset = ctx.load("dm", path, sig_shape=(20,), sync_offset=2)
    assert tuple(dataset.shape) == (6, 20)
    assert np.array_equal(dataset.valid_mask, [1, 1, 1, 1, 0, 0])
    write_dm(path, data, version=3, spectra=True)
    assert tuple(ctx.open(path).shape) == (4, 5, 6)
    assert np.array_equal(frames_of(ctx, ctx.open(path)), data.reshape(6, 20).T)
    assert tuple(ctx.open(path, force_c_order=True).shape) == (6, 4, 5)
    with pytest.raises(InvalidArgumentError, match="no image 3"):
        ctx.load("dm", path, dataset_index=3)
    with pytest.raises(InvalidArgumentError, match="emipath"):
        ctx.load("dm", path, emipath="x")


@odd("the numbers in the names of the files leave")
def test_dm_stacks(ctx, tmp_path, command):
    data = random((5, 4, 6), "int32")
    files = [tmp_path / f"{i}.dm4" for i in range(4)]
    for path, frames in zip(files, [data[0], data[1:3], data[3], data[4]], strict=True):
        write_dm(path, frames)
    for load in (
        lambda **options: ctx.load("dm", files=files, **options),
        lambda **options: ctx.load("dm", [str(path) for path in files], **options),
        lambda **options: ctx.open(files, **options),
    ):
        for backend in BACKENDS:
            dataset = load(io_backend=backend)
            assert tuple(dataset.shape) == data.shape
            assert np.array_equal(frames_of(ctx, dataset), data)
            assert [path.name for path in dataset.paths] == [path.name for path in files]
    single = ctx.load("dm", files=[files[0], files[2], files[3]], same_offset=True)
    assert np.array_equal(frames_of(ctx, single), data[[0, 3, 4]])
    again = pickle.loads(pickle.dumps(single))
    assert np.array_equal(frames_of(ctx, again), data[[0, 3, 4]])
    command("run", "pick", "--stack", *files, "-o", tmp_path / "all.npy")
    assert np.array_equal(np.load(tmp_path / "all.npy"), data)
    info = json.loads(command("info", "--json", "--stack", *files))
    assert info["n_frames"] == 5
    for bad in ([], [files[0], tmp_path / "none.dm4"]):
        with pytest.raises((FramefoldError, OSError)):
            ctx.load("dm", files=bad)
    write_dm(files[1], data[0].astype("int16"))
    with pytest.raises(FramefoldError, match=r"1\.dm4.*int16"):
        ctx.load("dm", files=files)
    with pytest.raises(InvalidArgumentError, match="both a path and files"):
        ctx.load("dm", path=files[0], files=files)
    with pytest.raises(UnsupportedError, match="make no stack"):
        ctx.load("tvips", files=files)


@pytest.mark.parametrize("dtype", SER_TYPES)
@odd("elements that were planned")
@POSITIONS_WITHOUT_DATA
def test_ser(ctx, tmp_path, dtype):
    data = random((6, 4, 5), dtype)
    path = tmp_path / "scan_1.ser"
    write_ser(path, data, planned=8)
    for backend in BACKENDS:
        dataset = ctx.open(path, io_backend=backend, nav_shape=(2, 4))
        assert dataset.format == "ser"
        assert tuple(dataset.shape) == (2, 4, 4, 5)
        assert dataset.valid_mask.sum() == 6
        picked = ctx.run_udf(dataset, ff.PickUDF())["intensity"].data
        assert np.array_equal(picked.reshape(8, 4, 5)[:6], data)
    assert any("stopped" in warning for warning in dataset.warnings)
    write_ser(path, data.reshape(6, 20))
    assert np.array_equal(frames_of(ctx, ctx.open(path)), data.reshape(6, 20))


def test_ser_offsets_are_those_of_the_position_that_the_file_names(ctx, tmp_path):
    image, spectrum = tmp_path / "a_1.ser", tmp_path / "b_1.ser"
    steps = ((3e-9, -2e-9), (1e-9, 4e-9))
    write_ser(image, random((2, 3, 4), "uint16"), steps=steps, known=2)
    metadata = ctx.open(image).metadata
    offsets = {"image_offset_x": pytest.approx(7), "image_offset_y": pytest.approx(-7)}
    assert {name: metadata[name] for name in offsets} == offsets
    rosettasciio = pytest.importorskip("rsciio.tia")
    axes = {axis["name"]: axis for axis in rosettasciio.file_reader(image)[0]["axes"]}
    for name in "xy":
        assert metadata[f"image_offset_{name}"] == pytest.approx(axes[name]["offset"] * 1e9)
    write_ser(spectrum, random((2, 9), "uint16"), steps=((100, 0.5),), known=4)
    assert ctx.open(spectrum).metadata["energy_offset"] == pytest.approx(98)


def test_ser_axes_that_count_down(ctx, tmp_path):
    write_ser(
        tmp_path / "a_1.ser", random((2, 3, 4), "uint16"), steps=((3e-9, -2e-9), (1e-9, 4e-9))
    )
    metadata = ctx.open(tmp_path / "a_1.ser").metadata
    assert metadata == {
        "image_step_x": pytest.approx(-2),
        "image_step_y": pytest.approx(4),
        "image_offset_x": pytest.approx(3),
        "image_offset_y": pytest.approx(1),
    }


def test_ser_meta_data(ctx, tmp_path):
    write_ser(tmp_path / "scan_1.ser", random((2, 3, 3), "uint16"))
    entry = "<Data><Label>High tension</Label><Value>300</Value><Unit>kV</Unit></Data>"
    content = b"JK\0\2..." + f"<ObjectInfo>{entry}</ObjectInfo>".encode()
    (tmp_path / "other.emi").write_bytes(content)
    assert "acceleration_voltage" not in ctx.open(tmp_path / "scan_1.ser").metadata
    named = ctx.load("ser", tmp_path / "scan_1.ser", emipath=tmp_path / "other.emi")
    assert named.metadata["acceleration_voltage"] == 300
    (tmp_path / "other.emi").rename(tmp_path / "scan.emi")
    for name in ("scan_1.ser", "scan.emi"):
        assert ctx.open(tmp_path / name).metadata["acceleration_voltage"] == 300


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("files", [1, 3])
@POSITIONS_WITHOUT_DATA
@FRAMES_LEFT_OVER
def test_tvips(ctx, tmp_path, dtype, files, command):
    data = random((13, 4, 5), dtype)
    positions = [(0, 0)] * 3 + [(y, x) for y in range(2) for x in range(5)]
    paths = write_tvips(tmp_path, "scan", data, positions=positions, files=files)
    for backend in BACKENDS:
        dataset = ctx.open(paths[-1], io_backend=backend)
        assert dataset.format == "tvips"
        assert tuple(dataset.shape) == (2, 5, 4, 5)
        assert np.array_equal(frames_of(ctx, dataset), data[3:])
    assert np.array_equal(
        frames_of(ctx, ctx.load("tvips", paths[0], sync_offset=None, nav_shape=(10,))), data[3:]
    )
    assert np.array_equal(frames_of(ctx, ctx.load("tvips", paths[0], sync_offset=0)), data[:10])
    info = json.loads(command("info", "--json", paths[0], "--sync-offset", "0"))
    assert info["sync_offset"] == 0
    assert json.loads(command("info", "--json", paths[0]))["sync_offset"] == 3
    alone = ctx.load("tvips", paths[0], disable_glob=True, sync_offset=0, nav_shape=(2,))
    assert np.array_equal(frames_of(ctx, alone), data[:2])


@POSITIONS_WITHOUT_DATA
@odd("these frames are missing")
@odd("the picture is sheared")
def test_k2is(ctx, tmp_path):
    data = np.random.default_rng(3).integers(0, 4096, (4, 1860, 2048), dtype="uint16")
    gtg = write_k2is(tmp_path, "Capture_", data, idle=2, scan=(1, 2))
    for path in (gtg, tmp_path / "Capture_5.bin"):
        for backend in BACKENDS:
            dataset = ctx.open(path, io_backend=backend)
            assert dataset.format == "k2is"
            assert tuple(dataset.shape) == (1, 2, 1860, 2048)
            # The shutter's flag comes one frame late.
            assert np.array_equal(frames_of(ctx, dataset), data[1:3])
    total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
    assert np.array_equal(total, data[1:3].sum(axis=0))
    for offset, frames in ((3, data[2:4]), (1, data[:2]), (0, data[:2])):
        dataset = ctx.load("k2is", gtg, sync_offset=offset)
        assert np.array_equal(frames_of(ctx, dataset), frames)
    dataset = ctx.load("k2is", gtg, sync_offset=-1)
    assert np.array_equal(dataset.valid_mask, [[False, True]])
    series = write_k2is(tmp_path, "Series_", data[:2], idle=1)
    assert np.array_equal(frames_of(ctx, ctx.open(series)), data[1:2])
    # A block of frame 2 was lost: others stay where they are.
    sector = tmp_path / "Capture_5.bin"
    blocks = np.fromfile(sector, np.uint8).reshape(-1, 22360)
    np.delete(blocks, 70, axis=0).tofile(sector)
    dataset = ctx.load("k2is", gtg, nav_shape=(1, 3))
    assert np.array_equal(dataset.valid_mask, [[True, False, True]])
    total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
    assert np.array_equal(total, data[1] + data[3])
    assert any("1 of 4 frames were lost (2)" in warning for warning in dataset.warnings)
    (tmp_path / "Capture_3.bin").unlink()
    with pytest.raises(FramefoldError, match=r"7 \.bin files"):
        ctx.load("k2is", gtg)


def test_dm_round_trip_with_another_reader(ctx, tmp_path):
    dm = pytest.importorskip("rsciio.digitalmicrograph", reason="rosettasciio is not installed")
    data = random((3, 4, 5), "float32")
    write_dm(tmp_path / "a.dm4", data)
    (signal,) = dm.file_reader(str(tmp_path / "a.dm4"))
    assert np.array_equal(signal["data"], data)
    assert np.array_equal(frames_of(ctx, ctx.open(tmp_path / "a.dm4")), signal["data"])


def test_ser_round_trip_with_another_reader(ctx, tmp_path):
    tia = pytest.importorskip("rsciio.tia", reason="rosettasciio is not installed")
    data = random((3, 4, 5), "int32")
    write_ser(tmp_path / "a_1.ser", data)
    (signal,) = tia.file_reader(str(tmp_path / "a_1.ser"))
    assert np.array_equal(signal["data"], data)


def test_tvips_written_by_another_writer(ctx, tmp_path):
    tvips = pytest.importorskip("rsciio.tvips", reason="rosettasciio is not installed")
    data = random((3, 4, 5), "uint16")
    (path,) = write_tvips(tmp_path, "scan", data)
    (signal,) = tvips.file_reader(str(path))
    assert np.array_equal(np.asarray(signal["data"]), data)
    assert np.array_equal(frames_of(ctx, ctx.open(path)), data)


@odd("this is a picture in colours")
def test_pictures_and_packed_transforms():
    folder = real_file("DM/rosettasciio/2D")
    ctx = ff.Context.make_with("inline")
    assert any("colours" in w for w in ctx.open(folder / "test-8.dm4").warnings)
    with pytest.raises(UnsupportedError, match="Fourier"):
        ctx.open(folder / "test_fft_packed_complex8.dm4")


@odd("ends in the middle of a frame", "is cut short")
@POSITIONS_WITHOUT_DATA
def test_the_file_of_a_series_that_is_cut_is_named(ctx, tmp_path):
    data = random((9, 4, 5), "uint16")
    paths = write_tvips(tmp_path, "scan", data, files=3)
    record = 80 + 4 * 5 * 2
    content = paths[1].read_bytes()
    paths[1].write_bytes(content[: -record - 1])
    dataset = ctx.load("tvips", paths[0], sync_offset=0)
    assert f"'{paths[1]}' is cut short: frames 4 to 5 are missing" in " ".join(dataset.warnings)
    # Without numbers of frames, nothing tells where the next file goes on.
    for path in paths:
        start = 256 if path == paths[0] else 0
        records = bytearray(path.read_bytes())
        for at in range(start, len(records), record):
            records[at : at + 4] = bytes(4)
        path.write_bytes(records)
    with pytest.raises(BadFileError, match=r"scan_001\.tvips' .*: the file is cut short") as caught:
        ctx.load("tvips", paths[0], sync_offset=0)
    assert "scan_002" not in str(caught.value)


@odd("frames were lost or repeated", "positions? (have|has) no data", "is cut short")
def test_frames_of_tvips_that_are_lost_or_there_twice(ctx, tmp_path):
    paths = write_tvips(tmp_path, "scan", random((12, 4, 5), "uint16"), files=3)
    first, second, third = (path.read_bytes() for path in paths)
    paths[2].write_bytes(third[:120] + third[240:])
    dataset = ctx.load("tvips", paths[0], sync_offset=0)
    (warning,) = dataset.warnings
    assert "the last of the 3 frames of" in warning
    assert "scan_002.tvips' has the number 11, expected 10" in warning
    # A copy in the place of the third file, and the second and the third one in each other's place.
    for contents in ((second, second), (third, second)):
        for path, content in zip(paths[1:], contents, strict=True):
            path.write_bytes(content)
        with pytest.raises(BadFileError, match=r"scan_001\.tvips.* frame 4, as it is numbered"):
            ctx.load("tvips", paths[0], sync_offset=0)
    # Also where frames were lost before, within the second file.
    paths[1].write_bytes(second[:120] + second[240:])
    for again in (second[360:] + third, paths[1].read_bytes()):
        paths[2].write_bytes(again)
        with pytest.raises(BadFileError, match=r"scan_001\.tvips.* frame [74], as it is numbered"):
            ctx.load("tvips", paths[0], sync_offset=0)
    paths[2].write_bytes(first)
    with pytest.raises(BadFileError, match=r"scan_002\.tvips.* first file of another series"):
        ctx.load("tvips", paths[0], sync_offset=0)
    # Every second frame: a warning, not one for each file.
    for path, content in zip(paths, (first, second, third), strict=True):
        numbered = bytearray(content)
        for at in range(len(content) % 120 and 256, len(content), 120):
            (number,) = struct.unpack_from("<I", content, at)
            struct.pack_into("<I", numbered, at, 2 * number)
        path.write_bytes(numbered)
    (warning,) = ctx.load("tvips", paths[0], sync_offset=0).warnings
    assert "scan_000.tvips' has the number 6, expected 3, and so on in 2 more" in warning
    paths[0].write_bytes(first)
    # Numbers that begin anew say nothing.
    for path in paths[1:]:
        path.write_bytes(first[256:])
    assert ctx.load("tvips", paths[0], sync_offset=0).warnings == []


@pytest.mark.parametrize(
    ("at", "damaged"),
    [
        (273_029, 255),  # in the type of a number
        (273_033, 1),  # the number of another image
        (272_950, 0),  # in the name of the list
    ],
)
@odd("the list of thumbnails of the file is damaged", "in which order its axes")
def test_thumbnails_are_no_data_where_their_list_is_lost(ctx, tmp_path, at, damaged):
    whole = real_file("DM/rosettasciio/2D/test-MonarcCL_spectrum-SI.dm4")
    content = bytearray(whole.read_bytes())
    content[at] = damaged
    path = tmp_path / "a.dm4"
    path.write_bytes(content)
    if damaged == 1:
        with pytest.raises(BadFileError, match=r"no image but thumbnails.*dataset_index"):
            ctx.open(path)
        dataset = ctx.open(path, dataset_index=1)
    else:
        dataset = ctx.open(path)
        assert "pictures in colours (0) are taken for thumbnails" in dataset.warnings[0]
    assert np.array_equal(frames_of(ctx, dataset), frames_of(ctx, ctx.open(whole)))
    # A tail of zeros is no end of a list.
    content[269_772:] = bytes(len(content) - 269_772)
    (tmp_path / "b.dm4").write_bytes(content)
    with pytest.raises(BadFileError, match=r"a group of tags ends after \d+ entries, expected"):
        ctx.open(tmp_path / "b.dm4")
