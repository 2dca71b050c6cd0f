"""The class of MRC files."""

from framefold.io.dataset._classes import MRCDataSet

__all__ = ["MRCDataSet"]
