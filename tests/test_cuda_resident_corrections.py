"""Corrections of runs over frames that stay in the memory of a CUDA device."""

from __future__ import annotations

import copy
import os

import numpy as np
import pytest
from cuda_udfs import NAV, SIG, Frames
from test_cuda_reductions import (
    NO_COMPLEX,
    ROI,
    UDFS,
    by_the_kernel,
    check_same,
    frames_for,
    frames_of,
)
from test_cuda_resident import Zeroes, n_sent
from test_cuda_staging import OnCpu, Wanted

import framefold as ff
from framefold.arrays.cuda import placement
from framefold.arrays.cuda.corrections import DeviceCorrections
from framefold.corrections import CorrectionSet
from framefold.exceptions import UnsupportedError
from framefold.io.corrections.detector import correct

RNG = np.random.default_rng(8)
DARK, GAIN = RNG.random(SIG), RNG.random(SIG) + 0.5
#: One in a corner, two beside each other, and a block with one that has no good neighbour.
EXCLUDED = np.zeros(SIG, dtype=bool)
EXCLUDED[0, 0] = EXCLUDED[2, 4] = EXCLUDED[2, 5] = EXCLUDED[6, 2] = True
EXCLUDED[3:6, 6:9] = True
DARK[EXCLUDED] = np.nan
PARTS = {
    "dark": {"dark": np.nan_to_num(DARK)},
    "gain": {"gain": GAIN},
    "excluded": {"excluded_pixels": EXCLUDED},
    "all": {"dark": DARK, "gain": GAIN, "excluded_pixels": EXCLUDED},
}
#: Neither leaves a pixel that is not finite.
FINITE = CorrectionSet(np.nan_to_num(DARK), GAIN, EXCLUDED, allow_empty=True)


#: When transfers come is looked at by fewer tests.
NOT_TWICE = pytest.mark.parametrize("device", ["late", "real"], indirect=True)


@pytest.fixture(autouse=True)
def several_partitions(monkeypatch):
    """As in runs over more frames than these."""
    monkeypatch.setattr(placement, "RESIDENT_PARTITIONS", 3)
    monkeypatch.setattr(placement, "RESIDENT_PARTITION_BYTES", 1)
    monkeypatch.setattr(placement, "REDUCED_PARTITION_BYTES", 1)


@pytest.fixture
def data():
    return frames_of("uint16")


@pytest.fixture
def dataset(ctx, data):
    return ctx.load("memory", data=data, num_partitions=3)


def by_numpy(data, parts):
    """The frames, corrected in their own dtype."""
    dark, gain, excluded = (parts.get(name) for name in ("dark", "gain", "excluded_pixels"))
    return correct(data, dark, gain, excluded, allow_empty=True)


@NOT_TWICE
@pytest.mark.parametrize("wanted", [None, "float32", "float64", "complex64"])
@pytest.mark.parametrize("native", ["bool", "uint16", "int64", "float16", "float32", "complex64"])
def test_tiles_have_the_bits_of_those_from_the_file(ctx, device, native, wanted):
    data = frames_of(native)
    common = np.result_type(native, wanted or np.float32, np.float32)
    dataset = ctx.load("memory", data=data, num_partitions=3)
    udf = Wanted(wanted)
    with dataset.to_device() as resident, dataset.to_device(roi=ROI) as region:
        for parts in PARTS.values():
            corrections = CorrectionSet(**parts, allow_empty=True)
            expected = by_numpy(data.astype(common), parts)
            for roi, on_device in ((None, [resident]), (ROI, [resident, region])):
                chosen = expected.reshape((-1, *SIG)) if roi is None else expected[roi]
                for frames in on_device:
                    (found,) = ctx.run_udf(frames, [udf], roi=roi, corrections=corrections)
                    assert found["tile"].dtype == common
                    np.testing.assert_array_equal(found["tile"].raw_data, chosen)
                for other in (udf, OnCpu(wanted)):
                    from_file = ctx.run_udf(dataset, other, roi=roi, corrections=corrections)
                    np.testing.assert_array_equal(from_file["tile"].raw_data, chosen)
            np.testing.assert_array_equal(resident.resident.array.get(), data.reshape((-1, *SIG)))
    device.check_released()


