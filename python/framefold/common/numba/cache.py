"""Compiled functions that are kept on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framefold.common.optional import require


def cached_njit(*args: Any, **kwargs: Any) -> Callable[[Callable[..., Any]], Any]:
    """As ``numba.njit``, with ``cache=True`` unless the function cannot be kept on disk.

    Numba cannot keep functions that are in no file, for example those of an interactive session.

    Parameters
    ----------
    *args, **kwargs
        For ``numba.njit``.

    Raises
    ------
    MissingLibraryError
        If Numba is not installed.
    """
    numba = require("numba", "cached_njit", "compiled functions")

    def compile_function(function: Callable[..., Any]) -> Any:
        options = {"cache": True, **kwargs}
        try:
            return numba.njit(*args, **options)(function)
        except RuntimeError:
            if not options["cache"]:
                raise
            return numba.njit(*args, **{**options, "cache": False})(function)

    return compile_function
