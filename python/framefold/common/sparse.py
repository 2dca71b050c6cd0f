"""Arrays of SciPy, PyData and CuPy, distinguished and converted without importing these first.

No such package is needed to use framefold. What is not imported cannot have made an array, so
:func:`is_sparse` imports nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common.optional import require


def is_sparse(a: Any) -> bool:
    """Whether ``a`` is a sparse array or matrix of SciPy or PyData."""
    return _family(a) in ("scipy", "sparse")


def is_scipy(array: Any) -> bool:
    """Whether ``array`` is a sparse array or matrix of SciPy."""
    return _family(array) == "scipy"


def has_background(array: Any) -> bool:
    """Whether what a sparse ``array`` does not store is not 0, as in ``~mask`` of PyData."""
    # NaN is not 0, either.
    return _family(array) == "sparse" and bool(array.fill_value != 0)


def to_dense(a: Any) -> npt.NDArray[Any]:
    """``a`` as a NumPy array; one that already is one is not copied."""
    family = _family(a)
    if family == "cupyx":
        a, family = a.toarray(), "cupy"
    if family == "cupy":
        host: npt.NDArray[Any] = a.get()
        return host
    if family == "scipy":
        dense: npt.NDArray[Any] = a.toarray()
        return dense
    if family == "sparse":
        return np.asarray(a.todense())
    return np.asarray(a)


def to_sparse(a: Any, shape: Any = None) -> Any:
    """``a`` as a ``sparse.COO``.

    Parameters
    ----------
    a
        A dense array, or a sparse one of SciPy or PyData.
    shape
        The shape to give it, if it is to be another one.

    Raises
    ------
    MissingLibraryError
        If the package ``sparse`` is not installed.
    """
    sparse = require("sparse", "framefold", "sparse masks with any number of axes")
    family = _family(a)
    if family == "scipy":
        coo = sparse.COO.from_scipy_sparse(a)
    elif family == "sparse":
        coo = a.asformat("coo")
    else:
        coo = sparse.COO.from_numpy(np.asarray(a))
    return coo if shape is None else coo.reshape(tuple(shape))


def to_csr(array: Any) -> Any:
    """A two-dimensional ``array`` as a ``scipy.sparse.csr_matrix`` without duplicates.

    It may share memory with ``array``, which stays as it is. What :func:`has_background` has an
    entry for each cell that is not 0.

    Raises
    ------
    MissingLibraryError
        If SciPy is not installed.
    """
    scipy_sparse = require("scipy.sparse", "framefold", "sparse masks")
    if has_background(array):
        array = array.todense()
    elif _family(array) == "sparse":
        coo = array.asformat("coo")
        array = scipy_sparse.coo_matrix((coo.data, coo.coords), shape=coo.shape)
    matrix = scipy_sparse.csr_matrix(array)
    if not matrix.has_canonical_format:
        # SciPy sorts and adds up in place, in memory that other threads may read.
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _family(array: Any) -> str | None:
    """Which package's sparse array this is, or None."""
    if isinstance(array, np.ndarray):
        return None
    for cls in type(array).__mro__:
        package = cls.__module__.partition(".")[0]
        if package == "sparse" and hasattr(array, "todense"):
            return "sparse"
        if package in ("scipy", "cupyx") and hasattr(array, "tocsr"):
            return package
        if package == "cupy" and hasattr(array, "get"):
            return "cupy"
    return None


def cupyx_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that values have in ``cupyx.scipy.sparse``, which has no whole numbers."""
    return dtype if dtype.char in "fdFD" else np.result_type(dtype, np.float32)


def scipy_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that values have in SciPy's sparse arrays, which have no half precision."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype.newbyteorder("=")
