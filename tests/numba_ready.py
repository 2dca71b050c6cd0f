"""Numba after its first function, for scripts in forks of a process that has imported this.

To import it, and what it does once in a process, takes longer than to compile a small function.
"""

from __future__ import annotations

import numba
import scipy.linalg.cython_blas  # noqa: F401 - what Numba imports when it compiles
from numba.core.event import install_recorder

numba.njit(lambda value: value)(1)
_recorder = install_recorder("numba:compile")
#: Begins and ends of what Numba has compiled since.
events = _recorder.__enter__().buffer
