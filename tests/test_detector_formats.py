"""Detector formats through the Python interface: written here, and real ones."""

from __future__ import annotations

import json
import pickle
import struct

import numpy as np
import pytest
from detector_files import (
    write_blo,
    write_de_movie,
    write_empad,
    write_frms6,
    write_mrc,
    write_seq,
    write_seq_sidecars,
)
from known_oddities import POSITIONS_WITHOUT_DATA, odd
from real_files import manifest, real_data
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import BadFileError, InvalidArgumentError
from framefold.io.corrections import CorrectionSet
from framefold.io.corrections.detector import correct

#: Format, file name, writer, dtype of the pixels, and the shape of a frame.
FORMATS = [
    ("blo", "scan.blo", write_blo, "uint8", (20, 20)),
    ("blo", "scan.blo", write_blo, "uint16", (20, 20)),
    ("empad", "scan.xml", write_empad, "float32", (128, 128)),
    ("mrc", "20250101_00001_movie.mrc", write_de_movie, "uint16", (12, 20)),
    ("mrc", "20250101_00001_movie.mrc", write_de_movie, "float32", (12, 20)),
    ("seq", "scan.seq", write_seq, "uint16", (12, 20)),
    ("frms6", "scan.hdr", write_frms6, "uint16", (12, 20)),
]
IDS = [f"{kind}-{dtype}" for kind, _, _, dtype, _ in FORMATS]
NAV = (4, 5)


def pixels(dtype, sig):
    rng = np.random.default_rng(11)
    return rng.integers(0, 200, (*NAV, *sig)).astype(dtype)


@pytest.fixture(params=FORMATS, ids=IDS)
def written(request, tmp_path):
    """A format, the path of a file and what is in it."""
    kind, name, write, dtype, sig = request.param
    data = pixels(dtype, sig)
    write(tmp_path / name, data)
    return kind, tmp_path / name, data


def picked(ctx, dataset, **options):
    return ctx.run_udf(dataset, ff.PickUDF(), **options)["intensity"].raw_data


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
@odd("there is no file .* with dark frames")
def test_frames_are_what_was_written(ctx, written, backend):
    kind, path, data = written
    nav = {"nav_shape": NAV} if kind == "seq" else {}
    for load in (ctx.load(kind, path, io_backend=backend, **nav), ctx.open(path, **nav)):
        assert load.format == kind
        assert tuple(load.shape) == data.shape
        assert load.dtype == data.dtype
        assert load.warnings == [] or (kind == "frms6" and "dark frames" in load.warnings[-1])
        assert np.array_equal(picked(ctx, load).reshape(data.shape), data)


@POSITIONS_WITHOUT_DATA
@odd("there is no file .* with dark frames")
def test_roi_offset_and_partitions(ctx, written):
    kind, path, data = written
    flat = data.reshape(-1, *data.shape[2:])
    roi = np.random.default_rng(3).random(NAV) < 0.4
    for n in (1, 3, 20):
        dataset = ctx.load(kind, path, nav_shape=NAV, num_partitions=n)
        assert np.array_equal(picked(ctx, dataset, roi=roi), data[roi])
    dataset = ctx.load(kind, path, nav_shape=NAV, sync_offset=3)
    sums = ctx.run_udf(dataset, ff.SumSigUDF())["intensity"]
    assert np.array_equal(sums.raw_data[:17], flat[3:].sum(axis=(1, 2), dtype=np.float32))
    assert np.isnan(sums.raw_data[17:]).all()
    dataset = ctx.load(kind, path, nav_shape=(20,), sig_shape=(flat[0].size,))
    assert np.array_equal(picked(ctx, dataset), flat.reshape(20, -1))


