"""Which pixels are in a disk, wherever it is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def in_disk(dy: npt.NDArray[Any], dx: npt.NDArray[Any], radius: float) -> npt.NDArray[np.bool_]:
    """Which pixels are at most ``radius`` away, as kernels compare it: none if it is below 0.

    By squares, as roots are rounded: other pixels would be on the rim.

    Parameters
    ----------
    dy, dx
        How far pixels are from the centre along each axis, in shapes that fit each other.
    radius
        In the same unit.
    """
    radius = float(radius)  # squares of small integers of NumPy would wrap around
    with np.errstate(over="ignore"):
        inside: npt.NDArray[np.bool_] = dx * dx + dy * dy <= (
            radius * radius if radius >= 0 else -1
        )
    return inside
