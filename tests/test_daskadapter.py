"""Data sets as Dask arrays."""

import numpy as np
import pytest
from delayed_cases import NAV, SIG, scan, some
from known_oddities import POSITIONS_WITHOUT_DATA

import framefold as ff
from framefold.contrib import daskadapter
from framefold.contrib.daskadapter import make_dask_array
from framefold.corrections import CorrectionSet
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.io.dataset.dask import DaskDataSet
from framefold.utils.write_mib import write_mib

da = pytest.importorskip("dask.array", reason="dask.array is not installed")

FRAME = 120 * 2


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


@pytest.mark.parametrize(
    ("block_bytes", "chunks"),
    [
        (64 << 20, ((6,), (7,))),
        (20 * FRAME, ((2, 2, 2), (7,))),
        (28 * FRAME, ((3, 3), (7,))),
        (5 * FRAME, ((1,) * 6, (4, 3))),
        (1, ((1,) * 6, (1,) * 7)),
    ],
)
def test_blocks_are_runs_of_frames(ctx, monkeypatch, block_bytes, chunks):
    monkeypatch.setattr(daskadapter, "BLOCK_BYTES", block_bytes)
    data = scan("uint16")
    dataset = ctx.load("memory", data=data, sig_dims=2)
    array, workers = make_dask_array(dataset)
    assert isinstance(array, da.Array)
    assert workers == []
    assert (array.shape, array.dtype) == (data.shape, data.dtype)
    assert array.chunks == (*chunks, (10,), (12,))
    assert np.array_equal(array.compute(), data)
    sums = array.sum(axis=(-1, -2)).compute(workers=workers)
    assert np.array_equal(sums, data.sum(axis=(-1, -2)))
    part = array[3:, 2:5, 4].compute(scheduler="sync")
    assert np.array_equal(part, data[3:, 2:5, 4])


@pytest.mark.parametrize("dtype", [None, "float64", np.uint8, "complex64"])
def test_dtypes(ctx, dtype):
    data = scan("uint16")
    array, _ = make_dask_array(ctx.load("memory", data=data, sig_dims=2), dtype=dtype)
    expected = data.astype(data.dtype if dtype is None else dtype)
    assert array.dtype == expected.dtype
    found = array.compute()
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("block_bytes", [64 << 20, 5 * FRAME])
def test_a_roi_gives_selected_frames(ctx, monkeypatch, block_bytes):
    monkeypatch.setattr(daskadapter, "BLOCK_BYTES", block_bytes)
    data = scan("float32")
    dataset = ctx.load("memory", data=data, sig_dims=2)
    array, _ = make_dask_array(dataset, roi=some())
    assert array.shape == (np.count_nonzero(some()), *SIG)
    assert np.array_equal(array.compute(), data[some()])
    array, _ = make_dask_array(dataset, roi=(2, 3))
    assert np.array_equal(array.compute(), data[2:3, 3])


@pytest.mark.parametrize("sync_offset", [5, -9])
@pytest.mark.parametrize("dtype", [None, "float32"])
@pytest.mark.parametrize("block_bytes", [64 << 20, 5 * FRAME])
@POSITIONS_WITHOUT_DATA
def test_positions_without_data(ctx, monkeypatch, sync_offset, dtype, block_bytes):
    monkeypatch.setattr(daskadapter, "BLOCK_BYTES", block_bytes)
    flat = scan("uint16").reshape((42, *SIG))
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2, sync_offset=sync_offset)
    there = [p for p in range(42) if 0 <= p + sync_offset < 42]
    expected = np.full(flat.shape, 0 if dtype is None else np.nan, dtype or "uint16")
    expected[there] = flat[[p + sync_offset for p in there]]
    array, _ = make_dask_array(dataset, dtype=dtype)
    found = array.compute().reshape(flat.shape)
    np.testing.assert_array_equal(found, expected)


def test_files(ctx, tmp_path):
    data = scan("uint16")
    write_mib(tmp_path / "scan.mib", data)
    np.save(tmp_path / "scan.npy", data)
    for path in ("scan.mib", "scan.npy"):
        dataset = ctx.open(tmp_path / path)
        if tuple(dataset.shape) != data.shape:
            dataset = ctx.load("mib", tmp_path / path, nav_shape=NAV)
        array, _ = make_dask_array(dataset)
        assert np.array_equal(array.compute(scheduler="threads"), data)


