"""The class of K2 IS sets of files."""

from framefold.io.dataset._classes import K2ISDataSet

__all__ = ["K2ISDataSet"]
