"""Bad pixels, and scan positions without data, in a real browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from browser_cases import drive, viewer
from canvas_pixels import check, tables

h5py = pytest.importorskip("h5py")
Image = pytest.importorskip("PIL.Image")

pytestmark = pytest.mark.usefixtures("one_browser")

SCAN, SIG = (4, 5), (9, 8)
N_FRAMES = 17
BAD = [(2, 3), (5, 5)]
#: The colour of marks.
PINK = (255, 79, 216)


def repaired(frames: np.ndarray) -> np.ndarray:
    """Bad pixels are the mean of their eight neighbours."""
    found = frames.astype(float)
    for y, x in BAD:
        around = found[:, y - 1 : y + 2, x - 1 : x + 2].reshape(len(frames), 9)
        found[:, y, x] = np.delete(around, 4, axis=1).mean(axis=1)
    return found


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_marks(by: str, tmp_path: Path) -> None:
    frames = np.random.default_rng(6).integers(0, 99, (N_FRAMES, *SIG), dtype=np.uint16)
    mask = np.zeros(SIG, np.uint32)
    for place in BAD:
        mask[place] = 2
        frames[:, place[0], place[1]] = 65535
    path = tmp_path / "scan_master.h5"
    with h5py.File(path, "w") as file:
        file["entry/data/data_000001"] = frames
        file["entry/instrument/detector/pixel_mask"] = mask
    with viewer(path, "--nav-shape", "4,5", "--corrections") as (link, _):
        found = drive("marks.mjs", url=link, by=by, missing=(3, 4), folder=str(tmp_path))
    assert found["errors"] == []
    missing = [divmod(n, SCAN[1]) for n in range(N_FRAMES, 20)]
    expected = {"pattern": [[*each] for each in BAD], "scan": [[*each] for each in missing]}
    assert found["marks"] == found["again"] == expected
    assert found["without"] == {"pattern": [], "scan": []}
    assert found["saved"] == [True, False]
    notes = " ".join(found["notes"])
    assert "3 scan positions have no data" in notes
    assert "corrections are applied: 2 excluded pixels" in notes
    assert "no data" in found["values"][0]
    good = repaired(frames)
    total = np.full(20, np.nan)
    total[:N_FRAMES] = good.sum(axis=(1, 2))
    assert float(found["values"][1].split("·")[1]) == pytest.approx(total[0], rel=1e-5)
    pictures = {"pattern": good.mean(axis=0), "scan": total.reshape(SCAN)}
    for pane, values in pictures.items():
        display = found[pane]["display"]
        check(found[pane], values, display, tables()[display["colormap"]])
        marked = marked_pixels(found[pane], values.shape)
        assert np.argwhere(marked).tolist() == expected[pane]


def marked_pixels(shown: dict, shape: tuple[int, int]) -> np.ndarray:
    """Where the middle of a pixel has the colour of marks, on the screen."""
    with Image.open(shown["file"]) as image:
        screen = np.asarray(image.convert("RGB")).astype(int)
    y, x = (
        np.round(start + shown["k"] * np.arange(n) - 0.5).astype(int)
        for start, n in zip((shown["top"], shown["left"]), shape, strict=True)
    )
    return np.abs(screen[np.ix_(y, x)] - PINK).max(axis=2) < 60
