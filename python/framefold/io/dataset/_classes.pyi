# Made by tests/format_stubs.py from the table of formats; do not edit.

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy.typing as npt

from framefold.io.dataset._backends import IOBackend
from framefold.io.dataset._file import FileDataSet

class BloDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        tileshape: object = None,
        endianess: str | None = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class DMDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        same_offset: bool = False,
        force_c_order: bool = False,
        dataset_index: int | None = None,
        num_partitions: int | None = None,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class EMPADDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        scan_size: tuple[int, ...] | None = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class FRMS6DataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        enable_offset_correction: bool | None = None,
        gain_map_path: str | PathLike[str] | None = None,
        dest_dtype: object = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class H5DataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        ds_path: str | None = None,
        tileshape: object = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        target_size: object = None,
        min_num_partitions: object = None,
        sig_dims: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        sync_offset: int | None = None,
        num_partitions: int | None = None,
        *,
        allow_external_links: bool = False,
        enable_corrections: bool | None = None,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class K2ISDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class MIBDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        tileshape: object = None,
        scan_size: tuple[int, ...] | None = None,
        disable_glob: bool = False,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        quad_gap: str = "omit",
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class MRCDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class NPYDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        sig_dims: int | None = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class PRZDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sig_dims: int | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class RawFileDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        dtype: npt.DTypeLike | None = None,
        scan_size: tuple[int, ...] | None = None,
        detector_size: tuple[int, ...] | None = None,
        enable_direct: object = None,
        detector_size_raw: object = None,
        crop_detector_to: object = None,
        tileshape: object = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        file_header: int = 0,
        file_footer: int = 0,
        frame_header: int = 0,
        frame_footer: int = 0,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class RawCSRDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        allow_external_links: bool = False,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class SEQDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        scan_size: tuple[int, ...] | None = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        enable_corrections: bool | None = None,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class SERDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        emipath: str | PathLike[str] | None = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class SPEDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class TIFFDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        dataset_index: int | None = None,
        num_partitions: int | None = None,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class TVIPSDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        disable_glob: bool = False,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class ZarrDataSet(FileDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        ds_path: str | None = None,
        sig_dims: int | None = None,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: object = None,
        num_partitions: int | None = None,
        *,
        allow_external_links: bool = False,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class StackedDMDataSet(DMDataSet):
    def __init__(
        self,
        files: Sequence[str | PathLike[str]],
        scan_size: tuple[int, ...] | None = None,
        same_offset: bool = False,
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        num_partitions: int | None = None,
        *,
        force_c_order: bool = False,
        dataset_index: int | None = None,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...

class SingleDMDataSet(DMDataSet):
    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        nav_shape: tuple[int, ...] | None = None,
        sig_shape: tuple[int, ...] | None = None,
        sync_offset: int | None = None,
        io_backend: str | IOBackend | None = "mmap",
        force_c_order: bool = False,
        dataset_index: int | None = None,
        num_partitions: int | None = None,
        *,
        same_offset: bool = False,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None: ...
