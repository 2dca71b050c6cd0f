"""Masks for virtual detectors, as arrays of shape ``(imageSizeY, imageSizeX)``.

Positions are in pixels; pixel centres have integer coordinates. Masks are boolean unless
something has to be weighted; antialiased ones are float64. Numbers may be those of Python or NumPy.
What is masked, NaN or no number is an :class:`~framefold.exceptions.InvalidArgumentError`, and so
are a centre that is not finite and a radius below 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import ceil, hypot, inf, pi
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common import _memory
from framefold.common._booleans import boolean
from framefold.common._losses import first_lost
from framefold.common._masked import refuse_masked
from framefold.common._numbers import coordinate, count, number, radius_of
from framefold.common.optional import require
from framefold.common.sparse import is_sparse, to_dense, to_sparse
from framefold.compat.elsewhere import elsewhere
from framefold.exceptions import InvalidArgumentError, MissingLibraryError
from framefold.masks._disks import in_disk
from framefold.masks._frames import frame_shape, frame_with_centre
from framefold.masks._stacks import sparse_circular_multi_stack, sparse_template_multi_stack

__all__ = [
    "background_subtraction",
    "balance",
    "bounding_radius",
    "circular",
    "gradient_x",
    "gradient_y",
    "is_sparse",
    "polar_map",
    "radial_bins",
    "radial_gradient",
    "radial_gradient_background_subtraction",
    "rectangular",
    "ring",
    "sparse_circular_multi_stack",
    "sparse_template_multi_stack",
    "to_dense",
    "to_sparse",
]

Mask = npt.NDArray[Any]

#: Bins that cover a smaller part of the frame than this are sparse by default.
SPARSE_FILL = 0.1


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
        Weight pixels at the edge by how far they reach in, from 1 half a pixel inside to 0 half
        a pixel outside of ``radius``; float64 instead of bool. The pixel at the centre has
        weight 1, however small the disk.
    """
    cx, cy, width, height = frame_with_centre(centerX, centerY, imageSizeX, imageSizeY)
    radius = radius_of("radius", radius)
    if boolean("antialiased", antialiased):
        distance = _distance(cx, cy, width, height)
        return _antialiased_ring(distance, _centre(cx, cy, distance), 0, radius)
    _memory.check((height, width))
    y, x = np.ogrid[:height, :width]
    return in_disk(y - cy, x - cx, radius)


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
        Weight pixels at both edges by how far they reach in; float64 instead of bool.
    """
    geometry = frame_with_centre(centerX, centerY, imageSizeX, imageSizeY)
    radius, radius_inner = radius_of("radius", radius), radius_of("radius_inner", radius_inner)
    if boolean("antialiased", antialiased):
        distance = _distance(*geometry)
        centre = _centre(*geometry[:2], distance)
        return _antialiased_ring(distance, centre, radius_inner, radius)
    return circular(*geometry, radius) & ~circular(*geometry, radius_inner)


def radial_gradient(
    centerX: float,
    centerY: float,
    imageSizeX: int,
    imageSizeY: int,
    radius: float,
    antialiased: bool = False,
) -> Mask:
    """A disk whose weight rises from 0 at the centre to 1 at the edge; float64.

    Parameters
    ----------
    centerX, centerY
        The centre in pixels.
    imageSizeX, imageSizeY
        The shape of a frame.
    radius
        The radius in pixels, positive and finite.
    antialiased
        Fall from 1 to -1 within half a pixel on both sides of the edge, as
        :func:`radial_gradient_background_subtraction` does: the pixels just outside have
        negative weight.

    Raises
    ------
    InvalidArgumentError
        If ``radius`` is not positive, or infinite.
    """
    geometry = frame_with_centre(centerX, centerY, imageSizeX, imageSizeY)
    radius = radius_of("radius", radius)
    if not 0 < radius < inf:
        raise InvalidArgumentError(
            f"the radius of a radial gradient is {radius}, expected a positive, finite number"
        )
    distance = _distance(*geometry)
    if boolean("antialiased", antialiased):
        gradient = radial_gradient_background_subtraction(distance, radius, radius + 0.5)
        gradient[distance >= radius + 0.5] = 0
        return gradient
    return np.where(circular(*geometry, radius), distance / radius, 0.0)


def radial_gradient_background_subtraction(
    r: npt.ArrayLike, r0: float, r_outer: float, delta: float = 1
) -> Mask:
    """A radial gradient with a negative ring around it, as a function of the distance.

    It rises from 0 at the centre to nearly 1, falls to -1 between ``r0 - delta / 2`` and
    ``r0 + delta / 2``, stays there up to ``r_outer``, and is 0 outside.

    Parameters
    ----------
    r
        Distances from the centre, any shape, for example the first result of
        :func:`polar_map`.
    r0
        The radius of the disk.
    r_outer
        The outer radius of the negative ring.
    delta
        The width of the edge.

    Returns
    -------
    numpy.ndarray
        The shape of ``r``, and its dtype if that is a float.
    """
    refuse_masked("the distances", r)
    r0, delta = number("r0", r0, 0), number("delta", delta)
    r_outer = number("r_outer", r_outer, 0, inf)
    distance = _as_floats(r)
    result = np.zeros(distance.shape, dtype=distance.dtype)
    inside = distance < r0 - delta / 2
    edge = (distance >= r0 - delta / 2) & (distance < r0 + delta / 2)
    around = (distance >= r0 + delta / 2) & (distance <= r_outer)
    if inside.any():
        result[inside] = distance[inside] / r0
    if edge.any():
        result[edge] = (r0 - distance[edge]) / (delta / 2)
    result[around] = -1
    return result


def background_subtraction(
    centerX: float,
    centerY: float,
    imageSizeX: int,
    imageSizeY: int,
    radius: float,
    radius_inner: float,
    antialiased: bool = False,
) -> Mask:
    """A disk of weight 1 in a negative ring, such that all weights add up to 0; float64.

    Parameters
    ----------
    centerX, centerY
        The centre in pixels.
    imageSizeX, imageSizeY
        The shape of a frame.
    radius, radius_inner
        Outer radius of the ring, and the radius at which disk and ring meet, in pixels.
    antialiased
        Antialias disk and ring.

    Raises
    ------
    InvalidArgumentError
        If there is no pixel in the ring, so that nothing can balance the disk.
    """
    geometry = frame_with_centre(centerX, centerY, imageSizeX, imageSizeY)
    disk = circular(*geometry, radius_inner, antialiased).astype(np.float64)
    background = ring(*geometry, radius, radius_inner, antialiased).astype(np.float64)
    if not background.any():
        raise InvalidArgumentError(
            f"there is no pixel of the background between radius_inner={radius_inner} and "
            f"radius={radius} in a frame of shape ({imageSizeY}, {imageSizeX})"
        )
    mask: Mask = disk - background * (disk.sum() / background.sum())
    return mask


def polar_map(
    centerX: float,
    centerY: float,
    imageSizeX: int,
    imageSizeY: int,
    stretchY: float = 1.0,
    angle: float = 0.0,
) -> tuple[Mask, Mask]:
    """Distance and angle of each pixel as seen from the centre.

    Parameters
    ----------
    centerX, centerY
        The centre in pixels.
    imageSizeX, imageSizeY
        The shape of a frame.
    stretchY
        How many times longer an ellipse of constant distance is along its own y axis; not 0.
    angle
        The angle from the x axis of the frame to that of the ellipse, in radians.

    Returns
    -------
    r, phi : numpy.ndarray
        Distance in pixels, and angle from the x axis in radians from -pi to pi, of shape
        ``(imageSizeY, imageSizeX)``.
    """
    cx, cy, width, height = frame_with_centre(centerX, centerY, imageSizeX, imageSizeY)
    stretchY, angle = number("stretchY", stretchY), number("angle", angle, unit="radians")
    if stretchY == 0:
        raise InvalidArgumentError("stretchY is 0, expected another number: ellipses have a height")
    _memory.check((4, height, width))
    y, x = np.mgrid[:height, :width]
    dy, dx = y - cy, x - cx
    if stretchY != 1 or angle != 0:
        dy, dx = (
            (np.cos(angle) * dy - np.sin(angle) * dx) / stretchY,
            np.cos(angle) * dx + np.sin(angle) * dy,
        )
    return np.sqrt(dx**2 + dy**2), np.arctan2(dy, dx)


def balance(template: npt.ArrayLike) -> Mask:
    """Scale the negative weights of a template such that all weights add up to 0.

    Parameters
    ----------
    template
        Weights. Without negative ones they are returned as they are.

    Returns
    -------
    numpy.ndarray
        A copy, of the dtype of ``template`` if that is a float.
    """
    refuse_masked("the template", template)
    result = _as_floats(template).copy()
    below = result < 0
    if below.any():
        result[below] *= -result[result > 0].sum() / result[below].sum()
    return result


def bounding_radius(centerX: float, centerY: float, imageSizeX: int, imageSizeY: int) -> int:
    """A radius in pixels such that the disk around the centre covers the whole frame.

    Parameters
    ----------
    centerX, centerY
        The centre in pixels.
    imageSizeX, imageSizeY
        The shape of a frame.
    """
    cx, cy, width, height = frame_with_centre(centerX, centerY, imageSizeX, imageSizeY)
    return ceil(hypot(max(cx, width - cx), max(cy, height - cy))) + 1


def radial_bins(
    centerX: float,
    centerY: float,
    imageSizeX: int,
    imageSizeY: int,
    radius: float | None = None,
    radius_inner: float = 0,
    n_bins: int | None = None,
    normalize: bool = False,
    use_sparse: bool | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Any:
    """Rings of equal width as a stack of antialiased masks.

    Parameters
    ----------
    centerX, centerY
        The centre in pixels.
    imageSizeX, imageSizeY
        The shape of a frame.
    radius, radius_inner
        Outer radius of the last and inner radius of the first ring, in pixels. By default from
        the centre as far as :func:`bounding_radius`, which an infinite ``radius`` stands for, too.
    n_bins
        The number of rings. By default rings are about one pixel wide.
    normalize
        Scale each ring that has any pixel to a sum of 1.
    use_sparse
        Whether to return a ``sparse.COO``; by default if a ring covers less than a tenth of the
        frame and the package ``sparse`` is installed.
    dtype
        The dtype, by default float64.

    Returns
    -------
    numpy.ndarray or sparse.COO
        Shape ``(n_bins, imageSizeY, imageSizeX)``.

    Raises
    ------
    InvalidArgumentError
        If the radii leave no room, ``n_bins`` is not positive, or ``dtype`` does not hold the
        weights of pixels.
    LimitError
        If there is no memory for so many rings.
    MissingLibraryError
        If ``use_sparse`` is set, but the package ``sparse`` is not installed.
    """
    geometry = frame_with_centre(centerX, centerY, imageSizeX, imageSizeY)
    radius_inner = radius_of("radius_inner", radius_inner)
    radius = inf if radius is None else radius_of("radius", radius)
    # Of rings without end, none is wide enough to reach a pixel.
    radius = float(bounding_radius(*geometry)) if radius == inf else radius
    use_sparse = None if use_sparse is None else boolean("use_sparse", use_sparse)
    if not radius > radius_inner:
        raise InvalidArgumentError(
            f"radius={radius} is not larger than radius_inner={radius_inner}"
        )
    n_bins = max(1, round(radius - radius_inner)) if n_bins is None else count("n_bins", n_bins, 1)
    if use_sparse is None:
        step = (radius - radius_inner) / n_bins
        area = radius * radius - (radius - step) * (radius - step)
        use_sparse = pi * area < SPARSE_FILL * geometry[2] * geometry[3] and _has_sparse()
    # Edges, and at least one number for each ring.
    _memory.check((2, n_bins + 1))
    distance = _distance(*geometry)
    centre = _centre(*geometry[:2], distance)
    edges = np.linspace(radius_inner, radius, n_bins + 1)
    dtype = np.dtype(np.float64 if dtype is None else dtype)
    bins = _bins(distance.reshape(-1), centre, edges, boolean("normalize", normalize), dtype)
    if not use_sparse:
        stack = _memory.zeros((n_bins, distance.size), dtype)
        for index, (pixels, weights) in enumerate(bins):
            stack[index, pixels] = weights
        return stack.reshape((n_bins, *distance.shape))
    sparse = require("sparse", "framefold.masks", "sparse radial bins")
    parts = list(bins)
    pixels = np.concatenate([part for part, _ in parts])
    counts = [len(part) for part, _ in parts]
    rings = np.repeat(np.arange(n_bins), counts)
    # In the byte order of this machine so far.
    data = np.concatenate([weights for _, weights in parts]).astype(dtype, copy=False)
    # What comes in order is not looked through by functions that sparse would have numba compile.
    order = np.lexsort((pixels, rings))
    coords = np.stack([rings, *np.unravel_index(pixels[order], distance.shape)])
    shape = (n_bins, *distance.shape)
    return sparse.COO(coords, data[order], shape=shape, has_duplicates=False, sorted=True)


def rectangular(
    X: float, Y: float, Width: float, Height: float, imageSizeX: int, imageSizeY: int
) -> Mask:
    """A rectangle, with the pixels of both corners.

    Parameters
    ----------
    X, Y
        One corner in pixels.
    Width, Height
        How far away the opposite corner is; negative to the left or top. If one of them is 0,
        the mask is empty. Corners are truncated to integers.
    imageSizeX, imageSizeY
        The shape of a frame.
    """
    width, height = frame_shape(imageSizeX, imageSizeY)
    x, y = coordinate("X", X), coordinate("Y", Y)
    across, down = coordinate("Width", Width), coordinate("Height", Height)
    mask = _memory.zeros((height, width), bool)
    if across and down:
        left, right = (int(side) for side in sorted((x, x + across)))
        top, bottom = (int(side) for side in sorted((y, y + down)))
        if right >= 0 and bottom >= 0:
            mask[max(0, top) : bottom + 1, max(0, left) : right + 1] = True
    return mask


def gradient_x(imageSizeX: int, imageSizeY: int, dtype: npt.DTypeLike = np.float32) -> Mask:
    """The x coordinate of each pixel, in a dtype that holds all of them."""
    width, height = frame_shape(imageSizeX, imageSizeY)
    _memory.check((height, width), dtype)
    return np.tile(_coordinates(width, dtype), (height, 1))


def gradient_y(imageSizeX: int, imageSizeY: int, dtype: npt.DTypeLike = np.float32) -> Mask:
    """The y coordinate of each pixel, in a dtype that holds all of them."""
    width, height = frame_shape(imageSizeX, imageSizeY)
    _memory.check((height, width), dtype)
    return np.repeat(_coordinates(height, dtype)[:, np.newaxis], width, axis=1)


def _coordinates(length: int, dtype: npt.DTypeLike) -> Mask:
    """Those of the pixels along an axis."""
    counted = np.arange(length)
    coordinates: Mask = counted.astype(dtype)
    lost = counted[coordinates != counted]
    if len(lost):
        raise InvalidArgumentError(
            f"{coordinates.dtype} does not hold the coordinate {lost[0]} of a frame with an axis "
            f"of {length} pixels; give a wider dtype"
        )
    return coordinates


def _as_floats(values: npt.ArrayLike) -> Mask:
    """An array of floats; of integers, in double precision."""
    array = np.asarray(values)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _distance(cx: float, cy: float, width: int, height: int) -> Mask:
    _memory.check((2, height, width))
    y, x = np.ogrid[:height, :width]
    distance: Mask = np.sqrt((x - cx) ** 2 + (y - cy) ** 2)
    return distance


def _centre(cx: float, cy: float, distance: Mask) -> int | None:
    """The flat index of the pixel at the centre, or None if it is outside of the frame."""
    y, x = round(cy), round(cx)
    height, width = distance.shape
    return y * width + x if 0 <= y < height and 0 <= x < width else None


def _antialiased_ring(
    distance: Mask, centre: int | None, radius_inner: float, radius: float
) -> Mask:
    """The ring between two radii; what :func:`_bins` does for many rings, over the whole frame."""
    mask: Mask = np.clip(
        np.minimum(radius + 0.5 - distance, distance - radius_inner + 0.5), 0.0, 1.0
    )
    if centre is not None and radius_inner < 0.5:
        mask.reshape(-1)[centre] = min(1.0, 1 - radius_inner)
    return mask


def _bins(
    distance: Mask, centre: int | None, edges: Mask, normalize: bool, dtype: np.dtype[Any]
) -> Iterator[tuple[npt.NDArray[np.intp], Mask]]:
    """Pixels and weights of each ring, touching only the pixels of the ring."""
    order = np.argsort(distance, kind="stable")
    in_order = distance[order]
    for index, (low, high) in enumerate(pairwise(edges)):
        start, stop = np.searchsorted(in_order, (low - 0.5, high + 0.5))
        pixels, near = order[start:stop], in_order[start:stop]
        weights = np.clip(np.minimum(high + 0.5 - near, near - low + 0.5), 0.0, 1.0)
        if index == 0 and centre is not None and low < 0.5:
            elsewhere = pixels != centre
            pixels = np.append(pixels[elsewhere], centre)
            weights = np.append(weights[elsewhere], min(1.0, 1 - low))
        pixels, weights = pixels[weights > 0], weights[weights > 0]
        if normalize and len(weights):
            weights = weights / weights.sum()
        if (lost := first_lost(weights, dtype)) is not None:
            raise InvalidArgumentError(
                f"{dtype} does not hold the weight {lost} of a ring's pixel; give a "
                f"floating-point dtype"
            )
        yield pixels, weights.astype(dtype)


def _has_sparse() -> bool:
    try:
        require("sparse", "framefold.masks", "sparse radial bins")
    except MissingLibraryError:
        return False
    return True


def __getattr__(name: str) -> Any:
    """Names that scripts find here, as in the reference."""
    return elsewhere(__name__, name)
