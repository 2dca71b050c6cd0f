"""Steps and starts of axes in real files, as rosettasciio reads them."""

from __future__ import annotations

import pytest
from real_files import real_file

import framefold as ff

AXES = [
    ("DM/pyTEMlib/EELS_STO.dm3", {"energy_step": 0.25, "energy_offset": 350}),
    (
        "SER/rosettasciio/new/16x16-line_profile_horizontal_5x128x128_EDS_1.ser",
        {"scan_step_x": 3.68864, "energy_step": 5},
    ),
    ("SER/openNCEM/16_STOimage_1.ser", {"image_step_x": 0.0100, "image_step_y": 0.0100}),
]


@pytest.mark.parametrize(("name", "expected"), AXES)
def test_axes(name, expected, tmp_path):
    path = real_file(name)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.open(path)
    found = {key: dataset.metadata.get(key) for key in expected}
    assert found == pytest.approx(expected, rel=1e-2)
    # What is written in other formats is the same.
    for ending in ("hspy", "zarr"):
        copy = tmp_path / f"copy.{ending}"
        ctx.export_dataset(dataset, copy)
        metadata = ctx.open(copy).metadata
        assert {key: metadata.get(key) for key in expected} == pytest.approx(found, rel=1e-12)
