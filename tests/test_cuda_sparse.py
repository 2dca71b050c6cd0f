"""Sparse data on devices: what is converted there, how often, and how exactly. On a stand-in."""

from __future__ import annotations

import threading

import fake_cupy
import numpy as np
import pytest
from cuda_udfs import CUPY, CUPYX, NAV, SIG, Frames, Sums, Tiles, check, check_released
from sparse_files import counts, write_raw_csr

import framefold as ff
from framefold.arrays import convert as door
from framefold.arrays.cuda import tiles as device_tiles
from framefold.udf import UDF

CSR, CSC, COO = CUPYX


@pytest.fixture(params=[False, True], ids=["late", "early"])
def machine(request, monkeypatch):
    return fake_cupy.install(monkeypatch, early=request.param)


@pytest.fixture
def ctx():
    with ff.Context.make_with("threads", cpus=0, gpus=1) as ctx:
        yield ctx


@pytest.fixture
def data():
    return counts((*NAV, *SIG), "uint16")


@pytest.fixture
def dataset(ctx, data, tmp_path):
    path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
    return ctx.load("raw_csr", path, num_partitions=3)


class Copies(Sums):
    """What it gets, pixel by pixel."""

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        dtype = self.meta.input_dtype
        return {"copy": self.buffer("nav", extra_shape=SIG, dtype=dtype, where="device")}

    def merge(self, dest, src):
        dest.copy[:] = src.copy

    def process_tile(self, tile):
        self.results.copy[:] = tile


@pytest.mark.parametrize("dtype", ["int64", "uint64", "uint8", "bool", "float32", "complex64"])
def test_dense_arrays_of_sparse_data_are_exact(ctx, machine, tmp_path, dtype):
    """Also whole numbers that double precision does not have."""
    frames = counts((*NAV, *SIG), dtype)
    if dtype.endswith("int64"):
        frames[frames > 0] += np.array(2, dtype) ** 60
        assert (frames.astype(float).astype(dtype) != frames).any()
    path = write_raw_csr(tmp_path, frames.reshape(-1, *SIG), NAV)
    result = ctx.run_udf(ctx.load("raw_csr", path, num_partitions=2), Copies())
    np.testing.assert_array_equal(result["copy"].data, frames)
    check_released(machine)


@pytest.mark.parametrize("format_", CUPYX)
def test_frames_are_converted_once_for_all_who_take_them(
    ctx, machine, dataset, data, monkeypatch, format_
):
    made, convert = [], device_tiles._of_rows

    def counted(csr, wanted):
        made.append((wanted, csr.shape[0] == 1))
        return convert(csr, wanted)

    monkeypatch.setattr(device_tiles, "_of_rows", counted)
    for n_udfs in (1, 2, 4):
        made.clear()
        for result in ctx.run_udf(dataset, [Frames((format_,)) for _ in range(n_udfs)]):
            check(result, data)
        assert made == [(format_, True)] * 30
    check_released(machine)


def test_dense_sparse_tiles_and_frames_together(ctx, machine, dataset, data):
    udfs = [method((f,)) for f in (CUPY, *CUPYX) for method in (Frames, Tiles, Frames)]
    for result in ctx.run_udf(dataset, udfs):
        check(result, data)
    del result
    n_copies = sum(kind == "copy" for kind, _ in machine.log)
    assert n_copies == 3 * len(ctx._plan(dataset, udfs, None)[0].partitions()) * tiles_each(
        ctx, dataset, udfs
    )
    check_released(machine)


def tiles_each(ctx, dataset, udfs):
    plan = ctx._plan(dataset, udfs, None)[0]
    start, stop = plan.partitions()[0]
    return -(-(stop - start) // plan.tile_depth)


class Plain(Frames):
    """Without wishes for tiles."""

    def get_tiling_preferences(self):
        return UDF.get_tiling_preferences(self)


def test_tiles_of_entries_are_as_deep_as_entries_fit(ctx, machine, tmp_path, monkeypatch):
    monkeypatch.setattr("framefold.arrays.cuda.placement.TILE_BYTES", 5 * 63 * 4)
    frames = counts((*NAV, *SIG), "float32")
    path = write_raw_csr(tmp_path, frames.reshape(-1, *SIG), NAV)
    dataset = ctx.load("raw_csr", path, num_partitions=1)

    def depth(*formats):
        udfs = [Plain((format_,)) for format_ in formats]
        return ctx._plan(dataset, udfs, None)[0].tile_depth

    assert depth(CSR) == depth(COO, CSR) == 30
    assert depth(CSR, CUPY) == depth(CUPY) == 5
    for result in ctx.run_udf(dataset, [Plain((CSR,)), Plain((CSC,)), Plain((CSC,))]):
        check(result, frames)


def test_functions_that_bring_tiles_to_the_device_themselves_share_them(
    machine, data, tmp_path, monkeypatch
):
    seen = []
    dense = device_tiles.Rows._dense

    def counted(rows):
        seen.append(rows.depth)
        return dense(rows)

    monkeypatch.setattr(device_tiles.Rows, "_dense", counted)
    monkeypatch.setattr(door, "convert", None)

    class Brings(Sums):
        def get_backends(self):
            return (self.BACKEND_SCIPY_CSR, self.BACKEND_CUDA)

        def process_tile(self, tile):
            if self.meta.array_backend == self.BACKEND_CUDA:
                assert type(tile) is np.ndarray
                assert not tile.flags.writeable
            else:
                tile = tile.toarray().reshape((-1, *SIG))
            self.results.each[:] += tile.sum(axis=(1, 2))
            self.results.total[:] += tile.sum(axis=0)

    path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
    with ff.Context.make_with("threads", cpus=1, gpus=1) as ctx:
        dataset = ctx.load("raw_csr", path, num_partitions=2)
        udfs = [Brings(gate=threading.Barrier(2)), Brings(), Brings()]
        for result in ctx.run_udf(dataset, udfs):
            check(result, data)
    # Each of two workers had one of two partitions.
    assert sum(seen) == 15
