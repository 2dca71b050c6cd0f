"""The class of NPY files."""

from framefold.io.dataset._classes import NPYDataSet

__all__ = ["NPYDataSet"]
