"""Narrow pixels as single precision, four at a time: a device moves as many bytes in a step.

Each of its threads reads four pixels as one number, and writes four floats as one of two doubles.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

#: What four pixels are read as, by the dtype of one.
FOURS = {
    np.dtype(kind): np.dtype(f"u{4 * np.dtype(kind).itemsize}")
    for kind in (np.uint8, np.int8, np.uint16, np.int16)
}


def as_dtype(array: Any, dtype: np.dtype[Any]) -> Any:
    """``array`` in another dtype, a new array that is C-contiguous; itself if it has that dtype."""
    if array.dtype == dtype:
        return array
    four = FOURS.get(array.dtype)
    fits = array.flags.c_contiguous and array.ndim > 0 and array.shape[-1] % 4 == 0
    if dtype != np.float32 or four is None or not fits or array.data.ptr % four.itemsize:
        return array.astype(dtype)
    import cupy

    return _kernel(cupy, array.dtype)(array.view(four)).view(np.float32)


@cache
def _kernel(cupy: Any, dtype: np.dtype[Any]) -> Any:
    n_bits, four = 8 * dtype.itemsize, FOURS[dtype]
    pixel = {"i": "signed", "u": "unsigned"}[dtype.kind] + {8: " char", 16: " short"}[n_bits]
    floats = [f"__float_as_int((float)({pixel})(x >> {i * n_bits}))" for i in range(4)]
    # The lowest bits come first in memory, as the first pixel does.
    return cupy.ElementwiseKernel(
        f"{four.name} x",
        "complex128 y",
        f"y = complex<double>(__hiloint2double({floats[1]}, {floats[0]}), "
        f"__hiloint2double({floats[3]}, {floats[2]}))",
        f"framefold_floats_of_{dtype.name}",
    )
