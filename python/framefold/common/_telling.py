"""Warnings that show the line of the user's program, not one of framefold's own."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable

#: Where framefold's own files are.
OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def tell(message: str, category: type[Warning]) -> None:
    """Warn, as if the line warned that called framefold.

    Parameters
    ----------
    message
        The sentence.
    category
        A class of :mod:`framefold.warnings`, or one of Python's.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(OWN):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def tell_of(name: str, messages: Iterable[str], category: type[Warning]) -> None:
    """Warn of all that is odd about ``name``: a file, say."""
    for message in messages:
        tell(f"{name}: {message}", category)
