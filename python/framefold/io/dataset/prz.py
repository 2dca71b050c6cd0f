"""The class of PRZ files."""

from framefold.io.dataset._classes import PRZDataSet

__all__ = ["PRZDataSet"]
