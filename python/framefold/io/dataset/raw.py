"""The class of raw files."""

from framefold.io.dataset._classes import RawFileDataSet

__all__ = ["RawFileDataSet"]
