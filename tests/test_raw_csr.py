"""Sparse files: the same results as of the dense frames that they hold."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from known_oddities import POSITIONS_WITHOUT_DATA

import framefold as ff
from framefold.exceptions import BadFileError, InvalidArgumentError
from framefold.executor.inline import InlineJobExecutor
from framefold.udf import UDF

scipy_sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")

SHAPE = (5, 6, 16, 12)


@pytest.fixture
def counts():
    return np.random.default_rng(4).poisson(0.05, SHAPE).astype(np.uint16)


def write(folder, counts, indptr="<i8", indices="<i4", data="<u2"):
    """The three arrays by way of SciPy, and the descriptor."""
    rows = scipy_sparse.csr_array(counts.reshape(30, -1))
    for name, array, dtype in (
        ("indptr", rows.indptr, indptr),
        ("indices", rows.indices, indices),
        ("data", rows.data, data),
    ):
        array.astype(dtype).tofile(folder / name)
    path = folder / "scan.toml"
    path.write_text(
        f'[params]\nfiletype = "raw_csr"\nnav_shape = [5, 6]\nsig_shape = [16, 12]\n[raw_csr]\n'
        f'indptr_file = "indptr"\nindptr_dtype = "{indptr}"\n'
        f'indices_file = "indices"\nindices_dtype = "{indices}"\n'
        f'data_file = "data"\ndata_dtype = "{data}"\n'
    )
    return path


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
@pytest.mark.parametrize(
    "dtypes", [("<i8", "<i4", "<u2"), (">u4", ">u2", ">f4"), ("i2", "u1", "?")]
)
def test_results_are_those_of_the_dense_frames(ctx, tmp_path, counts, backend, dtypes):
    path = write(tmp_path, counts, *dtypes)
    dataset = ctx.load("raw_csr", path, io_backend=backend)
    dense = counts.astype(np.dtype(dtypes[2]).newbyteorder("="))
    assert (dataset.format, tuple(dataset.shape), dataset.dtype) == ("raw_csr", SHAPE, dense.dtype)
    assert len(dataset.paths) == 4
    expected = ctx.load("memory", data=dense)
    udfs = [ff.SumUDF(), ff.SumSigUDF(), ff.PickUDF(), ff.StdDevUDF()]
    roi = np.random.default_rng(1).random(SHAPE[:2]) < 0.5
    for chosen in (None, roi):
        results = ctx.run_udf(dataset, udfs, roi=chosen)
        references = ctx.run_udf(expected, udfs, roi=chosen)
        for found, wanted in zip(results, references, strict=True):
            for name in wanted:
                np.testing.assert_allclose(
                    found[name].raw_data, wanted[name].raw_data, rtol=1e-6, err_msg=name
                )


@POSITIONS_WITHOUT_DATA
def test_sync_offset_and_shapes(ctx, tmp_path, counts):
    path = write(tmp_path, counts)
    dataset = ctx.load("raw_csr", path=path, nav_shape=(31,), sig_shape=(192,), sync_offset=2)
    sums = ctx.run_udf(dataset, ff.SumSigUDF())["intensity"].data
    expected = counts.reshape(30, -1).sum(axis=1).astype(np.float32)
    np.testing.assert_array_equal(sums[:28], expected[2:])
    assert np.isnan(sums[28:]).all()
    dataset = ctx.load("raw_csr", path=path, nav_shape=(30,), sync_offset=-2)
    roi = np.isin(np.arange(30), (1, 4, 29))
    sums = ctx.run_udf(dataset, ff.SumSigUDF(), roi=roi)["intensity"].raw_data
    np.testing.assert_array_equal(sums, [np.nan, expected[2], expected[27]])
    with pytest.raises(InvalidArgumentError, match="sig_shape"):
        ctx.load("raw_csr", path, sig_shape=(191,))


def test_damage_is_named(ctx, tmp_path, counts):
    path = write(tmp_path, counts)
    indices = np.fromfile(tmp_path / "indices", "<i4")
    frame = int(np.searchsorted(np.fromfile(tmp_path / "indptr", "<i8"), 50, side="right")) - 1
    indices[50] = 192
    indices.tofile(tmp_path / "indices")
    with pytest.raises(BadFileError, match=rf"indices.* at byte 200: found 192.*frame {frame}"):
        ctx.run_udf(ctx.open(path), ff.SumUDF())
    (tmp_path / "data").write_bytes(b"12")
    with pytest.raises(BadFileError, match=r"data.*1 values"):
        ctx.open(path)


class Columns(UDF):
    """What SciPy goes by, before and after a change of the memory that it came from."""

    def __init__(self, change, same):
        super().__init__(change=change, same=same)

    def get_backends(self):
        return ("scipy.sparse.csr_array",)

    def get_result_buffers(self):
        return {"nothing": self.buffer(kind="nav", dtype=bool)}

    def process_tile(self, tile):
        before = tile.indptr.copy(), tile.indices.copy()
        self.params.change()
        after = tile.indptr, tile.indices
        self.params.same.extend(np.array_equal(*pair) for pair in zip(before, after, strict=True))


def test_columns_of_mapped_files_stay_as_they_were_checked(tmp_path, counts):
    """SciPy's compiled code writes to the cell of a column without a look at it."""
    ctx = ff.Context(executor=InlineJobExecutor())
    dataset = ctx.load("raw_csr", write(tmp_path, counts), num_partitions=1)
    columns = np.memmap(tmp_path / "indices", dtype="<i4", mode="r+")
    same = []
    # That the file changed may be noticed in the end.
    with contextlib.suppress(BadFileError):
        ctx.run_udf(dataset, Columns(lambda: columns.fill(np.iinfo(np.int32).max), same))
    assert same
    assert all(same)


def test_columns_of_arrays_in_memory_stay_as_they_were_checked(counts):
    ctx = ff.Context(executor=InlineJobExecutor())
    rows = scipy_sparse.csr_array(counts.reshape(30, -1))
    dataset = ctx.load("memory", data=rows, nav_shape=(5, 6), sig_shape=(16, 12))
    same = []
    # Later partitions find what it has become.
    with contextlib.suppress(BadFileError):
        ctx.run_udf(dataset, Columns(lambda: rows.indices.fill(np.iinfo(np.int32).max), same))
    assert same
    assert all(same)


def test_copies_keep_meta_data_and_axes(counts, tmp_path):
    ctx = ff.Context(executor=InlineJobExecutor())
    plain = ctx.load("memory", data=counts)
    dataset = plain.calibrate(
        scan_step=((2.0, "s"), (0.5, "nm")), pixel_size=(1.2, "mrad"), rotation=30, centre=(8, 6)
    )
    copy = ctx.open(ctx.convert(dataset, tmp_path / "copy.toml").paths[0])
    assert copy.axes == dataset.axes
    assert copy.metadata == dataset.metadata
    result = ctx.run_udf(copy, ff.SumUDF())["intensity"]
    assert result.axes == ctx.run_udf(dataset, ff.SumUDF())["intensity"].axes
    assert [axis.unit for axis in result.axes] == ["mrad", "mrad"]
    # Without one of its axes, a copy keeps what is known of the others.
    flat = ctx.load("raw_csr", tmp_path / "copy.toml", nav_shape=(30,))
    assert flat.axes[-1] == dataset.axes[-1]
    ctx.convert(plain, tmp_path / "plain.toml")
    assert "[framefold]" not in (tmp_path / "plain.toml").read_text()
