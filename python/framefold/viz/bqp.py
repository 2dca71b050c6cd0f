"""Live plots with bqplot."""

from __future__ import annotations

from typing import Any

import numpy as np

from framefold.common.optional import require
from framefold.results.colours import (
    encode_image,
    opaque_colours,
    vector_colours,
    visualize_simple,
)
from framefold.viz._channels import Look, curve_rows, picture_mask
from framefold.viz.base import Live2DPlot


class BQLive2DPlot(Live2DPlot):
    """A live plot drawn by the browser with bqplot, for notebooks.

    Parameters
    ----------
    dataset, udf, roi, channel, title, min_delta, udfresult
        As for :class:`~framefold.viz.base.Live2DPlot`.

    Attributes
    ----------
    figure : bqplot.Figure or None
        The widget; None before :meth:`display`.
    """

    MIN_DELTA = 1 / 60
    _keeps_channel = True
    figure: Any = None
    _mark: Any = None

    def display(self) -> Any:
        """Make the widget and show it.

        Returns
        -------
        bqplot.Figure

        Raises
        ------
        MissingLibraryError
            If there is no bqplot.
        """
        bqplot = require("bqplot", type(self).__name__, "drawing")
        if self._look is Look.CURVES:
            scales = {"x": bqplot.LinearScale(), "y": bqplot.LinearScale()}
            self._mark = bqplot.Lines(
                x=np.arange(self.data.shape[0]), y=curve_rows(self.data), scales=scales
            )
            sides: dict[str, Any] = {}
        else:
            height, width = self._image_shape = self.data.shape[:2]
            scales = {
                "x": bqplot.LinearScale(min=0, max=width),
                "y": bqplot.LinearScale(min=0, max=height, reverse=True),
            }
            image = require("ipywidgets", type(self).__name__, "drawing").Image
            png = self._png(picture_mask(self.data, self._look))
            self._mark = bqplot.Image(
                image=image(value=png, format="png"),
                scales=scales,
                x=(0, width),
                y=(height, 0),
            )
            ratio = min(max(width / height, 0.25), 4.0)
            sides = {"min_aspect_ratio": ratio, "max_aspect_ratio": ratio}
        vertical = {"side": "left"}
        if "orientation" in bqplot.Axis.class_traits():  # up to bqplot 0.12
            vertical["orientation"] = "vertical"
        axes = [bqplot.Axis(scale=scales["x"]), bqplot.Axis(scale=scales["y"], **vertical)]
        self.figure = bqplot.Figure(marks=[self._mark], axes=axes, title=self.title, **sides)
        require("IPython.display", type(self).__name__, "showing widgets").display(self.figure)
        return self.figure

    def update(self, damage: Any, force: bool = False) -> None:
        """Draw :attr:`data`; shows the plot if it was not shown yet."""
        if self.figure is None:
            self.display()
        if self._look is Look.CURVES:
            self._mark.y = curve_rows(self.data)
        else:
            self._mark.image.value = self._png(np.asarray(damage, dtype=bool))

    def _png(self, damage: Any) -> bytes:
        """The picture as a file."""
        if self._look is Look.VECTORS:
            picture, _ = vector_colours(self.data, damage)
        elif self._look is Look.COLOURS:
            picture = opaque_colours(self.data, damage)
        else:
            picture = visualize_simple(np.ma.getdata(self.data), colormap="viridis", damage=damage)
            picture[~damage, 3] = 0
        return encode_image(picture).getvalue()
