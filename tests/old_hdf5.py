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


def with_one_attribute_for_all(path: Path) -> int:
    """Lets the index of attributes by name lead to one large attribute again and again.

    Leaves of the index have a signature, a version and a type, then records of 17 bytes, of which
    the first eight say where the attribute is, then a checksum. Returns how many were changed.
    """
    data = bytearray(path.read_bytes())
    places, at = [], data.find(b"BTLF\0\x08")
    while at >= 0:
        for n in range(29, 0, -1):
            end = at + 6 + 17 * n
            if struct.unpack_from("<I", data, end)[0] == checksum(data[at:end]):
                places.append((at, end))
                break
        at = data.find(b"BTLF\0\x08", at + 1)
    records = [record for at, end in places for record in range(at + 6, end, 17)]
    large = next(data[record : record + 8] for record in records if data[record] >> 4 == 1)
    for record in records:
        data[record : record + 8] = large
    for at, end in places:
        struct.pack_into("<I", data, end, checksum(data[at:end]))
    path.write_bytes(data)
    return len(records)


def checksum(data: bytes) -> int:
    """Of Bob Jenkins's "lookup3", which is in the public domain."""

    def turned(x: int, n: int) -> int:
        return (x << n | x >> (32 - n)) & 0xFFFFFFFF

    abc = [(0xDEADBEEF + len(data)) & 0xFFFFFFFF] * 3
    while len(data) > 12:
        abc = [
            x + y & 0xFFFFFFFF for x, y in zip(abc, struct.unpack_from("<3I", data), strict=True)
        ]
        for step, n in enumerate((4, 6, 8, 16, 19, 4)):
            i, j, k = step % 3, (step + 1) % 3, (step + 2) % 3
            abc[i] = (abc[i] - abc[k] & 0xFFFFFFFF) ^ turned(abc[k], n)
            abc[k] = abc[k] + abc[j] & 0xFFFFFFFF
        data = data[12:]
    rest = struct.unpack("<3I", bytes(data).ljust(12, b"\0"))
    abc = [x + y & 0xFFFFFFFF for x, y in zip(abc, rest, strict=True)]
    for step, n in enumerate((14, 11, 25, 16, 4, 14, 24)):
        i, k = (step + 2) % 3, (step + 1) % 3
        abc[i] = (abc[i] ^ abc[k]) - turned(abc[k], n) & 0xFFFFFFFF
    return abc[2]
