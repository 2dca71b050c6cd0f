"""The classes of DigitalMicrograph files."""

from framefold.io.dataset._classes import DMDataSet, StackedDMDataSet

__all__ = ["DMDataSet", "StackedDMDataSet"]
