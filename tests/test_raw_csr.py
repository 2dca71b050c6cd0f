"""Sparse files: the same results as of the dense frames that they hold."""

from __future__ import annotations

import numpy as np
import pytest

import framefold as ff
from framefold.exceptions import BadFileError, InvalidArgumentError

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


def test_sync_offset_and_shapes(ctx, tmp_path, counts):
    path = write(tmp_path, counts)
    dataset = ctx.load("raw_csr", path=path, nav_shape=(31,), sig_shape=(192,), sync_offset=2)
    sums = ctx.run_udf(dataset, ff.SumSigUDF())["intensity"].data
    expected = counts.reshape(30, -1).sum(axis=1).astype(np.float32)
    np.testing.assert_array_equal(sums[:28], expected[2:])
    assert np.isnan(sums[28:]).all()
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
