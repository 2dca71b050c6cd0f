"""Scans of blocks of positions, held against NumPy on the whole array, and beside other stages."""

from __future__ import annotations

import json
import pickle
from itertools import product

import numpy as np
import pytest
from shared_contexts import shared
from stage_cases import (
    CASES,
    DTYPES,
    SIG,
    Frames,
    binned,
    check,
    counted,
    numbers,
    piped,
    rebinned,
    shifted,
)

import framefold as ff
from framefold.exceptions import InvalidArgumentError
from framefold.io.corrections import CorrectionSet
from framefold.warnings import DataSetWarning


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


#: Blocks of scan positions, by names as those of CASES.
REBINS = {
    "rebin*": (lambda: ff.Rebin(2), lambda a: rebinned(a, 2)),
    "rebin uneven*": (lambda: ff.Rebin((3, 1)), lambda a: rebinned(a, (3, 1))),
    "rebin mean*": (lambda: ff.Rebin((1, 4), mean=True), lambda a: rebinned(a, (1, 4), mean=True)),
    "rebin all*": (lambda: ff.Rebin(1), lambda a: rebinned(a, 1)),
}


@pytest.mark.parametrize("name", REBINS)
def test_blocks_of_a_scan_give_what_numpy_gives(ctx, name):
    make, by_numpy = REBINS[name]
    for dtype in DTYPES:
        array = numbers((5, 7, *SIG), dtype)
        dataset = piped(ctx.load("memory", data=array), make())
        expected = by_numpy(array)
        assert dataset.dtype == expected.dtype
        assert tuple(dataset.shape) == expected.shape
        check(np.asarray(dataset), expected, f"{name} of {dtype}")


@pytest.mark.parametrize("name", REBINS)
def test_blocks_beside_other_stages(ctx, name):
    array = numbers((5, 7, *SIG), "uint16", seed=16)
    dataset = ctx.load("memory", data=array)
    make, by_numpy = REBINS[name]
    for other, (make_other, other_by_numpy) in CASES.items():
        # What belongs to a position of one scan is not for another one.
        if other in ("shift whole", "shift mixed*"):
            continue
        if by_numpy(array).dtype == np.float32 and other.startswith(("threshold", "cast", "count")):
            continue
        found = np.asarray(piped(dataset, make(), make_other()))
        check(found, other_by_numpy(by_numpy(array)), f"{name}, then {other}*")
        found = np.asarray(piped(dataset, make_other(), make()))
        check(found, by_numpy(other_by_numpy(array)), f"{other}, then {name}*")
    twice = piped(dataset, make(), ff.Rebin((1, 1)), ff.Rebin((1, 1), mean=False))
    check(np.asarray(twice), by_numpy(array), f"{name} twice")
    moved = piped(dataset, ff.Rebin((1, 1)), ff.Shift(np.full((5, 7, 2), 3)), make())
    check(np.asarray(moved), by_numpy(shifted(array, (3, 3))), f"shifted, then {name}")


@pytest.mark.parametrize("method", ["tile", "frame", "partition"])
def test_blocks_in_any_tiling_and_region(ctx, method):
    array = numbers((5, 7, *SIG), "int16", seed=17)
    expected = rebinned(array, (2, 3))
    roi = np.array([[True, False], [False, True]])
    dataset = ctx.load("memory", data=array, num_partitions=3)
    dataset = piped(dataset, ff.Rebin((2, 3)))
    for depth, size, mask in product((1, 4), (400, 1 << 20), (None, roi)):
        found = ctx.run_udf(dataset=dataset, udf=Frames(method, depth, size), roi=mask)
        chosen = expected[np.ones((2, 2), bool) if mask is None else mask]
        check(found["frames"].raw_data, chosen, f"{method} {depth} {size}")


@pytest.mark.parametrize("executor", ["threads", "processes", "dask", "delayed"])
def test_blocks_on_every_executor(executor):
    array = numbers((8, 9, *SIG), "float32", seed=18)
    expected = shifted(rebinned(binned(array, 2), (2, 3)), (1, 2))
    with shared(executor) as ctx, ff.Context.make_with("inline") as inline:
        stages = ff.Bin(2), ff.Rebin((2, 3)), ff.Shift((1, 2))
        dataset = piped(ctx.load("memory", data=array, num_partitions=3), *stages)
        results = ctx.run_udf(dataset=dataset, udf=[ff.StdDevUDF(), Frames()])
        check(np.asarray(results[1]["frames"].data), expected, f"{executor}*")
        same = inline.run_udf(dataset=dataset, udf=[ff.StdDevUDF(), Frames()])
        for one, other in zip(results, same, strict=True):
            for key in one:
                assert one[key].data.tobytes() == other[key].data.tobytes()


