"""Integers that callers pass: what they may be, in words."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from framefold.common._masked import has_masked
from framefold.exceptions import InvalidArgumentError

#: The engine counts no further.
MOST = 2**63 - 1


def whole(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """An integer of Python, NumPy or another library; True and False are none.

    Parameters
    ----------
    name
        Of the argument, for the message.
    value
        What was passed.
    least, most
        What it may be.

    Raises
    ------
    InvalidArgumentError
        If it is anything else, or masked.
    """
    if has_masked(value):
        raise InvalidArgumentError(f"{name} is masked, expected a whole number")
    if not is_integer(value):
        raise InvalidArgumentError(f"{name}={value!r} is not a whole number")
    number = index(value)
    if not least <= number <= most:
        limits = f"from {least} up" if number < least else f"up to {most}"
        raise InvalidArgumentError(f"{name}={number} is not a whole number {limits}")
    return number


def is_integer(value: Any) -> bool:
    """Whether it is one integer; True and False are none, as they stand for no place."""
    if isinstance(value, bool | np.bool_):  # an index for NumPy 1
        return False
    try:
        index(value)
    except TypeError:
        return False
    return True
