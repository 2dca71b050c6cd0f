"""Containers of masks: every format and part against slices of the stack."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefold.common import Shape, Slice
from framefold.common.container import MaskContainer
from framefold.common.sparse import is_sparse, to_dense
from framefold.common.tiling_scheme import TilingScheme
from framefold.exceptions import InvalidArgumentError, UnsupportedError

FORMATS = ["sparse.pydata", "sparse.pydata.GCXS", "scipy.sparse.csc", "scipy.sparse.csr"]


def stack_of(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    stack = rng.integers(-50, 50, shape) * (rng.random(shape) < 0.4)
    return abs(stack).astype(dtype) if np.dtype(dtype).kind in "bu" else stack.astype(dtype)


def one_mask():
    return np.arange(12.0).reshape(3, 4)


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.sampled_from(["bool", "u1", "i4", "f4", "f8", "c8"]),
    st.sampled_from([False, *FORMATS]),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_every_part_in_every_format(sig, dtype, form, from_list, transpose, data):
    pytest.importorskip("sparse")
    pytest.importorskip("scipy")
    stack = stack_of((3, *sig), dtype)
    factories = [lambda mask=mask: mask for mask in stack] if from_list else lambda: stack
    container = MaskContainer(factories, use_sparse=form)
    origin = [data.draw(st.integers(0, length - 1)) for length in sig]
    extent = [
        data.draw(st.integers(1, length - start)) for start, length in zip(origin, sig, strict=True)
    ]
    key = Slice((7, *origin), Shape((2, *extent), sig_dims=len(sig)))
    part = container.get(key, transpose=transpose)
    flat = key.sig.get(stack.transpose(*range(1, len(sig) + 1), 0)).reshape(-1, 3)
    assert part.dtype == container.dtype == dtype
    assert is_sparse(part) == bool(form)
    np.testing.assert_array_equal(to_dense(part), flat if transpose else flat.T)
    np.testing.assert_array_equal(to_dense(container.computed_masks), stack)
    assert len(container) == 3
    assert container.sig_shape == tuple(sig)


@pytest.mark.parametrize(
    ("use_sparse", "package", "name"),
    [
        (True, "scipy.sparse", "csr_matrix"),
        ("scipy.sparse", "scipy.sparse", "csr_matrix"),
        ("scipy.sparse.csc", "scipy.sparse", "csc_matrix"),
        ("sparse.pydata", "sparse", "COO"),
        ("sparse.pydata.GCXS", "sparse", "GCXS"),
    ],
)
def test_the_types_of_parts(use_sparse, package, name):
    expected = getattr(pytest.importorskip(package), name)
    container = MaskContainer([one_mask], use_sparse=use_sparse)
    key = Slice((0, 1), Shape((3, 2), sig_dims=2))
    for transpose in (True, False):
        assert isinstance(container.get(key, transpose=transpose), expected)
    # For one call, another format.
    assert isinstance(container.get(key, sparse_backend=False), np.ndarray)


def test_masks_of_all_sparse_types():
    sparse = pytest.importorskip("sparse")
    scipy_sparse = pytest.importorskip("scipy.sparse")
    mask = stack_of((4, 5), np.float32)
    variants = [
        getattr(scipy_sparse, f"{form}_{kind}")(mask)
        for form in ("coo", "csr", "csc")
        for kind in ("matrix", "array")
    ]
    coo = sparse.COO(mask)
    variants += [coo, coo.asformat("gcxs"), coo.asformat("dok")]
    container = MaskContainer([lambda variant=variant: variant for variant in variants])
    assert container.use_sparse == "scipy.sparse"
    stack = container.computed_masks
    assert isinstance(stack, sparse.COO)
    np.testing.assert_array_equal(stack.todense(), np.stack([mask] * len(variants)))
    mixed = MaskContainer([lambda: coo, lambda: mask])
    assert mixed.use_sparse is False
    np.testing.assert_array_equal(mixed.computed_masks, np.stack([mask, mask]))
    three_axes = MaskContainer(lambda: sparse.stack([coo, 2 * coo]))
    np.testing.assert_array_equal(three_axes.computed_masks.todense(), [mask, 2 * mask])


@pytest.mark.parametrize("form", [None, False, True, *FORMATS])
def test_sparse_masks_with_another_fill_value_keep_it(form):
    sparse = pytest.importorskip("sparse")
    pytest.importorskip("scipy")
    disk = stack_of((4, 5), np.float32) > 0
    coo = sparse.COO(disk)
    masks = [~coo, coo, (2 - coo.astype("f4")).asformat("gcxs")]
    expected = np.stack([~disk, disk, 2 - disk.astype("f4")])
    key = Slice((0, 1, 0), Shape((1, 3, 5), sig_dims=2))
    for factories in ([lambda m=m: m for m in masks], lambda: sparse.stack([~coo] * 3)):
        container = MaskContainer(factories, use_sparse=form)
        right = np.stack([~disk] * 3) if callable(factories) else expected
        np.testing.assert_array_equal(to_dense(container.computed_masks), right)
        found = to_dense(container.get(key, transpose=False))
        np.testing.assert_array_equal(found, right[:, 1:].reshape(3, -1))
        assert bool(container.use_sparse) == bool(form)


@pytest.mark.parametrize("use_sparse", [None, False])
def test_entries_of_one_pixel_have_to_fit_into_the_dtype_together(use_sparse):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    pixels = [1, 1], [2, 2]
    for kind in ("coo_matrix", "coo_array"):
        make = getattr(scipy_sparse, kind)
        fits = make((np.array([200, 55], "u1"), pixels), shape=(4, 5))
        masks = MaskContainer([lambda m=fits: m], use_sparse=use_sparse).computed_masks
        assert to_dense(masks)[0, 1, 2] == 255
        wraps = make((np.array([200, 100], "u1"), pixels), shape=(4, 5))
        with pytest.raises(InvalidArgumentError, match="more than uint8 holds"):
            MaskContainer([lambda m=wraps: m], use_sparse=use_sparse).computed_masks  # noqa: B018


def test_by_tile_by_number_and_by_signal_slice():
    stack = stack_of((2, 5, 7), np.float32)
    container = MaskContainer(lambda: stack)
    scheme = TilingScheme((2, 3), Shape((4, 5, 7), sig_dims=2), depth=2)
    for number, part in scheme.slices:
        expected = part.get(stack.transpose(1, 2, 0)).reshape(-1, 2)
        tile = SimpleNamespace(
            tile_slice=Slice((2, *part.origin), Shape((2, *part.shape), sig_dims=2))
        )
        for found in (
            container.get(tile),
            container.get_for_idx(scheme, number),
            container.get_for_sig_slice(part),
            container.get_for_sig_slice(tile.tile_slice),
            container.get_for_sig_slice(tile.tile_slice.discard_nav()),
            container.get_masks_for_slice(tile.tile_slice),
        ):
            np.testing.assert_array_equal(found, expected)


def test_masks_and_parts_are_made_once():
    calls = []

    def factory():
        calls.append(1)
        return one_mask()

    container = MaskContainer([factory], dtype=np.float32)
    assert (len(container), container.dtype, calls) == (1, np.float32, [])
    key = Slice((0, 0), Shape((2, 2), sig_dims=2))
    first = container.get(key)
    assert container.get(key) is first
    assert container.get(key, dtype=np.float64) is not first
    assert len(calls) == 1
    assert first.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_dtypes():
    mixed = [lambda: np.ones((2, 2), dtype=np.uint8), lambda: np.ones((2, 2), dtype=np.float32)]
    assert MaskContainer(mixed).dtype == np.float32
    assert MaskContainer(mixed, dtype=np.complex64).computed_masks.dtype == np.complex64


@pytest.mark.parametrize("form", [False, *FORMATS])
@pytest.mark.parametrize("make", ["numpy", "sparse", "scipy"])
@pytest.mark.parametrize("dtype", [">f4", ">i2", ">c16", "f2"])
def test_dtypes_that_scipy_does_not_know(form, make, dtype):
    sparse, scipy_sparse = pytest.importorskip("sparse"), pytest.importorskip("scipy.sparse")
    native = np.dtype(dtype).newbyteorder("=")
    mask = stack_of((4, 5), "f8") / 8
    expected = mask.astype(dtype).astype(native)

    def factory():
        if make == "numpy":
            return mask.astype(dtype)
        if make == "sparse":
            return sparse.COO.from_numpy(mask.astype(dtype))
        matrix = scipy_sparse.csr_matrix(mask)
        parts = (matrix.data.astype(dtype), matrix.indices, matrix.indptr)
        return scipy_sparse.csr_matrix(parts, shape=mask.shape)

    # SciPy's matrices of half precision are what they can be.
    wide = np.dtype("f4") if native == "f2" else native
    found = wide if make == "scipy" else native
    for asked in (None, dtype):
        masks = MaskContainer([factory, factory], dtype=asked, use_sparse=form)
        assert masks.dtype == (found if asked is None else native)
        assert masks.computed_masks.dtype == masks.dtype
        part = masks.get(Slice((0, 1, 0), Shape((1, 2, 5), sig_dims=2)), transpose=False)
        assert part.dtype == (wide if form else masks.dtype)
        np.testing.assert_array_equal(to_dense(part), [expected[1:3].reshape(-1)] * 2)
    # What is asked for is rounded to, also where it is kept in a wider one.
    thirds = MaskContainer([lambda: np.full((4, 5), 1 / 3)], dtype=dtype, use_sparse=form)
    part = thirds.get(Slice((0, 0, 0), Shape((1, 4, 5), sig_dims=2)))
    assert (to_dense(part) == np.array(1 / 3).astype(native)).all()


@pytest.mark.parametrize("use_sparse", [False, True])
@pytest.mark.parametrize("as_stack", [False, True])
@pytest.mark.parametrize("of_parts", [False, True])
def test_values_that_the_dtype_does_not_hold(use_sparse, as_stack, of_parts):
    whole = Slice((0, 0), Shape((3, 4), sig_dims=2))

    def masks(value, dtype):
        mask = np.zeros((3, 4), np.result_type(value))
        mask[1, 2] = value
        factories = (lambda: mask[np.newaxis]) if as_stack else [lambda: mask]
        own, asked = (None, dtype) if of_parts else (dtype, None)
        container = MaskContainer(factories, dtype=own, use_sparse=use_sparse)
        return container.get(whole, asked, transpose=False)

    lost = ((300, "uint8"), (-1, "uint16"), (np.nan, "int32"), (1 + 2j, "float32"))
    infinite = ((1e300, "float32"), (70_000, "float16"), (1e300j, "complex64"))
    for value, dtype in (*lost, *infinite):
        with pytest.raises(InvalidArgumentError, match=f"a mask holds .*, which {dtype} cannot"):
            masks(value, dtype)
    fitting = ((1.5, "uint8", 1), (7, "bool", 1), (255, "uint8", 255), (np.inf, "float32", np.inf))
    for value, dtype, expected in fitting:
        found = to_dense(masks(value, dtype))
        assert found.dtype == dtype
        assert found.sum() == found[0, 6] == expected


@pytest.mark.parametrize("dtype", [object, "U5", "m8[s]"])
def test_what_is_no_number_is_no_mask(dtype):
    container = MaskContainer([lambda: np.ones((3, 4)).astype(dtype)])
    with pytest.raises(
        InvalidArgumentError, match=r"a mask has dtype .*; pass an array of numbers"
    ):
        _ = container.dtype


@pytest.mark.parametrize("use_sparse", [False, True])
@pytest.mark.parametrize("dtype", ["uint64", "int64"])
def test_integers_of_either_sign_keep_their_values(use_sparse, dtype):
    """The common dtype of int64 and uint64 is float64, which has 53 bits."""
    largest = int(np.iinfo(dtype).max)
    masks = [np.array([[value, 1, 0]], of) for value, of in ((largest, dtype), (2**53 + 1, "i8"))]
    factories = [lambda: masks[0], lambda: masks[1], lambda: masks[1].astype("u8")]
    found = to_dense(MaskContainer(factories, dtype, use_sparse=use_sparse).computed_masks)
    assert found.dtype == dtype
    assert found[:, 0].tolist() == [[largest, 1, 0], [2**53 + 1, 1, 0], [2**53 + 1, 1, 0]]


def test_containers_travel_without_their_masks():
    container = MaskContainer([one_mask], dtype=np.float32, count=1)
    container.computed_masks  # noqa: B018 - so that there is something to leave behind
    travelled = pickle.loads(pickle.dumps(container))
    assert len(pickle.dumps(container)) < 600
    np.testing.assert_array_equal(travelled.computed_masks, container.computed_masks)
    assert travelled.dtype == np.float32


def test_misuse():
    whole = Slice((0, 0), Shape((3, 4), sig_dims=2))
    with pytest.raises(InvalidArgumentError, match="no mask factory"):
        MaskContainer([])
    with pytest.raises(InvalidArgumentError, match=r"factory 1 is of type ndarray.*lambda: array"):
        MaskContainer([one_mask, one_mask()])
    with pytest.raises(InvalidArgumentError, match=r"mask_factories is of type ndarray"):
        MaskContainer(one_mask())
    with pytest.raises(InvalidArgumentError, match=r"use_sparse is 'csr'.*'scipy.sparse.csr'"):
        MaskContainer([one_mask], use_sparse="csr")
    with pytest.raises(InvalidArgumentError, match=r"use_sparse=array\(.* is not True or False"):
        MaskContainer([one_mask], use_sparse=np.array([True, False]))
    assert MaskContainer([one_mask], use_sparse=np.False_).use_sparse is False
    with pytest.raises(InvalidArgumentError, match="given as 3, but the factory made 1"):
        MaskContainer(lambda: one_mask()[np.newaxis], count=3).get(whole)
    with pytest.raises(InvalidArgumentError, match=r"found \(3, 4\), \(4, 3\)"):
        MaskContainer([one_mask, lambda: one_mask().T]).get(whole)
    with pytest.raises(InvalidArgumentError, match=r"shape \(4,\), expected a stack"):
        MaskContainer(lambda: np.ones(4)).get(whole)
    with pytest.raises(InvalidArgumentError, match=r"\(2, 0\).*not lie within.*\(3, 4\)"):
        MaskContainer([one_mask]).get(Slice((2, 0), Shape((2, 4), sig_dims=2)))
    with pytest.raises(InvalidArgumentError, match="not lie within"):
        MaskContainer(one_mask).get(whole)
    with pytest.raises(InvalidArgumentError, match="found int"):
        MaskContainer([one_mask]).get(0)
    with pytest.raises(UnsupportedError, match=r"'cupyx'.*cupy, "):
        MaskContainer([one_mask]).get(whole, backend="cupyx")
    with pytest.raises(UnsupportedError, match=r"CuPy has no.*'sparse.pydata'.*scipy.sparse.csr"):
        MaskContainer([one_mask]).get(whole, sparse_backend="sparse.pydata", backend="cupy")
