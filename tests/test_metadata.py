"""Meta data by names and units that all formats share."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from detector_files import write_mrc
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
