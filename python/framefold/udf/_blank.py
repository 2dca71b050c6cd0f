"""Frames without intensity, whose centre of mass counts as one at the reference position."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common._telling import tell
from framefold.warnings import NoIntensityWarning


def at_reference(shifts: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Where shifts, of shape ``(…, axes)``, are exactly 0, as those of frames without intensity.

    Nowhere if all that are known are 0: such are shifts that are measured.
    """
    shifts = np.asarray(shifts)
    zero: npt.NDArray[np.bool_] = np.asarray((shifts == 0).all(axis=-1))
    others = np.isfinite(shifts).all(axis=-1) & ~zero
    return zero if others.any() else np.zeros_like(zero)


def tell_of_blank(shifts: npt.NDArray[Any]) -> None:
    """Warn of frames that take part in a regression, but may have no intensity."""
    n_blank = np.count_nonzero(at_reference(shifts))
    if n_blank:
        n_known = np.count_nonzero(np.isfinite(shifts).all(axis=-1))
        tell(
            f"CoMUDF: {n_blank} of {n_known} frames have their centre of mass exactly at the "
            f"reference position, as frames without intensity have; they take part in the "
            f"regression as shifts of 0; leave them out by roi=…",
            NoIntensityWarning,
        )
