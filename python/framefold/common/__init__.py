"""Vocabulary shared by data sets and UDFs: shapes, slices, buffers."""

from framefold.common.shape import Shape
from framefold.common.slice import Slice, SliceUsageError

__all__ = ["Shape", "Slice", "SliceUsageError"]