@POSITIONS_WITHOUT_DATA
@odd(
    "there is no file .* with dark frames",
    "whole frames were left out",
    "frames, but only 19 are there",
    "frames, but the files hold 19",
    "bytes after the",
    "whole frames were left out",
)
@odd(
    "/test_a_file_cut_in_its_last_fr",
    "the header counts",
    "the header promises",
    "whole frames were left out",
)
def test_a_file_cut_in_its_last_frame_is_shorter(ctx, written):
    kind, path, data = written
    if kind == "empad":
        path = next(path.parent.glob("*.raw"))
    if kind == "frms6":
        path = max(path.parent.glob("*.frms6"))
    with path.open("r+b") as file:
        # More than what follows the pixels of a frame.
        file.truncate(path.stat().st_size - 1040 if kind == "empad" else path.stat().st_size - 40)
    dataset = ctx.load(kind, path, nav_shape=NAV)
    assert dataset.valid_mask.reshape(-1).tolist() == [True] * 19 + [False]
    assert dataset.warnings
    frames = picked(ctx, dataset, roi=dataset.valid_mask)
    assert np.array_equal(frames, data.reshape(-1, *data.shape[2:])[:19])


@POSITIONS_WITHOUT_DATA
@odd("there is no file .* with dark frames", "promises 7 frames, but only 6")
def test_files_of_frms6_that_are_cut_before_others(tmp_path):
    """Files of older cameras do not say how many frames they hold: later ones would move up."""
    write_frms6(tmp_path / "a.hdr", pixels("uint16", (12, 20)))
    path = tmp_path / "a_001.frms6"
    content = bytearray(path.read_bytes()[:-40])
    path.write_bytes(content)
    dataset = ff.Context().load("frms6", tmp_path / "a.hdr")
    assert dataset.valid_mask.reshape(-1).tolist() == [True] * 6 + [False] + [True] * 13
    struct.pack_into("<I", content, 1020, 0)
    path.write_bytes(content)
    with pytest.raises(BadFileError, match=r"a_001.* ends in the middle of a frame, and nothing"):
        ff.Context().load("frms6", tmp_path / "a.hdr")


@pytest.fixture
def info(command):
    """What the command says of a file."""
    return lambda path, *options: json.loads(command("info", "--json", *options, path))


def test_the_command_says_what_files_are(info, tmp_path):
    data = pixels("uint16", (20, 20))
    write_blo(tmp_path / "scan.blo", data)
    facts = info(tmp_path / "scan.blo")
    assert (facts["format"], facts["nav_shape"], facts["dtype"]) == ("blo", [4, 5], "uint16")
    assert facts["metadata"]["acceleration_voltage"] == {"value": 300.0, "unit": "kV"}
    assert facts["metadata"]["recorded_at"] == {"value": "2014-12-13T12:00:00"}
    write_blo(tmp_path / "other.blo", data.astype(np.uint8))
    assert info(tmp_path / "other.blo", "--byte-order", "little")["dtype"] == "uint8"


def test_big_endian_blockfiles(ctx, tmp_path):
    write_blo(tmp_path / "scan.blo", pixels("uint8", (20, 20)))
    dataset = ctx.load("blo", tmp_path / "scan.blo", endianess="<")
    assert tuple(dataset.shape.nav) == NAV
    with pytest.raises(InvalidArgumentError, match="'<' for little endian"):
        ctx.load("blo", tmp_path / "scan.blo", endianess="middle")


def test_mrc_pixels_with_and_without_sign(ctx, tmp_path):
    data = pixels("int8", (6, 7))
    write_mrc(tmp_path / "a.mrc", data)
    assert ctx.open(tmp_path / "a.mrc").dtype == np.int8
    unsigned = ctx.load("mrc", tmp_path / "a.mrc", dtype="uint8", nav_shape=NAV)
    assert np.array_equal(picked(ctx, unsigned).reshape(data.shape), data.view(np.uint8))


@pytest.fixture
def seq(tmp_path):
    """A SEQ file with a dark frame, a gain map and bad pixels, and the corrected frames."""
    data = pixels("uint16", (12, 20))
    rng = np.random.default_rng(5)
    dark = rng.random((12, 20)).astype(np.float32)
    gain = (1 + rng.random((12, 20))).astype(np.float32)
    bad = np.zeros((12, 20), dtype=bool)
    bad[7] = True
    path = tmp_path / "scan.seq"
    write_seq(path, data)
    write_seq_sidecars(path, dark, gain, 7)
    flat = data.reshape(-1, 12, 20)
    return path, flat, correct(flat, dark_image=dark, gain_map=gain, excluded_pixels=bad)


