"""Writes TIFF files as programs of TVIPS, Olympus and Hamamatsu do.

The layouts are those that tifffile and rosettasciio read; no code is shared with the engine.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

#: The pixels of all files that are written here.
PIXELS = np.arange(48, dtype="u2").reshape(6, 8)
TVIPS, SIS = 37706, 33560


def write(path: Path, *tags: tuple[Any, ...], after: bytes = b"", **options: Any) -> int:
    """Write the pixels with tags of a maker; return where the bytes after all others begin."""
    how = {"photometric": "minisblack", "metadata": None, "byteorder": "<", **options}
    tifffile.imwrite(path, PIXELS, extratags=tags, **how)
    end = path.stat().st_size
    with path.open("ab") as file:
        file.write(after)
    return end


def tvips(fields: dict[str, Any], version: int = 2) -> bytes:
    """The structure of TVIPS with these fields, by the names that tifffile gives them."""
    first = np.zeros((), tifffile.TIFF.TVIPS_HEADER_V1)
    second = np.zeros((), tifffile.TIFF.TVIPS_HEADER_V2)
    first["Version"], second["Magic"] = version, 0xAAAAAAAA
    for name, value in fields.items():
        part = second if name in second.dtype.names else first
        if isinstance(value, str):
            size = second.dtype[name].itemsize
            value = np.void(value.encode("utf-16-le").ljust(size, b"\0"))
        part[name] = value
    return first.tobytes() + (second.tobytes() if version == 2 else b"")


def write_tvips(
    path: Path, fields: dict[str, Any], *, version: int = 2, apart: bool = False
) -> None:
    """Write a file of EM-MENU: the structure is in the tag, or ``apart``, where the tag points."""
    content = tvips(fields, version)
    if apart:
        end = write(path, (TVIPS, "I", 1, 0, True))
        write(path, (TVIPS, "I", 1, end, True), after=content)
    else:
        write(path, (TVIPS, "B", len(content), content, True))


def write_olympus(
    path: Path,
    *,
    size: tuple[float, float] = (2.0, 3.0),
    power: int = -9,
    when: tuple[int, int, int, int, int] = (2019, 12, 5, 14, 30),
    apart: bool = False,
) -> None:
    """Write a file of an Olympus program: sizes of a pixel (x, y) in 10^power m, and a date."""
    year, month, day, hour, minute = when
    times = (minute, hour, day, month - 1, year - 1900)
    block = struct.pack("<10xhdd8xd2x34s32s", power, *size, 5000.0, b"Veleta", b"TEM image")

    def header(place: int) -> bytes:
        head = struct.pack("<4s6x5h6x32sh", b"SIS0", *times, b"grid 3", 2)
        return head + struct.pack("<hhIhhI", 10, 1, 0, 1, 1, place)

    length = len(header(0))
    if apart:
        end = write(path, (SIS, "I", 1, 0, True))
        write(path, (SIS, "I", 1, end, True), after=header(end + length) + block)
    else:
        end = write(path, (SIS, "B", length, header(0), True))
        write(path, (SIS, "B", length, header(end), True), after=block)


def scaling(axis: str, **values: Any) -> str:
    """What HPD-TA says of an axis: ``Type``, ``Scale``, ``Unit`` and ``ScalingFile``."""
    quoted = {name: f'"{v}"' if isinstance(v, str) else v for name, v in values.items()}
    return ",".join(f"Scaling{axis}{name}={value}" for name, value in quoted.items())


def write_hamamatsu(
    path: Path,
    *,
    x: Iterable[float] | None = None,
    y: Iterable[float] | None = None,
    units: tuple[str, str] = ("nm", "ps"),
    other: tuple[str, str] | None = None,
) -> None:
    """Write a file of HPD-TA: tables of the values along x and y, or ``other`` words on both."""
    tables = [None if t is None else np.asarray(list(t), "<f4").tobytes() for t in (x, y)]

    def described(end: int) -> str:
        parts, place = [], end
        for axis, unit, table in zip("XY", units, tables, strict=True):
            file = "Other" if table is None else f"#{place:07d},{len(table) // 4:04d}"
            parts.append(scaling(axis, Type=2, Scale=1, Unit=unit, ScalingFile=file))
            place += 0 if table is None else len(table)
        return (
            '[Application],Date="08/08/2024",Time="11:50:25.535",Software="HPD-TA",Application=2\r\n'
            '[Camera],CameraName="C13440-20C",SerialNumber="S/N: 307069",Type=34\r\n'
            "[Acquisition],NrExposure=1,ExposureTime=100 ms,"
            'areSource="0,0,8,6",pntBinning="2,4"\r\n'
            "[Grabber],Type=5,SubType=0[DisplayLUT],EntrySize=7,Gamma=1\r\n"
            f'[Scaling],{",".join(other or parts)}[Comment],UserComment="a [b], c=d"'
        )

    after = b"".join(table for table in tables if table is not None)
    options = {"software": "HPD-TA 9.5 pf11"}
    tags = ((315, "s", 0, "Copyright Hamamatsu GmbH, 2020", True),)
    end = write(path, *tags, description=described(0), **options)
    write(path, *tags, description=described(end), after=after, **options)
