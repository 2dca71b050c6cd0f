"""TIFF files of TVIPS, Olympus and Hamamatsu: their axes are those that rosettasciio reads."""

from __future__ import annotations

import struct
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from known_oddities import odd
from real_files import real_file
from tiff_makers import (
    PIXELS,
    SIS,
    TVIPS,
    scaling,
    tvips,
    write,
    write_hamamatsu,
    write_olympus,
    write_tvips,
)

import framefold as ff
from framefold.exceptions import FramefoldError

#: By how much of a metre.
METRES = {"nm": 1e-9, "m": 1.0}

VALUES = {
    "PixelSizeX": 0.5,
    "PixelSizeY": 0.25,
    "TemHighTension": 200_000.0,
    "TemMagnification": 5000.0,
    "TemType": "JEOL 2200FS",
    "TemStagePosition": (1e-6, -2e-6, 3e-6, 4.5, -5.5),
    "CameraType": "F416",
    "PhysicalPixelSizeX": 15_500.0,
    "PhysicalPixelSizeY": 15_500.0,
    "BinningX": 2,
    "BinningY": 4,
    "ExposureTime": 100.0,
    "ImageName": "Größe",
    "Comment": "after the grid",
}


@pytest.fixture
def ctx():
    """What a file says does not depend on the executor."""
    return ff.Context.make_with("inline")


def by_rosettasciio(path):
    """The signal that rosettasciio reads."""
    reader = pytest.importorskip("rsciio.tiff").file_reader
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about lines that are fitted to values
        (signal,) = reader(str(path))
    return signal


def axes_by_rosettasciio(path):
    """Scale, offset and unit of y and x; lengths in nm."""
    found = []
    for axis in by_rosettasciio(path)["axes"]:
        factor = METRES["m"] / METRES["nm"] if axis["units"] == "m" else 1.0
        unit = "nm" if axis["units"] == "m" else axis["units"]
        found += [axis["scale"] * factor, axis["offset"] * factor, unit]
    return found


def with_x_for_y(axes):
    """Rosettasciio (0.15) takes the width of pixels of TVIPS, Olympus and FEI for their height."""
    return [*axes[3:], *axes[:3]]


def axes_of(dataset):
    return [value for axis in dataset.axes[-2:] for value in (axis.scale, axis.offset, axis.unit)]


def same(ours, theirs):
    return all(
        a == (pytest.approx(b, rel=1e-6, abs=1e-9) if isinstance(b, float) else b)
        for a, b in zip(ours, theirs, strict=True)
    )


def mapped(signal):
    """What rosettasciio makes of the facts in a file, by the names of HyperSpy."""
    found = {}
    for path, (name, convert) in signal["mapping"].items():
        value = signal["original_metadata"]
        for part in path.split("."):
            value = value.get(part, {})
        if value != {}:
            found[name] = convert(value) if convert else value
    return found


def frame_of(ctx, dataset):
    return ctx.run_udf(dataset, ff.SumUDF())["intensity"].data


@pytest.mark.parametrize("apart", [False, True])
def test_tvips(ctx, tmp_path, apart):
    path = tmp_path / "a.tif"
    write_tvips(path, VALUES, apart=apart)
    dataset = ctx.open(path)
    assert axes_of(dataset) == [0.25, 0.0, "nm", 0.5, 0.0, "nm"]
    assert same(axes_of(dataset), with_x_for_y(axes_by_rosettasciio(path)))
    assert np.array_equal(frame_of(ctx, dataset), PIXELS)
    metadata = dataset.metadata
    theirs = mapped(by_rosettasciio(path))
    tem = "Acquisition_instrument.TEM"
    assert metadata["acceleration_voltage"] == theirs[f"{tem}.beam_energy"] == 200
    assert metadata["magnification"] == theirs[f"{tem}.magnification"]
    exposure = theirs[f"{tem}.Detector.Camera.exposure"]
    assert metadata["exposure_time"] == pytest.approx(exposure) == 0.1
    assert metadata["detector"] == theirs[f"{tem}.Detector.Camera.name"]
    assert metadata["note"] == theirs["General.notes"]
    stage = theirs[f"{tem}.Stage"]
    for ours, name, factor in [
        *(("stage_" + axis, axis, 1e-3) for axis in "xyz"),
        ("stage_alpha", "tilt_alpha", 1),
        ("stage_beta", "tilt_beta", 1),
    ]:
        assert metadata[ours] * factor == pytest.approx(stage[name], rel=1e-6)
    assert (metadata["microscope"], metadata["title"]) == ("JEOL 2200FS", "Größe")
    assert (metadata["pixel_size_x"], metadata["binning_x"], metadata["binning_y"]) == (15.5, 2, 4)
    assert dataset.meta["description by"] == "TVIPS"


