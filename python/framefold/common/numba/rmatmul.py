"""The product of a dense with a sparse matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common.sparse import is_sparse
from framefold.exceptions import InvalidArgumentError


def rmatmul(left_dense: npt.NDArray[Any], right_sparse: Any) -> npt.NDArray[Any]:
    """The dense product of a dense matrix with a SciPy matrix in CSR or CSC format.

    SciPy's own kernels do the work, from the other side: the transposed matrices are multiplied,
    so that the sparse one comes first. Nothing has to be compiled.

    Parameters
    ----------
    left_dense
        Shape ``(n, k)``.
    right_sparse
        Shape ``(k, m)``.

    Returns
    -------
    numpy.ndarray
        Shape ``(n, m)``, of the common dtype.

    Raises
    ------
    InvalidArgumentError
        If the left matrix is not two-dimensional, the right one is not in CSR or CSC format, or
        their shapes do not match.
    """
    left = np.asarray(left_dense)
    if left.ndim != 2:
        raise InvalidArgumentError(f"left_dense has shape {left.shape}, expected two axes")
    if not is_sparse(right_sparse) or getattr(right_sparse, "format", None) not in ("csr", "csc"):
        raise InvalidArgumentError(
            f"right_sparse is of type {type(right_sparse).__name__}, "
            f"expected a SciPy matrix in CSR or CSC format"
        )
    if left.shape[1] != right_sparse.shape[0]:
        raise InvalidArgumentError(
            f"left_dense of shape {left.shape} does not match right_sparse of shape "
            f"{right_sparse.shape}"
        )
    return np.ascontiguousarray((right_sparse.T @ left.T).T)
