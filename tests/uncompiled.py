"""PyData's sparse arrays as plain Python: compiled, each dtype takes numba seconds, or a minute.

Import it from here before anything else does.
"""

from __future__ import annotations

import numba

_before = numba.config.DISABLE_JIT
numba.config.DISABLE_JIT = True  # read where functions are declared
try:
    import sparse
    import sparseconverter
finally:
    numba.config.DISABLE_JIT = _before

__all__ = ["sparse", "sparseconverter"]
