"""Virtual HDF5 data sets of another dtype than their sources, as h5py reads them."""

from __future__ import annotations

import numpy as np
import pytest
from shared_contexts import shared
from test_hdf5 import read
from test_hdf5_virtual import expected, save

import framefold as ff
from framefold.exceptions import FramefoldError

h5py = pytest.importorskip("h5py", reason="h5py writes the files")

REAL = ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]
ALL = ["?", *REAL, "c8", "c16"]
SHAPE = (5, 8, 16)


def edges(dtype):
    """Numbers around those at which a conversion changes what it does."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(7)
    size = int(np.prod(SHAPE))
    if dtype.kind == "b":
        return rng.random(SHAPE) < 0.5
    if dtype.kind == "c":
        return edges(f"f{dtype.itemsize // 2}").astype(dtype) + 1j * edges("i1")
    powers = [0, 1, 7, 8, 10, 11, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63, 64, 100, 127, 128]
    near = [sign * 2**power + by for power in powers for by in range(-2, 3) for sign in (1, -1)]
    if dtype.kind == "f":
        near += [65504, 65519, 65520, 0.4, -0.6, 1.5, -1e-7, 1e-40, np.inf, -np.inf, np.nan]
        near += [float(np.finfo(kind).max) * scale for kind in "fd" for scale in (1, -1)]
        near += [float(np.finfo("f").max) * (1 + 2.0**-k) for k in (24, 25, 26)]
    else:
        limits = np.iinfo(dtype)
        near = [number for number in near if limits.min <= number <= limits.max]
        near += [limits.min, limits.max]
    with np.errstate(over="ignore"):
        found = np.array(near, dtype=object).astype("f8" if dtype.kind == "f" else dtype)
        found = found.astype(dtype)
        if dtype.kind == "f":
            found = np.concatenate([found, np.nextafter(found, dtype.type(np.inf))])
    return rng.permutation(np.resize(found, size)).reshape(SHAPE)


def sure(frames, stored, dtype):
    """The numbers of which HDF5 makes the same thing whatever the machine and the version."""
    odd = np.zeros(frames.shape, dtype=bool)
    if dtype.kind in "ui":
        limits = np.iinfo(dtype)
        if stored.kind == "f":
            limit = np.array(limits.max).astype(frames.dtype)
            odd = np.isnan(frames) | ((frames == limit) & (int(limit) != limits.max))
        elif stored.itemsize == dtype.itemsize and stored.isnative != dtype.isnative:
            odd = (frames < limits.min) | (frames > limits.max)
    return np.where(odd, frames.dtype.type(0), frames)


def shown(path, frames, dtype, **how):
    """A virtual data set of that dtype that shows those frames."""
    with h5py.File(path.parent / "source.h5", "w") as file:
        file.create_dataset("data", data=frames, **how)
    layout = h5py.VirtualLayout(shape=frames.shape, dtype=dtype)
    layout[...] = h5py.VirtualSource("source.h5", "data", shape=frames.shape)
    return save(path, layout, name="x")


def same(found, wanted):
    """Including the sign of zero."""
    if wanted.dtype.kind == "c":
        return same(found.real, wanted.real) and same(found.imag, wanted.imag)
    if wanted.dtype.kind != "f":
        return np.array_equal(found, wanted)
    signs = [np.signbit(array)[~np.isnan(wanted)] for array in (found, wanted)]
    return np.array_equal(found, wanted, equal_nan=True) and np.array_equal(*signs)


def refused(stored, dtype):
    """What h5py cannot read either, or what HDF5 does in other ways by byte order and version."""
    if dtype.kind == "b" or (stored.kind == "c") != (dtype.kind == "c"):
        return True
    if "f2" in (stored.str[1:], dtype.str[1:]):
        return (stored.str[1:], dtype.kind) != ("f2", "f")
    shorter = dtype.kind in "ui" or dtype.itemsize < stored.itemsize
    return stored.kind in "fc" and shorter and not (stored.isnative and dtype.isnative)


@pytest.mark.parametrize("orders", ["<<", "<>", "><", ">>"])
@pytest.mark.parametrize("stored", ALL)
def test_every_pair_is_converted_as_hdf5_does_it(tmp_path, stored, orders):
    frames = edges(stored)
    stored = frames.dtype.newbyteorder(orders[0])
    for dtype in ALL:
        dtype = np.dtype(dtype).newbyteorder(orders[1])
        if stored.newbyteorder("=") == dtype.newbyteorder("="):
            continue
        if refused(stored, dtype):
            path = shown(tmp_path / "a.h5", frames.astype(stored), dtype)
            message = f"{dtype.name}.* but 'data' of 'source.h5' .*{stored.name}.*: HDF5"
            with pytest.raises(FramefoldError, match=message):
                ff.Context().open(path)
            continue
        path = shown(tmp_path / "a.h5", sure(frames, stored, dtype).astype(stored), dtype)
        dataset = ff.Context().open(path)
        assert dataset.dtype == dtype.newbyteorder("=")
        assert same(read(dataset), expected(path, "x")), (stored, dtype)


@pytest.mark.parametrize("stored", ["<f8", "<f4", ">i4"])
@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_parts_of_frames_and_of_the_scan(tmp_path, stored, executor):
    frames = np.random.default_rng(5).normal(0, 300, size=(21, 12, 14)).astype(stored)
    path = shown(tmp_path / "a.h5", frames, "<i2", chunks=(2, 5, 14), compression="gzip")
    wanted = expected(path, "x")
    dataset = ff.Context().open(path)
    for tile in [None, (1, 40), (3, 400), (40, 10**6)]:
        assert np.array_equal(read(dataset, tile=tile), wanted), tile
    roi = np.random.default_rng(4).random(21) < 0.4
    with shared(executor, cpus=2) as ctx:
        found = ctx.run_udf(dataset, ff.SumUDF(), roi=roi)["intensity"].data
    assert np.array_equal(found, wanted[roi].sum(axis=0))


def test_sources_of_several_dtypes_beside_what_nothing_is_shown_of(tmp_path):
    rng = np.random.default_rng(9)
    layout = h5py.VirtualLayout(shape=(9, 12, 10), dtype="u1")
    with h5py.File(tmp_path / "parts.h5", "w") as file:
        file["wide"] = rng.integers(-300, 300, size=(4, 12, 10), dtype="i4")
        file["plain"] = rng.integers(0, 255, size=(3, 12, 10), dtype="u1")
        file.create_dataset("partly", (2, 5, 10), "i2", chunks=(1, 5, 10), fillvalue=-7)[0] = 300
    for name, where in [("wide", np.s_[:4]), ("plain", np.s_[4:7]), ("partly", np.s_[7:, 3:8])]:
        with h5py.File(tmp_path / "parts.h5") as file:
            shape = file[name].shape
        layout[where] = h5py.VirtualSource("parts.h5", name, shape=shape)
    path = save(tmp_path / "a.h5", layout, name="x", fillvalue=77)
    dataset = ff.Context().open(path)
    assert np.array_equal(read(dataset), expected(path, "x"))
    assert set(np.unique(read(dataset)[7:])) == {0, 77, 255}


def test_virtual_ones_within_others_are_converted_once(tmp_path):
    frames = np.array([300, 5, 70000, 255] * 20, dtype="u4").reshape((4, 4, 5))
    with h5py.File(tmp_path / "source.h5", "w") as file:
        file["data"] = frames
    inner = h5py.VirtualLayout(shape=(5, 4, 5), dtype="i1")
    inner[:4] = h5py.VirtualSource("source.h5", "data", shape=(4, 4, 5))
    save(tmp_path / "inner.h5", inner, name="x", fillvalue=-3)
    outer = h5py.VirtualLayout(shape=(5, 4, 5), dtype="i2")
    outer[...] = h5py.VirtualSource("inner.h5", "x", shape=(5, 4, 5))
    path = save(tmp_path / "outer.h5", outer, name="x")
    wanted = expected(path, "x")
    assert wanted.max() == 32767
    assert wanted[0, 0, 0] == 300
    assert np.array_equal(read(ff.Context().open(path)), wanted)


@pytest.mark.parametrize(
    ("stored", "dtype", "value"),
    [
        ("f4", "i4", 2.0**31),
        ("f8", "u8", 2.0**64),
        ("f4", "u1", np.nan),
        (">u2", "<i2", 40000),
        ("<i4", ">u4", -1),
    ],
)
def test_values_of_which_hdf5_makes_this_or_that_are_refused(tmp_path, stored, dtype, value):
    frames = np.zeros((4, 8, 10), dtype=stored)
    path = shown(tmp_path / "a.h5", frames, dtype)
    assert not read(ff.Context().open(path)).any()
    frames[2, 3, 4] = value
    path = shown(tmp_path / "a.h5", frames, dtype)
    dataset = ff.Context().open(path)
    with pytest.raises(FramefoldError, match=r"(?s)cannot hold.*frame 2") as caught:
        read(dataset)
    assert "source.h5" in str(caught.value)
    # Other frames can be read.
    roi = np.array([True, True, False, True])
    assert not ff.Context().run_udf(dataset, ff.SumUDF(), roi=roi)["intensity"].data.any()
