"""Virtual detectors as arrays: masks whose centre and radii are passed by name.

Each function takes the data set, or the shape of a frame, ``dataset.shape.sig``, and all else by
name: the centre (``cy``, ``cx``) and radii. Numbers are in pixels, and pixel centres have integer
coordinates. :mod:`framefold.masks` has the same with the parameters that LiberTEM's functions have,
x before y.

With a data set whose axes are calibrated, radii can have units: ``(10, "mrad")``, ``"10 mrad"`` or
a quantity of pint or astropy, as for :meth:`DataSet.calibrate()
<framefold.io.dataset.base.DataSet.calibrate>`; ``cy`` and ``cx`` with a unit are places on the
axes. Angles and inverse lengths are converted into each other where the file tells the acceleration
voltage, see :mod:`framefold.utils.calibration`. Where pixels are not square, a circle in units is
the ellipse that it is in pixels.

The centre is by default the pixel at which both axes of the data set are 0, if they say one: that
is, if it is in the frame and not in its first row or column. Otherwise, and for a shape, it is the
middle of the frame, as for the centre of mass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from framefold import masks
from framefold.common import _memory
from framefold.common._booleans import boolean
from framefold.common._integers import MOST, whole
from framefold.common._numbers import count
from framefold.exceptions import InvalidArgumentError
from framefold.masks._disks import in_disk
from framefold.utils._lengths import RIM, Place, place

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet

__all__ = ["disk", "polar", "rectangle", "ring", "rings"]

Mask = npt.NDArray[Any]
#: A number of pixels, or one with its unit: ``(10, "mrad")``, ``"10 mrad"``, a quantity.
Length: TypeAlias = Any


def disk(
    shape: Sequence[int] | DataSet,
    *,
    r: Length,
    cy: Length | None = None,
    cx: Length | None = None,
    antialiased: bool = False,
) -> Mask:
    """A disk: pixels whose centre is at most ``r`` away.

    Parameters
    ----------
    shape
        The data set, or height and width of a frame.
    r
        The radius, in pixels or with a unit.
    cy, cx
        The centre, in pixels, or places on the axes of the data set with a unit.
    antialiased
        Weight pixels at the edge by how far they reach in.

    Returns
    -------
    numpy.ndarray
        Of the shape of a frame; bool, or float64 if ``antialiased``.

    Raises
    ------
    InvalidArgumentError
        If a length is none, or has a unit that the axes of the data set cannot have; and if
        ``antialiased`` is set where a circle in units is an ellipse in pixels.

    Examples
    --------
    >>> import framefold as ff
    >>> ff.detectors.disk((5, 7), cy=2, cx=3, r=1).sum()
    np.int64(5)
    >>> dataset = ff.example_scan().calibrate(pixel_size=(0.5, "mrad"))
    >>> ff.detectors.disk(dataset, r="1 mrad").sum()
    np.int64(13)
    """
    found = place(shape, cy, cx, r=r)
    if boolean("antialiased", antialiased):
        (radius,) = _round(found, "antialiased masks")
        return masks.circular(*_geometry(found), radius, True)
    return _inside(found, 0)


def ring(
    shape: Sequence[int] | DataSet,
    *,
    ri: Length,
    ro: Length,
    cy: Length | None = None,
    cx: Length | None = None,
    antialiased: bool = False,
) -> Mask:
    """A ring: pixels with ``ri < distance <= ro``.

    Parameters
    ----------
    shape
        The data set, or height and width of a frame.
    ri, ro
        Inner and outer radius, in pixels or with a unit.
    cy, cx
        The centre, in pixels, or places on the axes of the data set with a unit.
    antialiased
        Weight pixels at both edges by how far they reach in.

    Returns
    -------
    numpy.ndarray
        Of the shape of a frame; bool, or float64 if ``antialiased``.

    Raises
    ------
    InvalidArgumentError
        If ``ri`` is not below ``ro``, and as for :func:`disk`.
    """
    found = place(shape, cy, cx, ri=ri, ro=ro)
    inner, outer = found.radii
    if not inner < outer:
        raise InvalidArgumentError(f"ri={ri} is not below ro={ro}, so the ring has no pixel")
    if boolean("antialiased", antialiased):
        inside, outside = _round(found, "antialiased masks")
        return masks.ring(*_geometry(found), outside, inside, True)
    mask: Mask = _inside(found, 1) & ~_inside(found, 0)
    return mask


def rectangle(shape: Sequence[int] | DataSet, *, y: int, x: int, height: int, width: int) -> Mask:
    """A rectangle: ``height`` rows from row ``y`` on, ``width`` columns from column ``x`` on.

    Parameters
    ----------
    shape
        The data set, or height and width of a frame.
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
    found = place(shape, None, None)
    top, left = whole("y", y, -MOST), whole("x", x, -MOST)
    rows, columns = whole("height", height), whole("width", width)
    mask = _memory.zeros((found.height, found.width), bool)
    mask[max(0, top) : max(0, top + rows), max(0, left) : max(0, left + columns)] = True
    return mask


