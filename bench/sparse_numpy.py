"""Plain NumPy on the arrays of a sparse file: what one would write by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sparse_data import DTYPES, ENDINGS
from work import Array, UnsupportedError, dense_masks

#: Entries that are looked at together, so that temporary arrays stay small.
BLOCK_ENTRIES = 1 << 22


def sparse_work(data: dict[str, Any], task: str, params: dict[str, Any]) -> Callable[[], Array]:
    """Make a function of no arguments that does the work and gives the answer."""
    nav, sig = tuple(data["nav"]), tuple(data["sig"])
    path = Path(data["path"])
    indptr, indices, values = (
        np.memmap(path.with_suffix(ending), dtype=dtype, mode="r")
        for ending, dtype in zip(ENDINGS, DTYPES, strict=True)
    )
    indptr = np.asarray(indptr)

    def blocks() -> Iterator[tuple[int, Array, Array, Array]]:
        """How many frames, and for each entry its frame, its pixel and its value."""
        first = 0
        while first < len(indptr) - 1:
            last = int(np.searchsorted(indptr, indptr[first] + BLOCK_ENTRIES, side="right")) - 1
            last = max(first + 1, last)
            part = slice(int(indptr[first]), int(indptr[last]))
            frames = np.repeat(np.arange(last - first), np.diff(indptr[first : last + 1]))
            yield last - first, frames, indices[part], values[part]
            first = last

    def total() -> Array:
        result = np.zeros(sig[0] * sig[1])
        for _, _, pixels, counts in blocks():
            result += np.bincount(pixels, weights=counts, minlength=result.size)
        return result.reshape(sig)

    def com() -> Array:
        parts = []
        for n, frames, pixels, counts in blocks():
            y, x = np.divmod(pixels, sig[1])
            mass = np.bincount(frames, weights=counts, minlength=n)
            moments = [np.bincount(frames, weights=counts * axis, minlength=n) for axis in (y, x)]
            parts.append(np.stack(moments, axis=1) / mass[:, None])
        return np.concatenate(parts).reshape((*nav, 2))

    def masks() -> Array:
        stack = dense_masks(params["n"], sig).reshape(params["n"], -1)
        parts = []
        for n, frames, pixels, counts in blocks():
            sums = [
                np.bincount(frames, weights=mask[pixels] * counts, minlength=n) for mask in stack
            ]
            parts.append(np.stack(sums, axis=1))
        return np.concatenate(parts).reshape((*nav, params["n"]))

    tasks = {"sum": total, "com": com, "masks": masks}
    if task not in tasks:
        raise UnsupportedError(f"there is no task '{task}' for sparse data here")
    return tasks[task]
