"""The menu of files in a real browser, and files that vanish, break, change or grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_cases import drive, viewer
from canvas_pixels import check, disk, tables

pytestmark = pytest.mark.usefixtures("one_browser")

SIG = (12, 10)


def frames(seed: int, *nav: int) -> np.ndarray:
    return np.random.default_rng(seed).poisson(8.0, (*nav, *SIG)).astype(np.uint16)


def check_scan(shown: dict[str, Any], data: np.ndarray, detector: np.ndarray) -> None:
    values = data[..., detector].sum(axis=-1).astype(float)
    display = shown["display"]
    check(shown, values, display, tables()[display["colormap"]])


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_the_menu_of_files(by: str, tmp_path: Path) -> None:
    data = {"a.npy": frames(1, 4, 5), "b.npy": frames(2, 5, 6), "c.npy": frames(3, 3, 7)}
    line = frames(4, 64)
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    for name, place in [("a.npy", tmp_path), ("b.npy", tmp_path), ("c.npy", folder / "sub")]:
        np.save(place / name, data[name])
    np.save(folder / "line.npy", line)
    np.save(folder / "gone.npy", line)
    (folder / "broken.npy").write_bytes(b"\x93NUMPY\x01\x00and no more")
    (folder / ".hidden.npy").write_bytes(b"")
    named = (tmp_path / "a.npy", tmp_path / "b.npy")
    with viewer(*named, "--root", folder) as (link, _):
        found = drive(
            "files.mjs",
            url=link,
            by=by,
            gone=str(folder / "gone.npy"),
            line=str(folder / "line.npy"),
        )
    assert found["errors"] == []
    assert found["lists"] == [
        ["a.npy", "b.npy", "folder/"],
        ["broken.npy", "gone.npy", "line.npy", "sub/"],
        ["c.npy", "↑ folder above"],
    ]
    assert found.get("focused", True)
    first = disk(SIG, 6, 5, 1)
    b, c, moved, again = found["shown"]
    assert "scan 5 × 6" in b["facts"]
    check_scan(b, data["b.npy"], first)
    check_scan(c, data["c.npy"], first)
    for refused, words in [("gone", "gone.npy"), ("broken", "broken.npy")]:
        assert words in found[refused]["words"]
    assert (found["gone"]["title"], found["broken"]["title"]) == ("c.npy", "line.npy")
    check_scan(moved, data["c.npy"], disk(SIG, 6, 6, 1))
    check_scan(again, line.reshape(4, 16, *SIG), first)
    assert "line.npy" in found["replaced"]
    assert found["badge"] == "of earlier settings"
    check_scan(found["stays"], line.reshape(4, 16, *SIG), first)


def test_a_file_that_grows(tmp_path: Path) -> None:
    data = frames(5, 6, 8)
    path, rest = tmp_path / "scan.raw", tmp_path / "rest"
    path.write_bytes(data[:3].tobytes())
    rest.write_bytes(data[3:5].tobytes())
    options = ("--format", "raw", "--dtype", "uint16", "--sig-shape", "12,10")
    with viewer(path, *options, "--nav-shape", "6,8") as (link, _):
        found = drive("growing.mjs", url=link, path=str(path), rest=str(rest))
    assert found["errors"] == []
    so_far = data.astype(float)
    so_far[3:] = np.nan
    later = data.astype(float)
    later[5:] = np.nan
    check_scan(found["before"], so_far, disk(SIG, 6, 5, 1))
    check_scan(found["grown"], so_far, disk(SIG, 6, 6, 1))
    assert found["words"] == []
    check_scan(found["again"], later, disk(SIG, 6, 5, 1))
    before, after = (" ".join(notes) for notes in found["notes"])
    assert "24 scan positions have no data" in before
    assert "8 scan positions have no data" in after
