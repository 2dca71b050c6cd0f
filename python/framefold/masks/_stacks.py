"""Stacks of many small masks, as sparse arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common import _memory
from framefold.common._losses import first_lost
from framefold.common._masked import refuse_masked
from framefold.common._numbers import FARTHEST, coordinate, number
from framefold.common.optional import require
from framefold.exceptions import InvalidArgumentError
from framefold.masks._frames import frame_shape


def sparse_template_multi_stack(
    mask_index: Sequence[int],
    offsetX: npt.ArrayLike,
    offsetY: npt.ArrayLike,
    template: npt.NDArray[Any],
    imageSizeX: int,
    imageSizeY: int,
) -> Any:
    """A stack of masks with copies of a template at given places.

    Parameters
    ----------
    mask_index
        For each copy the mask that it belongs to. Where copies in one mask overlap, they add up.
    offsetX, offsetY
        For each copy where its upper left pixel goes; truncated to integers. What lies outside
        of the frame is left out.
    template
        A small two-dimensional array.
    imageSizeX, imageSizeY
        The shape of a frame.

    Returns
    -------
    sparse.COO
        Shape ``(max(mask_index) + 1, imageSizeY, imageSizeX)``, the dtype of ``template``.

    Raises
    ------
    InvalidArgumentError
        If index and offsets are not equally long, an index is negative or not whole, or an offset
        is NaN or farther away than any pixel; if ``template`` has not two axes, or its copies add
        up to more than integers of its dtype hold.
    MissingLibraryError
        If the package ``sparse`` is not installed.
    """
    sparse = require("sparse", "framefold.masks", "stacks of templates")
    refuse_masked("index, offsets and template", [mask_index, offsetX, offsetY, template])
    width, height = frame_shape(imageSizeX, imageSizeY)
    template = np.asarray(template)
    if template.ndim != 2:
        raise InvalidArgumentError(f"the template has shape {template.shape}, expected two axes")
    index = _index(mask_index)
    left = _places("offsetX", offsetX).astype(np.int64)
    top = _places("offsetY", offsetY).astype(np.int64)
    if not len(index) == len(left) == len(top):
        raise InvalidArgumentError(
            f"mask_index, offsetX and offsetY have {len(index)}, {len(left)} and {len(top)} "
            f"elements, expected one of each for each copy of the template"
        )
    shape = (len(index), *template.shape)
    y = top[:, np.newaxis] + np.arange(template.shape[0])
    x = left[:, np.newaxis] + np.arange(template.shape[1])
    inside = ((y >= 0) & (y < height))[:, :, np.newaxis]
    inside = inside & ((x >= 0) & (x < width))[:, np.newaxis, :]
    inside = np.broadcast_to(inside, shape)
    coords = np.stack(
        [
            np.broadcast_to(index[:, np.newaxis, np.newaxis], shape)[inside],
            np.broadcast_to(y[:, :, np.newaxis], shape)[inside],
            np.broadcast_to(x[:, np.newaxis, :], shape)[inside],
        ]
    )
    values = np.broadcast_to(template, shape)[inside]
    n_masks = int(index.max()) + 1 if len(index) else 0
    is_narrow = values.dtype.kind in "iu" and values.dtype.itemsize < 8
    wide = values.astype(np.int64) if is_narrow else values
    stack = sparse.COO(coords, wide, shape=(n_masks, height, width), prune=True)
    if not is_narrow:
        return stack
    if (lost := first_lost(stack.data, values.dtype)) is not None:
        raise InvalidArgumentError(
            f"copies of the template add up to {lost} where they overlap, which {values.dtype} "
            f"cannot hold; give it in a wider dtype"
        )
    return stack.astype(values.dtype)


def sparse_circular_multi_stack(
    mask_index: Sequence[int],
    centerX: Sequence[float],
    centerY: Sequence[float],
    imageSizeX: int,
    imageSizeY: int,
    radius: float,
) -> Any:
    """A stack of masks with disks at given places.

    Parameters
    ----------
    mask_index
        For each disk the mask that it belongs to.
    centerX, centerY
        For each disk its centre in pixels.
    imageSizeX, imageSizeY
        The shape of a frame.
    radius
        The radius of all disks in pixels.

    Returns
    -------
    sparse.COO
        Shape ``(max(mask_index) + 1, imageSizeY, imageSizeX)``, dtype bool; each disk is that of
        :func:`circular`.

    Raises
    ------
    InvalidArgumentError
        If index and centres are not equally long, an index is negative or not whole, or a centre
        is NaN or farther away than any pixel.
    MissingLibraryError
        If the package ``sparse`` is not installed.
    """
    sparse = require("sparse", "framefold.masks", "stacks of disks")
    refuse_masked("index and centres", [mask_index, centerX, centerY])
    width, height = frame_shape(imageSizeX, imageSizeY)
    radius = number("radius", radius, 0, FARTHEST, "pixels")
    index = _index(mask_index)
    cx, cy = _places("centerX", centerX), _places("centerY", centerY)
    if not len(index) == len(cx) == len(cy):
        raise InvalidArgumentError(
            f"mask_index, centerX and centerY have {len(index)}, {len(cx)} and {len(cy)} "
            f"elements, expected one of each for each disk"
        )
    reach = ceil(radius) + 1
    _memory.check((4, len(index), 2 * reach + 1, 2 * reach + 1))
    around_y, around_x = (
        part.reshape(-1) for part in np.mgrid[-reach : reach + 1, -reach : reach + 1]
    )
    y = np.floor(cy).astype(np.int64)[:, np.newaxis] + around_y
    x = np.floor(cx).astype(np.int64)[:, np.newaxis] + around_x
    inside = (x - cx[:, np.newaxis]) ** 2 + (y - cy[:, np.newaxis]) ** 2 <= radius * radius
    inside &= (y >= 0) & (y < height) & (x >= 0) & (x < width)
    masks = np.broadcast_to(index[:, np.newaxis], inside.shape)
    n_masks = int(index.max()) + 1 if len(index) else 0
    coords = np.unique(np.stack([masks[inside], y[inside], x[inside]]), axis=1)
    values = np.ones(coords.shape[1], dtype=bool)
    # np.unique has put them in order, which sparse would have numba compile a function to look for.
    shape = (n_masks, height, width)
    return sparse.COO(coords, values, shape=shape, has_duplicates=False, sorted=True)


def _index(mask_index: Sequence[int]) -> npt.NDArray[np.int64]:
    """Numbers of masks; whole ones may come as floats."""
    given = np.asarray(list(mask_index))
    if (lost := first_lost(given, np.dtype(np.int64))) is not None:
        raise InvalidArgumentError(f"mask_index {lost} is not a whole number")
    index = given.astype(np.int64)
    if (index < 0).any():
        raise InvalidArgumentError(f"mask_index {index.min()} is negative")
    return index


def _places(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Places along an axis of frames, each as :func:`coordinate` takes it."""
    places = np.asarray(values, dtype=np.float64).reshape(-1)
    for place in places[~(np.abs(places) <= FARTHEST)]:
        coordinate(name, place)
    return places
