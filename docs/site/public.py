"""What is public in the package: found by looking, so that nothing is left out by oversight.

A name is public if its module is (no part of the path begins with an underscore, and it is none
of the folders that ARCHITECTURE.md calls the package's own), and ``__all__`` has it or, where
there is none, the module defines it under a name without an underscore. Names that the tables of
``docs/compatibility.md`` promise are public wherever they are.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import framefold

COMPATIBILITY = Path(__file__).resolve().parent.parent / "compatibility.md"

#: Folders that are the package's own, whatever their modules are called.
OWN = ("run", "context", "arrays", "results", "compat", "udf.engine")


@dataclass(frozen=True)
class Name:
    """One public name: ``path`` is where it is described, ``also`` where else it is found."""

    path: str
    value: Any
    also: tuple[str, ...]

    @property
    def module(self) -> str:
        """The module in which it is described."""
        return self.path.rpartition(".")[0]


def is_public(module: str) -> bool:
    """Tell whether a module's path is one that users import."""
    parts = module.split(".")[1:]
    within = ".".join(parts)
    return not (
        any(part.startswith("_") for part in parts)
        or any(within == own or within.startswith(f"{own}.") for own in OWN)
    )


def modules() -> list[ModuleType]:
    """Import all public modules, the package first."""
    paths = [found.name for found in pkgutil.walk_packages(framefold.__path__, "framefold.")]
    return [
        framefold,
        *(importlib.import_module(path) for path in sorted(paths) if is_public(path)),
    ]


def exported(module: ModuleType) -> dict[str, Any]:
    """Find the public names of a module."""
    given = getattr(module, "__all__", None)
    names = given if given is not None else [n for n in vars(module) if not n.startswith("_")]
    found = {name: getattr(module, name) for name in names}
    return {
        name: value
        for name, value in found.items()
        if not isinstance(value, ModuleType | TypeVar)
        and (given is not None or getattr(value, "__module__", None) == module.__name__)
    }


def promised(page: str) -> list[str]:
    """Find the dotted paths that the tables of the page on compatibility say are there."""
    rows = [row.split("|") for row in page.split("\n") if row.startswith("| ")]
    return [
        path
        for cells in rows
        if len(cells) > 4 and cells[3].strip() != "not there"
        for path in re.findall(r"`(framefold\.[\w.]+)`", cells[2])
    ]


def split(path: str) -> tuple[ModuleType, str, str]:
    """Take a dotted path apart: the module, the name in it, and what follows."""
    parts = path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        return module, parts[end], ".".join(parts[end + 1 :])
    raise ModuleNotFoundError(path)


def _rank(path: str, value: Any) -> tuple[bool, bool, bool, bool, int, str]:
    """Which of its paths a name is described at: the top level's, else one near its own module.

    Of several in a module, it is the one that it is defined under.
    """
    module, _, name = path.rpartition(".")
    home = getattr(value, "__module__", None) or ""
    near = f"{module}.".startswith(f"{home.rpartition('.')[0]}.")
    is_other = name != getattr(value, "__name__", name)
    return module != "framefold", module != home, is_other, not near, path.count("."), path


@cache
def public_names() -> list[Name]:
    """Find all public names, each once, in the order of their paths."""
    paths: dict[int, list[str]] = defaultdict(list)
    values: dict[int, Any] = {}
    everything = [(module, exported(module)) for module in modules()]
    known = {id(value) for _, names in everything for value in names.values()}
    for path in promised(COMPATIBILITY.read_text(encoding="utf-8")):
        module, name, _ = split(path)
        value = getattr(module, name)
        if id(value) not in known and not isinstance(value, ModuleType):
            everything.append((module, {name: value}))
    for module, names in everything:
        for name, value in names.items():
            path = f"{module.__name__}.{name}"
            # Small values are one object wherever they are equal: each is a name of its own.
            key = hash(path) if isinstance(value, int | str | tuple) else id(value)
            if path not in paths[key]:
                paths[key].append(path)
            values[key] = value
    found = []
    for key, value in values.items():
        first, *also = sorted(paths[key], key=lambda path: _rank(path, value))
        found.append(Name(first, value, tuple(also)))
    return sorted(found, key=lambda name: name.path)
