"""What a function writes through views of its results is there, however frames are cut."""

from __future__ import annotations

import tempfile
from pathlib import Path

import fake_cupy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import framefold as ff
from framefold.udf import UDF

h5py = pytest.importorskip("h5py", reason="h5py writes chunked files")

#: NumPy 2.5 deprecates it; scripts do it.
SETS_SHAPES = pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")


def flat(array):
    yield array.reshape(-1)


def flat_from_the_end(array):
    yield array.reshape((-1,))[::-1]


def ravelled(array):
    yield np.ravel(array)


def rows(array):
    yield from array.reshape((array.shape[0], -1))


def turned(array):
    yield array.T


def every_second(array):
    yield array[..., ::2]
    yield array[..., 1::2]


def halves_of_flat(array):
    whole = array.reshape(-1)
    middle = whole.size // 2
    yield whole[:middle]
    yield whole[middle:]


def as_it_is(array):
    yield array


WAYS = [flat, flat_from_the_end, ravelled, rows, turned, every_second, halves_of_flat, as_it_is]


class Writes(UDF):
    """Adds up all frames, times a factor for each pixel, through views of the result."""

    def __init__(self, way=flat, extra=(), dtype="float64", tile=(4, 1 << 30), factor=None):
        super().__init__(way=way, extra=extra, dtype=dtype, tile=tile, factor=factor)

    def get_tiling_preferences(self):
        depth, total_size = self.params.tile
        return {"depth": depth, "total_size": total_size}

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {
            "s": self.buffer("sig", self.params.extra, self.params.dtype),
            "n": self.buffer("single", dtype=int),
        }

    def process_tile(self, tile):
        summed = tile.sum(axis=0, dtype=np.int64).astype(self.params.dtype)
        if self.params.factor is not None:
            assert self.params.factor.flags.c_contiguous
            assert not self.params.factor.flags.writeable
            assert np.shares_memory(self.params.factor.reshape(-1), self.params.factor)
            summed = summed * self.params.factor
        summed = np.broadcast_to(
            summed.reshape(summed.shape + (1,) * len(self.params.extra)), self.results.s.shape
        ).copy()
        for view, part in zip(
            self.params.way(self.results.s), self.params.way(summed), strict=True
        ):
            view += part
        self.results.n.reshape(-1)[:] += 1

    def merge(self, dest, src):
        dest.s[:] += src.s
        dest.n[:] += src.n


def check(result, data, udf, roi=None):
    sig = data.shape[2:]
    frames = data.reshape((-1, *sig)) if roi is None else data[roi]
    expected = frames.astype(np.int64).sum(axis=0)
    if udf.params.factor is not None:
        expected = expected * udf.params.factor.data
    expected = expected.reshape(sig + (1,) * len(udf.params.extra)).astype(udf.params.dtype)
    expected = np.broadcast_to(expected, sig + udf.params.extra)
    assert result["s"].data.dtype == np.dtype(udf.params.dtype)
    np.testing.assert_array_equal(result["s"].data, expected)


def numbers(shape, dtype="u2", seed=0):
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype)


def writes_chunks(path, data, chunks):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=chunks)


