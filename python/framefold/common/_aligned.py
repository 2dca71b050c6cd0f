"""Arrays that begin at a page of memory, and views that are sure to be views."""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

#: Bytes of a page.
PAGE = 4096


def reshaped_view(a: npt.NDArray[Any], shape: Any) -> npt.NDArray[Any]:
    """``a`` in another shape, without a copy: writing into it changes ``a``.

    Parameters
    ----------
    a
        An array.
    shape
        As for :meth:`numpy.ndarray.reshape`.

    Raises
    ------
    AttributeError
        If that needs a copy, or there are not as many elements.
    """
    array = np.asarray(a)
    try:
        view = array.reshape(shape)
    except ValueError as error:
        raise AttributeError(str(error)) from None
    if view.size and not np.may_share_memory(view, array):
        raise AttributeError(
            f"an array of shape {array.shape} and strides {array.strides} has no view of shape "
            f"{shape}; a.reshape({shape}) copies"
        )
    return view


def empty_aligned(size: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of that shape that begins at a page of memory, with anything in it."""
    shape = size if isinstance(size, tuple | list) else (size,)
    shape, dtype = tuple(index(length) for length in shape), np.dtype(dtype)
    if dtype.hasobject:
        return np.empty(shape, dtype=dtype)
    n_bytes = prod(shape) * dtype.itemsize
    memory = np.empty(n_bytes + PAGE, dtype=np.uint8)
    begin = -memory.ctypes.data % PAGE
    return memory[begin : begin + n_bytes].view(dtype).reshape(shape)


def zeros_aligned(size: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of zeros of that shape that begins at a page of memory."""
    array = empty_aligned(size, dtype)
    array[...] = np.zeros((), dtype=array.dtype)
    return array
