"""The class of TIFF files."""

from framefold.io.dataset._classes import TIFFDataSet

__all__ = ["TIFFDataSet"]
