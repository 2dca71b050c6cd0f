"""The class of MIB files."""

from __future__ import annotations

from typing import ClassVar

from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet, Path

__all__ = ["MIBDataSet"]


class MIBDataSet(FileDataSet):
    """MIB files; options are those of :meth:`framefold.Context.load`.

    ``tileshape`` is of no effect.

    ``scan_size`` is the former name of ``nav_shape``.
    """

    filetype: ClassVar[str] = "mib"

    def __init__(
        self,
        path: Path,
        tileshape: tuple[int, ...] | None = None,
        scan_size: tuple[int, ...] | None = None,
        disable_glob: bool = False,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int = 0,
        io_backend: str | IOBackend | None = None,
        num_partitions: int | None = None,
        *,
        quad_gap: str = "omit",
    ) -> None:
        super().__init__(
            path,
            disable_glob=disable_glob,
            quad_gap=quad_gap,
            scan_size=scan_size,
            nav_shape=nav_shape,
            sig_shape=sig_shape,
            sync_offset=sync_offset,
            io_backend=io_backend,
            num_partitions=num_partitions,
        )
