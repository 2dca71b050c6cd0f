"""Sums, means and deviations of numbers of single precision: added up in double, and rounded once.

Numba rounds each sum to single precision. This module imports Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from framefold.compilation._lowering import HELPER, ONLY_LINKED

nt: Any = numba.types

Function = Callable[..., Any]
#: Gives an array for each element.
elements_of: Any = np.nditer
#: Types of single precision, and what to call for them and for those of double precision.
SINGLE = {nt.float32: (np.float32, np.float64), nt.complex64: (np.complex64, np.complex128)}


def _functions(*, fastmath: bool) -> dict[Any, Function]:
    """What is called for NumPy's functions, and for sums along axes, which are None here.

    All take an array, axes or None, and what to call for its precision and for double precision.
    """
    # Left out, it would be that of the first function that calls them.
    helper: Callable[[Function], Function] = numba.njit(fastmath=fastmath, **ONLY_LINKED)

    @helper
    def total_of(array: Any, axis: Any, single: Any, double: Any) -> Any:
        if axis is None:  # which Numba 0.66 takes where it is left out
            return single(np.sum(array, dtype=double))
        return single(np.sum(array, axis, double))

    @helper
    def totals_of(array: Any, axis: Any, single: Any, double: Any) -> Any:
        return np.sum(array, axis, double).astype(single)

    @helper
    def mean_of(array: Any, axis: Any, single: Any, double: Any) -> Any:
        if array.size == 0:
            return np.mean(array)
        return single(np.sum(array, dtype=double) / array.size)

    @helper
    def variance_of(array: Any, axis: Any, single: Any, double: Any) -> Any:
        if array.size == 0:
            return np.nan
        mean = np.sum(array, dtype=double) / array.size
        total = 0.0
        for each in elements_of(array):
            off = each.item() - mean
            total += (off * np.conj(off)).real
        return total / array.size

    @helper
    def deviation_of(array: Any, axis: Any, single: Any, double: Any) -> Any:
        return variance_of(array, axis, single, double) ** 0.5

    @helper
    def total_of_numbers(array: Any, axis: Any, single: Any, double: Any) -> Any:
        total = double(0)
        for each in elements_of(array):
            number = each.item()
            if not np.isnan(number):
                total += number
        return single(total)

    return {
        None: totals_of,
        np.sum: total_of,
        np.mean: mean_of,
        np.var: variance_of,
        np.std: deviation_of,
        np.nansum: total_of_numbers,
    }


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def _variance(array: Any) -> Any:
    return np.nan if array.size == 0 else np.var(array)


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def _deviation(array: Any) -> Any:
    return np.nan if array.size == 0 else np.std(array)


#: What to call for those that Numba divides by zero for where there are no numbers, of double
#: precision and integers.
OF_NOTHING = {np.var: _variance, np.std: _deviation}
_PRECISE, _FAST = _functions(fastmath=False), _functions(fastmath=True)
#: NumPy's functions that add up many numbers.
OF_MANY = frozenset(_PRECISE) - {None}


def function_for(called: Any, *, along_axes: bool, fastmath: bool) -> Function:
    """What to call for one of :data:`OF_MANY`."""
    return (_FAST if fastmath else _PRECISE)[None if along_axes else called]
