"""The class of PRZ files."""

from __future__ import annotations

from typing import ClassVar

from framefold.io.dataset._file import FileDataSet

__all__ = ["PRZDataSet"]


class PRZDataSet(FileDataSet):
    """PRZ files; options are those of :meth:`framefold.Context.load`."""

    filetype: ClassVar[str] = "prz"
