"""Data sets: stacks of frames laid out on a scan."""

from framefold.io.dataset.base import DataSet

__all__ = ["DataSet"]
