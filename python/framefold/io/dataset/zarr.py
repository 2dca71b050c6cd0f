"""The class of Zarr arrays."""

from __future__ import annotations

from typing import ClassVar

from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet, Path

__all__ = ["ZarrDataSet"]


class ZarrDataSet(FileDataSet):
    """Zarr arrays; options are those of :meth:`framefold.Context.load`."""

    filetype: ClassVar[str] = "zarr"

    def __init__(
        self,
        path: Path,
        ds_path: str | None = None,
        sig_dims: int | None = None,
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
            ds_path=ds_path,
            sig_dims=sig_dims,
            nav_shape=nav_shape,
            sig_shape=sig_shape,
            sync_offset=sync_offset,
            io_backend=io_backend,
            num_partitions=num_partitions,
            allow_external_links=allow_external_links,
        )
