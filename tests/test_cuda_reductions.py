"""Built-in reductions on CUDA devices: the same results as those of the native kernels."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from cache_cases import settled
from cuda_masks import dense_masks, sparse_masks
from cuda_udfs import NAV, SIG
from sparse_files import write_raw_csr
from test_silent_numbers import in_python

import framefold as ff
from framefold.arrays.cuda import pairs
from framefold.corrections import CorrectionSet
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.udf import UDF
from framefold.udf.logsum import LogsumUDF
from framefold.udf.reduction import ReductionUDF
from framefold.udf.sumsigudf import SumSigUDF

DTYPES = [
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]

ROI = np.random.default_rng(1).random(NAV) < 0.6


def frames_of(dtype):
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(7)
    if dtype.kind == "b":
        return rng.random((*NAV, *SIG)) < 0.4
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        data = rng.integers(limits.min, limits.max, (*NAV, *SIG), dtype=dtype, endpoint=True)
        data[..., 0, 0], data[..., 0, 1] = limits.min, limits.max
        return data
    data = rng.normal(3, 2, (*NAV, *SIG))
    if dtype.kind == "c":
        data = data + 1j * rng.normal(1, 2, data.shape)
    return data.astype(dtype)


UDFS = {
    "sum": lambda: ff.SumUDF(),
    "sum in integers": lambda: ff.SumUDF(dtype="uint8"),
    "sum of each frame": lambda: SumSigUDF(),
    "deviations": lambda: ff.StdDevUDF(),
    "deviations in float32": lambda: ff.StdDevUDF(dtype="float32"),
    "logarithms": lambda: LogsumUDF(),
    "largest": lambda: ff.MaxUDF(),
    "largest by name": lambda: ReductionUDF("max"),
    "frames": lambda: ff.PickUDF(),
    "centres": lambda: ff.CoMUDF(),
    "centres in a ring": lambda: ff.CoMUDF(cy=3, cx=4.5, r=3.5, ri=1, regression=1),
    "masks of integers": lambda: ff.ApplyMasksUDF(lambda: dense_masks(5, SIG, "int16")),
    "masks": lambda: ff.ApplyMasksUDF(lambda: dense_masks(5, SIG) / 7),
    "masks of complex numbers": lambda: ff.ApplyMasksUDF(lambda: dense_masks(2, SIG) * (1 - 2j)),
    "sparse masks": lambda: ff.ApplyMasksUDF(lambda: sparse_masks(3, SIG)),
}
#: What is computed of integers without rounding, before the end.
EXACT = {
    *("sum", "sum in integers", "sum of each frame", "largest", "largest by name", "frames"),
    "masks of integers",
}
#: Whose results do not hold what the largest integers of 64 bits add up to.
NARROW = ("sum in integers", "deviations in float32")
NO_COMPLEX = ("logarithms", "largest", "largest by name", "centres", "centres in a ring")


def frames_for(name, dtype):
    data = frames_of(dtype)
    is_long = data.dtype.kind in "iu" and data.dtype.itemsize == 8
    return data // 64 if is_long and name in NARROW else data


@cache
def by_the_kernel(name, dtype, *, of_roi=False, corrections=None):
    """Computed on the CPU once: when transfers come is of no matter there, nor which executor."""
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=frames_for(name, dtype), num_partitions=3)
    roi = ROI if of_roi else None
    return ctx.run_udf(dataset, UDFS[name](), roi=roi, corrections=corrections)


def check_same(found, expected, exact, rtol=2e-5):
    assert list(found) == list(expected)
    for name, buffer in expected.items():
        ours = found[name]
        assert (ours.kind, ours.extra_shape, ours.dtype) == (
            buffer.kind,
            buffer.extra_shape,
            buffer.dtype,
        )
        assert (ours.about.unit, ours.about.vector) == (buffer.about.unit, buffer.about.vector)
        np.testing.assert_array_equal(ours.valid_mask, buffer.valid_mask)
        if exact:
            np.testing.assert_array_equal(ours.raw_data, buffer.raw_data)
        else:
            scale = np.abs(buffer.raw_data[np.isfinite(buffer.raw_data)]).max(initial=0)
            np.testing.assert_allclose(ours.raw_data, buffer.raw_data, rtol=rtol, atol=rtol * scale)


def is_exact(name, dtype):
    # Products of 64 bits are beyond what double precision holds.
    wide = name.startswith("masks") and dtype.itemsize == 8
    return name in EXACT and dtype.kind in "biu" and not wide


@pytest.mark.parametrize("name", UDFS)
def test_as_by_the_kernel(ctx, device, name):
    make = UDFS[name]
    for dtype in DTYPES:
        data = frames_for(name, dtype)
        if data.dtype.kind == "c" and name in NO_COMPLEX:
            continue
        dataset = ctx.load("memory", data=data, num_partitions=3)
        for of_roi in (False, True):
            udf = make()
            found = ctx.run_udf(dataset, udf, roi=ROI if of_roi else None, backends="cupy")
            expected = by_the_kernel(name, dtype, of_roi=of_roi)
            check_same(found, expected, is_exact(name, data.dtype))
            assert list(udf.results.keys()) == list(expected)  # the object has learned them
    explained = ctx.explain(dataset, make(), backends="cupy")
    assert re.search(rf"{type(make()).__name__}: by \w+, cupy", explained), explained
    device.check_released()


@pytest.mark.filterwarnings("ignore::framefold.warnings.NoIntensityWarning")
@pytest.mark.parametrize("name", UDFS)
def test_of_sparse_and_of_corrected_data(ctx, machine, tmp_path, name):
    data = frames_of("uint16")
    path = write_raw_csr(tmp_path, np.where(data > 60000, data, 0).reshape(-1, *SIG), NAV)
    sparse = ctx.load("raw_csr", path, num_partitions=3)
    found = ctx.run_udf(sparse, UDFS[name](), backends="cupy")
    expected = ctx.run_udf(sparse, UDFS[name]())
    check_same(found, expected, is_exact(name, data.dtype))
    dense = ctx.load("memory", data=data, num_partitions=3)
    corrections = CorrectionSet(dark=np.full(SIG, 7), gain=np.full(SIG, 1.5))
    found = ctx.run_udf(dense, UDFS[name](), corrections=corrections, backends="cupy")
    check_same(found, ctx.run_udf(dense, UDFS[name](), corrections=corrections), exact=False)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_frame_and_frames_without_intensity(ctx, machine):
    data = frames_of("uint16")
    data[2:4] = 0
    dataset = ctx.load("memory", data=data, num_partitions=3, sync_offset=4)
    for name, make in UDFS.items():
        check_same(
            ctx.run_udf(dataset, make(), backends="cupy"),
            ctx.run_udf(dataset, make()),
            is_exact(name, data.dtype),
        )
        none = ctx.run_udf(dataset, make(), roi=np.zeros(NAV, bool), backends="cupy")
        expected = ctx.run_udf(dataset, make(), roi=np.zeros(NAV, bool))
        for key, buffer in expected.items():
            assert (none[key].kind, none[key].dtype) == (buffer.kind, buffer.dtype)
            np.testing.assert_array_equal(none[key].raw_data, buffer.raw_data)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dtype", ["bool", "uint16", "float16", "float32", "complex64"])
@pytest.mark.parametrize("name", ["frames", "sum of each frame", "masks"])
def test_rows_without_a_frame(ctx, device, name, dtype):
    """Those of missing frames, and in partial results, those of frames to come."""
    data = frames_of(dtype)
    dataset = ctx.load("memory", data=data, num_partitions=3, sync_offset=4)
    steps = [ctx.run_udf_iter(dataset, UDFS[name](), backends=b) for b in ("cupy", "numpy")]
    for found, expected in zip(*steps, strict=True):
        rows = [step.buffers[0]["intensity"].raw_data for step in (found, expected)]
        for part in ("real", "imag"):
            ours, theirs = (np.isnan(getattr(array, part)) for array in rows)
            np.testing.assert_array_equal(ours, theirs)
    check_same(found.buffers[0], expected.buffers[0], exact=name == "frames")


def test_sums_of_64_bits(ctx, machine):
    data = np.full((2, 2, 3, 4), np.iinfo(np.int64).max, dtype=np.int64)
    data[0, 0] = 5
    dataset = ctx.load("memory", data=data, num_partitions=2)
    sums = ctx.run_udf(dataset, SumSigUDF(), backends="cupy")["intensity"]
    np.testing.assert_array_equal(sums.data, [[60, 2.0**63 * 12], [2.0**63 * 12] * 2])
    for backends in ("cupy", None):
        with pytest.raises(InvalidArgumentError, match=r"which int64 cannot hold"):
            ctx.run_udf(dataset, ff.SumUDF(dtype="int64"), backends=backends)


def test_sums_of_64_bits_of_classes_with_methods_of_their_own(ctx, machine):
    data = np.full((2, 2, 3, 4), np.iinfo(np.int64).max, dtype=np.int64)
    data[0, 0] = 5
    dataset = ctx.load("memory", data=data, num_partitions=1)
    sums = ctx.run_udf(dataset, in_python(SumSigUDF)(), backends="cupy")["intensity"]
    np.testing.assert_array_equal(sums.data, [[60, 2.0**63 * 12], [2.0**63 * 12] * 2])
    floats = ctx.run_udf(dataset, in_python(ff.SumUDF)(), backends="cupy")["intensity"]
    np.testing.assert_array_equal(floats.data, np.full((3, 4), 3 * 2.0**63))
    with pytest.raises(InvalidArgumentError, match=r"which int64 cannot hold"):
        ctx.run_udf(dataset, in_python(ff.SumUDF)(dtype="int64"), backends="cupy")
    data[:] = [[[[2**62]], [[2**62]]], [[[-(2**62)]], [[7 - 2**62]]]]
    dataset = ctx.load("memory", data=data, num_partitions=1)
    whole = ctx.run_udf(dataset, in_python(ff.SumUDF)(dtype="int64"), backends="cupy")
    assert (whole["intensity"].data == 7).all()


class Total(ff.UDF):
    """Of frames in single precision, or wider."""

    def get_backends(self):
        return (self.BACKEND_CUPY,)

    def get_result_buffers(self):
        return {"total": self.buffer("nav", dtype=self.meta.input_dtype)}

    def process_frame(self, frame):
        self.results.total[:] = frame.sum().get()


def test_integers_of_64_bits_beside_single_precision(ctx, device):
    data = np.full((2, 3, 4, 5), 2**53 + 1)
    dataset = ctx.load("memory", data=data, num_partitions=2)
    largest, total = ctx.run_udf(dataset, [ff.MaxUDF(), Total()], backends="cupy")
    assert largest["intensity"].data.dtype == data.dtype
    np.testing.assert_array_equal(largest["intensity"].data, data[0, 0])
    np.testing.assert_array_equal(total["total"].data, data.astype("float64").sum(axis=(2, 3)))


@pytest.mark.parametrize("dtype", ["uint64", "int64"])
def test_means_of_64_bits(ctx, device, dtype):
    """Sums that no integer holds, and the smallest part of them."""
    data = np.full((2, 3, 2, 2), 5, dtype)
    data[..., 0, 0] = np.iinfo(dtype).max
    data[..., 0, 1] = np.iinfo(dtype).min
    dataset = ctx.load("memory", data=data, num_partitions=2)
    found = ctx.run_udf(dataset, ff.StdDevUDF(), backends="cupy")
    for name, buffer in ctx.run_udf(dataset, ff.StdDevUDF()).items():
        np.testing.assert_array_equal(found[name].data, buffer.data)
    np.testing.assert_array_equal(found["mean"].data, data[0, 0].astype("float64"))


@pytest.mark.parametrize("dtype", ["uint64", "int64"])
@pytest.mark.parametrize("lowest", ["min", "max"])
def test_logarithms_of_64_bits(ctx, device, dtype, lowest):
    """Small steps above the smallest number, and below the largest one, and all between them."""
    limits = np.iinfo(dtype)
    data = np.full((2, 3, 2, 4), limits.min if lowest == "min" else limits.max - 7, dtype)
    data += np.arange(8, dtype=dtype).reshape((2, 4))
    dataset = ctx.load("memory", data=data, num_partitions=2)
    found = ctx.run_udf(dataset, LogsumUDF(), backends="cupy")["logsum"].data
    expected = 6 * np.log1p(np.arange(8.0).reshape((2, 4)))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    data[..., 0, 0], data[..., 1, 3] = limits.min, limits.max
    dataset = ctx.load("memory", data=data, num_partitions=2)
    found = ctx.run_udf(dataset, LogsumUDF(), backends="cupy")
    check_same(found, ctx.run_udf(dataset, LogsumUDF()), exact=False)


def test_logarithms_of_all_that_single_precision_has(ctx, device):
    data = np.zeros((2, 2, 2), dtype="float32")
    data[:, 0] = np.finfo("float32").max, np.finfo("float32").min
    data[1, 1] = 1, 1 + 2**-20
    dataset = ctx.load("memory", data=data, sig_dims=2)
    found = ctx.run_udf(dataset, LogsumUDF(), backends="cupy")
    check_same(found, ctx.run_udf(dataset, LogsumUDF()), exact=False)
    assert np.isfinite(found["logsum"].data).all()


def test_an_infinite_part_leaves_the_other_alone(ctx, device):
    data = np.full((3, 4, 5), 1 + 2j, dtype="complex64")
    data.real[0, 0, 0], data.imag[1, 1, 1] = np.inf, -np.inf
    dataset = ctx.load("memory", data=data, sig_dims=2)
    for factor in (1, 2):
        corrections = CorrectionSet(gain=np.full((4, 5), factor)) if factor != 1 else None
        udfs = [ff.PickUDF(), ReductionUDF("stddev")]
        frames, moments = ctx.run_udf(dataset, udfs, corrections=corrections, backends="cupy")
        for part in ("real", "imag"):
            expected, found = getattr(data, part) * factor, frames["intensity"].raw_data
            np.testing.assert_array_equal(getattr(found, part), expected.reshape(found.shape))
            mean = getattr(moments["mean"].data, part)
            np.testing.assert_allclose(mean, expected.mean(axis=0), rtol=1e-6)


def test_pixels_that_are_no_numbers(ctx, machine):
    data = frames_of("float32")
    data[..., 0, 0] = np.nan
    data[1, 1, 3, 3] = np.inf
    dataset = ctx.load("memory", data=data, num_partitions=3)
    for udf in (ff.CoMUDF(cy=3, cx=4, r=3.5), ff.MaxUDF(), ff.SumUDF(), ff.StdDevUDF()):
        with np.errstate(invalid="ignore"):
            found = ctx.run_udf(dataset, udf, backends="cupy")
        for name, buffer in ctx.run_udf(dataset, udf).items():
            np.testing.assert_allclose(found[name].raw_data, buffer.raw_data, rtol=1e-5)


class Louder(ff.SumUDF):
    def process_tile(self, tile):
        super().process_tile(tile * 2)


def test_what_stays_on_the_kernel_or_in_python(ctx, machine):
    data = frames_of("uint16")
    dataset = ctx.load("memory", data=data, num_partitions=3)
    shifted = [
        ff.CoMUDF(shifts=(0.5, 1)),
        ff.ApplyMasksUDF(lambda: dense_masks(2, SIG), shifts=(1, 2)),
    ]
    # Sums of masks stand on the kernel, if the run is not for devices alone.
    for udf, backends in [*((udf, "cupy") for udf in shifted), (ff.SumUDF(), ("numpy", "cupy"))]:
        check_same(
            ctx.run_udf(dataset, udf, backends=backends), ctx.run_udf(dataset, udf), exact=True
        )
        assert machine.memory == type(machine.memory)()
        assert "kernel" not in {kind for kind, _ in machine.log}
    louder = ctx.run_udf(dataset, Louder(), backends="cupy")["intensity"]
    np.testing.assert_array_equal(louder.data, 2 * data.sum(axis=(0, 1)))
    without = ff.Context.make_with("inline", gpus=0)
    with pytest.raises(UnsupportedError, match="needs a CUDA worker"):
        without.run_udf(dataset, ff.MaxUDF(), backends="cupy")


class Powers(UDF):
    def get_backends(self):
        return (self.BACKEND_CUPY,)

    def get_result_buffers(self):
        return {"each": self.buffer("nav", dtype="float64", where="device")}

    def process_frame(self, frame):
        self.results.each[:] = (frame * frame).sum()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint32", "int64", "float32"])
def test_beside_functions_of_ones_own(ctx, machine, dtype):
    """These have the run's tiles in a dtype that holds what all of them wish for."""
    data = frames_for("sum in integers", dtype)
    dataset = ctx.load("memory", data=data, num_partitions=3)
    udfs = [make() for make in UDFS.values()]
    *results, powers = ctx.run_udf(dataset, [*udfs, Powers()], backends="cupy")
    for name, found in zip(UDFS, results, strict=True):
        exact = is_exact(name, data.dtype)
        check_same(found, ctx.run_udf(dataset, UDFS[name]()), exact)
    squares = (data.astype(float) ** 2).sum(axis=(2, 3))
    np.testing.assert_allclose(powers["each"].data, squares, rtol=1e-6)


