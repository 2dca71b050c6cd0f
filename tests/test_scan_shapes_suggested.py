"""Where the number of frames does not fit a scan shape, messages say which shapes do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import framefold as ff
from framefold.exceptions import InvalidArgumentError


@pytest.fixture
def ctx():
    return ff.Context.make_with("inline")


def warning_of(open_it):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ff.warnings.DataSetWarning)
        return " ".join(open_it().warnings)


@pytest.mark.parametrize(
    ("n_frames", "suggested"),
    [
        (64, "nav_shape=(8, 8), (4, 16) or (64,)"),
        (72, "nav_shape=(8, 9), (6, 12), (4, 18) or (72,)"),  # one more in each row
        (67, "nav_shape=(67,)"),
    ],
)
def test_raw_and_mib(ctx, tmp_path, n_frames, suggested):
    from framefold.utils.write_mib import write_mib

    raw, mib = tmp_path / "scan.raw", tmp_path / "scan.mib"
    raw.write_bytes(bytes(n_frames * 16))
    options = {"dtype": "uint8", "sig_shape": (4, 4)}
    with pytest.raises(InvalidArgumentError) as caught:
        ctx.load("raw", raw, **options)
    assert f"{n_frames} frames: give, for example, {suggested}" in str(caught.value)
    write_mib(mib, np.zeros((1, n_frames, 64, 64), np.uint8))
    mib.with_suffix(".hdr").unlink(missing_ok=True)
    for open_it in (
        lambda nav: ctx.load("raw", raw, nav_shape=nav, **options),
        lambda nav: ctx.load("mib", mib, nav_shape=nav),
    ):
        for nav in [(5, 5), (10, 10)]:
            assert warning_of(lambda open_it=open_it, nav=nav: open_it(nav)).endswith(
                f"; these fit: {suggested}"
            )
        assert warning_of(lambda open_it=open_it: open_it((1, n_frames))) == ""


def test_a_scan_that_the_file_knows_is_not_guessed(ctx, tmp_path):
    np.save(tmp_path / "scan.npy", np.zeros((4, 5, 2, 2), np.uint8))
    words = warning_of(lambda: ctx.load("npy", tmp_path / "scan.npy", nav_shape=(3, 5)))
    assert words.endswith("; the last 5 frames are not shown")
