"""Submodules that are imported when they are asked for as attributes of their package."""

from __future__ import annotations

from typing import Any


def submodule(package: str, name: str) -> Any:
    """The module ``package.name``: scripts use ``libertem.udf.sum`` without importing it.

    Raises
    ------
    AttributeError
        If there is none, as for any attribute that is not there.
    """
    if not name.startswith("_"):
        from importlib import import_module

        dotted = f"{package}.{name}"
        try:
            return import_module(dotted)
        except ModuleNotFoundError as error:
            if error.name != dotted:
                raise
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
