"""The engine's table of formats, as classes, stubs and documentation are made from it."""

from __future__ import annotations

from threading import RLock
from typing import Any, NamedTuple
from warnings import warn

from framefold import _engine

__all__ = ["FormatRow", "Option", "known_formats"]

#: The group of entry points of packages that bring formats along.
GROUP = "framefold.formats"

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
    kind: str
    choices: list[str]
    unit: str | None
    default: Any
    help: str

    @property
    def annotation(self) -> str:
        """The type of its values."""
        of_kind = TYPES[self.kind]
        if self.name == "io_backend":
            return "str | IOBackend | None"
        return of_kind if self.default is not None else f"{of_kind} | None"

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


def known_formats(asked: str = "auto") -> dict[str, FormatRow]:
    """The rows of all formats, or of those that are enough to open a file of the type ``asked``."""
    found = _rows()
    if asked not in found:
        _load_packages()
        found = _rows()
    return found


def _rows() -> dict[str, FormatRow]:
    return {
        name: FormatRow(name, title, extensions, [Option(*option) for option in options])
        for name, title, extensions, options in _engine.format_table()
    }


#: A package that is imported may open files.
_lock = RLock()
_loaded = False


def _load_packages() -> None:
    """Register the formats of packages that are installed, once in a process."""
    global _loaded
    with _lock:
        if _loaded:
            return
        _loaded = True
        from importlib import import_module
        from importlib.metadata import entry_points

        # By name, as the classes of formats: the module that makes them stands above this one.
        register_format = import_module("framefold.io.dataset._own").register_format

        for entry in entry_points(group=GROUP):
            try:
                register_format(entry.load())
            except Exception as error:  # whatever the package does must not keep files closed
                package = entry.dist.name if entry.dist is not None else entry.value
                warn(
                    f"the format {entry.name!r} of the package {package} is not there: "
                    f"{type(error).__name__}: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )
