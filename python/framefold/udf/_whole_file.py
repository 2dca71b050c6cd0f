"""A file that appears under its name when it is complete."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import BinaryIO

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:
    fcntl = None

Path = str | os.PathLike[str]

#: Behind the name of a file that is being written.
SUFFIX = ".part"


class BusyError(FileExistsError):
    """Somebody else is writing the file."""


class WholeFile:
    """A file in the making, beside the one that it is to become or to replace.

    It is locked where that can be done. So what a process left that was killed is told from what
    somebody else is writing.

    Parameters
    ----------
    path
        What it is to be in the end.
    make
        Makes a new file of the name that it is called with, or raises ``FileExistsError``.
    overwrite
        Whether to replace a file that there is.

    Raises
    ------
    FileExistsError
        If there is one that is not to be replaced; :class:`BusyError` if it is being written.
    OSError
        If it cannot be made.
    """

    def __init__(self, path: Path, make: Callable[[str], None], overwrite: bool) -> None:
        if os.path.lexists(path) and not overwrite:
            raise FileExistsError(errno.EEXIST, "there is such a file already", os.fspath(path))
        self._path = path
        self._overwrite = overwrite
        self._part = part_of(path)
        try:
            make(self._part)
        except FileExistsError:
            _remove_abandoned(self._part)
            make(self._part)
        self._lock = _locked(self._part)
        self._discard = weakref.finalize(self, _discard, self._part, self._lock, os.getpid())

    def end(self, complete: bool) -> None:
        """Have the file appear, or go; whatever comes first counts.

        Raises
        ------
        FileExistsError
            If there is a file now that is not to be replaced.
        OSError
            If it cannot be renamed.
        """
        if not self._discard.alive:
            return
        try:
            if complete:
                self._appear()
        finally:
            self._discard()

    def _appear(self) -> None:
        if self._overwrite:
            os.replace(self._part, self._path)
            return
        try:
            os.link(self._part, self._path)  # renaming would replace what has come meanwhile
        except FileExistsError:
            raise
        except OSError:  # not everywhere can files have two names
            if os.path.lexists(self._path):
                raise FileExistsError(
                    errno.EEXIST, "there is such a file now", os.fspath(self._path)
                ) from None
            os.rename(self._part, self._path)


def part_of(path: Path) -> str:
    """The name of a file while it is being written."""
    return os.fspath(path) + SUFFIX


def _locked(part: str) -> BinaryIO | None:
    """The file, locked; None where there are no locks."""
    if fcntl is None:
        return None
    file = open(part, "r+b")  # noqa: SIM115 - it stays open
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise _busy(part) from None
    except OSError:  # this file system has none
        file.close()
        return None
    if not _is_same(part, file):
        file.close()
        raise _busy(part)
    return file


def _remove_abandoned(part: str) -> None:
    """Remove what a process left that was killed."""
    with suppress(FileNotFoundError):
        file = _locked(part)
        if file is None:
            raise _busy(part)
        with file:
            os.unlink(part)


def _busy(part: str) -> BusyError:
    return BusyError(errno.EEXIST, "another run is writing it", part)


def _is_same(part: str, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(os.stat(part), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _discard(part: str, lock: BinaryIO | None, process: int) -> None:
    if process != os.getpid():
        return  # a fork has no part in it
    if lock is None or _is_same(part, lock):
        with suppress(OSError):
            os.unlink(part)
    if lock is not None:
        lock.close()
