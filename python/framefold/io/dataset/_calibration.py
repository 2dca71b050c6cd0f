"""Numbers with units, as callers give them, for :meth:`DataSet.calibrate`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from math import isfinite, pi
from typing import Any, TypedDict

import numpy as np

from framefold import _engine
from framefold.common._numbers import as_float
from framefold.exceptions import InvalidArgumentError

__all__ = ["Facts", "Turn", "facts_of", "split_facts", "turn_of"]

#: The names of what :meth:`DataSet.calibrate` takes.
FACTS = ("scan_step", "pixel_size", "rotation", "centre", "names")

#: The names of what :meth:`DataSet.orient` takes.
TURNS = ("flip", "transpose")

#: What a step may look like.
_EXPECTED = (
    "expected a number with a unit: (0.5, 'nm'), '0.5nm', a quantity of pint or astropy, or one "
    "of these for each axis"
)


#: The number 0 with a unit.
_ZERO = re.compile(r"[-+]?0+(\.0*)?(e[-+]?\d+)?\s*(?P<unit>1/\w+|[^\W\d]\S*)", re.IGNORECASE)


class Facts(TypedDict):
    """The same in plain values, as the engine takes them."""

    scan_step: list[tuple[float, str]]
    pixel_size: list[tuple[float, str]]
    rotation: float | None
    centre: list[float]
    names: list[str]


class Turn(TypedDict):
    """How frames are turned, as the engine takes it."""

    flip: str | None
    transpose: bool


def split_facts(
    options: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Options without what is for ``orient`` and ``calibrate`` of data sets; and that, if given."""
    turn, facts = (
        {name: options[name] for name in names if options.get(name) is not None}
        for names in (TURNS, FACTS)
    )
    others = {name: value for name, value in options.items() if name not in TURNS + FACTS}
    return others, turn, facts


def turn_of(flip: Any, transpose: Any) -> Turn:
    """Plain values of what a caller gives.

    Raises
    ------
    InvalidArgumentError
        If it is something else; the message says what was expected.
    """
    if flip is not None and not isinstance(flip, str):
        raise InvalidArgumentError(f"flip is {flip!r}, expected 'y', 'x', 'yx' or None")
    if not isinstance(transpose, (bool, np.bool_)):
        raise InvalidArgumentError(f"transpose is {transpose!r}, expected True or False")
    return Turn(flip=flip, transpose=bool(transpose))


def facts_of(scan_step: Any, pixel_size: Any, rotation: Any, centre: Any, names: Any) -> Facts:
    """Plain values of what a caller gives.

    Raises
    ------
    InvalidArgumentError
        If it is something else; the message says what was expected.
    """
    return Facts(
        scan_step=_steps("scan_step", scan_step),
        pixel_size=_steps("pixel_size", pixel_size),
        rotation=None if rotation is None else _degrees(rotation),
        centre=[] if centre is None else _centre(centre),
        names=[] if names is None else _names(names),
    )


def _steps(name: str, value: Any) -> list[tuple[float, str]]:
    if value is None:
        return []
    if isinstance(value, str):
        return _engine.parse_steps(value)
    one = _one(value)
    if one is not None:
        return [one]
    if not isinstance(value, Sequence) or not value:
        raise InvalidArgumentError(f"{name} is {value!r}, {_EXPECTED}")
    steps = []
    for each in value:
        parsed = _engine.parse_steps(each) if isinstance(each, str) else [_one(each)]
        if len(parsed) != 1 or parsed[0] is None:
            raise InvalidArgumentError(f"{name} has {each!r}, {_EXPECTED}")
        steps.append(parsed[0])
    return steps


def number_or_quantity(name: str, value: Any) -> tuple[float, str | None]:
    """A number with its unit, or a plain number with None.

    Raises
    ------
    InvalidArgumentError
        If it is neither.
    """
    number = as_float(value)
    if number is not None:
        return number, None
    expected = (
        f"{name} is {value!r}, expected a number of pixels, or a number with a unit: (10, 'mrad'), "
        f"'10 mrad', a quantity of pint or astropy"
    )
    zero = _ZERO.fullmatch(value.strip()) if isinstance(value, str) else None
    if zero is not None:  # no step, but a place
        return 0.0, zero["unit"]
    try:
        steps = _engine.parse_steps(value) if isinstance(value, str) else [_one(value)]
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{expected}: {error}") from None
    if len(steps) != 1 or steps[0] is None:
        raise InvalidArgumentError(expected)
    return steps[0]


def _one(value: Any) -> tuple[float, str] | None:
    """A pair of number and unit, or a quantity of a package; None if it is neither."""
    if isinstance(value, (tuple, list)):
        pair = value if len(value) == 2 and isinstance(value[1], str) else (None, "")
    elif hasattr(value, "magnitude") and hasattr(value, "units"):  # pint
        pair = (value.magnitude, str(value.units))
    elif hasattr(value, "value") and hasattr(value, "unit"):  # astropy
        pair = (value.value, str(value.unit))
    else:
        return None
    number = as_float(pair[0])
    return None if number is None else (number, str(pair[1]))


#: Degrees of units of angles.
_ANGLES = {"deg": 1.0, "degree": 1.0, "rad": 180 / pi, "radian": 180 / pi}


def _degrees(value: Any) -> float:
    number = as_float(value)
    pair = _one(value)
    if pair is not None and pair[1] in _ANGLES:
        number = pair[0] * _ANGLES[pair[1]]
    if number is None or not isfinite(number):
        raise InvalidArgumentError(
            f"rotation is {value!r}, expected a number of degrees, or an angle with the unit "
            f"{' or '.join(_ANGLES)}"
        )
    return number


def _centre(value: Any) -> list[float]:
    no_order = isinstance(value, Set | Mapping | bytes | bytearray | str)
    is_ordered = isinstance(value, Iterable) and not no_order
    numbers = [as_float(each) for each in value] if is_ordered else [None]
    if not numbers or None in numbers:
        raise InvalidArgumentError(
            f"centre is {value!r}, expected the pixel at which axes have the value 0: (cy, cx)"
        )
    return [number for number in numbers if number is not None]


def _names(value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidArgumentError(
            f"names is {value!r}, expected a name for each axis: ('scan_y', 'scan_x', 'ky', 'kx')"
        )
    names = list(value)
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"names is {value!r}, expected texts, one for each axis")
    return names
