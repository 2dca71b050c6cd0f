"""Vocabulary shared by data sets and UDFs: shapes, slices, buffers."""

from typing import Any

from framefold.common.shape import Shape
from framefold.common.slice import Slice, SliceUsageError
from framefold.compat.submodules import submodule

__all__ = ["Shape", "Slice", "SliceUsageError"]


def __getattr__(name: str) -> Any:
    """A submodule that was not imported yet."""
    return submodule(__name__, name)
