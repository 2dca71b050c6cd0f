"""Writes files in detector formats, byte by byte and independent of the engine."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: The number of each dtype in SPE files.
SPE_TYPES = {
    "float32": 0,
    "int32": 1,
    "int16": 2,
    "uint16": 3,
    "float64": 5,
    "uint8": 6,
    "uint32": 8,
}


def write_blo(path: Path, data: Array) -> None:
    """Square frames of uint8 or uint16 as a NanoMEGAS blockfile."""
    rows, columns, edge, _ = data.shape
    wide = data.dtype == np.uint16
    header = b"IMGBLO" + struct.pack("<HIII", 0x0103 if wide else 0x0102, 0x1000, 0x1400, 131141)
    header += struct.pack("<HHHHH", edge, 0, columns, rows, 0)
    header += struct.pack("<ddIHId", 1.5, 1.5, 300_000, 6226, 1150, 41_986.5)
    header = header.ljust(240, b"\0") + (b"Blo Bit Depth: 16 bits\r\n" if wide else b"")
    blocks = [header.ljust(0x1400, b"\0")]
    for index, frame in enumerate(data.reshape(-1, edge, edge)):
        blocks.append(b"\xaa\x55" + struct.pack("<I", index))
        blocks.append(frame.astype(frame.dtype.newbyteorder("<")).tobytes())
    path.write_bytes(b"".join(blocks))


def write_empad(path: Path, data: Array) -> None:
    """Frames of at most 128 x 128 pixels as an EMPAD recording: ``path`` and a .raw file."""
    rows, columns, height, width = data.shape
    frames = np.full((rows * columns, 130, 128), -1, dtype="<f4")
    frames[:, :128] = 0
    frames[:, :height, :width] = data.reshape(-1, height, width)
    raw = path.with_name(f"{path.stem}_x{columns}_y{rows}.raw")
    frames.tofile(raw)
    path.write_text(
        f'<root name="{path.stem}"><timestamp isoformat="2019-06-06T13:30:00"/>'
        f'<raw_file filename="/data/{raw.name}"/><exposure_time>1</exposure_time>'
        f'<scan_parameters mode="acquire"><scan_resolution_x>{columns}</scan_resolution_x>'
        f"<scan_resolution_y>{rows}</scan_resolution_y></scan_parameters>"
        f"<iom_measurements><high_voltage>300000.0</high_voltage></iom_measurements></root>"
    )


MODES = {"int8": 0, "int16": 1, "float32": 2, "complex64": 4, "uint16": 6, "float16": 12}


def write_mrc(path: Path, data: Array) -> None:
    """Images, all axes but the last two being one, as MRC2014."""
    images = data.reshape(-1, *data.shape[-2:])
    count, height, width = images.shape
    header = bytearray(1024)
    struct.pack_into("<4i", header, 0, width, height, count, MODES[data.dtype.name])
    struct.pack_into("<3i6f", header, 28, width, height, count, 0, 0, 0, 90, 90, 90)
    header[208:216] = b"MAP \x44\x44\0\0"
    path.write_bytes(bytes(header) + images.tobytes())


def write_de_movie(path: Path, data: Array) -> None:
    """As :func:`write_mrc`, with the text file of a Direct Electron camera."""
    write_mrc(path, data)
    text = (
        "Camera Model = DE-16\nFrame Exposure Time (nanoseconds) = 1427500\n"
        "Instrument Accelerating Voltage (V) = 200000\nScan - Enable = Enable\n"
        f"Scan - Type = Raster\nScan - Size X = {data.shape[1]}\nScan - Size Y = {data.shape[0]}\n"
    )
    path.with_name(path.name.replace("_movie.mrc", "_info.txt")).write_text(text)


def write_seq(path: Path, data: Array, footer: int = 24) -> None:
    """Frames of uint8, uint16 or uint32 as Norpix SEQ, version 5."""
    frames = data.reshape(-1, *data.shape[-2:])
    _, height, width = frames.shape
    bits, size = 8 * data.itemsize, height * width * data.itemsize
    header = bytearray(8192)
    struct.pack_into("<I24si", header, 0, 0xFEED, "Norpix seq".encode("utf-16le"), 5)
    struct.pack_into("<512s", header, 36, "No description".encode("utf-16le"))
    struct.pack_into("<6I", header, 548, width, height, bits, bits, size, 100)
    struct.pack_into("<3Id", header, 572, len(frames), 0, size + footer, 1000.0)
    body = b"".join(frame.tobytes() + b"\x11" * footer for frame in frames)
    path.write_bytes(bytes(header) + body)


def write_seq_sidecars(path: Path, dark: Array, gain: Array, bad_row: int) -> None:
    """Dark frame, gain map and a bad row of pixels for the SEQ file at ``path``."""
    write_mrc(path.with_name(f"{path.name}.dark.mrc"), dark)
    write_mrc(path.with_name(f"{path.name}.gain.mrc"), gain)
    height, width = dark.shape
    path.with_name(f"{path.name}.Config.Metadata.xml").write_text(
        f'<Configuration><BadPixels><BadPixelMap Rows="{height}" Columns="{width}">'
        f'<Defect Row="{bad_row}" /></BadPixelMap></BadPixels></Configuration>'
    )
    part = struct.pack("<11i", 45, 1, width, height, 0, 0, 1, 16, 1000, 0, 0)
    path.with_name(f"{path.name}.metadata").write_bytes(bytes(282) + part + b"\0")


def write_frms6(path: Path, data: Array, dark: Array | None = None, per_file: int = 7) -> None:
    """Frames of uint16 with an even number of rows as a recording: ``path`` and .frms6 files."""
    rows, columns, height, width = data.shape
    frames = data.reshape(-1, height, width)
    files = [] if dark is None else [(0, dark)]
    starts = range(0, len(frames), per_file)
    files += [(n, frames[start : start + per_file]) for n, start in enumerate(starts, start=1)]
    for number, part in files:
        header = bytearray(1024)
        struct.pack_into("<HH3xB", header, 0, 1024, 64, 6)
        struct.pack_into("<HH", header, 88, 2 * width, height // 2)
        struct.pack_into("<I", header, 1020, len(part))
        blocks = [bytes(header)]
        for frame in part:
            upper, lower = frame[: height // 2], frame[height // 2 :]
            stored = np.concatenate([upper, lower[::-1, ::-1]], axis=1)
            blocks += [bytes(64), stored.astype("<u2").tobytes()]
        path.with_name(f"{path.stem}_{number:03}.frms6").write_bytes(b"".join(blocks))
    path.write_text(
        "[measurementInfo]\n"
        f"darkframes = {0 if dark is None else len(dark)}\ndwelltimemicroseconds = 1000\n"
        f"gain = 1\nsignalframes = {len(frames)}\nstemimagesize = {rows}x{columns}\n"
        'readoutmode = "bin: 1, windowing: 1 x 1 "\n'
    )


def write_spe(
    path: Path,
    data: Array,
    *,
    version: float = 2.5,
    n_frames: int | None = None,
    gap: int = 0,
) -> None:
    """Frames as WinView (below version 3) or LightField writes them, ``gap`` bytes between them."""
    header = bytearray(4100)
    struct.pack_into("<f", header, 10, 0.25)
    header[20:29] = b"22Jul2015"
    struct.pack_into("<H", header, 42, data.shape[-1])
    struct.pack_into("<h", header, 108, SPE_TYPES[data.dtype.name])
    header[172:178] = b"094018"
    header[200:205] = b"a note"[:5]
    struct.pack_into("<H", header, 656, data.shape[-2])
    struct.pack_into("<i", header, 1446, len(data) if n_frames is None else n_frames)
    struct.pack_into("<f", header, 1992, version)
    struct.pack_into("<I", header, 2996, 0x01234567)
    body = b"".join(
        frame.astype(frame.dtype.newbyteorder("<")).tobytes() + bytes(gap) for frame in data
    )
    if version >= 3:
        struct.pack_into("<Q", header, 678, 4100 + len(body))
        size = data[0].nbytes
        body += (
            f'<SpeFormat version="3.0"><DataFormat><DataBlock type="Frame" count="{len(data)}" '
            f'size="{size}" stride="{size + gap}"><DataBlock type="Region" count="1" size="{size}" '
            f'stride="{size}" height="{data.shape[1]}" width="{data.shape[2]}"/></DataBlock>'
            "</DataFormat></SpeFormat>"
        ).encode()
    path.write_bytes(header + body)
