"""The one door to the library that converts between array formats."""

from __future__ import annotations

from typing import Any

from framefold.common.optional import require


def convert(array: Any, source: str, target: str) -> Any:
    """``array``, which is of format ``source``, in format ``target``.

    Formats that have two axes only come with one row per frame.

    Raises
    ------
    MissingLibraryError
        If the package ``sparseconverter`` is not installed.
    """
    library = require("sparseconverter", "framefold", f"arrays of format {target!r}")
    return library.get_converter(source, target)(array)
