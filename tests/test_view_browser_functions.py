"""Functions of a session in a notebook's page in a real browser: their channels and pixels."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from browser_cases import drive
from canvas_pixels import check, tables
from notebook_page import notebook_page

import framefold as ff
from framefold._viewer.viewing import host_of

pytestmark = pytest.mark.usefixtures("one_browser")

FRAMES = np.random.default_rng(21).poisson(6.0, (6, 7, 12, 10)).astype(np.uint16)
MASK = np.arange(120).reshape(12, 10) % 3 == 0


class Bad(ff.UDF):
    """Fails in each frame."""

    def get_result_buffers(self) -> dict[str, Any]:
        return {"value": self.buffer(kind="nav", dtype="float32")}

    def process_frame(self, frame: np.ndarray) -> None:
        raise ValueError("on purpose")


class Endless(ff.UDF):
    """Takes longer than anybody waits."""

    begun = threading.Event()

    def get_result_buffers(self) -> dict[str, Any]:
        return {"value": self.buffer(kind="nav", dtype="float32")}

    def process_frame(self, frame: np.ndarray) -> None:
        Endless.begun.set()
        time.sleep(1.5)


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_functions_of_the_session_are_channels(by: str) -> None:
    context = ff.Context.make_with("inline")
    dataset = context.load("memory", data=FRAMES)
    masks = [lambda: np.ones((12, 10)), lambda: MASK]
    udfs = {
        "total": ff.SumUDF(),
        "of masks: two": ff.ApplyMasksUDF(mask_factories=masks),
        "bad": Bad(),
        "endless": Endless(),
    }
    with notebook_page(host_of(dataset, udfs, context=context)) as url:
        found = drive("functions.mjs", url=url, by=by)
    assert found["errors"] == []
    assert found["channels"] == {
        "scan": [
            "of masks: two: intensity[0]",
            "of masks: two: intensity[1]",
            "bad: value",
            "endless: value",
        ],
        "pattern": ["total: intensity"],
    }
    expected = {
        "total: intensity": FRAMES.sum(axis=(0, 1)),
        "of masks: two: intensity[0]": FRAMES.sum(axis=(2, 3)),
        "of masks: two: intensity[1]": FRAMES[..., MASK].sum(axis=2),
    }
    assert {shown["words"] for shown in found["shown"]} == set(expected)
    for shown in found["shown"]:
        values, display = expected[shown["words"]].astype(float), shown["display"]
        check(shown, values, display, tables()[display["colormap"]])
    assert "'bad'" in found["trouble"]
    assert "on purpose" in found["trouble"]
    assert found["stays"]
    assert found["left"] == 0
    display = found["last"]["display"]
    check(found["last"], _mean_of_disk(), display, tables()[display["colormap"]])
    assert Endless.begun.is_set()


def _mean_of_disk() -> np.ndarray:
    """What the detector that is set first gives: a disk in the middle."""
    y, x = np.mgrid[:12, :10]
    disk = (y - 6) ** 2 + (x - 5) ** 2 <= 1
    return FRAMES[..., disk].mean(axis=2)
