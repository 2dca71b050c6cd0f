"""Data sets made of others by stages, held against NumPy and SciPy on the whole array."""

from __future__ import annotations

import pickle
import re
import warnings
from itertools import product

import numpy as np
import pytest
from shared_contexts import shared
from stage_cases import (
    CASES,
    DTYPES,
    FRACTIONS,
    NAV,
    SIG,
    WHOLE,
    Frames,
    check,
    medians,
    numbers,
    piped,
    shifted,
    takes,
)

import framefold as ff
from framefold.exceptions import BadFileError, InvalidArgumentError
from framefold.io.corrections import CorrectionSet
from framefold.io.stages import Stage
from framefold.utils.write_mib import write_mib
from framefold.warnings import DataSetWarning


class Metres:
    """A quantity, which is the number that it holds for `float`."""

    def __init__(self, number):
        self.number = number

    def __float__(self):
        return float(self.number)

    def __repr__(self):
        return f"{self.number} m"


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


@pytest.mark.parametrize("name", CASES)
def test_each_stage_gives_what_numpy_gives(ctx, name):
    make, by_numpy = CASES[name]
    for dtype in DTYPES:
        if not takes(name, dtype):
            continue
        array = numbers((*NAV, *SIG), dtype)
        dataset = piped(ctx.load("memory", data=array), make())
        expected = by_numpy(array)
        assert dataset.dtype == expected.dtype
        assert tuple(dataset.shape) == expected.shape
        check(np.asarray(dataset), expected, f"{name} of {dtype}")


@pytest.mark.parametrize("first", CASES)
def test_pairs_of_stages(ctx, first):
    array = numbers((*NAV, *SIG), "uint16")
    dataset = ctx.load("memory", data=array)
    for second in CASES:
        name = f"{first}, then {second}"
        both = piped(dataset, CASES[first][0](), CASES[second][0]())
        before = CASES[first][1](array)
        if before.dtype == np.float32 and second.startswith(("threshold", "cast", "count")):
            continue  # the last bit of what was rounded may decide
        again = f"{name}*" if "*" in first else name
        check(np.asarray(both), CASES[second][1](before), again)


@pytest.mark.parametrize("method", ["tile", "frame", "partition"])
def test_any_tiling_and_region(ctx, method):
    array = numbers((*NAV, *SIG), "int32", seed=2)
    roi = np.random.default_rng(3).random(NAV) < 0.6
    for name, (make, by_numpy) in CASES.items():
        dataset = piped(ctx.load("memory", data=array, num_partitions=4), make())
        expected = by_numpy(array)
        for depth, size, mask in product((1, 4), (400, 1 << 20), (None, roi)):
            udf = Frames(method, depth, size)
            found = ctx.run_udf(dataset=dataset, udf=udf, roi=mask)["frames"].raw_data
            chosen = expected[np.ones(NAV, bool) if mask is None else mask]
            check(found, chosen, f"{name} {method} {depth} {size}")


@pytest.mark.parametrize("executor", ["threads", "processes", "dask", "delayed"])
def test_every_executor(executor):
    array = numbers((*NAV, *SIG), "uint16", seed=4)
    stages = (
        *(ff.Crop(np.s_[1:15, 2:22]), ff.Shift(WHOLE), ff.Median(), ff.Bin(2), ff.Flip("x")),
        ff.Threshold(9000),
    )
    expected = array
    for name, change in (
        ("crop", lambda a: a[..., 1:15, 2:22]),
        ("shift", lambda a: shifted(a, WHOLE)),
        ("median", CASES["median"][1]),
        ("bin", CASES["bin*"][1]),
        ("flip", lambda a: a[..., ::-1]),
        ("threshold", lambda a: np.where(a >= 9000, a, np.uint32(0))),
    ):
        assert name
        expected = change(expected)
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=array, num_partitions=3).pipe(*stages)
        results = ctx.run_udf(dataset=dataset, udf=[ff.SumUDF(), Frames()])
        check(np.asarray(results[1]["frames"].data), expected, executor)
        total = np.asarray(results[0]["intensity"].data)
        np.testing.assert_array_equal(total, expected.sum((0, 1), dtype="f8"))


