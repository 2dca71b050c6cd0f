"""Conversions are done once, for all functions of a run that want the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from format_udfs import Frames, Partitions, Tiles, as_dense, check
from sparse_files import counts, write_raw_csr

import framefold as ff
from framefold.arrays import convert as door
from framefold.arrays import sparse_tiles, tile_formats
from framefold.arrays.tile_formats import Rows
from framefold.udf import UDF

NAV, SIG = (5, 6), (7, 9)
COO, GCXS, DOK = "sparse.COO", "sparse.GCXS", "sparse.DOK"
CSR, CSC, NP = UDF.BACKEND_SCIPY_CSR, UDF.BACKEND_SCIPY_CSC, UDF.BACKEND_NUMPY
SPARSE = sorted(UDF.SPARSE_BACKENDS & UDF.CPU_BACKENDS)
#: Formats of which each frame is a conversion, and each tile.
CONVERTED = (CSC, UDF.BACKEND_SCIPY_CSC_ARRAY, GCXS, DOK)


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


@pytest.fixture(scope="module")
def frames():
    return counts((*NAV, *SIG), "float32").reshape(-1, *SIG)


@pytest.fixture(scope="module", params=["dense", "sparse"])
def dataset(request, inline, frames, tmp_path_factory):
    if request.param == "dense":
        return inline.load("memory", data=frames.reshape(*NAV, *SIG), num_partitions=3)
    path = write_raw_csr(tmp_path_factory.mktemp("shared"), frames, NAV)
    return inline.load("raw_csr", path, num_partitions=3)


@pytest.fixture
def conversions(monkeypatch):
    """Counts what goes through the door, by format and number of axes of what comes out."""
    seen, convert = Counter(), door.convert

    def counted(array, source, target):
        made = convert(array, source, target)
        seen[target, "frames" if made.shape in ((1, 63), SIG) else "tiles"] += 1
        return made

    monkeypatch.setattr(door, "convert", counted)
    return seen


def n_tiles(ctx, dataset, udfs):
    plan = ctx._plan(dataset, udfs, None)[0]
    assert tuple(plan.tile_shape) == SIG
    return sum(-(-(stop - start) // plan.tile_depth) for start, stop in plan.partitions())


@pytest.mark.parametrize("format_", SPARSE)
def test_by_frame_and_by_tile_in_one_run(inline, dataset, frames, conversions, format_):
    shallow = {"tile_bytes": 1300, "depth": 5}
    udfs = [
        Frames((format_,), frames),
        Tiles((format_,), frames, **shallow),
        Frames((format_,), frames),
        Tiles((format_,), frames, **shallow),
        Frames((format_,), frames),
    ]
    n = n_tiles(inline, dataset, udfs)
    assert 3 <= n <= 6
    for result in inline.run_udf(dataset, udfs):
        check(result, frames)
    expected = {}
    if format_ in CONVERTED:
        expected = {(format_, "tiles"): n, (format_, "frames"): len(frames)}
    elif format_ in UDF.D2_BACKENDS - {CSR, UDF.BACKEND_SCIPY_CSR_ARRAY}:
        expected = {(format_, "tiles"): n}  # frames are cut from the entries as they are
    assert conversions == expected


@pytest.mark.parametrize("format_", CONVERTED)
@pytest.mark.parametrize("n_udfs", [1, 2, 4])
def test_by_frame_and_by_partition_in_one_run(
    inline, dataset, frames, conversions, format_, n_udfs
):
    udfs = [Frames((format_,), frames) for _ in range(n_udfs)]
    udfs += [Partitions((format_,), frames), Partitions((CSR,), frames), Partitions((COO,), frames)]
    for result in inline.run_udf(dataset, udfs):
        check(result, frames)
    assert conversions == {(format_, "tiles"): 3, (format_, "frames"): len(frames)}


def test_all_formats_in_one_run(inline, dataset, frames, conversions):
    udfs = [method((f,), frames) for f in SPARSE for method in (Frames, Tiles, Frames, Tiles)]
    n = n_tiles(inline, dataset, udfs)
    for result in inline.run_udf(dataset, udfs):
        check(result, frames)
    by_row = {CSR, UDF.BACKEND_SCIPY_CSR_ARRAY, COO}
    expected = {(f, "tiles"): n for f in set(SPARSE) - by_row}
    expected.update({(f, "frames"): len(frames) for f in CONVERTED})
    assert conversions == expected


class Total(UDF):
    """The sum of the pixels of tiles, in the dtype in which it gets them."""

    def get_backends(self):
        return (CSC,)

    def get_preferred_input_dtype(self):
        return self.params.prefers

    def get_result_buffers(self):
        return {"total": self.buffer("single", dtype=self.meta.input_dtype)}

    def process_tile(self, tile):
        self.results.total[:] += tile.sum()

    def merge(self, dest, src):
        dest.total[:] += src.total


def test_dtypes_in_turns(inline, dataset, frames, conversions):
    """Each tile is converted once in each dtype."""
    udfs = [Total(prefers=dtype) for dtype in ("float32", "float64") * 3]
    n = n_tiles(inline, dataset, udfs)
    for udf, result in zip(udfs, inline.run_udf(dataset, udfs), strict=True):
        assert result["total"].data.dtype == udf.params.prefers
        assert result["total"].data == frames.sum(dtype="float64")
    assert conversions == {(CSC, "tiles"): 2 * n}


@pytest.mark.parametrize("format_", [CSC, UDF.BACKEND_SCIPY_COO])
def test_a_tile_of_one_frame_is_that_frame(inline, dataset, frames, conversions, format_):
    udfs = [
        Frames((format_,), frames),
        Tiles((format_,), frames, tile_bytes=1, depth=1),
    ]
    assert n_tiles(inline, dataset, udfs) == len(frames)
    for result in inline.run_udf(dataset, udfs):
        check(result, frames)
    assert conversions == {(format_, "frames"): len(frames)}


def test_beyond_the_memory_there_is_for_it_frames_are_converted_again(
    inline, dataset, frames, conversions, monkeypatch
):
    of_each = (np.count_nonzero(frames[0]) + 2) * 8 + (frames[0].size + 1) * 4
    monkeypatch.setattr(tile_formats, "SHARED_BYTES", 3 * of_each)
    udfs = [Frames((CSC,), frames) for _ in range(3)]
    for result in inline.run_udf(dataset, [*udfs, Partitions((CSR,), frames)]):
        check(result, frames)
    n = conversions[CSC, "frames"]
    # Of each of three partitions some are kept, and some are not.
    assert 3 * len(frames) - 2 * 3 * 4 <= n <= 3 * len(frames) - 2 * 3


def test_tiles_are_no_deeper_than_what_is_kept_of_them(inline, frames, tmp_path, monkeypatch):
    path = write_raw_csr(tmp_path, frames, NAV)
    dataset = inline.load("raw_csr", path, num_partitions=1)
    depth = lambda *udfs: inline._plan(dataset, list(udfs), None)[0].tile_depth  # noqa: E731
    one, other = Frames((CSC,), frames), Frames((CSC,), frames)
    assert depth(one, other) == len(frames)
    of_each = sparse_tiles.OBJECT_BYTES + (frames[0].size + 1) * 4
    monkeypatch.setattr(sparse_tiles, "SHARED_BYTES", 4 * 7 * of_each)
    assert depth(one, other) == 7
    assert depth(one, Tiles((NP,), frames), other) == 7
    # Who does not share keeps nothing.
    assert depth(one, Tiles((CSC,), frames)) == depth(one) == len(frames)
    assert depth(Frames((CSR,), frames), Frames((CSR,), frames)) == len(frames)
    for result in inline.run_udf(dataset, [one, other]):
        check(result, frames)


class SpoilsFrames(Frames):
    """Puts other values into what it gets, as far as it can."""

    def process_frame(self, frame):
        self.witness(frame, True)
        if self.params.formats == (DOK,):
            frame.data.clear()
            return
        with pytest.raises((ValueError, TypeError)):
            frame.data *= 3
        frame.data = frame.data * 3


@pytest.mark.parametrize("format_", SPARSE)
def test_what_one_udf_does_to_a_frame_is_not_seen_by_others(inline, dataset, frames, format_):
    udfs = [SpoilsFrames((format_,), frames), Frames((format_,), frames), Tiles((format_,), frames)]
    for result in inline.run_udf(dataset, udfs):
        check(result, frames)


def test_explain_says_what_is_shared(inline, dataset, frames):
    text = inline.explain(
        dataset, [Frames((CSC,), frames), Frames((CSC,), frames), Tiles((CSC,), frames)]
    )
    assert text.count("once per frame for 2 UDFs") == 2
    assert "once per tile" not in text


@pytest.mark.parametrize("format_", SPARSE)
def test_frames_can_be_taken_again(format_):
    """Also by one who begins before another has ended."""
    dense = counts((4, 3, 5), "int64", density=0.5)
    flat = dense.reshape(4, 15)
    starts = np.concatenate([[0], np.cumsum((flat != 0).sum(axis=1))]).astype(np.intp)
    columns = np.nonzero(flat)[1].astype(np.uint32)
    rows = Rows((3, 5), starts, columns, flat[flat != 0])
    one, other = rows.frames(format_, shared=True), rows.frames(format_, shared=True)
    taken = [(0, next(one)), (0, next(other)), (1, next(other)), (1, next(one)), (2, next(one))]
    taken += [(2, next(other)), *enumerate(other, 3), *enumerate(one, 3)]
    taken += enumerate(rows.frames(format_, shared=True))
    assert [i for i, _ in taken] == [0, 0, 1, 1, 2, 2, 3, 3, 0, 1, 2, 3]
    for i, frame in taken:
        np.testing.assert_array_equal(as_dense(frame).reshape(3, 5), dense[i])
