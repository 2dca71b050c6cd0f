"""Folders of Zarr arrays in groups: version 2, as HyperSpy reads it, and version 3."""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.results.layout import Stored
from framefold.results.trees import Attributes, Group

#: How many bytes are compressed at a time: a few hundredths of a second.
_PIECE = 1 << 20


def write_zarr(folder: Path, group: Group, version: int) -> None:
    """Write a group into a folder that is there.

    Each array is one chunk, compressed as gzip does it.

    Parameters
    ----------
    folder
        Empty.
    group
        As in :mod:`framefold.results.trees`. Of arrays, the attribute ``dimension_names`` names the
        axes.
    version
        Of Zarr, 2 or 3.
    """
    attributes, members = group
    if version == 2:
        _describe(folder / ".zgroup", {"zarr_format": 2})
        _describe(folder / ".zattrs", attributes)
    else:
        about = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        _describe(folder / "zarr.json", about)
    for name, (attributes, inside) in members:
        place = folder / name
        place.mkdir(exist_ok=True)  # what goes on with an earlier run finds some
        if isinstance(inside, list):
            write_zarr(place, (attributes, inside), version)
        elif isinstance(inside, Stored):
            _describe_stored(place, dict(attributes), inside)
        else:
            _write_array(place, dict(attributes), np.ascontiguousarray(inside), version)


def _write_array(
    folder: Path, attributes: Attributes, array: npt.NDArray[Any], version: int
) -> None:
    names = attributes.pop("dimension_names", None)
    shape, chunk = list(array.shape), [max(1, size) for size in array.shape]
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if version == 2:
        _describe(
            folder / ".zarray",
            {
                "zarr_format": 2,
                "shape": shape,
                "chunks": chunk,
                "dtype": little.dtype.str,
                "compressor": {"id": "zlib", "level": 1},
                "fill_value": None,
                "order": "C",
                "filters": None,
            },
        )
        _describe(folder / ".zattrs", attributes)
        wbits, file = zlib.MAX_WBITS, folder / ".".join("0" for _ in shape or "0")
    else:
        codecs = [_bytes("little"), {"name": "gzip", "configuration": {"level": 1}}]
        about = _version_3(array, shape, chunk, codecs, names, attributes)
        _describe(folder / "zarr.json", about)
        wbits, file = 16 + zlib.MAX_WBITS, folder.joinpath("c", *("0" for _ in shape))
        file.parent.mkdir(parents=True, exist_ok=True)
    if array.size:
        _write(file, _compressed(little, wbits))


def _compressed(array: npt.NDArray[Any], wbits: int) -> Iterator[bytes]:
    """The bytes of an array, compressed piece by piece: between pieces, Ctrl-C ends it."""
    packer = zlib.compressobj(1, wbits=wbits)
    data = array.reshape(-1).view(np.uint8)
    for start in range(0, len(data), _PIECE):
        yield packer.compress(data[start : start + _PIECE].data)
    yield packer.flush()


def _describe_stored(folder: Path, attributes: Attributes, array: Stored) -> None:
    """Describe an array whose data are there."""
    names = attributes.pop("dimension_names", None)
    sharding = {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": list(array.chunk),
            "codecs": [_bytes(sys.byteorder)],
            "index_codecs": [_bytes("little"), {"name": "crc32c"}],
            "index_location": "end",
        },
    }
    shape, shard = list(array.shape), list(array.shard)
    about = _version_3(array, shape, shard, [sharding], names, attributes)
    _describe(folder / "zarr.json", about)


def _bytes(endian: str) -> Attributes:
    return {"name": "bytes", "configuration": {"endian": endian}}


def _version_3(
    array: npt.NDArray[Any] | Stored,
    shape: list[int],
    chunk: list[int],
    codecs: list[Attributes],
    names: Any,
    attributes: Attributes,
) -> Attributes:
    """What an array of version 3 says of itself."""
    zero: Any = [0.0, 0.0] if array.dtype.kind == "c" else array.dtype.type(0).item()
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": array.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": zero,
        "codecs": codecs,
        "dimension_names": names,
        "attributes": attributes,
    }


def _describe(file: Path, content: Attributes) -> None:
    _write(file, [(json.dumps(content, indent=2) + "\n").encode()])


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file, and wait until it is on the disk: it gets its name afterwards."""
    with path.open("wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
