"""Meta data by names and units that all formats share."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

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