#: Rows of more than one block of windows, and columns that a high window lies within.
WIDE, HIGH = (2, 1, 8, 300), (1, 1, 19, 150)


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        *((size, WIDE) for size in (1, 3, 5, (7, 1), 7, (1, 63))),
        *((size, HIGH) for size in (15, (15, 17))),
        ((1, 301), (2, 1, 8, 150)),
    ],
)
def test_medians_of_any_window(ctx, size, shape):
    for dtype in ("bool", "uint8", "int16", "float16", "float32", "uint64", "float64"):
        array = numbers(shape, dtype, seed=4)
        if array.dtype.kind == "f":
            array[0, 0, 3:8, 4::31] = np.nan
            array[-1, 0, ::5, 7] = np.inf
        expected = medians(array, size)
        found = np.asarray(piped(ctx.load("memory", data=array), ff.Median(size)))
        np.testing.assert_array_equal(found, expected, f"{size} of {dtype}", strict=True)


def test_corrections_come_first_and_stay(ctx):
    rng = np.random.default_rng(5)
    array = numbers((*NAV, *SIG), "uint16", seed=5)
    dark, gain = rng.random(SIG).astype("f4"), rng.random(SIG).astype("f4")
    excluded = np.zeros(SIG, bool)
    excluded[7, 9] = excluded[0, 0] = True
    corrections = CorrectionSet(dark=dark, gain=gain, excluded_pixels=excluded)
    dataset = ctx.load("memory", data=array)
    corrected = np.asarray(
        ctx.run_udf(dataset=dataset, udf=Frames(), corrections=corrections)["frames"].data
    )
    found = dataset.pipe(corrections)
    assert found.dtype == np.float32
    assert not found.get_correction_data().have_corrections()
    check(np.asarray(found), corrected, "corrected")
    rows = np.asarray(found.pipe(ff.Bin((2, 23))))
    expected = corrected.reshape((*NAV, 8, 2, 1, 23)).sum((-3, -1), dtype="f8").astype("f4")
    check(rows, expected, "rows*")
    # What is given to a run is for the frames of the derived data set.
    dark = np.full((8, 23), 2, np.float32)
    of_run = ctx.run_udf(
        dataset=piped(dataset, ff.Bin((2, 1))), udf=Frames(), corrections=CorrectionSet(dark=dark)
    )
    check(
        np.asarray(of_run["frames"].data),
        (array[..., ::2, :].astype("f8") + array[..., 1::2, :] - 2).astype("f8"),
        "corrections of a run",
    )
    with pytest.raises(InvalidArgumentError, match="shape"):
        piped(dataset, ff.Bin(2)).pipe(corrections)


def test_a_file_with_its_own_corrections(ctx, tmp_path):
    from detector_files import write_seq, write_seq_sidecars

    path = tmp_path / "scan.seq"
    frames = numbers((6, 8, 12), "uint16", seed=6) % 100 + 50
    write_seq(path, frames.astype("uint16"))
    write_seq_sidecars(path, np.full((8, 12), 3, "float32"), np.full((8, 12), 2, "float32"), 5)
    dataset = ctx.open(path)
    raw = np.asarray(dataset)
    assert dataset.get_correction_data().have_corrections()
    cropped = dataset.pipe(ff.Crop(np.s_[2:, :5]))
    check(np.asarray(cropped), raw[..., 2:, :5].astype("f4"), "crop of corrected frames")


def test_sparse_frames_stay_sparse_where_nothing_is_computed(ctx):
    import scipy.sparse

    array = np.where(numbers((15, *SIG), "uint16", seed=7) > 60000, 3, 0).astype("uint16")
    data = scipy.sparse.csr_matrix(array.reshape((15, -1)))
    dataset = ctx.load("memory", data=data, sig_shape=SIG, nav_shape=NAV)
    cropped = dataset.pipe(ff.Crop(np.s_[3:, :20]))
    assert cropped.native_backends == (ff.UDF.BACKEND_SCIPY_CSR,)
    small = piped(cropped, ff.Bin(2))
    assert small.native_backends == (ff.UDF.BACKEND_NUMPY,)
    array = array.reshape((*NAV, *SIG))
    check(np.asarray(cropped), array[..., 3:, :20], "crop")
    check(np.asarray(small), CASES["bin*"][1](array[..., 3:, :20]), "bin")


def test_scales_and_units_go_along(ctx):
    data = np.zeros((2, 2, 16, 16), np.uint8)
    dataset = ctx.load("memory", data=data, pixel_size="2mrad", centre=(8, 8))
    small = dataset.pipe(ff.Crop(np.s_[4:12, 4:12]), ff.Bin(2))
    axis = small.axes[-1]
    assert (axis.size, axis.scale, axis.offset, axis.unit) == (4, 4.0, -7.0, "mrad")
    assert dataset.axes[-1].scale == 2.0, "the data set itself stays as it is"
    turned = small.pipe(ff.Flip("x")).axes[-1]
    assert (turned.scale, turned.offset) == (-4.0, 5.0)