def test_the_first_version_of_tvips_has_no_size_of_pixels(ctx, tmp_path):
    write_tvips(tmp_path / "a.tif", {"Magnification": 5000}, version=1)
    dataset = ctx.open(tmp_path / "a.tif")
    assert axes_of(dataset) == [1.0, 0.0, "", 1.0, 0.0, ""]
    assert dataset.meta["description by"] == "TVIPS"


def test_square_pixels_are_those_of_rosettasciio(ctx, tmp_path):
    path = tmp_path / "a.tif"
    write_tvips(path, {**VALUES, "PixelSizeY": 0.5})
    assert axes_of(ctx.open(path)) == axes_by_rosettasciio(path)
    write_olympus(path, size=(0.125, 0.125))
    assert same(axes_of(ctx.open(path)), axes_by_rosettasciio(path))


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("power", [-12, -9, -6, 0])
def test_olympus(ctx, tmp_path, apart, power):
    path = tmp_path / "a.tif"
    write_olympus(path, power=power, apart=apart)
    dataset = ctx.open(path)
    nm = 10.0 ** (power + 9)
    assert same(axes_of(dataset), [3 * nm, 0.0, "nm", 2 * nm, 0.0, "nm"])
    assert same(axes_of(dataset), with_x_for_y(axes_by_rosettasciio(path)))
    theirs = mapped(by_rosettasciio(path))
    metadata = dataset.metadata
    assert metadata["magnification"] == theirs["Acquisition_instrument.TEM.magnification"] == 5000
    assert metadata["detector"] == theirs["Acquisition_instrument.TEM.Detector.Camera.name"]
    assert metadata["title"] == "grid 3"
    assert metadata["recorded_at"] == "2019-12-05T14:30:00"
    assert np.array_equal(frame_of(ctx, dataset), PIXELS)


def test_hamamatsu(ctx, tmp_path):
    path = tmp_path / "a.tif"
    write_hamamatsu(path, x=300 + 2.5 * np.arange(8), y=-0.5 * np.arange(6))
    dataset = ctx.open(path)
    assert same(axes_of(dataset), [-0.5, 0.0, "ps", 2.5, 300.0, "nm"])
    assert same(axes_of(dataset), axes_by_rosettasciio(path))
    metadata = dataset.metadata
    # A wavelength is no length on the specimen.
    assert not [name for name in metadata if "step" in name]
    assert (metadata["exposure_time"], metadata["binning_x"], metadata["binning_y"]) == (0.1, 2, 4)
    assert (metadata["detector"], metadata["note"]) == ("C13440-20C", "a [b], c=d")
    assert dataset.meta["description by"] == "Hamamatsu"
    assert np.array_equal(frame_of(ctx, dataset), PIXELS)
    # As far as they are known in copies.
    ctx.export_dataset(dataset, tmp_path / "copy.hspy")
    assert axes_of(ctx.open(tmp_path / "copy.hspy")) == axes_of(dataset)


@odd("values of axis Y are not equally far apart.* up to 0.167 ps away")
def test_times_that_are_not_equally_far_apart_are_fitted_by_a_line(ctx, tmp_path):
    path = tmp_path / "a.tif"
    times = np.cumsum([0, 1, 1.1, 1.2, 1.3, 1.4])
    write_hamamatsu(path, x=300 + 2.5 * np.arange(8), y=times)
    dataset = ctx.open(path)
    assert dataset.axes[-2].scale == pytest.approx(1.2)
    assert same(axes_of(dataset), axes_by_rosettasciio(path))
    step, start = np.polyfit(np.arange(6), times, 1)
    assert same(axes_of(dataset)[:2], [step, start])
    assert len(dataset.warnings) == 1


