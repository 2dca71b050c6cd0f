"""Meta data by names and units that all formats share."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from detector_files import write_empad, write_mrc
from known_oddities import odd
from real_files import real_file
from vendor_files import write_dm

import framefold as ff
from framefold import _engine
from framefold.utils.write_mib import write_mib

PAGE = Path(__file__).resolve().parent.parent / "docs" / "guide" / "metadata.md"


def test_the_guide_lists_all_names_with_unit_and_meaning():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) ?\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    known = [(name, unit, meaning.rstrip(".")) for name, unit, meaning in _engine.known_metadata()]
    assert rows == known


def test_values_have_units(ctx, tmp_path):
    write_mib(tmp_path / "scan.mib", np.zeros((2, 3, 16, 64), dtype=np.uint8))
    dataset = ctx.open(tmp_path / "scan.mib")
    assert dataset.metadata["detector"] == "Merlin"
    assert dataset.metadata["exposure_time"] > 0
    assert list(dataset.metadata) == list(dataset.metadata_units)
    assert dataset.metadata_units["exposure_time"] == "s"
    assert dataset.metadata_units["detector"] == ""
    rows = {row["name"]: row["value"] for row in dataset.diagnostics}
    assert rows["exposure_time"] == f"{dataset.metadata['exposure_time']} s"
    assert rows["detector"] == "Merlin"


@pytest.mark.parametrize(("nav", "longest"), [((4, 3), 4), ((2, 5), 5)])
@pytest.mark.parametrize("words", ["older", "newer"])
def test_steps_of_an_empad_scan_are_parts_of_its_field_of_view(tmp_path, words, nav, longest):
    """The longer side of the scan fills the field, whose sides are in metres."""
    write_empad(tmp_path / "scan.xml", np.zeros((*nav, 8, 8), "f4"))
    field = {
        "older": "<optics.get_full_scan_field_of_view>[4e-06, 2e-06]"
        "</optics.get_full_scan_field_of_view>",
        "newer": "<full_scan_field_of_view><scale_factor>0.5</scale_factor><x>2e-06</x>"
        "<y>1e-06</y></full_scan_field_of_view>",
    }[words]
    text = (tmp_path / "scan.xml").read_text()
    text = text.replace("<iom_measurements>", f"<iom_measurements>{field}")
    (tmp_path / "scan.xml").write_text(text)
    scan_y, scan_x = ff.Context.make_with("inline").open(tmp_path / "scan.xml").axes[:2]
    assert (scan_x.scale, scan_x.unit) == (pytest.approx(4000 / longest), "nm")
    assert (scan_y.scale, scan_y.unit) == (pytest.approx(2000 / longest), "nm")


def test_data_in_memory_have_none():
    dataset = ff.Context().load("memory", data=np.zeros((2, 2, 4, 4)))
    assert dataset.metadata == {}
    assert dataset.metadata_units == {}


def test_extended_headers_of_mrc_files():
    """What mrcfile finds in the same record, in the units that are documented here."""
    mrcfile = pytest.importorskip("mrcfile", reason="mrcfile reads the same record")
    path = real_file("MRC/rosettasciio/HAADFscan.mrc")
    with mrcfile.open(path, permissive=True) as file:
        record = file.indexed_extended_header[0]
    found = ff.Context().open(path).metadata
    scaled = {
        "acceleration_voltage": ("HT", 1e-3),
        "stage_alpha": ("Alpha tilt", 1),
        "stage_beta": ("Beta tilt", 1),
        "stage_x": ("X-Stage", 1e6),
        "stage_y": ("Y-Stage", 1e6),
        "stage_z": ("Z-Stage", 1e6),
        "camera_length": ("Camera length", 1e3),
        "convergence_angle": ("Convergence angle", 1e3),
    }
    for name, (field, scale) in scaled.items():
        assert found[name] == pytest.approx(float(record[field]) * scale), name
    assert found["microscope"] == record["Microscope type"].decode()
    assert found["software"].split() == [
        record[name].decode() for name in ("Application", "Application version")
    ]
    assert found["detector"] == record["STEM Detector name"].decode()
    days = float(record["Timestamp"])
    recorded = np.datetime64("1899-12-30") + np.timedelta64(round(days * 86400), "s")
    assert found["recorded_at"] == str(recorded)
    # Bits say that these mean nothing, or they are of a camera that saw nothing.
    assert not {"magnification", "binning_x", "exposure_time", "defocus"} & set(found)


@odd("the file does not say in which order its axes")
@odd("the file does not say in which order its axes")
def test_lengths_on_the_axis_of_spectra_are_no_places(tmp_path):
    """A wavelength in nm is not the width of a pixel on the specimen."""
    data = np.zeros((5, 3, 4), dtype="float32")
    steps = {}
    for spectra in (False, True):
        write_dm(tmp_path / "a.dm4", data, spectra=spectra)
        found = ff.Context().open(tmp_path / "a.dm4").metadata
        steps[spectra] = {name: found[name] for name in found if "_step_" in name}
    assert steps[False] == {"scan_step_x": 2, "image_step_x": 2, "image_step_y": 2}
    assert steps[True] == {"scan_step_x": 2, "scan_step_y": 2}


def test_sizes_that_mrc_files_leave_undefined_are_left_out(tmp_path):
    path = tmp_path / "a.mrc"
    write_mrc(path, np.zeros((3, 4, 5), dtype="int16"))
    content = bytearray(path.read_bytes())
    for size, expected in ((25.0, 0.5), (1.4e-45, None), (float("nan"), None), (-5.0, None)):
        struct.pack_into("<2f", content, 40, size, size)
        path.write_bytes(content)
        assert ff.Context().open(path).metadata.get("image_step_x") == expected


def mrc_volume(path, *, space_group=1, sections=3):
    """An MRC file whose three images are 0.8 nm apart, of a cell of 2 nm in x and y."""
    write_mrc(path, np.zeros((3, 4, 5), dtype="int16"))
    content = bytearray(path.read_bytes())
    struct.pack_into("<3i", content, 28, 5, 4, sections)
    struct.pack_into("<3f", content, 40, 20, 20, 24)
    struct.pack_into("<i", content, 88, space_group)
    return content


def test_sections_of_an_mrc_volume_have_their_distance(tmp_path):
    path = tmp_path / "a.mrc"
    path.write_bytes(mrc_volume(path))
    axes = ff.Context().open(path).axes
    assert [str(axis) for axis in axes] == ["depth: 3 × 0.8 nm", "y: 4 × 0.5 nm", "x: 5 × 0.4 nm"]
    # Images that are no volume have what programs leave there.
    for other in ({"space_group": 0}, {"space_group": 401}, {"sections": 1}):
        path.write_bytes(mrc_volume(path, **other))
        assert str(ff.Context().open(path).axes[0]) == "scan_x: 3"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # rosettasciio's
def test_the_axes_of_an_mrc_volume_are_those_that_rosettasciio_reads(tmp_path):
    reader = pytest.importorskip("rsciio.mrc")
    path = tmp_path / "a.mrc"
    path.write_bytes(mrc_volume(path))
    (signal,) = reader.file_reader(str(path))
    scales = [axis["scale"] for axis in signal["axes"]]
    assert [axis.scale for axis in ff.Context().open(path).axes] == pytest.approx(scales)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # rosettasciio's
def test_extended_headers_of_older_microscopes_of_fei(tmp_path):
    reader = pytest.importorskip("rsciio.mrc")
    path = tmp_path / "a.mrc"
    content = mrc_volume(path, space_group=0)
    struct.pack_into("<i", content, 92, 128 * 1024)
    struct.pack_into("<2h", content, 128, 0, 32)
    extended = bytearray(128 * 1024)
    numbers = (30.0, -1.5, 1e-5, -2e-5, 3e-6, 0, 0, -1e-6, 0.5, 100, 0, 2.5e-10, 5000)
    struct.pack_into("<13f", extended, 0, *numbers)
    path.write_bytes(content[:1024] + extended + content[1024:])
    dataset = ff.Context().open(path)
    expected = {
        "magnification": 5000,
        "defocus": -1000,
        "exposure_time": 0.5,
        "image_step_x": 0.25,
        "image_step_y": 0.25,
        "stage_x": 10,
        "stage_y": -20,
        "stage_z": 3,
        "stage_alpha": 30,
        "stage_beta": -1.5,
    }
    found = {name: dataset.metadata.get(name) for name in expected}
    assert found == pytest.approx(expected, rel=1e-6)
    signal = reader.file_reader(str(path))[0]
    scales = [axis["scale"] for axis in signal["axes"][-2:]]
    assert [axis.scale for axis in dataset.axes[-2:]] == pytest.approx(scales, rel=1e-6)
    header = signal["original_metadata"]["fei_header"]
    assert (header["a_tilt"][0], header["exp_time"][0]) == (30.0, 0.5)
    # Some say, by mistake, that there are 128 integers, too; others are of something else.
    for integers, floats, step in ((128, 32, 0.25), (0, 0, 0.4), (32, 0, 0.4), (2, 1, 0.4)):
        struct.pack_into("<2h", content, 128, integers, floats)
        path.write_bytes(content[:1024] + extended + content[1024:])
        assert ff.Context().open(path).axes[-1].scale == pytest.approx(step)
    struct.pack_into("<2h", content, 128, 0, 32)
    # An empty one says nothing; lengths of another unit are left out.
    for numbers, names in (((0.0,) * 13, set()), ((1.0, 0, 5.0), {"stage_alpha", "stage_beta"})):
        extended[:128] = bytes(128)
        struct.pack_into(f"<{len(numbers)}f", extended, 0, *numbers)
        path.write_bytes(content[:1024] + extended + content[1024:])
        found = set(ff.Context().open(path).metadata)
        assert found & {"stage_alpha", "stage_beta", "stage_x"} == names
