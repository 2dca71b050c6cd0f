"""The class of SEQ files."""

from framefold.io.dataset._classes import SEQDataSet

__all__ = ["SEQDataSet"]
