"""The MIB encoder against byte-level facts of the format, and the engine against the encoder."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import framefold as ff
from framefold.udf.raw import PickUDF
from framefold.utils.write_mib import encode_payload, write_mib

DEPTHS = {1: np.uint8, 6: np.uint8, 12: np.uint16, 24: np.uint32}


def counts(shape: tuple[int, ...], depth: int, seed: int = 0) -> np.ndarray:
    """Random counts that use all bits of the counter."""
    random = np.random.default_rng(seed)
    return random.integers(0, 2**depth, size=shape).astype(DEPTHS[depth])


def lit(depth: int, pixel: int, value: int = 1, n_pixels: int = 256) -> bytes:
    """The raw payload of a frame of one row in which one pixel is lit."""
    frame = np.zeros((1, n_pixels), dtype=np.uint32)
    frame[0, pixel] = value
    return encode_payload(frame, depth=depth, raw=True)


@pytest.mark.parametrize(
    ("pixel", "byte", "value"),
    [(0, 7, 0x01), (7, 7, 0x80), (8, 6, 0x01), (63, 0, 0x80), (64, 15, 0x01)],
)
def test_raw_1_bit(pixel: int, byte: int, value: int) -> None:
    payload = lit(1, pixel)
    assert len(payload) == 256 // 8
    assert {i: b for i, b in enumerate(payload) if b} == {byte: value}


@pytest.mark.parametrize(("pixel", "byte"), [(0, 7), (7, 0), (8, 15)])
def test_raw_6_bit(pixel: int, byte: int) -> None:
    payload = lit(6, pixel, 63)
    assert {i: b for i, b in enumerate(payload) if b} == {byte: 63}


@pytest.mark.parametrize(("pixel", "high", "low"), [(0, 6, 7), (3, 0, 1), (4, 14, 15)])
def test_raw_12_bit(pixel: int, high: int, low: int) -> None:
    payload = lit(12, pixel, 0xABC)
    assert {i: b for i, b in enumerate(payload) if b} == {high: 0x0A, low: 0xBC}


def test_raw_24_bit_is_two_images_of_12() -> None:
    payload = lit(24, 4, (1 << 12) + 5)
    assert len(payload) == 256 * 4
    assert {i: b for i, b in enumerate(payload) if b} == {15: 1, 512 + 15: 5}


@pytest.mark.parametrize(
    ("row", "byte", "y", "x"),
    [
        (0, 0, 511, 504),
        (0, 7, 511, 511),
        (0, 256, 511, 248),
        (0, 512, 0, 263),
        (0, 519, 0, 256),
        (0, 768, 0, 7),
        (255, 1023, 255, 248),
        (10, 8, 501, 496),
    ],
)
def test_raw_quad(row: int, byte: int, y: int, x: int) -> None:
    frame = np.zeros((512, 512), dtype=np.uint8)
    frame[y, x] = 33
    payload = np.frombuffer(encode_payload(frame, depth=6, raw=True, layout="2x2"), np.uint8)
    assert np.argwhere(payload.reshape(256, 1024)).tolist() == [[row, byte]]


def test_processed_frames_are_big_endian_rows() -> None:
    frame = np.array([[1, 2], [3, 0x0102]], dtype=np.uint16)
    assert encode_payload(frame, depth=12) == bytes([0, 1, 0, 2, 0, 3, 1, 2])


def test_the_header_is_that_of_the_detector(tmp_path: Path) -> None:
    (path,) = write_mib(tmp_path / "a.mib", counts((2, 3, 16, 256), 12))
    data = path.read_bytes()
    assert len(data) == 6 * (384 + 16 * 256 * 2)
    for frame in range(6):
        header = data[frame * (384 + 8192) :][:384]
        fields = header.rstrip(b"\0").decode("ascii").split(",")
        assert fields[:9] == [
            "MQ1", f"{frame + 1:06d}", "00384", "01", "0256", "0016", "U16", "   1x1", "01",
        ]  # fmt: skip
        assert fields[-5] == "MQ1A"
        assert fields[-3:] == ["1000000ns", "12", ""]


def test_the_sidecar_names_the_scan(tmp_path: Path) -> None:
    write_mib(tmp_path / "a.mib", counts((2, 3, 8, 64), 6))
    text = (tmp_path / "a.hdr").read_bytes().decode("ascii")
    assert text.startswith("HDR,\t\r\n")
    assert text.endswith("End\t")
    for line in ("ScanX:\t3", "ScanY:\t2", "Frames in Acquisition (Number):\t6"):
        assert f"\r\n{line}\r\n" in text


def test_several_files_count_on(tmp_path: Path) -> None:
    paths = write_mib(tmp_path / "a", counts((5, 8, 64), 6), frames_per_file=2, scan_in_hdr=False)
    assert [path.name for path in paths] == ["a0.mib", "a1.mib", "a2.mib"]
    assert [path.read_bytes()[4:10] for path in paths] == [b"000001", b"000003", b"000005"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": np.full((1, 2, 2), 64, np.uint8)}, "6 bits hold 0 to 63"),
        ({"data": np.zeros((2, 2), np.uint8)}, "expected \\(\\*nav_shape"),
        ({"data": np.zeros((1, 2, 2), np.float32)}, "expected unsigned counts"),
        ({"data": np.zeros((4, 2, 2), np.uint8), "nav_shape": (5,)}, "expected 5"),
        ({"data": np.zeros((4, 2, 2), np.uint8), "nav_shape": (3,)}, "more frames"),
        ({"data": iter([np.zeros((2, 2))])}, "need nav_shape and depth"),
        (
            {"data": iter([np.full((2, 2), 2.7)]), "nav_shape": (1,), "depth": 12},
            "frame of dtype float64, expected unsigned counts",
        ),
        (
            {"data": iter([np.ones((2, n), int) for n in (2, 3)]), "nav_shape": (2,), "depth": 12},
            r"frame of shape \(2, 3\) after one of \(2, 2\)",
        ),
        ({"data": np.zeros((1, 8, 8), np.uint8), "depth": 7}, "expected one of"),
        ({"data": np.zeros((1, 3, 5), np.uint8), "raw": True}, "multiple of 8"),
        ({"data": np.zeros((1, 3, 8), np.uint8), "raw": True, "layout": "2x2"}, "an even one"),
        ({"data": np.zeros((1, 8, 8), np.uint8), "raw": True, "layout": "Nx1"}, "not known"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        write_mib(tmp_path / "a.mib", **arguments, hdr=False)


MODES = [
    {"depth": depth, "raw": raw, "layout": layout}
    for layout in ("1x1", "2x2")
    for raw in (False, True)
    for depth in DEPTHS
    # How a raw quad delivers 24 bits is not known.
    if not (depth == 24 and raw and layout == "2x2")
] + [{"depth": 12, "raw": False, "layout": "2x2G"}]


@pytest.mark.parametrize("mode", MODES, ids=lambda m: "-".join(map(str, m.values())))
@pytest.mark.parametrize("frames_per_file", [None, 4])
def test_the_engine_reads_what_was_written(
    tmp_path: Path, mode: dict[str, Any], frames_per_file: int | None
) -> None:
    sig_shape = {"1x1": (256, 256), "2x2": (512, 512), "2x2G": (514, 514)}[mode["layout"]]
    data = counts((2, 3, *sig_shape), mode["depth"])
    write_mib(tmp_path / "scan", data, frames_per_file=frames_per_file, **mode)
    ctx = ff.Context()
    dataset = ctx.load("mib", path=tmp_path / "scan.hdr")
    assert tuple(dataset.shape) == data.shape
    assert dataset.dtype == data.dtype
    picked = ctx.run_udf(dataset=dataset, udf=PickUDF())["intensity"]
    np.testing.assert_array_equal(picked.raw_data, data.reshape(6, *sig_shape))


def test_files_that_exist_are_kept(tmp_path: Path) -> None:
    old, new = counts((4, 8, 64), 6), counts((4, 8, 64), 12)
    paths = write_mib(tmp_path / "a", old, frames_per_file=2, scan_in_hdr=False)
    for there in (paths[1], tmp_path / "a.hdr"):
        for path in {*paths, tmp_path / "a.hdr"} - {there}:
            path.unlink(missing_ok=True)
        before = there.read_bytes()
        with pytest.raises(FileExistsError, match="overwrite=True"):
            write_mib(tmp_path / "a", new, frames_per_file=2, scan_in_hdr=False)
        assert list(tmp_path.iterdir()) == [there]
        assert there.read_bytes() == before
        write_mib(tmp_path / "a", new, frames_per_file=2, scan_in_hdr=False, overwrite=True)
        assert np.array_equal(ff.Context().open(paths[0])[...], new)


def test_what_is_no_frame_leaves_no_file(tmp_path: Path) -> None:
    rows = iter(np.zeros((4, 64), dtype=np.uint8))
    with pytest.raises(ValueError, match=r"frame of shape \(64,\), expected two axes"):
        write_mib(tmp_path / "scan.mib", rows, (2, 2), depth=6)
    with pytest.raises(ValueError, match="ScanX and ScanY describe two axes"):
        write_mib(tmp_path / "scan.mib", np.zeros((2, 2, 2, 4, 64), dtype=np.uint8))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("n_frames", "per_trigger", "shape"),
    [(9, 9, (9,)), (8, 8, (8,)), (8, 4, (2, 4)), (8, 1, (8,)), (9, 1, (3, 3))],
)
def test_scans_of_triggers(
    tmp_path: Path, n_frames: int, per_trigger: int, shape: tuple[int, ...]
) -> None:
    write_mib(tmp_path / "scan", counts((n_frames, 1, 64, 64), 12), depth=12, scan_in_hdr=False)
    path = tmp_path / "scan.hdr"
    said = "Frames per Trigger (Number):\t"
    text = path.read_text(encoding="latin-1")
    assert f"{said}1\n" in text
    path.write_text(text.replace(f"{said}1", f"{said}{per_trigger}"), encoding="latin-1")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = ff.Context().open(path)
    assert tuple(dataset.shape.nav) == shape
    texts = [str(warning.message) for warning in caught]
    assert ["3 x 3" in text and "give its nav_shape" in text for text in texts] == [True] * (
        (n_frames, per_trigger) == (9, 1)
    )


@pytest.mark.parametrize("name", ["scan.mib", "scan.hdr"])
def test_a_scan_beside_another_whose_name_begins_alike(tmp_path: Path, name: str) -> None:
    frames = counts((2, 3, 64, 64), 12)
    write_mib(tmp_path / "scan", frames, depth=12)
    write_mib(tmp_path / "scan_dark", frames[::-1], depth=12)
    dataset = ff.Context().load("mib", path=tmp_path / name)
    assert dataset.meta.image_count == 6
    np.testing.assert_array_equal(dataset[:], frames)
