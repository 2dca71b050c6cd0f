"""How pixels are corrected, under another module path of the reference system."""

from framefold.io.corrections.detector import (
    RepairDescriptor,
    RepairValueError,
    correct,
    correct_dot_masks,
)

__all__ = ["RepairDescriptor", "RepairValueError", "correct", "correct_dot_masks"]
