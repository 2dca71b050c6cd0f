"""Masks of numpy.ma, which arrays that framefold computes with do not have."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.exceptions import InvalidArgumentError


def has_masked(values: Any) -> bool:
    """Whether elements are masked, of an array or of one in a list."""
    # Where nothing has imported its class, it is none of those; importing it takes 15 ms. NumPy
    # waits for another thread that is importing it.
    if "numpy.ma" not in sys.modules:
        return False
    if isinstance(values, list | tuple):
        arrays = (list, tuple, np.ma.MaskedArray, *_of_dask())
        return any(has_masked(each) for each in values if isinstance(each, arrays))
    if _is_of_dask(values):
        # Only its chunks know; made an array of NumPy, it is without their masks.
        return bool(sys.modules["dask.array"].ma.getmaskarray(values).any())
    return isinstance(values, np.ma.MaskedArray) and bool(np.any(values.recordmask))


def masked_in(values: Any) -> npt.NDArray[np.bool_] | np.bool_:
    """Which elements are masked; one False where none is."""
    return np.ma.getmaskarray(as_masked(values)) if has_masked(values) else np.False_


def as_masked(values: Any) -> np.ma.MaskedArray[Any, Any]:
    """An array with the masks of what is in lists; NumPy sees those of the outermost one only."""
    if isinstance(values, list | tuple) and has_masked(values):
        return np.ma.stack([as_masked(each) for each in values])
    return np.ma.asarray(values.compute() if _is_of_dask(values) else values)


def _is_of_dask(values: Any) -> bool:
    return isinstance(values, _of_dask())


def _of_dask() -> tuple[type, ...]:
    """The class of Dask's arrays, if anything has imported it."""
    array = getattr(sys.modules.get("dask.array"), "Array", None)
    return () if array is None else (array,)


def refuse_masked(
    what: str,
    values: Any,
    instead: str = "give them values, such as numpy.ma.filled(…, 0)",
) -> None:
    """Refuse masked elements, where what lies under the mask would count.

    Parameters
    ----------
    what
        What ``values`` are, for the message.
    values
        What was given; one of numpy.ma of which no element is masked is as good as any array.
    instead
        What to pass instead.

    Raises
    ------
    InvalidArgumentError
        If elements are masked.
    """
    if has_masked(values):
        raise InvalidArgumentError(f"elements of {what} are masked; {instead}")