@pytest.mark.filterwarnings("ignore::framefold.warnings.DataSetWarning")
@pytest.mark.filterwarnings("ignore::framefold.warnings.MissingFramesWarning")
def test_blocks_without_data(ctx):
    array = numbers((24, *SIG), "uint16", seed=19)
    for sync_offset in (-3, 0, 5):
        dataset = ctx.load("memory", data=array, nav_shape=(4, 6), sync_offset=sync_offset)
        blocks = dataset.pipe(ff.Rebin((2, 3)))
        scan, there = np.zeros((24, *SIG), np.uint16), np.zeros(24, bool)
        for position in range(24):
            if 0 <= position + sync_offset < 24:
                scan[position], there[position] = array[position + sync_offset], True
        whole = there.reshape((2, 2, 2, 3)).all((1, 3))
        found = ctx.run_udf(dataset=blocks, udf=Frames())["frames"]
        np.testing.assert_array_equal(found.valid_mask.reshape((2, 2, -1))[..., 0], whole)
        expected = rebinned(scan.reshape((4, 6, *SIG)), (2, 3))
        check(np.asarray(found.data)[whole], expected[whole], str(sync_offset))
        # Shifts belong to the positions of the new scan.
        yx = np.arange(8).reshape((2, 2, 2)) - 4
        moved = ctx.run_udf(dataset=blocks.pipe(ff.Shift(yx)), udf=Frames())["frames"]
        check(np.asarray(moved.data)[whole], shifted(expected, yx)[whole], str(sync_offset))


def test_blocks_are_a_data_set(ctx, tmp_path):
    array = numbers((5, 6, *SIG), "uint16", seed=20)
    np.save(tmp_path / "scan.npy", array)
    opened = ctx.open(tmp_path / "scan.npy", scan_step="0.5nm", pixel_size="2mrad")
    with pytest.warns(DataSetWarning, match=r"'rebin 2,2' leaves out the last \[1, 0\] positions"):
        blocks = opened.pipe(ff.Rebin(2))
    expected = rebinned(array, 2)
    axis = blocks.axes[0]
    assert (axis.size, axis.scale, axis.offset, axis.unit) == (2, 1.0, 0.25, "nm")
    assert (blocks.axes[-1].scale, blocks.axes[-1].size) == (2.0, SIG[1])
    check(np.asarray(pickle.loads(pickle.dumps(blocks))), expected, "pickled")
    check(blocks[1, 2], expected[1, 2], "a frame")
    check(blocks.frame(0, 1), expected[0, 1], "a frame")
    for name in ("copy.npy", "copy.zarr", "copy.h5"):
        ctx.export_dataset(blocks, tmp_path / name)
        copy = ctx.open(tmp_path / name)
        check(np.asarray(copy), expected, name)
    assert ctx.open(tmp_path / "copy.zarr").axes[0].offset == 0.25
    assert blocks.stages == ["rebin 2,2"]
    assert "rebin 2,2" in str(ctx.explain(dataset=blocks, udf=ff.SumUDF()))
    assert piped(opened, "rebin 2").stages == blocks.stages
    dask_array = ff.contrib.daskadapter.make_dask_array(blocks)[0]
    check(np.asarray(dask_array.compute()), expected, "a Dask array")
    dark = np.full(SIG, 3, "f4")
    corrected = piped(opened, CorrectionSet(dark=dark), ff.Rebin(2))
    check(np.asarray(corrected), rebinned(array.astype("f4") - dark, 2), "corrected*")


@pytest.fixture
def described(ctx, tmp_path):
    """Frames of which times and counts are known."""
    array = numbers((4, 6, *SIG), "uint16", seed=23)
    ctx.export_dataset(ctx.load("memory", data=array), tmp_path / "scan.zarr")
    path = tmp_path / "scan.zarr" / "zarr.json"
    tree = json.loads(path.read_text())
    facts = {"exposure_time": 0.5, "dwell_time": 0.75, "frame_time": 1.0}
    known = {name: {"value": value, "unit": "s"} for name, value in facts.items()}
    known |= {name: {"value": 12} for name in ("bit_depth", "counts_per_electron")}
    tree["attributes"]["metadata"] = known
    path.write_text(json.dumps(tree))
    dataset = ctx.open(tmp_path / "scan.zarr")
    assert set(dataset.metadata) == set(known)
    return dataset