def test_corrections_from_the_file_are_applied(ctx, seq):
    path, raw, corrected = seq
    dataset = ctx.open(path)
    own = dataset.get_correction_data()
    assert own.have_corrections()
    assert own.get_excluded_pixels().nnz == 20
    for given in ({}, {"corrections": None}, {"corrections": own}):
        np.testing.assert_allclose(picked(ctx, dataset, **given), corrected, rtol=1e-5)
    total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
    np.testing.assert_allclose(total, corrected.sum(axis=0), rtol=1e-5)
    assert "dark" in ctx.explain(dataset, ff.SumUDF())
    assert np.array_equal(picked(ctx, dataset, corrections=CorrectionSet()), raw)


@pytest.mark.parametrize("kind", ["dark", "gain"])
def test_a_sidecar_that_is_a_dead_link_is_an_error(ctx, seq, kind):
    path, raw, _ = seq
    sidecar = path.with_name(f"{path.name}.{kind}.mrc")
    sidecar.unlink()
    sidecar.symlink_to(path.with_name("moved away.mrc"))
    with pytest.raises(OSError, match=rf"scan\.seq\.{kind}\.mrc"):
        ctx.open(path)
    dataset = ctx.load("seq", path, enable_corrections=False)
    assert np.array_equal(picked(ctx, dataset), raw)


def test_corrections_can_be_left_out_when_a_file_is_opened(ctx, seq):
    path, raw, _ = seq
    dataset = ctx.load("seq", path, enable_corrections=False)
    assert not dataset.get_correction_data().have_corrections()
    assert np.array_equal(picked(ctx, dataset), raw)
    with pytest.raises(InvalidArgumentError, match="enable_corrections"):
        ctx.load("mib", path, enable_corrections=False)


def test_dark_frames_of_a_recording(ctx, tmp_path):
    data = pixels("uint16", (12, 20))
    dark = np.random.default_rng(8).integers(0, 50, (5, 12, 20)).astype(np.uint16)
    write_frms6(tmp_path / "scan.hdr", data, dark)
    flat, mean = data.reshape(-1, 12, 20), dark.mean(axis=0, dtype=np.float64)
    for path in (tmp_path / "scan.hdr", tmp_path / "scan_002.frms6"):
        dataset = ctx.open(path)
        assert dataset.format == "frms6"
        assert dataset.warnings == []
        np.testing.assert_allclose(picked(ctx, dataset), flat - mean, rtol=1e-5, atol=1e-4)
    plain = ctx.load("frms6", tmp_path / "scan.hdr", enable_offset_correction=False)
    assert np.array_equal(picked(ctx, plain), flat)
    gain = 1 + np.random.default_rng(9).random((12, 20))
    np.savetxt(tmp_path / "gain.csv", gain.T, delimiter=";")
    both = ctx.load("frms6", tmp_path / "scan.hdr", gain_map_path=tmp_path / "gain.csv")
    np.testing.assert_allclose(picked(ctx, both), (flat - mean) * gain, rtol=1e-4, atol=1e-3)


@odd("there is no file .* with dark frames")
def test_a_gain_map_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_frms6(tmp_path / "scan.hdr", pixels("uint16", (12, 20)))
    np.savetxt("gain.csv", np.full((20, 12), 3.0), delimiter=";")
    dataset = ff.Context().load("frms6", "scan.hdr", gain_map_path="gain.csv")
    monkeypatch.chdir("/")
    again = pickle.loads(pickle.dumps(dataset))
    assert (again.get_correction_data().get_gain_map() == 3).all()


@pytest.fixture(params=[1, 4])
def celeritas(request, tmp_path):
    """Files of a movie in two halves, so many frames of it in an image, and whole frames."""
    data = pixels("uint16", (12, 20))
    frames = data.reshape(-1, 12, 20)
    dark = np.random.default_rng(5).random((12, 20)).astype(np.float32)
    # Both halves are stored from the middle of the frame outwards.
    stored = {"Top_13-49-04.160": frames[:, 5::-1], "Bottom_13-49-04.196": frames[:, 6:]}
    for name, half in stored.items():
        images = half.reshape(-1, 6 * request.param, 20)
        write_seq(tmp_path / f"Movie_7_{name}.seq", np.ascontiguousarray(images))
    write_mrc(tmp_path / "Movie_7.seq.dark.mrc", dark)
    xml = tmp_path / "Movie_7.seq.Config.Metadata.xml"
    xml.write_text(
        "<Configuration><BadPixels/><FileInfo><CameraType Value='Celeritas Camera'/>"
        "<ImageSizeX Value='20'/><ImageSizeY Value='12'/></FileInfo></Configuration>"
    )
    return [xml, *tmp_path.glob("*_7_*.seq")], frames, dark


