"""The class of SPE files."""

from __future__ import annotations

from typing import ClassVar

from framefold.io.dataset._file import FileDataSet

__all__ = ["SPEDataSet"]


class SPEDataSet(FileDataSet):
    """SPE files; options are those of :meth:`framefold.Context.load`."""

    filetype: ClassVar[str] = "spe"
