"""The numbers that CoMUDF takes."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, isnan
from typing import Any

from framefold.common._booleans import boolean
from framefold.exceptions import ArgumentTypeError, InvalidArgumentError


def check_numbers(params: Mapping[str, Any]) -> None:
    """Refuse what is no number, or no usable one, among the parameters of CoMUDF by name."""
    boolean("CoMUDF: flip_y", params["flip_y"])
    for name in ("r", "ri", "cy", "cx", "scan_rotation"):
        value = params[name]
        if value is None and name != "r":
            continue
        try:
            is_finite = isfinite(value)
        except TypeError:
            unit = "degrees" if name == "scan_rotation" else "pixels"
            raise ArgumentTypeError(
                f"CoMUDF: {name} is {value!r}, expected a number, in {unit}"
            ) from None
        if not is_finite and name not in ("r", "ri"):
            raise InvalidArgumentError(f"CoMUDF: {name} is {value}, not a finite number")
    inner, outer = params["ri"] or 0.0, params["r"]
    if isnan(outer) or isnan(inner) or inner >= outer:
        raise InvalidArgumentError(
            f"CoMUDF: the inner radius {inner} is not below the outer radius {outer}; choose ri < r"
        )
