"""Tuples, lists and the like that callers pass."""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Mapping, Set, Sized
from itertools import islice
from operator import index
from typing import Any, TypeGuard

import numpy as np

from framefold.exceptions import ArgumentTypeError, InvalidArgumentError

#: What has no length, such as a generator, is asked for as many items.
MOST = 10_000
#: Sets, and what is asked for items of another kind.
WITHOUT_ORDER = (Set, Mapping, bytes, bytearray)
#: Integers for Python, and for NumPy 1.
TRUTH_VALUES = frozenset((bool, np.bool_))


def has_items(value: Any) -> TypeGuard[Iterable[Any]]:
    """Whether it can be iterated over; arrays without axes cannot, though their class can."""
    try:
        iter(value)
    except TypeError:
        return False
    return True


def in_order(name: str, values: Iterable[Any]) -> Iterable[Any]:
    """What a tuple, a list, an array and the like hold, in the order in which it is given.

    Parameters
    ----------
    name
        Of the argument, for the message.
    values
        What was passed.

    Raises
    ------
    ArgumentTypeError
        If it is a set, which has no order; a mapping, which holds more than its keys; or bytes,
        which are text.
    """
    has_order = not isinstance(values, WITHOUT_ORDER)
    if not (has_order or isinstance(values, KeysView)):  # those of a dict are as it is
        raise ArgumentTypeError(
            f"{name} is {values!r}, of type {type(values).__name__}; pass a tuple or a list"
        )
    return values


def indices(name: str, values: Iterable[Any]) -> tuple[int, ...]:
    """The integers that a tuple, a list, an array and the like hold.

    Raises
    ------
    TypeError
        If they are no integers, as True and False are none, or have no order.
    """
    items = values if type(values) is tuple else tuple(in_order(name, values))
    if not TRUTH_VALUES.isdisjoint(map(type, items)):
        raise TypeError(f"{name} has truth values where whole numbers are expected")
    return tuple(map(index, items))


def listed(name: str, values: Iterable[Any]) -> list[Any]:
    """All items; what has no length may have no end, and is refused if it has too many.

    Raises
    ------
    InvalidArgumentError
        If there are more than 10000 of something without a length.
    """
    if isinstance(values, Sized):
        return list(values)
    found = list(islice(values, MOST + 1))
    if len(found) > MOST:
        raise InvalidArgumentError(
            f"{name} is a {type(values).__name__} with more than {MOST} items, and maybe without "
            f"end; pass a list"
        )
    return found
