"""Small exact functions on shapes and on dense or sparse arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common.sparse import is_sparse, to_sparse
from framefold.exceptions import InvalidArgumentError


def prod(iterable: Iterable[int | np.integer[Any] | np.bool_]) -> int:
    """The product as a Python integer, which cannot overflow.

    Raises
    ------
    InvalidArgumentError
        If a factor is not an integer.
    """
    result = 1
    for factor in iterable:
        if not isinstance(factor, int | np.integer | np.bool_):
            raise InvalidArgumentError(
                f"{factor!r} is of type {type(factor).__name__}, expected integers"
            )
        result *= int(factor)
    return result


def count_nonzero(array: Any) -> int:
    """How many elements of a dense or sparse array are not zero."""
    if is_sparse(array):
        coo = to_sparse(array)
        n_filled = coo.size - len(coo.data) if np.any(coo.fill_value != 0) else 0
        return int(np.count_nonzero(coo.data)) + n_filled
    return int(np.count_nonzero(array))


def flat_nonzero(array: Any) -> npt.NDArray[np.intp]:
    """The indices of elements that are not zero, in the flattened dense or sparse array."""
    if is_sparse(array):
        coords, _ = _nonzero(array)
        return np.asarray(np.ravel_multi_index(tuple(coords), array.shape))
    return np.flatnonzero(array)


def ndenumerate(array: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Index and value of each element; of a sparse array, of those that are not zero."""
    if is_sparse(array):
        coords, values = _nonzero(array)
        for index, value in zip(coords.T, values, strict=True):
            yield tuple(int(i) for i in index), value
    else:
        yield from np.ndenumerate(np.asarray(array))


def make_2D_square(shape: tuple[int, ...]) -> tuple[int, ...]:  # noqa: N802
    """``(n, n)`` for the shape of one axis of n² elements; other shapes as they are."""
    if len(shape) == 1 and isqrt(shape[0]) ** 2 == shape[0]:
        return (isqrt(shape[0]),) * 2
    return tuple(shape)


def _nonzero(array: Any) -> tuple[npt.NDArray[np.intp], npt.NDArray[Any]]:
    """Coordinates, shape ``(dims, n)``, and values of what is not zero, in C order."""
    coo = to_sparse(array)
    if np.any(coo.fill_value != 0):
        dense = coo.todense()
        where = np.stack(np.nonzero(dense))
        return where, dense[tuple(where)]
    kept = coo.data != 0
    return coo.coords[:, kept], coo.data[kept]
