"""The class of EMPAD files."""

from framefold.io.dataset._classes import EMPADDataSet

__all__ = ["EMPADDataSet"]
