"""Live plots in Gatan Microscopy Suite (DigitalMicrograph), for scripts that run within it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from framefold.exceptions import MissingLibraryError
from framefold.viz._channels import Look, curve_rows, picture_mask
from framefold.viz.base import Live2DPlot

__all__ = ["GMSLive2DPlot"]


class GMSLive2DPlot(Live2DPlot):
    """A live plot that is an image of DigitalMicrograph.

    Numbers are shown as they are, complex ones and vectors by their length, colours as greys, and
    what is not there yet as 0.

    Parameters
    ----------
    dataset, udf, roi, channel, title, min_delta, udfresult
        As for :class:`~framefold.viz.base.Live2DPlot`.

    Attributes
    ----------
    image : DigitalMicrograph.Py_Image or None
        The image; None before :meth:`display`.

    Raises
    ------
    MissingLibraryError
        Anywhere but in DigitalMicrograph's own Python.
    """

    MIN_DELTA = 0.2
    _keeps_channel = True
    image: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            self._dm = import_module("DigitalMicrograph")
        except ModuleNotFoundError as error:
            raise MissingLibraryError(
                f"{type(self).__name__} draws within Gatan Microscopy Suite, where Python has the "
                f"module DigitalMicrograph, and here there is none; use MPLLive2DPlot elsewhere"
            ) from error
        super().__init__(*args, **kwargs)

    def display(self) -> Any:
        """Make the image and show it."""
        self.image = self._dm.CreateImage(self._picture(picture_mask(self.data, self._look)))
        self.image.SetName(self.title)
        self.image.ShowImage()
        return self.image

    def update(self, damage: Any, force: bool = False) -> None:
        """Draw :attr:`data`; shows the plot if it was not shown yet."""
        if self.image is None:
            self.display()
        self.image.GetNumArray()[:] = self._picture(np.asarray(damage, dtype=bool))
        self.image.UpdateImage()

    def _picture(self, damage: Any) -> Any:
        """What the image holds: numbers of 4 bytes at most."""
        if self._look is Look.CURVES:
            return curve_rows(self.data).astype(np.float32)
        numbers = np.ma.getdata(self.data)
        if self._look is Look.VECTORS:
            complex_ = numbers.dtype.kind == "c"
            numbers = np.abs(numbers) if complex_ else np.hypot(numbers[..., 0], numbers[..., 1])
        elif self._look is Look.COLOURS:
            numbers = numbers[..., :3].mean(axis=-1)
        if numbers.dtype.kind not in "iu" or numbers.dtype.itemsize > 4:
            numbers = numbers.astype(np.float32)
        return np.where(damage, np.nan_to_num(numbers), 0).astype(numbers.dtype)
