"""The class of HDF5 files."""

from __future__ import annotations

from typing import ClassVar

from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet, Path

__all__ = ["H5DataSet"]


class H5DataSet(FileDataSet):
    """HDF5 files; options are those of :meth:`framefold.Context.load`.

    ``tileshape``, ``target_size``, ``min_num_partitions`` are of no effect.
    """

    filetype: ClassVar[str] = "hdf5"

    def __init__(
        self,
        path: Path,
        ds_path: str | None = None,
        tileshape: tuple[int, ...] | None = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        target_size: int | None = None,
        min_num_partitions: int | None = None,
        sig_dims: int | None = None,
        io_backend: str | IOBackend | None = None,
        sync_offset: int = 0,
        num_partitions: int | None = None,
        *,
        allow_external_links: bool = False,
        enable_corrections: bool | None = None,
    ) -> None:
        super().__init__(
            path,
            ds_path=ds_path,
            sig_dims=sig_dims,
            allow_external_links=allow_external_links,
            enable_corrections=enable_corrections,
            nav_shape=nav_shape,
            sig_shape=sig_shape,
            sync_offset=sync_offset,
            io_backend=io_backend,
            num_partitions=num_partitions,
        )