class InParts(Wanted):
    """Gets tiles that are narrower than frames."""

    def get_tiling_preferences(self):
        return {} if self.params.depth is None else {"depth": 2, "total_size": self.params.depth}

    def process_tile(self, tile):
        assert tile.shape[1:] != SIG
        assert tile.flags.c_contiguous
        super().process_tile(tile)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("roi", [None, ROI], ids=["all", "roi"])
def test_parts_of_frames_are_repaired_with_pixels_of_others(ctx, device, data, roi, parts):
    expected = by_numpy(data.astype("float32"), PARTS[parts])
    expected = expected.reshape((-1, *SIG)) if roi is None else expected[roi]
    corrections = CorrectionSet(**PARTS[parts], allow_empty=True)
    for tileshape, size in (((2, 3, 5), None), ((2, 1, 9), None), (None, 100)):
        dataset = ctx.load("memory", data=data, num_partitions=3, tileshape=tileshape)
        with dataset.to_device() as resident:
            udf = InParts("float32", size)
            found = ctx.run_udf(resident, udf, roi=roi, corrections=corrections)
            np.testing.assert_array_equal(found["tile"].raw_data, expected)
    device.check_released()


@NOT_TWICE
@pytest.mark.parametrize("native", ["uint8", "int64", "float32", "complex64"])
@pytest.mark.parametrize("name", UDFS)
def test_reductions(ctx, device, name, native):
    data = frames_for(name, native)
    if data.dtype.kind == "c" and name in NO_COMPLEX:
        return
    dataset = ctx.load("memory", data=data, num_partitions=3)
    with dataset.to_device() as resident:
        for of_roi in (False, True):
            roi = ROI if of_roi else None
            found = ctx.run_udf(resident, UDFS[name](), roi=roi, corrections=FINITE)
            expected = by_the_kernel(name, native, of_roi=of_roi, corrections=FINITE)
            check_same(found, expected, exact=name in ("frames", "largest", "largest by name"))
        assert ", cupy, " in ctx.explain(resident, UDFS[name](), corrections=FINITE)
        np.testing.assert_array_equal(resident.resident.array.get(), data.reshape((-1, *SIG)))
    device.check_released()


@pytest.mark.parametrize("method", ["tile", "frame", "frames", "partition"])
def test_several_functions_of_a_run(ctx, device, dataset, data, monkeypatch, method):
    """Each gets corrected tiles, whatever others write; once corrected in each dtype."""
    n_corrected = []

    def apply(self, frames, apply=DeviceCorrections.apply):
        n_corrected.append(len(frames))
        return apply(self, frames)

    monkeypatch.setattr(DeviceCorrections, "apply", apply)
    expected, single = (by_numpy(data.astype(f), PARTS["all"]) for f in ("float64", "float32"))
    corrections = CorrectionSet(**PARTS["all"], allow_empty=True)
    with dataset.to_device() as resident:
        udfs = [Zeroes(method, "float64"), Wanted("float64"), ff.PickUDF(), Zeroes(method, None)]
        for _ in range(2):
            del n_corrected[:]
            _, tiles, frames, _ = ctx.run_udf(resident, udfs, corrections=corrections)
            np.testing.assert_array_equal(tiles["tile"].data, expected)
            found = frames["intensity"].data.reshape(expected.shape)
            np.testing.assert_array_equal(found, single)
            assert sum(n_corrected) == 2 * 30
        np.testing.assert_array_equal(resident.resident.array.get(), data.reshape((-1, *SIG)))
    device.check_released()


def test_functions_on_the_cpu_beside_it(ctx, device, dataset, data):
    expected = by_numpy(data.astype("float32"), PARTS["gain"])
    corrections = CorrectionSet(**PARTS["gain"])
    with dataset.to_device() as resident:
        udfs = [Wanted("float32"), OnCpu("float32")]
        for found in ctx.run_udf(resident, udfs, corrections=corrections):
            np.testing.assert_array_equal(found["tile"].data, expected)
        for udf, backends in ((OnCpu("float32"), None), (ff.PickUDF(), "numpy")):
            found = ctx.run_udf(resident, udf, corrections=corrections, backends=backends)
            (buffer,) = found.values()
            np.testing.assert_array_equal(buffer.data.reshape(expected.shape), expected)


