"""A first look at a data set: one frame, or the sum of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common.optional import require
from framefold.exceptions import UnsupportedError
from framefold.io.dataset._picking import sum_of_frames
from framefold.results.colours import COLOUR
from framefold.results.plots import literal

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet

__all__ = ["draw"]


def draw(dataset: DataSet, position: tuple[int, ...], ax: Any) -> Any:
    """Draw the frame at a position, or the sum of all; see :meth:`DataSet.plot`."""
    n_axes = dataset.shape.sig.dims
    coloured = _is_coloured(dataset)
    if n_axes > 2 and not coloured:
        raise UnsupportedError(
            f"plot draws frames of one or two axes, and these have {n_axes}; "
            f"use dataset.frame(…), and draw a part of it"
        )
    pyplot = require("matplotlib.pyplot", "plot()", "pictures")
    if position:
        image, title = dataset.frame(*position), f"frame {tuple(map(int, position))}"
    else:
        image, n_frames = sum_of_frames(dataset)
        title = f"sum of {n_frames} frames"
        if coloured:
            # A sum of colours is none; their mean is one.
            image = np.round(image / max(n_frames, 1)).astype(np.uint8)
            title = f"mean of {n_frames} frames"
    image, label = _real(image)
    if ax is None:
        _, ax = pyplot.subplots(layout="constrained")
    names = [path.name for path in dataset.paths[:1]]
    ax.set_title(literal(": ".join([*names, title])))
    if n_axes == 1:
        ax.plot(image)
        ax.set(xlabel="channel", ylabel=label)
    elif coloured:
        ax.imshow(image)
        ax.set(xlabel="x in pixels", ylabel="y in pixels")
    else:
        shown = ax.imshow(image)
        ax.set(xlabel="x in pixels", ylabel="y in pixels")
        ax.figure.colorbar(shown, ax=ax, label=label)
    return ax


def _is_coloured(dataset: DataSet) -> bool:
    """Whether the last of three axes of frames holds the bytes of their colours."""
    frame = tuple(dataset.shape.sig)
    is_colour = len(frame) == 3 and frame[-1] in (3, 4) and dataset.dtype == np.uint8
    return is_colour and dataset.axes[-1].name == COLOUR


def _real(image: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], str]:
    """What can be drawn of pixels, and what it is."""
    if np.iscomplexobj(image):
        return np.abs(image), "magnitude"
    return image, "intensity"
