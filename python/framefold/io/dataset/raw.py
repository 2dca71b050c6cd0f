"""The class of raw files."""

from __future__ import annotations

from typing import ClassVar

import numpy.typing as npt

from framefold.exceptions import InvalidArgumentError
from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet, Path

__all__ = ["RawFileDataSet"]


class RawFileDataSet(FileDataSet):
    """Raw files; options are those of :meth:`framefold.Context.load`.

    ``scan_size`` and ``detector_size`` are former names of ``nav_shape`` and ``sig_shape``;
    ``enable_direct`` and ``tileshape`` are of no effect.

    Raises
    ------
    InvalidArgumentError
        For ``detector_size_raw`` and ``crop_detector_to``: use ``sig_shape``, ``frame_header`` and
        ``frame_footer``.
    """

    filetype: ClassVar[str] = "raw"

    def __init__(
        self,
        path: Path,
        dtype: npt.DTypeLike,
        scan_size: tuple[int, ...] | None = None,
        detector_size: tuple[int, ...] | None = None,
        enable_direct: bool = False,
        detector_size_raw: tuple[int, ...] | None = None,
        crop_detector_to: tuple[int, ...] | None = None,
        tileshape: tuple[int, ...] | None = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int = 0,
        io_backend: str | IOBackend | None = None,
        num_partitions: int | None = None,
        *,
        file_header: int = 0,
        file_footer: int = 0,
        frame_header: int = 0,
        frame_footer: int = 0,
    ) -> None:
        if detector_size_raw is not None or crop_detector_to is not None:
            raise InvalidArgumentError(
                "detector_size_raw and crop_detector_to are no longer there: pass sig_shape, and "
                "frame_header or frame_footer for what is before or after the pixels of a frame"
            )
        super().__init__(
            path,
            dtype=dtype,
            scan_size=scan_size,
            detector_size=detector_size,
            nav_shape=nav_shape,
            sig_shape=sig_shape,
            sync_offset=sync_offset,
            io_backend=io_backend,
            num_partitions=num_partitions,
            file_header=file_header,
            file_footer=file_footer,
            frame_header=frame_header,
            frame_footer=frame_footer,
        )
