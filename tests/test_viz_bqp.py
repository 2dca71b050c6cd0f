"""Live plots that bqplot draws: what the browser is given."""

from __future__ import annotations

import sys
from io import BytesIO
from typing import Any

import numpy as np
import pytest

import framefold as ff
from framefold.exceptions import MissingLibraryError
from framefold.viz import BQLive2DPlot


class Vectors(ff.UDF):
    def get_result_buffers(self) -> Any:
        return {
            "first": self.buffer("nav"),
            "vector": self.buffer("nav", extra_shape=(2,), vector=True),
        }

    def process_frame(self, frame: Any) -> None:
        self.results.first[:] = frame[0]
        self.results.vector[:] = frame


def plotted(values: Any, **options: Any) -> Any:
    """Run with a plot of vectors of shape ``(*nav, 2)``; gives the plot."""
    ctx = ff.Context.make_with("inline")
    values = np.asarray(values, dtype=np.float32)
    dataset, udf = ctx.load("memory", data=values, sig_dims=1), Vectors()
    plot = BQLive2DPlot(dataset, udf, **options)
    ctx.run_udf(dataset=dataset, udf=udf, plots=[plot])
    return plot


def picture(plot: Any) -> Any:
    from PIL import Image

    return np.asarray(Image.open(BytesIO(plot.figure.marks[0].image.value)))


def test_without_bqplot_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bqplot", None)
    with pytest.raises(MissingLibraryError, match=r"BQLive2DPlot needs bqplot.*pip install bqplot"):
        plotted(np.zeros((4, 5, 2)))


def test_images_vectors_and_colours_are_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    bqplot = pytest.importorskip("bqplot")
    pytest.importorskip("PIL.Image")
    y, x = np.mgrid[-2:3.0, -3:4.0]
    vectors = np.stack([y, x], axis=-1)
    plot = plotted(vectors)
    assert isinstance(plot.figure, bqplot.Figure)
    assert plot.figure.title == "Vectors: first"
    shown = picture(plot)
    assert shown.shape == (5, 7, 4)
    assert (shown == shown[:, :1]).all()  # each row has one colour
    assert len(np.unique(shown[:, 0], axis=0)) == 5
    wheel = picture(plotted(vectors, channel="vector"))
    assert wheel[2, 3].tolist() == [127, 127, 127, 255]
    red = ("vector", lambda v: np.full((5, 7, 3), (255, 0, 0)))
    assert (picture(plotted(vectors, channel=red)) == [255, 0, 0, 255]).all()
    assert "Figure" in capsys.readouterr().out  # no notebook here: shown as text


def test_what_is_not_done_yet_is_transparent() -> None:
    pytest.importorskip("bqplot")
    pytest.importorskip("PIL.Image")
    plot = plotted(np.ones((4, 5, 2)))
    half = np.arange(20).reshape(4, 5) < 10
    plot.update(half)
    assert ((picture(plot)[..., 3] == 255) == half).all()


def test_line_scans_are_curves() -> None:
    pytest.importorskip("bqplot")
    vectors = np.stack([np.arange(7.0), -np.arange(7.0)], axis=-1)
    (lines,) = plotted(vectors[None], channel="vector").figure.marks
    np.testing.assert_array_equal(lines.y, vectors.T)
    (lines,) = plotted(vectors).figure.marks
    np.testing.assert_array_equal(np.squeeze(lines.y), vectors[:, 0])
