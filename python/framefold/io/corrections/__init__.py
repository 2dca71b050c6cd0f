"""Corrections of detector frames: dark frame, gain map, excluded pixels."""

from framefold.io.corrections.corrset import CorrectionSet

__all__ = ["CorrectionSet"]