def rings(
    shape: Sequence[int] | DataSet,
    *,
    n: int,
    ri: Length = 0,
    ro: Length | None = None,
    cy: Length | None = None,
    cx: Length | None = None,
    normalize: bool = False,
) -> Mask:
    """Rings of equal width, each inside of the next, as a stack of antialiased masks.

    Parameters
    ----------
    shape
        The data set, or height and width of a frame.
    n
        How many.
    ri, ro
        Inner radius of the first and outer radius of the last, in pixels or with a unit; to the
        farthest corner by default, and if ``ro`` is infinite.
    cy, cx
        The centre, in pixels, or places on the axes of the data set with a unit.
    normalize
        Scale each ring that has any pixel to a sum of 1, for means instead of sums.

    Returns
    -------
    numpy.ndarray
        Shape ``(n, height, width)``, float64.

    Raises
    ------
    InvalidArgumentError
        If ``ri`` is not below ``ro``, or ``n`` is not positive, and as for :func:`disk`; rings are
        antialiased.
    """
    found, n = place(shape, cy, cx, ri=ri, **({} if ro is None else {"ro": ro})), count("n", n, 1)
    inner, *outer = _round(found, "rings")
    bins: Mask = masks.radial_bins(
        *_geometry(found), outer[0] if outer else None, inner, n, normalize, use_sparse=False
    )
    return bins


def polar(
    shape: Sequence[int] | DataSet, *, cy: Length | None = None, cx: Length | None = None
) -> tuple[Mask, Mask]:
    """Distance and angle of each pixel, to make other masks of.

    Parameters
    ----------
    shape
        The data set, or height and width of a frame.
    cy, cx
        The centre, in pixels, or places on the axes of the data set with a unit.

    Returns
    -------
    r, phi : numpy.ndarray
        Distance in pixels, and angle from the x axis towards larger y in radians from -pi to pi,
        of the shape of a frame.
    """
    found = place(shape, cy, cx)
    return masks.polar_map(*_geometry(found))


def _geometry(found: Place) -> tuple[float, float, int, int]:
    """What the functions of :mod:`framefold.masks` begin with."""
    return found.cx, found.cy, found.width, found.height


def _round(found: Place, what: str) -> list[float]:
    """The radii, if circles are circles."""
    for ry, rx in found.radii:
        if ry != rx:
            raise InvalidArgumentError(
                f"a radius is {ry:.6g} pixels in height and {rx:.6g} in width, and {what} are "
                f"round; pass radii in pixels, or take disk and ring without antialiased"
            )
    return [rx for _, rx in found.radii]


def _inside(found: Place, number: int) -> Mask:
    """Pixels that are at most this radius away from the centre."""
    ry, rx = found.radii[number]
    _memory.check((found.height, found.width))
    y, x = np.ogrid[: found.height, : found.width]
    y, x = y - found.cy, x - found.cx
    if ry == rx:
        return in_disk(y, x, rx)
    return in_disk(y / (ry + RIM), x / (rx + RIM), 1.0)
