"""What classes override of built-in functions takes effect, and ``super()`` works.

The methods are those that subclasses of the reference can override.
"""

from __future__ import annotations

import numpy as np
import pytest

import framefold as ff
from framefold.common.container import MaskContainer
from framefold.udf import AutoUDF
from framefold.udf.base import NoOpUDF
from framefold.udf.com import CoMParams, CoMUDF
from framefold.udf.logsum import LogsumUDF
from framefold.udf.masks import ApplyMasksUDF
from framefold.udf.max import MaxUDF
from framefold.udf.raw import PickUDF
from framefold.udf.record import RecordUDF
from framefold.udf.stddev import StdDevUDF
from framefold.udf.sum import SumUDF
from framefold.udf.sumsigudf import SumSigUDF

NAV, SIG = (4, 5), (8, 6)
DATA = np.random.default_rng(5).integers(0, 100, (*NAV, *SIG)).astype(np.float32)
LIMIT = 40
CUT = np.where(DATA < LIMIT, 0, DATA)
ROI = np.arange(20).reshape(NAV) % 3 != 1


@pytest.fixture(params=[None, (3, 8, 6), (4, 3, 6), (2, 8, 2), (1, 3, 4)])
def dataset(request, ctx):
    """Tiles of whole frames, and of parts of them."""
    shape = {} if request.param is None else {"tileshape": request.param}
    return ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3, **shape)


def thresholded(cls):
    """The commonest subclass there is."""

    class Thresholded(cls):
        def process_tile(self, tile):
            super().process_tile(np.where(tile < LIMIT, 0, tile))

    return Thresholded


MASKS = np.random.default_rng(6).random((3, *SIG)).astype(np.float32)

CASES = [
    CoMUDF.with_params(cy=2, cx=1, r=3.5, ri=1, scan_rotation=20, flip_y=True, regression=1),
    StdDevUDF(),
    SumUDF(),
    SumSigUDF(),
    MaxUDF(),
    PickUDF(),
    ApplyMasksUDF(mask_factories=lambda: MASKS),
]


@pytest.mark.parametrize("udf", CASES, ids=lambda udf: type(udf).__name__)
@pytest.mark.parametrize("roi", [None, ROI], ids=["all", "roi"])
def test_tiles_can_be_changed_before_they_are_processed(ctx, dataset, udf, roi):
    cut = ctx.load("memory", data=CUT, sig_dims=2, num_partitions=3)
    expected = ctx.run_udf(cut, udf, roi=roi)
    found = ctx.run_udf(dataset, thresholded(type(udf))(**udf._kwargs), roi=roi)
    assert found.keys() == expected.keys()
    for name, buffer in expected.items():
        assert found[name].dtype == buffer.dtype, name
        np.testing.assert_allclose(
            found[name].raw_data, buffer.raw_data, rtol=2e-5, atol=2e-5, err_msg=name
        )
        np.testing.assert_array_equal(found[name].valid_mask, buffer.valid_mask)


@pytest.mark.parametrize("cls", [CoMUDF, StdDevUDF, LogsumUDF])
def test_frames_can_be_changed_before_they_are_processed(ctx, dataset, cls):
    class Thresholded(cls):
        def process_frame(self, frame):
            super().process_frame(np.where(frame < LIMIT, 0, frame))

    cut = ctx.load("memory", data=CUT, sig_dims=2)
    expected, found = ctx.run_udf(cut, cls()), ctx.run_udf(dataset, Thresholded())
    for name, buffer in expected.items():
        np.testing.assert_allclose(
            found[name].raw_data, buffer.raw_data, rtol=2e-5, atol=2e-5, err_msg=name
        )


@pytest.mark.parametrize("roi", [None, ROI], ids=["all", "roi"])
def test_results_of_the_field_are_those_of_the_class(ctx, dataset, roi):
    class Mine(CoMUDF):
        def get_result_buffers(self):
            return {**super().get_result_buffers(), "mine": self.buffer("nav", use="result_only")}

        def get_field_results(self, field_y, field_x):
            assert field_y.shape == field_x.shape == NAV
            results = super().get_field_results(field_y, field_x)
            return {**results, "magnitude": 2 * results["magnitude"], "mine": field_y + field_x}

    expected = ctx.run_udf(dataset, CoMUDF(), roi=roi)
    found = ctx.run_udf(dataset, Mine(), roi=roi)
    np.testing.assert_allclose(
        found["magnitude"].raw_data, 2 * expected["magnitude"].raw_data, rtol=1e-4
    )
    mine = expected["field_y"].raw_data + expected["field_x"].raw_data
    np.testing.assert_allclose(found["mine"].raw_data, mine, atol=1e-4)


