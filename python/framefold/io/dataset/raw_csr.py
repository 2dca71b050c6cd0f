"""The class of sparse frames in raw files."""

from framefold.io.dataset._classes import RawCSRDataSet

__all__ = ["RawCSRDataSet"]
