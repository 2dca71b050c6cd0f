"""Between flat and multi-dimensional indices in C order, for use in compiled code.

As NumPy's functions of similar names, but without checks of the range. All is computed in int64:
narrow integers would wrap around where the code is not compiled, and where it is, unsigned ones of
64 bits and signed ones would make floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from framefold.common.numba.cache import cached_njit
from framefold.exceptions import MissingLibraryError

Function = TypeVar("Function", bound=Callable[..., Any])
Shape = Any


def _compiled(function: Function) -> Function:
    """Compile if Numba is there."""
    try:
        compiled: Function = cached_njit()(function)
    except MissingLibraryError:
        return function
    return compiled


@_compiled
def numba_ravel_multi_index_single(multi_index: Shape, dims: Shape) -> int:
    """The flat index of one multi-dimensional index.

    Parameters
    ----------
    multi_index
        One index per axis.
    dims
        The shape of the array.
    """
    flat = np.int64(0)
    for axis in range(len(dims)):
        flat = flat * np.int64(dims[axis]) + np.int64(multi_index[axis])
    return int(flat)


@_compiled
def numba_ravel_multi_index_multi(multi_index: Shape, dims: Shape) -> npt.NDArray[np.int64]:
    """The flat indices of several multi-dimensional indices.

    Parameters
    ----------
    multi_index
        Shape ``(dims, n)``.
    dims
        The shape of the array.
    """
    flat = np.zeros(len(multi_index[0]), dtype=np.int64)
    for axis in range(len(dims)):
        for item in range(len(flat)):
            index = np.int64(multi_index[axis][item])
            flat[item] = flat[item] * np.int64(dims[axis]) + index
    return flat


@_compiled
def numba_unravel_index_single(index: int, shape: Shape) -> npt.NDArray[np.int64]:
    """The multi-dimensional index of one flat index, shape ``(dims,)``.

    The first one is not limited by the shape.

    Parameters
    ----------
    index
        The flat index.
    shape
        The shape of the array.
    """
    result = np.zeros(len(shape), dtype=np.int64)
    rest = np.int64(index)
    for axis in range(len(shape) - 1, 0, -1):
        result[axis] = rest % np.int64(shape[axis])
        rest = rest // np.int64(shape[axis])
    result[0] = rest
    return result


@_compiled
def numba_unravel_index_multi(indices: Shape, shape: Shape) -> npt.NDArray[np.int64]:
    """The multi-dimensional indices of several flat indices, shape ``(dims, n)``.

    Parameters
    ----------
    indices
        Flat indices.
    shape
        The shape of the array.
    """
    result = np.zeros((len(shape), len(indices)), dtype=np.int64)
    for item in range(len(indices)):
        rest = np.int64(indices[item])
        for axis in range(len(shape) - 1, 0, -1):
            result[axis, item] = rest % np.int64(shape[axis])
            rest = rest // np.int64(shape[axis])
        result[0, item] = rest
    return result
