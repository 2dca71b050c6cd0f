"""Arrays as the memory that they lie in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def span(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bytes from the first to the last element of an array that runs forward in memory.

    They are the array's own, and valid for as long as it is alive.
    """
    import ctypes

    last = sum((n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True))
    length = last + array.itemsize
    return np.frombuffer((ctypes.c_ubyte * length).from_address(array.ctypes.data), np.uint8)


def from_span(
    memory: npt.NDArray[np.uint8], dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]
) -> npt.NDArray[Any]:
    """The array that :func:`span` was taken of."""
    return np.ndarray(shape, dtype, memory, 0, strides)
