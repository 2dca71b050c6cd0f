"""Sums of products of integers that are right, however large values are."""

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


def always_fit(dtype: np.dtype[Any], weight: float, result: np.dtype[Any]) -> bool:
    """As :func:`framefold.udf._exact_sums.fit`, whatever the values of a dtype are."""
    limits = np.iinfo(np.uint8 if dtype.kind == "b" else dtype)
    return max(float(limits.max), -float(limits.min)) * weight <= CLEAR * np.iinfo(result).max


def product(left: Any, right: Any, plain: bool) -> npt.NDArray[Any]:
    """The product of two matrices of the same dtype, int64 or uint64.

    Parameters
    ----------
    left, right
        NumPy arrays, or CSR matrices of SciPy.
    plain
        Whether all sums fit into their dtype, also on the way.

    Returns
    -------
    numpy.ndarray
        Of that dtype; of Python's integers unless ``plain``.
    """
    if plain:
        return to_dense(operator.matmul(left, right))
    total: Any = 0
    for i, one in _parts(left):
        for j, other in _parts(right):
            total = total + (to_dense(one @ other).astype(object) << (i + j))
    return np.asarray(total)


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
