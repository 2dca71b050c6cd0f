"""What chunks of Zarr hold that were never written."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from test_hdf5 import read, values

import framefold as ff
from framefold.exceptions import FramefoldError

zarr = pytest.importorskip("zarr", minversion="3.0", reason="zarr writes the folders")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("dtype", ["u1", "<u2", ">i4", "f2", "<f4", ">f8", "<c8", "?"])
def test_every_dtype_and_fill_value(tmp_path, version, dtype):
    if version == 3 and dtype.startswith(">"):
        dtype = dtype[1:]  # the byte order is that of a codec
    array = values((4, 6, 8, 16), dtype)
    fill = np.ones((), dtype=dtype)[()]
    path = tmp_path / "a.zarr"
    stored = zarr.create_array(
        path,
        shape=(5, 6, 8, 16),
        chunks=(1, 2, 8, 16),
        dtype=dtype,
        fill_value=fill,
        zarr_format=version,
    )
    stored[:4] = array
    dataset = ff.Context().load("zarr", path)
    found = read(dataset)
    assert dataset.dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(found[:4], array)
    assert (found[4] == fill).all()


FILLS = [
    ("float16", 0.3, 0x34CD),
    ("float16", 2.0029296875, 0x4002),  # in the middle: to even
    ("float16", 6e-8, 0x0001),
    ("float16", "0xfc01", 0xFC01),
    ("float32", "0x7fc00001", 0x7FC00001),
    ("float64", "0xBFF0000000000000", 0xBFF0000000000000),
    ("complex64", ["0x3f800000", 2], 0x40000000_3F800000),
    ("int8", -128, 0x80),
    ("uint8", 255, 0xFF),
    ("uint64", 2**64 - 1, 2**64 - 1),
    ("bool", True, 1),
    ("int8", 128, None),
    ("int16", -32769, None),
    ("uint8", 256, None),
    ("uint8", -1, None),
    ("uint64", -1, None),
    ("int64", 1e19, None),
    ("bool", 2, None),
    ("float32", "0x7fc0", None),
    ("float32", "0x+7fc0000", None),
    ("int32", "0x00000001", None),
]


@pytest.mark.parametrize(("dtype", "value", "bits"), FILLS)
@pytest.mark.parametrize("endian", ["little", "big"])
def test_fill_values_bit_by_bit(tmp_path, dtype, value, bits, endian):
    path = tmp_path / "a.zarr"
    zarr.create_array(path, shape=(2, 3, 4), chunks=(1, 3, 4), dtype=dtype)
    described = json.loads((path / "zarr.json").read_text())
    described["fill_value"] = value
    if dtype not in ("int8", "uint8", "bool"):
        described["codecs"][0]["configuration"]["endian"] = endian
    (path / "zarr.json").write_text(json.dumps(described))
    if bits is None:
        with pytest.raises(FramefoldError, match=rf"fill value .* is none of {dtype}"):
            ff.Context().open(path)
        return
    found = read(ff.Context().open(path))
    same = np.frombuffer(bits.to_bytes(found.itemsize, sys.byteorder), found.dtype)
    assert found.tobytes() == np.broadcast_to(same, found.shape).tobytes()
