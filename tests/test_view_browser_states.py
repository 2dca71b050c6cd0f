"""What was set in the viewer, opened again: which file, and which of its frames."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_cases import drive, viewer

pytestmark = pytest.mark.usefixtures("one_browser")

#: How many pixels the first detector has.
PIXELS = 5


def numbered(path: Path, *nav: int, first: int = 0) -> Path:
    """Frames whose pixels all have the number of the frame."""
    numbers = first + np.arange(np.prod(nav), dtype=np.uint16).reshape(*nav, 1, 1)
    np.save(path, np.broadcast_to(numbers, (*nav, 12, 10)))
    return path


def address_of(state: dict[str, Any]) -> str:
    """The part of an address that holds a state."""
    return "#s=" + base64.urlsafe_b64encode(json.dumps(state).encode()).decode().rstrip("=")


def test_states_have_the_frames_that_were_skipped(tmp_path: Path) -> None:
    path, saved = numbered(tmp_path / "line.npy", 40), tmp_path / "look.json"
    with viewer(path) as (link, _):
        found = drive("states.mjs", url=link, what="skip")
    assert found["errors"] == []
    assert [found[name]["first"] for name in ("chosen", "other", "reloaded")] == [
        7 * PIXELS,
        3 * PIXELS,
        7 * PIXELS,
    ]
    assert found["reloaded"]["state"] == found["chosen"]["state"]
    saved.write_text(json.dumps(found["chosen"]["state"]))
    for options in ((), ("--nav-shape", "5,6"), ("--nav-shape", "4,4", "--sync-offset", "2")):
        with viewer(path, *options, "--state", saved) as (link, _):
            again = drive("states.mjs", url=link, what="shown")
        assert "scan 5 × 6" in again["shown"]["facts"]
        assert again["shown"]["first"] == 7 * PIXELS
        assert (again["shown"]["said"], again["errors"]) == ([], [])


def test_states_have_the_scan_of_the_command_line(tmp_path: Path) -> None:
    path, saved = numbered(tmp_path / "line.npy", 40), tmp_path / "look.json"
    with viewer(path, "--nav-shape", "5,6", "--sync-offset", "7") as (link, _):
        found = drive("states.mjs", url=link, what="shown")["shown"]
    assert found["first"] == 7 * PIXELS
    assert (found["state"]["nav_shape"], found["state"]["sync_offset"]) == ([5, 6], 7)
    saved.write_text(json.dumps(found["state"]))
    with viewer(path, "--state", saved) as (link, _):
        again = drive("states.mjs", url=link, what="shown")
    assert "scan 5 × 6" in again["shown"]["facts"]
    assert again["shown"]["first"] == 7 * PIXELS
    assert (again["shown"]["said"], again["errors"]) == ([], [])


def test_addresses_open_their_file(tmp_path: Path) -> None:
    a = numbered(tmp_path / "a.npy", 4, 5, first=10)
    b = numbered(tmp_path / "b.npy", 4, 5, first=20)
    with viewer(a, b) as (link, _):
        found = drive("states.mjs", url=link, what="files")
    assert found["errors"] == []
    reloaded, loaded = found["reloaded"], found["loaded"]
    assert (reloaded["name"], reloaded["first"], reloaded["said"]) == ("a.npy", 10, [])
    # By hand, what was set is taken over to another file.
    assert (loaded["name"], loaded["first"]) == ("b.npy", 20)
    assert loaded["state"]["scan"]["query"]["channel"]["kind"] == "max"
    said = ["this state was saved with a.npy, and is shown of b.npy"]
    assert loaded["said"] == said
    saved = tmp_path / "look.json"
    saved.write_text(json.dumps(reloaded["state"]))
    with viewer(b, "--state", saved) as (link, _):
        shown = drive("states.mjs", url=link, what="shown")["shown"]
    assert (shown["name"], shown["first"], shown["said"]) == ("b.npy", 20, said)
    # In another viewer, the number is that of another file.
    c = numbered(tmp_path / "c.npy", 4, 5, first=30)
    with viewer(b, c) as (link, _):
        address = address_of({**reloaded["state"], "file": "n1"})
        typed = drive("states.mjs", url=link, what="address", hash=address)
    assert typed["errors"] == []
    assert json.loads(typed["address"])["scan"]["query"]["channel"]["kind"] == "max"
    assert (typed["typed"]["name"], typed["typed"]["first"]) == ("b.npy", 20)
    (words,) = typed["typed"]["said"]
    assert words.startswith(f"{said[0]}: 'a.npy' was expected, but this is 'c.npy'")
    assert typed["reloaded"]["state"] == typed["typed"]["state"]


def test_the_later_of_two_openings_counts(tmp_path: Path) -> None:
    names = ["a.npy", "b.npy", "c.npy"]
    files = [numbered(tmp_path / name, 4, 5, first=10 * i) for i, name in enumerate(names)]
    with viewer(*files) as (link, _):
        found = drive("states.mjs", url=link, what="two")
    assert found["errors"] == []
    shown = found["shown"]
    assert (shown["name"], shown["first"], shown["said"]) == ("b.npy", 10 * PIXELS, [])
    # What was set for another file is not.
    assert shown["state"]["scan"]["query"]["channel"]["kind"] == "sum"


ODD = [
    ("scan.query.detector", [{"shape": {"kind": "foo"}, "sign": "plus"}]),
    ("scan.query.detector", [{}]),
    ("scan.query.detector", [{"shape": {"kind": "disk", "cy": 1, "cx": "2", "r": 3}}]),
    ("scan.query.channel", {"kind": "com", "centre": [1, 2]}),
    ("pattern.query.channel", {"kind": "idpc"}),
    ("pattern.query.slice", [-1]),
    ("pattern.line", [1, 2]),
    ("pattern.display.scale", "cubic"),
    ("pattern.display.zoom", "all"),
    ("pattern.display.low", None),
    ("pattern", 5),
    ("nav_shape", [0]),
]


def test_odd_entries_are_refused_in_words(tmp_path: Path) -> None:
    with viewer(numbered(tmp_path / "a.npy", 4, 5)) as (link, _):
        found = drive("states.mjs", url=link, what="odd", odd=ODD, hashes=["#s=a", "#s=e30"])
    assert found["errors"] == []
    for (path, _), words in zip(ODD, found["loaded"], strict=True):
        assert words.startswith(f"this is no saved state of this viewer: {path} is "), words
        assert ", expected " in words
    assert found["typed"] == [
        "the address holds no saved state: a part of it is missing; copy it anew",
        "this is no saved state of this viewer: its version is undefined, expected 1",
    ]
    assert found["opened"] == found["typed"]
    # Vectors are as they are first where nothing else is said.
    assert found["vectors"] == {
        "kind": "com",
        "part": "y",
        "centre": "mean",
        "rotation": 0,
        "flip_y": False,
    }
