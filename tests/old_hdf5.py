"""Files of HDF5 as programs of long ago wrote them, made from those of h5py."""

from __future__ import annotations

import struct
from pathlib import Path

import h5py

LAYOUT, CONTINUATION = 8, 16


def with_old_layout(path: Path, name: str, version: int) -> None:
    """Rewrites where a data set says that its pixels are, as libhdf5 before 1.6.3 did.

    From the file format specification: version, number of sizes, class, five reserved bytes, an
    address unless the pixels are in the message, sizes of four bytes, of which the last is that of
    an element, and then, if they are in the message, their length and the pixels. It needs more
    room than that of version 3, so it goes to the end of the file, and the header on with it there.
    """
    with h5py.File(path) as file:
        header = h5py.h5o.get_info(file[name].id).addr
        shape, size = file[name].chunks or file[name].shape, file[name].dtype.itemsize
    data = bytearray(path.read_bytes())
    assert data[header] == 1, "a header of version 1"
    at, end = header + 16, header + 16 + struct.unpack_from("<I", data, header + 8)[0]
    while struct.unpack_from("<H", data, at)[0] != LAYOUT:
        at += 8 + struct.unpack_from("<H", data, at + 2)[0]
        assert at < end
    new, kind = data[at + 8 : at + 10]
    assert new == 3
    sizes = struct.pack(f"<{len(shape) + 1}I", *shape, size)
    old = struct.pack("<BBB5x", version, len(shape) + 1, kind)
    if kind == 0:
        (length,) = struct.unpack_from("<H", data, at + 10)
        old += sizes + struct.pack("<I", length) + data[at + 12 : at + 12 + length]
    else:
        old += data[at + 10 + (kind == 2) : at + 18 + (kind == 2)] + sizes
    old += bytes(-len(old) % 8)
    message = struct.pack("<HHB3x", LAYOUT, len(old), 0) + old
    struct.pack_into("<H", data, at, CONTINUATION)
    struct.pack_into("<QQ", data, at + 8, len(data), len(message))
    (n_messages,) = struct.unpack_from("<H", data, header + 2)
    struct.pack_into("<H", data, header + 2, n_messages + 1)
    data += message
    assert data[8] == 0, "a superblock of version 0"
    struct.pack_into("<Q", data, 40, len(data))
    path.write_bytes(data)
