"""The class of sparse frames in raw files."""

from __future__ import annotations

from typing import ClassVar

from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet, Path

__all__ = ["RawCSRDataSet"]


class RawCSRDataSet(FileDataSet):
    """Sparse frames in raw files; options are those of :meth:`framefold.Context.load`."""

    filetype: ClassVar[str] = "raw_csr"

    def __init__(
        self,
        path: Path,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int = 0,
        io_backend: str | IOBackend | None = None,
        num_partitions: int | None = None,
        *,
        allow_external_links: bool = False,
    ) -> None:
        super().__init__(
            path,
            nav_shape=nav_shape,
            sig_shape=sig_shape,
            sync_offset=sync_offset,
            io_backend=io_backend,
            num_partitions=num_partitions,
            allow_external_links=allow_external_links,
        )
