"""Shapes in the viewer, in a real browser: typed numbers, and what the shapes look like."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from browser_cases import drive, viewer

pytestmark = pytest.mark.usefixtures("one_browser")

#: The size of a pixel along y and x, and which one has the value 0.
PIXEL, CENTRE = (0.5, 1.1), (12, 10)


def test_shapes_are_those_that_the_viewer_computes(tmp_path: Path) -> None:
    path, mask = tmp_path / "scan.npy", tmp_path / "large.npy"
    np.save(path, np.random.default_rng(3).poisson(20, (5, 6, 24, 20)).astype(np.uint16))
    mask.touch()
    os.truncate(mask, 65 << 20)
    columns = [3, 6, 11, 17]
    steps = f"{PIXEL[0]}mrad,{PIXEL[1]}mrad"
    with viewer(path, "--pixel-size", steps, "--centre", "12,10") as (link, _):
        found = drive(
            "shapes.mjs",
            url=link,
            unit="mrad",
            columns=[round((column - CENTRE[1]) * PIXEL[1], 6) for column in columns],
            vector=3 * PIXEL[0],
            mask=str(mask),
        )
    assert found["errors"] == []
    assert found["typed"] == columns
    # Along y and x, steps differ: circles are those of pixels.
    expected = {
        "cy": [0, "mrad"],
        "cx": [0, "mrad"],
        "a0": [0, "mrad"],
        "a1": [4 * PIXEL[1], "mrad"],
        "b0": [4 * PIXEL[0], "mrad"],
        "b1": [0, "mrad"],
        "r": [1, "px"],
    }
    assert found["lattice"] == expected
    assert found["vector"] == [3, 0]
    order, n_disks = found["order"]
    # All disks that meet the frame are drawn, as far as they are computed.
    assert order == 32
    assert n_disks > 32
    assert found["radius"] == 4.5
    assert found["wedges"] == {
        "30": {"circles": 0, "large": "00"},
        "120": {"circles": 0, "large": "00"},
        "300": {"circles": 0, "large": "11"},
        "390": {"circles": 2, "large": ""},
    }
    assert found["turn"] == [0, 360]
    assert found["corners"] == [4, 4]
    assert found["said"].startswith("large.npy has 65 MiB, and a mask may have 64")
    assert found["lost"] == 0
