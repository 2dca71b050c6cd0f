"""Detectors that follow the beam: shifts per position against NumPy and SciPy.

Long because: masks and centres of mass are given the same shifts, over the same data.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import InvalidArgumentError
from framefold.udf.com import CoMParams
from framefold.udf.engine.native import native_udf
from framefold.warnings import DataSetWarning, MissingFramesWarning

NAV, SIG = (4, 6), (16, 23)
ndimage = pytest.importorskip("scipy.ndimage")
scipy_sparse = pytest.importorskip("scipy.sparse")


@pytest.fixture(scope="module", params=["inline", "threads", "processes"])
def anywhere(request):
    with shared(request.param, cpus=2) as context:
        yield context


@pytest.fixture(scope="module")
def here():
    return ff.Context.make_with("threads", cpus=2)


def counts(dtype="uint16", nav=NAV, seed=0):
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 2 if dtype == "bool" else 120, (*nav, *SIG))
    data[rng.random(data.shape) < 0.5] = 0
    return (data * (1 - 2j)).astype(dtype) if np.dtype(dtype).kind == "c" else data.astype(dtype)


def some_masks(n=3, seed=1, dtype="float32"):
    rng = np.random.default_rng(seed)
    masks = rng.integers(-3, 9, (n, *SIG))
    masks[rng.random(masks.shape) < 0.4] = 0
    return masks.astype(dtype)


def whole_shifts(nav=NAV, seed=2):
    shifts = np.random.default_rng(seed).integers(-6, 7, (*nav, 2))
    shifts.reshape(-1, 2)[:3] = [(0, 0), (40, 0), (-15, 22)]
    return shifts


def fractions(nav=NAV, seed=3):
    shifts = np.random.default_rng(seed).uniform(-6, 6, (*nav, 2))
    shifts.reshape(-1, 2)[:4] = [(0.5, 0), (0, -0.25), (2, -3), (15.5, -22.5)]
    return shifts


def moved_mask(mask, shift):
    """The definition: interpolated, with zeros around the mask."""
    parts = [mask.real, mask.imag] if np.iscomplexobj(mask) else [mask]
    moved = [
        ndimage.shift(part.astype(float), shift, order=1, mode="grid-constant") for part in parts
    ]
    return moved[0] + 1j * moved[1] if len(moved) == 2 else moved[0]


def moved_by_pixels(mask, shift):
    """The same for whole pixels, without any interpolation."""
    moved = np.zeros(mask.shape, dtype=np.result_type(mask, np.int64))
    cells = np.indices(mask.shape).reshape(mask.ndim, -1)
    pixels = cells + np.reshape(shift, (-1, 1))
    inside = ((pixels >= 0) & (pixels < np.reshape(mask.shape, (-1, 1)))).all(axis=0)
    moved[tuple(pixels[:, inside])] = mask[tuple(cells[:, inside])]
    return moved


def products(data, masks, shifts, move=moved_mask):
    nav = data.shape[:-2]
    shifts = np.broadcast_to(shifts, (*nav, 2))
    wide = data.astype(np.result_type(data, np.int64))
    found = [
        [(move(mask, shifts[at]) * wide[at]).sum() for mask in masks] for at in np.ndindex(*nav)
    ]
    return np.array(found).reshape(*nav, len(masks))


def open_as(ctx, data, form, **options):
    nav = data.shape[:-2]
    if form == "csr":
        rows = scipy_sparse.csr_matrix(data.reshape(-1, np.prod(SIG)))
        return ctx.load("memory", data=rows, nav_shape=nav, sig_shape=SIG, **options)
    return ctx.load("memory", data=data, sig_dims=2, **options)


class OwnTiles(ff.CoMUDF):
    def process_tile(self, tile):  # in Python
        super().process_tile(tile)


@pytest.mark.parametrize(("cls", "r"), [(ff.CoMUDF, 6), (OwnTiles, 6), (ff.CoMUDF, 0)])
def test_centres_in_python_follow_what_another_function_finds(anywhere, cls, r):
    dtype = "complex64" if cls is ff.CoMUDF and r else "uint16"
    dataset = open_as(anywhere, counts(dtype), "dense", num_partitions=3)
    com = ff.CoMUDF(cy=8, cx=11)
    shifts = np.round(anywhere.run_udf(dataset, com)["raw_shifts"].data.real)
    expected = anywhere.run_udf(dataset, cls(cy=8, cx=11, r=r, ri=-1, shifts=shifts))
    found = ff.from_result(com, "raw_shifts", lambda shifts: np.round(shifts.real))
    udf = cls(cy=8, cx=11, r=r, ri=-1, shifts=found)
    for name, buffer in anywhere.run_udf(dataset, udf).items():
        assert buffer.data.tobytes() == expected[name].data.tobytes(), name


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("use_sparse", [False, True])
@pytest.mark.parametrize("selected", [False, True])
def test_masks_follow_whole_and_fractional_shifts(anywhere, form, use_sparse, selected):
    data, masks = counts(), some_masks()
    dataset = open_as(anywhere, data, form, num_partitions=3)
    roi = np.random.default_rng(5).random(NAV) < 0.6 if selected else None
    for shifts, move in ((whole_shifts(), moved_by_pixels), (fractions(), moved_mask)):
        expected = products(data, masks, shifts, move)
        for given in (shifts, shifts.reshape(-1, 2)):
            udf = ff.ApplyMasksUDF(lambda: masks, shifts=given, use_sparse=use_sparse)
            assert native_udf(udf, dataset) is not None
            found = anywhere.run_udf(dataset, udf, roi=roi)["intensity"].data
            there = np.ones(NAV, dtype=bool) if roi is None else roi
            assert np.isnan(found[~there]).all()
            if move is moved_by_pixels:
                assert np.array_equal(found[there], expected[there])
            np.testing.assert_allclose(found[there], expected[there], rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("dtype", ["bool", "u1", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8"])
@pytest.mark.parametrize("mask_dtype", ["int16", "float64", "complex64"])
@pytest.mark.parametrize("n", [2, 14])
def test_dtypes_and_numbers_of_masks(here, dtype, mask_dtype, n):
    data = counts("bool" if dtype == "bool" else dtype)
    masks = some_masks(n, dtype=mask_dtype)
    if mask_dtype == "complex64":
        masks = masks * np.complex64(1 + 2j)
    for form in ("dense",) if dtype == "f2" else ("dense", "csr"):
        dataset = open_as(here, data, form)
        for shifts, move in ((whole_shifts(), moved_by_pixels), (fractions(), moved_mask)):
            udf = ff.ApplyMasksUDF(lambda: masks, shifts=shifts)
            found = here.run_udf(dataset, udf)["intensity"]
            plain = here.run_udf(dataset, ff.ApplyMasksUDF(lambda: masks))["intensity"]
            assert found.dtype == plain.dtype
            expected = products(data, masks, shifts, move)
            np.testing.assert_allclose(found.data, expected, rtol=1e-5, atol=2e-2)
            if move is moved_by_pixels:
                assert np.array_equal(found.data, expected.astype(found.dtype))


@pytest.mark.parametrize("n", [3, 13])
def test_frames_that_are_moved_in_several_blocks(here, n):
    """Blocks end within rows, and tiles have more frames than a block."""
    rng = np.random.default_rng(4)
    data = rng.integers(0, 200, (30, 70, 133)).astype(np.uint16)
    masks = rng.integers(-3, 9, (n, 70, 133)).astype(np.float32)
    dataset = here.load("memory", data=data, sig_dims=2, num_partitions=1)
    whole = rng.integers(-60, 61, (30, 2))
    for shifts in (whole, whole + rng.integers(0, 4, (30, 2)) / 4):
        udf = ff.ApplyMasksUDF(lambda: masks, shifts=shifts)
        found = here.run_udf(dataset, udf)["intensity"].data
        expected = products(data, masks, shifts)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1)
        if shifts is whole:
            assert np.array_equal(found, np.rint(expected))


@pytest.mark.parametrize("shifts", [whole_shifts(), fractions()], ids=["whole", "fractions"])
def test_bits_do_not_depend_on_the_cut(here, shifts):
    rng = np.random.default_rng(8)
    data = rng.normal(size=(*NAV, *SIG)).astype(np.float32)
    masks = rng.normal(size=(5, *SIG)).astype(np.float32)
    udf = ff.ApplyMasksUDF(lambda: masks, shifts=shifts)
    expected = None
    for options in ({"num_partitions": 1}, {"num_partitions": 5}, {"tileshape": (2, 5, 23)}):
        dataset = here.load("memory", data=data, sig_dims=2, **options)
        found = here.run_udf(dataset, udf)["intensity"].data
        expected = found if expected is None else expected
        assert np.array_equal(found, expected)
        # Beside frames that are moved otherwise, or alone.
        for at in ((0, 2), (3, 5), (1, 1)):
            roi = np.zeros(NAV, dtype=bool)
            roi[at] = True
            assert np.array_equal(
                here.run_udf(dataset, udf, roi=roi)["intensity"].data[at], found[at]
            )
    with shared("processes", cpus=2) as processes:
        dataset = processes.load("memory", data=data, sig_dims=2, num_partitions=3)
        assert np.array_equal(processes.run_udf(dataset, udf)["intensity"].data, expected)


@pytest.mark.parametrize("offset", [-5, 7])
def test_shifts_belong_to_positions_of_the_scan(here, offset):
    frames = counts().reshape(-1, *SIG)
    masks, shifts = some_masks(), whole_shifts()
    layout = {"nav_shape": NAV, "sync_offset": offset}
    with pytest.warns(DataSetWarning, match="positions have no data"):
        dataset = here.load("memory", data=frames, sig_dims=2, num_partitions=3, **layout)
    valid = np.asarray(dataset.valid_mask)
    assert 0 < valid.sum() < valid.size
    positions = np.arange(24) + offset
    there = (positions >= 0) & (positions < 24)
    laid_out = np.zeros_like(frames)
    laid_out[there] = frames[positions[there]]
    expected = products(laid_out.reshape(*NAV, *SIG), masks, shifts, moved_by_pixels)
    for roi in (None, np.arange(24).reshape(NAV) % 3 != 1):
        udf = ff.ApplyMasksUDF(lambda: masks, shifts=shifts)
        with pytest.warns(MissingFramesWarning):
            found = here.run_udf(dataset, udf, roi=roi)["intensity"].data
        take = there.reshape(NAV) if roi is None else there.reshape(NAV) & roi
        assert np.array_equal(found[take], expected[take])
        assert np.isnan(found[~take]).all()


def test_one_rule_for_all_ways_to_give_shifts(here):
    data, masks = counts(), some_masks()
    dataset = open_as(here, data, "dense")

    def run(shifts, **options):
        udf = ff.ApplyMasksUDF(lambda: masks, shifts=shifts, **options)
        return here.run_udf(dataset, udf)["intensity"].data

    aux = ff.ApplyMasksUDF.aux_data
    shifts = fractions()
    interpolated = run(shifts)
    assert np.array_equal(run(aux(shifts, "nav", (2,), "float64")), interpolated)
    assert np.array_equal(run(aux(shifts.reshape(-1), "nav", (2,), "float64")), interpolated)
    # Integers are what NumPy makes of floats.
    truncated = run(shifts.astype(int))
    assert np.array_equal(run(aux(shifts, "nav", (2,), int)), truncated)
    one = run((1.25, -2))
    assert np.array_equal(run(np.full((*NAV, 2), (1.25, -2))), one)
    assert np.array_equal(run(aux((1.25, -2), "single", (2,), "float64")), one)
    assert np.array_equal(run([1, -2]), run(np.full((*NAV, 2), (1, -2), dtype="int8")))


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("use_sparse", [False, True])
def test_functions_in_python_follow_the_same_rule(here, form, use_sparse):
    data, masks = counts(), some_masks()
    dataset = open_as(here, data, form)
    for shifts in (whole_shifts(), fractions(), (2, -1), (0.5, 0.25)):
        for backends in (("numpy",), ("scipy.sparse.csr_matrix",)):
            udf = ff.ApplyMasksUDF(
                lambda: masks, shifts=shifts, use_sparse=use_sparse, backends=backends
            )
            assert native_udf(udf, dataset) is None
            found = here.run_udf(dataset, udf)["intensity"].data
            np.testing.assert_allclose(found, products(data, masks, shifts), rtol=1e-5, atol=1e-2)


def test_results_of_integers(here):
    data, masks = counts("int64") * (1 << 40), some_masks(dtype="int64")
    dataset = open_as(here, data, "dense")
    native = {"preferred_dtype": ff.ApplyMasksUDF.USE_NATIVE_DTYPE}
    udf = ff.ApplyMasksUDF(lambda: masks, shifts=whole_shifts(), **native)
    found = here.run_udf(dataset, udf)["intensity"]
    assert found.dtype == np.int64
    assert np.array_equal(found.data, products(data, masks, whole_shifts(), moved_by_pixels))
    udf = ff.ApplyMasksUDF(lambda: masks, shifts=fractions(), **native)
    with pytest.raises(InvalidArgumentError, match="shifts have fractions, but results are int64"):
        here.run_udf(dataset, udf)


@pytest.mark.parametrize(
    ("shifts", "words"),
    [
        (np.zeros((6, 4, 2)), r"\(6, 4, 2\)|\[6, 4, 2\]"),
        (np.zeros((23, 2)), r"\(23, 2\)|\[23, 2\]"),
        (np.zeros((*NAV, 3)), "4, 6, 3"),
        (np.zeros(NAV), "4, 6"),
        ((np.nan, 0), "expected 2 finite numbers"),
        (np.full((*NAV, 2), 1j), "complex128"),
        ((1, 2, 3), r"\[1, 2, 3\], expected 2"),
    ],
)
def test_shifts_that_do_not_fit_are_refused_when_a_run_is_planned(here, shifts, words):
    masks = some_masks()
    dataset = open_as(here, counts(), "dense")
    for options in ({}, {"backends": ("numpy",)}):
        udf = ff.ApplyMasksUDF(lambda: masks, shifts=shifts, **options)
        with pytest.raises(InvalidArgumentError, match=words):
            here.explain(dataset, udf)
    com = ff.CoMUDF.with_params(shifts=shifts)
    with pytest.raises(InvalidArgumentError, match=words):
        here.explain(dataset, com)


def test_positions_that_are_not_processed_need_no_shift(here):
    masks = some_masks()
    dataset = open_as(here, counts(), "dense")
    shifts = whole_shifts().astype(np.float64)
    roi = np.ones(NAV, dtype=bool)
    roi[1, 2] = False
    for options in ({}, {"backends": ("numpy",)}):
        expected = ff.ApplyMasksUDF(lambda: masks, shifts=shifts.copy(), **options)
        expected = here.run_udf(dataset, expected, roi=roi)["intensity"].raw_data
        gaps = shifts.copy()
        gaps[1, 2] = np.nan
        udf = ff.ApplyMasksUDF(lambda: masks, shifts=gaps, **options)
        found = here.run_udf(dataset, udf, roi=roi)["intensity"].raw_data
        np.testing.assert_array_equal(found, expected)
        with pytest.raises(InvalidArgumentError, match=r"expected (2 )?finite numbers"):
            here.run_udf(dataset, udf)
    for data in (dataset, open_as(here, counts().astype(np.complex64), "dense")):
        com = ff.CoMUDF.with_params(shifts=gaps)
        here.run_udf(data, com, roi=roi)
        with pytest.raises(InvalidArgumentError, match=r"expected (2 )?finite numbers"):
            here.run_udf(data, com)


@pytest.mark.filterwarnings("ignore::framefold.warnings.DataSetWarning")
@pytest.mark.filterwarnings("ignore::framefold.warnings.MissingFramesWarning")
@pytest.mark.parametrize("region", [{}, {"r": 5}])
def test_centres_of_positions_without_a_frame_need_no_shift(anywhere, region):
    data = counts()
    data[1, 2] = 0  # its centre is the reference point
    shifts = whole_shifts().astype(np.float64)
    for offset, missing in ((-5, np.arange(24) < 5), (5, np.arange(24) >= 19)):
        missing = missing.reshape(NAV)
        gaps = np.where(missing[..., np.newaxis], np.nan, shifts)
        dataset = anywhere.load("memory", data=data, sig_dims=2, sync_offset=offset)
        expected = anywhere.run_udf(dataset, ff.CoMUDF(shifts=shifts, **region))
        found = anywhere.run_udf(dataset, ff.CoMUDF(shifts=gaps, **region))
        kernel = anywhere.run_udf(dataset, ff.ReductionUDF("com", shifts=gaps, **region))
        for name in ("raw_com", "raw_shifts", "field", "magnitude"):
            values = found[name].data
            np.testing.assert_array_equal(values, expected[name].data)
            np.testing.assert_allclose(kernel[name].data, values, rtol=1e-5, atol=1e-5)
            assert np.isnan(values[missing]).all()
            assert np.isfinite(values[~missing]).all()


@pytest.mark.parametrize("region", [{}, {"r": 5}])
@pytest.mark.parametrize("value", [0, 3, np.nan])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_centres_of_frames_need_a_shift(here, region, value, form):
    data = counts("float32")
    data[1, 2] = value
    gaps = whole_shifts().astype(np.float64)
    gaps[1, 2] = np.nan
    dataset = open_as(here, data, form)
    for udf in (ff.CoMUDF(shifts=gaps, **region), ff.ReductionUDF("com", shifts=gaps, **region)):
        with pytest.raises(InvalidArgumentError, match=r"position 8 .* expected finite numbers"):
            here.run_udf(dataset, udf)


def test_masks_that_are_not_finite_do_not_count_outside(here):
    mask = np.ones(SIG)
    mask[0] = np.inf
    dataset = here.load("memory", data=np.ones((3, *SIG)), sig_dims=2)
    for use_sparse in (False, True):
        shifts = np.array([(-1, 0), (-0.5, 0), (-1, 3)])
        udf = ff.ApplyMasksUDF([lambda: mask], shifts=shifts, use_sparse=use_sparse)
        found = here.run_udf(dataset, udf)["intensity"].data[:, 0]
        assert np.array_equal(found, [15 * 23, np.inf, 15 * 20])


def com_of(frame, centre, r, ri):
    y, x = np.indices(SIG)
    distance = np.hypot(y - centre[0], x - centre[1])
    inside = (distance <= r) & ((distance > ri) if ri else True)
    frame = np.where(inside, frame.astype(np.result_type(frame, float)), 0)
    total = frame.sum()
    return centre if total == 0 else np.array([(frame * y).sum(), (frame * x).sum()]) / total


def test_one_rule_for_all_ways_to_give_shifts_of_centres(anywhere):
    shifts, aux = fractions(), ff.CoMUDF.aux_data
    roi = np.random.default_rng(5).random(NAV) < 0.6
    for dtype in ("uint16", "complex64"):  # on a kernel, and in Python
        dataset = open_as(anywhere, counts(dtype), "dense", num_partitions=3)

        def run(udf):
            results = anywhere.run_udf(dataset, udf, roi=roi)  # noqa: B023
            return [results[name].raw_data for name in ("raw_com", "raw_shifts", "field")]

        expected = run(ff.CoMUDF(r=5, shifts=shifts))
        for given in (
            aux(shifts, "nav", (2,), "float64"),
            aux(shifts.reshape(-1), "nav", (2,), "float64"),
        ):
            for udf in (
                ff.CoMUDF(r=5, shifts=given),
                ff.CoMUDF.with_params(r=5, shifts=given),
                ff.CoMUDF(CoMParams(r=5, shifts=given)),
                ff.CoMUDF(CoMParams(r=5), shifts=given),
                ff.CoMUDF(r=5).with_params(shifts=given),
                ff.CoMUDF(shifts=given).with_params(r=5),
            ):
                assert all(map(np.array_equal, run(udf), expected))
        one = run(ff.CoMUDF(r=5, shifts=(1.25, -2)))
        given = aux((1.25, -2), "single", (2,), "float64")
        assert all(map(np.array_equal, run(ff.CoMUDF(r=5, shifts=given)), one))
    with pytest.raises(InvalidArgumentError, match="got both com_params and others"):
        ff.CoMUDF(CoMParams(shifts=(1, 2)), shifts=(1, 2))
    with pytest.raises(InvalidArgumentError, match=r"\(6, 4, 2\)|\[6, 4, 2\]"):
        run(ff.CoMUDF(shifts=aux(np.zeros((6, 4, 2)), "nav", (2,))))


def test_centres_follow_what_another_function_finds(anywhere):
    dataset = open_as(anywhere, counts(), "dense", num_partitions=3)

    def smooth(centres):
        return ff.fit_origin(centres, "plane", centre=(8, 11)).shifts

    com = ff.CoMUDF(cy=8, cx=11)
    shifts = smooth(anywhere.run_udf(dataset, com)["raw_com"].data)
    expected = anywhere.run_udf(dataset, ff.CoMUDF(cy=8, cx=11, r=6, shifts=shifts))
    reference = ff.from_result(com, "raw_com", smooth)
    for udf in (
        ff.CoMUDF(cy=8, cx=11, r=6, shifts=reference),
        ff.CoMUDF(CoMParams(8, 11, 6, shifts=reference)),
        ff.CoMUDF(cy=8, cx=11).with_params(r=6, shifts=reference),
        ff.CoMUDF(cy=8, cx=11, r=6, shifts=(3, 3)).with_params(shifts=reference),
        ff.CoMUDF(cy=8, cx=11, shifts=reference).with_params(r=6),
    ):
        for found in (anywhere.run_udf(dataset, [com, udf])[1], anywhere.run_udf(dataset, udf)):
            for name, buffer in expected.items():
                assert buffer.data.tobytes() == found[name].data.tobytes(), name
        assert udf.params.shifts is reference
    plain = udf.with_params(shifts=shifts)
    assert list(plain.params) == ["com_params"]
    assert (
        anywhere.run_udf(dataset, plain)["field"].data.tobytes() == expected["field"].data.tobytes()
    )


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "complex128"])
@pytest.mark.parametrize("region", [{}, {"r": 4.5}, {"r": 7, "ri": 2}])
def test_the_centre_of_mass_follows(anywhere, form, dtype, region):
    data = counts(dtype)
    if dtype == "complex128":
        data = data.real.astype(dtype)
    data[1, 2] = 0
    dataset = open_as(anywhere, data, form, num_partitions=3)
    selected = np.random.default_rng(5).random(NAV) < 0.6
    selected[1, 2] = True
    for shifts, roi in ((fractions(), None), (whole_shifts() * 0.5, selected), ((1, -2), None)):
        centres = np.array([8, 11]) + np.broadcast_to(shifts, (*NAV, 2))
        ring = {"r": np.inf, "ri": 0, **region}
        expected = np.array([com_of(data[at], centres[at], **ring) for at in np.ndindex(*NAV)])
        expected = expected.reshape(*NAV, 2)
        udf = ff.CoMUDF.with_params(cy=8, cx=11, shifts=shifts, **region)
        found = anywhere.run_udf(dataset, udf, roi=roi)
        there = np.ones(NAV, dtype=bool) if roi is None else roi
        tolerance = {"rtol": 1e-5, "atol": 1e-4}
        assert np.isfinite(found["raw_com"].data[there]).all()
        np.testing.assert_allclose(found["raw_com"].data[there], expected[there], **tolerance)
        for name in ("raw_shifts", "field"):
            np.testing.assert_allclose(
                found[name].data[there], (expected - centres)[there], **tolerance
            )
        assert np.array_equal(found["raw_shifts"].data[1, 2], [0, 0])


@pytest.mark.parametrize("tileshape", [(3, 5, 23), (2, 4, 7)])
def test_the_centre_of_mass_follows_on_parts_of_frames(here, tileshape):
    data = counts("uint16")
    shifts = fractions()
    whole, parts = (
        here.run_udf(
            here.load("memory", data=data, sig_dims=2, **shape),
            ff.CoMUDF(CoMParams(cy=8, cx=11, r=5, shifts=shifts)),
        )["raw_com"].data
        for shape in ({}, {"tileshape": tileshape})
    )
    assert np.array_equal(whole, parts)


def test_reductions_take_shifts(here):
    data, shifts = counts(), whole_shifts()
    dataset = open_as(here, data, "dense")
    disk = ff.detectors.disk(SIG, cy=8, cx=11, r=4)
    expected = products(data, disk[np.newaxis], shifts, moved_by_pixels)
    udf = ff.ReductionUDF("masks", disk=(8, 11, 4), shifts=shifts)
    assert np.array_equal(here.run_udf(dataset, udf)["intensity"].data, expected)
    com = ff.ReductionUDF("com", cy=8, cx=11, r=4, shifts=shifts)
    own = ff.CoMUDF(cy=8, cx=11, r=4, shifts=shifts)
    found, expected = here.run_udf(dataset, [com, own])
    assert np.array_equal(found["field"].data, expected["field"].data)
    for name, given in (("masks", {"disk": 4}), ("com", {})):
        with pytest.raises(InvalidArgumentError, match=r"shifts have shape \[6, 4, 2\]; expected"):
            here.run_udf(dataset, ff.ReductionUDF(name, shifts=np.zeros((6, 4, 2)), **given))


def test_the_command_line_takes_shifts(command, here, tmp_path):
    data, shifts = counts(), fractions()
    np.save(tmp_path / "scan.npy", data)
    np.save(tmp_path / "yx.npy", shifts)
    options = ("--shifts", tmp_path / "yx.npy", "-q", "--force", "-o", tmp_path / "out.npy")
    command("run", "masks", tmp_path / "scan.npy", "--disk", "8,11,4", *options)
    dataset = here.load("npy", tmp_path / "scan.npy")
    udf = ff.ReductionUDF("masks", disk=(8, 11, 4), shifts=shifts)
    expected = here.run_udf(dataset, udf)["intensity"].data
    assert np.array_equal(np.load(tmp_path / "out.npy").reshape(expected.shape), expected)
    np.save(tmp_path / "yx.npy", shifts[1:])
    message = command("run", "masks", tmp_path / "scan.npy", "--disk", "8,11,4", *options, code=2)
    assert "shifts have shape [3, 6, 2]; expected" in message
    # Beside functions in Python, the same option is read by the package.
    (tmp_path / "mine.py").write_text("def total(frame):\n    return frame.sum()\n")
    np.save(tmp_path / "yx.npy", shifts)
    what = "com --shifts yx.npy -b raw_shifts,mine.py:total"
    arguments = ["run", what, "scan.npy", "-q", "-o", "{reduction}.npy"]
    done = subprocess.run(
        [sys.executable, "-m", "framefold", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    expected = here.run_udf(dataset, ff.ReductionUDF("com", shifts=shifts))["raw_shifts"].data
    assert np.array_equal(np.load(tmp_path / "com.npy"), expected)


def polynomial(nav, degree):
    y, x = (np.linspace(-1, 1, n) for n in nav)
    y, x = y[:, np.newaxis], x[np.newaxis]
    origin = np.full((*nav, 2), (31.5, 33))
    if degree >= 1:
        origin += np.stack([2 * y - x, y + 3 * x], axis=-1)
    if degree == 2:
        origin += np.stack([y * y + x * y, x * x - y * y + 0 * x], axis=-1)
    return origin


@pytest.mark.parametrize(("model", "degree"), [("constant", 0), ("plane", 1), ("parabola", 2)])
def test_the_origin_is_found_in_spite_of_outliers(model, degree):
    rng = np.random.default_rng(degree)
    nav = (24, 30)
    truth = polynomial(nav, degree)
    noise = rng.normal(0, 0.02, truth.shape)
    outliers = rng.random(nav) < 0.2
    measured = truth + noise
    measured[outliers] += np.array([6, 9])  # all to one side
    measured[3, 4] = np.nan
    fit = ff.fit_origin(measured, model)
    np.testing.assert_allclose(fit.origin, truth, atol=0.02)
    np.testing.assert_allclose(fit.centre, truth.reshape(-1, 2).mean(axis=0), atol=0.01)
    np.testing.assert_array_equal(fit.shifts, fit.origin - fit.centre)
    np.testing.assert_array_equal(fit.residual, measured - fit.origin)
    assert not fit.used[outliers].any()
    assert not fit.used[3, 4]
    assert fit.used.mean() > 0.75
    # The oracle: least squares over those that are no outliers.
    y, x = np.indices(nav)
    powers = [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0)][: [1, 3, 6][degree]]
    terms = np.stack([y**i * x**j for i, j in powers], axis=-1).astype(float)
    best, *_ = np.linalg.lstsq(terms[fit.used], measured[fit.used], rcond=None)
    np.testing.assert_allclose(fit.origin, terms @ best, atol=1e-9)
    # Without the precaution they move it.
    assert np.abs(ff.fit_origin(measured, model, clip=None).origin - truth).max() > 0.5


def test_what_an_origin_is_fitted_to():
    truth = polynomial((8, 9), 1)
    fit = ff.fit_origin(truth, centre=(32, 32))
    np.testing.assert_allclose(fit.shifts, truth - 32)
    assert fit.used.all()
    # Positions to use, or how much each of them counts.
    spoilt = truth.copy()
    spoilt[:, :4] += 7
    use = np.ones((8, 9), dtype=bool)
    use[:, :4] = False
    for weights in (use, use * 2.5):
        fit = ff.fit_origin(spoilt, weights=weights, clip=None)
        np.testing.assert_allclose(fit.origin, truth)
        assert np.array_equal(fit.used, use)
    # Scans with one position along an axis, or with other numbers of axes.
    for nav in ((1, 9), (8, 1), (1, 1), (9,), (2, 3, 4)):
        there = np.full((*nav, 2), (5.0, 6.0))
        for model in ("constant", "plane", "parabola"):
            np.testing.assert_allclose(ff.fit_origin(there, model).origin, there)


def test_an_origin_from_a_centre_of_mass(here):
    data = counts()
    dataset = open_as(here, data, "dense")
    roi = np.ones(NAV, dtype=bool)
    roi[0] = False
    com = here.run_udf(dataset, ff.CoMUDF(), roi=roi)
    fit = ff.fit_origin(com, "plane")
    assert not fit.used[0].any()
    assert np.isfinite(fit.shifts).all()
    again = ff.fit_origin(com["raw_com"].data, "plane")
    np.testing.assert_array_equal(fit.shifts, again.shifts)
    np.testing.assert_array_equal(fit.shifts, ff.fit_origin(com["raw_com"]).shifts)


@pytest.mark.parametrize(
    ("positions", "options", "words"),
    [
        (np.zeros((4, 5)), {}, r"shape \(4, 5\); expected real numbers of shape \(\*nav, 2\)"),
        (np.zeros((4, 2), complex), {}, "complex128"),
        ({"intensity": 1}, {}, "intensity, but no 'raw_com'"),
        (np.zeros((4, 5, 2)), {"model": "bezier"}, "'constant', 'plane', 'parabola'"),
        (np.zeros((4, 5, 2)), {"clip": 0}, "clip is 0"),
        (np.zeros((4, 5, 2)), {"centre": (1, 2, 3)}, "two finite numbers"),
        (np.zeros((4, 5, 2)), {"weights": np.ones((5, 4))}, r"\(5, 4\).*\(4, 5\)"),
        (np.zeros((4, 5, 2)), {"weights": -np.ones((4, 5))}, "negative"),
        (np.full((4, 5, 2), np.nan), {}, "0 positions .* do not determine a plane"),
        (np.zeros((4, 5, 2)), {"weights": np.arange(20).reshape(4, 5) < 5}, "5 positions"),
    ],
)
def test_origins_that_cannot_be_fitted(positions, options, words):
    with pytest.raises(InvalidArgumentError, match=words):
        ff.fit_origin(positions, **options)


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("clip", [None, 4.0])
def test_frames_without_intensity_are_not_fitted(here, share, clip):
    rng = np.random.default_rng(29)
    truth = 8 + np.stack(np.indices((9, 8)), axis=-1) // 2
    data = np.zeros((9, 8, *SIG), np.uint16)
    blank = rng.random((9, 8)) < share
    for position in np.argwhere(~blank):
        data[(*position, *truth[tuple(position)])] = 7
    com = here.run_udf(here.load("memory", data=data), ff.CoMUDF(cy=0, cx=0))
    fit = ff.fit_origin(com, "plane", clip=clip)
    expected = ff.fit_origin(truth, "plane", clip=clip, weights=~blank)
    np.testing.assert_allclose(fit.origin, expected.origin, atol=1e-5)
    assert not fit.used[blank].any()
    assert np.isnan(fit.residual[blank]).all()
    # Shifts of 0 are measured if all are.
    still = here.run_udf(here.load("memory", data=np.ones((3, 4, 5, 5))), ff.CoMUDF())
    assert ff.fit_origin(still, "plane").used.all()
