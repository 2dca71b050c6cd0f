from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import numpy as np
import numpy.typing as npt

from framefold.executor.base import Crew, Place

__all__ = [
    "CompiledCode",
    "Corrections",
    "Dataset",
    "Driver",
    "Lasting",
    "NativeUdf",
    "Partial",
    "Plan",
    "Results",
    "Schedule",
    "ShiftedMasks",
    "TileCursor",
    "WholeFile",
    "__version__",
    "check_memory",
    "cli_main",
    "detect",
    "doubts",
    "end_threads",
    "format_table",
    "from_array",
    "from_csr",
    "from_pieces",
    "known_extensions",
    "known_formats",
    "known_metadata",
    "load",
    "native_reductions",
    "panic_in_next_call",
    "parse_steps",
    "part_of",
    "register_format",
    "threads_left",
    "vector_colours",
    "write_dataset",
    "write_raw_csr",
]

__version__: str

_Result = tuple[str, Literal["nav", "sig", "single"], tuple[int, ...], npt.NDArray[Any]]
_ResultLists = list[list[_Result]]
_Part = tuple[str, Any, int | None]
_State = list[list[list[_Part]]]

def check_memory(len_bytes: int) -> None: ...
def cli_main(arguments: list[str]) -> int: ...
def end_threads(seconds: float) -> bool: ...
def threads_left() -> bool: ...
def detect(path: str) -> tuple[str, str]: ...
def known_extensions() -> dict[str, list[str]]: ...
def known_formats() -> list[str]: ...
def format_table() -> list[
    tuple[
        str,
        str,
        list[str],
        list[tuple[str, str | None, str, list[str], str | None, Any, str]],
    ]
]: ...
def register_format(
    name: str,
    title: str,
    extensions: list[str],
    options: list[tuple[str, str, list[str], str | None, str | None, str]],
    detect: Callable[[Path, bytes], str | None],
    open: Callable[[Path, dict[str, Any]], tuple[Any, ...]],
) -> None: ...
def known_metadata() -> list[tuple[str, str, str]]: ...
def doubts(kernel: str, parameters: dict[str, Any], sig_shape: tuple[int, ...]) -> list[str]: ...
def parse_steps(text: str) -> list[tuple[float, str]]: ...
def native_reductions() -> list[dict[str, Any]]: ...
def load(
    filetype: str, path: str, options: dict[str, Any], stamps: bytes | None = None
) -> Dataset: ...
def from_array(
    array: npt.NDArray[Any],
    sig_dims: int,
    nav_shape: tuple[int, ...] | None = None,
    sync_offset: int = 0,
    num_partitions: int | None = None,
) -> Dataset: ...
def from_csr(
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    values: npt.NDArray[Any],
    sig_shape: tuple[int, ...],
    nav_shape: tuple[int, ...] | None = None,
    sync_offset: int = 0,
    num_partitions: int | None = None,
) -> Dataset: ...
def from_pieces(
    read: Callable[[int], npt.NDArray[Any]],
    starts: list[int],
    dtype: str,
    sig_shape: tuple[int, ...],
    nav_shape: tuple[int, ...],
    format: str,
    details: list[tuple[str, str]],
) -> Dataset: ...
def vector_colours(
    y: npt.NDArray[np.float64], x: npt.NDArray[np.float64], vmax: float
) -> npt.NDArray[np.uint8]: ...
def write_dataset(
    dataset: Dataset,
    path: str,
    format: str | None = None,
    *,
    zarr_format: int | None = None,
    chunks: list[int] | None = None,
    compression: str | None = None,
    level: int | None = None,
    dtype: str | None = None,
    lossy: bool = False,
    roi: npt.NDArray[np.bool_] | None = None,
    force: bool = False,
    verify: bool = True,
    threads: int | None = None,
    callback: Callable[[int], object] | None = None,
    orientation: str | None = None,
) -> dict[str, Any]: ...
def write_raw_csr(
    dataset: Dataset,
    path: str,
    threshold: float | None = None,
    force: bool = False,
    callback: Callable[[int], object] | None = None,
) -> tuple[list[Path], int, int, int]: ...
def panic_in_next_call() -> None: ...
def part_of(path: str) -> Path: ...

