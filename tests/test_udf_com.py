"""Centre of mass: every result against its definition, natively and in Python, and guesses."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from known_oddities import POSITIONS_WITHOUT_DATA

import framefold as ff
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.udf.com import (
    CoMParams,
    CoMUDF,
    GuessResult,
    RegressionOptions,
    apply_correction,
    center_shifts,
    coordinate_check,
    curl_2d,
    divergence,
    guess_corrections,
    magnitude,
)
from framefold.warnings import NoIntensityWarning

NAMES = ["raw_shifts", "raw_com", "field", "field_y", "field_x"]
NAMES += ["regression", "magnitude", "divergence", "curl"]


class PythonCoM(CoMUDF):
    """The same without the native kernel."""

    def process_frame(self, frame):
        super().process_frame(frame)


@pytest.fixture(params=[CoMUDF, PythonCoM])
def com(request):
    return request.param


def centres(data, cy, cx, r=np.inf, ri=0.0):
    """Centre of mass of each frame, by definition."""
    y, x = np.mgrid[: data.shape[-2], : data.shape[-1]]
    distance = np.sqrt((y - cy) ** 2 + (x - cx) ** 2)
    weights = data.astype(float) * ((distance <= r) & ((distance > ri) | (ri == 0)))
    total = weights.sum(axis=(-2, -1))
    return np.stack(
        [(weights * axis).sum(axis=(-2, -1)) / total for axis in (y, x)],
        axis=-1,
    )


def turned(shifts, degrees, flip_y):
    """As complex numbers x + iy: with y pointing down, the sense of i is clockwise."""
    y, x = np.moveaxis(shifts, -1, 0)
    z = (x + 1j * (-y if flip_y else y)) * np.exp(1j * np.deg2rad(degrees))
    return np.stack([z.imag, z.real], axis=-1)


def slope(values, axis):
    """Central differences, one-sided at the ends."""
    values = np.moveaxis(values, axis, 0)
    result = np.empty_like(values)
    result[1:-1] = (values[2:] - values[:-2]) / 2
    result[0] = values[1] - values[0]
    result[-1] = values[-1] - values[-2]
    return np.moveaxis(result, 0, axis)


GIVEN = np.array([[1.0, 2.0], [0.1, 0.2], [0.3, 0.4]])

CASES = [
    {},
    {"cy": 4.2, "cx": 6.1, "r": 4},
    {"cy": 4.2, "cx": 6.1, "r": 4, "ri": 2, "scan_rotation": 33, "flip_y": True},
    {"regression": 0},
    {"regression": RegressionOptions.SUBTRACT_LINEAR, "flip_y": True, "scan_rotation": 20},
    {"regression": GIVEN, "scan_rotation": 30},
    {"regression": GIVEN.tolist(), "ri": None},
]


@pytest.mark.parametrize("with_roi", [False, True])
@pytest.mark.parametrize("params", CASES)
def test_every_result_is_what_it_is_defined_as(ctx, dataset, data, com, params, with_roi):
    roi = np.ones((6, 7), dtype=bool)
    if with_roi:
        roi = np.random.default_rng(2).random((6, 7)) < 0.7
    result = ctx.run_udf(dataset, com.with_params(**params), roi=roi if with_roi else None)
    assert list(result) == NAMES

    cy, cx = params.get("cy", 5), params.get("cx", 6)
    raw = centres(data, cy, cx, params.get("r", np.inf), params.get("ri") or 0)
    raw[~roi] = np.nan
    field = turned(raw - [cy, cx], params.get("scan_rotation", 0), params.get("flip_y", False))
    positions = np.argwhere(roi)
    regression = params.get("regression", -1)
    if isinstance(regression, int):
        fit = np.zeros((3, 2))
        if regression == 0:
            fit[0] = field[roi].mean(axis=0)
        elif regression == 1:
            design = np.column_stack([np.ones(len(positions)), positions])
            fit = np.linalg.solve(design.T @ design, design.T @ field[roi])
    else:
        fit = np.array(regression)
    row, column = np.mgrid[:6, :7]
    field -= fit[0] + row[..., None] * fit[1] + column[..., None] * fit[2]
    y, x = field[..., 0], field[..., 1]
    expected = {
        "raw_com": raw,
        "raw_shifts": raw - [cy, cx],
        "field": field,
        "field_y": y,
        "field_x": x,
        "magnitude": np.sqrt(y**2 + x**2),
        "regression": fit,
        "divergence": np.where(roi, slope(y, 0) + slope(x, 1), np.nan),
        "curl": np.where(roi, slope(y, 1) - slope(x, 0), np.nan),
    }
    for name, values in expected.items():
        found = result[name]
        assert found.dtype == (np.float64 if name == "regression" else np.float32), name
        assert found.data.dtype == found.dtype, name
        assert found.data.shape == values.shape, name
        np.testing.assert_allclose(found.data, values, rtol=1e-5, atol=5e-6, err_msg=name)


def test_the_pass_over_the_data_is_native(ctx, dataset):
    udf = CoMUDF.with_params(regression=1)
    assert "CoMUDF: by tile, dense, uint16, as it is" in ctx.explain(dataset, udf)


@pytest.mark.filterwarnings("ignore::framefold.warnings.NoIntensityWarning")
@pytest.mark.parametrize("regression", [-1, 0, 1])
def test_a_frame_without_intensity_is_not_shifted(ctx, data, com, regression):
    data = data.copy()
    data[2, 3] = 0
    dataset = ctx.load("memory", data=data)
    result = ctx.run_udf(dataset, com.with_params(cy=2, cx=3, regression=regression))
    assert np.array_equal(result["raw_com"].data[2, 3], [2, 3])
    assert np.array_equal(result["raw_shifts"].data[2, 3], [0, 0])


@pytest.mark.parametrize("regression", [-1, 0, 1, np.ones((3, 2))])
def test_frames_without_intensity_in_a_regression_are_counted(ctx, data, com, regression):
    data = data.copy()
    data[2, 3:5] = 0
    roi = np.ones((6, 7), dtype=bool)
    udf = com.with_params(cy=2, cx=3, scan_rotation=20, flip_y=True, regression=regression)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        roi[0] = False
        ctx.run_udf(ctx.load("memory", data=data), udf, roi=roi)
        fits = isinstance(regression, int) and regression >= 0
        assert [warning.category for warning in caught] == [NoIntensityWarning] * fits
        assert not fits or "2 of 35 frames" in str(caught[0].message)
        caught.clear()
        roi[2, 3:5] = False
        ctx.run_udf(ctx.load("memory", data=data), udf, roi=roi)
        # Shifts of 0 are measured if all are.
        ctx.run_udf(ctx.load("memory", data=np.zeros_like(data)), udf)
    assert not caught


def test_a_frame_with_nan_does_not_spoil_the_regression(ctx, data, com):
    spoilt = data.astype(np.float64)
    spoilt[2, 3, 0, 0] = np.nan
    roi = np.ones((6, 7), dtype=bool)
    roi[2, 3] = False
    udf = com.with_params(regression=1)
    found = ctx.run_udf(ctx.load("memory", data=spoilt), udf)
    expected = ctx.run_udf(ctx.load("memory", data=data.astype(np.float64)), udf, roi=roi)
    for name in NAMES:
        assert found[name].dtype == np.float64
        np.testing.assert_allclose(found[name].data, expected[name].data, atol=1e-12, err_msg=name)
    assert np.isnan(found["divergence"].data[2, 3])


@pytest.mark.parametrize("sync_offset", [-5, 9])
@POSITIONS_WITHOUT_DATA
def test_positions_without_data_take_no_part(ctx, data, com, sync_offset):
    dataset = ctx.load("memory", data=data, sync_offset=sync_offset)
    result = ctx.run_udf(dataset, com.with_params(regression=0))
    valid = result["field"].valid_mask[..., 0]
    assert np.count_nonzero(valid) == 42 - abs(sync_offset)
    np.testing.assert_allclose(result["field"].data[valid].mean(axis=0), 0, atol=1e-6)
    assert np.isfinite(result["regression"].data).all()
    assert np.isnan(result["curl"].data[~valid]).all()


def test_results_so_far_leave_out_what_is_not_merged(ctx, dataset, data, com):
    steps = 0
    for results in ctx.run_udf_iter(dataset=dataset, udf=com.with_params(regression=0)):
        merged = results.damage.data
        shifts = centres(data, 5, 6)[merged] - [5, 6]
        (result,) = results.buffers
        np.testing.assert_allclose(
            result["regression"].data[0], shifts.mean(axis=0), rtol=1e-5, atol=1e-6
        )
        steps += 1
    assert steps > 1


@pytest.mark.parametrize("nav", [(42,), (1, 42), (42, 1), (2, 3, 7)])
def test_scans_that_are_no_image_have_no_derivatives(ctx, data, com, nav):
    dataset = ctx.load("memory", data=data.reshape((*nav, 10, 12)))
    result = ctx.run_udf(dataset, com.with_params(regression=0))
    assert result["field"].data.shape == (*nav, 2)
    np.testing.assert_allclose(
        result["raw_com"].data.reshape((6, 7, 2)), centres(data, 5, 6), rtol=1e-5
    )
    for name in ("divergence", "curl"):
        assert result[name].data.shape == nav
        assert np.isnan(result[name].data).all()


@pytest.mark.parametrize("regression", [1, GIVEN])
def test_a_plane_over_a_line_scan_is_refused(ctx, data, com, regression):
    dataset = ctx.load("memory", data=data.reshape((42, 10, 12)), sig_dims=2)
    with pytest.raises(InvalidArgumentError, match=r"navigation shape is \(42,\)"):
        ctx.run_udf(dataset, com.with_params(regression=regression))
    with pytest.raises(InvalidArgumentError, match="load the data with two navigation axes"):
        ctx.explain(dataset, com.with_params(regression=regression))  # reads no pixel


def test_data_without_a_centre_are_refused(ctx, com):
    lines = ctx.load("memory", data=np.ones((3, 4, 5)), sig_dims=1)
    with pytest.raises(UnsupportedError, match="two axes"):
        ctx.run_udf(lines, com())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"regression": 2}, "regression is 2"),
        ({"regression": False}, "regression is False; expected -1, 0, 1"),
        ({"regression": True}, "regression is True; expected -1, 0, 1"),
        ({"regression": np.False_}, r"regression is .*False_?; expected -1, 0, 1"),
        ({"regression": np.zeros((2, 2))}, r"shape \(3, 2\)"),
        ({"regression": "linear"}, "'linear'"),
        ({"regression": None}, "None"),
        ({"regression": [[1, 2], [3, 4], [5, np.inf]]}, "finite"),
        ({"r": 2, "ri": 3}, "not below the outer radius 2"),
        ({"r": np.nan}, "nan"),
        ({"r": 0}, "choose ri < r"),
        ({"cy": np.inf}, "cy is inf"),
        ({"scan_rotation": np.nan}, "scan_rotation is nan"),
    ],
)
def test_wrong_parameters_are_refused_at_once(params, message):
    with pytest.raises(InvalidArgumentError, match=message):
        CoMUDF.with_params(**params)


def test_parameters():
    assert CoMUDF().params.com_params == CoMParams()
    assert CoMParams().regression is RegressionOptions.NO_REGRESSION
    copied = pickle.loads(pickle.dumps(CoMUDF.with_params(cy=1, regression=1)._kwargs))
    assert CoMUDF(**copied).params.com_params == CoMParams(cy=1, regression=1)


def test_corrections_can_be_undone():
    rng = np.random.default_rng(1)
    y, x = rng.normal(size=(2, 5))
    for flip_y in (False, True):
        there = apply_correction(y, x, 25, flip_y)
        np.testing.assert_allclose(
            np.stack(there, axis=-1), turned(np.stack([y, x], axis=-1), 25, flip_y)
        )
        back = apply_correction(*there, 25, flip_y, forward=False)
        np.testing.assert_allclose(back, [y, x])


def test_derivatives_of_a_plane():
    row, column = np.mgrid[:5, :6].astype(float)
    y, x = 2 * row + 3 * column, 5 * row + 7 * column
    np.testing.assert_allclose(divergence(y, x), 9)
    np.testing.assert_allclose(curl_2d(y, x), -2)
    np.testing.assert_allclose(magnitude([3.0], [4.0]), 5)


def test_shifts_of_sums():
    y, x = center_shifts(np.array([0, 2]), np.array([3, 3]), np.array([4, 4]), 2, 3)
    assert np.array_equal(y, [0, -0.5])
    assert np.array_equal(x, [0, -1])


def atoms(angle, flip_y, offset=(0.3, -0.2)):
    """The field of a lattice of atoms, as a detector sees it that is turned and flipped."""
    row, column = np.mgrid[:40, :40]
    potential = np.zeros((40, 40))
    for y in range(5, 40, 10):
        for x in range(5, 40, 10):
            potential += np.exp(-((row - y) ** 2 + (column - x) ** 2) / 8)
    # Electrons are drawn to the atoms: towards higher potential, so the divergence is negative.
    field = np.gradient(potential)
    y, x = apply_correction(*field, angle, flip_y, forward=False)
    return y + offset[0], x + offset[1]


@pytest.mark.parametrize("flip_y", [False, True])
@pytest.mark.parametrize("angle", [-179, -90, -33, 0, 57, 90, 120, 180])
def test_a_guess_finds_the_truth(angle, flip_y):
    y, x = atoms(angle, flip_y)
    guess = guess_corrections(y, x)
    assert isinstance(guess, GuessResult)
    assert guess[:2] == (angle, flip_y)
    assert guess.cy == pytest.approx(y[:-1, :-1].mean())
    assert guess.cx == pytest.approx(x[:-1, :-1].mean())


def test_a_guess_makes_parameters(ctx, dataset):
    raw = ctx.run_udf(dataset, CoMUDF())["raw_com"].data
    guess = guess_corrections(raw[..., 0], raw[..., 1])
    better = ctx.run_udf(dataset, CoMUDF.with_params(**guess._asdict()))
    np.testing.assert_allclose(better["field"].data[:-1, :-1].mean(axis=(0, 1)), 0, atol=1e-5)


def test_a_guess_looks_at_the_selected_positions_only():
    y, x = atoms(57, False)
    y[:10], x[30:] = np.random.default_rng(0).normal(size=(2, 10, 40))
    selected = np.zeros((40, 40), dtype=bool)
    selected[12:28] = True
    for roi in (selected, np.s_[12:28, :]):
        guess = guess_corrections(y, x, roi=roi)
        assert guess[:2] == (57, False)
        assert guess.cy == pytest.approx(y[12:28].mean())
    y[:10] = x[30:] = np.nan
    assert guess_corrections(y, x)[:2] == (57, False)


def test_a_guess_leaves_masked_positions_out():
    y, x = atoms(57, True)
    y[:10], x[30:] = np.random.default_rng(0).normal(size=(2, 10, 40))
    known = np.zeros((40, 40), dtype=bool)
    known[12:28] = True
    expected = guess_corrections(np.where(known, y, np.nan), np.where(known, x, np.nan))
    assert expected[:2] == (57, True)
    assert guess_corrections(*(np.ma.masked_array(each, ~known) for each in (y, x))) == expected
    # Of one component is enough.
    assert guess_corrections(np.ma.masked_array(y, ~known), x)[:2] == (57, True)


def test_a_guess_reads_a_roi_as_runs_do():
    y, x = atoms(57, True)
    y[:10], x[30:] = np.random.default_rng(0).normal(size=(2, 10, 40))
    selected = np.zeros((40, 40), dtype=bool)
    selected[12:28] = True
    expected = guess_corrections(y, x, roi=selected)
    assert expected[:2] == (57, True)
    for of in (np.uint8, np.int64, np.float32):
        with pytest.warns(UserWarning, match="its ones are taken as True") as warned:
            assert guess_corrections(y, x, roi=selected.astype(of)) == expected
        assert len(warned) == 1
    with pytest.raises(InvalidArgumentError, match=r"the ROI has shape \(39, 40\)"):
        coordinate_check(y, x, roi=selected[1:])
    with pytest.raises(InvalidArgumentError, match="the ROI has dtype int64"):
        coordinate_check(y, x, roi=selected * 2)


@pytest.mark.parametrize("of", [np.uint8, np.int8, np.uint16, np.float16, np.float32, np.float64])
def test_fields_of_small_numbers(of):
    """They count as double precision; single precision stays."""
    a, b, c = np.random.default_rng(2).integers(1, 120, (3, 4, 5)).astype(of)
    known = (a > 40) & (b > 40)
    for function in (
        lambda y, x: apply_correction(y, x, 30, True),
        lambda y, x: apply_correction(y, x, 30, True, forward=False),
        lambda y, x: center_shifts(c, y, x, 5, y),
        magnitude,
        divergence,
        curl_2d,
    ):
        wide = np.float32 if of is np.float32 else np.float64
        found, expected = function(a, b), function(a.astype(wide), b.astype(wide))
        np.testing.assert_array_equal(found, expected)
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        y, x = (np.where(known, each, np.nan) for each in (a.astype(wide), b.astype(wide)))
        masked = function(*(np.ma.masked_array(each, ~known) for each in (a, b)))
        np.testing.assert_array_equal(masked, function(y, x))
        assert np.isnan(masked).any()
        assert np.asarray(masked).dtype == np.asarray(found).dtype


def test_the_curl_for_every_angle():
    rng = np.random.default_rng(4)
    y, x = rng.normal(size=(2, 6, 7))
    for flip_y, curls in enumerate(coordinate_check(y, x)):
        assert curls.shape == (360,)
        for angle in (0, 1, 100, 359):
            field = turned(np.stack([y, x], axis=-1), angle, flip_y)
            curl = (slope(field[..., 0], 1) - slope(field[..., 1], 0))[:-1, :-1]
            assert curls[angle] == pytest.approx(np.sqrt((curl**2).mean()))


def test_guesses_from_nothing_are_refused():
    nothing = np.full((5, 5), np.nan)
    with pytest.raises(InvalidArgumentError, match="no position"):
        guess_corrections(nothing, nothing)
    with pytest.raises(InvalidArgumentError, match=r"shape \(5,\)"):
        guess_corrections(np.zeros(5), np.zeros(5))
    with pytest.raises(InvalidArgumentError, match="different shapes"):
        divergence(np.zeros((5, 5)), np.zeros((5, 4)))
    assert guess_corrections(np.zeros((5, 5)), np.ones((5, 5))) == (0, False, 0, 1)


def test_it_is_at_the_top_level_too():
    assert ff.CoMUDF is CoMUDF


@pytest.mark.parametrize("params", CASES, ids=str)
def test_parameters_by_name_are_those_of_with_params(params):
    direct, other = CoMUDF(**params).params.com_params, CoMUDF.with_params(**params).params
    assert all(map(np.array_equal, direct, other.com_params))
    copy = CoMUDF(**params).copy().params.com_params
    assert all(map(np.array_equal, direct, copy))


@pytest.mark.parametrize("more", [{"cy": 3}, {"r": 4}, {"ri": None}, {"regression": GIVEN}])
def test_parameters_are_given_once(more):
    with pytest.raises(InvalidArgumentError, match="both com_params and others"):
        CoMUDF(CoMParams(cy=4), **more)


def test_a_number_is_no_set_of_parameters():
    with pytest.raises(InvalidArgumentError, match=r"com_params is a int; use CoMUDF\(cy"):
        CoMUDF(32)


class PythonTilesCoM(CoMUDF):
    """The same, a tile at a time."""

    def get_results(self):
        return super().get_results()


@pytest.mark.parametrize("sig", [(75, 70), (17, 9), (3, 1)])
@pytest.mark.parametrize("r", [np.inf, 30])
@pytest.mark.parametrize("is_complex", [False, True])
def test_frames_in_python_have_the_same_bits_alone_and_in_tiles(ctx, is_complex, r, sig):
    real, imaginary = np.random.default_rng(3).random((2, 7, *sig))
    data = real + 1j * imaginary if is_complex else real
    udf = PythonTilesCoM(r=r)
    dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=1)
    together = ctx.run_udf(dataset, udf)["raw_com"].data
    for i in range(len(data)):
        alone = ctx.run_udf(dataset, udf, roi=np.arange(len(data)) == i)["raw_com"].raw_data
        np.testing.assert_array_equal(alone[0], together[i])
