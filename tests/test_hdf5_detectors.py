"""HDF5 as programs of detectors write it: sets of files, masks of pixels, frames one by one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from known_oddities import odd
from real_files import real_file
from test_hdf5 import FILTERS, read, values, write

import framefold as ff
from framefold.exceptions import BadFileError, FramefoldError
from framefold.io.corrections import CorrectionSet
from framefold.warnings import UnusedCorrectionsWarning

h5py = pytest.importorskip("h5py", reason="h5py writes the files")


@odd("files of the set are not there", "positions have no data")
def test_files_of_a_detector_that_link_to_others(tmp_path):
    frames = values((11, 8, 9), "u2")
    parts = [frames[:4], frames[4:8], frames[8:]]
    with h5py.File(tmp_path / "s_master.h5", "w") as master:
        for number, part in enumerate(parts, 1):
            name = f"s_data_{number:06}.h5"
            with h5py.File(tmp_path / name, "w") as file:
                file.create_dataset(
                    "entry/data/data", data=part, chunks=(1, 8, 9), compression="gzip"
                )
            master[f"entry/data/data_{number:06}"] = h5py.ExternalLink(name, "/entry/data/data")
    ctx = ff.Context()
    master = tmp_path / "s_master.h5"
    dataset = ctx.open(master)
    assert tuple(dataset.shape) == (11, 8, 9)
    assert np.array_equal(read(dataset), frames)
    assert [path.name for path in dataset.paths] == [f"s_data_00000{n}.h5" for n in (1, 2, 3)]
    # The last file is not there: its frames are missing.
    (tmp_path / "s_data_000003.h5").unlink()
    dataset = ctx.open(master, nav_shape=(11,))
    assert "000003" in dataset.warnings[0]
    assert dataset.valid_mask.tolist() == [True] * 8 + [False] * 3
    # One in the middle.
    write(tmp_path / "s_data_000003.h5", frames[8:])
    with h5py.File(tmp_path / "s_data_000003.h5", "w") as file:
        file.create_dataset(
            "entry/data/data", data=frames[8:], chunks=(1, 8, 9), compression="gzip"
        )
    (tmp_path / "s_data_000002.h5").rename(tmp_path / "elsewhere.h5")
    dataset = ctx.open(master, nav_shape=(11,))
    assert dataset.valid_mask.tolist() == [True] * 4 + [False] * 4 + [True] * 3
    total = ctx.run_udf(dataset, ff.SumSigUDF())["intensity"].raw_data
    assert np.array_equal(total[8:], frames[8:].sum(axis=(1, 2)))
    # None at all.
    (tmp_path / "s_data_000001.h5").unlink()
    (tmp_path / "s_data_000003.h5").unlink()
    with pytest.raises(FramefoldError, match=r"s_data_00000.*not there"):
        ctx.open(master)


@pytest.mark.parametrize("libver", [None, "latest"])
@pytest.mark.parametrize("n_files", [8, 9, 300])
@odd("files of the set are not there", "positions have no data")
def test_as_many_files_as_a_long_scan_has(tmp_path, n_files, libver):
    """Beyond eight links, libhdf5 keeps them elsewhere in the file."""
    frames = values((n_files, 2, 4, 5), "u2")
    with h5py.File(tmp_path / "s_master.h5", "w", libver=libver) as master:
        for number in range(1, n_files + 1):
            link = h5py.ExternalLink(f"s_data_{number:06}.h5", "/entry/data/data")
            master[f"entry/data/data_{number:06}"] = link
    for number, part in enumerate(frames, 1):
        with h5py.File(tmp_path / f"s_data_{number:06}.h5", "w") as file:
            file["entry/data/data"] = part
    ctx = ff.Context()
    master = tmp_path / "s_master.h5"
    dataset = ctx.open(master, nav_shape=(2 * n_files,))
    assert np.array_equal(read(dataset), frames.reshape(-1, 4, 5))
    for missing in (3, n_files):
        (tmp_path / f"s_data_{missing:06}.h5").unlink()
    dataset = ctx.open(master, nav_shape=(2 * n_files,))
    there = np.arange(2 * n_files) // 2
    assert np.array_equal(dataset.valid_mask, (there != 2) & (there != n_files - 1))
    assert all(f"{missing:06}" in str(dataset.warnings) for missing in (3, n_files))


def write_parts(path, *arrays, low=(), first=1):
    with h5py.File(path, "w") as file:
        for number, array in enumerate(arrays, first):
            file[f"entry/data/data_{number:06}"] = array
        for number, value in enumerate(low, first):
            file[f"entry/data/data_{number:06}"].attrs["image_nr_low"] = value
    return path


def test_parts_are_of_one_shape_but_for_the_number_of_images(tmp_path):
    arrays, ctx = [values((4, 8, 9), "u2"), values((3, 8, 9), "u2")], ff.Context()
    path = write_parts(tmp_path / "a.h5", *arrays)
    for sig_dims, shape in ((1, (7, 8, 9)), (2, (7, 8, 9))):
        dataset = ctx.open(path, sig_dims=sig_dims)
        assert tuple(dataset.shape) == shape
        assert np.array_equal(read(dataset), np.concatenate(arrays))
    with pytest.raises(BadFileError, match=r"\[3, 8, 9\].*\[4, 8, 9\]"):
        ctx.open(path, sig_dims=3)
    write_parts(path, arrays[0], arrays[0] + 1)
    whole = ctx.open(path, sig_dims=3)
    assert np.array_equal(read(whole), [arrays[0], arrays[0] + 1])
    # Images, one in each part.
    write_parts(path, arrays[0][0], arrays[1][1, :4])
    with pytest.raises(BadFileError, match=r"\[4, 9\].*\[8, 9\]"):
        ctx.open(path, sig_dims=1)


def test_numbers_of_images_count_images_whatever_a_frame_is(tmp_path):
    parts = values((2, 4, 5, 6), "u2")
    path, ctx = write_parts(tmp_path / "a.h5", *parts, low=(1, 7)), ff.Context()
    there = [True] * 4 + [False] * 2 + [True] * 4
    assert ctx.open(path).valid_mask.tolist() == there
    rows = ctx.open(path, sig_dims=1)
    assert tuple(rows.shape) == (10, 5, 6)
    assert rows.valid_mask.tolist() == [[valid] * 5 for valid in there]
    whole = ctx.open(path, sig_dims=3)
    assert np.array_equal(read(whole), parts)


@pytest.mark.parametrize(
    ("shapes", "nav"),
    [
        ([(2, 8)], (2, 8)),
        ([(3, 8), (1, 8)], (4, 8)),
        ([(9, 1)], (3, 3)),
        ([(9,)], (3, 3)),
        ([(5,)], (5,)),
    ],
)
def test_scans_of_parts_with_several_axes(tmp_path, shapes, nav):
    arrays = [values((*shape, 5, 6), "u2") for shape in shapes]
    dataset = ff.Context().open(write_parts(tmp_path / "a.h5", *arrays))
    assert tuple(dataset.shape.nav) == nav
    assert np.array_equal(read(dataset).ravel(), np.concatenate(arrays).ravel())


@pytest.mark.parametrize("first", [0, 1, 4])
@odd("files of the set are not there", "positions have no data")
def test_files_count_from_the_smallest_number(tmp_path, first):
    frames = values((3, 2, 5, 6), "u2")
    with h5py.File(tmp_path / "s_master.h5", "w") as master:
        for number, part in enumerate(frames, first):
            name = f"s_data_{number:06}.h5"
            master[f"entry/data/data_{number:06}"] = h5py.ExternalLink(name, "x")
            if number != first + 1:
                with h5py.File(tmp_path / name, "w") as file:
                    file["x"] = part
    dataset = ff.Context().open(tmp_path / "s_master.h5")
    assert dataset.valid_mask.tolist() == [True] * 2 + [False] * 2 + [True] * 2


@pytest.mark.parametrize("lengths", [(1, 3, 2), (3, 1, 2), (1, None, 3), (None, 1, 3)])
@odd("files of the set are not there", "positions have no data")
def test_files_of_several_lengths_follow_each_other(tmp_path, lengths):
    frames = values((6, 5, 6), "u2")
    rest, expected = list(frames), []
    with h5py.File(tmp_path / "s_master.h5", "w") as master:
        for number, length in enumerate(lengths, 1):
            name = f"s_data_{number:06}.h5"
            master[f"entry/data/data_{number:06}"] = h5py.ExternalLink(name, "x")
            if length is None:
                expected += [None] * 3  # as many as in the longest
                continue
            part, rest = rest[:length], rest[length:]
            expected += part
            with h5py.File(tmp_path / name, "w") as file:
                file["x"] = np.stack(part)
    ctx = ff.Context()
    dataset = ctx.open(tmp_path / "s_master.h5", nav_shape=(len(expected),))
    there = [frame is not None for frame in expected]
    assert dataset.valid_mask.tolist() == there
    found = ctx.run_udf(dataset, ff.SumSigUDF())["intensity"].data
    sums = [np.nan if frame is None else frame.sum() for frame in expected]
    np.testing.assert_array_equal(found, sums)


MASKS = ["detectorSpecific/pixel_mask", "pixel_mask", "threshold_1_channel/pixel_mask"]


@pytest.mark.parametrize("name", MASKS)
@odd("a pixel mask marks")
def test_pixels_that_a_detector_says_are_bad(tmp_path, name):
    rng = np.random.default_rng(5)
    frames = rng.integers(0, 100, size=(5, 8, 9), dtype="u2")
    mask = np.zeros((8, 9), "u4")
    mask[2, 3], mask[5, 5], mask[7, 8], mask[0, 0] = 2, 1 << 8, 1, 1 << 31
    frames[:, (mask & 0xFFFF) != 0] = 65535
    path = tmp_path / "a_master.h5"
    with h5py.File(path, "w") as file:
        how = FILTERS.get("bitshuffle, lz4", {"compression": "gzip"})
        file.create_dataset("entry/data/data_000001", data=frames)
        file.create_dataset(f"entry/instrument/detector/{name}", data=mask, chunks=(8, 9), **how)
    ctx = ff.Context()
    # Without a request, pixels are as they were counted, and the first run says so.
    dataset = ctx.open(path)
    assert not dataset.get_correction_data().have_corrections()
    assert "pixel mask marks 3 of 72" in dataset.warnings[0]
    with pytest.warns(
        UnusedCorrectionsWarning, match=r"a_master.*3 of 72.*enable_corrections=True"
    ):
        found = ctx.run_udf(dataset, ff.PickUDF())["intensity"].raw_data
    assert found.dtype == np.uint16
    assert np.array_equal(found, frames)
    another = ctx.open(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ctx.run_udf(dataset, ff.SumUDF())
        raw = ctx.load("hdf5", path, enable_corrections=False)
        assert np.array_equal(read(raw), frames)
        assert raw.warnings == []
        ctx.run_udf(another, ff.SumUDF(), corrections=CorrectionSet())
    # What was asked for.
    asked = ctx.open(path, enable_corrections=True)
    own = asked.get_correction_data()
    excluded = np.zeros((8, 9), bool)
    excluded[2, 3] = excluded[5, 5] = excluded[7, 8] = True
    assert np.array_equal(own.get_excluded_pixels().todense(), excluded)
    by_hand = CorrectionSet(excluded_pixels=excluded)
    wanted = ctx.run_udf(raw, ff.PickUDF(), corrections=by_hand)["intensity"].raw_data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for data, given in ((asked, None), (dataset, own), (dataset, by_hand)):
            found = ctx.run_udf(data, ff.PickUDF(), corrections=given)["intensity"].raw_data
            assert np.array_equal(found, wanted)
    assert found.max() < 100
    assert np.array_equal(
        ctx.run_udf(asked, ff.PickUDF(), corrections=CorrectionSet())["intensity"].raw_data,
        frames,
    )


@odd(
    "the pixel mask has the shape",
    "has a pixel mask of its own",
    "a pixel mask that cannot be read",
)
def test_masks_that_do_not_fit_are_not_applied(tmp_path):
    frames = values((5, 8, 9), "u2")
    for names, shape, words in [
        ([MASKS[0]], (9, 8), "pixel mask has the shape"),
        ([MASKS[2], "threshold_2_channel/pixel_mask"], (8, 9), "mask of its own"),
    ]:
        path = tmp_path / "a_master.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("entry/data/data_000001", data=frames)
            for name in names:
                file[f"entry/instrument/detector/{name}"] = np.ones(shape, "u4")
        dataset = ff.Context().open(path)
        assert words in dataset.warnings[0]
        assert np.array_equal(read(dataset), frames)
    with h5py.File(path, "a") as file:
        detector = file["entry/instrument/detector"]
        detector["pixel_mask"] = np.zeros((8, 9), "f4")
    with pytest.raises(FramefoldError, match=r"float32.*enable_corrections=False"):
        ff.Context().open(path, enable_corrections=True)
    dataset = ff.Context().open(path)
    assert "cannot be read" in str(dataset.warnings)
    with pytest.warns(UnusedCorrectionsWarning, match="float32"):
        assert np.array_equal(read(dataset), frames)


def test_a_group_for_each_frame(tmp_path):
    """TopSpin writes frames one by one."""
    frames = values((12, 8, 10), "f4")
    path = tmp_path / "a.app5"
    with h5py.File(path, "w") as file:
        file["other"] = values((99, 99), "f4")
        for number, frame in enumerate(frames):
            file[f"scan/{number}/Data"] = frame
    for options in ({}, {"ds_path": "/scan"}):
        dataset = ff.Context().open(path, **options)
        assert tuple(dataset.shape) == frames.shape
        assert dataset.meta["HDF5 dialect"] == "TopSpin"
        assert np.array_equal(read(dataset), frames)
    with h5py.File(path, "a") as file:
        file["scan/12/Data"] = frames[0, :4]
    with pytest.raises(FramefoldError, match="different shapes"):
        ff.Context().open(path)


def topspin_metadata(x, y):
    axis = "<{0}><Offset>-0.002</Offset><Scale>2E-05</Scale><Type><Text>Angle</Text></Type></{0}>"
    return np.bytes_(
        '<?xml version="1.0" encoding="utf-16"?>\r\n<Metadata><Calibration>'
        f"{axis.format('X')}{axis.format('Y')}</Calibration><Metadata><Item>"
        "<Name>RequestedBeamPosition</Name>"
        f"<Value><X>{x:E}</X><Y>{y:E}</Y></Value></Item></Metadata></Metadata>"
    )


def test_scans_of_topspin(tmp_path):
    """Each frame says where the probe was, and that makes the scan."""
    frames = values((15, 8, 10), "f4")
    path = tmp_path / "a.app5"
    with h5py.File(path, "w") as file:
        for number, frame in enumerate(frames):
            row, column = divmod(number, 5)
            file[f"scan/{number}/Data"] = frame
            said = topspin_metadata(1.5e-7 + column * 2e-9, 1e-8 + row * 4e-9)
            file[f"scan/{number}/Metadata"] = said
    dataset = ff.Context().open(path)
    assert tuple(dataset.shape) == (3, 5, 8, 10)
    assert np.array_equal(read(dataset), frames.reshape(3, 5, 8, 10))
    assert dataset.metadata == {
        "scan_step_x": pytest.approx(2),
        "scan_step_y": pytest.approx(4),
        "scan_offset_x": pytest.approx(150),
        "scan_offset_y": pytest.approx(10),
        "angle_step_x": pytest.approx(0.02),
        "angle_step_y": pytest.approx(0.02),
        "angle_offset_x": pytest.approx(-2),
        "angle_offset_y": pytest.approx(-2),
    }
    with h5py.File(path, "a") as file:
        del file["scan/7/Metadata"]
    assert tuple(ff.Context().open(path).shape.nav) == (15,)


@pytest.mark.parametrize(
    ("place", "step"),
    [
        (lambda n: (n % 4 if n // 4 % 2 == 0 else 3 - n % 4, n // 4), None),
        (lambda n: (n % 8 if n < 8 else 15 - n, n // 8), None),
        (lambda n: (0, 0), None),
        (lambda n: (n, n), None),
        (lambda n: (0, n), 2),
        (lambda n: (n, 0), 2),
    ],
    ids=["snake", "two rows of a snake", "one place", "diagonal", "along y", "along x"],
)
def test_positions_of_topspin_that_are_no_grid_are_no_square(tmp_path, place, step):
    path = tmp_path / "a.app5"
    frames = values((16, 8, 10), "f4")
    with h5py.File(path, "w") as file:
        for number, frame in enumerate(frames):
            x, y = place(number)
            file[f"scan/{number}/Data"] = frame
            file[f"scan/{number}/Metadata"] = topspin_metadata(2e-9 * x, 1e-8 + 2e-9 * y)
    dataset = ff.Context().open(path)
    assert tuple(dataset.shape) == frames.shape
    assert dataset.metadata.get("scan_step_x") == (step and pytest.approx(step))
    assert "scan_step_y" not in dataset.metadata
    assert np.array_equal(read(dataset), frames)
    rows = ff.Context().load("hdf5", path, sig_dims=1)
    assert tuple(rows.shape) == frames.shape
    assert rows.axes[0].scale == (pytest.approx(2) if step else 1)
    assert rows.axes[1].scale == pytest.approx(2e-5)


@pytest.mark.parametrize(
    ("name", "nav", "step"), [("A", (2, 5), 2), ("B", (3, 7), 5), ("C", (3, 5), 1)]
)
def test_scans_of_real_files_of_topspin(name, nav, step):
    path = real_file(f"APP5/rosettasciio/topspin_test_{name}.app5")
    dataset = ff.Context().open(path)
    assert tuple(dataset.shape.nav) == nav
    assert dataset.metadata["scan_step_x"] == pytest.approx(step, rel=1e-3)
    assert dataset.metadata["scan_step_y"] == pytest.approx(step, rel=1e-3)
    assert dataset.metadata["angle_step_x"] > 0


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_rows_of_topspin_have_the_scan_and_steps_of_three_axes(name):
    path = real_file(f"APP5/rosettasciio/topspin_test_{name}.app5")
    ctx = ff.Context()
    whole, rows = ctx.open(path), ctx.load("hdf5", path=path, sig_dims=1)
    assert tuple(rows.shape) == tuple(whole.shape)
    assert (rows.shape.nav.dims, rows.shape.sig.dims) == (3, 1)
    assert np.array_equal(read(rows), read(whole))
    # Quantities are in nm and mrad, other axes as the file has them.
    factors = {"m": 1e9, "rad": 1e3}
    for ours, wanted in zip(rows.axes, whole.axes, strict=True):
        factor = factors.get(ours.unit, 1)
        assert ours.scale * factor == pytest.approx(wanted.scale, rel=1e-12)
        assert ours.offset * factor == pytest.approx(wanted.offset, rel=1e-12)
