"""Writes files of microscopes' formats, from the descriptions of the formats alone.

No code is shared with the readers, so that tests can hold one against the other.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

DM_TYPES = {
    "int16": (1, 2),
    "float32": (2, 6),
    "complex64": (3, 6),
    "uint8": (6, 10),
    "int32": (7, 3),
    "int8": (9, 9),
    "uint16": (10, 4),
    "uint32": (11, 5),
    "float64": (12, 7),
    "complex128": (13, 7),
}
SER_TYPES = [
    "uint8",
    "uint16",
    "uint32",
    "int8",
    "int16",
    "int32",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def write_dm(path, array, *, version=4, swapped=None, spectra=False, tags=None, first=None):
    """Write an array whose last axis is the fastest as the one image of a DM file.

    ``tags`` are those of the image, ``first`` those that the stack builder keeps of the first of
    its images: dictionaries of dictionaries, texts and floats.
    """
    word = struct.Struct(">Q" if version == 4 else ">I").pack

    def entry(kind, name, content):
        length = struct.pack(">Q", len(content)) if version == 4 else b""
        return struct.pack(">BH", kind, len(name)) + name.encode() + length + content

    def group(*entries):
        return b"\1\0" + word(len(entries)) + b"".join(entries)

    def value(words, content):
        return b"%%%%" + word(len(words)) + b"".join(map(word, words)) + content

    def number(name, n):
        return entry(21, name, value([5], struct.pack("<I", n)))

    def text(name, content):
        units = content.encode("utf-16-le")
        return entry(21, name, value([20, 4, len(content)], units))

    def real(name, n):
        return entry(21, name, value([6], struct.pack("<f", n)))

    def calibration(name, scale, unit):
        return entry(20, name, group(real("Origin", 0), real("Scale", scale), text("Units", unit)))

    def all_of(values):
        kinds = {dict: lambda name, v: entry(20, name, group(*all_of(v))), str: text, float: real}
        return [kinds[type(value)](name, value) for name, value in values.items()]

    code, element = DM_TYPES[array.dtype.name]
    words = [20, element, array.size]
    if array.dtype.kind == "c":
        words = [20, 15, 0, 2, 0, element, 0, element, array.size]
    little = array.astype(array.dtype.newbyteorder("<"))
    meta = []
    if swapped is not None:
        meta.append(entry(21, "Data Order Swapped", value([8], bytes([swapped]))))
    if spectra:
        meta.append(text("Format", "Spectrum image"))
    steps = group(*(calibration("", 2, "nm") for _ in array.shape))
    data = group(
        entry(
            20,
            "Calibrations",
            group(calibration("Brightness", 1, ""), entry(20, "Dimension", steps)),
        ),
        entry(21, "Data", value(words, little.tobytes())),
        number("DataType", code),
        entry(20, "Dimensions", group(*(number("", n) for n in array.shape[::-1]))),
    )
    more = dict(tags or {})
    meta += all_of(more.pop("Meta Data", {}))
    if first is not None:
        more["source"] = {"source name": "HAADF", "Tags at creation": first}
    image = group(
        entry(20, "ImageData", data),
        entry(20, "ImageTags", group(entry(20, "Meta Data", group(*meta)), *all_of(more))),
    )
    root = group(entry(20, "ImageList", group(entry(20, "", image))))
    start = struct.pack(">I", version) + word(len(root)) + struct.pack(">I", 1)
    Path(path).write_bytes(start + root + bytes(8))


def write_ser(path, frames, *, planned=None, steps=((0, 0), (0, 0)), known=0):
    """Write frames (or spectra) as elements of a series; ``steps`` are (start, step), x first.

    The starts are those of the position ``known`` of each axis.
    """
    planned = planned or len(frames)
    is_image = frames.ndim == 3
    start = struct.pack(
        "<HHHiiii",
        0x4949,
        0x0197,
        0x0220,
        0x4122 if is_image else 0x4120,
        0x4152,
        planned,
        len(frames),
    )
    axes = struct.pack("<iiddi", 1, planned, 0, 1, 0) + struct.pack("<i", 0) * 2
    array = len(start) + 8 + len(axes)
    elements, offsets = b"", []
    at = array + 16 * planned
    for frame in frames:
        axes_of_frame = steps[: frame.ndim]
        element = b"".join(struct.pack("<ddi", start, step, known) for start, step in axes_of_frame)
        element += struct.pack("<h", 1 + SER_TYPES.index(frame.dtype.name))
        element += struct.pack(f"<{frame.ndim}i", *frame.shape[::-1])
        rows = frame[::-1] if is_image else frame
        element += rows.astype(frame.dtype.newbyteorder("<")).tobytes()
        offsets.append(at)
        at += len(element) + 8
        elements += element + bytes(8)
    table = struct.pack(f"<{planned}q", *offsets, *[0] * (planned - len(frames)))
    Path(path).write_bytes(start + struct.pack("<q", array) + axes + table * 2 + elements)


def write_tvips(folder, name, frames, *, positions=None, files=1):
    """Write frames as a series of files; ``positions`` are (y, x) of each frame."""
    bits = 8 * frames.dtype.itemsize
    fields = [256, 2, frames.shape[2], frames.shape[1], bits, 0, 0, 1, 1, 15500, 200, 80, 80]
    header = struct.pack("<13i", *fields).ljust(256, b"x")
    paths = []
    for number, chosen in enumerate(np.array_split(np.arange(len(frames)), files)):
        content = header if number == 0 else b""
        for index in chosen:
            y, x = positions[index] if positions else (0, 0)
            record = struct.pack("<I", index).ljust(68, b"\0") + struct.pack("<ff", x, y)
            content += record.ljust(80, b"\0") + frames[index].tobytes()
        paths.append(Path(folder) / f"{name}_{number:03d}.tvips")
        paths[-1].write_bytes(content)
    return paths


def write_k2is(folder, name, frames, *, idle=0, scan=None):
    """Write frames of 1860 x 2048 pixels as a .gtg file and those of eight sectors."""
    folder = Path(folder)

    def entry(kind, name, content):
        length = struct.pack(">Q", len(content))
        return struct.pack(">BH", kind, len(name)) + name.encode() + length + content

    def group(*entries):
        return b"\1\0" + struct.pack(">Q", len(entries)) + b"".join(entries)

    def number(name, n):
        return entry(21, name, b"%%%%" + struct.pack(">QQ", 1, 5) + struct.pack("<I", n))

    tags = group()
    if scan is not None:
        shape = group(number("Size Y", scan[0]), number("Size X", scan[1]))
        tags = group(entry(20, "SI Dimensions", shape))
    gtg = folder / f"{name}.gtg"
    gtg.write_bytes(struct.pack(">IQI", 4, len(tags), 1) + tags + bytes(8))
    for sector in range(8):
        with (folder / f"{name}{sector + 1}.bin").open("wb") as file:
            for index, frame in enumerate(frames):
                for block in range(32):
                    x, y = (15 - block % 16) * 16, block // 16 * 930
                    pixels = frame[y : y + 930, sector * 256 + x :][:, :16]
                    file.write(struct.pack(">II", 0xFFFF0055, 0))
                    file.write(bytes([1, index >= idle]) + bytes(6))
                    file.write(struct.pack(">IHHI", 32 * index + block, 256, 1860, index))
                    file.write(struct.pack(">HHHHI", x, y, x + 15, y + 929, 22360))
                    file.write(pack_12_bits(pixels))
    return gtg


def pack_12_bits(pixels):
    """Three bytes for each pair of pixels."""
    pairs = pixels.reshape(-1, 2)
    packed = np.empty((len(pairs), 3), dtype=np.uint8)
    packed[:, 0] = pairs[:, 0] & 0xFF
    packed[:, 1] = (pairs[:, 0] >> 8) | ((pairs[:, 1] & 0x0F) << 4)
    packed[:, 2] = pairs[:, 1] >> 4
    return packed.tobytes()
