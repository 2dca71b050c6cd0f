"""Data sets from arrays in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.exceptions import InvalidArgumentError


def load_memory(
    data: npt.NDArray[Any] | None = None,
    *,
    sig_dims: int | None = None,
    nav_shape: tuple[int, ...] | None = None,
    sig_shape: tuple[int, ...] | None = None,
    sync_offset: int = 0,
    num_partitions: int | None = None,
) -> _engine.Dataset:
    """A data set that reads an array in place.

    Parameters
    ----------
    data
        At least one navigation and one signal axis. Arrays whose frames do not lie in C order
        are read in place, too.
    sig_dims
        How many of the last axes are signal axes; 2 if neither this nor ``sig_shape`` is given.
    nav_shape, sig_shape
        Other shapes for scan and frame; ``sig_shape`` must have as many elements as the array's
        own signal axes.
    sync_offset, num_partitions
        As for :meth:`framefold.Context.load`.
    """
    if data is None:
        raise InvalidArgumentError("load('memory') needs an array: pass data=…")
    array = np.asanyarray(data)
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > 16:
        raise InvalidArgumentError(
            f"data has dtype {array.dtype}; frames hold bools, integers, floats or complex numbers"
        )
    if sig_dims is None:
        sig_dims = len(sig_shape) if sig_shape is not None else 2
    if sig_shape is not None and len(sig_shape) != sig_dims:
        raise InvalidArgumentError(f"sig_shape {sig_shape} does not have sig_dims={sig_dims} axes")
    if not 1 <= sig_dims <= array.ndim:
        raise InvalidArgumentError(
            f"sig_dims={sig_dims} does not fit data of shape {array.shape}; "
            f"it must be between 1 and {array.ndim}"
        )
    if array.ndim == sig_dims:
        array = array[np.newaxis]
    if sig_shape is not None and tuple(sig_shape) != array.shape[array.ndim - sig_dims :]:
        array = _with_sig_shape(array, tuple(sig_shape), sig_dims)
    if any(stride < 0 for stride in array.strides):
        array = np.ascontiguousarray(array)  # the engine reads forward only
    return _engine.from_array(array, sig_dims, nav_shape, sync_offset, num_partitions)


def _with_sig_shape(
    array: npt.NDArray[Any], sig_shape: tuple[int, ...], sig_dims: int
) -> npt.NDArray[Any]:
    """The same frames in another shape; a view where the array's layout allows."""
    nav = array.shape[: array.ndim - sig_dims]
    try:
        return array.reshape(nav + sig_shape)
    except ValueError:
        raise InvalidArgumentError(
            f"sig_shape {sig_shape} does not have as many pixels as frames of shape "
            f"{array.shape[len(nav) :]}"
        ) from None