def test_halves_of_celeritas_are_one_frame(ctx, celeritas):
    paths, frames, dark = celeritas
    for path in paths:
        dataset = ctx.open(path)
        assert tuple(dataset.shape.sig) == (12, 20)
        assert not dataset.warnings
        assert np.array_equal(picked(ctx, dataset, corrections=CorrectionSet()), frames)
        np.testing.assert_allclose(picked(ctx, dataset), frames - dark, rtol=1e-5, atol=1e-3)
    total = ctx.run_udf(ctx.load("seq", paths[0], nav_shape=NAV), ff.SumUDF())["intensity"].data
    np.testing.assert_allclose(total, (frames - dark).sum(axis=0), rtol=1e-5)


def test_halves_of_celeritas_in_worker_processes(celeritas):
    paths, frames, _ = celeritas
    with shared("processes", cpus=2) as ctx:
        dataset = ctx.load("seq", paths[1], num_partitions=4, enable_corrections=False)
        assert np.array_equal(picked(ctx, dataset), frames)


def test_corrections_travel_to_worker_processes(seq):
    path, _, corrected = seq
    with shared("processes", cpus=2) as ctx:
        frames = picked(ctx, ctx.load("seq", path, num_partitions=4))
    np.testing.assert_allclose(frames, corrected, rtol=1e-5)


REAL = [
    (entry, reading)
    for kind in ("BLO", "EMPAD", "MRC", "SEQ")
    for entry in manifest(kind)
    for reading in entry["readings"] or []
    if entry["file"].endswith((".blo", ".xml", ".mrc", ".map", ".seq"))
    and not entry["file"].endswith((".dark.mrc", ".gain.mrc"))
    and "celeritas" not in reading["reader"]
]


@pytest.mark.parametrize(
    ("entry", "reading"), REAL, ids=[f"{e['file']}-{r['reader']}" for e, r in REAL]
)
@odd("these are halves of frames")
def test_real_files(info, entry, reading):
    ctx = ff.Context.make_with("inline")
    path = real_data() / entry["file"]
    dataset = ctx.open(path)
    frames = picked(ctx, dataset, corrections=CorrectionSet())
    assert frames.dtype == reading["dtype"]
    assert frames.size == np.prod(reading["shape"])
    values = frames.reshape(reading["shape"])
    assert (values.min(), values.max()) == (reading["min"], reading["max"])
    assert values.sum(dtype=np.float64) == pytest.approx(reading["sum_f64"], rel=1e-9)
    first = frames[0].sum(dtype=np.float64)
    assert first == pytest.approx(reading["sum_first_frame"], rel=1e-9)
    for index, value in reading["probes"]:
        assert values[tuple(index)] == value
    facts = info(path)
    assert facts["format"] == entry["format"].lower()
    assert facts["nav_shape"] + facts["sig_shape"] == list(dataset.shape)


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "uint16", "complex64", "float16"])
def test_mrc_as_mrcfile_writes_it(ctx, tmp_path, dtype):
    mrcfile = pytest.importorskip("mrcfile", reason="mrcfile is not installed")
    data = pixels(dtype, (6, 7)).reshape(-1, 6, 7)
    with mrcfile.new(tmp_path / "a.mrc") as file:
        file.set_data(data)
    dataset = ctx.open(tmp_path / "a.mrc")
    assert dataset.dtype == np.dtype(dtype)
    assert np.array_equal(picked(ctx, dataset), data)


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "uint16"])
def test_mrc_as_mrcfile_reads_it(tmp_path, dtype):
    mrcfile = pytest.importorskip("mrcfile", reason="mrcfile is not installed")
    data = pixels(dtype, (6, 7))
    write_mrc(tmp_path / "a.mrc", data)
    with mrcfile.open(tmp_path / "a.mrc", permissive=True) as file:
        assert np.array_equal(file.data, data.reshape(-1, 6, 7))


