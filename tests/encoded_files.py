"""Files in chunks of bitshuffle with LZ4, whose chunks can be changed."""

from __future__ import annotations

import numpy as np

#: The number of bitshuffle among the filters of HDF5.
BITSHUFFLE = 32008


def random(dtype, shape, *, spread=5, seed=3):
    """Pixels whose bytes compress well, so that chunks are shorter than their pixels."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "fc":
        values = rng.integers(0, spread, shape).astype(dtype)
        return values + 1j * rng.integers(0, spread, shape) if dtype.kind == "c" else values
    return (rng.random(shape) * spread).astype(dtype)


def write(path, data, *, chunk_frames=1, nelems=0, cname="lz4", chunk=None):
    """Write frames of two axes; ``chunk`` is the shape of chunks."""
    import h5py
    import hdf5plugin

    chunk = chunk or (*[1] * (data.ndim - 3), chunk_frames, *data.shape[-2:])
    with h5py.File(path, "w") as file:
        filters = hdf5plugin.Bitshuffle(nelems=nelems, cname=cname)
        file.create_dataset("data", data=data, chunks=chunk, **filters)
    return path


def chunks_of(path):
    """The stored bytes of the chunks along the first axis."""
    import h5py

    with h5py.File(path) as file:
        data = file["data"]
        starts = [(i, *[0] * (data.ndim - 1)) for i in range(0, len(data), data.chunks[0])]
        return [bytes(data.id.read_direct_chunk(start)[1]) for start in starts]


def put(path, chunks):
    """Replace chunks of one frame: by number, bytes and the mask of filters that were left out."""
    import h5py

    with h5py.File(path, "r+") as file:
        data = file["data"]
        for number, (stored, mask) in chunks.items():
            data.id.write_direct_chunk((number, *[0] * (data.ndim - 1)), stored, filter_mask=mask)