def test_step_by_step(ctx, machine):
    data = frames_of("uint8")
    dataset = ctx.load("memory", data=data, num_partitions=3)
    total = ff.SumUDF()
    steps = ctx.run_udf_iter(dataset, total, backends="cupy")
    next(steps)
    with pytest.raises(UnsupportedError, match="whose parameters are fixed"):
        steps.update(total, dtype="float64")
    *_, last = steps
    np.testing.assert_array_equal(last.buffers[0]["intensity"].data, data.sum(axis=(0, 1)))


def test_results_that_are_files(ctx, machine, tmp_path):
    data = frames_of("uint16")
    dataset = ctx.load("memory", data=data, num_partitions=3)
    udfs = [ff.CoMUDF(), SumSigUDF(), ff.StdDevUDF()]
    found = ctx.run_udf(dataset, udfs, backends="cupy", out=tmp_path / "results.zarr")
    for one, expected in zip(found, ctx.run_udf(dataset, udfs), strict=True):
        for name, buffer in expected.items():
            np.testing.assert_allclose(np.asarray(one[name].data), buffer.data, rtol=1e-5)


def test_results_that_are_kept(machine, tmp_path):
    data = frames_of("uint16")
    np.save(tmp_path / "scan.npy", data)
    settled(tmp_path / "scan.npy")
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("npy", tmp_path / "scan.npy", sig_dims=2)
    first = ctx.run_udf(dataset, ff.CoMUDF(), backends="cupy", cache=True)
    n_transfers = len(machine.log)
    udf = ff.CoMUDF()
    again = ctx.run_udf(dataset, udf, backends="cupy", cache=True)
    assert len(machine.log) == n_transfers
    check_same(again, first, exact=True)
    assert list(udf.results.keys()) == list(first)


