"""The engine's table of formats, as classes, stubs and documentation are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from framefold import _engine

__all__ = ["FormatRow", "Option", "format_added", "format_rows"]

#: The types of values, in words that are also annotations.
TYPES = {
    "shape": "tuple[int, ...]",
    "count": "int",
    "bytes": "int",
    "integer": "int",
    "number": "float",
    "text": "str",
    "choice": "str",
    "dtype": "npt.DTypeLike",
    "byte_order": "str",
    "flag": "bool",
    "switch": "bool",
    "path": "str | PathLike[str]",
    "paths": "Sequence[str | PathLike[str]]",
}


class Option(NamedTuple):
    """What a format declares of an option."""

    name: str
    alias: str | None
    #: Its name on the command line, without dashes in front.
    flag: str
    kind: str
    choices: list[str]
    unit: str | None
    default: Any
    #: Whether None may be given, and is another value than the default.
    takes_none: bool
    help: str

    @property
    def annotation(self) -> str:
        """The type of its values."""
        of_kind = TYPES[self.kind]
        if self.name == "io_backend":
            return "str | IOBackend | None"
        return of_kind if self.default is not None and not self.takes_none else f"{of_kind} | None"

    @property
    def described(self) -> str:
        """Its help, as a sentence with choices and unit."""
        words = " or ".join(
            map(repr, self.choices or {"byte_order": ["<", ">"]}.get(self.kind, []))
        )
        parts = [self.help, words and f"one of {words}", self.unit and f"in {self.unit}"]
        return "; ".join(part for part in parts if part) + "."


class FormatRow(NamedTuple):
    """A row of the table."""

    name: str
    title: str
    extensions: list[str]
    options: list[Option]

    @property
    def paths(self) -> list[str]:
        """The names of options that are paths."""
        return [option.name for option in self.options if option.kind == "path"]


def format_rows() -> Mapping[str, FormatRow]:
    """The rows that there are by now, by their names."""
    return _rows(_n_added)


#: How often formats were added.
_n_added = 0


def format_added() -> None:
    """Have the table read again, which is kept as each file that is opened needs it."""
    global _n_added
    _n_added += 1


@lru_cache(maxsize=1)
def _rows(_n_added: int) -> Mapping[str, FormatRow]:
    return {
        name: FormatRow(name, title, extensions, [Option(*option) for option in options])
        for name, title, extensions, options in _engine.format_table()
    }
