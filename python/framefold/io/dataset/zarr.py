"""The class of Zarr arrays."""

from framefold.io.dataset._classes import ZarrDataSet

__all__ = ["ZarrDataSet"]
