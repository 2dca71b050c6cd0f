"""The class of BLO files."""

from __future__ import annotations

from typing import ClassVar

from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet, Path

__all__ = ["BloDataSet"]


class BloDataSet(FileDataSet):
    """BLO files; options are those of :meth:`framefold.Context.load`.

    ``tileshape`` is of no effect.
    """

    filetype: ClassVar[str] = "blo"

    def __init__(
        self,
        path: Path,
        tileshape: tuple[int, ...] | None = None,
        endianess: str = "<",
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int = 0,
        io_backend: str | IOBackend | None = None,
        num_partitions: int | None = None,
    ) -> None:
        super().__init__(
            path,
            endianess=endianess,
            nav_shape=nav_shape,
            sig_shape=sig_shape,
            sync_offset=sync_offset,
            io_backend=io_backend,
            num_partitions=num_partitions,
        )
