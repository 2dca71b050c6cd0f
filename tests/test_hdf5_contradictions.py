"""HDF5 files that contradict themselves, as damaged ones do: their metadata have no checksums."""

from __future__ import annotations

import struct

import h5py
import numpy as np
import pytest
from test_hdf5 import read

import framefold as ff
from framefold.exceptions import BadFileError

SHAPE, CHUNK = (3, 4, 6, 8), (1, 2, 6, 8)


def write(path, **options):
    data = (np.arange(np.prod(SHAPE)) * 7 % 251).reshape(SHAPE).astype("uint16")
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("data", data=data, **options)
    assert np.array_equal(read(ff.Context().open(path)), data)


def change(path, old, new):
    """Replaces the first place of these bytes by others."""
    whole = path.read_bytes()
    assert whole.count(old) >= 1
    path.write_bytes(whole.replace(old, new, 1))


def refused(path):
    with pytest.raises(BadFileError) as error:
        read(ff.Context().open(path))
    return str(error.value)


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("chunks", [None, CHUNK])
def test_arrays_that_are_larger_than_they_may_get(tmp_path, axis, chunks):
    """Of arrays that are not in chunks, smaller ones are refused, too: they never change."""
    path = tmp_path / "a.h5"
    for length in (SHAPE[axis] + 1, 1):
        write(path, chunks=chunks)
        lengths = list(SHAPE)
        lengths[axis] = length
        change(path, struct.pack("<4Q", *SHAPE), struct.pack("<4Q", *lengths))
        if chunks and length == 1:
            continue
        assert f"the shape {lengths}, and the largest that it may get is" in refused(path)


def key(*offsets, n_bytes=192):
    return struct.pack("<II5Q", n_bytes, 0, *offsets, 0, 0, 0)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        # One of them would be read twice, and the other one be full of zeros.
        (key(1, 2), key(1, 0), "one at [1, 0, 0, 0] that is there a second time"),
        (key(1, 2), key(9, 2), "one at [9, 2, 0, 0] behind the largest shape of the array"),
        (key(1, 2), key(1, 2, n_bytes=96), "[1, 2, 0, 0] of 96 bytes, where its pixels take 192"),
        # The shape of chunks, with the bytes of an element.
        (struct.pack("<5I", *CHUNK, 2), struct.pack("<5I", 1, 2, 3, 8, 2), "its pixels take 96"),
        # A node of the list of chunks that says to be one of a list of groups.
        (b"TREE\1\0", b"TREE\0\0", "a node of a list of groups"),
    ],
    ids=["twice", "outside", "length", "shape", "node"],
)
def test_lists_of_chunks_that_cannot_be(tmp_path, old, new, words):
    path = tmp_path / "a.h5"
    write(path, chunks=CHUNK)
    change(path, old, new)
    assert words in refused(path)


def test_chunks_of_when_the_array_was_larger_are_left_out(tmp_path):
    path = tmp_path / "a.h5"
    write(path, chunks=CHUNK, maxshape=(None, 4, 6, 8))
    with h5py.File(path, "r+") as file:
        file["data"].resize(2, axis=0)
        data = file["data"][:]
    assert np.array_equal(read(ff.Context().open(path)), data)
    write(path, chunks=CHUNK, maxshape=(None, 4, 6, 8))
    change(path, struct.pack("<4Q", *SHAPE), struct.pack("<4Q", 2, *SHAPE[1:]))
    assert np.array_equal(read(ff.Context().open(path)), data)
