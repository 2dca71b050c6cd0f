"""ApplyMasksUDF: native, sparse and shifted against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import InvalidArgumentError
from framefold.udf.engine.native import native_udf
from framefold.udf.masks import ApplyMasksUDF

CTX = ff.Context.make_with("threads", cpus=2)


def shifted_products(data, stack, shifts):
    """Products one pixel at a time: mask cell m lies on pixel m + shift of the frame."""
    nav, (height, width) = data.shape[:2], data.shape[2:]
    result = np.zeros((*nav, len(stack)))
    for scan in np.ndindex(*nav):
        dy, dx = np.broadcast_to(shifts, (*nav, 2))[scan]
        for y in range(height):
            for x in range(width):
                if 0 <= y - dy < height and 0 <= x - dx < width:
                    result[scan] += stack[:, y - dy, x - dx] * float(data[scan][y, x])
    return result


@pytest.fixture
def stack():
    rng = np.random.default_rng(4)
    return (rng.normal(size=(3, 10, 12)) * (rng.random((3, 10, 12)) < 0.3)).astype(np.float32)


@pytest.mark.parametrize("shift", [(0, 0), (1, 2), (-3, 1), (9, -11), (10, 0), (40, -40)])
@pytest.mark.parametrize("use_sparse", [False, True])
def test_the_same_shift_for_all_frames(dataset, ctx, data, stack, shift, use_sparse):
    if use_sparse:
        pytest.importorskip("scipy")
    udf = ApplyMasksUDF(lambda: stack, shifts=shift, use_sparse=use_sparse)
    found = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, shifted_products(data, stack, shift), rtol=1e-4, atol=0.1)


def test_shifts_move_the_mask_with_the_pattern(ctx):
    frame = np.zeros((6, 7), dtype=np.float32)
    frame[4, 1] = 1
    mask = np.zeros((6, 7), dtype=np.float32)
    mask[2, 3] = 1
    dataset = ctx.load("memory", data=frame[np.newaxis], sig_dims=2)
    for shift, expected in (((0, 0), 0), ((2, -2), 1), ((1.75, -2), 0.75), ((-2, 2), 0)):
        udf = ApplyMasksUDF([lambda: mask], shifts=shift)
        assert ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data.item() == expected


@pytest.mark.parametrize("roi", [False, True])
def test_a_shift_for_each_frame(dataset, ctx, data, stack, roi):
    rng = np.random.default_rng(9)
    shifts = rng.integers(-12, 13, (6, 7, 2))
    selected = rng.random((6, 7)) < 0.5 if roi else None
    aux = ApplyMasksUDF.aux_data(shifts.reshape(-1, 2), kind="nav", extra_shape=(2,), dtype=int)
    udf = ApplyMasksUDF(lambda: stack, shifts=aux)
    found = ctx.run_udf(dataset=dataset, udf=udf, roi=selected)["intensity"]
    expected = shifted_products(data, stack, shifts)
    if roi:
        assert np.isnan(found.data[~selected]).all()
        np.testing.assert_allclose(found.data[selected], expected[selected], rtol=1e-4, atol=0.1)
    else:
        np.testing.assert_allclose(found.data, expected, rtol=1e-4, atol=0.1)


@pytest.fixture(scope="module", params=["inline", "threads", "processes"])
def anywhere(request):
    with shared(request.param, cpus=2) as context:
        yield context


def moved(frame, shift):
    """What lies under each cell of masks that are moved; 0 outside of the frame."""
    under = np.zeros_like(frame)
    for cell in np.ndindex(*frame.shape):
        pixel = tuple(np.add(cell, shift))
        if all(0 <= at < n for at, n in zip(pixel, frame.shape, strict=True)):
            under[cell] = frame[pixel]
    return under


@pytest.mark.parametrize("kind", ["one", "each"])
@pytest.mark.parametrize("use_sparse", [False, True])
@pytest.mark.parametrize("fmt", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", ["uint16", "float64"])
def test_shifted_integers_are_exact(anywhere, kind, use_sparse, fmt, dtype):
    scipy = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(5)
    data = rng.integers(0, 2**16, (12, 20, 35)).astype(dtype)
    data[rng.random(data.shape) < 0.5] = 0
    masks = rng.integers(-300, 300, (3, 20, 35)).astype("i2")  # the result is float32
    shifts = rng.integers(-25, 25, (12, 2)) if kind == "each" else np.tile((3, -7), (12, 1))
    expected = np.array(
        [
            np.einsum("myx,yx->m", masks.astype("i8"), moved(f.astype("i8"), s))
            for f, s in zip(data, shifts, strict=True)
        ]
    )
    given = (
        ApplyMasksUDF.aux_data(shifts, kind="nav", extra_shape=(2,), dtype=int)
        if kind == "each"
        else (3, -7)
    )
    stored = data if fmt == "dense" else scipy.csr_matrix(data.reshape(12, -1))
    shape = {} if fmt == "dense" else {"sig_shape": (20, 35), "nav_shape": (12,)}
    dataset = anywhere.load("memory", data=stored, sig_dims=2, num_partitions=3, **shape)
    udf = ApplyMasksUDF(lambda: masks, shifts=given, use_sparse=use_sparse)
    found = anywhere.run_udf(dataset, udf)["intensity"].data
    assert np.array_equal(found, expected.astype(found.dtype))


def test_shifted_sums_have_the_same_bits_everywhere():
    rng = np.random.default_rng(6)
    data = rng.normal(size=(6, 64, 64)).astype(np.float32)
    masks = rng.normal(size=(5, 64, 64)).astype(np.float32)
    shifts = rng.integers(-20, 20, (6, 2))
    exact = np.array(
        [
            np.einsum("myx,yx->m", masks.astype("f8"), moved(f, s))
            for f, s in zip(data, shifts, strict=True)
        ]
    )
    found = []
    for name in ("inline", "threads", "processes"):
        with shared(name) as ctx:
            aux = ApplyMasksUDF.aux_data(shifts, kind="nav", extra_shape=(2,), dtype=int)
            dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=3)
            udf = ApplyMasksUDF(lambda: masks, shifts=aux)
            found.append(ctx.run_udf(dataset, udf)["intensity"].data)
    assert all(np.array_equal(found[0], other) for other in found)
    magnitudes = np.abs(masks).sum(axis=(1, 2)) * np.abs(data).max()
    assert (np.abs(found[0] - exact) < 2.0**-16 * magnitudes).all()


def test_what_shifted_masks_lose_does_not_count(ctx):
    mask = np.ones((4, 5))
    mask[0] = np.inf
    dataset = ctx.load("memory", data=np.ones((1, 4, 5)), sig_dims=2)
    for shift, expected in (((-1, 0), 15), ((-9, 0), 0), ((0, 2**80), 0), ((1, 0), np.inf)):
        udf = ApplyMasksUDF([lambda: mask], shifts=np.array(shift, dtype=float))
        assert ctx.run_udf(dataset, udf)["intensity"].data.item() == expected


@pytest.mark.parametrize("shifts", [(1, 2, 3), 3, (np.nan, 1), ("a", "b"), (1j, 0)])
def test_misuse_of_shifts(dataset, ctx, stack, shifts):
    udf = ApplyMasksUDF(lambda: stack, shifts=shifts)
    with pytest.raises(InvalidArgumentError, match=r"ApplyMasksUDF: shifts are .*expected 2"):
        ctx.run_udf(dataset=dataset, udf=udf)


DTYPES = st.sampled_from(["bool", "u1", "u2", "i4", "f4", "f8", "c8"])
CHOICES = [None, False, True, "sparse.pydata", "scipy.sparse.csc"]


@settings(max_examples=60)
@given(DTYPES, DTYPES, st.sampled_from(CHOICES), st.sampled_from([None, "f8", "bool"]))
def test_formats_and_dtypes(dtype, mask_dtype, use_sparse, preferred):
    pytest.importorskip("scipy")
    rng = np.random.default_rng(0)
    data = rng.integers(0, 200, (5, 6, 7)).astype(dtype)
    stack = rng.integers(0, 3, (4, 6, 7)).astype(mask_dtype)
    udf = ApplyMasksUDF(lambda: stack, use_sparse=use_sparse, preferred_dtype=preferred)
    dataset = CTX.load("memory", data=data, sig_dims=2, num_partitions=2)
    found = CTX.run_udf(dataset=dataset, udf=udf)["intensity"].data
    common = np.result_type(dtype, mask_dtype, preferred or "f4")
    if common.kind in "biu":
        assert found.dtype == ("u8" if common.kind == "u" else "i8")
    else:
        assert found.dtype == common
    wide = np.result_type(common, np.float64)
    expected = data.reshape(5, -1).astype(wide) @ stack.reshape(4, -1).T.astype(wide)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["bool", "u2", "f2", "f4", "c8"])
@pytest.mark.parametrize("options", [{"preferred_dtype": "f8"}, {"mask_dtype": "f8"}])
def test_fractions_of_pixels_are_as_precise_as_the_result(dtype, options):
    rng = np.random.default_rng(6)
    data = (rng.random((5, 9, 11)) * 1000).astype(dtype)
    mask, (dy, dx) = rng.random((9, 11), dtype="f4"), (0.3, -1.7)
    expected = np.zeros(5, np.result_type(dtype, np.float64))
    for y, weight in ((0, 1 - dy), (1, dy)):
        for x, part in ((-2, -1 - dx), (-1, 2 + dx)):
            pixels = data[:, y:, : x or None].reshape(5, -1).astype(expected.dtype)
            expected += weight * part * (pixels @ mask[: 9 - y, -x:].reshape(-1).astype("f8"))
    dataset = CTX.load("memory", data=data, sig_dims=2)
    udf = ApplyMasksUDF([lambda: mask], shifts=(dy, dx), **options)
    assert native_udf(udf, dataset) is not None
    found = CTX.run_udf(dataset, udf)["intensity"].data[:, 0]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_what_runs_natively(dataset, stack):
    def native(**options):
        return native_udf(ApplyMasksUDF(lambda: stack, **options), dataset) is not None

    assert native()
    assert native(use_sparse=False, preferred_dtype=np.float64, mask_dtype=np.float64)
    assert native(shifts=(0, 0))
    assert native(shifts=np.zeros((6, 7, 2)))
    assert not native(backends=("numpy",))
    assert not native(preferred_dtype=bool)


class OffTheKernel(ApplyMasksUDF):
    def get_mask_count(self):
        return super().get_mask_count()


OFF_THE_KERNEL = [
    (ApplyMasksUDF, {"backends": ["numpy"]}),
    (ApplyMasksUDF, {"backends": ["sparse.COO"], "use_sparse": True}),
    (ApplyMasksUDF, {"preferred_dtype": ApplyMasksUDF.USE_NATIVE_DTYPE, "use_sparse": True}),
    (OffTheKernel, {"preferred_dtype": "f2"}),
    (OffTheKernel, {}),
]


@pytest.mark.parametrize("tileshape", [None, (2, 16, 256), (3, 5, 100)])
@pytest.mark.parametrize(("cls", "options"), OFF_THE_KERNEL)
def test_sums_off_the_native_kernel_are_rounded_once(cls, options, tileshape):
    if "use_sparse" in options:
        pytest.importorskip("sparse")
    rng = np.random.default_rng(8)
    how = {} if tileshape is None else {"tileshape": tileshape}
    for dtype, mask_dtype, equal in [("u2", "u1", True), ("f4", "f4", False), ("c8", "f4", False)]:
        frames = rng.integers(1, 65000, (5, 256, 256)).astype(dtype)
        masks = np.stack([np.ones((256, 256)), rng.integers(0, 3, (256, 256))]).astype(mask_dtype)
        if not equal:
            frames += rng.random(frames.shape).astype("f4")
        dataset = CTX.load("memory", data=frames, sig_dims=2, num_partitions=2, **how)
        udf = cls([lambda m=m: m for m in [masks[0], *masks]], **options)
        assert native_udf(udf, dataset) is None
        found = CTX.run_udf(dataset, udf)["intensity"].data
        wide = "c16" if dtype == "c8" else "f8"
        exact = np.tensordot(frames.astype(wide), masks.astype(wide), ((1, 2), (1, 2)))
        np.testing.assert_array_equal(found[:, 0], found[:, 1])
        if equal:
            np.testing.assert_array_equal(found[:, 1:], exact.astype(found.dtype))
        else:
            np.testing.assert_allclose(found[:, 1:], exact, rtol=2**-23)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("shifts", [None, (0, 0)])
def test_masks_of_integers_are_exact_beside_those_of_fractions(dtype, shifts):
    rng = np.random.default_rng(9)
    frames = rng.integers(0, 65536, (4, 64, 64), "u2")
    frames[:, :, 32:] = frames[:, :, 31::-1]
    steps = np.tile(2 * np.arange(64) - 63, (64, 1)).astype(dtype)
    dataset = CTX.load("memory", data=frames, sig_dims=2)
    udf = ApplyMasksUDF([lambda: steps, lambda: np.full((64, 64), 0.5, "f4")], shifts=shifts)
    assert np.array_equal(CTX.run_udf(dataset, udf)["intensity"].data[:, 0], [0, 0, 0, 0])


@pytest.mark.parametrize("tileshape", [None, (2, 2, 5)])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(
    ("cls", "options"),
    [(ApplyMasksUDF, {}), (ApplyMasksUDF, {"preferred_dtype": "c8"}), *OFF_THE_KERNEL],
)
def test_what_is_infinite_in_one_part_leaves_the_other(cls, options, is_sparse, tileshape):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    if "use_sparse" in options:
        pytest.importorskip("sparse")
    infinite, plain = np.full((3, 4, 5), 3 + 2j, "c8"), np.full((3, 4, 5), 3, "f4")
    infinite[1, 0, 0], infinite[2, 3, 1] = complex(np.inf, 2), complex(3, -np.inf)
    plain[1, 0, 0], plain[2, 3, 1] = np.inf, -np.inf
    cases = [
        (infinite, np.ones((4, 5), "f4"), [60 + 40j, complex(np.inf, 40), complex(60, -np.inf)])
    ]
    if options.get("preferred_dtype") != "c8":  # which makes frames complex
        expected = [60 - 60j, complex(np.inf, -np.inf), complex(-np.inf, np.inf)]
        cases.append((plain, np.full((4, 5), 1 - 1j, "c8"), expected))
    for frames, mask, expected in cases:
        data = scipy_sparse.csr_matrix(frames.reshape(3, -1)) if is_sparse else frames
        shapes = {"nav_shape": (3,), "sig_shape": (4, 5)} if is_sparse else {"sig_dims": 2}
        dataset = CTX.load("memory", data=data, tileshape=tileshape, **shapes)
        found = CTX.run_udf(dataset, cls([lambda m=mask: m], **options))["intensity"].data[:, 0]
        np.testing.assert_array_equal(found, expected)


def test_subclasses_may_change_sums_between_tiles():
    class Offset(ApplyMasksUDF):
        def process_tile(self, tile):
            super().process_tile(tile)
            self.results.intensity[:] += 1000

    frames = np.random.default_rng(9).random((4, 8, 8), dtype="f4")
    dataset = CTX.load("memory", data=frames, sig_dims=2, tileshape=(2, 2, 8))
    found = CTX.run_udf(dataset, Offset([lambda: np.ones((8, 8), "f4")]))["intensity"].data[:, 0]
    np.testing.assert_allclose(found, frames.sum((1, 2)) + 4000, rtol=1e-6)


def test_sparse_factories_are_multiplied_sparsely(dataset, ctx, data, stack):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    udf = ApplyMasksUDF([lambda mask=mask: scipy_sparse.csr_matrix(mask) for mask in stack])
    assert udf.masks.use_sparse == "scipy.sparse"
    assert native_udf(udf, dataset) is not None
    expected = np.tensordot(data.astype(float), stack.astype(float), ((2, 3), (1, 2)))
    found = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=0.1)
    assert (udf.get_mask_count(), udf.get_mask_dtype()) == (3, np.float32)


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "csc_matrix", "coo_matrix"])
@pytest.mark.parametrize("use_sparse", [None, False])
def test_sparse_masks_of_the_user_stay_as_they_are(kind, use_sparse):
    sparse = pytest.importorskip("scipy.sparse")
    # Columns not in order, and one twice: SciPy adds up in place, and other threads read.
    starts, columns, values = [0, 3, 5], [3, 1, 3, 2, 0], [1.0, 2.0, 3.0, 5.0, 4.0]
    masks = sparse.csr_matrix((np.array(values), np.array(columns), np.array(starts)), (2, 4))
    masks = getattr(sparse, kind)(masks)
    parts = [part for part in vars(masks).values() if isinstance(part, np.ndarray)]
    before = [part.copy() for part in parts]
    for part in parts:
        part.flags.writeable = False
    frames = np.array([[1, 10, 100, 1000], [2, 0, 0, 1]], "float32")
    dataset = CTX.load("memory", data=frames, sig_dims=1)
    udf = ApplyMasksUDF(lambda: masks, use_sparse=use_sparse)
    found = CTX.run_udf(dataset=dataset, udf=udf)["intensity"].data
    assert found.tolist() == [[4020, 504], [4, 8]]
    for part, kept in zip(parts, before, strict=True):
        assert np.array_equal(part, kept)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64", ">u2", None])
def test_rows_of_sparse_masks_are_integers_of_any_dtype(dtype):
    starts, pixels, values = [0, 2, 3], [0, 2, 1], np.array([1.0, 2.0, 4.0])
    if dtype is not None:
        starts, pixels = np.array(starts, dtype), np.array(pixels, dtype)
    dataset = CTX.load("memory", data=np.array([[1, 10, 100]], "float32"), sig_dims=1)
    of_rows = {"starts": starts, "pixels": pixels, "sig_shape": (3,)}
    udf = ff.ReductionUDF("masks", masks=values, **of_rows)
    assert CTX.run_udf(dataset, udf)["intensity"].data.tolist() == [[201, 40]]


@pytest.mark.parametrize(
    "starts",
    [
        np.array([0.0, 2, 3]),
        np.array([False, True]),
        np.array([[0, 2, 3]]),
        np.array(3),
        np.array([0, -1, 3]),
        [False, 2, 3],
        [0, 2.0, 3],
    ],
)
def test_rows_of_sparse_masks_are_in_one_row(starts):
    dataset = CTX.load("memory", data=np.ones((1, 3)), sig_dims=1)
    of_rows = {"starts": starts, "pixels": [0, 2, 1], "sig_shape": (3,)}
    with pytest.raises(InvalidArgumentError, match=r"'starts' .* expected whole numbers"):
        CTX.run_udf(dataset, ff.ReductionUDF("masks", masks=np.ones(3), **of_rows))


def test_what_a_sparse_mask_does_not_store_does_not_matter(ctx):
    pytest.importorskip("scipy")
    data = np.array([[1, np.nan, 3]], dtype=np.float32)
    dataset = ctx.load("memory", data=data, sig_dims=1)
    for use_sparse, expected in ((True, 7), (False, np.nan)):
        udf = ApplyMasksUDF([lambda: np.array([1.0, 0, 2])], use_sparse=use_sparse)
        found = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data.item()
        np.testing.assert_equal(found, expected)


@pytest.mark.parametrize("use_sparse", [None, True, False])
@pytest.mark.parametrize("shifts", [None, (1, 2)])
def test_sparse_masks_with_another_fill_value_keep_it(dataset, ctx, data, use_sparse, shifts):
    sparse = pytest.importorskip("sparse")
    disk = np.hypot(*np.ogrid[-5:5, -6:6]) < 4
    masks = [~sparse.COO(disk), 2 - sparse.COO(disk.astype("f4"))]
    udf = ApplyMasksUDF([lambda m=m: m for m in masks], use_sparse=use_sparse, shifts=shifts)
    found = ctx.run_udf(dataset, udf)["intensity"].data
    expected = shifted_products(data, np.stack([~disk, 2 - disk.astype("f4")]), shifts or (0, 0))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("backends", ["sparse.COO", "sparse.GCXS"])
@pytest.mark.parametrize("use_sparse", [True, False])
def test_sparse_tiles_with_another_fill_value_keep_it(backends, use_sparse):
    """Functions of pixels whose value at 0 is not 0, in subclasses."""
    sparse = pytest.importorskip("sparse")

    class OfCosine(ApplyMasksUDF):
        def process_tile(self, tile):
            super().process_tile(np.cos(tile))

    class ComOfCosine(ff.CoMUDF):
        def get_backends(self):
            return backends

        def process_tile(self, tile):
            super().process_tile(np.cos(tile))

    class LogsumOfExp(ff.LogsumUDF):
        def get_backends(self):
            return backends

        def process_frame(self, frame):
            super().process_frame(np.exp(frame))

    frames = np.random.default_rng(3).poisson(0.4, (2, 3, 4, 5)).astype("f8")
    dataset = CTX.load("memory", data=sparse.COO(frames), sig_dims=2)
    weights, cosine, levels = np.arange(20.0).reshape(4, 5), np.cos(frames), np.exp(frames)
    udf = OfCosine([lambda: weights], backends=backends, use_sparse=use_sparse)
    found = CTX.run_udf(dataset, udf)["intensity"].data[..., 0]
    np.testing.assert_allclose(found, (cosine * weights).sum((2, 3)))
    centres = CTX.run_udf(dataset, ComOfCosine())["raw_com"].data[..., 0]
    y = np.arange(4)[:, np.newaxis]
    np.testing.assert_allclose(centres, (cosine * y).sum((2, 3)) / cosine.sum((2, 3)))
    logsum = np.log(levels - levels.min((2, 3), keepdims=True) + 1).sum((0, 1))
    found = CTX.run_udf(dataset, LogsumOfExp())["logsum"].data
    np.testing.assert_allclose(found, logsum, rtol=1e-6)


@pytest.mark.parametrize("shifts", [None, (1, 1)])
def test_masks_are_made_once_in_a_run(dataset, ctx, stack, shifts):
    calls = []

    def factory():
        calls.append(1)
        return stack

    ctx.run_udf(dataset=dataset, udf=ApplyMasksUDF(factory, shifts=shifts))
    assert len(calls) == 1


@pytest.mark.parametrize("shifts", [None, (0, 0)])
def test_each_run_asks_for_the_masks_again(dataset, ctx, stack, shifts):
    mask = stack
    udf = ApplyMasksUDF(lambda: mask, shifts=shifts)
    first = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data
    mask = 2 * stack
    again = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data
    np.testing.assert_array_equal(again, 2 * np.asarray(first))


def test_masks_with_one_and_three_signal_axes(ctx):
    rng = np.random.default_rng(1)
    for sig in ((9,), (3, 4, 5)):
        data, mask = rng.random((4, *sig)).astype("f4"), rng.random(sig).astype("f4")
        dataset = ctx.load("memory", data=data, sig_dims=len(sig))
        for shifts in (None, (0,) * len(sig)):
            udf = ApplyMasksUDF([lambda mask=mask: mask], shifts=shifts)
            found = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data[:, 0]
            np.testing.assert_allclose(found, data.reshape(4, -1) @ mask.reshape(-1), rtol=1e-5)


@pytest.mark.parametrize("backends", [("scipy.sparse.csr",), "bogus", 3, ()])
def test_backends_that_are_no_array_formats(dataset, ctx, stack, backends):
    with pytest.raises(InvalidArgumentError, match=r"^backends(: '(scipy|bogus)| is 3| is empty)"):
        ctx.run_udf(dataset=dataset, udf=ApplyMasksUDF(lambda: stack, backends=backends))


@pytest.mark.parametrize("shifts", [None, (1, 1)])
def test_masks_that_do_not_fit(dataset, ctx, stack, shifts):
    wrong = ApplyMasksUDF([lambda: stack[0, :3]], shifts=shifts)
    with pytest.raises(InvalidArgumentError, match=r"3, 12.*10, 12"):
        ctx.run_udf(dataset=dataset, udf=wrong)
    count = ApplyMasksUDF(lambda: stack, mask_count=4, shifts=shifts)
    with pytest.raises(InvalidArgumentError, match="given as 4, but the factory made 3"):
        ctx.run_udf(dataset=dataset, udf=count)


@pytest.mark.parametrize("tileshape", [None, (2, 4, 3)])
def test_the_dtype_of_masks_of_integers_is_kept(ctx, tileshape):
    shape = {} if tileshape is None else {"tileshape": tileshape}
    data = np.arange(3 * 4 * 8 * 6, dtype=np.int16).reshape(3, 4, 8, 6)
    dataset = ctx.load("memory", data=data, sig_dims=2, **shape)

    def run(factor, **options):
        masks = [lambda: np.full((8, 6), factor)]
        udf = ApplyMasksUDF(masks, preferred_dtype=ApplyMasksUDF.USE_NATIVE_DTYPE, **options)
        return ctx.run_udf(dataset, udf)["intensity"]

    sums = data.sum(axis=(2, 3), dtype=np.int64)
    for dtype, found in [("int32", "int32"), ("int8", "int16"), (None, "int64"), ("f4", "float32")]:
        if dtype == "int8":
            with pytest.raises(InvalidArgumentError, match="which int16 cannot hold"):
                run(2, mask_dtype=dtype)
            continue
        result = run(2, mask_dtype=dtype)
        assert result.dtype == found
        np.testing.assert_allclose(result.data[..., 0], 2 * sums)
    # What lies between may be larger than the result.
    with pytest.raises(InvalidArgumentError, match="which int32 cannot hold"):
        run(1 << 20, mask_dtype="int32")


@pytest.mark.parametrize("use_sparse", [True, "scipy.sparse.csc", "sparse.pydata"])
@pytest.mark.parametrize("data_dtype", ["float32", "float16", ">i2"])
@pytest.mark.parametrize("native", [True, False])
def test_sparse_masks_of_dtypes_that_scipy_does_not_know(ctx, data_dtype, use_sparse, native):
    pytest.importorskip("sparse")
    pytest.importorskip("scipy")
    data = np.random.default_rng(2).integers(0, 9, (3, 4, 4, 5)).astype(data_dtype)
    dataset = ctx.load("memory", data=data, sig_dims=2)
    options = {"preferred_dtype": ApplyMasksUDF.USE_NATIVE_DTYPE} if native else {}
    for dtype, asked in [(">f4", None), ("f4", ">f4"), ("f2", None), ("f4", "f2"), (">i2", None)]:
        masks = np.eye(4, 5, dtype=dtype)[None] * 3
        for shifts in (None, (1, 0)):
            given = {"mask_dtype": asked, "shifts": shifts, **options}
            found, dense = (
                ctx.run_udf(dataset, ApplyMasksUDF(lambda m=masks: m, use_sparse=use, **given))
                for use in (use_sparse, False)
            )
            assert found["intensity"].dtype == dense["intensity"].dtype
            np.testing.assert_array_equal(found["intensity"].data, dense["intensity"].data)
