"""Products of tiles on a device with masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.arrays.cuda.worker import current_worker

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
        return _as(frames, dtype) @ _part(masks, sig_slice, dtype, sparse=False)
    inner = dtype if cupyx_knows else np.dtype(np.float64)
    if not is_sparse:
        rows = _part(masks, sig_slice, inner, sparse=True)
        return (rows @ _as(frames, inner).T).T
    columns = _part(masks, sig_slice, inner, sparse=False)
    return _as(_as(frames.tocsr(), inner) @ columns, dtype)


def _as(array: Any, dtype: np.dtype[Any]) -> Any:
    return array if array.dtype == dtype else array.astype(dtype)


def _part(masks: MaskContainer, sig_slice: Slice, dtype: np.dtype[Any], sparse: bool) -> Any:
    """A part of the masks on the device: rows of a CSR matrix, or dense columns.

    It is brought there once for each worker, and let go of at the end of the run.
    """
    import cupy

    def bring() -> Any:
        if not sparse:
            return cupy.asarray(
                masks.get_for_sig_slice(sig_slice, dtype=dtype, sparse_backend=False)
            )
        from cupyx.scipy.sparse import csr_matrix

        form = "scipy.sparse.csr"
        rows = masks.get_for_sig_slice(sig_slice, dtype=dtype, sparse_backend=form, transpose=False)
        return csr_matrix(rows)

    worker = current_worker()
    if worker is None:
        return bring()
    return worker.keep((masks, sig_slice.origin, tuple(sig_slice.shape), dtype, sparse), bring)
