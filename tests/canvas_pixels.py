"""What a canvas of the viewer should show: NumPy's picture, pixel by pixel."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

import numpy as np
from view_client import Client

import framefold as ff


def disk(shape: tuple[int, int], cy: float, cx: float, r: float) -> np.ndarray:
    """The pixels of a disk."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    return (y - cy) ** 2 + (x - cx) ** 2 <= r**2


def spread(values: np.ndarray, display: dict[str, Any]) -> np.ndarray:
    """Where values lie between the limits, from 0 to 1, as matplotlib's norms have it."""
    low, high = display["low"], display["high"]
    with np.errstate(invalid="ignore", divide="ignore"):
        if display["scale"] == "log":
            t = (np.log(values) - np.log(low)) / (np.log(high) - np.log(low))
            return np.where(values <= low, 0, np.minimum(t, 1))
        t = np.clip((values - low) / (high - low), 0, 1)
    return t ** {"linear": 1, "sqrt": 0.5, "power": display["gamma"]}[display["scale"]]


def at_pixels(shown: dict[str, Any], shape: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """The rows and columns that the canvas shows, where it surely shows them, and where any."""
    rows = (np.arange(shown["height"]) + 0.5 - shown["top"]) / shown["k"] + 0.5
    cols = (np.arange(shown["width"]) + 0.5 - shown["left"]) / shown["k"] + 0.5
    sure = [np.abs(place - np.round(place)) > 0.02 for place in (rows, cols)]
    index = [np.floor(place).astype(int) for place in (rows, cols)]
    inside = [(i >= 0) & (i < n) for i, n in zip(index, shape, strict=True)]
    clipped = [np.clip(i, 0, n - 1) for i, n in zip(index, shape, strict=True)]
    return np.ix_(*clipped), np.logical_and.outer(*sure), np.logical_and.outer(*inside)


def rgba_of(shown: dict[str, Any]) -> np.ndarray:
    """The colours of a canvas, as integers that may be subtracted."""
    rgba = np.frombuffer(base64.b64decode(shown["rgba"]), np.uint8)
    return rgba.reshape(shown["height"], shown["width"], 4).astype(int)


def check(
    shown: dict[str, Any], values: np.ndarray, display: dict[str, Any], table: np.ndarray
) -> None:
    """The canvas shows these values in these colours; nothing around them or where they are NaN."""
    rgba = rgba_of(shown)
    index, sure, inside = at_pixels(shown, values.shape)
    assert inside.any()
    assert np.all(rgba[sure & ~inside] == 0)
    there = inside & ~np.isnan(values)[index]
    assert np.all(rgba[sure & inside & ~there] == 0)
    t = np.nan_to_num(spread(values, display) * 256)
    # Single precision may round to the neighbour where a value lies on the border of two colours.
    fine = np.abs(t - np.round(t)) > 1e-3 if display["scale"] != "linear" else np.ones_like(t, bool)
    expected = table[np.minimum(255, t.astype(int))]
    seen = (sure & there & fine[index])[..., np.newaxis]
    off = np.abs(rgba[..., :3] - expected[index]) * seen
    assert seen.mean() > 0.2
    assert off.max() == 0, (off.max(), np.argwhere(off)[:3])
    assert np.all(rgba[sure & there][..., 3] == 255)


def check_means(
    shown: dict[str, Any], values: np.ndarray, display: dict[str, Any], table: np.ndarray
) -> None:
    """Where pixels are smaller than those of the canvas, it shows means of 2 x 2 or more."""
    wide = 1 / shown["k"]
    n = int(np.ceil(wide - 0.01))
    assert n > 1
    sums, sure = np.zeros(()), np.ones((), bool)
    inside = at_pixels(shown, values.shape)[2]
    for i, j in np.ndindex(n, n):
        # A part of the canvas's pixel is where its whole would be if it lay elsewhere.
        by = {"top": (i + 0.5) / n - 0.5, "left": (j + 0.5) / n - 0.5}
        part = {**shown, **{side: shown[side] - by[side] for side in by}}
        index, sure_part, _ = at_pixels(part, values.shape)
        sums, sure = sums + values[index], sure & sure_part
    t = spread(sums / n**2, display) * 256
    fine = np.abs(t - np.round(t)) > 1e-3
    seen = sure & inside & fine
    assert seen.mean() > 0.2
    rgba = rgba_of(shown)
    off = np.abs(rgba[..., :3] - table[np.minimum(255, t.astype(int))]).max(axis=2)
    assert off[seen].max() == 0
    assert np.all(rgba[seen][:, 3] == 255)


def check_vectors(
    shown: dict[str, Any], field: np.ndarray, display: dict[str, Any], table: np.ndarray
) -> None:
    """Vectors have the colour of their direction, and are as bright as they are long."""
    rgba = rgba_of(shown)
    index, sure, inside = at_pixels(shown, field.shape[1:])
    y, x = field
    turn = np.arctan2(y, x) / (2 * np.pi) % 1 * 256
    brightness = spread(np.hypot(y, x), display)[..., np.newaxis]
    expected = table[turn.astype(int) % 256] * brightness
    fine = np.abs(turn - np.round(turn)) > 1e-3
    seen = (sure & inside & fine[index])[..., np.newaxis]
    assert (np.abs(rgba[..., :3] - expected[index]) * seen).max() < 1.01


def table_of(text: str) -> np.ndarray:
    """The 256 colours of a map, which is in base64."""
    return np.frombuffer(base64.b64decode(text), np.uint8).reshape(256, 3).astype(int)


@cache
def tables() -> dict[str, np.ndarray]:
    """The colour maps of the viewer by their names."""
    client = Client(ff.Context.make_with("inline").load("memory", data=np.zeros((1, 1, 2, 2))))
    found = client.hello()["colormaps"]
    client.session.close()
    return {name: table_of(text) for name, text in found.items()}
