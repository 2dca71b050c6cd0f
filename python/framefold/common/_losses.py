"""Values that an array of another dtype cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def first_lost(
    values: npt.NDArray[Any], dtype: np.dtype[Any], *, fractions: bool = True
) -> Any | None:
    """The first value that becomes another one in integers, truth values or texts of ``dtype``.

    Parameters
    ----------
    fractions
        Whether what comes after the point counts.
    """
    kinds = next((kinds for kinds in ("biuf", "S", "U") if values.dtype.kind in kinds), "")
    # What else NumPy casts, it has its own words for.
    if dtype.kind not in kinds or dtype.kind == "f" or np.can_cast(values.dtype, dtype, "safe"):
        return None
    with np.errstate(invalid="ignore"):
        cast = values.astype(dtype)
        if values.dtype.kind == "f" and not fractions:
            values = np.trunc(values)
        lost: npt.NDArray[np.bool_] = np.asarray(cast != values)
    return values[lost].flat[0].item() if lost.any() else None
