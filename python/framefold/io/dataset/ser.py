"""The class of SER files."""

from framefold.io.dataset._classes import SERDataSet

__all__ = ["SERDataSet"]
