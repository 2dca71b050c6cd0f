"""Folders for temporary files of a local cluster's workers: none is left, whatever ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

import psutil  # which distributed needs, too

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

#: What their names begin with; the process that they belong to comes next.
PREFIX = "framefold-dask-"
#: How old a folder is at least that is taken for left behind, in seconds: a younger one may be
#: about to be locked.
YOUNG = 60.0


class Scratch:
    """A folder that is locked for as long as this process lives, so that others leave it alone.

    Process ids are not enough: containers that share a folder for temporary files use the same
    process ids.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self.path = tempfile.mkdtemp(prefix=f"{PREFIX}{self._process}-")
        try:
            self._lock = _locked(self.path)
        except BaseException:
            os.rmdir(self.path)
            raise

    def remove(self) -> None:
        """Remove it, in the process that made it."""
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None


def remove_stale() -> None:
    """Remove what processes left that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with contextlib.suppress(OSError):  # it is just gone, or that of another user
            about = path.lstat()
            # Others may leave links to folders of ours, or watch what is removed.
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != _user():
                continue
            if time.time() - about.st_mtime > YOUNG and _is_stale(path):
                shutil.rmtree(path, ignore_errors=True)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0  # as files of Windows say


def _is_stale(path: Path) -> bool:
    if fcntl is None:
        number = path.name.removeprefix(PREFIX).partition("-")[0]
        return number.isdecimal() and not psutil.pid_exists(int(number))
    lock = _locked(os.fspath(path))
    if lock is None:
        return False
    os.close(lock)
    return True


def _locked(path: str) -> int | None:
    """A descriptor that locks a folder until it is closed; None if it is locked or cannot be."""
    if fcntl is None:
        return None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
