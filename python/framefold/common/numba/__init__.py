"""Helpers for user code that is compiled with Numba.

framefold itself does not need Numba. Where it is installed, the index functions are compiled and
can be called from compiled code; otherwise they are the same functions in plain Python.
"""

from __future__ import annotations

from framefold.common.numba.cache import cached_njit
from framefold.common.numba.indices import (
    numba_ravel_multi_index_multi,
    numba_ravel_multi_index_single,
    numba_unravel_index_multi,
    numba_unravel_index_single,
)
from framefold.common.numba.rmatmul import rmatmul

__all__ = [
    "cached_njit",
    "numba_ravel_multi_index_multi",
    "numba_ravel_multi_index_single",
    "numba_unravel_index_multi",
    "numba_unravel_index_single",
    "rmatmul",
]
