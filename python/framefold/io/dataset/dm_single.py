"""The class of single DigitalMicrograph files."""

from framefold.io.dataset._classes import SingleDMDataSet

__all__ = ["SingleDMDataSet"]
