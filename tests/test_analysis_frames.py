"""Analyses of deviations, sums of frames, spectra, and shapes on the scan."""

from __future__ import annotations

import numpy as np
import pytest

import framefold as ff
from framefold import analysis, masks
from framefold.analysis.getroi import get_roi
from framefold.exceptions import InvalidArgumentError
from framefold.udf.crystallinity import CrystallinityUDF
from framefold.udf.FEM import FEMUDF


@pytest.mark.parametrize(
    ("name", "parameters", "udf"),
    [
        ("SumSigAnalysis", {}, ff.SumSigUDF()),
        ("FEMAnalysis", {"cx": 6, "cy": 5, "ri": 1, "ro": 4}, FEMUDF((5, 6), 1, 4)),
        ("ApplyFFTMask", {"rad_in": 1, "rad_out": 4}, CrystallinityUDF(1, 4)),
        (
            "ApplyFFTMask",
            {"rad_in": 1, "rad_out": 4, "real_rad": 2, "real_centerx": 6, "real_centery": 5},
            CrystallinityUDF(1, 4, (5, 6), 2),
        ),
    ],
)
def test_one_number_per_frame(ctx, dataset, name, parameters, udf):
    results = ctx.run(getattr(analysis, name)(dataset=dataset, parameters=parameters))
    assert results.keys() == ["intensity"]
    np.testing.assert_array_equal(results.intensity, ctx.run_udf(dataset, udf)["intensity"].data)


def test_deviations_of_frames_in_a_shape(ctx, dataset, data):
    disk = {"shape": "disk", "cx": 3, "cy": 2, "r": 1.5}
    inside = masks.circular(3, 2, 7, 6, 1.5)
    results = ctx.run(analysis.SDAnalysis(dataset, {"roi": disk}))
    assert results.keys() == ["intensity", "intensity_lin"]
    np.testing.assert_allclose(results.intensity, data[inside].std(axis=0), rtol=1e-5)
    total = ctx.run(analysis.SumAnalysis(dataset, {"roi": disk}))
    np.testing.assert_array_equal(total.intensity, data[inside].sum(axis=0))
    everything = ctx.run(analysis.SDAnalysis(dataset, {"roi": {}}))
    np.testing.assert_allclose(everything.intensity, data.std(axis=(0, 1)), rtol=1e-5)


def test_shapes_on_the_scan():
    rectangle = get_roi({"roi": {"shape": "rect", "x": 1, "y": 2, "width": 2, "height": 1}}, (5, 7))
    assert np.argwhere(rectangle).tolist() == [[y, x] for y in (2, 3) for x in (1, 2, 3)]
    assert get_roi({}, (5, 7)) is None
    for roi, message in [
        ({"shape": "star"}, "'star', expected 'disk' or 'rect'"),
        ({"shape": "disk", "cx": 1}, "needs cy, r, too"),
    ]:
        with pytest.raises(InvalidArgumentError, match=message):
            get_roi({"roi": roi}, (5, 7))
    with pytest.raises(InvalidArgumentError, match=r"two axes, this one has shape \(35,\)"):
        get_roi({"roi": {"shape": "disk", "cx": 1, "cy": 1, "r": 1}}, (35,))


def test_the_spectrum_of_a_frame(ctx, dataset, data):
    made = analysis.PickFFTFrameAnalysis(dataset, {"x": 3, "y": 2})
    spectrum = ctx.run(made).intensity
    assert spectrum.desc == "spectrum of the frame at x=3 y=2 log-scaled"
    np.testing.assert_allclose(spectrum, np.abs(np.fft.fftshift(np.fft.fft2(data[2, 3]))))
    given = {"x": 3, "y": 2, "real_rad": 2, "real_centerx": 4, "real_centery": 5}
    rest = np.where(masks.circular(4, 5, 12, 10, 2), 0, data[2, 3])
    np.testing.assert_allclose(
        ctx.run(analysis.PickFFTFrameAnalysis(dataset, given)).intensity_lin,
        np.abs(np.fft.fftshift(np.fft.fft2(rest))),
        atol=1e-6,
    )


def test_the_spectrum_of_the_sum(ctx, dataset, data):
    total = data.sum(axis=(0, 1))
    disk = {"shape": "disk", "cx": 3, "cy": 2, "r": 1.5}
    circle = {"real_rad": 2, "real_centerx": 4, "real_centery": 5}
    rest = np.where(masks.circular(4, 5, 12, 10, 2), 0, total)
    part = data[masks.circular(3, 2, 7, 6, 1.5)].sum(axis=0)
    for given, frame in (({}, total), (circle, rest), ({"roi": disk}, part)):
        found = ctx.run(analysis.SumfftAnalysis(dataset, given))
        assert found.keys() == ["intensity"]
        expected = np.abs(np.fft.fftshift(np.fft.fft2(frame)))
        np.testing.assert_allclose(found.intensity, expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("sig", [(6,), (2, 2, 2)])
@pytest.mark.parametrize("name", ["PickFFTFrameAnalysis", "SumfftAnalysis"])
def test_spectra_are_of_frames_with_two_axes(name, sig):
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=np.ones((3, *sig)), sig_dims=len(sig))
    made = getattr(analysis, name)(dataset, {"x": 1})
    with pytest.raises(InvalidArgumentError, match="a spectrum needs frames of two axes"):
        ctx.run(made)
