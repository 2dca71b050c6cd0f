"""Products of tiles on a device with masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from framefold.arrays.cuda.tiles import sparse_dtype
from framefold.arrays.cuda.worker import current_worker
from framefold.common.udf import NUMPY

if TYPE_CHECKING:
    from framefold.common.container import MaskContainer
    from framefold.common.slice import Slice


def mask_products(frames: Any, masks: MaskContainer, sig_slice: Slice, dtype: np.dtype[Any]) -> Any:
    """Products of flat ``frames`` with all masks, on the current device.

    Parameters
    ----------
    frames
        CuPy array or matrix of cupyx, shape ``(frames, pixels)``.
    masks, sig_slice
        The masks, and which part of them belongs to the frames.
    dtype
        What to multiply in; whole numbers that are sparse, in float64, as cupyx knows no others.

    Returns
    -------
    cupy.ndarray
        Shape ``(len(frames), n_masks)``, of ``dtype``.
    """
    is_sparse = hasattr(frames, "tocsr")
    cupyx_knows = dtype.kind in "fc"
    if not is_sparse and not (masks.use_sparse and cupyx_knows):
        return _as(frames, dtype) @ masks_on_device(masks, sig_slice, dtype, False)
    inner = dtype if cupyx_knows else np.dtype(np.float64)
    if not is_sparse:
        rows = masks_on_device(masks, sig_slice, inner, "scipy.sparse.csr", transpose=False)
        return (rows @ _as(frames, inner).T).T
    columns = masks_on_device(masks, sig_slice, inner, False)
    return _as(_as(frames.tocsr(), inner) @ columns, dtype)


def _as(array: Any, dtype: np.dtype[Any]) -> Any:
    return array if array.dtype == dtype else array.astype(dtype)


def masks_on_device(
    masks: MaskContainer,
    sig_slice: Slice,
    dtype: np.dtype[Any],
    form: str | bool,
    transpose: bool = True,
) -> Any:
    """A part of the masks on the current device.

    It is brought there once for each worker, and let go of when the run ends, or the masks go.

    Parameters
    ----------
    masks, sig_slice, dtype, transpose
        As for :meth:`MaskContainer.get_for_sig_slice`.
    form
        False for ``cupy.ndarray``; ``'scipy.sparse.csc'`` for ``cupyx.scipy.sparse.csc_matrix``;
        another one of SciPy's formats for ``csr_matrix``. What these hold has a fraction.
    """

    def bring() -> Any:
        import cupy

        if form is False:
            part = masks.get_for_sig_slice(sig_slice, dtype, False, transpose, NUMPY)
            return cupy.asarray(part)
        from cupyx.scipy import sparse

        part = masks.get_for_sig_slice(sig_slice, sparse_dtype(dtype), form, transpose, NUMPY)
        return (sparse.csc_matrix if form == "scipy.sparse.csc" else sparse.csr_matrix)(part)

    worker = current_worker()
    if worker is None:
        return bring()
    parts = worker.keep("parts of masks", WeakKeyDictionary).setdefault(masks, {})
    key = (sig_slice.origin, tuple(sig_slice.shape), dtype, form, transpose)
    if key not in parts:
        parts[key] = bring()
    return parts[key]
