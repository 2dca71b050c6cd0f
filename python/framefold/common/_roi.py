"""The forms in which a region of interest can be given."""

from __future__ import annotations

from collections.abc import Iterator, Set
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.common import _memory
from framefold.common._booleans import boolean
from framefold.common._masked import refuse_masked
from framefold.common._telling import tell
from framefold.exceptions import InvalidArgumentError, LimitError


class PackedROI(NamedTuple):
    """A mask as it is sent to other processes: flat positions, or a bit for each of the scan."""

    positions: npt.NDArray[np.intp] | None
    bits: npt.NDArray[np.uint8] | None

    def mask(self, nav: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """The mask. Of few positions, it takes memory where they are, and nowhere else."""
        if self.positions is None:
            assert self.bits is not None
            return np.unpackbits(self.bits, count=prod(nav)).view(np.bool_).reshape(nav)
        mask = _mask(nav, False)
        mask.reshape(-1)[self.positions] = True
        return mask


def packed_roi(mask: npt.NDArray[np.bool_] | None) -> PackedROI | None:
    """A mask in few bytes, of which :func:`roi_mask` makes the same one again."""
    if mask is None:
        return None
    if np.count_nonzero(mask) * np.dtype(np.intp).itemsize < mask.size // 8:
        return PackedROI(np.flatnonzero(mask), None)
    return PackedROI(None, np.packbits(mask))


def roi_mask(roi: Any, nav: tuple[int, ...]) -> npt.NDArray[np.bool_] | None:
    """A boolean array of shape ``nav``, or None for all positions.

    It is read-only: functions see it, and results refer to it.

    Parameters
    ----------
    roi
        None; a boolean array, or one of zeros and ones, of shape ``nav`` or in one row; a
        coordinate tuple; an index with slices or arrays, as ``np.s_[2:5, ::2]`` or what
        ``np.where`` returns, or an integer; or a list of coordinates (tuples or lists) or of
        ``(coordinates, bool)``. The first entry of a
        list of the latter decides what all others are: the opposite. Lists in a list are the rows
        of an array, if they fit. Or what :func:`packed_roi` made of a mask.
    nav
        The navigation axes.

    Raises
    ------
    InvalidArgumentError
        If the shape, the dtype or a coordinate does not fit.
    LimitError
        If there is no memory for a byte for each position.
    """
    if roi is None:
        return None
    mask = roi.mask(nav) if isinstance(roi, PackedROI) else _unpacked(roi, nav)
    mask.flags.writeable = False
    return mask


def _unpacked(roi: Any, nav: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """The mask of what callers pass."""
    if _is_numpy_index(roi):
        mask = _from_index(roi, nav)
    elif isinstance(roi, tuple) or (isinstance(roi, list) and _is_coordinates(roi, nav)):
        mask = _from_coordinates(roi, nav)
    else:
        mask = _from_array(roi, nav)
    if not mask.any():
        tell(
            "the ROI selects no position: nothing is read, and no result is valid; set at least "
            "one element to True, or pass no ROI",
            UserWarning,
        )
    return mask


def _mask(nav: tuple[int, ...], value: bool) -> npt.NDArray[np.bool_]:
    try:
        return _memory.full(nav, value, bool) if value else _memory.zeros(nav, bool)
    except LimitError as error:
        raise LimitError(
            f"a ROI takes a byte for each of the {prod(nav)} positions of the scan, and there is "
            f"no memory for them; dataset[index] reads frames without a ROI"
        ) from error


def _is_numpy_index(roi: Any) -> bool:
    """Whether it is an integer, or has a slice, an ellipsis or, in a tuple, an array."""
    if isinstance(roi, tuple):
        return any(part is Ellipsis or isinstance(part, slice | np.ndarray) for part in roi)
    return roi is Ellipsis or isinstance(roi, slice) or _is_index(roi)


def _from_index(index: Any, nav: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    mask = _mask(nav, False)
    parts = index if isinstance(index, tuple) else (index,)
    try:
        if any(isinstance(part, bool | np.bool_) for part in parts):
            raise TypeError("True and False select no position of an axis")  # NumPy adds an axis
        mask[index] = True
    except (IndexError, OverflowError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"the ROI {index!r} does not fit a scan of shape {nav}: {error}; an index has "
            f"integers, slices and arrays for the navigation axes alone, as np.s_[2:5, ::2] or "
            f"np.where(mask)"
        ) from None
    return mask


def _is_coordinates(roi: list[Any], nav: tuple[int, ...]) -> bool:
    """Whether a list holds coordinates rather than the rows of a boolean array."""
    if not roi:
        return True
    if any(isinstance(entry, tuple) for entry in roi) or all(_is_index(i) for i in roi):
        return True
    if not all(isinstance(entry, list) for entry in roi):
        return False
    # Lists in a list: rows if there are as many of the right length, else one list per position.
    if len(nav) > 1 and len(roi) == nav[0] and all(len(entry) == nav[1] for entry in roi):
        return False
    return all(
        (len(entry) == len(nav) and all(_is_index(i) for i in entry)) or _is_pair(entry)
        for entry in roi
    )


def _from_array(roi: Any, nav: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    if isinstance(roi, Set | Iterator):
        raise InvalidArgumentError(
            f"the ROI is {roi!r}, of type {type(roi).__name__}; use a list of coordinate tuples, "
            f"list(roi), or a boolean array of shape dataset.shape.nav"
        )
    if hasattr(roi, "toarray"):
        roi = roi.toarray()
    elif hasattr(roi, "todense"):
        roi = roi.todense()
    refuse_masked("the ROI", roi, "use roi.filled(False) or roi.filled(True)")
    # A copy: the caller may fill the array anew, and results are looked at later.
    try:
        mask = np.array(roi)
    except ValueError as error:
        raise InvalidArgumentError(
            f"the ROI is no array of shape {nav}, and no list of coordinates: {error}"
        ) from None
    is_boolean = mask.dtype == np.bool_
    if not is_boolean:
        _check_numbers(mask)
    if mask.shape == (prod(nav),):
        mask = mask.reshape(nav)
    if mask.shape != nav:
        raise InvalidArgumentError(
            f"the ROI has shape {mask.shape}, but the scan has shape {nav}; "
            f"use a boolean array of shape dataset.shape.nav"
        )
    if not is_boolean:
        tell(
            f"the ROI has dtype {mask.dtype}, expected bool; its ones are taken as True",
            UserWarning,
        )
    return mask.astype(bool, copy=False)


def _check_numbers(numbers: npt.NDArray[Any]) -> None:
    """Refuse all but zeros and ones: nothing else is meant as a mask."""
    kind = numbers.dtype.kind
    if kind in "iuf" and np.isin(numbers, (0, 1)).all():
        return
    # Not astype(bool), of which every number but 0 is True, and NaN and most texts, too.
    instead = (
        "a comparison such as roi > 0 says where it is True"
        if kind in "iufc"
        else "use a boolean array of shape dataset.shape.nav"
    )
    raise InvalidArgumentError(
        f"the ROI has dtype {numbers.dtype}, expected bool; {instead}, and positions are a list of "
        f"coordinate tuples"
    )


def _from_coordinates(roi: Any, nav: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    if isinstance(roi, tuple) and any(isinstance(each, list) for each in roi):
        raise InvalidArgumentError(
            f"the ROI {roi!r} is a tuple with a list in it: it can mean positions, or an index "
            f"with a list for an axis; pass a list of tuples, as [(1, 0), (2, 0)], for the first, "
            f"or arrays, as (np.array([1, 2]), np.array([0, 0])), for the other"
        )
    if isinstance(roi, tuple) and len(roi) == 2 and isinstance(roi[0], tuple):
        roi = [roi] if isinstance(roi[1], bool | np.bool_) else roi
    if isinstance(roi, tuple) and all(_is_index(i) for i in roi):
        entries: list[tuple[tuple[int, ...], bool]] = [(roi, True)]
    else:
        _refuse_zeros_and_ones(roi, nav)
        entries = [_entry(entry) for entry in roi]
    mask = _mask(nav, not entries[0][1] if entries else False)
    for coordinates, value in entries:
        if len(coordinates) != len(nav) or not all(_is_index(i) for i in coordinates):
            raise InvalidArgumentError(
                f"the ROI coordinates {coordinates} do not fit a scan of shape {nav}; "
                f"give one integer per navigation axis"
            )
        if not all(-length <= i < length for i, length in zip(coordinates, nav, strict=True)):
            raise InvalidArgumentError(
                f"the ROI coordinates {coordinates} are outside of the scan of shape {nav}"
            )
        mask[coordinates] = value
    return mask


def _refuse_zeros_and_ones(roi: Any, nav: tuple[int, ...]) -> None:
    """Refuse a list that may be positions as well as one number for each position."""
    if len(nav) == 1 and len(roi) == nav[0] > 1 and all(_is_index(i) and i in (0, 1) for i in roi):
        raise InvalidArgumentError(
            f"the ROI is a list of zeros and ones, as many as the scan has positions: it can mean "
            f"positions {' and '.join(map(str, sorted(set(roi))))}, or those where it is 1; pass "
            f"[(position,), ...] for the first, or np.array(roi, dtype=bool) for the other"
        )


def _entry(entry: Any) -> tuple[tuple[int, ...], bool]:
    if _is_pair(entry):
        coordinates, value = entry
        return tuple(coordinates), boolean(f"the ROI at {tuple(coordinates)}", value)
    if _is_index(entry):
        return (entry,), True
    try:
        return tuple(entry), True
    except TypeError:
        raise InvalidArgumentError(
            f"the ROI holds {entry!r}, a {type(entry).__name__}, where coordinates are expected; "
            f"use a boolean array, or a list of coordinate tuples"
        ) from None


def _is_pair(entry: Any) -> bool:
    """Whether it is ``(coordinates, bool)``."""
    pair = isinstance(entry, list | tuple) and len(entry) == 2
    return pair and isinstance(entry[0], list | tuple)


def _is_index(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
