"""Analyses: sums and single frames, as Context makes and runs them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import framefold as ff
from framefold.analysis.base import Analysis
from framefold.common.analysis import AnalysisResult, AnalysisResultSet
from framefold.exceptions import InvalidArgumentError


def test_the_sum_of_all_frames_and_of_some(ctx: ff.Context, dataset: Any, data: Any) -> None:
    analysis = ctx.create_sum_analysis(dataset=dataset)
    result = ctx.run(analysis)
    assert result.keys() == ["intensity", "intensity_lin"]
    for one in result:
        assert one.raw_data.dtype == np.float32
        np.testing.assert_array_equal(one.raw_data, data.sum(axis=(0, 1)))
    assert result.intensity is result["intensity"] is result[0]
    assert (result.intensity.title, result.intensity.desc) == (
        "intensity [log]",
        "sum of frames log-scaled",
    )

    roi = np.zeros((6, 7), dtype=bool)
    roi[2, 3:] = True
    result = ctx.run(analysis, roi=roi)
    np.testing.assert_array_equal(result.intensity.raw_data, data[roi].sum(axis=0))


def test_results_are_not_changed_in_place(ctx: ff.Context, dataset: Any) -> None:
    result = ctx.run(ctx.create_sum_analysis(dataset)).intensity
    before = result.raw_data.copy()
    changed: Any = result
    changed += 1
    assert type(changed) is np.ndarray
    np.testing.assert_array_equal(changed, before + 1)
    np.testing.assert_array_equal(result, before)
    with pytest.raises(TypeError, match=r"out=np\.array\(result\)"):
        np.add(before, 1, out=result)


def test_one_frame_as_it_is(ctx: ff.Context, dataset: Any, data: Any) -> None:
    result = ctx.run(ctx.create_pick_analysis(dataset=dataset, x=5, y=2))
    assert len(result) == 2
    assert result[0].raw_data.dtype == data.dtype
    np.testing.assert_array_equal(np.array(result[0]), data[2, 5])
    assert result.intensity_lin.desc == "the frame at x=5 y=2 lin-scaled"


def test_coordinates_count_from_the_last_axis(ctx: ff.Context) -> None:
    data = np.arange(2 * 3 * 4 * 5 * 6).reshape(2, 3, 4, 5, 6)
    scan = ctx.load("memory", data=data, sig_dims=2)
    result = ctx.run(ctx.create_pick_analysis(scan, x=3, y=1, z=0))
    np.testing.assert_array_equal(result[0].raw_data, data[0, 1, 3])
    line = ctx.load("memory", data=data.reshape(-1, 5, 6), sig_dims=2)
    result = ctx.run(ctx.create_pick_analysis(line, x=7))
    np.testing.assert_array_equal(result[0].raw_data, data.reshape(-1, 5, 6)[7])


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ({"x": 3}, "got x=3; the data set has 2 navigation axes, so give x and y"),
        ({"x": 3, "y": 1, "z": 0}, "so give x and y"),
        ({"x": 7, "y": 0}, "x=7 is out of bounds: that axis has 7 positions, from 0 to 6"),
        ({"x": 0, "y": -1}, "y=-1 is out of bounds"),
    ],
)
def test_a_frame_that_does_not_exist(
    ctx: ff.Context, dataset: Any, position: dict[str, int], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ctx.create_pick_analysis(dataset=dataset, **position)


def test_complex_frames_are_taken_apart(ctx: ff.Context) -> None:
    rng = np.random.default_rng(3)
    data = (rng.normal(size=(6, 3, 4)) + 1j * rng.normal(size=(6, 3, 4))).astype(np.complex64)
    dataset = ctx.load("memory", data=data, sig_dims=2)
    total = data.sum(axis=0)
    for result, expected in [
        (ctx.run(ctx.create_sum_analysis(dataset)), total),
        (ctx.run(ctx.create_pick_analysis(dataset, x=4)), data[4]),
    ]:
        parts = {
            "intensity_lin": np.abs(expected),
            "intensity": np.abs(expected),
            "intensity_real": expected.real,
            "intensity_imag": expected.imag,
            "intensity_angle": np.angle(expected),
            "intensity_complex": expected,
        }
        assert result.keys() == list(parts)
        for name, part in parts.items():
            assert result[name].raw_data.dtype == part.dtype
            np.testing.assert_allclose(result[name].raw_data, part, rtol=1e-5, atol=1e-6)


def test_pictures_follow_the_scale(ctx: ff.Context, data: Any) -> None:
    pytest.importorskip("matplotlib")
    frames = np.ones((4, 10, 12), dtype=np.float32)
    frames[:, 3, 4] = 10
    frames[:, 6, 7] = 1000
    dataset = ctx.load("memory", data=frames, sig_dims=2)
    result = ctx.run(ctx.create_sum_analysis(dataset))
    for one in result:
        assert one.visualized.shape == (10, 12, 4)
        assert one.visualized.dtype == np.uint8
        assert one.visualized is one.visualized
        assert one.get_image().read(8) == b"\x89PNG\r\n\x1a\n"
    logarithmic, linear = (one.visualized[..., :3].astype(int) for one in result)
    # The weak spot stands out from the background on the logarithmic scale.
    contrast = [np.abs(image[3, 4] - image[0, 0]).sum() for image in (logarithmic, linear)]
    assert contrast[0] > 2 * contrast[1]


def test_misuse_is_named(ctx: ff.Context, dataset: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"is not an analysis; use one of the create_"):
        ctx.run(ff.SumUDF())  # type: ignore[arg-type]
    pick = ctx.create_pick_analysis(dataset, x=1, y=1)
    with pytest.raises(InvalidArgumentError, match="PickFrameAnalysis chooses the frames itself"):
        ctx.run(pick, roi=np.ones((6, 7), dtype=bool))
    result = ctx.run(pick)
    with pytest.raises(AttributeError, match="no result 'sum'; there are: intensity, intens"):
        _ = result.sum
    with pytest.raises(IndexError):
        _ = result[2]


def test_an_analysis_of_ones_own(ctx: ff.Context, dataset: Any, data: Any) -> None:
    class Brightest(Analysis):
        def get_udf(self) -> ff.UDF:
            return ff.MaxUDF()

        def get_udf_results(self, udf_results: Any, roi: Any, damage: Any) -> AnalysisResultSet:
            values = udf_results["intensity"].data * self.parameters["scale"]

            def picture(numbers: Any) -> Any:
                return np.zeros((*numbers.shape, 4), dtype=np.uint8)

            return AnalysisResultSet([AnalysisResult(values, picture, "t", "d", "top")], "raw")

    result = ctx.run(Brightest(dataset, {"scale": 2}))
    np.testing.assert_array_equal(result.top, 2 * data.max(axis=(0, 1)))
    assert repr(result) == "[<AnalysisResult: top>]"
    assert result.raw_results == "raw"


def test_a_set_without_results_can_be_copied() -> None:
    assert pickle.loads(pickle.dumps(AnalysisResultSet([]))).results == []


@pytest.mark.parametrize("kind", ["sum", "disk", "com", "radial_fourier"])
def test_results_are_pickled_with_their_pictures(ctx, dataset, kind):
    pytest.importorskip("matplotlib")
    results = ctx.run(getattr(ctx, f"create_{kind}_analysis")(dataset))
    again = pickle.loads(pickle.dumps(results))
    assert again.keys() == results.keys()
    for before, after in zip(results, again, strict=True):
        np.testing.assert_array_equal(after.raw_data, before.raw_data)
    np.testing.assert_array_equal(again[0].visualized, results[0].visualized)
