"""Analyses by masks: virtual detectors, centres of mass, and Fourier series around rings."""

from __future__ import annotations

import numpy as np
import pytest

import framefold as ff
from framefold import analysis, masks
from framefold.exceptions import InvalidArgumentError

#: Of frames of 10 x 12 pixels.
CY, CX = 5.0, 6.0


def distances(cy, cx):
    y, x = np.indices((10, 12))
    return np.hypot(y - cy, x - cx)


def numbers(results):
    return {result.key: np.asarray(result) for result in results}


@pytest.mark.parametrize(
    ("kind", "options", "inside"),
    [
        ("disk", {}, distances(CY, CX) <= 1.5),
        ("disk", {"cx": 3, "cy": 2, "r": 4}, distances(2, 3) <= 4),
        ("ring", {}, (distances(CY, CX) > 4) & (distances(CY, CX) <= 5)),
        ("ring", {"cx": 2.5, "ri": 1, "ro": 3}, masks.ring(2.5, CY, 12, 10, 3, 1)),
        ("point", {}, distances(CY, CX) == 0),
        ("point", {"x": 3.7, "y": 1}, distances(1, 3) == 0),
    ],
)
def test_what_falls_onto_a_shape(ctx, dataset, data, kind, options, inside):
    made = getattr(ctx, f"create_{kind}_analysis")(dataset=dataset, **options)
    results = ctx.run(made)
    assert results.keys() == ["intensity", "intensity_log"]
    assert [result.title for result in results] == ["intensity [lin]", "intensity [log]"]
    assert results[0].desc == f"intensity of the integration over the selected {kind} lin-scaled"
    expected = (data * inside).sum(axis=(2, 3))
    for result in results:
        assert result.raw_data.dtype == np.float32
        np.testing.assert_allclose(result, expected, rtol=1e-6)

    roi = np.zeros((6, 7), dtype=bool)
    roi[2, 3:] = True
    some = np.asarray(ctx.run(made, roi=roi).intensity)
    np.testing.assert_allclose(some[roi], expected[roi], rtol=1e-6)
    assert np.isnan(some[~roi]).all()


def test_masks_of_ones_own(ctx, dataset, data):
    weights = np.random.default_rng(2).random((2, 10, 12))
    made = ctx.create_mask_analysis(factories=lambda: weights, dataset=dataset, mask_count=2)
    results = ctx.run(made)
    assert results.keys() == ["mask_0", "mask_1"]
    assert results.mask_1.title == "mask 1"
    for result, mask in zip(results, weights, strict=True):
        assert result.raw_data.dtype == np.float64
        np.testing.assert_allclose(result, (data * mask).sum(axis=(2, 3)))
    half = ctx.create_mask_analysis(
        [lambda: weights[0]], dataset, use_sparse=False, mask_dtype="float32", dtype="float32"
    )
    assert ctx.run(half).mask_0.raw_data.dtype == np.float32

    turned = ctx.run(ctx.create_mask_analysis([lambda: 1j * weights[0]], dataset))
    expected = 1j * (data * weights[0]).sum(axis=(2, 3))
    assert turned.keys() == [f"mask_0{end}" for end in ("", "_log", "_real", "_imag", "_angle")] + [
        "mask_0_complex"
    ]
    np.testing.assert_allclose(turned.mask_0_complex, expected)
    np.testing.assert_allclose(turned.mask_0, np.abs(expected))
    np.testing.assert_allclose(turned.mask_0_angle, np.pi / 2)


def test_centres_of_mass(ctx, dataset):
    made = ctx.create_com_analysis(
        dataset, cx=4, mask_radius=4, mask_radius_inner=1, flip_y=True, scan_rotation=30.0
    )
    results = numbers(ctx.run(made))
    udf = ff.CoMUDF.with_params(cy=CY, cx=4, r=4, ri=1, flip_y=True, scan_rotation=30.0)
    expected = ctx.run_udf(dataset, udf)
    assert list(results) == ["field", "magnitude", "divergence", "curl", "x", "y"]
    for name in ("magnitude", "divergence", "curl"):
        np.testing.assert_array_equal(results[name], expected[name].data)
    np.testing.assert_array_equal(results["y"], expected["field_y"].data)
    np.testing.assert_array_equal(results["field"], [results["x"], results["y"]])


def test_centres_of_complex_frames_are_complex(ctx):
    rng = np.random.default_rng(3)
    frames = rng.random((2, 3, 4, 5)) + 1j * rng.random((2, 3, 4, 5))
    dataset = ctx.load("memory", data=frames, sig_dims=2)
    results = ctx.run(ctx.create_com_analysis(dataset))
    y, x = np.indices((4, 5))
    total = frames.sum(axis=(2, 3))
    np.testing.assert_allclose(results.x_imag, ((frames * x).sum(axis=(2, 3)) / total - 2.5).imag)
    np.testing.assert_allclose(results.y_real, ((frames * y).sum(axis=(2, 3)) / total - 2).real)


