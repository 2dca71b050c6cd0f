"""The memory of result buffers, and of arrays that functions make and throw away.

Functions of the user make temporary arrays for every frame or tile. The C library of Linux asks the
system for each larger one, and gives it back: every page is made and cleared anew, which takes
longer than most arithmetic. It stops doing so for sizes of which one was freed before.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common import _memory
from framefold.common.shape import Shape
from framefold.exceptions import LimitError

if TYPE_CHECKING:
    from framefold.udf.engine.declarations import Buffers

Arrays = dict[str, npt.NDArray[Any]]

#: Just below the size from which glibc never keeps memory (``DEFAULT_MMAP_THRESHOLD_MAX``, 32 MiB).
LARGEST = (32 << 20) - (64 << 10)


@cache
def keep_memory() -> None:
    """Have this process use freed memory again; up to 64 MiB of it are kept.

    It frees one array that nothing was written to, as any program may, and no setting of the
    process is touched. Where there is no glibc, it changes nothing.
    """
    if sys.platform == "linux":
        np.empty(LARGEST, dtype=np.uint8)


def views(arrays: Arrays) -> Arrays:
    """Views, whose shape user code may set."""
    return {name: array[...] for name, array in arrays.items()}


def allocate(buffers: Buffers, shape: Shape, n_frames: int) -> Arrays:
    """Zeroed arrays for all buffers that exist on workers, navigation flattened.

    Raises
    ------
    LimitError
        If there is no memory for one of them.
    """
    arrays = {}
    for name, decl in buffers.items():
        if decl.use != "result_only":
            flat = decl.flat_shape(shape, n_frames)
            try:
                arrays[name] = _memory.zeros(flat, decl.dtype)
            except MemoryError as error:
                raise LimitError(
                    f"there is no memory for the buffer {name!r} of shape {flat}: {error}; select "
                    f"fewer positions with a ROI, or use a smaller extra_shape"
                ) from None
    return arrays


def stand_ins(buffers: Buffers, shape: Shape, n_frames: int) -> Arrays:
    """Arrays that look like those of :func:`allocate`, with one row of memory for all frames."""
    arrays = {}
    for name, decl in buffers.items():
        if decl.use != "result_only":
            row = np.zeros(decl.flat_shape(shape, 1), decl.dtype)
            flat, strides = decl.flat_shape(shape, n_frames), (0, *row.strides[1:])
            arrays[name] = np.lib.stride_tricks.as_strided(row, flat, strides)
    return arrays