@pytest.mark.parametrize("place", [(3, 2, 2.5, 0), (0, 5, 3, 1), (7.5, 0.5, 1, 0), (6, 4, 2, 0)])
def test_pixels_outside_of_the_ring_may_be_anything(ctx, place):
    class Mine(CoMUDF):
        def get_results(self):
            return super().get_results()

    cy, cx, r, ri = place
    y, x = np.mgrid[: SIG[0], : SIG[1]]
    distance = np.hypot(y - cy, x - cx)
    inside = (distance <= r) & ((distance > ri) if ri else True)
    frames = np.where(inside, DATA, np.nan).astype(np.float32)
    own, kernel = (each(cy=cy, cx=cx, r=r, ri=ri) for each in (Mine, CoMUDF))
    bits = set()
    for tileshape in ((1, *SIG), (3, *SIG), (4, *SIG), (2, 3, 2)):
        dataset = ctx.load("memory", data=frames, sig_dims=2, tileshape=tileshape)
        found, expected = ctx.run_udf(dataset, [own, kernel])
        np.testing.assert_allclose(found["raw_com"].data, expected["raw_com"].data, rtol=1e-5)
        if tileshape[1:] == SIG:
            bits.add(found["raw_com"].data.tobytes())
    assert len(bits) == 1


def test_the_regression_is_that_of_the_class(ctx, dataset):
    class Regression(CoMUDF):
        def get_regression(self, field, valid_mask):
            assert field.shape == (*NAV, 2)
            assert valid_mask.all()
            return np.array([[1.0, 2], [0, 0], [0, 0]]), None

    class Mean(CoMUDF):
        def apply_mean_regression(self, regression, field_inout, valid_mask):
            field_inout[valid_mask] = regression[0]

    class Plane(CoMUDF):
        def apply_lin_regression(self, regression, inp, field_inout, valid_mask):
            assert inp.shape == (*NAV, 3)
            field_inout[valid_mask] = inp[valid_mask] @ regression

    shifts = ctx.run_udf(dataset, CoMUDF())["raw_shifts"].raw_data
    found = ctx.run_udf(dataset, Regression())
    np.testing.assert_allclose(found["field"].raw_data, shifts - [1, 2], atol=1e-4)
    np.testing.assert_array_equal(found["regression"].data, [[1, 2], [0, 0], [0, 0]])
    mean = ctx.run_udf(dataset, Mean.with_params(regression=0))["field"].raw_data
    np.testing.assert_allclose(mean, np.tile(shifts.mean(axis=0), (20, 1)), atol=1e-4)
    plane = ctx.run_udf(dataset, Plane.with_params(regression=1))["field"].raw_data
    flat = ctx.run_udf(dataset, CoMUDF.with_params(regression=1))["field"].raw_data
    np.testing.assert_allclose(plane + flat, shifts, atol=1e-4)


def test_parameters_are_those_of_the_class(ctx, dataset):
    class Moved(CoMUDF):
        def get_params(self):
            params = super().get_params()
            assert isinstance(params, CoMParams)
            assert (params.cy, params.cx) == (4, 3)
            return params._replace(cy=1, scan_rotation=90.0)

    found = ctx.run_udf(dataset, Moved())
    expected = ctx.run_udf(dataset, CoMUDF.with_params(cy=1, cx=3, scan_rotation=90))
    for name, buffer in expected.items():
        np.testing.assert_allclose(found[name].raw_data, buffer.raw_data, atol=2e-5, err_msg=name)


