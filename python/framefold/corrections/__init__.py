"""Corrections of frames and of coordinates."""

from framefold.corrections import coordinates
from framefold.io.corrections.corrset import CorrectionSet

__all__ = ["CorrectionSet", "coordinates"]
