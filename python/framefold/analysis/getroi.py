"""Shapes on the scan that analyses take in place of a region of interest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from framefold import masks
from framefold.exceptions import InvalidArgumentError

__all__ = ["get_roi"]

#: The numbers that each shape is made of.
SHAPES = {"disk": ("cx", "cy", "r"), "rect": ("x", "y", "width", "height")}


def get_roi(params: Mapping[str, Any], shape: tuple[int, ...]) -> npt.NDArray[Any] | None:
    """The positions that ``params["roi"]`` selects.

    Parameters
    ----------
    params
        Where ``roi`` is missing, None or empty, all positions are selected. Otherwise a dict with
        ``shape="disk"``, ``cx``, ``cy`` and ``r``, as for :func:`framefold.masks.circular`; or
        with ``shape="rect"``, ``x``, ``y``, ``width`` and ``height``, as for
        :func:`framefold.masks.rectangular`.
    shape
        That of the scan, with two axes.

    Returns
    -------
    numpy.ndarray or None
        bool, of that shape; None for all positions.

    Raises
    ------
    InvalidArgumentError
        If there is no such shape, a number is missing, or the scan does not have two axes.
    """
    roi = params.get("roi")
    if not roi:
        return None
    kind = roi.get("shape")
    if kind not in SHAPES:
        raise InvalidArgumentError(f"roi has shape {kind!r}, expected 'disk' or 'rect'")
    missing = [name for name in SHAPES[kind] if roi.get(name) is None]
    if missing:
        raise InvalidArgumentError(f"a roi of shape {kind!r} needs {', '.join(missing)}, too")
    if len(shape) != 2:
        raise InvalidArgumentError(
            f"a roi of shape {kind!r} needs a scan with two axes, this one has shape "
            f"{tuple(shape)}; pass roi to Context.run instead"
        )
    height, width = shape
    if kind == "disk":
        return masks.circular(roi["cx"], roi["cy"], width, height, roi["r"])
    return masks.rectangular(roi["x"], roi["y"], roi["width"], roi["height"], width, height)
