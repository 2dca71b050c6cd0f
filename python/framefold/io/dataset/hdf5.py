"""The class of HDF5 files."""

from framefold.io.dataset._classes import H5DataSet

__all__ = ["H5DataSet"]