def test_frames_cut_in_tiles(ctx):
    data = np.random.default_rng(7).integers(0, 99, (3, 2, 1200, 1100), dtype=np.uint16)
    array, _ = make_dask_array(ctx.load("memory", data=data, sig_dims=2), dtype="float32")
    assert np.array_equal(array.compute(), data)


def test_there_and_back(ctx):
    data = scan("uint16")
    array, _ = make_dask_array(ctx.load("memory", data=data, sig_dims=2))
    dataset = ctx.load("dask", array, sig_dims=2)
    sums = ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF())["intensity"].data
    assert np.array_equal(sums, data.sum(axis=(-1, -2)))


def test_a_dask_array_is_itself(ctx):
    data = scan("uint16")
    given = da.from_array(data, chunks=(2, 3, 5, 12))
    dataset = ctx.load("dask", given, sig_dims=2)
    assert make_dask_array(dataset)[0] is given
    assert make_dask_array(dataset.calibrate(scan_step="0.5nm"))[0] is given
    array, _ = make_dask_array(dataset, roi=some(), dtype="float64")
    assert array.dtype == np.float64
    assert np.array_equal(array.compute(), data[some()])


class Half(ff.Transform):
    def process_frame(self, frame, out):
        out[:] = frame // 2


class WithGain(DaskDataSet):
    def get_correction_data(self):
        return CorrectionSet(gain=np.full(SIG, 0.5))


@pytest.mark.parametrize("block_bytes", [64 << 20, 5 * FRAME])
@pytest.mark.parametrize("chunks", [(2, 3, 5, 12), (1, 7, 10, 12)])
@pytest.mark.parametrize(
    "change",
    [
        lambda dataset: dataset.orient(transpose=True),
        lambda dataset: dataset.calibrate(scan_step="0.5nm").orient(flip="y"),
        lambda dataset: dataset.pipe(ff.Crop(np.s_[:4, 2:]), ff.Bin(2)),
        lambda dataset: dataset.pipe(ff.Rebin((2, 1))),
        lambda dataset: dataset.pipe(CorrectionSet(dark=np.ones(SIG))),
        lambda dataset: dataset.pipe(Half()),
    ],
    ids=["transposed", "flipped", "cut", "rebinned", "corrected", "transformed"],
)
def test_a_changed_dask_array_is_changed(ctx, monkeypatch, change, chunks, block_bytes):
    monkeypatch.setattr(daskadapter, "BLOCK_BYTES", block_bytes)
    loaded = ctx.load("dask", da.from_array(scan("uint16"), chunks=chunks), sig_dims=2)
    dataset = change(loaded)
    expected = dataset[...]
    array, _ = make_dask_array(dataset)
    assert (array.shape, array.dtype) == (expected.shape, expected.dtype)
    assert np.array_equal(array.compute(), expected)
    roi = np.random.default_rng(3).random(tuple(dataset.shape.nav)) < 0.5
    array, _ = make_dask_array(dataset, roi=roi)
    assert np.array_equal(array.compute(), expected[roi])
    with pytest.raises(UnsupportedError, match=r"has no array: .*make_dask_array"):
        dataset.array  # noqa: B018


def test_a_dask_array_with_corrections_of_its_own(ctx):
    data = scan("uint16")
    array, _ = make_dask_array(WithGain(da.from_array(data, chunks=(2, 3, 5, 12)), sig_dims=2))
    assert np.array_equal(array.compute(), data / 2)


def test_what_is_no_data_set_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"Context\.load"):
        make_dask_array(np.zeros((2, 3)))


@pytest.mark.parametrize("name", ["numpy", "cuda", "sparse.COO", "sparse.GCXS", "sparse.DOK"])
def test_blocks_of_another_format(name):
    sparse = pytest.importorskip("sparse", reason="sparse is not installed")
    data = np.random.default_rng(2).poisson(0.1, (4, 5, 6, 7)).astype(np.uint16)
    dataset = ff.Context.make_with("inline").load("memory", data=data, sig_dims=2)
    array, _ = make_dask_array(dataset, array_backend=name)
    block = array.blocks[0, 0].compute(scheduler="synchronous")
    kind = getattr(sparse, name[7:]) if name.startswith("sparse") else np.ndarray
    assert type(block) is kind
    assert array.dtype == block.dtype == data.dtype
    found = block if kind is np.ndarray else block.todense()
    assert np.array_equal(found, data[tuple(slice(n) for n in block.shape)])
    with pytest.raises(UnsupportedError, match="csr"):
        make_dask_array(dataset, array_backend="scipy.sparse.csr_matrix")
