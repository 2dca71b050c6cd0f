"""Sums of integers in NumPy that say so where they do not fit, instead of beginning anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common.sparse import is_scipy, is_sparse, to_csr, to_dense
from framefold.exceptions import InvalidArgumentError

#: Floats tell up to this part of the largest integer whether a sum is within reach.
CLEAR = 0.999

Array = npt.NDArray[Any]


#: What sums are over, and how to get results that hold more, for messages.
FRAMES = ("a sum over some of the frames", "dtype='float64'")
PRODUCTS = (
    "a sum of products of some pixels of a frame with a mask",
    "preferred_dtype='float64'",
)


def add(dest: Array, addend: Any, words: tuple[str, str] = FRAMES) -> None:
    """Add to an array, in place.

    Parameters
    ----------
    dest, addend
        What is added may be an array of Python's integers, if ``dest`` holds integers.
    words
        What the sums are, and what to do if they do not fit.

    Raises
    ------
    InvalidArgumentError
        If ``dest`` holds integers, and a sum is beyond them; nothing is added then.
    """
    if dest.dtype.kind in "iu":
        addend = np.asarray(addend)
        limit = CLEAR * np.iinfo(dest.dtype).max
        if _largest(dest) + _largest(addend) > limit:
            far = np.abs(dest.astype(np.float64)) + np.abs(addend.astype(np.float64)) > limit
            _check(dest[far].astype(object) + addend[far].astype(object), dest.dtype, words)
        if addend.dtype == object:
            dest[...] = dest.astype(object) + addend
            return
    dest += addend


def add_frames(dest: Array, tile: Array) -> None:
    """Add the frames of a tile to an array of as many pixels, in place.

    Raises
    ------
    InvalidArgumentError
        As :func:`add`.
    TypeError
        If the pixels are of a kind that the array cannot hold, as fractions in integers.
    """
    if tile.shape[1:] != dest.shape and tile[:1].size == dest.size:
        tile = tile.reshape((len(tile), *dest.shape))
    if dest.dtype.kind in "fc":
        dest += tile.sum(axis=0, dtype=np.result_type(tile.dtype, dest.dtype))
        return
    if dest.dtype.kind in "iu" and tile.dtype.kind in "iu":
        limit = CLEAR * np.iinfo(dest.dtype).max
        room = limit - _largest(dest)
        # Most dtypes are too narrow for that, whatever is in the tile.
        if np.iinfo(tile.dtype).max * len(tile) > room and _largest(tile) * len(tile) > room:
            rough = np.abs(dest.astype(np.float64))
            for frame in tile:
                rough += np.abs(frame.astype(np.float64))
            far = rough > limit
            _check(dest[far].astype(object) + tile[:, far].astype(object).sum(axis=0), dest.dtype)
    dest += tile.sum(axis=0).astype(dest.dtype, casting="same_kind", copy=False)


def fit(values: Any, weight: float, result: np.dtype[Any]) -> bool:
    """Whether sums of products fit into a dtype, in any order.

    Parameters
    ----------
    values
        An array of NumPy or CuPy.
    weight
        The sum of the magnitudes of what they are multiplied by; for plain sums, how many they are.
    result
        The integers that are to hold the sums.
    """
    if not values.size:
        return True
    largest = max(float(to_dense(values.max())), -float(to_dense(values.min())))
    return largest * weight <= CLEAR * np.iinfo(result).max


def sums_fit(tile: Any, axis: int) -> bool:
    """Whether sums along an axis fit into what libraries sum integers up in.

    Parameters
    ----------
    tile
        An array or matrix, sparse or on a device, too.
    axis
        Which one.
    """
    if tile.dtype.kind not in "iu" or tile.dtype.itemsize < 8:
        return True
    return fit(tile.data if is_sparse(tile) else tile, tile.shape[axis], tile.dtype)


def sums(tile: Any, axis: int) -> Any:
    """Sums along an axis, by the library of the array; of sparse ones, axes may be flattened.

    They are in float64 where integers may not fit, and of half precision in float32.
    """
    if tile.dtype == np.float16:
        tile = tile.astype(np.float32)
    if tile.dtype == np.uint64 and is_sparse(tile) and not is_scipy(tile):
        # PyData's arrays add the zeros between entries in double precision, and entries with them.
        tile = to_csr(tile.reshape((tile.shape[0], -1)))
    return np.sum(tile if sums_fit(tile, axis) else tile.astype(np.float64), axis=axis)


def _largest(array: Array) -> float:
    """The largest absolute value."""
    return max(float(array.max(initial=0)), -float(array.min(initial=0)))


def _check(totals: Array, dtype: np.dtype[Any], words: tuple[str, str] = FRAMES) -> None:
    """See that Python's integers fit into a dtype."""
    limits = np.iinfo(dtype)
    for total in (totals.max(initial=0), totals.min(initial=0)):
        if not limits.min <= total <= limits.max:
            raise InvalidArgumentError(
                f"{words[0]} is {total}, which {dtype} cannot hold; use {words[1]}"
            )
