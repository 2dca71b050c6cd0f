"""The class of FRMS6 files."""

from framefold.io.dataset._classes import FRMS6DataSet

__all__ = ["FRMS6DataSet"]