@st.composite
def cases(draw):
    shape = tuple(draw(st.tuples(*[st.integers(1, n) for n in (4, 5, 9, 9)])))
    sig_dims = 2
    if draw(st.booleans()):
        shape += (draw(st.integers(1, 4)),)
        sig_dims = 3
    data = numbers(shape, draw(st.sampled_from(["u1", "<u2", ">i4"])), draw(st.integers(0, 99)))
    pieces = tuple(draw(st.integers(1, n)) for n in shape)
    factor = None
    if draw(st.booleans()):
        factor = UDF.aux_data(numbers(shape[2:], seed=1), "sig", dtype="int64")
    udfs = [
        Writes(
            draw(st.sampled_from(WAYS)),
            tuple(draw(st.lists(st.integers(1, 3), max_size=2))),
            draw(st.sampled_from(["float64", "complex128", "int64", object])),
            (draw(st.integers(1, 9)), draw(st.integers(1, 300))),
            factor,
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    roi = None
    if draw(st.booleans()):
        roi = np.random.default_rng(draw(st.integers(0, 99))).random(shape[:2]) < 0.5
        roi[0, -1] = True
    return data, sig_dims, pieces, udfs, draw(st.integers(1, 4)), roi


CONTEXTS = [ff.Context.make_with("inline"), ff.Context.make_with("threads", cpus=2)]


@settings(max_examples=80, derandomize=True)
@given(case=cases(), ctx=st.sampled_from(CONTEXTS), chunked=st.booleans())
def test_views_of_results_equal_numpy(case, ctx, chunked):
    data, sig_dims, pieces, udfs, n_partitions, roi = case
    udfs = [udf.copy() for udf in udfs]
    with tempfile.TemporaryDirectory() as folder:
        if chunked:
            path = Path(folder) / "a.h5"
            writes_chunks(path, data, pieces)
            dataset = ctx.load("hdf5", path, ds_path="x", sig_dims=sig_dims)
        else:
            tileshape = (pieces[1], *pieces[2:])
            dataset = ctx.load(
                "memory",
                data=data,
                sig_dims=sig_dims,
                tileshape=tileshape,
                num_partitions=n_partitions,
            )
        for udf, result in zip(udfs, ctx.run_udf(dataset, udfs, roi=roi), strict=True):
            check(result, data, udf, roi)
        (result,) = ctx.run_udf(dataset, udfs[:1])
        check(result, data, udfs[0])


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((4, 4, 32, 32), (2, 2, 4, 4)),
        ((4, 4, 16, 16), (2, 2, 8, 8)),
        ((4, 4, 16, 16), (2, 4, 16, 4)),
        ((4, 4, 16, 15), (4, 4, 15, 2)),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_chunks_of_some_columns(ctx, tmp_path, shape, chunks, way):
    data = numbers(shape)
    writes_chunks(tmp_path / "a.h5", data, chunks)
    dataset = ctx.load("hdf5", tmp_path / "a.h5", ds_path="x")
    udf = Writes(way, extra=(3,), tile=(8, 64))
    result = ctx.run_udf(dataset, udf)
    check(result, data, udf)
    assert result["n"].data[0] > 8, "frames were to be cut"


def test_chunks_as_detectors_write_them(tmp_path):
    """Without any wishes, as scripts are."""

    class Plain(Writes):
        def get_tiling_preferences(self):
            return UDF.get_tiling_preferences(self)

        def get_preferred_input_dtype(self):
            return UDF.get_preferred_input_dtype(self)

    data = numbers((4, 4, 256, 256), "u2")
    writes_chunks(tmp_path / "a.h5", data, (2, 4, 256, 64))
    ctx = ff.Context.make_with("inline")
    udf = Plain(flat)
    result = ctx.run_udf(ctx.load("hdf5", tmp_path / "a.h5", ds_path="x"), udf)
    check(result, data, udf)
    assert result["n"].data[0] == 4, "two parts of frames in each of two partitions"


@pytest.fixture
def data():
    return numbers((3, 4, 8, 9))


@pytest.fixture
def dataset(ctx, data):
    return ctx.load("memory", data=data, tileshape=(2, 3, 4), num_partitions=2)


def test_frames_of_sparse_data(ctx, data):
    class Sparse(Writes):
        def get_backends(self):
            return (self.BACKEND_SPARSE_COO,)

        def process_tile(self, tile):
            super().process_tile(tile.todense())

    dataset = ctx.load("memory", data=data, tileshape=(2, 3, 4))
    udf = Sparse(flat)
    check(ctx.run_udf(dataset, udf), data, udf)


class KeepsViews(Writes):
    """Adds up later what belongs to earlier tiles."""

    def preprocess(self):
        self.kept = []

    def process_tile(self, tile):
        self.kept.append((self.results.s, tile.sum(axis=0)))
        if len(self.kept) > 3:
            self.add()

    def add(self):
        view, summed = self.kept.pop(0)
        flat_view = view.reshape(-1)
        flat_view += summed.reshape(-1)

    def process_last(self):
        while self.kept:
            self.add()


class AddsAtTheLastTile(KeepsViews):
    def process_tile(self, tile):
        super().process_tile(tile)
        part = self.meta.slice
        ends = np.array(part.origin) + np.array(tuple(part.shape))
        self.first = min(getattr(self, "first", part.origin[0]), part.origin[0])
        last = (self.first + self.meta.partition_shape[0], *self.meta.dataset_shape.sig)
        if tuple(ends) == last:
            self.process_last()


def test_views_that_are_kept_can_be_written_to_until_the_last_tile(ctx, dataset, data):
    udf = AddsAtTheLastTile()
    check(ctx.run_udf(dataset, udf), data, udf)


def test_the_whole_buffer_can_be_written_to(ctx, data):
    class OnlyTheWhole(Writes):
        def preprocess(self):
            self.whole = self.results.s

        def process_tile(self, tile):
            self.whole[self.meta.sig_slice.get()] += tile.sum(axis=0)

    class Either(OnlyTheWhole):
        def process_tile(self, tile):
            if self.meta.tiling_scheme_idx % 2:
                super().process_tile(tile)
            else:
                Writes.process_tile(self, tile)

    dataset = ctx.load("memory", data=data, tileshape=(2, 3, 4), num_partitions=2)
    for udf in (OnlyTheWhole(), Either()):
        check(ctx.run_udf(dataset, udf), data, udf)


@SETS_SHAPES
def test_shapes_can_be_set_in_place(ctx, dataset, data):
    class Flattens(Writes):
        def process_tile(self, tile):
            part = self.results.s
            part.shape = (part.size,)
            part += tile.sum(axis=0).reshape(-1)

    udf = Flattens()
    check(ctx.run_udf(dataset, udf), data, udf)


class FlatFrames(UDF):
    """Sums whose buffer user code makes flat, everywhere that it is seen."""

    def get_result_buffers(self):
        return {"total": self.buffer(kind="sig")}

    def preprocess(self):
        self.results.total.shape = (-1,)

    def process_frame(self, frame):
        self.results.total.shape = (-1,)
        self.results.total[:] += frame.reshape(-1)

    def merge(self, dest, src):
        dest.total.shape = src.total.shape = (-1,)
        dest.total[:] += src.total

    def get_results(self):
        self.results.total.shape = (-1,)
        return {"total": self.results.total}


@SETS_SHAPES
def test_shapes_that_are_set_hold_for_what_is_shown_alone(ctx, dataset, data):
    udf = FlatFrames()
    for part in ctx.run_udf_iter(dataset, udf):
        assert part.buffers[0]["total"].data.shape == data.shape[2:]
    total = ctx.run_udf(dataset, udf)["total"].data
    assert np.array_equal(total, data.sum(axis=(0, 1)))


def test_buffers_on_a_device(monkeypatch, data):
    machine = fake_cupy.install(monkeypatch)

    class OnDevice(UDF):
        def get_backends(self):
            return (self.BACKEND_CUPY,)

        def get_result_buffers(self):
            return {"s": self.buffer("sig", dtype="float64", where="device")}

        def process_tile(self, tile):
            assert isinstance(self.results.s, fake_cupy.ndarray)
            assert self.results.s.flags.c_contiguous
            flat = self.results.s.reshape(-1)
            flat += tile.sum(axis=0).reshape(-1)

        def merge(self, dest, src):
            dest.s[:] += src.s

    for executor in ({"executor": "threads", "cpus": 0, "gpus": 1}, {"executor": "inline"}):
        name = executor.pop("executor")
        ctx = ff.Context.make_with(name, **executor)
        dataset = ctx.load("memory", data=data, tileshape=(2, 3, 4), num_partitions=2)
        result = ctx.run_udf(dataset, OnDevice())
        np.testing.assert_array_equal(result["s"].data, data.sum(axis=(0, 1)))
    assert machine.log
