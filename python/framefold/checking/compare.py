"""Whether results of two runs are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.checking.sample import Results


def differing(found: Results, expected: Results, tolerance: float = 0.0) -> dict[str, str]:
    """The names of results that differ, each with how much.

    Parameters
    ----------
    found, expected
        Of the same buffers.
    tolerance
        What rounding may change, relative to the largest finite magnitude of a result.
    """
    different = {}
    for name, result in found.items():
        how = _difference(result.array, expected[name].array, tolerance)
        if how:
            different[name] = how
    return different


def _difference(
    found: npt.NDArray[Any], expected: npt.NDArray[Any], tolerance: float
) -> str | None:
    if found.shape != expected.shape:
        return f"shape {found.shape} in place of {expected.shape}"
    if found.dtype.kind not in "biufc" or expected.dtype.kind not in "biufc":
        same = all(equal(a, b) for a, b in zip(found.flat, expected.flat, strict=True))
        return None if same else "other values"
    wide = "complex128" if "c" in (found.dtype.kind, expected.dtype.kind) else "float64"
    a, b = found.astype(wide), expected.astype(wide)
    if found.dtype.kind in "iu" and expected.dtype.kind in "iu":
        wrong = found != expected
    else:
        finite = np.abs(b[np.isfinite(b)])
        wrong = ~np.isclose(
            a, b, rtol=0, atol=tolerance * float(finite.max(initial=0)), equal_nan=True
        )
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    where = f"[{', '.join(map(str, at))}]" if at else ""
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} values, the first at {where}: "
        f"{found[at]} and {expected[at]}"
    )


def equal(a: Any, b: Any) -> bool:
    """Whether two values or arrays are the same; NaN is the same as NaN."""
    try:
        return bool(np.array_equal(a, b, equal_nan=True))
    except TypeError:
        return bool(np.array_equal(a, b))
