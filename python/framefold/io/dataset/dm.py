"""The classes of DigitalMicrograph files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet, Path

__all__ = ["DMDataSet", "StackedDMDataSet"]


class DMDataSet(FileDataSet):
    """DigitalMicrograph files, be it one that holds a stack or a stack of files.

    Options are those of :meth:`framefold.Context.load`.
    """

    filetype: ClassVar[str] = "dm"


class StackedDMDataSet(DMDataSet):
    """A stack of files with one frame each, in the order of the list.

    ``scan_size`` is the former name of ``nav_shape``.
    """

    def __init__(
        self,
        files: Sequence[Path],
        scan_size: tuple[int, ...] | None = None,
        same_offset: bool = False,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int = 0,
        io_backend: str | IOBackend | None = None,
        num_partitions: int | None = None,
    ) -> None:
        options: dict[str, Any] = {"scan_size": scan_size} if scan_size is not None else {}
        super().__init__(
            list(files),
            same_offset=same_offset,
            nav_shape=nav_shape,
            sig_shape=sig_shape,
            sync_offset=sync_offset,
            io_backend=io_backend,
            num_partitions=num_partitions,
            **options,
        )
