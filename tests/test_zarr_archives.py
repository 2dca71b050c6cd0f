"""Arrays of Zarr in archives of ZIP, whole and damaged."""

from __future__ import annotations

import pickle
import zipfile

import numpy as np
import pytest
from real_files import manifest, real_file
from test_archives import problem
from test_hdf5 import read, values

import framefold as ff
from framefold.exceptions import FramefoldError

zarr = pytest.importorskip("zarr", minversion="3.0", reason="zarr writes the folders")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archives(tmp_path, version, method):
    array = values((4, 6, 8, 16), "u2")
    for name, options in [
        ("plain.zarr.zip", {"compressors": None}),
        ("packed.zip", {}),
        ("shards.zarr.zip", {"shards": (2, 6, 8, 16)} if version == 3 else {}),
    ]:
        path = tmp_path / name
        store = zarr.storage.ZipStore(path, mode="w", compression=method)
        zarr.create_array(store, data=array, chunks=(1, 2, 8, 16), zarr_format=version, **options)
        store.close()
        for kind in ("auto", "zarr"):
            dataset = ff.Context().load(kind, path)
            assert dataset.format == "zarr"
            assert np.array_equal(read(dataset), array)
        assert np.array_equal(read(pickle.loads(pickle.dumps(dataset))), array)


def test_groups_in_archives(tmp_path):
    array = values((4, 6, 8, 16), "u2")
    path = tmp_path / "a.zarr.zip"
    store = zarr.storage.ZipStore(path, mode="w")
    group = zarr.create_group(store)
    group.create_array("a/small", data=array[:2], chunks=(1, 2, 8, 16))
    group.create_array("a/b/large", data=array, chunks=(1, 2, 8, 16))
    store.close()
    ctx = ff.Context()
    assert np.array_equal(read(ctx.open(path)), array)
    assert np.array_equal(read(ctx.open(path, ds_path="a/small")), array[:2])
    with pytest.raises(FramefoldError, match="no array"):
        ctx.open(path, ds_path="a/none")


def test_archives_that_are_damaged(tmp_path):
    array = values((2, 3, 4, 5), "u2")
    path = tmp_path / "a.zarr.zip"
    store = zarr.storage.ZipStore(path, mode="w", compression=zipfile.ZIP_DEFLATED)
    zarr.create_array(store, data=array, chunks=(2, 3, 4, 5), zarr_format=2)
    store.close()
    whole = path.read_bytes()
    ctx = ff.Context()
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(FramefoldError):
            ctx.load("zarr", path)
    # Most of what matters is in the list at the end.
    for at in range(len(whole)):
        for value in (0, 0x7F, 0xFF)[at % 3 :][:1]:
            damaged = bytearray(whole)
            damaged[at] = value
            path.write_bytes(damaged)
            error = problem(lambda: read(ctx.load("zarr", path)))
            assert "bug in framefold" not in error


def test_a_real_archive():
    path = real_file("ZSPY/rosettasciio/signal1d_10x100-model.zspy")
    dataset = ff.Context().open(path)
    entries = [entry for entry in manifest("ZSPY") if entry["file"].endswith(path.name)]
    reading = entries[0]["readings"][0]
    frames = read(dataset)
    assert (frames.dtype, frames.size) == (reading["dtype"], np.prod(reading["shape"]))
    assert (frames.min(), frames.max(), frames.sum()) == tuple(
        reading[name] for name in ("min", "max", "sum_f64")
    )
    for index, value in reading["probes"]:
        assert frames.reshape(reading["shape"])[tuple(index)] == value
