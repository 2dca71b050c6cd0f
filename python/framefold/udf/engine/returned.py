"""What functions return whose return value is ignored: results that were meant to be written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

#: Where a partial result has the type of what was returned; no buffer has that name.
RETURNED = "returned by the function"
#: Of what `merge` returned was warned.
MERGE = "returned by merge"


def is_lost(returned: Any, buffers: Iterable[Any]) -> bool:
    """Whether something was returned that is in none of the buffers.

    ``np.add(a, b, out=self.results.x)`` gives the buffer, which holds the result.
    """
    if isinstance(returned, list | tuple):
        held = list(buffers)
        return any(is_lost(each, held) for each in returned)
    return returned is not None and not any(
        returned is buffer
        or (
            isinstance(returned, np.ndarray)
            and isinstance(buffer, np.ndarray)
            and np.may_share_memory(returned, buffer)
        )
        for buffer in buffers
    )


def are_results(returned: Any) -> bool:
    """Whether it can only be meant as results."""
    return isinstance(returned, Mapping | np.ndarray | list | tuple)
