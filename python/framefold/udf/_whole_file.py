"""A file that appears under its name when it is complete."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from framefold import _engine

__all__ = ["WholeFile", "part_of"]


class WholeFile:
    """A file in the making: :attr:`part`, empty at first, is for others to write to.

    It is the engine's, which writes all output in the same way. It goes if it is not published,
    at the end of the interpreter at the latest.

    Parameters
    ----------
    path
        What it is to be in the end.
    overwrite
        Whether to replace a file that there is.

    Raises
    ------
    InvalidArgumentError
        If there is something that is not to be replaced, or another run is writing it.
    FileAccessError
        If it cannot be made.
    """

    def __init__(self, path: str | os.PathLike[str], overwrite: bool) -> None:
        self._file = _engine.WholeFile(os.fspath(path), overwrite)
        self._discard = weakref.finalize(self, self._file.discard)

    @property
    def part(self) -> Path:
        """Where it is until it is published."""
        return self._file.part

    def end(self, complete: bool) -> None:
        """Have the file appear, or go; whatever comes first counts.

        Raises
        ------
        InvalidArgumentError
            If there is something now that is not to be replaced.
        FileAccessError
            If it cannot be renamed.
        """
        try:
            if complete:
                self._file.publish()
        finally:
            self._discard()


def part_of(path: str | os.PathLike[str]) -> Path:
    """Where a file is while it is being written."""
    return _engine.part_of(os.fspath(path))
