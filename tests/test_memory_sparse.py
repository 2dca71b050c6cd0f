"""Sparse arrays in memory: the same frames as the dense array that they were made of."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from format_udfs import Asks
from known_oddities import POSITIONS_WITHOUT_DATA

import framefold as ff
from framefold.exceptions import (
    BadFileError,
    InvalidArgumentError,
    LimitError,
    UnsupportedError,
)
from framefold.udf import UDF

scipy_sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
sparse = pytest.importorskip("sparse", reason="sparse is not installed")

SHAPE = (4, 5, 6, 7)
SCIPY = [
    f"{kind}_{of}"
    for kind in ("coo", "csr", "csc", "lil", "dok", "bsr", "dia")
    for of in ("matrix", "array")
]
PYDATA = {
    "COO": sparse.COO,
    "DOK": sparse.DOK,
    "GCXS": sparse.GCXS,
    **{
        f"GCXS {axes}": lambda array, axes=axes: sparse.GCXS(array, compressed_axes=axes)
        for axes in [(0,), (1,), (0, 1), (1, 3), (0, 1, 2)]
    },
}


@pytest.fixture
def counts():
    rng = np.random.default_rng(6)
    return (rng.random(SHAPE) < 0.2) * rng.integers(1, 9, SHAPE, dtype=np.uint16)


@pytest.fixture
def rows(counts):
    """One row per frame."""
    return scipy_sparse.csr_matrix(counts.reshape(20, 42))


def frames(ctx, dataset, roi=None):
    """All selected frames."""
    return ctx.run_udf(dataset, ff.PickUDF(), roi=roi)["intensity"].raw_data


def is_sparse(dataset):
    return dataset.meta.get("array format") == "compressed sparse rows"


def parts(array):
    """Copies of what a sparse array consists of, to see whether it was changed."""
    names = [
        name
        for name in ("indptr", "indices", "coords", "row", "col", "data", "rows", "offsets")
        if hasattr(array, name)
    ]
    return {name: np.array(getattr(array, name), copy=True) for name in names}


@pytest.mark.parametrize("name", SCIPY)
@pytest.mark.parametrize("dtype", ["uint16", "float32", "int64"])
def test_matrices_of_scipy_have_a_row_for_each_frame(ctx, counts, name, dtype):
    counts = counts.astype(dtype)
    array = getattr(scipy_sparse, name)(counts.reshape(20, 42))
    before = parts(array) if name[:3] not in ("lil", "dok") else None
    dataset = ctx.load("memory", data=array, nav_shape=(4, 5), sig_shape=(6, 7))
    assert is_sparse(dataset)
    assert (tuple(dataset.shape), dataset.dtype, dataset.data) == (SHAPE, counts.dtype, array)
    own = name if name[:3] in ("coo", "csr", "csc") else f"csr_{name[4:]}"
    assert dataset.native_backends == (f"scipy.sparse.{own}",)
    np.testing.assert_array_equal(frames(ctx, dataset), counts.reshape(20, 6, 7))
    for name, part in (before or {}).items():
        np.testing.assert_array_equal(getattr(array, name), part)


@pytest.mark.parametrize("name", PYDATA)
def test_arrays_of_pydata_have_all_axes(ctx, counts, name):
    dataset = ctx.load("memory", data=PYDATA[name](counts), sig_dims=2)
    assert is_sparse(dataset)
    assert tuple(dataset.shape) == SHAPE
    assert dataset.native_backends == (f"sparse.{name.partition(' ')[0]}",)
    roi = np.random.default_rng(1).random(SHAPE[:2]) < 0.5
    np.testing.assert_array_equal(frames(ctx, dataset), counts.reshape(20, 6, 7))
    np.testing.assert_array_equal(frames(ctx, dataset, roi), counts[roi])


@pytest.mark.parametrize("make", [sparse.COO, sparse.GCXS, sparse.DOK])
def test_shapes(ctx, counts, make):
    array = make(counts)
    for options, shape in [
        ({"sig_dims": 1}, (4, 5, 6, 7)),
        ({"sig_dims": 3}, (4, 5, 6, 7)),
        ({"sig_dims": 4}, (1, 4, 5, 6, 7)),
        ({"sig_shape": (42,), "sig_dims": 1, "datashape": (20, 42)}, (20, 42)),
        ({"sig_shape": (7, 6)}, (4, 5, 7, 6)),
        ({"datashape": (2, 10, 42), "sig_dims": 1}, (2, 10, 42)),
        ({"datashape": (5, 2, 12, 7)}, (5, 2, 12, 7)),
        ({"nav_shape": (20,)}, (20, 6, 7)),
    ]:
        dataset = ctx.load("memory", data=array, **options)
        assert tuple(dataset.shape) == shape, options
        np.testing.assert_array_equal(frames(ctx, dataset).ravel(), counts.ravel(), str(options))


def test_matrices_with_another_shape(ctx, counts, rows):
    for array in (rows, rows.reshape(4, 210), rows.tocsc().reshape(120, 7)):
        dataset = ctx.load("memory", data=array, datashape=SHAPE)
        np.testing.assert_array_equal(frames(ctx, dataset).reshape(SHAPE), counts)
    dataset = ctx.load("memory", data=rows, sig_dims=1)
    assert tuple(dataset.shape) == (20, 42)
    with pytest.raises(InvalidArgumentError, match=r"\(20, 42\) .* pass sig_shape="):
        ctx.load("memory", data=rows)
    with pytest.raises(InvalidArgumentError, match=r"sig_shape \(5, 7\).*\(42,\)"):
        ctx.load("memory", data=rows, sig_shape=(5, 7))
    with pytest.raises(InvalidArgumentError, match=r"datashape \(4, 5, 6, 8\).*\(20, 42\)"):
        ctx.load("memory", data=rows, datashape=(4, 5, 6, 8))


@POSITIONS_WITHOUT_DATA
def test_sync_offset_and_missing_frames(ctx, counts, rows):
    dataset = ctx.load("memory", data=rows, nav_shape=(21,), sig_shape=(6, 7), sync_offset=2)
    sums = ctx.run_udf(dataset, ff.SumSigUDF())["intensity"].data
    np.testing.assert_array_equal(sums[:18], counts.reshape(20, 42).sum(axis=1)[2:])
    assert np.isnan(sums[18:]).all()


@pytest.mark.parametrize(
    "udf",
    [ff.SumUDF(), ff.SumSigUDF(), ff.StdDevUDF(), ff.MaxUDF(), ff.CoMUDF()],
    ids=lambda udf: type(udf).__name__,
)
@pytest.mark.parametrize("tileshape", [None, (3, 6, 7), (2, 4, 7), (5, 1, 3)])
def test_results_are_those_of_the_dense_array(ctx, counts, rows, udf, tileshape):
    roi = np.random.default_rng(2).random(SHAPE[:2]) < 0.7
    options = {"tileshape": tileshape, "num_partitions": 3}
    ours = ctx.load("memory", data=rows, datashape=SHAPE, **options)
    dense = ctx.load("memory", data=counts)
    for chosen in (None, roi):
        found = ctx.run_udf(ours, udf, roi=chosen)
        for name, wanted in ctx.run_udf(dense, udf, roi=chosen).items():
            np.testing.assert_allclose(
                found[name].raw_data, wanted.raw_data, rtol=1e-5, atol=1e-6, err_msg=name
            )


MASKS = np.random.default_rng(5).integers(-9, 10, (3, *SHAPE[2:]))


@pytest.mark.parametrize(
    "udf",
    [
        ff.SumUDF(),
        ff.SumSigUDF(),
        ff.MaxUDF(),
        ff.PickUDF(),
        ff.CoMUDF.with_params(cy=2, cx=3, r=3, regression=1),
        ff.StdDevUDF(),
        *(ff.ApplyMasksUDF(lambda d=dtype: MASKS.astype(d)) for dtype in ("i1", "f4", "f8")),
        ff.ApplyMasksUDF(lambda: MASKS * (MASKS > 3), use_sparse=True),
    ],
    ids=lambda udf: type(udf).__name__,
)
@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integers_have_the_bits_of_the_dense_array(ctx, udf, dtype):
    rng = np.random.default_rng(7)
    info = np.iinfo(dtype)
    low, high = max(info.min, -(2**44)), min(info.max, 2**44)
    counts = rng.integers(low, high, SHAPE, dtype) * (rng.random(SHAPE) < 0.4).astype(dtype)
    rows = scipy_sparse.csr_matrix(counts.reshape(20, 42))
    dense = ctx.load("memory", data=counts, num_partitions=2)
    expected = ctx.run_udf(dense, udf)
    for options in ({"num_partitions": 3}, {"tileshape": (2, 4, 7)}):
        ours = ctx.load("memory", data=rows, datashape=SHAPE, **options)
        for name, found in ctx.run_udf(ours, udf).items():
            if type(udf) is ff.StdDevUDF and info.bits == 64 and name in ("var", "std", "varsum"):
                continue
            wanted = expected[name].raw_data
            np.testing.assert_array_equal(found.raw_data, wanted, err_msg=name)


def test_arrays_in_order_are_read_in_place(ctx, counts, rows):
    dataset = ctx.load("memory", data=rows, datashape=SHAPE)
    assert frames(ctx, dataset)[0].sum() == counts[0, 0].sum()
    rows.data[: rows.indptr[1]] = 9
    entries = np.count_nonzero(counts[0, 0])
    assert frames(ctx, dataset)[0].sum() == 9 * entries
    for part in (rows.data, rows.indices, rows.indptr):
        part.flags.writeable = False
    dataset = ctx.load("memory", data=rows, datashape=SHAPE)
    assert frames(ctx, dataset)[0].sum() == 9 * entries


def test_indices_of_eight_bytes(ctx, counts, rows):
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    dataset = ctx.load("memory", data=rows, datashape=SHAPE)
    np.testing.assert_array_equal(frames(ctx, dataset), counts.reshape(20, 6, 7))


def test_entries_out_of_order_are_sorted_and_added_up(ctx):
    pixels, values = [5, 1, 5, 0], np.array([1, 2, 4, 8], dtype=np.uint8)
    rows = scipy_sparse.csr_array((values, pixels, [0, 3, 3, 4]), shape=(3, 6))
    before = parts(rows)
    expected = [[0, 2, 0, 0, 0, 5], [0] * 6, [8, 0, 0, 0, 0, 0]]
    dataset = ctx.load("memory", data=rows, sig_dims=1)
    np.testing.assert_array_equal(frames(ctx, dataset), expected)
    for name, part in before.items():
        np.testing.assert_array_equal(getattr(rows, name), part)
    coo = scipy_sparse.coo_array((values, ([2, 2, 2, 0], pixels)), shape=(3, 6))
    dataset = ctx.load("memory", data=coo, sig_dims=1)
    np.testing.assert_array_equal(frames(ctx, dataset), [expected[2], expected[1], expected[0]])


def test_counts_that_do_not_fit_are_no_small_counts(ctx):
    counts = np.full(3, 100, dtype=np.uint8)
    coo = scipy_sparse.coo_array((counts, ([0, 1, 1], [2, 2, 2])), shape=(2, 4))
    assert frames(ctx, ctx.load("memory", data=coo, sig_dims=1))[1, 2] == 200
    coo = scipy_sparse.coo_array((counts, ([1, 1, 1], [2, 2, 2])), shape=(2, 4))
    with pytest.raises(InvalidArgumentError, match=r"pixel 2 .*uint8.*frame 1.*wider dtype"):
        ctx.load("memory", data=coo, sig_dims=1)


@pytest.mark.parametrize("dtype", ["bool", "float16", "complex64", "complex128", ">i4", ">f8"])
def test_dtypes(ctx, dtype):
    values = np.array([1, 0, 1, 1], dtype=dtype)
    coo = sparse.COO(np.array([[0, 0, 1, 2], [1, 3, 0, 3]]), values, shape=(3, 4))
    dataset = ctx.load("memory", data=coo, sig_dims=1)
    assert dataset.dtype == np.dtype(dtype).newbyteorder("=")
    expected = np.zeros((3, 4), dtype=dtype)
    expected[[0, 0, 1, 2], [1, 3, 0, 3]] = values
    np.testing.assert_array_equal(frames(ctx, dataset), expected)


def test_what_cannot_be_a_pixel_is_refused(ctx, rows):
    rows.data = rows.data.astype(object)
    with pytest.raises(InvalidArgumentError, match="dtype object"):
        ctx.load("memory", data=rows, sig_dims=1)
    with pytest.raises(InvalidArgumentError, match="fill value"):
        ctx.load("memory", data=sparse.COO(np.ones(SHAPE), fill_value=1))
    with pytest.raises(InvalidArgumentError, match="sig_dims=5"):
        ctx.load("memory", data=sparse.COO(np.ones(SHAPE)), sig_dims=5)


DAMAGE = {
    "a row that begins too late": ("indptr", 3, 9999, "9999 among the row pointers"),
    "a row that ends before it begins": ("indptr", 3, -1, "-1 among the row pointers"),
    "more entries than there are": ("indptr", -1, 9999, "last one 9999"),
    "entries of no row": ("indptr", 0, 5, "begins with 5"),
    "a pixel outside of the frame": ("indices", 3, 42, "42 among the columns.*frame 0"),
    "a pixel below 0": ("indices", 3, -1, "-1 among the columns, expected 0 to 41"),
    "fewer values": ("data", None, lambda part: part[:-3], "values for .* columns"),
    "fewer rows": ("indptr", None, lambda part: part[:-3], "18 elements, expected 21"),
    "indices that are no integers": ("indices", None, lambda part: part / 2, "float64"),
    "pointers that are no integers": ("indptr", None, lambda part: part / 2, "float64"),
    "indices with two axes": ("indices", None, lambda part: part[None], "one axis"),
    "indices beyond 32 bits": (
        "indices", None, lambda part: part + 2**32 * (np.arange(part.size) == 7), "4294967",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_damaged_matrices_are_refused_when_they_are_loaded(ctx, rows, kind, damage):
    name, place, value, words = DAMAGE[damage]
    array = rows.asformat(kind)
    if place is None:
        setattr(array, name, value(getattr(array, name)))
    else:
        getattr(array, name)[place] = value
    with pytest.raises(InvalidArgumentError, match=words if kind == "csr" else None):
        ctx.load("memory", data=array, datashape=SHAPE)
    with pytest.raises(InvalidArgumentError):
        ctx.load("memory", data=array, datashape=SHAPE, array_backends=("numpy",))


@pytest.mark.parametrize(("axis", "value"), [(0, 4), (1, -1), (2, 6), (3, 2**40)])
def test_damaged_coordinates_are_refused(ctx, counts, axis, value):
    coo = sparse.COO(counts)
    coo.coords[axis, 11] = value
    with pytest.raises(InvalidArgumentError, match=f"entry 11 .* {value} .* axis {axis}, expected"):
        ctx.load("memory", data=coo)
    gcxs = sparse.GCXS(counts, compressed_axes=(axis,))
    gcxs.indices[2] = 10**6
    with pytest.raises(InvalidArgumentError, match="1000000 among"):
        ctx.load("memory", data=gcxs)
    gcxs.indices = gcxs.indices[:-1]
    with pytest.raises(InvalidArgumentError, match="sparse data"):
        ctx.load("memory", data=gcxs)


def test_arrays_that_are_damaged_later_give_an_error(ctx, rows):
    dataset = ctx.load("memory", data=rows, datashape=SHAPE)
    pointer, rows.indptr[4] = int(rows.indptr[4]), 2**31 - 1
    with pytest.raises(BadFileError, match="2147483647 among the row pointers"):
        frames(ctx, dataset)
    rows.indptr[4] = pointer
    rows.indices[5] = 2**31 - 1
    for udf in (ff.PickUDF(), ff.SumUDF(), ff.SumSigUDF()):
        with pytest.raises(BadFileError, match="2147483647 among the columns"):
            ctx.run_udf(dataset, udf)


def test_no_entries_at_all(ctx):
    for array in (
        scipy_sparse.csr_matrix((20, 42)),
        scipy_sparse.coo_array((20, 42)),
        sparse.COO(np.zeros(SHAPE)),
        sparse.DOK(SHAPE),
        sparse.GCXS(np.zeros(SHAPE)),
    ):
        dataset = ctx.load("memory", data=array, datashape=SHAPE)
        assert not frames(ctx, dataset).any()


def test_sizes_that_cannot_be(ctx):
    with pytest.raises(LimitError, match="64 bits"):
        ctx.load("memory", data=scipy_sparse.coo_matrix((2**40, 2**40)), sig_dims=1)
    with pytest.raises(LimitError, match="1125899906842624 frames"):
        ctx.load("memory", data=scipy_sparse.coo_matrix((2**50, 4)), sig_dims=1)
    with pytest.raises(LimitError, match="32 bits"):
        ctx.load("memory", datashape=(2, 2, 2**20, 2**20), array_backends=("sparse.COO",))
    with pytest.raises(LimitError, match="do not fit into memory"):
        ctx.load("memory", datashape=(2**50, 1, 2**20, 2**20))
    rows = np.arange(2**15)
    last = (np.ones(2**15), (rows, np.full(2**15, 2**31 - 1)))
    wide = scipy_sparse.coo_array(last, shape=(2**15, 2**31))
    with pytest.raises(LimitError, match="leave them sparse"):
        ctx.load("memory", data=wide, sig_dims=1, array_backends="numpy")
    for shape in [(0, 5, 6, 7), (4, 5, 0, 7)]:
        with pytest.raises(InvalidArgumentError, match="there are no elements"):
            ctx.load("memory", data=sparse.COO(np.zeros(shape)))
    with pytest.raises(InvalidArgumentError, match="lengths are 1 or more"):
        ctx.load("memory", datashape=(4, 0, 6, 7))
    with pytest.raises(InvalidArgumentError, match="datashape=7 is not a tuple"):
        ctx.load("memory", datashape=7)


def test_zeros_take_no_memory(ctx):
    shape = (64, 64, 4096, 4096)
    dataset = ctx.load("memory", datashape=shape, array_backends=(UDF.BACKEND_SCIPY_CSR,))
    assert (tuple(dataset.shape), dataset.dtype) == (shape, np.float32)
    assert dataset.data.shape == shape
    sums = ctx.run_udf(dataset, ff.SumSigUDF(), roi=dataset.roi[3, 5:7])["intensity"].raw_data
    np.testing.assert_array_equal(sums, [0, 0])


@POSITIONS_WITHOUT_DATA
def test_dense_data_become_sparse(ctx, counts):
    for name in ("scipy.sparse.csr_matrix", "sparse.COO"):
        dataset = ctx.load("memory", data=counts, array_backends=(name, "numpy"), sync_offset=1)
        assert is_sparse(dataset)
        assert dataset.native_backends == (name, "numpy")
        assert dataset.data is counts
        assert tuple(dataset.shape) == SHAPE
        np.testing.assert_array_equal(frames(ctx, dataset)[:19], counts.reshape(20, 6, 7)[1:])
    backwards = counts[::-1, :, :, ::2]
    dataset = ctx.load("memory", data=backwards, array_backends="scipy.sparse.csc_array")
    np.testing.assert_array_equal(frames(ctx, dataset).reshape(4, 5, 6, 4), backwards)


def test_sparse_data_become_dense(ctx, counts, rows):
    for data in (rows, rows.tocoo(), sparse.COO(counts)):
        dataset = ctx.load("memory", data=data, datashape=SHAPE, array_backends=("numpy",))
        assert not is_sparse(dataset)
        assert dataset.native_backends == ("numpy",)
        assert tuple(dataset.shape) == SHAPE
        np.testing.assert_array_equal(frames(ctx, dataset), counts.reshape(20, 6, 7))
    assert ctx.load("memory", data=counts).native_backends == ("numpy",)


def test_options_that_cannot_be(ctx, counts):
    with pytest.raises(InvalidArgumentError, match=r"'scipy.csr'; there are .*scipy\.sparse\.csr"):
        ctx.load("memory", data=counts, array_backends=("scipy.csr",))
    with pytest.raises(InvalidArgumentError, match="empty"):
        ctx.load("memory", data=counts, array_backends=())
    for tileshape in [(3, 7, 7), (3, 6), (0, 6, 7), (1, 3, 6, 7)]:
        with pytest.raises(InvalidArgumentError, match="tileshape"):
            ctx.load("memory", data=counts, tileshape=tileshape)
    with pytest.raises(InvalidArgumentError, match="no option 'tile_shape'"):
        ctx.load("memory", data=counts, tile_shape=(3, 6, 7))
    for name in ("tiledelay", "base_shape", "force_need_decode"):
        with pytest.raises(UnsupportedError, match=f"{name} serves tests"):
            ctx.load("memory", data=counts, **{name: 1})
        ctx.load("memory", data=counts, check_cast=False, **{name: None})
    with pytest.raises(InvalidArgumentError, match=r"data=… or datashape="):
        ctx.load("memory")


@pytest.mark.parametrize("tileshape", [(3, 6, 7), (4, 2, 7), (20, 5, 3)])
def test_tiles_have_the_shape_that_was_asked_for(ctx, counts, tileshape):
    seen = []

    class Look(UDF):
        def get_result_buffers(self):
            return {"sum": self.buffer(kind="nav", dtype="float64")}

        def process_tile(self, tile):
            seen.append(tile.shape)
            self.results.sum[:] += np.sum(tile, axis=(1, 2))

    dataset = ctx.load("memory", data=counts, tileshape=tileshape, num_partitions=1)
    sums = ctx.run_udf(dataset, Look())["sum"].data
    np.testing.assert_array_equal(sums, counts.sum(axis=(2, 3)))
    assert max(seen) == tileshape
    assert sum(np.prod(shape) for shape in seen) == counts.size


#: What a UDF gets that takes these formats, where LiberTEM 0.16 can be asked.
RECOMMENDED = UDF.BACKEND_ALL
DELIVERED = [
    # Native formats first, wherever they are in the list; then those of the same kind.
    (np.asarray, None, RECOMMENDED, "numpy"),
    (np.asarray, "scipy.sparse.csr_matrix", RECOMMENDED, "scipy.sparse.csr_matrix"),
    (np.asarray, "sparse.COO", RECOMMENDED, "sparse.COO"),
    (np.asarray, None, ("scipy.sparse.csc_matrix", "sparse.GCXS"), "scipy.sparse.csc_matrix"),
    (sparse.COO, None, RECOMMENDED, "sparse.COO"),
    (sparse.COO, "numpy", RECOMMENDED, "numpy"),
    (sparse.COO, "scipy.sparse.csr_matrix", ("numpy", "sparse.COO"), "sparse.COO"),
    (sparse.GCXS, None, RECOMMENDED, "sparse.GCXS"),
    (sparse.GCXS, None, ("scipy.sparse.csc_matrix", "sparse.GCXS"), "sparse.GCXS"),
    (sparse.GCXS, None, ("numpy", "sparse.COO"), "sparse.COO"),
    (sparse.DOK, None, ("numpy", "sparse.DOK", "sparse.COO"), "sparse.DOK"),
    (sparse.DOK, None, ("numpy", "sparse.COO"), "sparse.COO"),
]


@pytest.mark.parametrize(("make", "native", "takes", "gets"), DELIVERED)
def test_formats_are_delivered_as_in_the_reference(ctx, counts, make, native, takes, gets):
    backends = None if native is None else (native,)
    dataset = ctx.load("memory", data=make(counts), sig_dims=2, array_backends=backends)
    found = ctx.run_udf(dataset, Asks(formats=takes))["format"].data
    assert set(found.reshape(-1)) == {gets}


@pytest.mark.parametrize("of", ["matrix", "array"])
@pytest.mark.parametrize("kind", ["coo", "csr", "csc"])
def test_formats_of_scipy_are_delivered_as_they_are(ctx, counts, kind, of):
    data = getattr(scipy_sparse, f"{kind}_{of}")(counts.reshape(20, 42))
    dataset = ctx.load("memory", data=data, datashape=SHAPE)
    found = ctx.run_udf(dataset, Asks(formats=RECOMMENDED))["format"].data
    assert set(found.reshape(-1)) == {f"scipy.sparse.{kind}_{of}"}


def test_arrays_on_devices_are_named(ctx):
    class Array:
        __cuda_array_interface__ = None
        __module__ = "cupy"

    with pytest.raises(UnsupportedError, match=r"data is a cupy.Array.* data.get\(\) for CuPy"):
        ctx.load("memory", data=Array(), sig_dims=2)


def test_masked_pixels_are_no_numbers(ctx, counts):
    masked = np.ma.masked_array(counts, mask=counts > 7)
    with pytest.raises(InvalidArgumentError, match=r"data are masked.* data.filled"):
        ctx.load("memory", data=masked, sig_dims=2)
    # Where nothing is masked, there is a number for each.
    dataset = ctx.load("memory", data=np.ma.masked_array(counts), sig_dims=2)
    np.testing.assert_array_equal(frames(ctx, dataset), counts.reshape(20, 6, 7))


WHILE_IT_IS_IMPORTED = """
import sys, threading, time
import numpy as np, framefold as ff

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy.ma.extras":
            reached.set()
            time.sleep(0.3)

reached = threading.Event()
sys.meta_path.insert(0, Slow())
ctx, data = ff.Context.make_with("inline"), np.ones((2, 2, 4, 4))
assert "numpy.ma" not in sys.modules
threading.Thread(target=__import__, args=["numpy.ma"]).start()
assert reached.wait(60) and "numpy.ma" in sys.modules
ctx.load("memory", data=data)
"""


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="imports it by itself")
def test_another_thread_may_be_importing_masked_arrays():
    command = [sys.executable, "-c", WHILE_IT_IS_IMPORTED]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_matrices_of_numpy_are_arrays(ctx, counts):
    dataset = ctx.load("memory", data=counts.reshape(20, 42).view(np.matrix), datashape=SHAPE)
    np.testing.assert_array_equal(frames(ctx, dataset), counts.reshape(20, 6, 7))
