"""Masks, and their products by NumPy, for tests of masks on devices."""

from __future__ import annotations

import numpy as np

CUPYX = [f"cupyx.scipy.sparse.{name}_matrix" for name in ("csr", "csc", "coo")]


def dense_masks(n, sig, dtype="float32"):
    rng = np.random.default_rng(n)
    return rng.integers(-3, 9, (n, *sig)).astype(dtype)


def sparse_masks(n, sig, dtype="float32"):
    import sparse

    masks = dense_masks(n, sig, dtype)
    masks[np.random.default_rng(3).random(masks.shape) > 0.1] = 0
    return sparse.COO.from_numpy(masks)


def products(data, masks, shift=(0, 0)):
    """Masks are moved; what goes over the edge does not count."""
    masks = masks if isinstance(masks, np.ndarray) else masks.todense()
    height, width = masks.shape[1:]
    moved = np.zeros_like(masks)
    for y in range(height):
        for x in range(width):
            if 0 <= y + shift[0] < height and 0 <= x + shift[1] < width:
                moved[:, y + shift[0], x + shift[1]] = masks[:, y, x]
    return np.tensordot(data.astype(complex), moved.astype(complex), ([2, 3], [1, 2]))
