"""What functions get in each array format, and what they share."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from format_udfs import Asks, Frames, Partitions, Tiles, Witness, as_dense, check
from sparse_files import counts, write_raw_csr
from uncompiled import sparse
from uncompiled import sparseconverter as spc

import framefold as ff
from framefold.arrays import convert as door
from framefold.arrays import sparse_tiles, tile_formats
from framefold.exceptions import (
    UnsupportedError,
)
from framefold.udf import UDF

NAV, SIG = (4, 5), (7, 9)
NP, COO, GCXS, DOK = UDF.BACKEND_NUMPY, "sparse.COO", "sparse.GCXS", "sparse.DOK"
CSR, CSC, CSR_ARRAY = UDF.BACKEND_SCIPY_CSR, UDF.BACKEND_SCIPY_CSC, UDF.BACKEND_SCIPY_CSR_ARRAY
FORMATS = sorted(UDF.CPU_BACKENDS)
DTYPES = ("uint8", "int64", "float32", "complex64", "bool")


@pytest.fixture(scope="module")
def dense():
    return ff.Context.make_with("inline").load("memory", data=counts((*NAV, *SIG), "u2"))


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


# --- What UDFs get --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sparse_files(tmp_path_factory):
    """Data, and a raw_csr file of them, for each dtype."""
    made = {}
    for dtype in DTYPES:
        data = counts((*NAV, *SIG), dtype)
        folder = tmp_path_factory.mktemp(dtype)
        made[dtype] = data, write_raw_csr(folder, data.reshape(-1, *SIG), NAV)
    return made


def load(ctx, data, path, native, num_partitions=3):
    if native == "dense":
        return ctx.load("memory", data=data, num_partitions=num_partitions)
    return ctx.load("raw_csr", path, num_partitions=num_partitions)


@pytest.mark.parametrize("native", ["dense", "sparse"])
@pytest.mark.parametrize("method", [Tiles, Frames, Partitions])
@pytest.mark.parametrize("format_", FORMATS)
def test_what_a_udf_gets(inline, sparse_files, format_, method, native):
    roi = np.random.default_rng(1).random(NAV) < 0.6
    n_runs = 0
    for data, path in sparse_files.values():
        dataset = load(inline, data, path, native)
        for chosen in (None, roi):
            frames = data[np.ones(NAV, bool) if chosen is None else chosen]
            # Tiles of whole frames; and of parts, or of fewer frames where pixels are narrow, since
            # a dense UDF of the run is cut.
            tile_bytes = max(200, 40 * data.itemsize)
            for others in ([], [Tiles((NP,), frames, tile_bytes=tile_bytes, depth=4)]):
                udf = method((format_,), frames)
                results = inline.run_udf(dataset, [udf, *others], roi=chosen)
                for result in results:
                    check(result, frames)
                n_runs += 1
    assert n_runs == len(DTYPES) * 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("format_", FORMATS)
def test_conversion_of_the_dtype(inline, sparse_files, format_, dtype):
    data, path = sparse_files["uint8"]
    frames = data.reshape(-1, *SIG)
    for native in ("dense", "sparse"):
        dataset = load(inline, data, path, native)
        for method in (Tiles, Frames):
            check(inline.run_udf(dataset, method((format_,), frames, dtype)), frames)


@pytest.mark.parametrize("sig", [(11,), (3, 4, 5), (1, 1), (2, 3, 2, 2)])
@pytest.mark.parametrize("format_", FORMATS)
def test_any_number_of_signal_axes(inline, tmp_path, format_, sig):
    data = counts((4, 5, *sig), "i4", density=0.5)
    frames = data.reshape(20, *sig)
    axes = tuple(range(1, frames.ndim))
    path = write_raw_csr(tmp_path, frames, (4, 5))
    for dataset in (
        inline.load("memory", data=data, sig_dims=len(sig), num_partitions=2),
        inline.load("raw_csr", path, num_partitions=2),
    ):
        for method in (Tiles, Frames, Partitions):
            result = inline.run_udf(dataset, method((format_,), frames))
            np.testing.assert_array_equal(result["each"].raw_data, frames.sum(axis=axes))
            np.testing.assert_array_equal(result["total"].data, frames.sum(axis=0))


@pytest.mark.parametrize("format_", FORMATS)
def test_corrected_pixels(inline, sparse_files, format_):
    from framefold.io.corrections import CorrectionSet

    data, path = sparse_files["float32"]
    gain = np.random.default_rng(2).integers(1, 5, SIG).astype(np.float32)
    frames = (data * gain).reshape(-1, *SIG)
    for native in ("dense", "sparse"):
        dataset = load(inline, data, path, native)
        udfs = [Tiles((format_,), frames), Frames((format_,), frames)]
        for result in inline.run_udf(dataset, udfs, corrections=CorrectionSet(gain=gain)):
            check(result, frames)
        # They are dense, and so are native.
        corrections = CorrectionSet(gain=gain)
        udf = Asks(formats=(CSR, NP))
        found = inline.run_udf(dataset, udf, corrections=corrections)["format"].data
        assert set(found.reshape(-1)) == {NP}


def test_backends_of_map(inline, dense, sparse_files):
    data, path = sparse_files["float32"]
    dataset = load(inline, data, path, "sparse")
    np.testing.assert_array_equal(
        inline.map(dataset, np.sum, backends=NP).data, data.sum(axis=(2, 3))
    )
    with pytest.raises(UnsupportedError, match="AutoUDF takes no array format"):
        inline.map(dataset, np.sum, backends=COO)


# --- Sharing --------------------------------------------------------------------------------


@pytest.fixture
def conversions(monkeypatch):
    """Counts what goes through the door."""
    seen, lock, convert = [], threading.Lock(), door.convert

    def counted(array, source, target):
        with lock:
            seen.append(target)
        return convert(array, source, target)

    monkeypatch.setattr(door, "convert", counted)
    return seen


def n_tiles(ctx, dataset, udfs):
    plan = ctx._plan(dataset, udfs, None)[0]
    slices = np.prod([-(-n // t) for n, t in zip(SIG, plan.tile_shape, strict=True)])
    depths = [-(-(stop - start) // plan.tile_depth) for start, stop in plan.partitions()]
    return int(slices) * sum(depths)


@pytest.mark.parametrize("executor", ["inline", "threads"])
@pytest.mark.parametrize("native", ["dense", "sparse"])
def test_each_conversion_is_done_once_per_tile(sparse_files, conversions, native, executor):
    data, path = sparse_files["float32"]
    frames = data.reshape(-1, *SIG)
    with ff.Context.make_with(executor, cpus=3) as ctx:
        dataset = load(ctx, data, path, native, num_partitions=6)
        udfs = [
            Tiles((format_,), frames, tile_bytes=600, depth=2)
            for format_ in (CSC, NP, GCXS, CSC, CSR, GCXS, COO, CSC, CSR_ARRAY, COO)
        ]
        expected = n_tiles(ctx, dataset, udfs)
        assert expected > 10
        for result in ctx.run_udf(dataset, udfs):
            check(result, frames)
    assert {f: conversions.count(f) for f in set(conversions)} == {CSC: expected, GCXS: expected}


def test_frames_of_csr_and_coo_are_not_converted_one_by_one(inline, sparse_files, conversions):
    data, path = sparse_files["float32"]
    frames = data.reshape(-1, *SIG)
    dataset = load(inline, data, path, "sparse")
    udfs = [Frames((f,), frames) for f in (CSR, CSR_ARRAY, COO)]
    for result in inline.run_udf(dataset, udfs):
        check(result, frames)
    assert conversions == []


def test_the_plan_says_who_gets_what(inline, sparse_files, dense):
    data, path = sparse_files["float32"]
    udfs = [Asks(formats=(CSC,)), Asks(formats=(NP, CSC)), Asks(formats=(NP,)), ff.SumUDF()]
    lines = inline.explain(load(inline, data, path, "sparse"), udfs).splitlines()
    lines = [line.partition(": ")[2] for line in lines if line.startswith("udf")]
    shared = "by tile, scipy.sparse.csc_matrix (once per tile for 2 UDFs), float32, as it is"
    assert lines[:2] == [shared, shared]
    assert lines[2] == "by tile, numpy (made of sparse data), float32, as it is"
    text = inline.explain(dense, Asks(formats=(COO,)))
    assert "Asks: by tile, sparse.COO (made of dense data), uint16, as it is" in text
    assert "by tile, numpy, uint16" in inline.explain(dense, Asks(formats=(COO, NP)))
    assert "sparse.COO" in inline.display(dense, Asks(formats=(COO,)))._repr_html_()


class Spoils(Witness):
    """Puts other values into what it gets, as far as it can."""

    def process_tile(self, tile):
        self.witness(tile, False)
        for write in (
            lambda: tile.data.__imul__(3),
            lambda: tile.indices.__iadd__(1),
            lambda: tile.eliminate_zeros(),
        ):
            with pytest.raises((ValueError, AttributeError, TypeError)):
                write()
        tile.data = tile.data * 3


@pytest.mark.parametrize("format_", [CSR, CSC, CSR_ARRAY, COO, GCXS])
def test_what_one_udf_does_to_a_tile_is_not_seen_by_others(inline, sparse_files, format_):
    data, path = sparse_files["int64"]
    frames = data.reshape(-1, *SIG)
    for native in ("dense", "sparse"):
        dataset = load(inline, data, path, native)
        udfs = [Spoils((format_,), frames), Tiles((format_,), frames), Frames((CSR,), frames)]
        for result in inline.run_udf(dataset, udfs):
            check(result, frames)
    np.testing.assert_array_equal(data, counts(data.shape, data.dtype))


KEPT = []


class KeepsTiles(Witness):
    def process_tile(self, tile):
        KEPT.append((tile, self.params.frames[self.meta.slice.get()]))


class KeepsFrames(Witness):
    def process_frame(self, frame):
        KEPT.append((frame, self.params.frames[self.meta.slice.get()]))


@pytest.mark.parametrize("format_", FORMATS)
def test_what_is_kept_stays_as_it_is(sparse_files, format_):
    data, path = sparse_files["uint8"]
    frames = data.reshape(-1, *SIG)
    with ff.Context.make_with("threads", cpus=2) as ctx:
        for native in ("dense", "sparse"):
            for dtype in (bool, np.float32):
                dataset = load(ctx, data, path, native)
                udfs = [
                    udf((format_,), frames, dtype, tile_bytes=300, depth=2)
                    for udf in (KeepsTiles, KeepsFrames, KeepsTiles)
                ]
                KEPT.clear()
                ctx.run_udf(dataset, udfs)
                del dataset
                gc.collect()
                assert len(KEPT) > len(frames)
                for array, expected in KEPT:
                    np.testing.assert_array_equal(as_dense(array).reshape(expected.shape), expected)
    KEPT.clear()


def test_a_failure_within_a_tile_leaves_nothing_behind(inline):
    data = counts((*NAV, *SIG), "int64")
    frames = data.reshape(-1, *SIG)
    broken = [True]

    class Fails(Witness):
        def process_tile(self, tile):
            if broken:
                raise KeyError("on purpose")
            self.witness(tile, False)

    udfs = [udf((CSC,), frames) for udf in (Fails, Tiles, Tiles)]
    plan = inline._plan(inline.load("memory", data=data), udfs, None)[0]
    for _ in range(2):
        with pytest.raises(KeyError, match="on purpose"):
            plan.run_partition(0)
    broken.clear()
    data *= 3  # what was made of the first tile is of no use any more
    plan.run_partition(0)


def test_runs_within_runs(inline, sparse_files):
    data, path = sparse_files["int64"]
    frames = data.reshape(-1, *SIG)

    class Nested(Witness):
        def process_tile(self, tile):
            udfs = [Tiles((CSC,), frames), Tiles((CSC,), frames)]
            for result in inline.run_udf(load(inline, data, path, "sparse"), udfs):
                check(result, frames)
            self.witness(tile, False)

    dataset = load(inline, data, path, "sparse")
    for result in inline.run_udf(dataset, [Nested((CSC,), frames), Tiles((CSC,), frames)]):
        check(result, frames)


def test_forbuf_takes_every_format():
    values = np.arange(6.0).reshape(2, 3)
    coo = sparse.COO.from_numpy(values)
    for format_ in FORMATS:
        is_matrix = format_ == "numpy.matrix"
        array = values.view(np.matrix) if is_matrix else spc.for_backend(coo, format_)
        for shape in ((2, 3), (6,), (3, 2), (1, 6)):
            found = Asks(formats=NP).forbuf(array, np.zeros(shape))
            assert type(found) is np.ndarray
            np.testing.assert_array_equal(found, values.reshape(shape))


def test_nothing_is_copied_that_need_not_be(inline, sparse_files):
    data, path = sparse_files["float32"]
    frames = data.reshape(-1, *SIG)
    seen = {}

    class Looks(Witness):
        def process_tile(self, tile):
            self.witness(tile, False)
            seen[self.meta.array_backend] = tile
            if len(seen) == 3:
                csr, csr_array, coo = seen[CSR], seen[CSR_ARRAY], seen[COO]
                for other in (csr_array, coo):
                    assert np.shares_memory(csr.data, other.data)
                assert np.shares_memory(csr.indices, csr_array.indices)
                assert csr.has_canonical_format
                assert csr.indices.dtype == csr.indptr.dtype == np.int32
                for array in (csr.data, csr.indices, csr.indptr, coo.data, coo.coords):
                    assert not array.flags.writeable
                seen.clear()

    for native in ("dense", "sparse"):
        dataset = load(inline, data, path, native)
        udfs = [Looks((format_,), frames) for format_ in (CSR, CSR_ARRAY, COO)]
        for result in inline.run_udf(dataset, udfs):
            check(result, frames)
        assert not seen


@pytest.mark.parametrize("format_", FORMATS)
def test_tiles_that_need_64_bits_to_count(inline, sparse_files, monkeypatch, format_):
    monkeypatch.setattr(tile_formats, "SMALL", 50)
    data, path = sparse_files["int64"]
    frames = data.reshape(-1, *SIG)
    for native in ("dense", "sparse"):
        for method in (Tiles, Frames):
            udfs = [method((format_,), frames), Tiles((format_,), frames)]
            for result in inline.run_udf(load(inline, data, path, native), udfs):
                check(result, frames)


def test_a_tile_is_let_go_with_its_last_taker():
    takers = [(CSC, False), (CSC, False), (COO, True)]
    tiles = sparse_tiles.SparseTiles(takers)
    givers = [tiles.giver(format_, frames, [(2, 2)]) for format_, frames in takers]
    starts, columns = np.array([0, 1, 1], np.intp), np.array([3], np.uint32)
    for start in (0, 2):
        values = np.array([7.0])
        for give in givers:
            # As the engine does: new arrays around the same memory.
            given = give(start, start + 2, 0, starts[:], columns[:], values[:])
        assert [frame.todense().tolist() for frame in given] == [[[0, 0], [0, 7]], [[0, 0], [0, 0]]]
        memory = weakref.ref(values)
        del given, values
        gc.collect()
        assert memory() is None


def test_tiles_that_are_made_of_sparse_data_fit_the_cache(inline, tmp_path):
    """Those that lie in memory as they are may be larger."""
    frames = np.zeros((40, 256, 256), dtype=np.uint16)
    frames[:, 3, 5] = np.arange(40)
    dense = inline.load("memory", data=frames.reshape(5, 8, 256, 256), num_partitions=1)
    path = write_raw_csr(tmp_path, frames, (5, 8))
    sparse = inline.load("raw_csr", path, num_partitions=1)

    class Depths(ff.UDF):
        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

        def get_backends(self):
            return self.params.formats

        def get_result_buffers(self):
            return {
                "depth": self.buffer(kind="nav", dtype="int64"),
                "sums": self.buffer(kind="nav", dtype="int64"),
            }

        def process_tile(self, tile):
            self.results.depth[:] = tile.shape[0]
            sums = tile.reshape(tile.shape[0], -1).sum(axis=1, dtype=np.int64)
            self.results.sums[:] += np.asarray(sums).ravel()

    def deepest(dataset, format_, how):
        udf = Depths(formats=(format_,))
        assert how in inline.explain(dataset, udf)
        result = inline.run_udf(dataset, udf)
        assert result["sums"].data.ravel().tolist() == list(range(40))
        return result["depth"].data.max()

    assert deepest(dense, NP, "lent as it lies in memory") == 32  # 4 MiB
    assert deepest(sparse, NP, "decoded into a buffer") == 8  # 1 MiB
    assert deepest(sparse, CSR, "lent as it lies in memory") == 40
