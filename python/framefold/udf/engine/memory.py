"""Keeps the memory of arrays that functions make and throw away.

Functions of the user make temporary arrays for every frame or tile. The C library of Linux asks the
system for each larger one, and gives it back: every page is made and cleared anew, which takes
longer than most arithmetic. It stops doing so for sizes of which one was freed before.
"""

from __future__ import annotations

import sys
from functools import cache

import numpy as np

#: Just below the size from which glibc never keeps memory (``DEFAULT_MMAP_THRESHOLD_MAX``, 32 MiB).
LARGEST = (32 << 20) - (64 << 10)


@cache
def keep_memory() -> None:
    """Have this process use freed memory again; up to 64 MiB of it are kept.

    It frees one array that nothing was written to, as any program may, and no setting of the
    process is touched. Where there is no glibc, it changes nothing.
    """
    if sys.platform == "linux":
        np.empty(LARGEST, dtype=np.uint8)
