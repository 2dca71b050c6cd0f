"""What the functions that make masks are given of the frame, as numbers of Python."""

from __future__ import annotations

from typing import Any

from framefold.common._numbers import coordinate, count


def frame_shape(imageSizeX: Any, imageSizeY: Any) -> tuple[int, int]:
    """Width and height of a frame."""
    return count("imageSizeX", imageSizeX), count("imageSizeY", imageSizeY)


def frame_with_centre(
    centerX: Any, centerY: Any, imageSizeX: Any, imageSizeY: Any
) -> tuple[float, float, int, int]:
    """The centre, x before y, and width and height of a frame."""
    centre = coordinate("centerX", centerX), coordinate("centerY", centerY)
    return *centre, *frame_shape(imageSizeX, imageSizeY)
