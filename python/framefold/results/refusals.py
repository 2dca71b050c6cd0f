"""What is said when the operating system refuses to write a file."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from framefold.exceptions import FileAccessError, FramefoldError

#: The same as in the engine's ``io/src/write/whole.rs``.
_NEXT_STEP = {
    errno.ENOSPC: "free space on that disk, or write to another one",
    errno.EDQUOT: "remove files of yours on that disk, or have your quota raised",
    errno.ENOMEM: "free memory, or write less at once",
    errno.ENAMETOOLONG: "choose a shorter name",
}
_OTHERWISE = "check the space on the disk and the permissions of the folder"


@contextmanager
def as_refusal(path: Path | str) -> Iterator[None]:
    """Make an error of the operating system one that names the file and the next step."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FramefoldError) and error.path is not None:
            raise
        next_step = _NEXT_STEP.get(error.errno or 0, _OTHERWISE)
        raise FileAccessError(f"could not write '{path}': {error}; {next_step}") from error