def test_axes_of_hamamatsu_without_values(ctx, tmp_path):
    path = tmp_path / "a.tif"
    for unit in ("", "No unit"):
        words = scaling("X", Type=1, Scale=2, Unit=unit, ScalingFile="Other")
        focus = scaling("Y", Type=1, Scale=2, Unit=unit, ScalingFile="Focus mode")
        write_hamamatsu(path, other=(words, focus))
        assert axes_of(ctx.open(path)) == [1.0, 0.0, "", 1.0, 0.0, ""]
    # rosettasciio gives them steps of 1, in that unit.
    words = scaling("X", Type=1, Scale=2, Unit="nm", ScalingFile="Other")
    focus = scaling("Y", Type=1, Scale=0.5, Unit="ns", ScalingFile="Focus mode")
    write_hamamatsu(path, other=(words, focus))
    assert axes_of(ctx.open(path)) == [0.5, 0.0, "ns", 2.0, 0.0, "nm"]
    theirs = [axis["units"] for axis in by_rosettasciio(path)["axes"]]
    assert theirs == ["ns", "nm"]


def test_a_real_file_of_hamamatsu(ctx):
    path = real_file("TIFF/rosettasciio/tiff_hamamatsu/test_hamamatsu_streak_OTHER.tif")
    dataset = ctx.open(path)
    assert same(axes_of(dataset), axes_by_rosettasciio(path))
    metadata = dataset.metadata
    assert (metadata["exposure_time"], metadata["binning_x"]) == (0.1, 2)
    assert metadata["detector"] == "C13440-20C"


# What is damaged: no step is made up, and where there should be one, there is a word about it.


