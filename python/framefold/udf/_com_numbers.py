"""The numbers that CoMUDF takes."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from framefold.common._booleans import boolean
from framefold.common._numbers import LARGEST, number
from framefold.exceptions import InvalidArgumentError


def check_numbers(params: Mapping[str, Any]) -> None:
    """Refuse what is no number, or no usable one, among the parameters of CoMUDF by name."""
    boolean("CoMUDF: flip_y", params["flip_y"])
    for name in ("r", "ri", "cy", "cx", "scan_rotation"):
        value = params[name]
        if value is None and name != "r":
            continue
        limits = (-inf, inf) if name in ("r", "ri") else (-LARGEST, LARGEST)
        unit = "degrees" if name == "scan_rotation" else "pixels"
        number(f"CoMUDF: {name}", value, *limits, unit)
    inner, outer = params["ri"] or 0.0, params["r"]
    if inner >= outer:
        raise InvalidArgumentError(
            f"CoMUDF: the inner radius {inner} is not below the outer radius {outer}; choose ri < r"
        )