def test_results_of_the_base_class_have_what_was_measured(ctx, dataset):
    class Doubles(CoMUDF):
        def get_results(self):
            results = super().get_results()
            return {
                **results,
                "raw_com": 2 * results["raw_com"],
                "raw_shifts": -results["raw_shifts"],
            }

    plain, found = ctx.run_udf(dataset, CoMUDF()), ctx.run_udf(dataset, Doubles())
    np.testing.assert_allclose(found["raw_com"].data, 2 * plain["raw_com"].data, rtol=1e-5)
    np.testing.assert_allclose(found["raw_shifts"].data, -plain["raw_shifts"].data, atol=1e-5)


@pytest.mark.parametrize("nav", [(20,), NAV, (2, 5, 2), (20, 1)])
@pytest.mark.parametrize("with_roi", [False, True])
def test_results_of_the_base_class_have_a_row_for_each_position(ctx, nav, with_roi):
    class Centred(CoMUDF):
        """The field without its mean, and how far it is from what was measured."""

        def get_result_buffers(self):
            off = self.buffer("nav", extra_shape=(2,), dtype="float64", use="result_only")
            return {**super().get_result_buffers(), "off": off}

        def get_results(self):
            results = super().get_results()
            results["off"] = results["raw_shifts"] - results["field"]
            results["field"] -= results["field"].mean(axis=0)
            results["field_y"] *= results["raw_com"][:, 0]
            return results

    data = DATA.reshape((*nav, *SIG))
    dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=3)
    roi = ROI.reshape(nav) if with_roi else None
    plain, found = (ctx.run_udf(dataset, udf, roi=roi) for udf in (CoMUDF(), Centred()))
    field = plain["field"].raw_data
    np.testing.assert_allclose(found["off"].raw_data, np.zeros_like(field), atol=2e-5)
    np.testing.assert_allclose(found["field"].raw_data, field - field.mean(axis=0), atol=2e-5)
    scaled = plain["field_y"].raw_data * plain["raw_com"].raw_data[:, 0]
    np.testing.assert_allclose(found["field_y"].raw_data, scaled, atol=1e-4)


@pytest.mark.parametrize("roi", [None, ROI], ids=["all", "roi"])
@pytest.mark.parametrize("how", ["with_mask", "numpy.ma"])
def test_masks_of_results_of_the_field_are_kept(ctx, roi, how):
    class Large(CoMUDF):
        def get_field_results(self, field_y, field_x):
            results = super().get_field_results(field_y, field_x)
            with np.errstate(invalid="ignore"):
                large = results["magnitude"] > 0.7
            if how == "with_mask":
                masked = self.with_mask(results["magnitude"], large)
            else:
                masked = np.ma.masked_array(results["magnitude"], ~large)
            return {**results, "magnitude": masked}

    dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
    plain = ctx.run_udf(dataset, CoMUDF(), roi=roi)["magnitude"].raw_data
    found = ctx.run_udf(dataset, Large(), roi=roi)["magnitude"].raw_masked_data
    assert 0 < np.count_nonzero(plain > 0.7) < plain.size
    assert np.array_equal(np.ma.getmaskarray(found), ~(plain > 0.7))
    np.testing.assert_allclose(found.data, plain, atol=2e-5)


def test_hooks_that_do_not_call_the_base_class(ctx, dataset):
    class Own(CoMUDF):
        def preprocess(self):
            """Nothing, as in the reference."""

        def postprocess(self):
            """Nothing."""

    plain, found = ctx.run_udf(dataset, CoMUDF()), ctx.run_udf(dataset, Own())
    for name, buffer in plain.items():
        np.testing.assert_allclose(found[name].raw_data, buffer.raw_data, atol=2e-5)


@pytest.mark.parametrize("cls", [SumUDF, MaxUDF, LogsumUDF, PickUDF, StdDevUDF])
def test_merges_are_those_of_the_class(ctx, dataset, cls):
    calls = []

    class Merges(cls):
        def merge(self, dest, src):
            calls.append(1)
            super().merge(dest, src)

    expected, found = ctx.run_udf(dataset, cls()), ctx.run_udf(dataset, Merges())
    assert len(calls) == 3
    for name, buffer in expected.items():
        np.testing.assert_allclose(found[name].data, buffer.data, rtol=2e-5, err_msg=name)


