"""The class of MRC files."""

from __future__ import annotations

from typing import ClassVar

import numpy.typing as npt

from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet, Path

__all__ = ["MRCDataSet"]


class MRCDataSet(FileDataSet):
    """MRC files; options are those of :meth:`framefold.Context.load`."""

    filetype: ClassVar[str] = "mrc"

    def __init__(
        self,
        path: Path,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int = 0,
        io_backend: str | IOBackend | None = None,
        num_partitions: int | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        super().__init__(
            path,
            dtype=dtype,
            nav_shape=nav_shape,
            sig_shape=sig_shape,
            sync_offset=sync_offset,
            io_backend=io_backend,
            num_partitions=num_partitions,
        )