@final
class WholeFile:
    def __new__(cls, path: str, replace: bool, folder: bool = False) -> WholeFile: ...
    @property
    def part(self) -> Path: ...
    def write_hdf5(self, root: tuple[dict[str, Any], list[Any]]) -> None: ...
    def write_tiff(
        self,
        array: npt.NDArray[Any],
        n_channel_axes: int,
        title: str,
        y: tuple[str, float, float] | None = None,
        x: tuple[str, float, float] | None = None,
        ome: bool = False,
    ) -> None: ...
    def publish(self) -> None: ...
    def discard(self) -> None: ...

@final
class ShiftedMasks:
    def __new__(cls, parameters: dict[str, Any], sig_shape: tuple[int, ...]) -> ShiftedMasks: ...
    def products(
        self,
        values: npt.NDArray[Any],
        shifts: list[int],
        columns: npt.NDArray[np.uint32] | None = None,
    ) -> npt.NDArray[np.complex128]: ...

@final
class Dataset:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nav_dims(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def layout(self) -> str: ...
    @property
    def paths(self) -> list[Path]: ...
    @property
    def metadata(self) -> list[tuple[str, float | str]]: ...
    @property
    def axes(self) -> list[tuple[str, str, float, float, int, Literal["nav", "sig"]]]: ...
    @property
    def row_order(self) -> str | None: ...
    @property
    def details(self) -> list[tuple[str, str]]: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def positions_with_data(self) -> list[tuple[int, int]]: ...
    @property
    def sync_info(self) -> dict[str, int]: ...
    @property
    def unused_corrections(self) -> str | None: ...
    @property
    def corrections(self) -> Corrections | None: ...
    def with_corrections(self, corrections: Corrections | None = None) -> Dataset: ...
    def calibrated(
        self,
        scan_step: list[tuple[float, str]],
        pixel_size: list[tuple[float, str]],
        rotation: float | None,
        centre: list[float],
        names: list[str],
    ) -> Dataset: ...
    def oriented(self, flip: str | None = None, transpose: bool = False) -> Dataset: ...
    def with_tile_shape(self, tile_shape: tuple[int, ...]) -> Dataset: ...
    def to_sparse(
        self,
        nav_shape: tuple[int, ...] | None = None,
        sync_offset: int = 0,
        num_partitions: int | None = None,
    ) -> Dataset: ...
    def read_frames(self, out: npt.NDArray[np.uint8]) -> None: ...
    @property
    def stamps(self) -> bytes: ...
    def check_same(self, stamps: bytes) -> None: ...
    def check_unchanged(self) -> None: ...

@final
class Corrections:
    def __new__(
        cls,
        sig_shape: tuple[int, ...],
        dark: npt.NDArray[Any] | None = None,
        gain: npt.NDArray[Any] | None = None,
        excluded: list[int] = ...,
        allow_empty: bool = False,
    ) -> Corrections: ...
    @property
    def dark(self) -> npt.NDArray[Any] | None: ...
    @property
    def gain(self) -> npt.NDArray[Any] | None: ...
    @property
    def excluded(self) -> list[int]: ...

@final
class NativeUdf:
    def __new__(
        cls, kernel: str, name: str, parameters: dict[str, Any], sig_shape: tuple[int, ...]
    ) -> NativeUdf: ...
    def buffers(
        self,
        nav_shape: tuple[int, ...],
        sig_shape: tuple[int, ...],
        dtype: str,
        roi: npt.NDArray[np.bool_] | None = None,
    ) -> list[
        tuple[
            str,
            Literal["nav", "sig", "single"],
            list[int],
            str,
            Literal["private", "result_only"] | None,
        ]
    ]: ...

@final
class CompiledCode:
    def __new__(
        cls,
        name: str,
        addresses: tuple[int, ...],
        sparse: bool,
        packs: bool,
        block: list[int],
        private: list[tuple[int, int]],
        initial: list[tuple[int, int]],
        owner: Any,
    ) -> CompiledCode: ...
    def follow(self, other: CompiledCode) -> None: ...

@final
class TileCursor:
    def __new__(cls, start: int, stop: int) -> TileCursor: ...
    @property
    def start(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def slice_index(self) -> int: ...

@final
class Plan:
    def __new__(
        cls,
        dataset: Dataset,
        udfs: list[Any],
        roi: npt.NDArray[np.bool_] | None = None,
        num_partitions: int | None = None,
        tile_depth: int | None = None,
        cuts: list[int] | None = None,
    ) -> Plan: ...
    def explain(self) -> str: ...
    def explained(
        self,
    ) -> tuple[
        list[tuple[str, str]],
        list[tuple[str, str, list[tuple[str, str, list[int], str, str]]]],
    ]: ...
    def partitions(self) -> list[tuple[int, int]]: ...
    def results_of(
        self, udf: int
    ) -> list[tuple[str, Literal["nav", "sig", "single"], list[int], str]]: ...
    def cancel(self) -> None: ...
    @property
    def cancelled(self) -> bool: ...
    @property
    def n_partitions(self) -> int: ...
    @property
    def n_selected(self) -> int: ...
    @property
    def tile_depth(self) -> int: ...
    @property
    def tile_shape(self) -> tuple[int, ...]: ...
    def run_partition(self, index: int) -> Partial: ...
    def work(self, take: Callable[[], int | None], give: Callable[[Partial], object]) -> None: ...
    def results(
        self, udf: int | None = None, n_merged: int = 0, state: _State | None = None
    ) -> Results: ...

@final
class Driver:
    def __new__(
        cls,
        plan: Plan,
        threads: int | None = None,
        crew: Crew | None = None,
        places: Sequence[Place] | None = None,
        callback: Callable[[int, int], object] | None = None,
    ) -> Driver: ...
    def run(self) -> None: ...
    def step(self) -> bool: ...
    def close(self) -> None: ...
    def snapshot(self) -> tuple[_ResultLists, npt.NDArray[np.bool_]]: ...
    def lasting(self) -> Lasting | None: ...
    def valid(self) -> npt.NDArray[np.bool_]: ...
    @property
    def n_merged(self) -> int: ...

@final
class Lasting:
    def snapshot(self) -> tuple[_ResultLists, npt.NDArray[np.bool_]]: ...
    def valid(self) -> npt.NDArray[np.bool_]: ...

@final
class Schedule:
    ATTEMPTS: ClassVar[int]
    def __new__(cls, n_partitions: int, n_workers: int, first: int = 0) -> Schedule: ...
    def take(self, n: int) -> list[int]: ...
    def next(self) -> tuple[int, Any] | None: ...
    def finished(self, index: int, result: Any, len_bytes: int, seconds: float) -> None: ...
    def failed(self, index: int | None, error: BaseException) -> bool: ...
    def lost(self, index: int, blamed: bool) -> int: ...
    def put_back(self, index: int) -> None: ...
    def merged(self, count: int) -> bool: ...
    def set_workers(self, n_workers: int, at_hand: int) -> None: ...
    def set_careful(self) -> None: ...
    def close(self) -> None: ...
    def is_open(self, index: int) -> bool: ...
    def may_bring(self, index: int) -> bool: ...
    @property
    def is_careful(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def n_left(self) -> int: ...
    @property
    def n_open(self) -> int: ...
    @property
    def n_in_progress(self) -> int: ...
    @property
    def n_merged(self) -> int: ...
    @property
    def largest(self) -> int: ...
    @property
    def seconds(self) -> float | None: ...

@final
class Partial:
    def __new__(cls, partition: int, udfs: list[list[_Part]]) -> Partial: ...
    def take_parts(self) -> list[list[_Part]]: ...
    @property
    def partition(self) -> int: ...
    @property
    def len_bytes(self) -> int: ...

@final
class Results:
    @property
    def n_merged(self) -> int: ...
    def merge(self, partial: Partial) -> None: ...
    def take_state(self) -> _State | None: ...
    def snapshot(self) -> tuple[_ResultLists, npt.NDArray[np.bool_]]: ...
