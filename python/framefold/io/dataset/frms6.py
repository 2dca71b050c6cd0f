"""The class of FRMS6 files."""

from __future__ import annotations

from typing import ClassVar

from framefold.exceptions import InvalidArgumentError
from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet, Path

__all__ = ["FRMS6DataSet"]


class FRMS6DataSet(FileDataSet):
    """FRMS6 files; options are those of :meth:`framefold.Context.load`.

    Raises
    ------
    InvalidArgumentError
        For ``dest_dtype``: each function says which dtype it wants.
    """

    filetype: ClassVar[str] = "frms6"

    def __init__(
        self,
        path: Path,
        enable_offset_correction: bool = True,
        gain_map_path: Path | None = None,
        dest_dtype: None = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int = 0,
        io_backend: str | IOBackend | None = None,
        num_partitions: int | None = None,
    ) -> None:
        if dest_dtype is not None:
            raise InvalidArgumentError(
                f"dest_dtype is {dest_dtype!r}, but each function says which dtype it wants; "
                f"leave it out"
            )
        super().__init__(
            path,
            enable_offset_correction=enable_offset_correction,
            gain_map_path=gain_map_path,
            nav_shape=nav_shape,
            sig_shape=sig_shape,
            sync_offset=sync_offset,
            io_backend=io_backend,
            num_partitions=num_partitions,
        )
