"""Sums of integers in NumPy that say so where they do not fit, instead of beginning anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.exceptions import InvalidArgumentError

#: Sums of floats tell up to here whether one of integers is out of reach of 64 bits.
CLEAR = 0.999


def add(dest: npt.NDArray[Any], addend: Any) -> None:
    """Add to an array, in place.

    Raises
    ------
    InvalidArgumentError
        If ``dest`` holds integers, and a sum is beyond them; nothing is added then.
    """
    total = np.add(dest, addend)
    if dest.dtype.kind == "u":
        wrong = total < dest
    elif dest.dtype.kind == "i":
        wrong = ((dest ^ total) & (addend ^ total)) < 0
    else:
        wrong = np.zeros((), bool)
    if wrong.any():
        where = int(np.argmax(wrong))
        raise _too_large(int(dest.flat[where]) + int(np.asarray(addend).flat[where]), dest.dtype)
    dest[...] = total


def add_frames(dest: npt.NDArray[Any], tile: npt.NDArray[Any]) -> None:
    """Add the frames of a tile to an array, in place.

    Raises
    ------
    InvalidArgumentError
        As :func:`add`.
    """
    if dest.dtype.kind in "iu" and tile.dtype.kind in "iu" and tile.dtype.itemsize == 8:
        limits = np.iinfo(dest.dtype)
        if _largest(tile) * len(tile) + _largest(dest) > CLEAR * limits.max:
            total = dest.astype(object) + tile.astype(object).sum(axis=0)
            for extreme in (total.max(initial=0), total.min(initial=0)):
                if not limits.min <= extreme <= limits.max:
                    raise _too_large(extreme, dest.dtype)
            dest[...] = total.astype(dest.dtype)
            return
    dest += tile.sum(axis=0)


def _largest(array: npt.NDArray[Any]) -> float:
    """The largest absolute value."""
    return max(float(array.max(initial=0)), -float(array.min(initial=0)))


def _too_large(total: int, dtype: np.dtype[Any]) -> InvalidArgumentError:
    return InvalidArgumentError(f"a sum is {total}, which {dtype} cannot hold; use dtype='float64'")
