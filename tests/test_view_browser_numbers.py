"""Odd numbers in the viewer, in a real browser: large, small, infinite, and in stripes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_cases import drive, viewer
from canvas_pixels import check, tables
from test_view_browser import assert_bars

pytestmark = pytest.mark.usefixtures("one_browser")

LINEAR, LOG = {"pattern.display.scale": "linear"}, {"pattern.display.scale": "log"}


def seen(tmp_path: Path, frame: np.ndarray, *changes: dict[str, Any], **wanted: Any) -> Any:
    """What the page shows of the mean of two equal frames."""
    wanted = {"places": (), **wanted}
    np.save(tmp_path / "scan.npy", np.broadcast_to(frame, (1, 2, *frame.shape)))
    with viewer(tmp_path / "scan.npy") as (link, _):
        found = drive("numbers.mjs", url=link, pane="pattern", changes=changes, **wanted)
    assert found["errors"] == []
    return found


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).normal(0, 0.05, shape)


@pytest.mark.parametrize(
    "frame",
    [1e6 + noise(24, 20), 1e300 * (2 + noise(24, 20)), 1e-300 * (2 + noise(24, 20))],
    ids=["small differences", "large", "small"],
)
def test_colours_of_large_and_small_values(frame: np.ndarray, tmp_path: Path) -> None:
    found = seen(tmp_path, frame, LINEAR, LOG)
    for shown in found["shown"]:
        display = shown["display"]
        assert frame.min() <= display["low"] < display["high"] <= frame.max()
        check(shown, frame, display, tables()[display["colormap"]])


def test_rows_that_are_longer_than_textures(tmp_path: Path) -> None:
    frame = np.random.default_rng(11).uniform(0, 1, (2, 20000))
    zooms = [
        {"pattern.display.zoom": {"k": 4000, "cy": 0.5, "cx": cx}} for cx in (90, 16384, 19990)
    ]
    for shown in seen(tmp_path, frame, *[LINEAR | zoom for zoom in zooms])["shown"]:
        display = shown["display"]
        check(shown, frame, display, tables()[display["colormap"]])


def test_rows_that_are_longer_than_canvases(tmp_path: Path) -> None:
    frame = np.random.default_rng(13).uniform(0, 1, (2, 70000))
    zooms = [
        {"pattern.display.zoom": {"k": 14000, "cy": 0.5, "cx": cx}} for cx in (90, 4096, 69990)
    ]
    changes = [LINEAR | zoom for zoom in zooms]
    for shown in seen(tmp_path, frame, *changes, painter="canvas2d")["shown"]:
        display = shown["display"]
        check(shown, frame, display, tables()[display["colormap"]])


def test_vectors_along_a_line(tmp_path: Path) -> None:
    """Both components are drawn, on both sides of 0; a profile lies in the row, not beside it."""
    frames = np.random.default_rng(12).poisson(9, (1, 40, 12, 10)).astype(np.uint16)
    np.save(tmp_path / "scan.npy", frames)
    channel = {"kind": "com", "part": "vector", "centre": "mean", "rotation": 0, "flip_y": False}
    changes = {"scan.query.channel": channel, "scan.query.detector": []}
    with viewer(tmp_path / "scan.npy") as (link, _):
        found = drive("numbers.mjs", url=link, pane="scan", changes=[changes], places=[], line=True)
    assert found["errors"] == []
    display = found["shown"][0]["display"]
    assert display["low"] == -display["high"] < 0
    assert found["line"] == [[0, 10], [0, 30]]


def test_curves_are_shown_with_their_peaks(tmp_path: Path) -> None:
    """Images begin and end at percentiles, which leave out the few values of a peak."""
    spectra = np.full((4, 5, 2000), 137.0)
    spectra[..., 700], spectra[..., 702] = 1e6, 4e5
    np.save(tmp_path / "scan.npy", spectra)
    with viewer(tmp_path / "scan.npy", "--sig-dims", "1") as (link, _):
        found = drive("numbers.mjs", url=link, pane="pattern", changes=[LINEAR, LOG], places=[])
    assert found["errors"] == []
    for shown in found["shown"]:
        assert (shown["display"]["low"], shown["display"]["high"]) == (137.0, 1e6)


def test_percentiles_are_of_all_columns(tmp_path: Path) -> None:
    frame = np.random.default_rng(8).uniform(0, 1, (512, 512))
    frame[:, np.arange(512) % 4 != 0] += 100
    display = seen(tmp_path, frame, LINEAR)["shown"][0]["display"]
    expected = np.percentile(frame, [display["from"], display["to"]])
    assert [display["low"], display["high"]] == pytest.approx(expected, abs=0.01)


def test_integers_that_differ_by_less_than_double_precision_has(tmp_path: Path) -> None:
    frame = np.full((24, 20), 2**64 - 1, np.uint64)
    frame[3, 4] -= 9
    found = seen(tmp_path, frame, LINEAR, LOG)
    assert found["limits"] == ["translate(0.00 0)", "translate(256.00 0)"]
    assert found["bars"].startswith("M0.00 ")


def test_infinite_values(tmp_path: Path) -> None:
    frame = np.random.default_rng(9).uniform(0, 9, (24, 20))
    places = [(2, 3), (4, 5), (6, 7)]
    for place, value in zip(places, [np.inf, -np.inf, np.nan], strict=True):
        frame[place] = value
    found = seen(tmp_path, frame, LINEAR, places=places)
    assert found["values"] == ["∞", "\N{MINUS SIGN}∞", "no data"]
    assert_bars(found["bars"], frame[np.isfinite(frame)])
    (shown,) = found["shown"]
    check(shown, frame, shown["display"], tables()[shown["display"]["colormap"]])


def test_values_have_the_digits_in_which_they_differ(tmp_path: Path) -> None:
    frame = 4.9e7 + np.random.default_rng(10).uniform(-0.25, 0.25, (24, 20))
    places = [(2, 3), (2, 4), (17, 8)]
    found = seen(tmp_path, frame, LINEAR, places=places)
    for place, words in zip(places, found["values"], strict=True):
        assert float(words) == pytest.approx(frame[place], abs=2e-3)


def test_values_have_all_digits_before_the_point(tmp_path: Path) -> None:
    frame = np.random.default_rng(10).uniform(0, 9, (24, 20))
    values = [1234567.75, -2345678.5, 12345678, 2**53 - 1, 0.123456789, 123456789.5]
    places = [(y, 3) for y in range(len(values))]
    for place, value in zip(places, values, strict=True):
        frame[place] = value
    found = seen(tmp_path, frame, LINEAR, places=places)
    assert found["values"] == [
        "1234568",
        "-2345679",
        "12345678",
        "9007199254740991",
        "0.123457",
        "1.23457e+8",
    ]
