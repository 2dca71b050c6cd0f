"""What could make numbers wrong without a word: arrays that change, and values that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from known_oddities import POSITIONS_WITHOUT_DATA
from shared_contexts import shared

import framefold as ff
from framefold import masks
from framefold.analysis.rawfft import PickFFTFrameAnalysis
from framefold.common._masked import has_masked
from framefold.exceptions import InvalidArgumentError, UDFError
from framefold.io.corrections import CorrectionSet, detector
from framefold.udf import UDF
from framefold.udf.auto import AutoUDF
from framefold.udf.record import RecordUDF
from framefold.utils import calc_coords, make_polar, regularize_indices
from framefold.utils.generate import hologram_frame
from framefold.utils.write_mib import encode_payload


class Levels(UDF):
    def get_result_buffers(self):
        return {"level": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.level[:] = frame.sum()


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "auto"])
def test_arrays_of_the_caller_may_change(data, executor):
    levels = data.astype(float).sum(axis=(2, 3))
    with shared(executor, cpus=2) as ctx:
        dataset = ctx.load("memory", data=data, num_partitions=5)
        roi = np.zeros((6, 7), dtype=bool)
        roi[1] = True
        dark = np.full((10, 12), 3.0)
        corrections = CorrectionSet(dark=dark)
        steps = ctx.run_udf_iter(dataset, [Levels()], roi=roi, corrections=corrections)
        first = ctx.run_udf(dataset, Levels(), roi=roi)
        roi[:] = True
        dark[:] = 1e6
        results = list(steps)[-1].buffers[0]["level"]
    np.testing.assert_array_equal(first["level"].raw_data, levels[1])
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(first["level"].data[:, 0])), [1])
    np.testing.assert_allclose(results.raw_data, levels[1] - 3 * 120, rtol=1e-6)


@pytest.mark.parametrize("base", [ff.StdDevUDF, ff.CoMUDF, ff.LogsumUDF])
@pytest.mark.parametrize("behind", [False, True])
def test_a_method_that_the_class_has_not_is_called(ctx, dataset, base, behind):
    calls = []

    class Tiles:
        def process_tile(self, tile):
            calls.append(tile.shape)

    name = "ByTile"
    cls = type(name, (base, Tiles), {}) if behind else type(name, (Tiles, base), {})
    udf = cls.with_params() if base is ff.CoMUDF else cls()
    ctx.run_udf(dataset, udf)
    # One that the built-in class has itself comes first, as in Python.
    assert bool(calls) == (not behind or not hasattr(base, "process_tile"))


def test_results_of_map_have_to_fit(ctx, dataset, data):
    sums = ctx.map(dataset, lambda frame: float(frame.mean()))
    np.testing.assert_allclose(sums.data, data.mean(axis=(2, 3)))
    whole = ctx.map(dataset, lambda frame: 0 if frame.max() == 1 else float(frame.sum()))
    np.testing.assert_array_equal(whole.data, data.sum(axis=(2, 3)))
    with pytest.raises(UDFError, match=r"returned .*, which does not fit into the int64"):
        ctx.map(dataset, lambda frame: 0 if frame.max() == 1 else frame.mean())
    with pytest.raises(
        UDFError, match="'structured' for this frame, which does not fit into the <U3"
    ):
        ctx.map(dataset, lambda frame: "one" if frame.max() == 1 else "structured")


def eigenvalues(frame):
    """Real ones as real numbers, as of NumPy before 2.5."""
    values = np.linalg.eigvals(frame)
    return values if np.imag(values).any() else np.real(values)


@pytest.mark.parametrize("monitor", [False, True])
def test_complex_results_of_map_do_not_lose_their_imaginary_parts(ctx, monitor):
    frames = np.ones((2, 3, 2, 2), "float32")
    udf = AutoUDF(eigenvalues, monitor=monitor)
    real = ctx.run_udf(ctx.load("memory", data=frames, sig_dims=2), udf)["result"]
    assert real.dtype == np.float32
    frames[1, 1] = [[0, 1], [-1, 0]]
    dataset = ctx.load("memory", data=frames, sig_dims=2)
    words = r"returned 1j .* not fit into the float32 .* as by np\.complex128\(…\)"
    with pytest.raises(UDFError, match=words):
        ctx.run_udf(dataset, udf)
    values = ctx.map(dataset, lambda frame: np.complex128(eigenvalues(frame)))
    np.testing.assert_allclose(values.data[1, 1], [1j, -1j])


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int16", 63186),
        ("int64", np.uint64(2**64 - 1)),
        ("U2", "long"),
        ([("n", "i1")], np.array((300,), [("n", "i8")])),
        ("M8[s]", np.datetime64("2026-11-28T01:02:03.5")),
        ("m8[s]", np.timedelta64(1500, "ms")),
    ],
)
def test_results_have_to_fit_what_was_declared(ctx, dataset, dtype, value):
    class Wide(Levels):
        def get_result_buffers(self):
            return {
                **super().get_result_buffers(),
                "wide": self.buffer(kind="single", dtype=dtype, use="result_only"),
            }

        def get_results(self):
            return {"wide": np.array([value])}

    lost = ".*" if isinstance(value, np.ndarray | np.datetime64 | np.timedelta64) else value
    with pytest.raises(UDFError, match=f"returned 'wide' with the value .*{lost}.* cannot hold"):
        ctx.run_udf(dataset, Wide())


def test_fields_of_results_are_in_the_order_of_the_declaration(ctx, dataset):
    class Fields(Levels):
        def get_result_buffers(self):
            dtype = [("y", "f4"), ("x", "f4"), ("at", "M8[s]")]
            return {"place": self.buffer(kind="nav", dtype=dtype)}

        def process_frame(self, frame):
            self.results.place[:] = (1, 2, "NaT")

        def get_results(self):
            place = self.results.place
            return {"place": place[["x", "y", "at"]] if self.params.swapped else place.copy()}

    assert (ctx.run_udf(dataset, Fields(swapped=False))["place"].data["y"] == 1).all()
    with pytest.raises(UDFError, match=r"fields \('x', 'y', 'at'\); the declared ones are \('y'"):
        ctx.run_udf(dataset, Fields(swapped=True))


def test_what_is_masked_in_results_is_not_valid(ctx, dataset):
    class Masked(Levels):
        def get_results(self):
            level = self.results.level
            return {"level": np.ma.array(level, mask=np.arange(level.size) > 1)}

    level = ctx.run_udf(dataset, Masked())["level"]
    assert level.valid_mask.sum() == 2
    assert level.masked_data.count() == 2


ROW = np.ma.array([0.0, 1.0, 2.0], mask=[False, True, False])


@pytest.mark.parametrize("rows", [[ROW, ROW], (ROW, [0.0, np.ma.masked, 2.0])])
def test_what_is_masked_in_lists_of_results_is_not_valid(ctx, dataset, rows):
    class Rows(Levels):
        def get_result_buffers(self):
            rows = self.buffer("single", (2, 3), use="result_only")
            return {"rows": rows, **super().get_result_buffers()}

        def get_results(self):
            return {"rows": rows}

    valid = ctx.run_udf(dataset, Rows())["rows"].valid_mask
    np.testing.assert_array_equal(valid, [[True, False, True]] * 2)


class Whole(UDF):
    """Whole numbers, of which some may be under a mask."""

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav", dtype="int64")}

    def process_frame(self, frame):
        self.results.x[:] = frame.sum()

    def get_results(self):
        x = self.results.x
        return {"x": self.with_mask(np.where(x % 3, x, -999), x % 3 != 0)} if self.params.at else {}


class Given(UDF):
    """What it was given."""

    def get_result_buffers(self):
        return {"y": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.y[:] = self.params.x


@POSITIONS_WITHOUT_DATA
@pytest.mark.parametrize("cut", ["region", "offset"])
def test_functions_of_results_see_what_is_valid(ctx, data, cut):
    sums = data.sum(axis=(2, 3), dtype=float)
    roi, offset = sums % 4 == 1, 5 * (cut == "offset")
    dataset = ctx.load("memory", data=data, sync_offset=offset)
    given = {"roi": roi} if cut == "region" else {}
    expected = sums[roi] if cut == "region" else sums.reshape(-1)[offset:]
    for function, value in ((np.mean, expected.mean()), (None, expected), (np.negative, -expected)):
        udf = Given(x=ff.from_result(Whole(at=False), "x", function))
        found = ctx.run_udf(dataset, udf, **given)["y"].raw_masked_data.compressed()
        np.testing.assert_array_equal(found, np.broadcast_to(value, found.shape))
    nothing = ff.from_result(Whole(at=False), "x", lambda x: x[x.mask].max())
    with pytest.raises(InvalidArgumentError, match=r"returned masked elements.*np\.ma"):
        ctx.run_udf(dataset, Given(x=nothing), **given)


class Fractions(Whole):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav", dtype="float64")}


@pytest.mark.parametrize("at", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        np.nanmean,
        np.nanmedian,
        lambda x: float(np.nanquantile(x, 0.3)),
        lambda x: np.nanpercentile(x, [5, 95]).tolist()[1],
        lambda x: np.where(x > np.nanmedian(x), 1.0, 2.0),
        lambda x: x[1, 2],
    ],
)
def test_functions_of_floats_see_nan(ctx, data, at, function):
    sums = data.sum(axis=(2, 3), dtype=float)
    roi = sums % 4 == 1
    seen = np.where(roi & ((sums % 3 != 0) | (not at)), sums, np.nan)
    dataset = ctx.load("memory", data=data)
    udf = Given(x=ff.from_result(Fractions(at=at), "x", function))
    found = ctx.run_udf(dataset, udf, roi=roi)["y"].raw_data
    np.testing.assert_array_equal(found, np.broadcast_to(function(seen), sums.shape)[roi])


@pytest.mark.parametrize("pack", [lambda x: (x,), lambda x: [1, x], lambda x: {"a": x}])
def test_masked_elements_are_no_numbers_for_the_next_pass(ctx, data, pack):
    roi = data.sum(axis=(2, 3)) % 4 == 1
    nothing = ff.from_result(Whole(at=False), "x", lambda x: pack(x[x.mask].max()))
    with pytest.raises(InvalidArgumentError, match=r"returned masked elements.*np\.ma"):
        ctx.run_udf(ctx.load("memory", data=data), Given(x=nothing), roi=roi)


def test_a_pass_reads_no_elements_that_are_not_valid(ctx, dataset, data):
    sums, whole = data.sum(axis=(2, 3)), Whole(at=True)
    bad = sums % 3 == 0
    for function in (None, np.negative):
        with pytest.raises(
            InvalidArgumentError, match=rf"{bad.sum()} elements .*filled\(result, 0\)"
        ):
            ctx.run_udf(dataset, Given(x=ff.from_result(whole, "x", function)))
    found = ctx.run_udf(dataset, Given(x=ff.from_result(whole, "x", lambda x: x.filled(0))))
    np.testing.assert_array_equal(found["y"].data, np.where(bad, 0, sums))
    found = ctx.run_udf(dataset, Given(x=ff.from_result(whole, "x")), roi=~bad)
    np.testing.assert_array_equal(found["y"].raw_data, sums[~bad])


def test_auxiliary_data_have_to_fit():
    for dtype, value in (
        ([("n", "i1")], np.array([(300,)], [("n", "i8")])),
        ("m8[s]", np.array([1500], "m8[ms]")),
    ):
        with pytest.raises(InvalidArgumentError, match=r"AUX data hold .*, which .* cannot"):
            UDF.aux_data(value, kind="nav", dtype=dtype)
    with pytest.raises(InvalidArgumentError, match="70000, which int16 cannot"):
        UDF.aux_data([1, 70000], kind="nav", dtype="int16")
    with pytest.raises(InvalidArgumentError, match="-1, which uint16 cannot"):
        UDF.aux_data([-1], kind="nav", dtype="uint16")
    with pytest.raises(InvalidArgumentError, match="float32 holds no imaginary parts"):
        UDF.aux_data([1 + 2j], kind="nav")
    floats = UDF.aux_data([0.7, 3.0], kind="nav", dtype=int)
    np.testing.assert_array_equal(floats.raw_data, [0, 3])
    truth = UDF.aux_data([0, 7], kind="nav", dtype=bool)
    np.testing.assert_array_equal(truth.raw_data, [False, True])


def test_masked_arrays_are_no_regions_or_corrections(ctx, dataset):
    roi = np.ma.array(np.ones((6, 7), dtype=bool), mask=np.eye(6, 7, dtype=bool))
    with pytest.raises(InvalidArgumentError, match=r"ROI are masked; use roi.filled\(False\)"):
        ctx.run_udf(dataset, Levels(), roi=roi)
    with pytest.raises(InvalidArgumentError, match="elements of dark are masked"):
        CorrectionSet(dark=np.ma.array(np.ones((10, 12)), mask=np.eye(10, 12)))


def masked(shape, count=1):
    """Ones, of which the first elements are masked."""
    array = np.ma.masked_array(np.ones(shape), mask=False)
    array.reshape(-1)[:count] = np.ma.masked
    return array


#: What takes an array, by what the message calls it; each gets one with ``count`` masked elements.
TAKE_ARRAYS = {
    "AUX data": lambda count: UDF.aux_data(masked((6, 7), count), "nav"),
    "the new array": lambda count: UDF.aux_data(np.ones(3), "single").replace_array(
        masked(3, count)
    ),
    "a mask": lambda count: ff.ApplyMasksUDF([lambda: masked((10, 12), count)]).masks.dtype,
    "the shifts of ApplyMasksUDF": lambda count: ff.ApplyMasksUDF(
        [lambda: np.ones((10, 12))], shifts=masked((6, 7, 2), count)
    ),
    "the data": lambda count: detector.correct(masked((10, 12), count), np.ones((10, 12))),
    "the masks": lambda count: detector.correct_dot_masks(
        masked((1, 10, 12), count), np.ones((10, 12))
    ),
    "excluded_pixels": lambda count: CorrectionSet(
        excluded_pixels=masked((10, 12), count), allow_empty=True
    ),
    "yx": lambda count: ff.Shift(masked((6, 7, 2), count)),
    "centre": lambda count: ff.fit_origin(np.ones((6, 7, 2)), centre=masked(2, count)),
    "the template": lambda count: masks.balance(masked((3, 3), count)),
    "the distances": lambda count: masks.radial_gradient_background_subtraction(
        masked((3, 3), count), 1, 2
    ),
    "index, offsets and template": lambda count: masks.sparse_template_multi_stack(
        [0], masked(1, count), [0], np.ones((2, 2)), 4, 4
    ),
    "index and centres": lambda count: masks.sparse_circular_multi_stack(
        [0], masked(1, count), [0], 4, 4, 1
    ),
    "the data of with_mask": lambda count: UDF.with_mask(masked(3, count), True),
    "the positions": lambda count: make_polar(masked((3, 2), count)),
    "the indices": lambda count: regularize_indices(masked((3, 2), count)),
    "the lattice": lambda count: calc_coords(masked(2, count), (0, 1), (1, 0), [(1, 1)]),
    "the phase": lambda count: hologram_frame(np.ones((4, 4)), masked((4, 4), count)),
    "a frame": lambda count: encode_payload(masked((4, 4), count).astype(np.uint16), depth=12),
}


@pytest.mark.parametrize("what", TAKE_ARRAYS)
def test_what_is_masked_is_no_value(what):
    TAKE_ARRAYS[what](0)
    with pytest.raises(InvalidArgumentError, match=f"^elements of {what} are masked; "):
        TAKE_ARRAYS[what](1)


def test_what_is_masked_is_no_value_in_a_run(ctx, dataset):
    pixels = ff.SumUDF()
    shifts = masked((6, 7, 2))
    weighted = ff.from_result(pixels, "intensity", lambda image: np.ma.masked_less(image, 1e9))
    for message, run in {
        "elements of the shifts of CoMUDF are masked; ": lambda: ctx.run_udf(
            dataset, ff.CoMUDF.with_params(shifts=shifts)
        ),
        "elements of regression are masked; ": lambda: ctx.run_udf(
            dataset, ff.CoMUDF.with_params(regression=masked((3, 2)))
        ),
        "120 elements that the next pass reads are not valid": lambda: ctx.run_udf(
            dataset, [pixels, Weighted(weighted)]
        ),
        "elements of a mask are masked; ": lambda: ctx.run_udf(
            dataset, ff.ApplyMasksUDF(lambda: [masked((10, 12))])
        ),
        "elements of the index are masked; ": lambda: dataset[masked((6, 7)).astype(bool)],
    }.items():
        with pytest.raises(InvalidArgumentError, match=message):
            run()


class Weighted(Levels):
    def __init__(self, weights):
        super().__init__(weights=weights)


def test_structured_arrays_may_have_masks_of_nothing():
    pairs = np.ma.array(np.zeros((3, 4), [("a", "f4"), ("b", "f4")]), mask=np.zeros((3, 4), bool))
    assert not has_masked(pairs)
    pairs[1, 2] = np.ma.masked
    assert has_masked(pairs)
    assert has_masked([1, [pairs]])


def test_masked_positions_are_not_measured():
    positions = np.ma.array(np.random.default_rng(1).random((6, 7, 2)), mask=False)
    positions.data[2, 3] = 1e3
    positions[2, 3, 0] = np.ma.masked
    known = np.ma.filled(positions, np.nan)
    fit, expected = ff.fit_origin(positions, clip=None), ff.fit_origin(known, clip=None)
    np.testing.assert_array_equal(fit.shifts, expected.shifts)
    np.testing.assert_array_equal(fit.used, ~positions.mask.any(axis=-1))
    lists = [list(row) for row in positions]
    np.testing.assert_array_equal(ff.fit_origin(lists, clip=None).shifts, expected.shifts)
    weights = np.ma.array(np.ones((6, 7)), mask=positions.mask.any(axis=-1))
    fit = ff.fit_origin(positions.data, weights=weights, clip=None)
    np.testing.assert_array_equal(fit.shifts, expected.shifts)


@pytest.mark.parametrize("roi", [(True,) * 6, (1.0, 2.0), [1, 2, (3.0)]])
def test_regions_of_what_is_no_coordinate(ctx, dataset, roi):
    with pytest.raises(InvalidArgumentError, match="ROI"):
        ctx.run_udf(dataset, Levels(), roi=roi)


@pytest.mark.parametrize("shape", [(4, 1, 6, 6), (1, 6, 6), (4, 3, 6, 6)])
def test_arrays_that_run_backwards(ctx, shape):
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    back = data[::-1] if len(shape) == 3 else data[:, ::-1]
    total = ctx.run_udf(ctx.load("memory", data=back, sig_dims=2), ff.SumSigUDF())["intensity"]
    np.testing.assert_allclose(total.data, back.sum(axis=(-1, -2)))


def test_the_spectrum_leaves_out_nan_with_its_circle(ctx):
    data = np.random.default_rng(1).random((1, 1, 8, 8)).astype(np.float32)
    data[0, 0, 4, 4] = np.nan
    dataset = ctx.load("memory", data=data, sig_dims=2)
    parameters = {"x": 0, "y": 0, "real_centerx": 4, "real_centery": 4, "real_rad": 1}
    result = ctx.run(PickFFTFrameAnalysis(dataset, parameters))
    assert np.isfinite(result["intensity"].raw_data).all()


def test_merge_may_take_names_alone(ctx, dataset, data):
    class Named(Levels):
        def merge(self, **sides):
            sides["dest"].level[:] = sides["src"].level

    class InOrder(Levels):
        def merge(self, dest, src, /):
            dest.level[:] = src.level

    for udf in Named(), InOrder():
        level = ctx.run_udf(dataset, udf)["level"]
        np.testing.assert_array_equal(level.data, data.sum(axis=(2, 3)))


@POSITIONS_WITHOUT_DATA
def test_a_region_without_data_has_results(ctx, data):
    dataset = ctx.load("memory", data=data, sig_dims=2, sync_offset=-7, num_partitions=5)
    roi = np.zeros((6, 7), dtype=bool)
    roi[0] = True
    (step,) = ctx.run_udf_iter(dataset, Levels(), roi=roi)
    whole = ctx.run_udf(dataset, Levels(), roi=roi)
    for results in (step.buffers[0], whole):
        assert results["level"].data.shape == (6, 7)
        assert not results["level"].valid_mask.any()


def in_python(base):
    """The built-in function in Python, in the dtype of the data."""

    class InPython(base):
        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

        def process_tile(self, tile):
            super().process_tile(tile)

    return InPython


@pytest.mark.parametrize("form", ["dense", "sparse", "scipy"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int64", "uint64"])
def test_sums_in_python_do_not_wrap_around(ctx, form, dtype):
    limits = np.iinfo(dtype)
    frames = np.full((40, 2, 3), limits.max, dtype=dtype)
    frames[:, 0, 0], frames[5], frames[::2, 1, 1] = limits.min, 0, limits.min
    if form == "dense":
        dataset = ctx.load("memory", data=frames, sig_dims=2)
    else:
        array = pytest.importorskip("sparse").COO.from_numpy(frames)
        if form == "scipy":
            array = array.reshape((40, 6)).to_scipy_sparse()
        dataset = ctx.load("memory", data=array, nav_shape=(40,), sig_shape=(2, 3))
    exact = frames.astype(object)
    of_pixels, of_frames = exact.sum(axis=0), exact.sum(axis=(1, 2))
    for base, expected in [(ff.SumUDF, of_pixels), (ff.SumSigUDF, of_frames)]:
        found = ctx.run_udf(dataset, in_python(base)())["intensity"].data
        np.testing.assert_allclose(found, expected.astype(float), rtol=1e-5)
    # As integers, they are exact or an error.
    signed = limits.min < 0
    udf, whole = (
        in_python(ff.SumUDF)(dtype="i1" if signed else "u1"),
        np.iinfo("i8" if signed else "u8"),
    )
    if whole.min <= of_pixels.min() and of_pixels.max() <= whole.max:
        assert ctx.run_udf(dataset, udf)["intensity"].data.tolist() == of_pixels.tolist()
    else:
        with pytest.raises(InvalidArgumentError, match="64 cannot hold; use dtype='float64'"):
            ctx.run_udf(dataset, udf)


def test_sums_of_sparse_frames_that_fit_in_the_end(ctx):
    sparse = pytest.importorskip("sparse")
    frames = np.zeros((4, 2, 3), dtype="int64")
    frames[:2, 0], frames[2:, 0] = 2**62 + 1, -(2**62)
    dataset = ctx.load("memory", data=sparse.COO.from_numpy(frames), sig_dims=2, num_partitions=1)
    found = ctx.run_udf(dataset, in_python(ff.SumUDF)(dtype="i8"))["intensity"].data
    assert found.tolist() == [[2, 2, 2], [0, 0, 0]]


@pytest.mark.parametrize("form", ["COO", "GCXS"])
def test_sums_of_sparse_frames_of_uint64_in_python(ctx, form):
    frames = np.zeros((3, 2, 3), dtype="uint64")
    frames[0, 0], frames[1, 0, 0] = 2**53 + 1, 2
    array = getattr(pytest.importorskip("sparse"), form).from_numpy(frames)
    found = ctx.run_udf(ctx.load("memory", data=array, sig_dims=2), in_python(ff.SumUDF)("u1"))
    assert found["intensity"].data.tolist() == frames.sum(axis=0).tolist()


def test_sums_of_frames_of_half_precision_in_python(ctx):
    frames = np.full((2, 40, 50), 50, dtype="float16")
    frames[1, 0, 0] = 51
    dataset = ctx.load("memory", data=frames, sig_dims=2, tileshape=(2, 20, 50))
    found = ctx.run_udf(dataset, in_python(ff.SumSigUDF)())["intensity"].data
    assert found.tolist() == [100_000, 100_001]


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool"])
def test_logarithms_of_integers_in_python(ctx, form, dtype):
    class InPython(ff.LogsumUDF):
        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

        def process_frame(self, frame):
            super().process_frame(frame)

    frames = np.zeros((3, 2, 4), dtype="int16")
    frames[:, 0], frames[1] = [-100, 100, 0, 50], 255
    frames = np.abs(frames) if dtype == "uint8" else frames
    frames = frames.astype(dtype)
    data = pytest.importorskip("sparse").COO.from_numpy(frames) if form == "sparse" else frames
    dataset = ctx.load("memory", data=data, sig_dims=2)
    wide = frames.astype(float)
    expected = np.log(wide - wide.min(axis=(1, 2), keepdims=True) + 1).sum(axis=0)
    found = ctx.run_udf(dataset, InPython())["logsum"].data
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_logarithms_of_small_floats_in_python(ctx, form):
    """As in the engine: a pixel that is next to the lowest one in single precision counts."""

    class InPython(ff.LogsumUDF):
        def process_frame(self, frame):
            super().process_frame(frame)

    levels = [[[0, 3e-8], [1e-6, 1]], [[-2e38, 2e38], [0, 1]]]
    for frames in np.array(levels, dtype="float32")[:, np.newaxis]:
        data = pytest.importorskip("sparse").COO(frames) if form == "sparse" else frames
        dataset = ctx.load("memory", data=data, sig_dims=2)
        native, python = ctx.run_udf(dataset, [ff.LogsumUDF(), InPython()])
        found, expected = python["logsum"].data, native["logsum"].data
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert (expected > 0).sum() == 3


@pytest.mark.parametrize("value", ["no", "False", "true", 2])
@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("flip_y", lambda value: ff.CoMUDF(flip_y=value)),
        ("flip_y", lambda value: ff.CoMUDF.with_params(flip_y=value)),
        ("mean", lambda value: ff.Bin(2, mean=value)),
        ("mean", lambda value: ff.Rebin(2, mean=value)),
        ("antialiased", lambda value: ff.masks.circular(4, 4, 8, 8, 2, value)),
        ("antialiased", lambda value: ff.masks.ring(4, 4, 8, 8, 3, 2, value)),
        ("antialiased", lambda value: ff.detectors.disk((8, 8), r=2, antialiased=value)),
        ("antialiased", lambda value: ff.detectors.ring((8, 8), ri=1, ro=2, antialiased=value)),
        ("normalize", lambda value: ff.detectors.rings((8, 8), n=2, normalize=value)),
        ("allow_empty", lambda value: CorrectionSet(allow_empty=value)),
        ("allow_empty", lambda value: detector.RepairDescriptor((8, 8), None, value)),
    ],
)
def test_texts_are_no_truth_values(name, use, value):
    with pytest.raises(InvalidArgumentError, match=rf"{name}={value!r} is not True or False"):
        use(value)
    for fine in (True, np.False_, 0, np.int64(1), np.array(False), None):
        use(fine)


@pytest.mark.parametrize("name", ["cache", "sync", "resume", "overwrite"])
def test_runs_take_no_texts_for_truth_values(ctx, dataset, name):
    with pytest.raises(InvalidArgumentError, match=f"{name}='no' is not True or False"):
        ctx.run_udf(dataset, ff.SumUDF(), **{name: "no"})


def test_files_are_not_replaced_for_a_text(ctx, dataset, tmp_path):
    (tmp_path / "sum.npy").write_bytes(b"kept")
    result = ctx.run_udf(dataset, ff.SumUDF())["intensity"]
    for write in (
        lambda: result.save(tmp_path / "sum.npy", overwrite="no"),
        lambda: ctx.export_dataset(dataset, tmp_path / "sum.npy", overwrite="no"),
        lambda: RecordUDF(tmp_path / "sum.npy", overwrite="no"),
    ):
        with pytest.raises(InvalidArgumentError, match="overwrite='no' is not True or False"):
            write()
    assert (tmp_path / "sum.npy").read_bytes() == b"kept"
