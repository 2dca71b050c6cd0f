"""Warnings that show the line of the user's program, not one of framefold's own."""

from __future__ import annotations

import os
import sys
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
    level, frame = 2, sys._getframe(1)
    while frame.f_code.co_filename.startswith(OWN) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def tell_of(name: str, messages: Iterable[str], category: type[Warning]) -> None:
    """Warn of all that is odd about ``name``: a file, say."""
    for message in messages:
        tell(f"{name}: {message}", category)
