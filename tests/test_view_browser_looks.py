"""How the viewer looks in a real browser: what fits, and what can be read."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_cases import PICTURES, drive, viewer
from exported_scripts import run

pytestmark = pytest.mark.usefixtures("one_browser")

AXES = {"scan.axes": True, "pattern.axes": True}


def looks(path: Path, data: np.ndarray, *options: str, **wanted: Any) -> Any:
    """How the page of some data looks in a state."""
    np.save(path, data)
    picture = str(Path(PICTURES) / f"{path.stem[:20]}.png") if PICTURES else None
    with viewer(path, *options) as (link, _):
        found = drive("looks.mjs", url=link, **{"changes": AXES, "picture": picture, **wanted})
    assert found["errors"] == []
    return found


def frames(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).poisson(20, shape).astype(np.uint16)


def assert_apart(pane: Any) -> None:
    """Numbers and names of axes neither touch nor leave the picture."""
    stage = pane["stage"]
    for _, box in pane["ticks"]:
        assert box["x"] >= stage["x"] - 1
        assert box["x"] + box["width"] <= stage["x"] + stage["width"] + 1
    # Boxes of words are a little higher than their letters.
    for (a, first), (b, second) in combinations(pane["ticks"], 2):
        across = min(first["right"], second["right"]) - max(first["left"], second["left"])
        down = min(first["bottom"], second["bottom"]) - max(first["top"], second["top"])
        assert across <= 0 or down <= 4, (a, b)


@pytest.mark.parametrize("centre", ["0,0", "0,-1234500", "-1234500,7"])
def test_numbers_of_axes_are_apart(centre: str, tmp_path: Path) -> None:
    options = ("--pixel-size", "0.01eV", "--centre", centre, "--scan-step", "1.5nm")
    found = looks(tmp_path / "axes.npy", frames(9, 14, 24, 20), *options)
    for pane in ("scan", "pattern"):
        assert len(found[pane]["ticks"]) > 4
        assert_apart(found[pane])


def test_numbers_of_axes_that_no_step_changes(tmp_path: Path) -> None:
    options = ("--pixel-size", "0.01eV", "--centre", "0,-1e18")
    found = looks(tmp_path / "far.npy", frames(3, 4, 24, 20), *options)
    assert len(found["pattern"]["ticks"]) > 3


def test_numbers_of_spectra_are_apart(tmp_path: Path) -> None:
    options = ("--sig-dims", "1", "--pixel-size", "0.01eV")
    data = frames(3, 4, 512)
    found = looks(tmp_path / "spectra.npy", data + np.float64(0.25), *options)
    assert len(found["pattern"]["ticks"]) > 3
    assert_apart(found["pattern"])


def test_curves_have_numbers_at_their_ends(tmp_path: Path) -> None:
    spectra = np.full((3, 4, 64), 3.0)
    spectra[..., 20] = 12345.0
    for changes in ({}, {"pattern.display.scale": "log"}):
        pane = looks(tmp_path / "s.npy", spectra, "--sig-dims", "1", changes=changes)["pattern"]
        places = {words: box["y"] for words, box in pane["ticks"]}
        top, bottom = pane["stage"]["top"], pane["stage"]["bottom"]
        assert top <= places["12345"] < top + 40 < bottom - 60 < places["3"] < bottom
    images = looks(tmp_path / "i.npy", frames(3, 4, 6, 5), changes={})["pattern"]["ticks"]
    assert images == []


def test_profiles_say_that_they_are_logarithmic(tmp_path: Path) -> None:
    for scale, is_log in (("log", True), ("linear", False)):
        changes = {"pattern.display.scale": scale, "pattern.line": [[2, 1], [2, 12]]}
        found = looks(tmp_path / "p.npy", frames(3, 4, 16, 15), changes=changes)
        plots = [(label, words) for label, words in found["pattern"]["plots"] if label]
        assert len(plots) == 2
        for label, words in plots:
            assert (label.endswith(", logarithmic"), "log" in words) == (is_log, is_log)


def test_curves_of_one_point_are_dots(tmp_path: Path) -> None:
    found = looks(tmp_path / "one.npy", frames(3, 4, 1), "--sig-dims", "1")
    assert re.fullmatch(r"M[\d.]+ [\d.]+m-2 0a2 2 .*", found["pattern"]["curve"])


def test_long_names_fit(tmp_path: Path) -> None:
    found = looks(tmp_path / f"{'long_' * 40}.npy", frames(3, 4, 6, 5))
    assert found["beyond"] <= 0


@pytest.mark.parametrize(("middle", "width"), [(1e6, 0.01), (0.0, 1e-9), (4.9e7, 0.2)])
def test_limits_are_seen_with_all_digits(middle: float, width: float, tmp_path: Path) -> None:
    data = np.random.default_rng(4).normal(middle, width, (3, 4, 6, 5))
    found = looks(tmp_path / "scan.npy", data)
    assert [found[pane]["cut"] for pane in ("scan", "pattern")] == [[], []]


def test_limits_have_the_digits_in_which_they_differ(tmp_path: Path) -> None:
    data = 45035996.0 + np.random.default_rng(4).uniform(0, 0.5, (3, 4, 6, 5))
    low, high = looks(tmp_path / "large.npy", data)["pattern"]["fields"]
    assert 45035996 < float(low) < float(high) < 45035996.5


def test_scale_bars_of_pixels_and_of_unequal_steps(tmp_path: Path) -> None:
    found = looks(tmp_path / "small.npy", frames(3, 4, 2, 3))
    assert found["pattern"]["bar"] == "1 px"
    found = looks(tmp_path / "uneven.npy", frames(9, 9, 6, 5), "--scan-step", "0.5nm,0.25nm")
    assert re.fullmatch(r"[\d.]+ nm \((scan_)?x\)", found["scan"]["bar"])


def test_pictures_of_vectors_have_their_wheel(tmp_path: Path) -> None:
    channel = {"kind": "com", "part": "vector", "centre": "mean", "rotation": 0, "flip_y": False}
    changes = {"scan.query.channel": channel, "scan.query.detector": []}
    # Of a low picture, too, there is room beside it.
    scan = frames(2, 300, 12, 10)
    found = looks(tmp_path / "scan.npy", scan, changes=changes, export="scan-svg")
    assert found["file"].count("<image ") == 2
    (height,) = re.findall(r'<svg [^>]*height="(\d+)"', found["file"])
    places = re.findall(r'<text [^>]*y="([-\d.]+)"', found["file"])
    assert all(12 < float(y) < int(height) for y in places)
    (length,) = re.findall(r">([\d.]+) px</text>", found["file"])[-1:]
    assert float(length) == pytest.approx(float(found["scan"]["fields"][1]), rel=1e-3)


def test_saved_pictures_say_what_they_are_made_of(tmp_path: Path) -> None:
    np.save(tmp_path / "scan.npy", frames(5, 6, 8, 9))
    label = "exact, 40 % so far"
    with viewer(tmp_path / "scan.npy") as (link, _):
        found = drive("quality.mjs", url=link, label=label)
    assert found["errors"] == []
    assert f">{label}</text>" in found["stopped"]
    assert ">exact" not in found["exact"]


def test_all_bad_pixels_are_marked(tmp_path: Path) -> None:
    found = looks(tmp_path / "scan.npy", frames(1, 2, 100, 90), "--bad-pixels", "0:99:2,:")
    assert found["pattern"]["marks"] == 50 * 90


def test_scale_bars_of_narrow_scans_are_for_their_height(tmp_path: Path) -> None:
    found = looks(tmp_path / "tall.npy", frames(120, 3, 24, 20), "--scan-step", "1.5nm")
    length, unit = found["scan"]["bar"].split()
    assert unit == "nm"
    assert int(length) in (20, 50)


@pytest.mark.parametrize(("transform", "n_shapes"), [("none", 1), ("fft", 0)])
def test_detectors_are_not_drawn_on_transforms(
    transform: str, n_shapes: int, tmp_path: Path
) -> None:
    changes = {"pattern.query.transform": transform}
    found = looks(tmp_path / "scan.npy", frames(3, 4, 24, 20), changes=changes)
    assert found["pattern"]["shapes"] == n_shapes


def test_scripts_of_pictures_without_a_number(tmp_path: Path) -> None:
    data = np.full((3, 4, 24, 20), np.nan, np.float32)
    found = looks(tmp_path / "nan.npy", data, changes={}, export="script")
    assert "LogNorm" in found["file"]
    (tmp_path / "run").mkdir()
    run(found["file"], tmp_path / "run")
    assert np.isnan(np.load(tmp_path / "run" / "nan-pattern.npy")).all()


def test_what_stays_as_it_was_is_not_set_again(tmp_path: Path) -> None:
    np.save(tmp_path / "scan.npy", frames(9, 14, 24, 20))
    with viewer(tmp_path / "scan.npy") as (link, _):
        found = drive("repeats.mjs", url=link)
    assert found["errors"] == []
    assert found["changed"] > 20
    assert found["repeats"] == []
    assert "earlier" not in found["badges"]