@pytest.mark.parametrize(
    ("stage", "changed", "forgotten"),
    [
        (ff.Rebin(1), {}, ""),
        (ff.Rebin((1, 3)), {"exposure_time": 1.5, "dwell_time": 2.25, "frame_time": 3}, "b"),
        (ff.Rebin(2), {"exposure_time": 2.0, "dwell_time": 3.0}, "bf"),
        (ff.Rebin(2, mean=True), {}, "bf"),
        (ff.Rebin((1, 3), mean=True), {"frame_time": 3}, "b"),
        (ff.Bin(2), {}, "b"),
        (ff.Bin(2, mean=True), {"counts_per_electron": 3}, "b"),
        (ff.Crop(np.s_[1:, 1:]), {}, ""),
        (ff.Cast("float64"), {}, "b"),
        (CorrectionSet(dark=np.ones(SIG)), {}, "b"),
        (ff.Log(1), {}, "bc"),
        (ff.Count(10), {}, "bc"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*leaves out:framefold.warnings.DataSetWarning")
def test_times_and_counts_are_those_of_the_new_frames(described, stage, changed, forgotten):
    forgotten = {
        name for name in ("bit_depth", "frame_time", "counts_per_electron") if name[0] in forgotten
    }
    known = {**described.metadata, **changed}
    expected = {name: value for name, value in known.items() if name not in forgotten}
    found = described.pipe(stage).metadata
    assert {name: found[name] for name in found if not name.startswith("binning")} == expected


def test_blocks_that_cannot_be(ctx):
    dataset = ctx.load("memory", data=np.zeros((2, 3, *SIG), np.uint8))
    for stage, words in [
        (ff.Rebin(3), r"no block is full in a scan of shape \[2, 3\]"),
        (ff.Rebin((1, 1, 1)), "3 values"),
        ("rebin", "its value is missing"),
    ]:
        with pytest.raises(InvalidArgumentError, match=words):
            dataset.pipe(stage)
    full = np.full((1, 2, *SIG), 2**63, np.uint64)
    blocks = ctx.load("memory", data=full).pipe(ff.Rebin((1, 2)))
    with pytest.raises(InvalidArgumentError, match="does not fit uint64"):
        ctx.run_udf(dataset=blocks, udf=ff.SumUDF())
    with pytest.raises(InvalidArgumentError, match="factors is 0"):
        ff.Rebin(0)


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "dask", "delayed"])
def test_blocks_of_dask_arrays(executor):
    da = pytest.importorskip("dask.array")
    array = numbers((6, 5, *SIG), "uint16", seed=22)
    expected = rebinned(array, (3, 2))
    roi = np.array([[False, True], [True, False]])
    with shared(executor) as ctx:
        for chunks in ((1, 5), (3, 2), (4, 5)):
            pieces = da.from_array(array, chunks=(*chunks, *SIG))
            with pytest.warns(DataSetWarning, match=r"leaves out the last \[0, 1\] positions"):
                blocks = ctx.load("dask", pieces, sig_dims=2).pipe(ff.Rebin((3, 2)))
            for mask in (None, roi):
                found = ctx.run_udf(dataset=blocks, udf=[Frames(), ff.SumUDF()], roi=mask)
                chosen = expected[np.ones((2, 2), bool) if mask is None else mask]
                check(found[0]["frames"].raw_data, chosen, f"{chunks}")
                np.testing.assert_array_equal(found[1]["intensity"].data, chosen.sum(0))


def test_sparse_frames_in_blocks(ctx):
    array = numbers((4, 6, *SIG), "uint8", seed=21)
    counts = ctx.load("memory", data=array).pipe(ff.Count(128))
    blocks = counts.pipe(ff.Rebin(2))
    assert blocks.native_backends == (ff.UDF.BACKEND_NUMPY,)
    check(np.asarray(blocks), rebinned(counted(array, 128), 2), "sums of counts")


def test_blocks_are_plain_data():
    for make, _ in REBINS.values():
        stage = make()
        assert pickle.loads(pickle.dumps(stage)) == stage
        assert repr(stage) == repr(make())
