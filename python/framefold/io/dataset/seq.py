"""The class of SEQ files."""

from __future__ import annotations

from typing import ClassVar

from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet, Path

__all__ = ["SEQDataSet"]


class SEQDataSet(FileDataSet):
    """SEQ files; options are those of :meth:`framefold.Context.load`.

    ``scan_size`` is the former name of ``nav_shape``.
    """

    filetype: ClassVar[str] = "seq"

    def __init__(
        self,
        path: Path,
        scan_size: tuple[int, ...] | None = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int = 0,
        io_backend: str | IOBackend | None = None,
        num_partitions: int | None = None,
        *,
        enable_corrections: bool | None = None,
    ) -> None:
        super().__init__(
            path,
            enable_corrections=enable_corrections,
            scan_size=scan_size,
            nav_shape=nav_shape,
            sig_shape=sig_shape,
            sync_offset=sync_offset,
            io_backend=io_backend,
            num_partitions=num_partitions,
        )
