"""Virtual detectors as arrays: masks whose centre and radii are passed by name.

Each function takes the shape of a frame, ``dataset.shape.sig``, and all else by name: the centre
(``cy``, ``cx``), the middle of the frame by default, as for the centre of mass, and radii. All of
it is in pixels, and pixel centres have integer coordinates. :mod:`framefold.masks` has the same
with the parameters that LiberTEM's functions have, x before y.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold import masks
from framefold.common import _memory
from framefold.exceptions import InvalidArgumentError

__all__ = ["disk", "polar", "rectangle", "ring", "rings"]

Mask = npt.NDArray[Any]


def disk(
    shape: Sequence[int],
    *,
    r: float,
    cy: float | None = None,
    cx: float | None = None,
    antialiased: bool = False,
) -> Mask:
    """A disk: pixels whose centre is at most ``r`` away.

    Parameters
    ----------
    shape
        Height and width of a frame.
    r
        The radius.
    cy, cx
        The centre.
    antialiased
        Weight pixels at the edge by how far they reach in.

    Returns
    -------
    numpy.ndarray
        Of the shape of a frame; bool, or float64 if ``antialiased``.

    Examples
    --------
    >>> import framefold as ff
    >>> ff.detectors.disk((5, 7), cy=2, cx=3, r=1).sum()
    np.int64(5)
    """
    return masks.circular(*_geometry(shape, cy, cx), r, antialiased)


def ring(
    shape: Sequence[int],
    *,
    ri: float,
    ro: float,
    cy: float | None = None,
    cx: float | None = None,
    antialiased: bool = False,
) -> Mask:
    """A ring: pixels with ``ri < distance <= ro``.

    Parameters
    ----------
    shape
        Height and width of a frame.
    ri, ro
        Inner and outer radius.
    cy, cx
        The centre.
    antialiased
        Weight pixels at both edges by how far they reach in.

    Returns
    -------
    numpy.ndarray
        Of the shape of a frame; bool, or float64 if ``antialiased``.

    Raises
    ------
    InvalidArgumentError
        If ``ri`` is not below ``ro``.
    """
    if not ri < ro:
        raise InvalidArgumentError(f"ri={ri} is not below ro={ro}, so the ring has no pixel")
    return masks.ring(*_geometry(shape, cy, cx), ro, ri, antialiased)


def rectangle(shape: Sequence[int], *, y: int, x: int, height: int, width: int) -> Mask:
    """A rectangle: ``height`` rows from row ``y`` on, ``width`` columns from column ``x`` on.

    Parameters
    ----------
    shape
        Height and width of a frame.
    y, x
        The first row and column.
    height, width
        How many of them. What is outside of the frame is left out.

    Returns
    -------
    numpy.ndarray
        Of the shape of a frame, bool.

    Raises
    ------
    InvalidArgumentError
        If ``height`` or ``width`` is below 0, or they are no integers.
    """
    frame = _frame(shape)
    try:
        top, left, rows, columns = (index(value) for value in (y, x, height, width))
    except TypeError:
        raise InvalidArgumentError(
            f"a rectangle has whole pixels, not y={y}, x={x}, height={height}, width={width}"
        ) from None
    if min(rows, columns) < 0:
        raise InvalidArgumentError(f"height={height} and width={width} have to be 0 or more")
    mask = _memory.zeros(frame, bool)
    mask[max(0, top) : max(0, top + rows), max(0, left) : max(0, left + columns)] = True
    return mask


def rings(
    shape: Sequence[int],
    *,
    n: int,
    ri: float = 0,
    ro: float | None = None,
    cy: float | None = None,
    cx: float | None = None,
    normalize: bool = False,
) -> Mask:
    """Rings of equal width, each inside of the next, as a stack of antialiased masks.

    Parameters
    ----------
    shape
        Height and width of a frame.
    n
        How many.
    ri, ro
        Inner radius of the first and outer radius of the last; to the farthest corner by default.
    cy, cx
        The centre.
    normalize
        Scale each ring that has any pixel to a sum of 1, for means instead of sums.

    Returns
    -------
    numpy.ndarray
        Shape ``(n, height, width)``, float64.

    Raises
    ------
    InvalidArgumentError
        If ``ri`` is not below ``ro``, or ``n`` is not positive.
    """
    geometry = _geometry(shape, cy, cx)
    bins: Mask = masks.radial_bins(*geometry, ro, ri, n, normalize, use_sparse=False)
    return bins


def polar(
    shape: Sequence[int], *, cy: float | None = None, cx: float | None = None
) -> tuple[Mask, Mask]:
    """Distance and angle of each pixel, to make other masks of.

    Parameters
    ----------
    shape
        Height and width of a frame.
    cy, cx
        The centre.

    Returns
    -------
    r, phi : numpy.ndarray
        Distance in pixels, and angle from the x axis towards larger y in radians from -pi to pi,
        of the shape of a frame.
    """
    return masks.polar_map(*_geometry(shape, cy, cx))


def _geometry(
    shape: Sequence[int], cy: float | None, cx: float | None
) -> tuple[float, float, int, int]:
    """What the functions of :mod:`framefold.masks` begin with."""
    height, width = _frame(shape)
    cy, cx = (height // 2 if cy is None else cy), (width // 2 if cx is None else cx)
    if not (np.isfinite(cy) and np.isfinite(cx)):
        raise InvalidArgumentError(f"the centre cy={cy}, cx={cx} is not finite")
    return cx, cy, width, height


def _frame(shape: Sequence[int]) -> tuple[int, int]:
    lengths = tuple(shape)
    if len(lengths) != 2:
        raise InvalidArgumentError(
            f"detectors have two axes, and frames of shape {lengths} have {len(lengths)}; pass "
            f"dataset.shape.sig"
        )
    return int(lengths[0]), int(lengths[1])
