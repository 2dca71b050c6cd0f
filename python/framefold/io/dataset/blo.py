"""The class of BLO files."""

from framefold.io.dataset._classes import BloDataSet

__all__ = ["BloDataSet"]
