"""The class of TVIPS files."""

from framefold.io.dataset._classes import TVIPSDataSet

__all__ = ["TVIPSDataSet"]
