"""Writing of Merlin MIB data sets, as the detector's own software writes them.

framefold reads MIB files with an engine written in Rust. This encoder shares no code with
it, so that tests can hold one against the other; the simulator uses it too.

A ``.mib`` file is a bare sequence of frames, each an ASCII header filled up with NUL and a
payload. Processed pixels are big-endian unsigned integers in rows; raw ones (``R64``) come in
groups of 8 bytes, in each of which the first pixel sits in the least significant place of a
big-endian 64-bit word. The ``.hdr`` file beside it describes the scan.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from framefold.common._booleans import boolean
from framefold.common._masked import refuse_masked
from framefold.common._paths import path_text
from framefold.context.exporting import ExistingFileError

__all__ = ["Layout", "encode_payload", "write_mib"]

Layout = Literal["1x1", "2x2", "2x2G", "Nx1", "Nx1G"]

#: How processed pixels of a counter of so many bits are stored: format name and dtype.
_PROCESSED = {1: ("U08", ">u1"), 6: ("U08", ">u1"), 12: ("U16", ">u2"), 24: ("U32", ">u4")}

#: How many pixels share a group of 8 bytes in raw frames.
_RAW_GROUP = {1: 64, 6: 8, 12: 4, 24: 4}

_CHIP_WIDTH = 256

#: The analogue settings of one chip; readers skip them, but real headers have them.
_DACS = (
    "3RX,011,511,000,000,000,000,000,000,175,010,200,125,100,100,"
    "093,100,099,030,128,004,255,140,128,191,179,511,511"
)

_THRESHOLDS_KEV = (30.0, 511.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

#: Files say when they were written; simulated ones always say the same.
_START = datetime.datetime(2024, 1, 1, 12, 0, 0)


def write_mib(
    path: str | Path,
    data: npt.ArrayLike | Iterable[npt.ArrayLike],
    nav_shape: tuple[int, ...] | None = None,
    *,
    depth: int | None = None,
    raw: bool = False,
    layout: Layout = "1x1",
    frames_per_file: int | None = None,
    first_sequence_number: int = 1,
    hdr: bool = True,
    scan_in_hdr: bool = True,
    exposure: float = 1e-3,
    overwrite: bool = False,
) -> list[Path]:
    """Write frames as a Merlin MIB data set.

    Parameters
    ----------
    path
        Where to write. ``scan.mib`` or ``scan`` gives ``scan.mib`` and ``scan.hdr``; with
        ``frames_per_file`` it gives ``scan0.mib``, ``scan1.mib``, … beside ``scan.hdr``.
    data
        Unsigned counts: an array of shape ``(*nav_shape, height, width)``, or an iterable of
        frames of shape ``(height, width)``, which are then taken one at a time, so that data
        need not fit in memory.
    nav_shape
        The scan; by default the leading axes of ``data``. Required for an iterable.
    depth
        Bits of the detector's counters: 1, 6, 12 or 24. By default the smallest that is
        stored in the dtype of ``data`` (6, 12 or 24 for 1, 2 or 4 bytes). Required for an
        iterable.
    raw
        Write raw frames (``R64``) as the chips deliver them instead of processed ones.
    layout
        How chips sit on the detector. ``data`` is always the assembled image. Raw frames
        need ``1x1`` or, without pixels for the gap, ``2x2`` and ``2x2G``.
    frames_per_file
        Start another file after so many frames. By default one file holds all.
    first_sequence_number
        The number of the first frame.
    hdr
        Write the ``.hdr`` file.
    scan_in_hdr
        Name ``ScanX`` and ``ScanY`` there, as software from version 1.5 on does. Needs a
        scan of two axes.
    exposure
        The shutter time of a frame in seconds.
    overwrite
        Replace files that exist.

    Returns
    -------
    list of pathlib.Path
        The ``.mib`` files, in order.

    Raises
    ------
    ValueError
        If the shapes do not fit each other or the layout, a count is no integer or does not fit
        the counter, or the number of frames is not that of the scan.
    ExistingFileError
        If a file exists (a ``FileExistsError``, too).
    """
    raw, hdr = boolean("raw", raw), boolean("hdr", hdr)
    scan_in_hdr, overwrite = boolean("scan_in_hdr", scan_in_hdr), boolean("overwrite", overwrite)
    path = Path(path_text("path", path))
    if path.suffix.lower() in (".mib", ".hdr"):
        path = path.with_suffix("")
    frames, nav_shape, depth = _as_frames(data, nav_shape, depth)
    if depth not in _PROCESSED:
        raise ValueError(f"found depth {depth}, expected one of {tuple(_PROCESSED)}")
    n_frames = math.prod(nav_shape)
    if frames_per_file is not None and frames_per_file < 1:
        raise ValueError(f"found frames_per_file {frames_per_file}, expected at least 1")
    numbers = [""] if frames_per_file is None else range(-(-n_frames // frames_per_file))
    files = [path.with_name(f"{path.name}{number}.mib") for number in numbers]
    sidecar = path.with_name(path.name + ".hdr")
    # A scan that cannot be described must not leave frames behind.
    text = _sidecar(nav_shape, depth=depth, layout=layout, scan=scan_in_hdr) if hdr else ""
    for there in (*files, *([sidecar] if hdr else [])):
        if there.exists() and not overwrite:
            raise ExistingFileError(f"'{there}' exists; pass overwrite=True to replace it")

    written: list[Path] = []
    shape: tuple[int, ...] | None = None
    n_written = 0
    file: IO[bytes] | None = None
    try:
        for n_written, frame in enumerate(frames, start=1):
            if n_written > n_frames:
                raise ValueError(f"found more frames than the {n_frames} of scan {nav_shape}")
            index = n_written - 1
            # A frame that cannot be written must not leave an empty file behind.
            if np.ndim(frame) != 2:
                raise ValueError(f"found a frame of shape {np.shape(frame)}, expected two axes")
            shape = shape or frame.shape
            if frame.shape != shape:
                raise ValueError(f"found a frame of shape {frame.shape} after one of {shape}")
            payload = encode_payload(frame, depth=depth, raw=raw, layout=layout)
            if file is None or (frames_per_file is not None and index % frames_per_file == 0):
                if file is not None:
                    file.close()
                written.append(files[len(written)])
                file = written[-1].open("wb")
            header = _frame_header(
                frame.shape,
                number=first_sequence_number + index,
                depth=depth,
                raw=raw,
                layout=layout,
                exposure=exposure,
                time=_START + datetime.timedelta(seconds=exposure * index),
            )
            file.write(header)
            file.write(payload)
    finally:
        if file is not None:
            file.close()
    if n_written != n_frames:
        raise ValueError(f"found {n_written} frames, expected {n_frames} for scan {nav_shape}")
    if hdr:
        sidecar.write_bytes(text.encode("ascii"))
    return written


def encode_payload(
    frame: npt.ArrayLike,
    *,
    depth: int,
    raw: bool = False,
    layout: Layout = "1x1",
) -> bytes:
    """Encode the pixels of one frame.

    Parameters
    ----------
    frame
        Counts of shape ``(height, width)``: the assembled image.
    depth
        Bits of the counters: 1, 6, 12 or 24.
    raw
        Encode for a raw frame (``R64``).
    layout
        How chips sit on the detector.

    Returns
    -------
    bytes
        The payload, without header.

    Raises
    ------
    ValueError
        If a count is no integer or does not fit the counter, or the shape does not fit the layout.
    """
    refuse_masked("a frame", frame)
    pixels = np.asarray(frame)
    if pixels.ndim != 2:
        raise ValueError(f"found a frame of shape {pixels.shape}, expected (height, width)")
    if pixels.dtype.kind not in "uib":
        raise ValueError(f"found a frame of dtype {pixels.dtype}, expected unsigned counts")
    if pixels.size and (pixels.min() < 0 or pixels.max() >= 2**depth):
        raise ValueError(
            f"found counts from {pixels.min()} to {pixels.max()}, "
            f"but counters of {depth} bits hold 0 to {2**depth - 1}"
        )
    if not boolean("raw", raw):
        return pixels.astype(_PROCESSED[depth][1]).tobytes()
    rows = _raw_rows(pixels, depth=depth, layout=layout)
    if rows.shape[1] % _RAW_GROUP[depth]:
        raise ValueError(
            f"found raw rows of {rows.shape[1]} pixels, "
            f"expected a multiple of {_RAW_GROUP[depth]} for depth {depth}"
        )
    if depth == 1:
        bits = rows.astype(np.uint8).reshape(-1, 8, 8)[:, ::-1, :]
        return np.packbits(bits, axis=2, bitorder="little").tobytes()
    if depth == 6:
        return rows.astype(np.uint8).reshape(-1, 8)[:, ::-1].tobytes()
    if depth == 12:
        return _encode_raw_12(rows)
    wide = rows.astype(np.uint32)
    return _encode_raw_12(wide >> 12) + _encode_raw_12(wide & 0xFFF)


def _encode_raw_12(rows: npt.NDArray[Any]) -> bytes:
    return rows.astype(">u2").reshape(-1, 4)[:, ::-1].tobytes()


def _raw_rows(pixels: npt.NDArray[Any], *, depth: int, layout: Layout) -> npt.NDArray[Any]:
    """Put the pixels into the rows in which the chips deliver them."""
    if layout == "1x1":
        return pixels
    if layout not in ("2x2", "2x2G"):
        raise ValueError(f"raw frames of layout '{layout}' are not known; use '1x1' or '2x2'")
    if depth == 24:
        raise ValueError("raw frames of 24 bits are known for a single chip only")
    height, width = pixels.shape
    if height % 2 or width % 2:
        raise ValueError(f"found a frame of shape {pixels.shape}, expected an even one for 2x2")
    top, bottom = pixels[: height // 2], pixels[height // 2 :]
    half = width // 2
    # The chips of the bottom row are mounted upside down.
    bottom = bottom[::-1, ::-1]
    # Rotation swaps left and right: chip 4 (bottom right) now comes first.
    return np.hstack([bottom[:, :half], bottom[:, half:], top[:, half:], top[:, :half]])


def _as_frames(
    data: npt.ArrayLike | Iterable[npt.ArrayLike],
    nav_shape: tuple[int, ...] | None,
    depth: int | None,
) -> tuple[Iterator[npt.NDArray[Any]], tuple[int, ...], int]:
    """Turn either form of ``data`` into single frames, a scan shape and a counter depth."""
    if isinstance(data, Iterable) and not isinstance(data, (np.ndarray, list, tuple)):
        if nav_shape is None or depth is None:
            raise ValueError("frames from an iterable need nav_shape and depth")
        return (np.asanyarray(frame) for frame in data), tuple(nav_shape), depth
    refuse_masked("data", data)
    array = np.asarray(data)
    if array.ndim < 3:
        raise ValueError(f"found data of shape {array.shape}, expected (*nav_shape, height, width)")
    if array.dtype.kind not in "ub" and not (array.dtype.kind == "i" and depth is not None):
        raise ValueError(f"found dtype {array.dtype}, expected unsigned counts")
    if depth is None:
        depth = {1: 6, 2: 12, 4: 24}.get(array.dtype.itemsize)
        if depth is None:
            raise ValueError(f"found dtype {array.dtype}; say which depth its counts need")
    shape = array.shape[:-2] if nav_shape is None else tuple(nav_shape)
    return iter(array.reshape((-1, *array.shape[-2:]))), shape, depth


def _n_chips(layout: Layout, width: int) -> int:
    if layout == "1x1":
        return 1
    if layout in ("2x2", "2x2G"):
        return 4
    return max(1, width // _CHIP_WIDTH)


def _frame_header(
    shape: tuple[int, ...],
    *,
    number: int,
    depth: int,
    raw: bool,
    layout: Layout,
    exposure: float,
    time: datetime.datetime,
) -> bytes:
    """Compose one frame's ASCII header: 384 bytes, and 128 more for each further chip."""
    height, width = shape
    n_chips = _n_chips(layout, width)
    pixel_format = "R64" if raw else _PROCESSED[depth][0]
    if raw and n_chips == 4:
        # Rows of four chips side by side, half as many.
        height, width = height // 2, width * 2
    elif raw and depth == 24:
        # Two images of 12 bits; the header counts both.
        width *= 2
    length = 384 + 128 * (n_chips - 1)
    nanoseconds = round(exposure * 1e9)
    name = f"{n_chips}x1{'G' if layout.endswith('G') else ''}" if layout[0] == "N" else layout
    fields = [
        "MQ1",
        f"{number:06d}",
        f"{length:05d}",
        f"{n_chips:02d}",
        f"{width:04d}",
        f"{height:04d}",
        pixel_format,
        f"{name:>6}",
        f"{(1 << n_chips) - 1:02X}",
        time.isoformat(sep=" ", timespec="microseconds"),
        f"{exposure:.6f}",
        "0,0,0",
        *(f"{threshold:.6E}" for threshold in _THRESHOLDS_KEV),
        *([_DACS] * n_chips),
        "MQ1A",
        time.isoformat(timespec="microseconds") + "000Z",
        f"{nanoseconds}ns",
        str(depth),
    ]
    text = (",".join(fields) + ",").encode("ascii")
    if len(text) > length:
        raise ValueError(f"a header of {len(text)} bytes does not fit in {length}")
    return text.ljust(length, b"\0")


