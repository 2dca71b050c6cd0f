"""Which arguments of a command name functions, and which name reductions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from framefold import _engine

#: How numbers of parameters begin: with a digit, or they are infinite.
_NUMBER = re.compile(r"[-+]?([0-9.]|(inf|infinity|nan)(\s|$))", re.IGNORECASE)
#: What is short for masks with one parameter of that name.
SHORT = ("disk", "ring")


def function_among(arguments: Sequence[str]) -> str | None:
    """The first argument that names a function, or has one in a list.

    A name is ``module:name`` or ``file.py:name``.
    """
    known = {name.replace("_", "") for name in (*reductions(), *SHORT)}
    for argument in arguments:
        if argument.startswith("-"):
            continue
        words = [(item.split() or [""])[0] for item in split(argument)]
        if any(map(is_function, words)):
            return argument
        if any(word.replace("_", "") in known for word in words):
            return None  # what follows is for the engine: a value of an option may have a colon
    return None


def is_function(word: str) -> bool:
    """Whether a word is ``module:name`` or ``file.py:name``."""
    place, colon, name = word.rpartition(":")
    if not (colon and name.isidentifier()):
        return False
    return place.endswith(".py") or all(part.isidentifier() for part in place.split("."))


def split(text: str) -> list[str]:
    """The items of a list: a comma before a number belongs to a parameter, others end an item."""
    place, _, name = text.rpartition(":")
    if name.isidentifier() and Path(place).is_file():
        return [text]  # a comma is in the name of the file
    items: list[str] = []
    for part in map(str.strip, text.split(",")):
        if items and _NUMBER.match(part):
            items[-1] += f",{part}"
        else:
            items.append(part)
    return items


def reductions() -> dict[str, dict[str, Any]]:
    """The engine's reductions by their names and their other names."""
    rows = _engine.native_reductions()
    return {name: row for row in rows for name in (row["name"], row["alias"]) if name is not None}
