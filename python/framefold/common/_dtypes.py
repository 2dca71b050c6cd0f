"""Dtypes that callers pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from framefold.exceptions import ArgumentTypeError


def as_dtype(name: str, value: Any) -> np.dtype[Any]:
    """A dtype of whatever NumPy takes for one.

    Parameters
    ----------
    name
        What the dtype is of, for the message.
    value
        What was passed.

    Raises
    ------
    ArgumentTypeError
        If NumPy knows no such dtype.
    """
    try:
        found: np.dtype[Any] = np.dtype(value)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"{name} is {value!r}, expected one that NumPy knows, such as 'float32': {error}"
        ) from None
    return found
