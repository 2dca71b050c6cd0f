"""The class of SPE files."""

from framefold.io.dataset._classes import SPEDataSet

__all__ = ["SPEDataSet"]
