"""Odd numbers in the viewer, in a real browser: large, small, infinite, and in stripes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_cases import drive, viewer

pytestmark = pytest.mark.usefixtures("one_browser")

LINEAR, LOG = {"pattern.display.scale": "linear"}, {"pattern.display.scale": "log"}


def seen(tmp_path: Path, frame: np.ndarray, *changes: dict[str, Any], places: Any = ()) -> Any:
    """What the page shows of the mean of two equal frames."""
    np.save(tmp_path / "scan.npy", np.broadcast_to(frame, (1, 2, *frame.shape)))
    with viewer(tmp_path / "scan.npy") as (link, _):
        found = drive("numbers.mjs", url=link, pane="pattern", changes=changes, places=places)
    assert found["errors"] == []
    return found


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(0, 0.05, shape)


def test_percentiles_are_of_all_columns(tmp_path: Path) -> None:
    frame = np.random.default_rng(8).uniform(0, 1, (512, 512))
    frame[:, np.arange(512) % 4 != 0] += 100
    display = seen(tmp_path, frame, LINEAR)["shown"][0]["display"]
    expected = np.percentile(frame, [display["from"], display["to"]])
    assert [display["low"], display["high"]] == pytest.approx(expected, abs=0.01)