def test_fourier_series_around_rings(ctx):
    _, angle = masks.polar_map(CX, CY, 12, 10)
    frames = np.stack([np.zeros((10, 12)), 2 + np.cos(3 * angle), 2 + np.cos(2 * angle - 0.5)])
    dataset = ctx.load("memory", data=frames, sig_dims=2)
    made = ctx.create_radial_fourier_analysis(dataset, ro=5, n_bins=2, max_order=4)
    results = ctx.run(made)
    assert len(results) == 2 * (1 + 3 * 5)
    assert results.keys()[:3] == ["dominant_0", "absolute_0_0", "absolute_0_1"]
    # The first frame is empty.
    np.testing.assert_array_equal(results.dominant_1, [0, 3, 2])
    assert results.phase_1_2.raw_data[2] == pytest.approx(0.5, abs=0.05)
    ring = masks.radial_bins(CX, CY, 12, 10, radius=5, n_bins=2, use_sparse=False)[1]
    third = (frames * ring * np.exp(3j * angle)).sum(axis=(1, 2))
    total = (frames * ring).sum(axis=(1, 2))
    np.testing.assert_allclose(results.absolute_1_3, np.abs(third), atol=1e-4)
    np.testing.assert_allclose(results.complex_1_0, total, atol=1e-4)
    np.testing.assert_allclose(results.complex_1_3, third / [1, *total[1:]], atol=1e-6)
    assert results.raw_results.shape == (2, 5, 3)
    np.testing.assert_allclose(results.raw_results[1, 3], third, atol=1e-4)
    # Where nothing was selected there is no order.
    some = ctx.run(made, roi=np.array([False, True, False]))
    np.testing.assert_array_equal(some.dominant_1, [0, 3, 0])


def test_no_order_dominates_where_all_are_weak(ctx):
    # Threefold, ever weaker, on a background that is the same all around.
    angle = masks.polar_map(16, 16, 33, 33)[1]
    strengths = np.array([1, 0.5, 0.25, 0.21, 0.19, 0.1, 0])
    frames = (2 + strengths[:, None, None] * np.cos(3 * angle)).astype(np.float32)
    ds = ctx.load("memory", data=frames, sig_dims=2)
    made = ctx.create_radial_fourier_analysis(ds, cx=16, cy=16, ri=4, ro=15, max_order=4)
    np.testing.assert_array_equal(ctx.run(made).dominant_0, [3, 3, 3, 3, 0, 0, 0])


def test_all_have_pictures(ctx, dataset):
    pytest.importorskip("matplotlib")
    for kind in ("disk", "com", "radial_fourier"):
        for result in ctx.run(getattr(ctx, f"create_{kind}_analysis")(dataset)):
            assert result.visualized.shape[:2] == (6, 7)
            assert result.visualized.dtype == np.uint8


def test_scans_of_other_shapes(ctx, data):
    pytest.importorskip("matplotlib")
    for nav in ((42,), (2, 3, 7)):
        dataset = ctx.load("memory", data=data.reshape((*nav, 10, 12)), sig_dims=2)
        for kind in ("disk", "ring", "point", "radial_fourier"):
            first = ctx.run(getattr(ctx, f"create_{kind}_analysis")(dataset))[0]
            assert first.raw_data.shape == nav
            assert first.visualized.shape[1] == nav[-1]


def test_what_cannot_be(ctx, dataset, data):
    line = ctx.load("memory", data=data.reshape((42, 10, 12)), sig_dims=2)
    with pytest.raises(InvalidArgumentError, match=r"needs two navigation axes.*\(42,\)"):
        ctx.create_com_analysis(line)
    spectra = ctx.load("memory", data=data.reshape((6, 7, 120)), sig_dims=1)
    with pytest.raises(InvalidArgumentError, match="DiskMaskAnalysis needs frames with two axes"):
        ctx.create_disk_analysis(spectra)
    with pytest.raises(InvalidArgumentError, match=r" x=12 is out of bounds.* from 0 to 11"):
        ctx.create_point_analysis(dataset, x=12)
    with pytest.raises(InvalidArgumentError, match=r"^y is 'a', expected a number"):
        ctx.create_point_analysis(dataset, y="a")
    for radii in ({"ro": np.inf}, {"ro": np.inf, "ri": np.inf}, {"ri": np.inf}):
        with pytest.raises(InvalidArgumentError, match=r"a ring from inf .*; pass a finite ri"):
            ctx.create_ring_analysis(dataset, **radii)
    ctx.create_ring_analysis(dataset, ro=np.inf, ri=4)
    with pytest.raises(InvalidArgumentError, match=r"max_order is 1\.5, expected a whole number"):
        ctx.create_radial_fourier_analysis(dataset, max_order=1.5)


def test_names_of_the_package():
    assert {analysis.__getattr__(name).__name__ for name in analysis.CLASSES} == set(
        analysis.CLASSES
    )
    assert "DiskMaskAnalysis" in dir(analysis)
    assert set(analysis.__all__) == set(analysis.CLASSES)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = analysis.Nothing
