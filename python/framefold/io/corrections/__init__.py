"""Corrections of detector frames: dark frame, gain map, excluded pixels."""

from typing import Any

from framefold.compat.submodules import submodule
from framefold.io.corrections.corrset import CorrectionSet

__all__ = ["CorrectionSet"]


def __getattr__(name: str) -> Any:
    """A submodule that was not imported yet."""
    return submodule(__name__, name)
