"""Sums of products: of integers, right, however large values are."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common.sparse import is_sparse, to_dense
from framefold.udf._exact_sums import CLEAR

#: Factors are multiplied in parts of so many bits: 2**31 products of two parts fit into int64.
BITS = 16

#: So many elements of a matrix are converted at a time, which stay in the cache.
BLOCK = 1 << 16


def always_fit(dtype: np.dtype[Any], weight: float, result: np.dtype[Any]) -> bool:
    """As :func:`framefold.udf._exact_sums.fit`, whatever the values of a dtype are."""
    limits = np.iinfo(np.uint8 if dtype.kind == "b" else dtype)
    return max(float(limits.max), -float(limits.min)) * weight <= CLEAR * np.iinfo(result).max


def product(left: Any, right: Any, plain: bool) -> npt.NDArray[Any]:
    """The product of two matrices of the same dtype.

    Parameters
    ----------
    left, right
        NumPy arrays, or CSR matrices of SciPy. An array on the left of an array may have a
        narrower dtype if ``plain``; one of the two may be complex where the other is real.
    plain
        Whether all sums fit into their dtype, also on the way; if not, it is int64 or uint64.

    Returns
    -------
    numpy.ndarray
        Of that dtype; of Python's integers unless ``plain``.
    """
    if left.dtype.kind == "c" != right.dtype.kind:
        return _complex(product(left.real, right, plain), product(left.imag, right, plain))
    if right.dtype.kind == "c" != left.dtype.kind:
        return _complex(product(left, right.real, plain), product(left, right.imag, plain))
    if plain and left.dtype != right.dtype:
        return _converted_product(left, right)
    if plain:
        return to_dense(operator.matmul(left, right))
    total: Any = 0
    for i, one in _parts(left):
        for j, other in _parts(right):
            total = total + (to_dense(one @ other).astype(object) << (i + j))
    return np.asarray(total)


def _complex(real: npt.NDArray[Any], imaginary: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Of products of parts: made complex, what is infinite in one part is NaN in both."""
    whole = np.empty(real.shape, np.result_type(real, np.complex64))
    whole.real, whole.imag = real, imaginary
    return whole


def _converted_product(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """In the dtype of the matrix on the right."""
    total = np.zeros((left.shape[0], right.shape[1]), right.dtype)
    width = max(1, BLOCK // max(1, len(left)))
    for first in range(0, left.shape[1], width):
        block = slice(first, first + width)
        total += left[:, block].astype(right.dtype) @ right[block]
    return total


def _parts(matrix: Any) -> Iterator[tuple[int, Any]]:
    """Matrices of int64 whose sum, each times 2 to the power of a shift, is this one."""
    sparse, last = is_sparse(matrix), 64 - BITS
    values = matrix.data if sparse else matrix
    for shift in range(0, 64, BITS):
        part = values >> shift
        # The last one has the sign.
        part = (part if shift == last else part & ((1 << BITS) - 1)).astype(np.int64)
        if shift == 0 or part.any():
            entries = (part, matrix.indices, matrix.indptr) if sparse else None
            yield shift, part if entries is None else type(matrix)(entries, shape=matrix.shape)