def test_blockfiles_as_rosettasciio_writes_them(ctx, tmp_path):
    blockfile = pytest.importorskip("rsciio.blockfile", reason="rosettasciio is not installed")
    data = pixels("uint8", (20, 20))
    write_blo(tmp_path / "a.blo", data)
    signal = blockfile.file_reader(str(tmp_path / "a.blo"))[0]
    assert np.array_equal(signal["data"], data)
    signal["attributes"] = {"_lazy": False}
    blockfile.file_writer(str(tmp_path / "b.blo"), signal, intensity_scaling=None)
    dataset = ctx.open(tmp_path / "b.blo")
    assert np.array_equal(picked(ctx, dataset).reshape(data.shape), data)


def test_empad_as_rosettasciio_reads_it(tmp_path):
    empad = pytest.importorskip("rsciio.empad", reason="rosettasciio is not installed")
    data = pixels("float32", (128, 128))
    write_empad(tmp_path / "a.xml", data)
    text = (tmp_path / "a.xml").read_text()
    # It asks for the numbers of old files.
    text = text.replace("</root>", f"<pix_x>{NAV[1]}</pix_x><pix_y>{NAV[0]}</pix_y></root>")
    (tmp_path / "a.xml").write_text(text.replace("/data/", ""))
    try:
        signal = empad.file_reader(str(tmp_path / "a.xml"))[0]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        pytest.skip(f"rosettasciio wants more of the XML file: {error}")
    assert np.array_equal(signal["data"], data)


@odd("describes a scan of 4 x 8 positions with 2 frames each", "the data have rows of 2 positions")
@POSITIONS_WITHOUT_DATA
@pytest.mark.parametrize(
    ("n_frames", "nav", "steps", "n_missing"),
    [
        (64, (4, 8, 2), (0.2, 0.1, 1), 0),
        (62, (4, 8, 2), (0.2, 0.1, 1), 2),
        (32, (4, 8, 2), (0.2, 0.1, 1), 32),
        (30, (4, 8, 2), (0.2, 0.1, 1), 34),
        (192, (3, 4, 8, 2), (1, 0.2, 0.1, 1), 0),
        (65, (65,), (1,), 0),
    ],
)
def test_several_frames_at_each_point_of_a_movie(tmp_path, n_frames, nav, steps, n_missing):
    path = tmp_path / "20250101_00001_movie.mrc"
    write_de_movie(path, np.arange(n_frames * 30, dtype="uint16").reshape(1, n_frames, 5, 6))
    (tmp_path / "20250101_00001_info.txt").write_text(
        "Scan - Enable = Enable\nScan - Type = Raster\nScan - Size X = 8\nScan - Size Y = 4\n"
        "Scan - Camera Frames Per Point = 2\nSpecimen Pixel Size X (nanometers) = 0.1\n"
        "Specimen Pixel Size Y (nanometers) = 0.2\n"
    )
    dataset = ff.Context().open(path)
    axes = [axis for axis in dataset.axes if axis.kind == "nav"]
    assert tuple(axis.size for axis in axes) == nav
    names = ["scan_x"] if len(nav) == 1 else ["repeat", "scan_y", "scan_x", "time"]
    assert [axis.name for axis in axes] == names[-len(nav) :]
    assert tuple(axis.scale for axis in axes) == steps
    assert [axis.unit for axis in axes] == ["" if step == 1 else "nm" for step in steps]
    assert (~dataset.valid_mask).sum() == n_missing
    assert any("2 frames each" in text for text in dataset.warnings) == (n_frames % 64 != 0)
    # Axes of another scan are not those of the raster.
    other = ff.Context().open(path, nav_shape=(n_frames // 5, 5))
    assert [axis.scale for axis in other.axes[:2]] == [1, 1]
    assert [axis.name for axis in other.axes[:2]] == ["scan_y", "scan_x"]