def opened(ctx, path):
    """The data set, and the words about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = ctx.open(path)
    assert [str(each.message) for each in caught] != [] or dataset.warnings == []
    return dataset


def assert_not_calibrated(dataset, words):
    assert axes_of(dataset) == [1.0, 0.0, "", 1.0, 0.0, ""]
    assert words in " ".join(dataset.warnings)
    assert "a.tif" in dataset.warnings[0]


def test_structures_of_tvips_that_are_cut(ctx, tmp_path):
    whole = tvips(VALUES)
    path = tmp_path / "a.tif"
    for length in [*range(1, 9), *range(9, len(whole), 331), *range(len(whole) - 5, len(whole))]:
        cut = whole[:length]
        write(path, (TVIPS, "B", length, cut, True))
        assert_not_calibrated(opened(ctx, path), "of TVIPS (tag 37706)")
        end = write(path, (TVIPS, "I", 1, 0, True))
        write(path, (TVIPS, "I", 1, end, True), after=cut)
        assert_not_calibrated(opened(ctx, path), "of TVIPS (tag 37706)")
    for place in (0, 1, 2**31, 2**32 - 1):
        write(path, (TVIPS, "I", 1, place, True))
        assert_not_calibrated(opened(ctx, path), "of TVIPS (tag 37706)")


def test_structures_of_olympus_that_are_cut(ctx, tmp_path):
    path = tmp_path / "a.tif"
    write_olympus(path, apart=True)
    whole = path.read_bytes()
    start = whole.index(b"SIS0")
    for length in range(start, len(whole)):
        path.write_bytes(whole[:length])
        assert_not_calibrated(opened(ctx, path), "Olympus (tag 33560)")
    for place in (0, 1, 2**31, 2**32 - 1):
        write(path, (SIS, "I", 1, place, True))
        assert_not_calibrated(opened(ctx, path), "Olympus (tag 33560)")
        changed = bytearray(whole)
        struct.pack_into("<I", changed, start + 72, place)
        path.write_bytes(changed)
        dataset = opened(ctx, path)
        assert "nan" not in str(dataset.axes)
        assert place < 2 or "beyond the end" in dataset.warnings[0]


def test_values_of_hamamatsu_that_are_cut(ctx, tmp_path):
    path = tmp_path / "a.tif"
    write_hamamatsu(path, x=300 + 2.5 * np.arange(8), y=0.5 * np.arange(6))
    whole = path.read_bytes()
    for length in range(len(whole) - 4 * 6, len(whole)):
        path.write_bytes(whole[:length])
        dataset = opened(ctx, path)
        assert same(axes_of(dataset), [1.0, 0.0, "", 2.5, 300.0, "nm"])
        assert "values of axis Y at '#" in dataset.warnings[0]
        assert "beyond the end of the file" in dataset.warnings[0]
    for file in ("#", "#12", "#a,b", "#-1,8", f"#{2**64},8", f"#{2**64 - 1},8", "#0,9", "#0,-8"):
        words = scaling("X", Type=2, Scale=1, Unit="nm", ScalingFile=file)
        write_hamamatsu(path, other=(words, scaling("Y", Type=1, Scale=1)))
        assert_not_calibrated(opened(ctx, path), f"values of axis X at '{file}'")


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, -np.inf])
def test_sizes_that_are_none_are_left_out(ctx, tmp_path, bad):
    path = tmp_path / "a.tif"
    write_tvips(path, {**VALUES, "PixelSizeX": bad, "ExposureTime": bad})
    dataset = opened(ctx, path)
    assert axes_of(dataset)[3:] == [1.0, 0.0, ""]
    assert "exposure_time" not in dataset.metadata
    write_olympus(path, size=(bad, 3.0))
    assert axes_of(opened(ctx, path)) == [3.0, 0.0, "nm", 1.0, 0.0, ""]
    if not np.isfinite(bad):
        write_hamamatsu(path, x=[bad] * 8, y=[0, 1, 2, bad, 4, 5])
        dataset = opened(ctx, path)
        assert_not_calibrated(dataset, "are no numbers that go up or down")
        assert len(dataset.warnings) == 2


@pytest.mark.parametrize("power", [-32768, -300, -16, 1, 300, 32767])
def test_absurd_powers_are_left_out(ctx, tmp_path, power):
    write_olympus(tmp_path / "a.tif", power=power)
    assert_not_calibrated(opened(ctx, tmp_path / "a.tif"), f"is in 10^{power} m")


def test_dates_that_are_none_are_left_out(ctx, tmp_path):
    path = tmp_path / "a.tif"
    for when in [(2019, 13, 5, 14, 30), (2019, 2, 0, 1, 1), (40, 2, 1, 1, 1), (2019, 2, 1, 99, -3)]:
        write_olympus(path, when=when)
        assert "recorded_at" not in opened(ctx, path).metadata


@pytest.mark.parametrize("maker", ["tvips", "olympus", "hamamatsu"])
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_bytes_are_read_or_refused(ctx, tmp_path, maker, data):
    path = tmp_path / "a.tif"
    if maker == "tvips":
        write_tvips(path, VALUES, apart=True)
    elif maker == "olympus":
        write_olympus(path, apart=True)
    else:
        write_hamamatsu(path, x=300 + 2.5 * np.arange(8), y=0.5 * np.arange(6))
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        # Not the header of the file itself.
        at = data.draw(st.integers(8, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    path.write_bytes(whole)
    try:
        dataset = opened(ctx, path)
    except FramefoldError:
        return  # the tags of the page itself
    for axis in dataset.axes:
        assert np.isfinite([axis.scale, axis.offset]).all()
        assert axis.scale != 0
    assert all(np.isfinite(v) for v in dataset.metadata.values() if isinstance(v, float))


@pytest.mark.parametrize("whole", [True, False])
def test_planes_of_metamorph_are_frames(tmp_path, ctx, whole):
    """Of which one page stands for all; not where a program left one of its tags behind."""
    tifffile = pytest.importorskip("tifffile")
    planes = np.arange(5 * 6 * 7, dtype="<u2").reshape(5, 6, 7)
    behind = 8 + planes.nbytes
    times = struct.pack("<30I", *[1, 1, 2_457_000, 0, 2_457_000, 0] * 5)
    display = struct.pack("<4I", 0, 1, 1, 5)
    tags = [
        (256, 4, 1, 7),
        (257, 4, 1, 6),
        (258, 4, 1, 16),
        (262, 4, 1, 1),
        (273, 4, 1, 8),
        (277, 4, 1, 1),
        (278, 4, 1, 6),
        (279, 4, 1, 84),
        (33628, 4, 2, behind + len(times)),
        (33629, 5, 5, behind),
    ]
    if not whole:
        del tags[-2]
    content = planes.tobytes() + times + display
    directory = b"".join(struct.pack("<HHII", *tag) for tag in tags) + bytes(4)
    path = tmp_path / "a.stk"
    path.write_bytes(
        struct.pack("<2sHI", b"II", 42, 8 + len(content))
        + content
        + struct.pack("<H", len(tags))
        + directory
    )
    expected = planes if whole else planes[:1]
    assert np.array_equal(tifffile.imread(path).reshape(expected.shape), expected)
    dataset = ctx.open(path)
    assert (dataset.meta.get("description by") == "MetaMorph") == whole
    assert np.array_equal(np.asarray(dataset).reshape(expected.shape), expected)
