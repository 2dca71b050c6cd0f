"""The class of single DigitalMicrograph files."""

from __future__ import annotations

from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import Path
from framefold.io.dataset.dm import DMDataSet

__all__ = ["SingleDMDataSet"]


class SingleDMDataSet(DMDataSet):
    """One file with all frames; options are those of :meth:`framefold.Context.load`."""

    def __init__(
        self,
        path: Path,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int = 0,
        io_backend: str | IOBackend | None = None,
        force_c_order: bool = False,
        dataset_index: int | None = None,
        num_partitions: int | None = None,
    ) -> None:
        super().__init__(
            path,
            nav_shape=nav_shape,
            sig_shape=sig_shape,
            sync_offset=sync_offset,
            io_backend=io_backend,
            force_c_order=force_c_order,
            dataset_index=dataset_index,
            num_partitions=num_partitions,
        )
