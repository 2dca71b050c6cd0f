"""FRMS6 recordings whose ``.hdr`` file has another scan than their frames."""

from __future__ import annotations

import detector_files
import numpy as np
import pytest
from known_oddities import odd


@odd("says that the scan is", "frames are not shown")
@pytest.mark.parametrize(
    ("size", "nav", "words"),
    [
        ("3x4", (3, 4), None),
        ("3x3", (3, 3), "the scan is 3x3, and there are 12 frames: the last 3 are not shown"),
        ("3y4", (12,), "the scan is '3y4' (stemimagesize), expected as in '64x128'"),
    ],
)
def test_scans_that_do_not_fit_the_frames_are_said(ctx, tmp_path, size, nav, words):
    path = tmp_path / "a.hdr"
    frames = np.arange(3 * 4 * 6 * 8, dtype="u2").reshape(3, 4, 6, 8)
    detector_files.write_frms6(path, frames, dark=np.zeros((1, 6, 8), "u2"))
    path.write_text(path.read_text().replace("3x4", size))
    dataset = ctx.open(path)
    assert tuple(dataset.shape.nav) == nav
    said = [text for text in dataset.warnings if "says that the scan is" in text]
    assert len(said) == (words is not None)
    assert words is None or words in said[0]
    # A scan that is given is another one.
    given = ctx.open(path, nav_shape=(3, 3)).warnings
    assert not any("says that the scan is" in text for text in given)
