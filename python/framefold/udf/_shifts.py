"""What the shifts of a detector may be: one for all frames, or one for each position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common._masked import refuse_masked
from framefold.common.buffers import AuxBufferWrapper
from framefold.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from framefold.common.shape import Shape


def whole(given: Any) -> Any:
    """All shifts, where AUX data have them, as an array; anything else as it is."""
    if not isinstance(given, AuxBufferWrapper):
        return given
    # All in one row is a way to give AUX data.
    row = given.kind == "nav" and given.data.ndim == 1
    return given.raw_data if row else given.data


def as_shifts(name: str, given: Any, n_axes: int) -> npt.NDArray[np.float64]:
    """Shifts in double precision; that for all frames is finite.

    Parameters
    ----------
    name
        Of the class, for messages.
    given
        One number for each signal axis, or an array with more axes in front of that one.
    n_axes
        The number of signal axes.
    """
    array = unmasked(name, given)
    one = array.ndim < 2
    if array.dtype.kind not in "iuf" or (one and array.shape != (n_axes,)):
        found = array.tolist() if one else f"an array of {array.dtype}"
        raise InvalidArgumentError(
            f"{name}: shifts are {found}, expected {n_axes} finite numbers, one for each signal "
            f"axis, for all frames or for each position of the scan"
        )
    if one:
        check_finite(name, array)
    return array.astype(np.float64, order="C")


def unmasked(name: str, given: Any) -> npt.NDArray[Any]:
    """Shifts as an array; refuses those that are masked."""
    refuse_masked(
        f"the shifts of {name}", given, "fill them, for example with what ff.fit_origin fits"
    )
    return np.asarray(given)


def check_finite(name: str, shifts: npt.NDArray[Any]) -> None:
    """Refuse shifts of frames that are processed, if they are not finite."""
    if not np.isfinite(shifts).all():
        raise InvalidArgumentError(
            f"{name}: shifts are {shifts.tolist()}, expected {shifts.size} finite numbers; fill "
            f"positions without a shift, for example with what ff.fit_origin fits, or leave them "
            f"out by a ROI"
        )


def check_scan(name: str, shifts: npt.NDArray[Any], shape: Shape) -> None:
    """Refuse shifts that belong to another scan than that of a data set of ``shape``."""
    nav, n_axes = tuple(shape.nav), len(shape.sig)
    allowed = dict.fromkeys([(n_axes,), (*nav, n_axes), (shape.nav.size, n_axes)])
    if shifts.shape not in allowed:
        raise InvalidArgumentError(
            f"{name}: shifts have shape {shifts.shape}, expected "
            f"{' or '.join(map(str, allowed))} for a scan of shape {nav}"
        )
