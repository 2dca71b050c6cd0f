"""HDF5, Zarr, K2 IS: what was written is read, whatever the shape, chunks, region and tiles."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_hdf5 import FILTERS, Frames, read, values
from vendor_files import write_k2is

import framefold as ff

h5py = pytest.importorskip("h5py", reason="h5py writes the files")

BOUNDED = settings(
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
DTYPES = ["u1", "<u2", ">u2", "<i4", ">i8", "<f4", ">f8", "f2", "<c8"]


@st.composite
def arrays_in_chunks(draw):
    """An array of 3 to 5 axes, and chunks that fit it somehow."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=3, max_size=5)))
    chunks = tuple(draw(st.integers(1, n)) for n in shape)
    dtype = draw(st.sampled_from(DTYPES))
    return values(shape, dtype, seed=draw(st.integers(0, 99))), chunks


@st.composite
def ways_to_read(draw):
    return draw(st.integers(1, 9)), draw(st.integers(1, 400)), draw(st.integers(0, 2**32))


def check(dataset, array, how):
    """All frames in tiles, and a region of them."""
    depth, size, seed = how
    flat = array.reshape((-1, *array.shape[-2:]))
    found = read(dataset, tile=(depth, size)).reshape(flat.shape)
    assert np.array_equal(found, flat)
    roi = np.random.default_rng(seed).random(tuple(dataset.shape.nav)) < 0.5
    if not roi.any():
        return
    udf = Frames(tile=(depth, size), dtype=dataset.dtype, sig=tuple(dataset.shape.sig))
    picked = ff.Context.make_with("inline").run_udf(dataset, udf, roi=roi)["frames"].raw_data
    assert np.array_equal(np.asarray(picked).reshape((-1, *flat.shape[1:])), flat[roi.reshape(-1)])


@BOUNDED
@given(given_=arrays_in_chunks(), how=ways_to_read(), name=st.sampled_from(sorted(FILTERS)))
def test_hdf5(given_, how, name):
    array, chunks = given_
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.h5"
        with h5py.File(path, "w", libver="earliest" if how[0] % 2 else "latest") as file:
            file.create_dataset("x", data=array, chunks=chunks, **FILTERS[name])
        check(ff.Context().load("hdf5", path, ds_path="x"), array, how)


@BOUNDED
@given(given_=arrays_in_chunks(), how=ways_to_read(), parts=st.integers(1, 4))
def test_virtual_hdf5(given_, how, parts):
    """Cut along a random axis into files of their own, and put together again."""
    array, chunks = given_
    axis = how[2] % array.ndim
    with tempfile.TemporaryDirectory() as folder:
        layout = h5py.VirtualLayout(shape=array.shape, dtype=array.dtype)
        edges = np.linspace(0, array.shape[axis], min(parts, array.shape[axis]) + 1).astype(int)
        for start, stop in pairwise(edges):
            where = (slice(None),) * axis + (slice(start, stop),)
            part = array[where]
            fitting = tuple(map(min, chunks, part.shape))
            with h5py.File(Path(folder) / f"{start}.h5", "w") as file:
                file.create_dataset("d", data=part, chunks=fitting, compression="gzip")
            layout[where] = h5py.VirtualSource(f"{start}.h5", "d", shape=part.shape)
        path = Path(folder) / "a.h5"
        with h5py.File(path, "w", libver="earliest" if how[0] % 2 else "latest") as file:
            file.create_virtual_dataset("x", layout)
        check(ff.Context().load("hdf5", path, ds_path="x"), array, how)


@BOUNDED
@given(given_=arrays_in_chunks(), how=ways_to_read(), version=st.sampled_from([2, 3]))
def test_zarr(given_, how, version):
    zarr = pytest.importorskip("zarr", reason="zarr writes the arrays")
    array, chunks = given_
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.zarr"
        made = zarr.create_array(
            path, shape=array.shape, dtype=array.dtype, chunks=chunks, zarr_format=version
        )
        made[...] = array
        check(ff.Context().load("zarr", path), array, how)


@settings(BOUNDED, max_examples=8)
@given(n_frames=st.integers(1, 3), how=ways_to_read())
def test_k2is(n_frames, how):
    rng = np.random.default_rng(how[2])
    frames = rng.integers(0, 4096, size=(n_frames, 1860, 2048), dtype="u2")
    with tempfile.TemporaryDirectory() as folder:
        gtg = write_k2is(folder, "a", frames)
        dataset = ff.Context().load("k2is", gtg, nav_shape=(n_frames,), sync_offset=0)
        check(dataset, frames, (how[0], how[1] * 20_000, how[2]))
