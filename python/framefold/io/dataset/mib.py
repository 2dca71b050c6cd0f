"""The class of MIB files."""

from framefold.io.dataset._classes import MIBDataSet

__all__ = ["MIBDataSet"]