@pytest.mark.parametrize("most", [1 << 16, 4])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("sig", [(6, 8), (5, 7), (3, 2)])
def test_sums_of_two_pixels_at_a_time(ctx, device, monkeypatch, sig, dtype, most):
    """The largest numbers that there are, in all frames, and others."""
    monkeypatch.setattr(pairs, "MOST_FRAMES", most)
    rng = np.random.default_rng(5)
    data = rng.integers(0, np.iinfo(dtype).max, (9, 700, *sig), dtype=dtype, endpoint=True)
    data[:, :, 1] = np.iinfo(dtype).max
    dataset = ctx.load("memory", data=data, sig_dims=2)
    result = ctx.run_udf(dataset, ff.SumUDF(), backends="cupy")
    expected = data.sum(axis=(0, 1), dtype="int64")
    np.testing.assert_array_equal(result["intensity"].data, expected.astype("float32"))
    frames = device.cupy.asarray(data.reshape((-1, *sig)))
    if most > 4 and sig[-1] % 2 == 0:
        assert pairs.are_paired(frames)
        np.testing.assert_array_equal(pairs.sum_of_frames(frames).get(), expected)
    else:
        assert not pairs.are_paired(frames)


@pytest.mark.parametrize("n_frames", [1 << 16, (1 << 16) + 2])
def test_sums_of_two_pixels_have_room(ctx, device, n_frames):
    """The largest number in as many frames as one sum may have, and in some more."""
    data = np.full((n_frames, 1, 2), 65535, dtype=np.uint16)
    data[:, 0, 1] = 1
    dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=1)
    result = ctx.run_udf(dataset, ff.SumUDF(dtype="int64"), backends="cupy")
    np.testing.assert_array_equal(result["intensity"].data, data.sum(axis=0, dtype="int64"))


