"""Tools around a run: coordinates and lattices of peaks, simulated data, files to try things with.

Coordinates are ``(y, x)`` in pixels; polar ones are ``(r, phi)`` with ``phi`` in radians from the
x axis towards the y axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common._masked import refuse_masked
from framefold.common._numbers import number
from framefold.compat.submodules import submodule
from framefold.exceptions import InvalidArgumentError

Floats = npt.NDArray[Any]


def make_polar(cartesian: npt.ArrayLike) -> Floats:
    """``(y, x)`` as ``(r, phi)``.

    Parameters
    ----------
    cartesian
        Shape ``(..., 2)``.

    Returns
    -------
    numpy.ndarray
        Shape ``(..., 2)``, floating point.
    """
    points = _wide("the positions", cartesian)
    y, x = points[..., 0], points[..., 1]
    return np.stack([np.hypot(y, x), np.arctan2(y, x)], axis=-1)


def make_cartesian(polar: npt.ArrayLike) -> Floats:
    """``(r, phi)`` as ``(y, x)``.

    Parameters
    ----------
    polar
        Shape ``(..., 2)``.

    Returns
    -------
    numpy.ndarray
        Shape ``(..., 2)``, floating point.
    """
    points = _wide("the positions", polar)
    r, phi = points[..., 0], points[..., 1]
    return np.stack([r * np.sin(phi), r * np.cos(phi)], axis=-1)


def rotate_rad(y: Any, x: Any, radians: float) -> tuple[Any, Any]:
    """``(y, x)`` in axes that are rotated by an angle in radians, from the x to the y axis."""
    angle: Any = _wide("the angle", radians)
    return rotate_precalc(y, x, np.cos(angle), np.sin(angle))


def rotate_deg(y: Any, x: Any, degrees: float) -> tuple[Any, Any]:
    """As :func:`rotate_rad`, with the angle in degrees."""
    return rotate_rad(y, x, np.deg2rad(number("degrees", degrees)))


def rotate_precalc(y: Any, x: Any, cos_angle: float, sin_angle: float) -> tuple[Any, Any]:
    """As :func:`rotate_rad`, with cosine and sine of the angle."""
    y, x = _wide("y", y), _wide("x", x)
    return y * cos_angle + x * sin_angle, x * cos_angle - y * sin_angle


def frame_peaks(
    fy: int,
    fx: int,
    zero: npt.ArrayLike,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    r: float,
    indices: npt.ArrayLike,
) -> tuple[Floats, Floats]:
    """The points of a lattice that lie in a frame.

    Parameters
    ----------
    fy, fx
        The shape of a frame.
    zero, a, b
        Origin and vectors of the lattice, ``(y, x)``.
    r
        The distance to keep from the borders of the frame.
    indices
        The points to look at, as for :func:`regularize_indices`.

    Returns
    -------
    indices, peaks : numpy.ndarray
        Indices and positions of the points in the frame, shape ``(n, 2)`` each.
    """
    points = regularize_indices(indices)
    peaks = calc_coords(zero, a, b, points)
    inside = within_frame(peaks, r, fy, fx)
    return points[inside], peaks[inside]


def calc_coords(
    zero: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike, indices: npt.ArrayLike
) -> Floats:
    """The positions ``zero + i * a + j * b`` of lattice points, shape ``(n, 2)``.

    Parameters
    ----------
    zero, a, b
        Origin and vectors of the lattice, ``(y, x)``.
    indices
        The points ``(i, j)``, as for :func:`regularize_indices`.
    """
    origin, *vectors = (_wide("the lattice", each) for each in (zero, a, b))
    points = _wide("the indices", regularize_indices(indices))
    positions: Floats = origin + points @ np.stack(vectors)
    return positions


def within_frame(peaks: npt.ArrayLike, r: float, fy: int, fx: int) -> npt.NDArray[np.bool_]:
    """Whether positions are at least ``r`` away from the borders of a frame.

    Parameters
    ----------
    peaks
        Positions ``(y, x)``, shape ``(n, 2)``.
    r
        The distance: ``r <= y < fy - r``, and likewise for x.
    fy, fx
        The shape of a frame.
    """
    positions, r = _wide("the positions", peaks), number("r", r)
    ends = number("fy", fy) - r, number("fx", fx) - r
    inside = (positions >= r) & (positions < ends)
    return np.asarray(inside.all(axis=-1))


def regularize_indices(indices: npt.ArrayLike) -> Floats:
    """Lattice indices as a list, shape ``(n, 2)``.

    Parameters
    ----------
    indices
        Shape ``(n, 2)``, or ``(2, n, m)`` as made by ``numpy.mgrid``.

    Raises
    ------
    InvalidArgumentError
        If the shape is another one.
    """
    refuse_masked("the indices", indices)
    given = np.asarray(indices)
    if given.ndim == 2 and given.shape[1] == 2:
        return given
    if given.ndim == 3 and given.shape[0] == 2:
        return given.T.reshape((-1, 2))
    raise InvalidArgumentError(f"indices have shape {given.shape}, expected (n, 2) or (2, n, m)")


def _wide(what: str, values: npt.ArrayLike) -> Floats:
    """An array whose products and sums neither wrap around nor are in half precision."""
    refuse_masked(what, values)
    array = np.asarray(values)
    is_wide = array.dtype.kind in "fc" and array.dtype != np.float16
    return array if is_wide else array.astype(np.result_type(array.dtype, np.int64))


def __getattr__(name: str) -> Any:
    """A submodule that was not imported yet."""
    return submodule(__name__, name)
