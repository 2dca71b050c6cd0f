"""Frames as arrays, without a UDF: by position of the scan, and by partitions and tiles."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from known_oddities import FRAMES_LEFT_OVER, POSITIONS_WITHOUT_DATA

import framefold as ff
from framefold.common.shape import Shape
from framefold.exceptions import InvalidArgumentError, LimitError, UnsupportedError
from framefold.io.corrections import CorrectionSet
from framefold.io.dataset import _picking
from framefold.io.dataset.base import DataSet, TilingScheme

SHAPE = (5, 7, 6, 4)


@pytest.fixture
def ctx():
    return ff.Context.make_with("inline")


@pytest.fixture
def data():
    return np.random.default_rng(8).integers(0, 2**16, SHAPE, dtype=np.uint16)


@pytest.fixture(params=["dense", "sparse", "npy", "dask"])
def ds(request, ctx, data, tmp_path):
    if request.param == "dense":
        return ctx.load("memory", data=data, sig_dims=2, num_partitions=3)
    if request.param == "sparse":
        sparse = pytest.importorskip("sparse", reason="sparse is not installed")
        return ctx.load("memory", data=sparse.COO(data), sig_dims=2, num_partitions=3)
    if request.param == "dask":
        da = pytest.importorskip("dask.array", reason="dask is not installed")
        return ctx.load("dask", da.from_array(data, chunks=(2, -1, -1, -1)), min_size=0)
    np.save(tmp_path / "a.npy", data)
    return ctx.open(tmp_path / "a.npy", num_partitions=3)


ROI = np.random.default_rng(1).random(SHAPE[:2]) < 0.3
KEYS = [
    (2, 3),
    (-1, -7),
    (np.int64(4), 0),
    3,
    np.s_[1:3, ::2],
    np.s_[::-1, -1],
    np.s_[...],
    np.s_[..., 2],
    np.s_[:, None, 1],
    ROI,
    ROI.tolist(),
    ([3, 0, 3], [1, 6, 1]),
    np.array([[4, 0], [0, 2]]),
    (np.s_[3:0:-2], [0, 6, 6]),
    ([[0], [4]], [[1, 2]]),
    (..., ROI),
    (None, 2, ..., [1]),
    np.s_[2:2],
    np.zeros(SHAPE[:2], dtype=bool),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_an_index_of_the_scan_gives_frames(ds, data, key):
    positions = np.arange(35).reshape(5, 7)[key]
    expected = data.reshape(35, 6, 4)[positions]
    frames = ds[key]
    assert frames.dtype == data.dtype
    assert frames.shape == expected.shape
    assert np.array_equal(frames, expected)


@pytest.mark.parametrize("index", [lambda mask: mask, lambda mask: (mask[:, 0], slice(2, 4))])
def test_masks_of_dask_are_an_index(ds, data, index):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    mask = np.arange(35).reshape(5, 7) % 3 == 1
    np.testing.assert_array_equal(ds[index(da.from_array(mask))], data[index(mask)])


def test_no_more_than_the_selection_is_in_memory(ctx, tmp_path):
    nav, path = (20_000, 20_000), tmp_path / "large.raw"
    with open(path, "wb") as file:
        file.truncate(nav[0] * nav[1])
        file.seek(5 * nav[1] + 7)
        file.write(b"\x09")
    ds = ctx.load("raw", path, nav_shape=nav, sig_shape=(1, 1), dtype="u1")
    tracemalloc.start()
    try:
        for key in ((5, 7), (5, [7]), np.s_[5:6, 7:20], ([5], [7]), np.s_[5:2:-1, 7]):
            assert ds[key].reshape(-1)[0] == 9
        assert ds.frame(5, 7) == [[9]]
        for key in (20_000, (0, -20_001)):
            with pytest.raises(IndexError, match="out of bounds for axis"):
                ds[key]
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("key", [(5, 0), (0, -8), (0, 0, 0), 1.5, "x", np.ones(5, dtype=bool)[:4]])
def test_an_index_that_does_not_fit_is_an_error(ds, key):
    with pytest.raises(IndexError, match=r"scan of shape \(5, 7\)"):
        ds[key]


def test_corrections_of_the_data_set_are_applied(ctx, data):
    dark = np.full(SHAPE[2:], 0.5)

    class Corrected(DataSet):
        def get_correction_data(self):
            return CorrectionSet(dark=dark)

    ds = ctx.load("memory", data=data, sig_dims=2)
    ds.__class__ = Corrected
    assert np.allclose(ds[1, 1], data[1, 1] - 0.5)
    assert ds[2:2].dtype == ds[1].dtype == np.float32
    tiles = list(next(ds.get_partitions()).get_tiles())
    assert np.allclose(tiles[0][0], data[0, 0] - 0.5)
    part = next(ds.get_partitions())
    part.set_corrections(CorrectionSet())
    assert np.array_equal(part.get_macrotile("uint16")[0], data[0, 0])


@pytest.mark.parametrize("dtype", ["complex64", "complex128", ">c8", "uint16", "float64"])
def test_tiles_of_complex_frames_are_complex(ctx, dtype):
    data = np.arange(48).reshape((2, 3, 2, 4)).astype(dtype)
    data[1] *= 1 - 2j if data.dtype.kind == "c" else 2
    expected = {"complex128": "complex128", "uint16": "float32", "float64": "float32"}
    dtype = np.dtype(expected.get(dtype, "complex64"))
    for part in ctx.load("memory", data=data, sig_dims=2).get_partitions():
        whole = part.get_macrotile()
        tiles = np.concatenate(list(part.get_tiles()))
        assert whole.dtype == tiles.dtype == dtype
        np.testing.assert_array_equal(whole, data.reshape((6, 2, 4))[part.slice.get(nav_only=True)])
        np.testing.assert_array_equal(tiles, whole)


@pytest.mark.parametrize(
    ("pixel", "dest_dtype"),
    [(300, "uint8"), (-1, "uint16"), (np.nan, "int32"), (1 + 0j, "float32"), (2**40, "int32")],
)
def test_tiles_hold_all_pixels(ctx, pixel, dest_dtype):
    data = np.zeros((2, 3, 4, 4), np.result_type(pixel))
    data[1, 2, 1, 3] = pixel
    part = ctx.load("memory", data=data, sig_dims=2, num_partitions=1).get_partitions()
    part = next(part)
    for take in (part.get_macrotile, lambda dtype: list(part.get_tiles(None, dtype))):
        with pytest.raises(InvalidArgumentError, match=f"{dest_dtype} (cannot hold|holds no)"):
            take(dest_dtype)
    halves = next(ctx.load("memory", data=np.full((2, 4, 4), 1.5)).get_partitions())
    assert (halves.get_macrotile("uint8") == 1).all()


@POSITIONS_WITHOUT_DATA
@FRAMES_LEFT_OVER
def test_positions_without_a_frame_are_said(ctx, data):
    rows = data.reshape(35, 6, 4)
    ds = ctx.load("memory", data=rows, sig_dims=2, nav_shape=(6, 7), sync_offset=-3)
    assert np.array_equal(ds[0, 3], rows[0])
    with pytest.raises(InvalidArgumentError, match=r"at 3 of .* the first of which is \(0, 0\)"):
        ds[0]
    assert np.array_equal(ds[ds.valid_mask], rows)
    tiles = [tile for part in ds.get_partitions() for tile in part.get_tiles(None, np.uint16)]
    assert tiles[0].tile_slice.origin == (3, 0, 0)
    assert np.array_equal(np.concatenate(tiles), rows)
    assert (ds.meta.image_count, ds.meta.sync_offset) == (35, -3)
    ds = ctx.load("memory", data=rows, sig_dims=2, nav_shape=(2, 5), sync_offset=4)
    assert (ds.meta.image_count, ds.meta.sync_offset) == (35, 4)


@POSITIONS_WITHOUT_DATA
@pytest.mark.parametrize(("offset", "first"), [(0, 7), (-2, 9), (3, 4)])
def test_the_first_position_after_all_frames(ctx, tmp_path, offset, first):
    """Of a file that was cut, and of frames that begin elsewhere."""
    np.arange(28, dtype=np.uint16).tofile(tmp_path / "a.raw")
    how = {"dtype": "u2", "nav_shape": (10,), "sig_shape": (2, 2), "sync_offset": offset}
    ds = ctx.load("raw", tmp_path / "a.raw", **how)
    assert ds[first - 1].tolist() == [[24, 25], [26, 27]]
    for missing in (first, *range(-offset)):
        with pytest.raises(InvalidArgumentError, match=rf"first of which is \({missing},\)"):
            ds[missing]


def test_runs_end_where_one_frame_is_missing():
    numbers = np.array([0, 1, 3, 4, 7])
    assert list(_picking._runs(numbers, 10)) == [(0, 2), (2, 4), (4, 5)]


@pytest.mark.parametrize("with_roi", [False, True])
@pytest.mark.parametrize("block", [1, 500, 1 << 25])
@pytest.mark.parametrize("tileshape", [None, (4, 6, 4), (3, 4, 3), (1, 1, 4)])
def test_tiles_of_all_partitions_are_all_of_the_data(
    ds, data, with_roi, block, tileshape, monkeypatch
):
    monkeypatch.setattr(_picking, "BLOCK_BYTES", block)
    roi = ROI if with_roi else None
    expected = data[ROI] if with_roi else data.reshape(35, 6, 4)
    scheme = tileshape and TilingScheme.make_for_shape(Shape(tileshape, sig_dims=2), ds.shape)
    found = np.zeros(expected.shape, dtype=np.float32)
    seen = np.zeros(expected.shape, dtype=int)
    n_frames = 0
    for part in ds.get_partitions():
        assert part.slice.shape == part.shape
        n_frames += part.get_frame_count(roi)
        for tile in part.get_tiles(scheme, roi=roi):
            assert tile.dtype == np.float32
            assert tile.c_contiguous
            assert tile.flat_data.shape == (len(tile), tile[0].size)
            assert type(tile.data) is np.ndarray
            if scheme is not None:
                assert tuple(tile.tile_slice.sig.shape) == tuple(scheme[tile.scheme_idx].shape)
                assert len(tile) <= tileshape[0]
            found[tile.tile_slice.get()] = tile
            seen[tile.tile_slice.get()] += 1
        whole = part.get_macrotile("uint16", roi=roi)
        assert np.array_equal(whole, expected[whole.tile_slice.get()])
    assert n_frames == len(expected)
    assert np.array_equal(seen, np.ones_like(seen))
    assert np.array_equal(found, expected)


def test_as_many_partitions_as_it_says(ds):
    assert ds.get_num_partitions() == len(list(ds.get_partitions())) == 3
    with pytest.raises(InvalidArgumentError, match=r"shape \(3,\)"):
        next(ds.get_partitions()).get_frame_count(np.ones(3, dtype=bool))


def test_meta_data_have_shapes_beside_texts(ds, data):
    assert ds.meta == dict(ds._engine.details)
    assert tuple(ds.meta.shape) == SHAPE
    assert ds.meta.shape.sig == ds.shape.sig
    assert ds.meta.image_count == 35
    assert ds.meta.raw_dtype == ds.meta.dtype == data.dtype
    assert ds.meta.array_backends == ds.native_backends
    assert ds.meta.sync_offset == 0
    assert ds.meta.metadata == ds.metadata


def test_views_that_are_sure_to_be_views():
    from framefold.common.buffers import empty_aligned, reshaped_view, zeros_aligned

    array = np.zeros((4, 6))
    view = reshaped_view(array, (24,))
    view[7] = 1
    assert array[1, 1] == 1
    assert reshaped_view(array[:, :3], (4, 1, 3)).shape == (4, 1, 3)
    for wrong, shape in ((array[:, :3], (12,)), (array.T, (24,)), (array, (5, 5))):
        with pytest.raises(AttributeError, match="shape"):
            reshaped_view(wrong, shape)
    for make in (empty_aligned, zeros_aligned):
        for size, shape in (((3, 4), (3, 4)), (5, (5,)), ((0, 2), (0, 2)), ((), ())):
            made = make(size, "complex64")
            assert made.shape == shape
            assert made.dtype == np.complex64
            assert made.ctypes.data % 4096 == 0 or not made.size
            made[...] = 2
    assert not zeros_aligned((100, 3), "u2").any()
    assert zeros_aligned((2,), object).tolist() == [0, 0]


def test_a_frame_by_its_position(ds, data):
    assert np.array_equal(ds.frame(2, 3), data[2, 3])
    assert np.array_equal(ds.frame(-1, np.int64(0)), data[-1, 0])
    for y in (5, 2**63):
        with pytest.raises(IndexError, match=r"scan of shape \(5, 7\)"):
            ds.frame(y, 0)
    for position in ((2,), (1, 2, 3), (slice(None), 3), (1.0, 2), (True, 2), (np.arange(2), 3)):
        with pytest.raises(InvalidArgumentError, match="one integer for each navigation axis"):
            ds.frame(*position)


def test_small_data_are_an_array(ds, data):
    array = np.asarray(ds)
    assert array.dtype == data.dtype
    assert np.array_equal(array, data)
    assert np.asarray(ds, dtype=np.float64).dtype == np.float64
    assert np.array_equal(np.array(ds), data)
    with pytest.raises(ValueError, match=r"without a copy|copy=False|avoid.*copy"):
        np.array(ds, copy=False)


def test_large_data_are_no_array_but_have_partitions(ctx, tmp_path):
    path = tmp_path / "large.npy"
    np.lib.format.open_memmap(path, "w+", np.uint8, (2, 1024, 1024, 1024)).flush()
    ds = ctx.open(path)
    with pytest.raises(LimitError, match=r"one array; take a part.*of 1073741824"):
        np.asarray(ds)
    with pytest.raises(LimitError, match=r"^dataset\[…\]: 2048 frames .* that returns less$"):
        ds[:]
    partitions = list(ds.get_partitions())
    assert len(partitions) == ds.get_num_partitions()
    assert sum(part.get_frame_count() for part in partitions) == 2048
    assert max(part.get_frame_count() for part in partitions) <= 64
    assert next(partitions[-1].get_tiles()).sum() == 0


@pytest.mark.parametrize("position", [(), (2, 3)])
def test_a_first_look(ds, data, position):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    axes = ds.plot(*position)
    shown = data[position] if position else data.sum(axis=(0, 1), dtype=np.float64)
    assert np.array_equal(axes.images[0].get_array(), shown)
    names = "".join(f"{path.name}: " for path in ds.paths)
    title = "frame (2, 3)" if position else "sum of 35 frames"
    assert axes.get_title() == names + title
    assert ds.plot(0, 0, ax=axes) is axes
    pyplot.close("all")


@POSITIONS_WITHOUT_DATA
def test_looks_at_spectra_and_at_what_cannot_be_drawn(ctx, data):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    spectra = ctx.load("memory", data=data[..., 0] * 1j, sig_dims=1)
    curve = spectra.plot(1, 2)
    assert np.array_equal(curve.lines[0].get_ydata(), data[1, 2, :, 0])
    assert curve.get_ylabel() == "magnitude"
    assert ctx.load("memory", data=data, sig_dims=2, nav_shape=(6, 7), sync_offset=0).plot()
    with pytest.raises(UnsupportedError, match="frames of one or two axes, and these have 3"):
        ctx.load("memory", data=data, sig_dims=3).plot()
    pyplot.close("all")


def test_tiles_of_frames_that_are_too_large_name_the_way_out(ctx, tmp_path):
    side = 33_000
    with open(tmp_path / "large.raw", "wb") as file:
        file.truncate(side**2)  # takes no room on the disk
    ds = ctx.load(
        "raw", path=tmp_path / "large.raw", dtype="uint8", nav_shape=(1,), sig_shape=(side, side)
    )
    (partition,) = ds.get_partitions()
    with pytest.raises(LimitError, match=r"run a function over it, Context\.run_udf: .* 1 frames"):
        next(partition.get_tiles())


def test_other_limits_of_tiles_are_said_as_they_are(ctx, data, monkeypatch):
    def pick(*_):
        raise LimitError("there is no memory for 16 frames")

    partition = next(ctx.load("memory", data=data, sig_dims=2).get_partitions())
    monkeypatch.setattr(_picking, "_pick", pick)
    with pytest.raises(LimitError, match=r"^there is no memory for 16 frames$"):
        next(partition.get_tiles())
