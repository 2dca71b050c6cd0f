"""Vocabulary shared by data sets and UDFs: shapes, slices, buffers."""

from typing import Any

from framefold._submodules import submodule
from framefold.common.shape import Shape
from framefold.common.slice import Slice, SliceUsageError

__all__ = ["Shape", "Slice", "SliceUsageError"]


def __getattr__(name: str) -> Any:
    """A submodule that was not imported yet."""
    return submodule(__name__, name)
