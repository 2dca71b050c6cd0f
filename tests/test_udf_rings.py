"""Fluctuation EM and crystallinity against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from test_silent_numbers import in_python

from framefold import masks
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.udf.com import CoMUDF
from framefold.udf.crystallinity import CrystallinityUDF, run_analysis_crystall
from framefold.udf.FEM import FEMUDF, run_fem


@pytest.fixture(params=[False, True])
def roi(request):
    return np.random.default_rng(5).random((6, 7)) < 0.5 if request.param else None


def assert_intensity(result, expected, roi):
    found = result["intensity"]
    assert found.kind == "nav"
    assert found.dtype == np.float32
    if roi is not None:
        expected = np.where(roi, expected, np.nan)
    np.testing.assert_allclose(found.data, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("center", "rad_in", "rad_out"), [((5, 6), 2, 4), ((3.5, 7.2), 0, 3.3), ((5, 6), -1, 100)]
)
def test_deviation_in_a_ring(ctx, dataset, data, roi, center, rad_in, rad_out):
    y, x = np.mgrid[:10, :12]
    distance = np.sqrt((y - center[0]) ** 2 + (x - center[1]) ** 2)
    ring = (rad_in < distance) & (distance <= rad_out)
    pixels = data[..., ring].astype(float)
    mean = pixels.mean(axis=-1, keepdims=True)
    expected = np.sqrt(((pixels - mean) ** 2).mean(axis=-1))
    assert_intensity(run_fem(ctx, dataset, center, rad_in, rad_out, roi=roi), expected, roi)
    udf = FEMUDF(center=center, rad_in=rad_in, rad_out=rad_out)
    assert_intensity(ctx.run_udf(dataset, udf, roi=roi), expected, roi)


def test_rims_are_those_of_masks(ctx):
    # Roots are rounded: np.hypot(2, 3) is this radius, whose square is below 13.
    r = float(np.hypot(2, 3))
    data = np.random.default_rng(4).random((1, 9, 9), dtype="float32")
    dataset = ctx.load("memory", data=data, sig_dims=2)
    y, x = np.mgrid[:9, :9]
    for outer, inner in ((r, 1), (6, r)):
        ring = masks.ring(4, 4, 9, 9, outer, inner)
        deviation = run_fem(ctx, dataset, (4, 4), inner, outer)["intensity"].data
        np.testing.assert_allclose(deviation, data[0][ring].std(), rtol=1e-6)
        com = ctx.run_udf(dataset, in_python(CoMUDF)(cy=4, cx=4, r=outer, ri=inner))
        pixels = np.where(ring, data[0], 0).astype(float)
        centre = [(pixels * y).sum() / pixels.sum(), (pixels * x).sum() / pixels.sum()]
        np.testing.assert_allclose(com["raw_com"].data, [centre], rtol=1e-6)
        found = run_analysis_crystall(ctx, dataset, inner, outer)["intensity"].data
        spectrum = np.abs(np.fft.fftshift(np.fft.fft2(data[0])))[:, 4:]
        np.testing.assert_allclose(found, spectrum[ring[:, 4:]].sum(), rtol=1e-5)


def test_a_small_deviation_of_large_counts_is_not_lost(ctx):
    data = np.full((1, 2, 8, 8), 2**24, dtype=np.int64)
    data[..., ::2] += 1
    result = run_fem(ctx, ctx.load("memory", data=data), (3.5, 3.5), 0, 20)
    np.testing.assert_allclose(result["intensity"].data, 0.5)


def test_deviations_of_complex_frames_are_real(ctx):
    data = np.random.default_rng(1).random((2, 3, 5, 6)).astype("complex64") * (1 + 2j)
    dataset = ctx.load("memory", data=data, sig_dims=2)
    found = ctx.run_udf(dataset, FEMUDF(center=(2, 2), rad_in=-1, rad_out=9))["intensity"].data
    np.testing.assert_allclose(found, data.std(axis=(2, 3)), rtol=1e-6)


@pytest.mark.parametrize(("center", "rad_in", "rad_out"), [((99, 99), 2, 4), ((5, 6), 4, 2)])
def test_an_empty_ring_is_refused(ctx, dataset, center, rad_in, rad_out):
    with pytest.raises(InvalidArgumentError, match="no pixel in the ring"):
        run_fem(ctx, dataset, center, rad_in, rad_out)


@pytest.mark.parametrize("wrong", ["4", True, np.ma.masked, np.nan])
def test_what_is_no_number_is_named(ctx, dataset, wrong):
    for udf, name in [
        (FEMUDF((wrong, 6), 1, 3), "center of FEMUDF"),
        (FEMUDF((5, 6), wrong, 3), "rad_in of FEMUDF"),
        (FEMUDF((5, 6), 1, wrong), "rad_out of FEMUDF"),
        (CrystallinityUDF(wrong, 3), "rad_in of CrystallinityUDF"),
        (CrystallinityUDF(1, wrong), "rad_out of CrystallinityUDF"),
    ]:
        with pytest.raises(InvalidArgumentError, match=f"(?s){name} is .*, expected a "):
            ctx.run_udf(dataset, udf)


@pytest.mark.parametrize(
    "wrong", [b"34", bytearray(b"34"), {3, 4}, {3: 1, 4: 2}, (3,), (3, 4, 5), 3]
)
def test_what_is_no_place_is_named(ctx, dataset, wrong):
    for udf in (FEMUDF(wrong, 1, 3), CrystallinityUDF(1, 3, wrong, 2)):
        with pytest.raises(InvalidArgumentError, match=r"(?s)cent(er|re) .*expected a pair"):
            ctx.run_udf(dataset, udf)
    with pytest.raises(InvalidArgumentError, match=r"centre is .* expected"):
        dataset.calibrate(centre=wrong)


@pytest.mark.parametrize(("rad_in", "rad_out"), [(2, 4), (0, 3), (-1, 1), (1.5, 100)])
@pytest.mark.parametrize("circle", [(), ((5, 6), 3), ((4.5, 6.2), 2.5), ((5, 6), None)])
def test_ring_of_the_spectrum(ctx, dataset, data, roi, rad_in, rad_out, circle):
    frames = data.astype(float)
    if circle and circle[1] is not None:
        (cy, cx), radius = circle
        y, x = np.mgrid[:10, :12]
        frames[..., (y - cy) ** 2 + (x - cx) ** 2 <= radius**2] = 0
    # By definition: no fast transform, one product with each wave.
    expected = np.zeros((6, 7))
    y, x = np.mgrid[:10, :12]
    for ky in range(-5, 5):
        for kx in range(7):
            if rad_in < np.hypot(ky, kx) <= rad_out:
                wave = np.exp(-2j * np.pi * (ky * y / 10 + kx * x / 12))
                expected += abs((frames * wave).sum(axis=(-2, -1)))
    found = run_analysis_crystall(ctx, dataset, rad_in, rad_out, *circle, roi=roi)
    assert_intensity(found, expected, roi)


@pytest.mark.parametrize("sig", [(11, 12), (12, 11), (11, 11), (12, 12)])
def test_the_ring_is_around_frequency_0(ctx, sig):
    y, x = np.indices(sig)
    waves = [(ky, kx) for ky in range(-4, 5) for kx in range(5)]
    frames = [np.cos(2 * np.pi * (ky * y / sig[0] + kx * x / sig[1]) + 0.3) for ky, kx in waves]
    found = run_analysis_crystall(ctx, ctx.load("memory", data=np.stack(frames), sig_dims=2), 1, 3)
    # What lies on column 0 is there as its mirror image, too.
    counts = [(1 < np.hypot(*wave) <= 3) * (2 if wave[1] == 0 else 1) for wave in waves]
    expected = np.array(counts) * (y.size / 2)
    np.testing.assert_allclose(found["intensity"].data, expected, atol=1e-3)


def test_a_lattice_has_more_of_it_than_a_flat_frame(ctx):
    y, x = np.mgrid[:32, :32]
    lattice = 1 + np.cos(2 * np.pi * y / 4) * np.cos(2 * np.pi * x / 4)
    data = np.stack([lattice, np.ones((32, 32))])[np.newaxis]
    dataset = ctx.load("memory", data=data)
    crystal, flat = run_analysis_crystall(ctx, dataset, 10, 13)["intensity"].data[0]
    assert crystal == pytest.approx(2 * 32 * 32 / 4)
    assert flat == pytest.approx(0, abs=1e-3)


def test_unfit_data_are_refused(ctx, dataset):
    lines = ctx.load("memory", data=np.ones((3, 4, 5)), sig_dims=1)
    for udf in (FEMUDF((2, 2), 0, 2), CrystallinityUDF(0, 2)):
        with pytest.raises(UnsupportedError, match="two axes"):
            ctx.run_udf(lines, udf)
    waves = ctx.load("memory", data=np.ones((3, 4, 5, 6), dtype=complex))
    with pytest.raises(UnsupportedError, match="complex"):
        ctx.run_udf(waves, CrystallinityUDF(0, 2))
    with pytest.raises(InvalidArgumentError, match="nothing in the ring"):
        ctx.run_udf(dataset, CrystallinityUDF(100, 200))
