"""Corrections in runs and in memory, against plain loops over pixels."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
import scipy.sparse as scipy_sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from uncompiled import sparse

import framefold as ff
from framefold.common.shape import Shape
from framefold.common.slice import Slice
from framefold.corrections import coordinates
from framefold.exceptions import InvalidArgumentError
from framefold.io.corrections import CorrectionSet
from framefold.io.corrections.detector import (
    RepairDescriptor,
    RepairValueError,
    correct,
    correct_dot_masks,
)
from framefold.udf import UDF

DTYPES = ["bool", "u1", ">u2", "<u4", "u8", "i1", "<i2", "i4", ">i8", "f2", ">f4", "f8"]
DTYPES += ["c8", ">c16"]
CONTEXTS = [
    ff.Context.make_with("inline"),
    ff.Context.make_with("threads", cpus=2),
    ff.Context.make_with("threads", cpus=5),
]


def repaired(frame, bad):
    """Excluded cells of one frame become the mean of the good cells around them."""
    out = frame.copy()
    for cell in zip(*np.nonzero(bad), strict=True):
        good = []
        for step in product((-1, 0, 1), repeat=frame.ndim):
            other = tuple(int(i) + j for i, j in zip(cell, step, strict=True))
            inside = all(0 <= i < n for i, n in zip(other, frame.shape, strict=True))
            if inside and not bad[other]:
                good.append(frame[other])
        if good:
            total = 0j
            for value in good:  # one by one: `sum` rounds in another way from Python 3.14 on
                total += complex(value)
            mean = complex(total.real / len(good), total.imag / len(good))
            out[cell] = mean if frame.dtype.kind == "c" else mean.real
    return out


def expected(data, dark, gain, bad):
    """What each frame of ``data`` (frames first) becomes, in the documented precision."""
    dtype = np.result_type(data.dtype, np.float32)
    real = np.zeros(0, dtype).real.dtype
    out = data.astype(dtype)
    if dark is not None:
        out = out - dark.astype(real)
    if gain is not None:
        out = out * gain.astype(real)
    assert out.dtype == dtype
    return np.stack([repaired(frame, bad) for frame in out])


@st.composite
def jobs(draw):
    nav = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))
    sig = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype.kind in "biu":
        data = rng.integers(0, 2 if dtype.kind == "b" else 120, nav + sig).astype(dtype)
    else:
        data = (rng.normal(size=nav + sig) * 100).astype(dtype)
        if dtype.kind == "c":
            data = (data + 1j * rng.normal(size=nav + sig)).astype(dtype)
    bad = rng.random(sig) < draw(st.sampled_from([0, 0.1, 0.5, 1]))
    dark = rng.normal(size=sig) * 10 if draw(st.booleans()) else None
    gain = rng.uniform(0.5, 2, sig) if draw(st.booleans()) else None
    for plane in (dark, gain):
        if plane is not None:
            plane[bad] = np.nan
    return data, len(nav), dark, gain, bad


class Frames(UDF):
    """All frames, as the UDF gets them."""

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        sig = tuple(self.meta.dataset_shape.sig)
        return {"frames": self.buffer("nav", extra_shape=sig, dtype=self.meta.input_dtype)}

    def process_tile(self, tile):
        part = self.meta.sig_slice.get(sig_only=True)
        self.results.frames[(slice(None), *part)] = tile


@settings(max_examples=120)
@given(jobs(), st.integers(1, 5))
def test_runs_and_functions_equal_plain_loops(job, num_partitions):
    data, nav_dims, dark, gain, bad = job
    sig = data.shape[nav_dims:]
    frames = data.reshape((-1, *sig))
    corrections = CorrectionSet(dark=dark, gain=gain, excluded_pixels=bad, allow_empty=True)
    wanted = expected(frames, dark, gain, bad)
    by_hand = correct(
        data, dark_image=dark, gain_map=gain, excluded_pixels=bad, allow_empty=True
    ).reshape(wanted.shape)
    assert by_hand.dtype == wanted.dtype
    assert np.array_equal(by_hand, wanted, equal_nan=True)
    assert corrections.have_corrections() == (dark is not None or gain is not None or bad.any())
    if not corrections.have_corrections():
        wanted = frames.astype(frames.dtype.newbyteorder("="))  # as they are
    for ctx in CONTEXTS:
        dataset = ctx.load("memory", data=data, sig_dims=len(sig), num_partitions=num_partitions)
        udfs = [ff.PickUDF(), Frames(), ff.SumSigUDF()]
        picked, seen, sums = ctx.run_udf(dataset=dataset, udf=udfs, corrections=corrections)
        for result in (picked["intensity"], seen["frames"]):
            assert result.raw_data.dtype == wanted.dtype
            found = result.raw_data.reshape(wanted.shape)
            assert np.array_equal(found, wanted, equal_nan=True)
        axes = tuple(range(1, wanted.ndim))
        wide = wanted.astype(np.result_type(wanted.dtype, np.float64))
        np.testing.assert_allclose(
            sums["intensity"].raw_data, wide.sum(axis=axes), rtol=1e-5, atol=1e-3
        )


def test_the_mean_is_taken_not_the_median(ctx):
    frame = np.array(
        [
            [1, 2, 3, 4, 5],
            [6, 220, 230, 240, 7],
            [8, 240, 60000, 240, 9],
            [10, 240, 250, 927.44, 11],
            [12, 13, 14, 15, 16],
        ]
    )
    around = np.delete(frame[1:4, 1:4].ravel(), 4)
    assert np.median(around) == 240
    assert around.mean() == pytest.approx(323.43)
    dataset = ctx.load("memory", data=frame.astype("f8")[None], sig_dims=2)
    corrections = CorrectionSet(excluded_pixels=[(2,), (2,)])
    found = ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), corrections=corrections)["intensity"]
    assert found.data[2, 2] == pytest.approx(323.43)
    untouched = np.ones((5, 5), dtype=bool)
    untouched[2, 2] = False
    assert np.array_equal(found.data[untouched], frame[untouched])


@pytest.mark.parametrize("shape", [(700, 1100), (3, 900, 300), (900_000,)])
def test_frames_larger_than_a_tile(ctx, shape):
    rng = np.random.default_rng(3)
    data = rng.integers(0, 5000, (3, *shape), dtype=np.uint16)
    bad = np.zeros(shape, dtype=bool)
    # All along the first axis, so that edges of tiles meet some wherever they are; and borders.
    bad.reshape(-1, shape[-1] if len(shape) > 1 else 1)[::3, 0] = True
    bad[(-1,) * len(shape)] = True
    bad[(0,) * len(shape)] = True
    if len(shape) == 2:
        bad[np.arange(0, 700, 5), np.arange(0, 700, 5)] = True
        bad[350:353, 500:503] = True
    dark, gain = rng.normal(size=shape), rng.uniform(0.5, 2, shape)
    corrections = CorrectionSet(dark, gain, bad, allow_empty=True)
    dataset = ctx.load("memory", data=data, sig_dims=len(shape))
    udfs = [Frames(), ff.PickUDF(), ff.SumUDF()]
    text = ctx.explain(dataset, udfs, corrections=corrections)
    assert f"corrections dark frame, gain map, {bad.sum()} excluded pixels, in float32" in text
    if len(shape) > 1:
        assert "(1 per frame)" not in text
        assert "parts of a frame are read with some pixels around them" in text
    seen, picked, summed = ctx.run_udf(dataset=dataset, udf=udfs, corrections=corrections)
    wanted = correct(data, dark, gain, bad, allow_empty=True)
    assert np.array_equal(seen["frames"].data, wanted)
    assert np.array_equal(picked["intensity"].raw_data.reshape(wanted.shape), wanted)
    np.testing.assert_allclose(summed["intensity"].data, wanted.sum(axis=0), rtol=1e-5)


def test_what_a_udf_gets_to_know(ctx, data, dataset):
    class Look(UDF):
        def get_result_buffers(self):
            return {"seen": self.buffer("single", dtype=object)}

        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

        def process_frame(self, frame):
            meta = self.meta
            self.results.seen[0] = (
                frame.dtype,
                meta.input_dtype,
                meta.dataset_dtype,
                meta.corrections,
            )

        def merge(self, dest, src):
            dest.seen[:] = src.seen

    corrections = CorrectionSet(dark=np.ones((10, 12)))
    found = ctx.run_udf(dataset=dataset, udf=Look(), corrections=corrections)["seen"].data[0]
    assert found == (np.float32, np.float32, np.uint16, corrections)
    assert found[3] is corrections
    for none in (None, CorrectionSet(), CorrectionSet(excluded_pixels=[(), ()])):
        found = ctx.run_udf(dataset=dataset, udf=Look(), corrections=none)["seen"].data[0]
        assert found[:3] == (np.uint16, np.uint16, np.uint16)
        assert not found[3].have_corrections()
    assert not dataset.get_correction_data().have_corrections()


def test_partial_results_and_map_are_corrected(ctx, data, dataset):
    corrections = CorrectionSet(dark=np.full((10, 12), 7), gain=np.full((10, 12), 2))
    wanted = (data.astype(float) - 7) * 2
    for results in ctx.run_udf_iter(dataset=dataset, udf=ff.SumUDF(), corrections=corrections):
        last = results.buffers[0]["intensity"].data
    np.testing.assert_allclose(last, wanted.sum(axis=(0, 1)))
    mapped = ctx.map(dataset=dataset, f=np.max, corrections=corrections)
    np.testing.assert_allclose(mapped.data, wanted.max(axis=(2, 3)))


MASK = np.zeros((4, 6), dtype=bool)
MASK[1, 2] = MASK[3, 5] = True


@pytest.mark.parametrize(
    "excluded",
    [
        MASK,
        MASK.astype(np.uint8),
        MASK.astype(float),
        MASK.tolist(),
        [(1, 3, 1), (2, 5, 2)],
        ([1, 3], [2, 5]),
        np.array([[3, 1, 3], [5, 2, 5]]),
        np.nonzero(MASK),
        sparse.COO.from_numpy(MASK),
        sparse.COO.from_numpy(~MASK, fill_value=True)
        != sparse.COO.from_numpy(np.ones_like(MASK), fill_value=True),
        sparse.DOK.from_numpy(MASK),
        scipy_sparse.csr_matrix(MASK),
        scipy_sparse.coo_array(MASK),
        # Stored, and not excluded: a False, and 1 and -1 at one place.
        sparse.COO(np.array([[0, 1, 3], [0, 2, 5]]), np.array([False, True, True]), shape=(4, 6)),
        scipy_sparse.coo_array(([1, -1, 1, 1], ([0, 0, 1, 3], [0, 0, 2, 5])), shape=(4, 6)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_forms_of_excluded_pixels(ctx, excluded):
    data = np.random.default_rng(1).random((3, 4, 6))
    dataset = ctx.load("memory", data=data, sig_dims=2)
    corrections = CorrectionSet(excluded_pixels=excluded)
    result = ctx.run_udf(dataset=dataset, udf=ff.PickUDF(), corrections=corrections)
    wanted = expected(data, None, None, MASK)
    assert np.array_equal(result["intensity"].raw_data.reshape(data.shape), wanted)
    pixels = corrections.get_excluded_pixels()
    assert isinstance(pixels, sparse.COO)
    assert np.array_equal(pixels.todense(), MASK)
    assert np.array_equal(correct(data, excluded_pixels=excluded, sig_shape=(4, 6)), wanted)


@pytest.mark.parametrize("make", [sparse.COO, scipy_sparse.csr_matrix, lambda a: 2 - sparse.COO(a)])
def test_sparse_planes(make):
    plane = make(np.arange(24.0).reshape(4, 6))
    corrections = CorrectionSet(dark=plane, gain=plane)
    for found in (corrections.get_dark_frame(), corrections.get_gain_map()):
        assert np.array_equal(found, plane.todense())


def test_an_array_of_integers_that_fits_both_is_a_mask(ctx):
    data = np.arange(12.0).reshape(3, 2, 2)
    dataset = ctx.load("memory", data=data, sig_dims=2)
    excluded = np.array([[0, 0], [0, 1]])
    result = ctx.run_udf(
        dataset=dataset, udf=ff.PickUDF(), corrections=CorrectionSet(excluded_pixels=excluded)
    )
    wanted = expected(data, None, None, excluded > 0)
    assert np.array_equal(result["intensity"].raw_data.reshape(data.shape), wanted)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dark": np.zeros((3, 3)), "gain": np.ones((4, 4))}, r"gain.*\[4, 4\].*\[3, 3\]"),
        (
            {"dark": np.zeros((3, 3)), "excluded_pixels": np.zeros((3, 4), dtype=bool)},
            r"excluded_pixels has shape \(3, 4\).*\(3, 3\)",
        ),
        ({"dark": "abc"}, "dark has dtype <U3"),
        ({"gain": 2.0}, r"gain has dtype float64 and shape \(\)"),
        ({"dark": np.array([[object()]])}, "dark has dtype object"),
        ({"dark": np.array([[0, np.nan], [1, 2]])}, r"dark frame is NaN.*1 pixels.*\[0, 1\]"),
        ({"gain": np.array([[0, 1], [np.inf, 2]])}, r"gain map is NaN.*\[1, 0\].*add these"),
        ({"excluded_pixels": "x"}, "excluded_pixels is 'x'"),
        ({"excluded_pixels": [["x"], ["y"]]}, "excluded_pixels is"),
        ({"excluded_pixels": [(1, 2), (3,)]}, r"excluded_pixels is \[\(1, 2\), \(3,\)\]"),
        ({"excluded_pixels": 5}, "excluded_pixels is 5"),
        ({"excluded_pixels": np.array(5)}, r"excluded_pixels is array\(5\)"),
    ],
)
def test_sets_that_do_not_fit_themselves(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        CorrectionSet(**arguments)


@pytest.mark.parametrize(
    ("corrections", "message"),
    [
        (CorrectionSet(dark=np.zeros((10, 11))), r"dark frame has shape \[10, 11\].*\[10, 12\]"),
        (CorrectionSet(gain=np.zeros((12, 10))), r"gain map has shape \[12, 10\].*\[10, 12\]"),
        (
            CorrectionSet(excluded_pixels=np.eye(10) > 0),
            r"excluded_pixels has shape \(10, 10\).*\(10, 12\)",
        ),
        (CorrectionSet(excluded_pixels=[(1, 2, 3)]), r"shape \(1, 3\).*\(10, 12\).*\(2, n\)"),
        (
            CorrectionSet(excluded_pixels=np.array([(1, 10), (3, 4)])),
            r"\(10, 4\) is outside.*\(10, 12\)",
        ),
        (CorrectionSet(excluded_pixels=[(-1,), (3,)]), r"\(-1, 3\) is outside"),
        (CorrectionSet(dark=np.ones((10, 12), dtype=complex)), "complex128.*uint16"),
        ("x", "corrections is a str"),
    ],
)
def test_sets_that_do_not_fit_the_data(ctx, dataset, corrections, message):
    with pytest.raises(InvalidArgumentError, match=message):
        ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), corrections=corrections)


@pytest.mark.parametrize("given", [[(1, 10), (2, 7)], [[1, 10], [2, 7]]])
def test_pixels_that_may_be_axes_are_refused(given):
    for use in (
        lambda pixels: CorrectionSet(excluded_pixels=pixels),
        lambda pixels: correct(np.ones((12, 16)), excluded_pixels=pixels, sig_shape=(12, 16)),
    ):
        with pytest.raises(
            InvalidArgumentError, match=r"may be 2 pixels, or all .*array\(pixels\)"
        ):
            use(given)
    pixels, mask = np.array(given), np.zeros((12, 16), dtype=bool)
    mask[1, 10] = mask[2, 7] = True
    for clear in (pixels.T, np.nonzero(mask), ((1, 2), (10, 7)), mask.tolist()):
        found = RepairDescriptor((12, 16), clear).exclude_flat
        np.testing.assert_array_equal(found, [26, 39])


def test_pixels_without_good_neighbours(ctx):
    bad = np.zeros((4, 4), dtype=bool)
    bad[:2, :2] = True
    data = np.arange(32, dtype="u2").reshape(2, 4, 4)
    message = r"1 of 4 excluded pixels.*\(0, 0\).*allow_empty"
    with pytest.raises(RepairValueError, match=message):
        CorrectionSet(excluded_pixels=bad)
    with pytest.raises(RepairValueError, match=message):
        correct(data, excluded_pixels=bad)
    dataset = ctx.load("memory", data=data, sig_dims=2)
    late = CorrectionSet(excluded_pixels=np.nonzero(bad))
    with pytest.raises(RepairValueError, match=message):
        ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), corrections=late)
    kept = CorrectionSet(excluded_pixels=bad, gain=np.full((4, 4), 2), allow_empty=True)
    found = ctx.run_udf(dataset=dataset, udf=ff.PickUDF(), roi=(1,), corrections=kept)
    assert found["intensity"].raw_data[0].reshape(4, 4)[0, 0] == 32


def test_complex_planes_for_complex_data(ctx):
    data = (np.arange(8) + 1j * np.arange(8)[::-1]).reshape(2, 2, 2).astype("c8")
    dark, gain = np.full((2, 2), 1j), np.full((2, 2), 1j)
    dataset = ctx.load("memory", data=data, sig_dims=2)
    result = ctx.run_udf(dataset=dataset, udf=ff.PickUDF(), corrections=CorrectionSet(dark, gain))
    wanted = ((data - 1j) * 1j).astype("c8")
    assert np.array_equal(result["intensity"].raw_data.reshape(data.shape), wanted)
    assert np.array_equal(correct(data, dark, gain), wanted)


@pytest.mark.parametrize("values", [1e39, -np.inf, np.nan])
@pytest.mark.parametrize("what", ["dark_image", "gain_map"])
def test_planes_are_finite_where_pixels_are_not_excluded(what, values):
    plane = np.ones((4, 6))
    plane[1, 2] = values
    data = np.arange(48, dtype="f4").reshape(2, 4, 6)
    kept = data.copy()
    for of, inplace in ((data, True), (data.astype("u2"), False), (data.astype("c8"), False)):
        with pytest.raises(InvalidArgumentError, match=rf"{what} is NaN, .* the first is \(1, 2\)"):
            correct(of, **{what: plane}, inplace=inplace)
    np.testing.assert_array_equal(data, kept)
    assert np.isfinite(correct(data, **{what: plane}, excluded_pixels=[(1,), (2,)])).all()


def test_correct_in_place():
    data = np.arange(8, dtype="f4").reshape(2, 2, 2)
    assert correct(data, dark_image=np.ones((2, 2)), inplace=True) is data
    assert data.ravel().tolist() == [-1, 0, 1, 2, 3, 4, 5, 6]
    with pytest.raises(TypeError, match="int64 cannot be corrected in place"):
        correct(np.ones((2, 2), dtype=int), dark_image=np.ones((2, 2)), inplace=True)
    with pytest.raises(InvalidArgumentError, match="nothing tells the shape"):
        correct(data)
    with pytest.raises(InvalidArgumentError, match=r"\(2, 2, 2\).*\(2, 3\)"):
        correct(data, dark_image=np.ones((2, 3)))
    with pytest.raises(InvalidArgumentError, match=r"dark_image.*\(2, 2\), but gain_map.*\(2, 1\)"):
        correct(data, dark_image=np.ones((2, 2)), gain_map=np.ones((2, 1)))
    with pytest.raises(InvalidArgumentError, match="complex128, but the data have dtype float32"):
        correct(data, dark_image=np.ones((2, 2), dtype=complex))


def test_repair_descriptor_of_neighbouring_pixels():
    found = RepairDescriptor((5, 5), [(2, 0, 1), (2, 0, 1)])
    assert found.exclude_flat.tolist() == [0, 6, 12]
    assert found.repair_counts.tolist() == [2, 6, 7]
    assert found.repair_flat[0, :2].tolist() == [1, 5]
    assert found.repair_flat[1, :6].tolist() == [1, 2, 5, 7, 10, 11]
    assert found.repair_flat[2, :7].tolist() == [7, 8, 11, 13, 16, 17, 18]


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.1, 0.6]), st.booleans())
def test_masks_take_the_corrections(seed, share, with_gain):
    rng = np.random.default_rng(seed)
    sig = tuple(rng.integers(1, 7, 2))
    data, masks = rng.normal(size=(4, *sig)), rng.normal(size=(3, *sig))
    masks[rng.random(masks.shape) < 0.5] = 0
    bad, gain = rng.random(sig) < share, rng.uniform(0.5, 2, sig) if with_gain else None
    if with_gain:
        repairable = RepairDescriptor(sig, bad, allow_empty=True)
        gain.flat[repairable.exclude_flat[repairable.repair_counts > 0]] = np.nan
    wanted = np.einsum("myx,fyx->fm", masks, expected(data, None, gain, bad))
    n = data[0].size

    def check(corrected, shape):
        dense = corrected if isinstance(corrected, np.ndarray) else corrected.todense()
        assert dense.shape == shape
        np.testing.assert_allclose(data.reshape(-1, n) @ np.asarray(dense).reshape(-1, n).T, wanted)

    for given_masks in (
        masks,
        masks.reshape(3, n),
        sparse.COO.from_numpy(masks),
        sparse.COO.from_numpy(masks.reshape(3, n)),
        scipy_sparse.csc_matrix(masks.reshape(3, n)),
    ):
        found = correct_dot_masks(given_masks, gain, bad, allow_empty=True)
        assert isinstance(found, type(given_masks))
        check(found, given_masks.shape)
    for make in (scipy_sparse.csr_matrix, scipy_sparse.csc_array):
        one = correct_dot_masks(make(masks[1]), gain, bad, allow_empty=True)
        assert type(one) is make
        alone = correct_dot_masks(masks[1], gain, bad, allow_empty=True)
        np.testing.assert_allclose(one.todense(), alone)


def test_masks_of_another_shape_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"\(2, 3, 4\).*\(4, 3\), or 12 pixels"):
        correct_dot_masks(np.ones((2, 3, 4)), np.ones((4, 3)))
    assert correct_dot_masks(np.ones((4, 3), dtype="u1"), np.ones((4, 3))).dtype == np.float64


def test_a_set_applied_to_tiles_that_it_adjusted():
    rng = np.random.default_rng(8)
    data = rng.random((2, 60, 40))
    bad = rng.random((60, 40)) < 0.005
    bad[0, 0] = bad[59, 20] = True
    corrections = CorrectionSet(dark=rng.random((60, 40)), excluded_pixels=bad)
    wanted = expected(data, corrections.get_dark_frame(), None, bad)
    rows, columns = corrections.adjust_tileshape((7, 40), (60, 40), (2, 40))
    assert rows % 2 == 0 or rows == 60
    assert columns == 40
    for row in range(0, 60, rows):
        part = data[:, row : row + rows].copy()
        corrections.apply(part, Slice((0, row, 0), Shape(part.shape, sig_dims=2)))
        assert np.array_equal(part, wanted[:, row : row + rows])
    assert CorrectionSet().adjust_tileshape((7, 40), (60, 40), (2, 40)) == (7, 40)


@pytest.mark.parametrize("n_rows", [4, 2])
def test_masks_of_integers_on_parts_of_frames(n_rows):
    """As truth values do, or an error where the same array may hold coordinates."""
    mask = np.zeros((n_rows, 5), int)
    mask[1, 2] = 7
    data = np.random.default_rng(3).random((2, n_rows, 5)).astype("f4")
    for part in (np.s_[:, :2, 1:4], np.s_[:, :, 1:], np.s_[:, :, :]):
        place = Slice([each.start or 0 for each in part], Shape(data[part].shape, sig_dims=2))
        wanted, found = data[part].copy(), data[part].copy()
        CorrectionSet(excluded_pixels=mask.astype(bool)).apply(wanted, place)
        assert not np.array_equal(wanted, found)
        corrections = CorrectionSet(excluded_pixels=mask)
        if n_rows == 2:
            with pytest.raises(InvalidArgumentError, match=r"a mask .*or coordinates of 5 pixels"):
                corrections.apply(found, place)
            corrections.for_shape(mask.shape)
        corrections.apply(found, place)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("places", "wanted", "expected_length"),
    [([], 8, 8), ([0], 1, 2), ([7], 8, 9), ([8], 8, 7), ([15], 8, 7), ([3], 3, 5)],
)
def test_no_edge_of_an_adjusted_tile_is_next_to_an_excluded_pixel(places, wanted, expected_length):
    excluded = [places] if places else None
    found = CorrectionSet(excluded_pixels=excluded).adjust_tileshape((wanted,), (32,), (1,))
    assert found == (expected_length,)


def test_too_many_places_take_the_whole_axis():
    corrections = CorrectionSet(excluded_pixels=[range(0, 30, 2)])
    assert corrections.adjust_tileshape((4,), (32,), (1,)) == (32,)


def test_sets_can_be_shipped():
    corrections = CorrectionSet(gain=np.full((2, 2), 3), excluded_pixels=[(0,), (1,)])
    again = pickle.loads(pickle.dumps(corrections))
    assert repr(again) == repr(corrections)
    assert repr(again) == (
        "<CorrectionSet gain=int64, 1 excluded pixel, for frames of shape (2, 2)>"
    )
    data = np.arange(4.0).reshape(1, 2, 2)
    dataset = CONTEXTS[0].load("memory", data=data, sig_dims=2)
    result = CONTEXTS[0].run_udf(dataset=dataset, udf=ff.SumUDF(), corrections=again)
    assert result["intensity"].data.tolist() == [[0, 5], [6, 9]]
    with pytest.raises(InvalidArgumentError, match="nothing tells the shape"):
        CorrectionSet(excluded_pixels=[(0,), (1,)]).get_excluded_pixels()


def test_coordinates():
    vector = np.array([0.0, 1.0])
    assert np.allclose(coordinates.rotate(np.pi / 2) @ vector, [1, 0])
    assert np.allclose(coordinates.rotate_deg(30), [[0.8660254, 0.5], [-0.5, 0.8660254]], atol=1e-7)
    assert np.array_equal(coordinates.scale(3), [[3, 0], [0, 3]])
    assert np.array_equal(coordinates.flip_y(), [[-1, 0], [0, 1]])
    assert np.array_equal(coordinates.flip_x(), [[1, 0], [0, -1]])
    assert np.array_equal(coordinates.identity(), np.eye(2))


@given(st.floats(0.01, 100), st.floats(-3, 3), st.booleans())
def test_matrices_come_apart_again(factor, radians, flip):
    matrix = coordinates.scale(factor) @ coordinates.rotate(radians)
    if flip:
        matrix = matrix @ coordinates.flip_y()
    found = coordinates.scale_rotate_flip_y(matrix)
    assert found == (pytest.approx(factor), pytest.approx(radians, abs=1e-9), flip)


@pytest.mark.parametrize("matrix", [[[1, 1], [0, 1]], [[1, 0], [0, 2]], [[0, 0], [0, 0]], [[1, 2]]])
def test_other_matrices_do_not_come_apart(matrix):
    with pytest.raises(InvalidArgumentError, match="matrix"):
        coordinates.scale_rotate_flip_y(matrix)
