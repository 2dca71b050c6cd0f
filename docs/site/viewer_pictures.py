"""Makes the picture of the viewer's other views anew: ``python docs/site/viewer_pictures.py``.

It simulates a scan, shows it in the viewer that is installed, and puts what Chromium draws side by
side into docs/guide/view-views.jpg. It needs what tests of the viewer do: Chromium, Node.js, npm.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

DOCS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(DOCS.parent / "tests"))

from browser_cases import close_browser, drive, viewer  # noqa: E402

Floats = npt.NDArray[np.float64]

N_SCAN, N_PIXELS = 64, 128
#: A pixel of a frame in 1/nm, a step of the scan in nm, and the middle of the frames.
CALIBRATION = ("--pixel-size", "0.05nm^-1", "--scan-step", "0.5nm", "--centre", "64,64")
DISK, SPACING = 7.0, 26.0

VECTORS = {"centre": "mean", "rotation": 0, "flip_y": False}
AXES = {"scan.axes": True, "pattern.axes": True}
VIRIDIS = {"scan.display.colormap": "viridis"}


def disk(kind: str, y: float, x: float, r: float) -> list[dict[str, Any]]:
    """A list of one shape, as the viewer's state has it."""
    return [{"shape": {"kind": kind, "cy": y, "cx": x, "r": r}, "sign": "plus"}]


CENTRAL = {"scan.query.detector": disk("disk", 64, 64, 12)}
RECTANGLE = {"shape": {"kind": "rectangle", "y0": 10, "x0": 8, "y1": 24, "x1": 28}, "sign": "plus"}

#: Views of the scan, by what they change of the first one.
VIEWS: list[dict[str, Any]] = [
    {
        "name": "vectors",
        "changes": {
            **AXES,
            **CENTRAL,
            "scan.query.channel": {"kind": "com", "part": "vector", **VECTORS},
        },
    },
    {
        "name": "phase",
        "changes": {
            **AXES,
            **CENTRAL,
            **VIRIDIS,
            "scan.query.channel": {"kind": "idpc", **VECTORS},
        },
    },
    {
        "name": "transforms",
        "changes": {
            **AXES,
            "scan.query.channel": {"kind": "sum"},
            "scan.query.detector": disk("disk", 64, 90, 8),
            "scan.query.transform": "fft",
            "scan.display.scale": "log",
            "pattern.query.transform": "ewpc",
        },
    },
    {
        "name": "region",
        "changes": {
            **AXES,
            "scan.query.transform": "none",
            "scan.display.scale": "linear",
            "pattern.query.transform": "none",
            "scan.line": [[32, 4], [32, 60]],
            "pattern.query.region": [RECTANGLE],
        },
    },
]


def scan() -> npt.NDArray[np.uint16]:
    """A crystal with a thicker, strained inclusion; a field at its rim moves the beam."""
    rng = np.random.default_rng(20)
    y, x = np.mgrid[:N_PIXELS, :N_PIXELS] - N_PIXELS / 2.0
    orders = [(a, b) for a in range(-3, 4) for b in range(-3, 4)]
    angle = 0.35
    frames = np.empty((N_SCAN, N_SCAN, N_PIXELS, N_PIXELS), np.uint16)
    for row, column in np.ndindex(N_SCAN, N_SCAN):
        dy, dx = row - N_SCAN / 2, column - N_SCAN / 2
        radius = np.hypot(dy, dx)
        inside = 1 / (1 + np.exp(radius - 15))
        field = 2.0 * np.exp(-((radius - 15) ** 2) / 8) / max(radius, 1.0)
        spacing = SPACING * (1 + 0.06 * inside)
        frame: Floats = 1.2 * np.exp(-np.hypot(y, x) / 40)
        for a, b in orders:
            cy = spacing * (a * np.cos(angle) + b * np.sin(angle)) + field * dy
            cx = spacing * (b * np.cos(angle) - a * np.sin(angle)) + field * dx
            height = 12 * np.exp(-np.hypot(cy, cx) / 35)
            frame += height / (1 + np.exp(2 * (np.hypot(y - cy, x - cx) - DISK)))
        frames[row, column] = rng.poisson(frame * (1 - 0.3 * inside))
    return frames


def spectra() -> npt.NDArray[np.uint16]:
    """Two lines of different places in a scan of spectra."""
    y, x = np.mgrid[:40, :50]
    channel = np.arange(400)
    near = np.exp(-((y - 20) ** 2 + (x - 28) ** 2) / 300.0)[..., None]
    lines = np.exp(-((channel - 150) ** 2) / 500.0) + np.exp(-((channel - 260) ** 2) / 200.0) / 2
    return np.random.default_rng(21).poisson(6 + 30 * near * lines).astype(np.uint16)


def shots(folder: Path) -> list[Path]:
    """The pictures of all views, in a folder."""
    frames = scan()
    np.save(folder / "scan.npy", frames)
    np.save(folder / "spectra.npy", spectra())
    np.save(folder / "series.npy", frames[16:48, 16:48, ::2, ::2].reshape(-1, 64, 64))
    files: list[tuple[str, tuple[str, ...], list[dict[str, Any]]]] = [
        ("scan.npy", CALIBRATION, VIEWS),
        ("spectra.npy", ("--sig-dims", "1"), [{"name": "spectra"}]),
        ("series.npy", (), [{"name": "series"}]),
    ]
    try:
        for name, options, views in files:
            with viewer(folder / name, *options) as (link, _):
                found = drive("views.mjs", url=link, views=views, folder=str(folder))
            assert found["errors"] == [], found["errors"]
    finally:
        close_browser()
    return [folder / f"{view['name']}.png" for _, _, views in files for view in views]


def side_by_side(paths: list[Path], width: int = 644) -> Image.Image:
    """Two in a row, each of one width; rows are as high as their lower picture."""
    pictures = [Image.open(path).convert("RGB") for path in paths]
    small = [
        one.resize((width, one.height * width // one.width), Image.Resampling.LANCZOS)
        for one in pictures
    ]
    rows = [small[i : i + 2] for i in range(0, len(small), 2)]
    heights = [min(one.height for one in row) for row in rows]
    sheet = Image.new("RGB", (2 * width, sum(heights)), "white")
    top = 0
    for row, height in zip(rows, heights, strict=True):
        for i, one in enumerate(row):
            sheet.paste(one.crop((0, 0, width, height)), (i * width, top))
        top += height
    return sheet


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        picture = side_by_side(shots(Path(temporary)))
    picture.save(DOCS / "guide" / "view-views.jpg", quality=88, optimize=True)