@pytest.mark.parametrize("name", ["frames", "masks", "largest", "deviations"])
def test_what_is_written_into_results_is_in_no_later_ones(ctx, machine, name):
    dataset = ctx.load("memory", data=frames_of("uint16"), num_partitions=3)
    steps = ctx.run_udf_iter(dataset, UDFS[name](), backends="cupy")
    last = list(steps)[-1].buffers[0]
    before = {key: buffer.raw_data.copy() for key, buffer in last.items()}
    for buffer in last.values():
        buffer.raw_data[...] = 5
    for key, buffer in steps.results_so_far().buffers[0].items():
        np.testing.assert_array_equal(buffer.raw_data, before[key])


def test_a_centre_has_the_pixels_of_its_rim(ctx, machine):
    # Roots are rounded: np.hypot(2, 3) is this radius, whose square is below 13.
    r = float(np.hypot(2, 3))
    data = np.zeros((1, 9, 9), dtype="float32")
    data[0, 4, 4] = data[0, 6, 7] = 1
    dataset = ctx.load("memory", data=data, sig_dims=2)
    for params in ({"r": r}, {"r": 5, "ri": r}):
        udf = ff.CoMUDF(cy=4, cx=4, **params)
        found = ctx.run_udf(dataset, udf, backends="cupy")["raw_com"].data
        np.testing.assert_array_equal(found, ctx.run_udf(dataset, udf)["raw_com"].data)
