"""The class of TVIPS files."""

from __future__ import annotations

from typing import ClassVar

from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet, Path

__all__ = ["TVIPSDataSet"]


class TVIPSDataSet(FileDataSet):
    """TVIPS files; options are those of :meth:`framefold.Context.load`."""

    filetype: ClassVar[str] = "tvips"

    def __init__(
        self,
        path: Path,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = None,
        num_partitions: int | None = None,
        *,
        disable_glob: bool = False,
    ) -> None:
        super().__init__(
            path,
            disable_glob=disable_glob,
            nav_shape=nav_shape,
            sig_shape=sig_shape,
            sync_offset=sync_offset,
            io_backend=io_backend,
            num_partitions=num_partitions,
        )