def test_nothing_is_read_or_sent(ctx, machine, data, tmp_path):
    """The file is emptied while it is open: whatever is read of it is an error."""
    path = tmp_path / "frames.raw"
    data.tofile(path)
    dataset = ctx.load("raw", path, dtype=data.dtype, nav_shape=NAV, sig_shape=SIG)
    expected = by_numpy(data.astype("float32"), PARTS["gain"])
    with dataset.to_device() as resident:
        os.truncate(path, 0)
        before = n_sent(machine)
        udfs = [Wanted("float32"), ff.PickUDF()]
        for found in ctx.run_udf(resident, udfs, corrections=CorrectionSet(gain=GAIN)):
            (buffer,) = found.values()
            np.testing.assert_array_equal(buffer.data.reshape(expected.shape), expected)
        assert n_sent(machine) == before


def test_tiles_are_no_deeper_than_copies_may_be(ctx, machine, monkeypatch):
    monkeypatch.setattr(placement, "TILE_BYTES", 32 << 20)
    monkeypatch.setattr(placement, "RESIDENT_PARTITIONS", 1)
    resident = ctx.load("memory", data=np.zeros((40, 100, 64, 64), dtype=np.uint8)).to_device()
    assert "up to 4000 frames" in ctx.explain(resident, ff.SumUDF())
    gain = CorrectionSet(gain=np.ones((64, 64)))
    assert "up to 2048 frames" in ctx.explain(resident, ff.SumUDF(), corrections=gain)


def test_without_any(ctx, machine, dataset, data):
    class Sees(Frames):
        def process_frame(self, frame):
            assert not self.meta.corrections.have_corrections()
            assert self.meta.input_dtype == self.meta.dataset_dtype
            super().process_frame(frame)

        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

    resident = dataset.to_device()
    for none in (None, CorrectionSet(), CorrectionSet(excluded_pixels=np.zeros(SIG, bool))):
        found, total = ctx.run_udf(resident, [Sees(), ff.SumUDF()], corrections=none)
        np.testing.assert_array_equal(found["each"].data, data.sum(axis=(2, 3)))
        np.testing.assert_array_equal(total["intensity"].data, data.sum(axis=(0, 1)))


def test_they_come_after_stages(ctx, device, dataset, data):
    """Corrections of a run are for the frames that the data set has."""
    gain = CorrectionSet(gain=GAIN)
    piped = dataset.pipe(CorrectionSet(dark=np.full(SIG, 3.0)), ff.Crop(np.s_[1:7, 1:9]))
    part = np.s_[1:7, 1:9]
    cropped = CorrectionSet(DARK[part], excluded_pixels=EXCLUDED[part], allow_empty=True)
    with piped.to_device() as resident:
        found = ctx.run_udf(resident, ff.PickUDF(), corrections=cropped)
        expected = ctx.run_udf(piped, ff.PickUDF(), corrections=cropped)
        check_same(found, expected, exact=True)
        with pytest.raises(ff.exceptions.InvalidArgumentError, match="shape"):
            ctx.run_udf(resident, ff.PickUDF(), corrections=gain)
    device.check_released()


def test_those_of_the_data_set_are_applied_once(ctx, machine, dataset, data, tmp_path):
    dark = CorrectionSet(dark=np.full(SIG, 3.0))
    own = copy.copy(dataset)
    own._set_engine(own._engine.with_corrections(dark.for_shape(SIG)))
    resident = own.to_device()
    assert resident.dtype == np.float32
    for udf in (ff.SumUDF(), ff.MaxUDF(), ff.PickUDF()):
        found, expected = ctx.run_udf(resident, udf), ctx.run_udf(own, udf)
        check_same(found, expected, exact=False)
    np.testing.assert_allclose(resident[1, 1], data[1, 1] - 3.0)
    # Others would take their place, and pixels without them are not there.
    match = r"have the corrections of the data set.*leave corrections out"
    for frames in (resident, resident.calibrate(scan_step="2nm"), resident.to_device()):
        for other in (dark, CorrectionSet()):
            for backends in (None, "numpy"):
                with pytest.raises(UnsupportedError, match=match):
                    ctx.run_udf(frames, ff.SumUDF(), corrections=other, backends=backends)
            with pytest.raises(UnsupportedError, match=match):
                ctx.run_udf(frames, OnCpu(), corrections=other)
        with pytest.raises(UnsupportedError, match=match):
            ctx.export_dataset(frames, tmp_path / "frames.npy", corrections=dark)
