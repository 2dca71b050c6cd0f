"""Matrices that map ``(y, x)`` coordinates of the scan and of the detector to each other.

All are of shape ``(2, 2)`` and act on column vectors ``(y, x)``; combine them with ``@``, the
first one to act at the right::

    matrix = scale(0.1) @ rotate_deg(30) @ flip_y()
    moved = coordinates @ matrix.T  # coordinates of shape (n, 2)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common._numbers import number
from framefold.exceptions import InvalidArgumentError

__all__ = [
    "flip_x",
    "flip_y",
    "identity",
    "rotate",
    "rotate_deg",
    "scale",
    "scale_rotate_flip_y",
]

Matrix = npt.NDArray[Any]


def scale(factor: float) -> Matrix:
    """Multiply both coordinates by ``factor``; float64."""
    return np.eye(2) * factor


def rotate(radians: float) -> Matrix:
    """Turn from the x axis towards the y axis, by an angle in radians; float64.

    ``(0, 1)`` becomes ``(sin(radians), cos(radians))``: clockwise, where y points down.
    """
    radians = number("radians", radians)
    sin, cos = np.sin(radians), np.cos(radians)
    return np.array([[cos, sin], [-sin, cos]], dtype=np.float64)


def rotate_deg(degrees: float) -> Matrix:
    """As :func:`rotate`, by an angle in degrees."""
    return rotate(np.pi / 180 * number("degrees", degrees))


def flip_y() -> Matrix:
    """Change the sign of y; int."""
    return np.array([[-1, 0], [0, 1]])


def flip_x() -> Matrix:
    """Change the sign of x; int."""
    return np.array([[1, 0], [0, -1]])


def identity() -> Matrix:
    """Leave coordinates as they are; float64."""
    return np.eye(2)


def scale_rotate_flip_y(mat: npt.ArrayLike) -> tuple[float, float, bool]:
    """Take ``scale(factor) @ rotate(radians)``, or that ``@ flip_y()``, apart.

    Parameters
    ----------
    mat
        The matrix, shape ``(2, 2)``.

    Returns
    -------
    factor : float
        Above 0.
    radians : float
        From -pi to pi.
    flip_y : bool
        Whether y was flipped first.

    Raises
    ------
    InvalidArgumentError
        If ``mat`` is no such product, because it shears, or scales the axes differently.
    """
    matrix = np.asarray(mat, dtype=np.float64)
    if matrix.shape != (2, 2):
        raise InvalidArgumentError(f"the matrix has shape {matrix.shape}, expected (2, 2)")
    determinant = float(np.linalg.det(matrix))
    flipped = determinant < 0
    turned = matrix @ flip_y() if flipped else matrix
    factor = float(np.sqrt(abs(determinant)))
    radians = float(np.arctan2(turned[0, 1], turned[0, 0]))
    if not factor > 0 or not np.allclose(turned, factor * rotate(radians), atol=1e-6 * factor):
        raise InvalidArgumentError(
            f"the matrix {matrix.tolist()} is no product of a scale, a rotation and a flip; "
            f"it shears, or scales the axes differently"
        )
    return factor, radians, flipped
