"""Pictures of the command line and of the Python package have the same colours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import colour_tables
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

import framefold as ff
from framefold.results.colours import vector_colours
from framefold.udf.com import CoMUDF
from framefold.viz import rgb_from_2dvector, visualize_simple

LONGEST = 2.5


def command_line(path: Path, *options: str, udf: str = "com") -> npt.NDArray[np.uint8]:
    """The picture of a result: of the centre of mass of each frame, or of another function."""
    picture = path.with_suffix(".png")
    command = [sys.executable, "-m", "framefold", "run", udf, path, "-o", picture, "--force"]
    how = ["--vmax", str(LONGEST), "--upscale", "1", *options]
    if "--legend" not in options:
        how.append("--plain")
    subprocess.run([*command, *how], check=True)
    return np.asarray(Image.open(picture).convert("RGBA"))


def scan(path: Path) -> Any:
    """Frames with one bright pixel, which goes everywhere."""
    data = np.zeros((9, 9, 9, 9), np.float32)
    y, x = np.mgrid[:9, :9]
    data[y, x, y, x] = 1
    np.save(path, data)
    return data


def test_pictures_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "scan.npy"
    data = scan(path)
    ctx = ff.Context.make_with("inline")
    udf = CoMUDF.with_params(cy=4, cx=4)
    field = ctx.run_udf(dataset=ctx.load("memory", data=data, sig_dims=2), udf=udf)["field"].data
    there = np.ones((9, 9), bool)
    expected, vmax = vector_colours(np.ma.getdata(field), there, vmax=LONGEST)
    assert vmax == LONGEST
    picture = command_line(path, "--center", "none")
    assert (picture == expected).all()
    # The middle is grey; right, down, left and up are orange, green, blue and purple.
    red, green, blue = picture[..., :3].astype(int).transpose(2, 0, 1)
    assert (picture[4, 4] == (127, 127, 127, 255)).all()
    assert red[4, 8] > green[4, 8] > blue[4, 8]
    assert green[8, 4] > red[8, 4] > blue[8, 4]
    assert blue[4, 0] > green[4, 0] > red[4, 0]
    assert blue[0, 4] > red[0, 4] > green[0, 4]


def test_wheels_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "scan.npy"
    scan(path)
    picture = command_line(path, "--legend")
    wheel = picture[:, -48:]
    assert wheel.shape == (48, 48, 4)
    y, x = (np.mgrid[:48, :48] - 23.5) / 24
    shown = np.hypot(y, x) <= 1
    assert (wheel[..., 3] == np.where(shown, 255, 0)).all()
    assert (wheel[..., :3] == rgb_from_2dvector(y, x, vmax=1.0))[shown].all()


def test_tables_of_colours_are_those_of_matplotlib() -> None:
    assert colour_tables.TABLES.read_text("utf-8") == colour_tables.text()


@pytest.mark.parametrize("name", [*colour_tables.NAMES, "gray"])
def test_numbers_have_the_same_colours(tmp_path: Path, name: str) -> None:
    path = tmp_path / "levels.npy"
    # In the middle of each of the 256 steps, and beyond both ends.
    levels = LONGEST * (np.arange(-8.0, 264.0) + 0.5).reshape(17, 16) / 256
    np.save(path, levels[:, :, np.newaxis, np.newaxis].astype(np.float32))
    picture = command_line(path, "--vmin", "0", "--cmap", name, udf="sumsig")
    expected = visualize_simple(levels, colormap=name, vmin=0, vmax=LONGEST)
    # Matplotlib's gray is rounded down from steps that are no whole numbers.
    off = 1 if name == "gray" else 0
    assert np.abs(picture.astype(int) - expected).max() <= off
