"""Values that an array of another dtype cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def first_lost(
    values: npt.NDArray[Any], dtype: np.dtype[Any], *, fractions: bool = True
) -> Any | None:
    """The first value that becomes another one in integers, truth values, texts or times.

    Also the first complex one that loses an imaginary part in real numbers.

    Fields of structured arrays are assigned one by one, in their order.

    Parameters
    ----------
    fractions
        Whether what comes after the point counts.
    """
    if values.dtype.names and dtype.names:
        fields = zip(values.dtype.names, dtype.names, strict=False)
        lost = (first_lost(values[a], dtype[b].base, fractions=fractions) for a, b in fields)
        return next((each for each in lost if each is not None), None)
    if values.dtype.kind == "c" and dtype.kind in "biuf":
        imaginary = values[values.imag != 0]
        if imaginary.size:
            return imaginary.flat[0].item()
        values = values.real
    kinds = next(
        (kinds for kinds in ("biuf", "S", "U", "m", "M") if values.dtype.kind in kinds), ""
    )
    # What else NumPy casts, it has its own words for.
    if dtype.kind not in kinds or dtype.kind == "f" or np.can_cast(values.dtype, dtype, "safe"):
        return None
    with np.errstate(invalid="ignore"):
        cast = values.astype(dtype)
        if values.dtype.kind == "f" and not fractions:
            values = np.trunc(values)
        differ = changed(values, cast)
    if dtype.kind in "mM":
        differ &= ~np.isnat(values)
    return values[differ].flat[0].item() if differ.any() else None


def changed(values: npt.NDArray[Any], cast: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which values became others."""
    differ: npt.NDArray[np.bool_] = np.asarray(cast != values)
    if values.dtype.kind == "f" and cast.dtype.kind in "iu":
        # Some processors make the largest integer of what is too large: as a float, rounded up.
        differ |= values >= np.ldexp(1.0, np.iinfo(cast.dtype).bits - (cast.dtype.kind == "i"))
    return differ
