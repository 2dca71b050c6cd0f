"""Functions for tests that say which array format they get, and compare it with the data."""

import numpy as np
from uncompiled import sparse
from uncompiled import sparseconverter as spc

from framefold.udf import UDF

DOK, GCXS = UDF.BACKEND_SPARSE_DOK, UDF.BACKEND_SPARSE_GCXS


class Asks(UDF):
    """Takes the formats that it is given, and processes nothing."""

    def get_backends(self):
        return self.params.formats

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"format": self.buffer("nav", dtype=object)}

    def process_tile(self, tile):
        self.results.format[:] = self.meta.array_backend


def as_dense(array):
    """By the array's own means, not by ours."""
    if isinstance(array, sparse.SparseArray):
        return array.todense()
    return array.toarray() if hasattr(array, "toarray") else np.asarray(array)


class Witness(UDF):
    """Compares what it gets with the data, and adds it up."""

    #: Formats whose own sums do not come into it: GCXS takes milliseconds for them, DOK knows none.
    summed_dense: tuple[str, ...] = (DOK, GCXS)

    def __init__(self, formats, frames, dtype=bool, tile_bytes=None, depth=None):
        super().__init__(
            formats=formats, frames=frames, dtype=dtype, tile_bytes=tile_bytes, depth=depth
        )

    def get_backends(self):
        return self.params.formats

    def get_preferred_input_dtype(self):
        return self.params.dtype

    def get_tiling_preferences(self):
        preferences = super().get_tiling_preferences()
        if self.params.depth is not None:
            preferences["depth"] = self.params.depth
        if self.params.tile_bytes is not None:
            preferences["total_size"] = self.params.tile_bytes
        return preferences

    def get_result_buffers(self):
        dtype = np.result_type(self.meta.input_dtype, np.float64)
        return {
            "each": self.buffer("nav", dtype=dtype, where="device"),
            "total": self.buffer("sig", dtype=dtype, where="device"),
            "n_cells": self.buffer("nav", dtype=int),
        }

    def merge(self, dest, src):
        dest.each[:] = src.each
        dest.total[:] += src.total
        dest.n_cells[:] = src.n_cells

    def get_results(self):
        assert self.meta.array_backend is None
        return super().get_results()

    def witness(self, array, one_frame):
        meta, (asked,) = self.meta, self.params.formats
        assert meta.array_backend == asked
        assert meta.device_class == "cpu"
        assert self.xp is np
        assert spc.get_backend(array) == asked
        part = meta.slice
        expected = self.params.frames[part.get()].astype(meta.input_dtype)
        shape = (1, *part.shape.sig) if one_frame else tuple(part.shape)
        assert expected.shape == shape
        if asked in UDF.D2_BACKENDS:
            shape = (shape[0], int(np.prod(shape[1:])))
        elif one_frame:
            shape = shape[1:]
        assert tuple(array.shape) == shape
        assert array.dtype == meta.input_dtype
        dense = as_dense(array)
        np.testing.assert_array_equal(dense, expected.reshape(shape))
        summed = dense if asked in self.summed_dense else array
        flat = summed.reshape((expected.shape[0], -1))
        self.results.each[:] += self.forbuf(flat.sum(axis=1), self.results.each)
        self.results.total[:] += self.forbuf(flat.sum(axis=0), self.results.total)
        self.results.n_cells[:] += flat.shape[1]


class Tiles(Witness):
    def process_tile(self, tile):
        self.witness(tile, False)


class Frames(Witness):
    def process_frame(self, frame):
        self.witness(frame, True)


class Partitions(Witness):
    summed_dense = (DOK,)

    def process_partition(self, partition):
        self.witness(partition, False)
        assert tuple(self.meta.slice.shape) == tuple(self.meta.partition_shape)


def check(result, frames):
    wide = frames.astype(np.result_type(frames.dtype, np.float64))
    np.testing.assert_array_equal(result["each"].raw_data, wide.sum(axis=(1, 2)))
    np.testing.assert_array_equal(result["total"].data, wide.sum(axis=0))
    assert (result["n_cells"].raw_data == frames[0].size).all()