def _sidecar(nav_shape: tuple[int, ...], *, depth: int, layout: Layout, scan: bool) -> str:
    """Compose the text of the ``.hdr`` file."""
    n_frames = math.prod(nav_shape)
    lines = {
        "Time and Date Stamp (day, mnth, yr, hr, min, s)": _START.strftime("%d/%m/%Y %H:%M:%S"),
        "Chip ID": "SIMULATED",
        "Chip Type (Medipix 3.0, Medipix 3.1, Medipix 3RX)": "Medipix 3RX",
        "Assembly Size (NX1, 2X2)": f"{layout:>6}",
        "Chip Mode  (SPM, CSM, CM, CSCM)": "SPM",
        "Counter Depth (number)": str(depth),
        "Gain": "SLGM",
        "Active Counters": "Counter 0",
        "Thresholds (keV)": ",".join(f"{threshold:.6E}" for threshold in _THRESHOLDS_KEV),
        "Acquisition Type (Normal, Th_scan, Config)": "Normal",
        "Frames in Acquisition (Number)": str(n_frames),
        "Frames per Trigger (Number)": str(nav_shape[-1]),
        "Trigger Start (Positive, Negative, Internal)": "Rising Edge",
        "Trigger Stop (Positive, Negative, Internal)": "Rising Edge",
        "Sensor Bias (V)": "120 V",
        "Medipix Clock (MHz)": "120MHz",
        "Readout System": "Merlin",
        "Software Version": "1.5.0",
    }
    if scan:
        if len(nav_shape) != 2:
            raise ValueError(f"found scan {nav_shape}, but ScanX and ScanY describe two axes")
        lines["ScanY"], lines["ScanX"] = str(nav_shape[0]), str(nav_shape[1])
    body = "".join(f"{key}:\t{value}\r\n" for key, value in lines.items())
    return f"HDR,\t\r\n{body}End\t"
