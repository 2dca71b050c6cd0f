"""Products of tiles on a device with masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.arrays.cuda.pixels import as_dtype
from framefold.common.device_masks import masks_on_device
from framefold.common.sparse import cupyx_dtype

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
    part = dtype.type(0).real.dtype
    if not is_sparse and frames.dtype.kind == "c" != masks.dtype.kind:
        return _complex(
            mask_products(frames.real, masks, sig_slice, part),
            mask_products(frames.imag, masks, sig_slice, part),
        )
    cupyx_knows = dtype.kind in "fc"
    if not is_sparse and not (masks.use_sparse and cupyx_knows):
        # As rows, as they are on the host, which takes long to transpose them.
        rows = masks_on_device(masks, sig_slice, dtype, False, False)
        if masks.dtype.kind == "c" != frames.dtype.kind:
            frames = as_dtype(frames, part)
            return _complex(frames @ rows.real.T, frames @ rows.imag.T)
        return as_dtype(frames, dtype) @ rows.T
    inner = cupyx_dtype(dtype)
    if not is_sparse:
        rows = masks_on_device(masks, sig_slice, inner, "scipy.sparse.csr", transpose=False)
        return (rows @ as_dtype(frames, inner).T).T
    columns = masks_on_device(masks, sig_slice, inner, False)
    return _as(_as(frames.tocsr(), inner) @ columns, dtype)


def _complex(real: Any, imaginary: Any) -> Any:
    """Of products of parts, as by the kernel: made complex, infinite parts turn both into NaN."""
    import cupy

    whole = cupy.empty(real.shape, np.result_type(real.dtype, np.complex64))
    whole.real, whole.imag = real, imaginary
    return whole


def _as(array: Any, dtype: np.dtype[Any]) -> Any:
    return array if array.dtype == dtype else array.astype(dtype)
