"""Masks for virtual detectors, as boolean or float arrays of shape ``(imageSizeY, imageSizeX)``.

Positions are in pixels; pixel centres have integer coordinates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[Any]


def circular(
    centerX: float,
    centerY: float,
    imageSizeX: int,
    imageSizeY: int,
    radius: float,
    antialiased: bool = False,
) -> Mask:
    """A disk: pixels whose centre is at most ``radius`` away.

    Parameters
    ----------
    centerX, centerY
        The centre in pixels.
    imageSizeX, imageSizeY
        The shape of a frame.
    radius
        The radius in pixels.
    antialiased
        Weight pixels at the edge by how far they reach in; float32 instead of bool.
    """
    distance = _distance(centerX, centerY, imageSizeX, imageSizeY)
    if antialiased:
        return np.clip(radius + 0.5 - distance, 0, 1).astype(np.float32)
    return distance <= radius


def ring(
    centerX: float,
    centerY: float,
    imageSizeX: int,
    imageSizeY: int,
    radius: float,
    radius_inner: float,
    antialiased: bool = False,
) -> Mask:
    """A ring: pixels with ``radius_inner < distance <= radius``.

    Parameters
    ----------
    centerX, centerY
        The centre in pixels.
    imageSizeX, imageSizeY
        The shape of a frame.
    radius, radius_inner
        Outer and inner radius in pixels.
    antialiased
        Weight pixels at the edges by how far they reach in; float32 instead of bool.
    """
    outer = circular(centerX, centerY, imageSizeX, imageSizeY, radius, antialiased)
    inner = circular(centerX, centerY, imageSizeX, imageSizeY, radius_inner, antialiased)
    return outer - inner if antialiased else outer & ~inner


def rectangular(
    X: float, Y: float, Width: float, Height: float, imageSizeX: int, imageSizeY: int
) -> Mask:
    """A rectangle: pixels with ``X <= x <= X + Width`` and ``Y <= y <= Y + Height``."""
    y, x = np.indices((imageSizeY, imageSizeX))
    left, right = sorted((X, X + Width))
    top, bottom = sorted((Y, Y + Height))
    return (x >= left) & (x <= right) & (y >= top) & (y <= bottom)


def gradient_x(imageSizeX: int, imageSizeY: int, dtype: npt.DTypeLike = np.float32) -> Mask:
    """The x coordinate of each pixel."""
    x: Mask = np.indices((imageSizeY, imageSizeX))[1].astype(dtype)
    return x


def gradient_y(imageSizeX: int, imageSizeY: int, dtype: npt.DTypeLike = np.float32) -> Mask:
    """The y coordinate of each pixel."""
    y: Mask = np.indices((imageSizeY, imageSizeX))[0].astype(dtype)
    return y


def _distance(centerX: float, centerY: float, imageSizeX: int, imageSizeY: int) -> Mask:
    y, x = np.ogrid[:imageSizeY, :imageSizeX]
    distance: Mask = np.hypot(y - centerY, x - centerX)
    return distance
