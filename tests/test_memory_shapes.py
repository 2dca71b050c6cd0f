"""Arrays in memory under other shapes: every element is in one frame, or there is an error."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from known_oddities import POSITIONS_WITHOUT_DATA, odd
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import InvalidArgumentError

SHAPES = [
    # The array, the options, what becomes of it: scan and frame.
    ((2, 3, 8, 8), {}, (2, 3), (8, 8)),
    ((2, 3, 8, 8), {"nav_shape": (2, 3)}, (2, 3), (8, 8)),
    ((2, 3, 8, 8), {"nav_shape": (2, 3, 8)}, (2, 3, 8), (8,)),
    ((2, 3, 8, 8), {"nav_shape": (6,)}, (6,), (8, 8)),
    ((2, 3, 8, 8), {"nav_shape": (2,)}, (2,), (3, 8, 8)),
    ((6, 8, 8), {"nav_shape": (2, 3)}, (2, 3), (8, 8)),
    ((6, 8), {"nav_shape": (2, 3)}, (2, 3), (8,)),
    ((8, 8), {"nav_shape": (1,)}, (1,), (8, 8)),
    ((2, 3, 8, 8), {"sig_shape": (8,)}, (2, 3, 8), (8,)),
    ((2, 3, 8, 8), {"sig_shape": (64,)}, (2, 3), (64,)),
    ((2, 3, 64), {"sig_shape": (8, 8)}, (2, 3), (8, 8)),
    ((2, 3, 8, 8), {"nav_shape": (3, 2), "sig_shape": (8, 8)}, (3, 2), (8, 8)),
    ((2, 3, 8, 8), {"nav_shape": (2, 24), "sig_dims": 1}, (2, 24), (8,)),
]
WRONG = [
    ((2, 3, 8, 8), {"nav_shape": (4, 5)}, "nav_shape"),
    ((2, 3, 8, 8), {"nav_shape": (2, 2)}, "nav_shape"),
    ((2, 3, 8, 8), {"nav_shape": (4, 5), "sig_shape": (8, 8)}, "nav_shape"),
    ((2, 3, 8, 8), {"nav_shape": (2, 3, 8), "sig_dims": 2}, "nav_shape"),
    ((2, 3, 8, 8), {"nav_shape": (2, 2), "sig_shape": (64,)}, "nav_shape"),
    ((2, 3, 8, 8), {"nav_shape": (2, 3), "sig_shape": (4, 4)}, "sig_shape"),
    ((2, 3, 8, 8), {"nav_shape": (-2, -3)}, "1 or more"),
]


def arrays(shape: tuple[int, ...]) -> list[object]:
    """The same numbers as a dense array and as sparse ones."""
    data = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    sparse = pytest.importorskip("sparse", reason="sparse is not installed")
    return [data, data[..., ::-1], sparse.COO(data), sparse.GCXS.from_numpy(data)]


@pytest.mark.parametrize(("shape", "options", "nav", "sig"), SHAPES)
@odd("the picture is sheared")
def test_every_element_is_in_one_frame(shape, options, nav, sig):
    ctx = ff.Context.make_with("inline")
    for data in arrays(shape):
        dense = data if isinstance(data, np.ndarray) else data.todense()
        for formats in (None, "numpy", "scipy.sparse.csr_matrix"):
            ds = ctx.load("memory", data=data, array_backends=formats, **options)
            assert (tuple(ds.shape.nav), tuple(ds.shape.sig)) == (nav, sig)
            assert ds.valid_mask.all()
            sums = ctx.run_udf(ds, ff.SumSigUDF())["intensity"]
            expected = dense.reshape((*nav, -1)).sum(axis=-1, dtype=np.float64)
            assert np.allclose(sums.data, expected)


@pytest.mark.parametrize(("shape", "options", "word"), WRONG)
def test_anything_else_is_an_error(shape, options, word):
    ctx = ff.Context.make_with("inline")
    for data in arrays(shape):
        for formats in (None, "numpy", "scipy.sparse.csr_matrix"):
            with pytest.raises(InvalidArgumentError, match=word):
                ctx.load("memory", data=data, array_backends=formats, **options)
    with pytest.raises(InvalidArgumentError, match=word):
        ctx.load("memory", datashape=shape, array_backends="scipy.sparse.csr_matrix", **options)


def test_rows_of_a_matrix_are_counted_too():
    scipy_sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    rows = scipy_sparse.csr_matrix(np.eye(6, 64))
    ctx = ff.Context.make_with("inline")
    ds = ctx.load("memory", data=rows, nav_shape=(2, 3), sig_shape=(8, 8))
    assert tuple(ds.shape) == (2, 3, 8, 8)
    with pytest.raises(InvalidArgumentError, match="20 positions, and there are 6 frames"):
        ctx.load("memory", data=rows, nav_shape=(4, 5), sig_shape=(8, 8))


@pytest.mark.parametrize("offset", [0, 2])
@POSITIONS_WITHOUT_DATA
def test_a_scan_with_missing_positions_is_asked_for(offset):
    ctx = ff.Context.make_with("inline")
    data = np.ones((6, 8, 8), dtype=np.uint8)
    ds = ctx.load("memory", data=data, sig_dims=2, nav_shape=(4, 5), sync_offset=offset)
    assert ds.valid_mask.sum() == 6 - offset


class Levels(ff.UDF):
    def get_result_buffers(self):
        return {"level": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.level[:] = frame.sum()


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_what_is_copied_when_it_is_loaded_stays_as_it_was(executor):
    """Wherever it runs: workers made the copy anew for each run, of what the array held then."""
    scipy_sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    csr = "scipy.sparse.csr_matrix"
    with shared(executor) as ctx:
        for make, options, factor in [
            (lambda a: a, {}, 2),
            (lambda a: a.T, {"sig_dims": 2}, 2),
            (lambda a: a[:, ::-1], {}, 1),
            (lambda a: a[:, :, ::-1], {"array_backends": csr}, 1),
            (lambda a: a.T, {"datashape": (36, 4), "sig_dims": 1}, 1),
            (lambda a: a, {"array_backends": csr}, 1),
            (lambda a: scipy_sparse.csc_matrix(a.reshape(4, 36)), {"sig_shape": (6, 6)}, 1),
        ]:
            array = np.random.default_rng(3).integers(1, 9, (4, 6, 6)).astype("u2")
            data = make(array)
            ds = ctx.load("memory", data=data, num_partitions=2, **options)
            before = ctx.run_udf(ds, Levels())["level"].data
            array *= 2
            if scipy_sparse.issparse(data):
                data.data *= 2
            after = ctx.run_udf(ds, Levels())["level"].data
            assert np.array_equal(after, factor * before), options
            pickled = pickle.loads(pickle.dumps(ds))
            assert np.array_equal(ctx.run_udf(pickled, Levels())["level"].data, after)
            assert pickled.data.sum() == after.sum()
        # An array has its shape and dtype for itself.
        before = ctx.run_udf(ctx.load("memory", data=array), Levels())["level"].data
        ds = ctx.load("memory", data=array)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            array.shape, array.dtype = (2, 12, 6), ">u2"
        assert np.array_equal(ctx.run_udf(ds, Levels())["level"].data, before)