def test_derived_data_sets_are_data_sets(ctx, tmp_path):
    array = numbers((*NAV, *SIG), "uint16", seed=8)
    np.save(tmp_path / "scan.npy", array)
    dataset = ctx.open(tmp_path / "scan.npy").pipe(ff.Bin((4, 1)), ff.Crop(np.s_[1:, :20]))
    expected = array.reshape((*NAV, 4, 4, 23)).sum(-2, dtype="u4")[..., 1:, :20]
    check(dataset[1, 2], expected[1, 2], "a frame")
    check(np.asarray(pickle.loads(pickle.dumps(dataset))), expected, "pickled")
    for name in ("copy.npy", "copy.zarr", "copy.h5"):
        ctx.export_dataset(dataset, tmp_path / name)
        check(np.asarray(ctx.open(tmp_path / name)), expected, name)
    assert dataset.stages == ["bin 4,1", "crop 1:4,0:20"]
    explained = str(ctx.explain(dataset=dataset, udf=ff.SumUDF()))
    assert "bin 4,1, then crop 1:4,0:20" in explained
    dask_array = ff.contrib.daskadapter.make_dask_array(dataset)[0]
    check(np.asarray(dask_array.compute()), expected, "a Dask array")


@pytest.mark.filterwarnings("ignore::framefold.warnings.DataSetWarning")
@pytest.mark.filterwarnings("ignore::framefold.warnings.MissingFramesWarning")
def test_shifts_belong_to_positions(ctx):
    array = numbers((15, *SIG), "uint16", seed=9)
    roi = np.random.default_rng(10).random(NAV) < 0.5
    for yx, name in ((WHOLE, "whole"), (FRACTIONS, "mixed*")):
        for sync_offset in (-4, 0, 3):
            dataset = ctx.load("memory", data=array, nav_shape=NAV, sync_offset=sync_offset)
            moved = dataset.pipe(ff.Shift(yx))
            # What each position shows; some show nothing.
            frames = np.zeros((15, *SIG), array.dtype)
            shown = range(max(0, -sync_offset), min(15, 15 - sync_offset))
            frames[shown] = array[[position + sync_offset for position in shown]]
            expected = shifted(frames.reshape((*NAV, *SIG)), yx)
            for mask in (None, roi):
                found = ctx.run_udf(dataset=moved, udf=Frames(), roi=mask)["frames"]
                valid = found.valid_mask.reshape((*NAV, -1))[..., 0]
                assert valid.sum() == sum(mask is None or mask.flat[i] for i in shown)
                data = np.asarray(found.data)
                check(data[valid], expected[valid], f"{name} {sync_offset}")


def test_a_shift_of_the_beam_is_undone(ctx):
    beam = np.zeros((*NAV, *SIG))
    beam[:] = np.arange(SIG[0])[:, None] == 8
    beam *= np.arange(SIG[1]) == 11
    yx = np.random.default_rng(13).integers(-3, 4, (*NAV, 2))
    wandering = ctx.load("memory", data=shifted(beam, yx))
    still = wandering.pipe(ff.Shift(-yx))
    check(np.asarray(still), beam, "descanned")
    fraction = ctx.load("memory", data=beam).pipe(ff.Shift(yx + 0.25))
    found = ctx.run_udf(dataset=fraction, udf=ff.CoMUDF.with_params(cy=8, cx=11))["raw_shifts"]
    np.testing.assert_allclose(np.asarray(found.data), yx + 0.25, atol=1e-5)


def test_what_a_shift_does_not_need_does_not_count(ctx):
    data = np.arange(24.0).reshape((1, 2, 3, 4))
    data[0, 1] = np.nan
    yx = [[(0, 0.5), (0, 0)]]
    moved = np.asarray(ctx.load("memory", data=data).pipe(ff.Shift(yx)))
    np.testing.assert_array_equal(moved[0, 0, 0], [0, 0.5, 1.5, 2.5])
    data[0, 1] = [[np.inf, 1, 2, np.nan]] * 3
    moved = np.asarray(ctx.load("memory", data=data).pipe(ff.Shift(yx)))
    np.testing.assert_array_equal(moved[0, 1], data[0, 1])
    # Just below a whole number is that number.
    moved = np.asarray(ctx.load("memory", data=data).pipe(ff.Shift((-1e-20, 0))))
    np.testing.assert_array_equal(moved, data)


