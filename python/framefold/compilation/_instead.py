"""What compiled code calls in the place of functions of NumPy's that Numba computes otherwise.

This module imports Numba.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.core.errors import NumbaTypeError
from numba.core.extending import overload

from framefold.compilation._lowering import HELPER
from framefold.compilation.marks import compiled

nt: Any = numba.types

OUTSIDE = "index is out of bounds"
NOT_SQUARE = "np.linalg.solve needs a square matrix"
NO_SECTIONS = "the number of sections has to be above 0"
NOT_FINITE = "NaN is no integer"
TOO_LARGE = "the number is infinite, or beyond integers of 64 bits"
BELOW_0 = "np.bincount counts integers from 0 on; one is below 0"
AXIS = "np.average takes no axis in compiled code: write a loop over the rows"
ZERO = "the weights of np.average add up to 0"
WEIGHTS = "np.average needs a weight for each element: the shapes of both differ"


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def inside(array: Any, axis: Any, indices: Any) -> Any:
    """Indices along an axis, or of all elements, which have to be within it."""
    found = np.asarray(array)
    size = found.size if axis is None else found.shape[axis]
    for index in np.asarray(indices).flat:
        if not -size <= index < size:
            raise IndexError(OUTSIDE)
    return indices


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def square(matrix: Any) -> Any:
    """A matrix, which has to have as many rows as columns."""
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(NOT_SQUARE)
    return matrix


def in_order(array: Any) -> Any:
    """An array, or a copy of one axis with gaps, of which Numba reads what is around it."""


@overload(in_order, jit_options=HELPER, strict=False)
def _in_order(array: Any) -> Any:
    if array.ndim == 1 and array.layout == "A":
        return lambda array: array.copy()
    return lambda array: array


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def several(sections: Any) -> Any:
    """A number of sections, of which there has to be one."""
    if sections <= 0:
        raise ValueError(NO_SECTIONS)
    return sections


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def nan_if_any(array: Any, median: Any) -> Any:
    """A median, which is NaN where an element is."""
    return median * np.nan if np.isnan(array).any() else median


@numba.njit(error_model="numpy", **HELPER)  # type: ignore[untyped-decorator]
def floor_quotient(a: Any, b: Any) -> Any:
    """A quotient that is rounded down by its remainder: 1.0 by 0.1 is 9."""
    return a // b


@numba.njit(error_model="numpy", **HELPER)  # type: ignore[untyped-decorator]
def both_quotients(a: Any, b: Any) -> Any:
    """The same, and its remainder."""
    return a // b, np.remainder(a, b)


@numba.njit(error_model="numpy", **HELPER)  # type: ignore[untyped-decorator]
def remainder_of_integers(a: Any, b: Any) -> Any:
    """A remainder, also of the smallest integer by -1."""
    return a % b


@numba.njit(error_model="numpy", **HELPER)  # type: ignore[untyped-decorator]
def both_of_integers(a: Any, b: Any) -> Any:
    """A quotient that is rounded down, and its remainder."""
    return a // b, a % b


@numba.njit(error_model="numpy", **HELPER)  # type: ignore[untyped-decorator]
def rest_of_integers(a: Any, b: Any) -> Any:
    """A remainder with the sign of what is divided."""
    rest = a % b
    return rest - b * ((rest != 0) & ((rest < 0) != (a < 0)))


@numba.njit(error_model="numpy", **HELPER)  # type: ignore[untyped-decorator]
def power_of_integers(a: Any, b: Any) -> Any:
    """A power by products, which are not rounded to floating-point numbers."""
    return a**b


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def finite(number: Any) -> Any:
    """A floating-point number that an integer can be made of."""
    # One comparison decides for nearly all numbers; it is false for NaN, too.
    if not abs(number) < 2.0**63 and number != -(2.0**63):
        if number != number:
            raise ValueError(NOT_FINITE)
        raise OverflowError(TOO_LARGE)
    return number


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def same_or_both_none(a: Any, b: Any) -> Any:
    """Whether two numbers are equal, either of which may be None."""
    if a is None or b is None:
        return a is None and b is None
    return np.equal(a, b)


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def other_or_one_none(a: Any, b: Any) -> Any:
    """Whether they are not."""
    return not same_or_both_none(a, b)


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def is_among(numbers: Any, number: Any) -> Any:
    """Whether a number is one of those in a tuple or a list."""
    found = False
    for each in numbers:
        found |= same_or_both_none(each, number)
    return found


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def floats(array: Any) -> Any:
    """Integers as floating-point numbers."""
    return array * 1.0


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def integers(array: Any) -> Any:
    """Truth values as integers."""
    return array * 1


def both_floats(a: Any, b: Any) -> Any:
    """Two arrays, in double precision where the first is one of integers."""


@overload(both_floats, jit_options=HELPER, strict=False)
def _both_floats(a: Any, b: Any) -> Any:
    if isinstance(a.dtype, nt.Integer | nt.Boolean):
        return lambda a, b: (a * 1.0, b * np.float64(1.0))
    return lambda a, b: (a, b)


@compiled
def _outer(a: Any, b: Any, out: Any) -> Any:
    return np.multiply(np.ravel(a)[:, None], np.ravel(b), out)


@compiled
def _isposinf(x: Any, out: Any) -> Any:
    return np.logical_and(np.isinf(x), ~np.signbit(x), out)


@compiled
def _isneginf(x: Any, out: Any) -> Any:
    return np.logical_and(np.isinf(x), np.signbit(x), out)


@compiled
def _isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> Any:
    # As floats, since differences of unsigned integers wrap; as one expression, one loop.
    return (
        (np.abs(a * 1.0 - b * 1.0) <= atol + rtol * np.abs(b * 1.0)) & np.isfinite(b * 1.0)
        | (a * 1.0 == b * 1.0)
        | np.isnan(a * 1.0) & np.isnan(b * 1.0) & equal_nan
    )


@compiled
def _allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> Any:
    return np.all(_isclose(np.asarray(a), np.asarray(b), rtol, atol, equal_nan))


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def _bincount(x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    numbers = np.asarray(x)
    if numbers.size > 0 and numbers[0] < 0:  # of others, Numba does look
        raise ValueError(BELOW_0)
    return np.bincount(numbers, weights, minlength)


@compiled
def _array_equal(a1: Any, a2: Any) -> Any:
    a, b = np.asarray(a1), np.asarray(a2)
    return np.all(a == b) if a.shape == b.shape else False


def _no_axis(axis: Any) -> None:
    """Refuse an axis when types are found; later, what is returned would have none."""


@overload(_no_axis, jit_options=HELPER, strict=False)
def _no_axis_of(axis: Any) -> Any:
    if not isinstance(axis, nt.NoneType | nt.Omitted):
        raise NumbaTypeError(AXIS)
    return lambda axis: None


@compiled
def _average(a: Any, axis: Any = None, weights: Any = None) -> Any:
    _no_axis(axis)
    if weights is None:
        return np.mean(np.asarray(a))
    numbers, by = np.asarray(a), np.asarray(weights)
    if numbers.shape != by.shape:
        raise TypeError(WEIGHTS)
    factors = both_floats(numbers, by)
    total = np.sum(factors[1])
    if total == 0:
        raise ZeroDivisionError(ZERO)
    return np.sum(np.multiply(factors[0], factors[1])) / total


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def _resize(a: Any, new_shape: Any) -> Any:
    return np.resize(a, new_shape).copy()  # which may be a part of the array


#: What is taken for functions of NumPy's wherever they are named.
REPLACED = {
    np.isclose: _isclose,
    np.allclose: _allclose,
    np.bincount: _bincount,
    np.average: _average,
    np.array_equal: _array_equal,
    np.resize: _resize,
}
NAMES = frozenset(each.__name__ for each in REPLACED)
#: NumPy's functions with an output that Numba writes in Python, and how many arguments that makes.
WITH_OUTPUT = {np.outer: (_outer, 3), np.isposinf: (_isposinf, 2), np.isneginf: (_isneginf, 2)}