def test_masks_are_those_of_the_class(ctx, dataset):
    class Property(ApplyMasksUDF):
        @property
        def masks(self):
            return MaskContainer(lambda: 2 * MASKS, dtype=np.float32, count=3)

    class Method(ApplyMasksUDF):
        def _make_mask_container(self):
            return MaskContainer(lambda: 2 * MASKS, dtype=np.float32, count=3)

    plain = ctx.run_udf(dataset, ApplyMasksUDF(lambda: MASKS))["intensity"].data
    for cls in (Property, Method):
        found = ctx.run_udf(dataset, cls(lambda: MASKS))["intensity"].data
        np.testing.assert_allclose(found, 2 * plain, rtol=1e-5)


def test_buffers_of_a_plain_function_are_those_of_the_class(ctx, dataset):
    class Wide(AutoUDF):
        def auto_buffer(self, var):
            return self.buffer("nav", extra_shape=var.shape, dtype=np.complex64)

        def auto_monitor_buffer(self, var):
            return self.buffer("single", extra_shape=var.shape, dtype=np.complex128)

    result = ctx.run_udf(dataset, Wide(lambda frame: frame.sum(), monitor=True))
    assert (result["result"].dtype, result["monitor"].dtype) == (np.complex64, np.complex128)


def test_what_is_recorded_is_that_of_the_class(ctx, dataset, tmp_path):
    class Mapped(RecordUDF):
        def process_tile(self, tile):
            assert self.task_data.memmap.shape == (20, *SIG)
            super().process_tile(np.where(tile < LIMIT, 0, tile))

    path = tmp_path / "cut.npy"
    ctx.run_udf(dataset, Mapped(path))
    np.testing.assert_array_equal(np.load(path), CUT)


def test_a_function_that_does_nothing_can_be_derived_from(ctx, dataset):
    seen = []

    class Looks(NoOpUDF):
        def process_tile(self, tile):
            super().process_tile(tile)
            seen.append(tile.sum(dtype=np.float64))

    ctx.run_udf(dataset, Looks())
    assert sum(seen) == pytest.approx(DATA.sum(dtype=np.float64))


@pytest.mark.parametrize("executor", ["inline", "threads", "delayed"])
def test_centres_of_complex_frames(executor):
    rng = np.random.default_rng(8)
    frames = (rng.random((3, 4, 5, 6)) + 1j * rng.random((3, 4, 5, 6))).astype(np.complex64)
    y, x = np.mgrid[:5, :6]
    wide = frames.astype(complex)
    total = wide.sum(axis=(2, 3))
    com = np.stack([(wide * y).sum((2, 3)), (wide * x).sum((2, 3))], -1) / total[..., None]
    with ff.Context.make_with(executor) as ctx:
        dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=2)
        result = ctx.run_udf(dataset, CoMUDF.with_params(regression=0))
        assert result["field"].dtype == np.complex64
        np.testing.assert_allclose(result["raw_com"].data, com, rtol=1e-5)
        field = com - com.reshape(-1, 2).mean(axis=0)
        np.testing.assert_allclose(result["field"].data, field, atol=1e-5)
        length = np.sqrt(field[..., 0] ** 2 + field[..., 1] ** 2)
        np.testing.assert_allclose(result["magnitude"].data, length, atol=1e-5)
        curl = np.gradient(field[..., 0], axis=1) - np.gradient(field[..., 1], axis=0)
        np.testing.assert_allclose(result["curl"].data, curl, atol=1e-5)


@pytest.mark.parametrize("offset", [-(2**63), 2**60])
@pytest.mark.parametrize("backend", ["numpy", "sparse.COO"])
def test_logarithms_are_of_exact_differences_of_large_integers(ctx, offset, backend):
    class Mine(LogsumUDF):
        def get_backends(self):
            return (backend,)

    steps = np.random.default_rng(7).integers(0, 200, size=(4, 3, 6, 5))
    dataset = ctx.load("memory", data=offset + steps, sig_dims=2, num_partitions=3)
    found = ctx.run_udf(dataset, Mine())["logsum"].data
    expected = np.log(steps - steps.min(axis=(2, 3), keepdims=True) + 1).sum(axis=(0, 1))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
