"""Corrections of frames, under another module path of the reference system."""

from framefold.io.corrections.corrset import CorrectionSet

__all__ = ["CorrectionSet"]
