"""Arrays whose size follows from input: asked for before they are made."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.exceptions import LimitError

#: Elements that are written between two looks at whether to stop.
PIECE = 1 << 24
MOST = 2**64 - 1
#: Arrays of up to so many bytes are made without a look at what memory is left.
SMALL = 1 << 16


def check(shape: Sequence[int], dtype: npt.DTypeLike = np.float64) -> None:
    """Refuse an array of that shape, unless there is memory for it.

    Raises
    ------
    LimitError
        If there is not, by the engine's rule.
    """
    _engine.check_memory(min(prod(map(int, shape)) * np.dtype(dtype).itemsize, MOST))


def zeros(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of zeros; the system clears them when they are first touched.

    Raises
    ------
    LimitError
        If there is no memory for it.
    """
    dtype = np.dtype(dtype)
    # The check takes longer than to make a small array.
    if prod(map(int, shape)) * dtype.itemsize > SMALL:
        check(shape, dtype)
    try:
        return np.zeros(tuple(shape), dtype=dtype)
    except (MemoryError, ValueError) as error:
        raise LimitError(f"there is no memory for an array of shape {shape}: {error}") from None


def full(shape: Sequence[int], value: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of one value; Ctrl-C ends the filling of a large one.

    Raises
    ------
    LimitError
        If there is no memory for it.
    """
    array = zeros(shape, dtype)
    flat = array.reshape(-1)
    for start in range(0, flat.size, PIECE):
        flat[start : start + PIECE] = value
    return array
