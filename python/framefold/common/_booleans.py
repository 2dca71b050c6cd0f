"""Truth values that callers pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from framefold.exceptions import InvalidArgumentError


def boolean(name: str, value: Any) -> bool:
    """True or False, of Python or NumPy, or 0 or 1; None counts as False, as in Python.

    Parameters
    ----------
    name
        Of the argument, for the message.
    value
        What was passed.

    Raises
    ------
    InvalidArgumentError
        If it is anything else, such as a text: "no" would count as True.
    """
    if isinstance(value, bool) or value is None:
        return bool(value)
    is_scalar = isinstance(value, np.ndarray | np.generic) and value.shape == ()
    plain = value.item() if is_scalar else value
    if isinstance(plain, int) and plain in (0, 1):
        return bool(plain)
    raise InvalidArgumentError(f"{name}={value!r} is not True or False")
