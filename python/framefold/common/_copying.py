"""Large arrays are copied by several threads: one alone waits for the system to hand out memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common.cores import available_cores

Array = npt.NDArray[Any]

#: So many bytes take a thread some milliseconds, and starting one some 50 µs.
LEN_SHARE = 16 << 20

#: More threads copy no faster.
MAX_THREADS = 8


def concatenated(arrays: Sequence[Array], dtype: np.dtype[Any]) -> Array:
    """A copy of all ``arrays``, along their first axis, in ``dtype``."""
    if any(array.dtype != dtype or array.shape[1:] != arrays[0].shape[1:] for array in arrays):
        # Each by itself: the common dtype of int64 and uint64 holds neither.
        return np.concatenate([array.astype(dtype, copy=False) for array in arrays])
    rows = [array[i : i + 1] for array in arrays for i in range(len(array))]
    whole = np.empty((len(rows), *arrays[0].shape[1:]), dtype)

    def copy(first: int, last: int) -> None:
        for i in range(first, last):
            whole[i : i + 1] = rows[i]

    n_threads = max(1, min(MAX_THREADS, available_cores(), whole.nbytes // LEN_SHARE, len(rows)))
    bounds = [len(rows) * i // n_threads for i in range(n_threads + 1)]
    own, *others = pairwise(bounds)
    threads = [threading.Thread(target=copy, args=share) for share in others]
    for thread in threads:
        thread.start()
    copy(*own)
    for thread in threads:
        thread.join()
    return whole
