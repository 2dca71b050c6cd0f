"""Parts of masks on CUDA devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from framefold.common.backend import kept_by_worker
from framefold.common.sparse import cupyx_dtype
from framefold.common.udf import NUMPY

if TYPE_CHECKING:
    from framefold.common.container import MaskContainer
    from framefold.common.slice import Slice


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
            # asarray would pin as much memory first, which takes longer than the transfer.
            there = cupy.empty(part.shape, dtype=part.dtype)
            there.set(part)
            # Only queued where devices read such memory themselves; nothing holds it until then.
            cupy.cuda.get_current_stream().synchronize()
            return there
        from cupyx.scipy import sparse

        part = masks.get_for_sig_slice(sig_slice, cupyx_dtype(dtype), form, transpose, NUMPY)
        return (sparse.csc_matrix if form == "scipy.sparse.csc" else sparse.csr_matrix)(part)

    parts = kept_by_worker("parts of masks", WeakKeyDictionary).setdefault(masks, {})
    key = (sig_slice.origin, tuple(sig_slice.shape), dtype, form, transpose)
    if key not in parts:
        parts[key] = bring()
    return parts[key]