def test_shifts_say_what_they_are(ctx):
    dataset = ctx.load("memory", data=np.zeros((*NAV, *SIG), np.uint8))
    given = WHOLE.copy()
    stage = ff.Shift(given, fill=3)
    given[:] = 99
    assert stage == ff.Shift(WHOLE, fill=3) != ff.Shift(WHOLE)
    assert stage != ff.Shift((1, 2))
    assert stage != "shift"
    assert repr(ff.Shift((1, -2))) == "Shift(yx=[1.0, -2.0], fill=0.0)"
    low, high = WHOLE.min((0, 1)), WHOLE.max((0, 1))
    said = f"shift by position, {low[0]} to {high[0]} and {low[1]} to {high[1]} fill=3"
    assert dataset.pipe(stage).stages == [said]
    assert dataset.pipe(ff.Shift((1, -2))).stages == dataset.pipe("shift 1,-2").stages
    explained = str(ctx.explain(dataset=dataset.pipe(stage), udf=ff.SumUDF()))
    assert said in explained


def test_what_bins_leave_out_is_a_warning(ctx):
    dataset = ctx.load("memory", data=np.ones((2, 2, 9, 10), np.uint8))
    with pytest.warns(DataSetWarning, match=r"'bin 4,4' leaves out the last \[1, 2\] pixels"):
        small = dataset.pipe(ff.Bin(4))
    assert any("leaves out" in text for text in small.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small.pipe(ff.Crop(np.s_[:1, :1])), dataset.pipe(ff.Bin((3, 5)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ff.Bin(0), "factors is 0"),
        (lambda: ff.Bin(1.5), "factors is 1.5"),
        (lambda: ff.Bin("2"), "factors is '2'"),
        (lambda: ff.Bin(()), "factors is"),
        (lambda: ff.Crop(3), "region is 3"),
        (lambda: ff.Crop(np.s_[::2, :]), "step 1"),
        (lambda: ff.Crop(np.s_[1.5:, :])._text(), "whole numbers"),
        (lambda: ff.Pad(-1), "widths is -1"),
        (lambda: ff.Pad(((1, 2, 3),)), "widths is"),
        (lambda: ff.Pad(1.5), "widths is 1.5"),
        (lambda: ff.Shift(3), "yx holds int64 in the shape"),
        (lambda: ff.Shift((1, 2j)), "yx holds complex128"),
        (lambda: ff.Shift((True, False)), "yx holds bool"),
        (lambda: ff.Shift("12"), "yx holds <U2"),
        (lambda: ff.Shift([(1, 2), (3,)]), "yx holds object"),
        (lambda: ff.Shift((1, float("nan"))), "yx holds nan"),
        (lambda: ff.Shift(np.ma.masked_equal([(1, 2), (0, 1)], 0)), "yx are masked"),
        (lambda: ff.Shift((1, 2), fill=float("inf")), "fill is inf"),
        (lambda: ff.Threshold(float("nan")), "minimum is nan"),
        (lambda: ff.Threshold("much"), "minimum is 'much'"),
        (lambda: ff.Threshold(10**400), "minimum is 1000"),
        (lambda: ff.Threshold(2**53 + 1), "the number next to it is 9007199254740992"),
        (lambda: ff.Pad(1, value=np.uint64(2**64 - 1)), "next to it is 18446744073709551616"),
        (lambda: ff.Shift((1, 0), fill=-(2**53) - 1), "next to it is -9007199254740992"),
        (lambda: ff.Count(None), "threshold is None"),
        (lambda: ff.Count(1, float("nan")), "maximum is nan"),
        (lambda: ff.Rotate(45), "multiple of 90"),
        (lambda: ff.Median(True and "3"), "size is '3'"),
        (lambda: ff.Bin(True), "factors is True"),
        (lambda: ff.Rebin((2, True)), "factors is (2, True)"),
        (lambda: ff.Pad(True), "widths is True"),
        (lambda: ff.Pad(((1, False), 2)), "widths is ((1, False), 2)"),
        (lambda: ff.Pad(1, value="3"), "value is '3'"),
        (lambda: ff.Log(True), "offset is True"),
        (lambda: ff.Log(np.complex64(1)), "offset is np.complex64"),
        (lambda: ff.Gaussian(b"3"), "sigma is b'3'"),
        (lambda: ff.Gaussian(1, truncate=np.True_), "truncate is np.True_"),
        (lambda: ff.Threshold("3"), "minimum is '3'"),
        (lambda: ff.Threshold(1, maximum=Metres(3)), "maximum is 3 m"),
        (lambda: ff.Count(np.timedelta64(3, "ns")), "threshold is"),
        (lambda: ff.Rotate("90"), "degrees is '90'"),
        (lambda: ff.Flip(None), "axes is None"),
        (lambda: ff.Cast(None), "dtype is None"),
    ],
)
def test_mistakes_are_named_where_they_are_made(make, words):
    with pytest.raises(InvalidArgumentError, match=re.escape(words)):
        make()


