"""The class of TIFF files."""

from __future__ import annotations

from typing import ClassVar

from framefold.io.dataset._file import FileDataSet

__all__ = ["TIFFDataSet"]


class TIFFDataSet(FileDataSet):
    """TIFF files; options are those of :meth:`framefold.Context.load`."""

    filetype: ClassVar[str] = "tiff"
