"""Numbers that callers pass, which count as those of Python."""

from __future__ import annotations

import sys
from math import inf
from numbers import Integral, Real
from operator import index
from typing import Any

import numpy as np

from framefold.common._items import in_order
from framefold.common._masked import has_masked
from framefold.exceptions import ArgumentTypeError, InvalidArgumentError

LARGEST = sys.float_info.max

#: Pixels are no further away; squares of it are numbers yet.
FARTHEST = 2**31


def number(
    name: str, value: Any, least: float = -LARGEST, most: float = LARGEST, unit: str = ""
) -> float:
    """A number as that of Python, whatever scalar of NumPy it comes as.

    Parameters
    ----------
    name
        Of the argument, for the message.
    value
        What was passed.
    least, most
        What it may be; finite by default.
    unit
        What it is measured in, for the message.

    Raises
    ------
    ArgumentTypeError
        If it is masked, or no number; True and texts are none.
    InvalidArgumentError
        If it is NaN, or not within the limits.
    """
    found, measured = as_float(value), f", in {unit}" if unit else ""
    if found is None:
        raise ArgumentTypeError(f"{name} is {value!r}, expected a number{measured}")
    if not least <= found <= most:
        raise InvalidArgumentError(f"{name} is {value}, expected a {_what(least, most)}{measured}")
    return found


def coordinate(name: str, value: Any) -> float:
    """A place along an axis of frames: a number of pixels, as :func:`number`."""
    return number(name, value, -FARTHEST, FARTHEST, "pixels")


def place(name: str, value: Any) -> tuple[float, float]:
    """A place in frames: a pair (y, x) of numbers of pixels, each as :func:`coordinate`.

    Raises
    ------
    ArgumentTypeError
        If it is no pair, or has no order.
    """
    try:
        y, x = in_order(name, value)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"{name} is {value!r}, expected a pair (y, x), in pixels") from None
    return coordinate(name, y), coordinate(name, x)


def radius_of(name: str, value: Any) -> float:
    """A radius: a number of pixels from 0 on, and infinity, as :func:`number`."""
    return number(name, value, 0, inf, "pixels")


def count(name: str, value: Any, least: float = 0) -> int:
    """A whole number, which may come as a float: 3.0 is one.

    Raises
    ------
    ArgumentTypeError
        If it is masked, or no number; True and texts are none.
    InvalidArgumentError
        If it is not whole, or below ``least``.
    """
    found = _plain(value)
    if found is None:
        raise ArgumentTypeError(f"{name} is {value!r}, expected a whole number")
    if found % 1 != 0 or found < least:
        limit = "" if least == -inf else f" from {least} on"
        raise InvalidArgumentError(f"{name} is {value}, expected a whole number{limit}")
    return int(found)


def as_float(value: Any) -> float | None:
    """A number as such; also an array of one element, as quantities hold. None if it is none."""
    found = _plain(value)
    try:
        return None if found is None else float(found)
    except OverflowError:
        return None


def _plain(value: Any) -> int | float | None:
    """A number of Python; one of NumPy wraps around or rounds when it is computed with."""
    if getattr(value, "shape", None) in ((), (1,)):
        # What is masked is 0.0 as an item, and nanoseconds are integers.
        if has_masked(value) or getattr(getattr(value, "dtype", None), "kind", None) in ("m", "M"):
            return None
        value = (value if hasattr(value, "item") else np.asarray(value)).item()
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    return index(value) if isinstance(value, Integral) else float(value)


def _what(least: float, most: float) -> str:
    kind = "finite number" if most == LARGEST else "number"
    if least in (-LARGEST, -inf):
        return kind
    return f"{kind} from {least} {'on' if most in (LARGEST, inf) else f'to {most}'}"