def test_numbers_may_be_arrays_without_axes():
    assert ff.Threshold(np.array(3)).minimum == 3
    assert ff.Pad(1, value=np.array(2.5)).value == 2.5


def test_one_number_for_each_axis_may_be_an_array():
    assert ff.Bin(np.array([2, 3])).factors == ff.Bin((2, 3)).factors == (2, 3)
    assert ff.Bin(np.array(2)).factors == (2,)
    assert ff.Pad(np.array([[1, 2], [3, 4]])).widths == ((1, 2), (3, 4))
    assert ff.Pad(np.array([1, 2])).widths == ((1, 1), (2, 2))
    assert ff.Median(np.array([3, 5])).size == (3, 5)


def test_what_does_not_fit_the_frames_is_named(ctx):
    dataset = ctx.load("memory", data=np.zeros((2, 2, 8, 9), np.complex64))
    for stage, words in [
        (ff.Bin(10), "no bin is full"),
        (ff.Crop(np.s_[:9, :]), "beyond the 8 pixels"),
        (ff.Crop(np.s_[2:3]), "1 ranges for frames"),
        (ff.Threshold(1), "complex64"),
        (ff.Count(1), "complex64"),
        (ff.Cast("float32"), "imaginary"),
        (ff.Shift((1, 2, 3)), r"shape \[3\], expected \[2, 2, 2\]"),
        (ff.Shift(np.zeros((4, 2))), r"shape \[4, 2\], expected \[2, 2, 2\]"),
        (ff.Median(4), "odd"),
        (ff.Bin, "a stage is <class"),
        (3, "a stage is 3"),
        ("shrink 2", "there is no stage 'shrink'"),
    ]:
        with pytest.raises(InvalidArgumentError, match=words):
            dataset.pipe(stage)


def test_a_sum_that_does_not_fit_ends_the_run(ctx):
    data = np.zeros((4, 4, 4), np.uint64)
    data[2, 0, :2] = 2**63
    small = ctx.load("memory", data=data, sig_dims=2).pipe(ff.Bin(2))
    with pytest.raises(InvalidArgumentError, match="does not fit uint64"):
        ctx.run_udf(dataset=small, udf=ff.SumUDF())
    means = ctx.load("memory", data=data, sig_dims=2).pipe(ff.Bin(2, mean=True))
    assert means[2][0, 0] == 2.0**62


@pytest.mark.parametrize("backend", ["mmap", "buffered"])
def test_frames_that_were_never_written_are_noticed_in_any_part(ctx, tmp_path, backend):
    """Where the first pixels were not read, what is no frame was not noticed, and zeros counted."""
    path = tmp_path / "a.mib"
    write_mib(path, np.ones((2, 3, 8, 8), dtype="uint16"))
    content = bytearray(path.read_bytes())
    size = len(content) // 6
    content[2 * size : 3 * size] = bytes(size)
    path.write_bytes(content)
    part = ctx.open(path, io_backend=backend).pipe(ff.Crop(np.s_[4:, 2:]))
    with pytest.raises(BadFileError, match="in front of a frame"):
        ctx.run_udf(part, ff.SumUDF())
    roi = np.ones((2, 3), dtype=bool)
    roi[0, 2] = False
    assert (ctx.run_udf(part, ff.SumUDF(), roi=roi)["intensity"].data == 5).all()


def test_every_stage_of_the_engine_has_a_class():
    from framefold import _engine

    named = {
        cls.__name__.lower()
        for cls in vars(ff.io.stages).values()
        if isinstance(cls, type) and issubclass(cls, Stage)
    }
    assert {row[0] for row in _engine.known_stages()} <= named
    for make, _ in CASES.values():
        stage = make()
        assert pickle.loads(pickle.dumps(stage)) == stage
        assert repr(stage) == repr(make())
        assert hash(stage) == hash(make())
