from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "Corrections",
    "Dataset",
    "NativeUdf",
    "Partial",
    "Plan",
    "Results",
    "ShiftedMasks",
    "TileCursor",
    "WholeFile",
    "__version__",
    "cli_main",
    "detect",
    "end_threads",
    "from_array",
    "from_csr",
    "from_pieces",
    "known_extensions",
    "known_formats",
    "known_metadata",
    "load",
    "native_reductions",
    "part_of",
    "write_dataset",
    "write_raw_csr",
]

__version__: str

_Result = tuple[str, Literal["nav", "sig", "single"], tuple[int, ...], npt.NDArray[Any]]
_ResultLists = list[list[_Result]]
_Part = tuple[str, Any, int | None]
_State = list[list[list[_Part]]]

def cli_main(arguments: list[str]) -> int: ...
def end_threads(seconds: float) -> bool: ...
def detect(path: str) -> tuple[str, str]: ...
def known_extensions() -> dict[str, list[str]]: ...
def known_formats() -> list[str]: ...
def known_metadata() -> list[tuple[str, str, str]]: ...
def native_reductions() -> list[tuple[str, str, list[str]]]: ...
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
def write_dataset(
    dataset: Dataset,
    path: str,
    format: str | None = None,
    *,
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
) -> dict[str, Any]: ...
def write_raw_csr(
    dataset: Dataset,
    path: str,
    threshold: float | None = None,
    force: bool = False,
    callback: Callable[[int], object] | None = None,
) -> tuple[list[Path], int, int, int]: ...
def part_of(path: str) -> Path: ...

@final
class WholeFile:
    def __new__(cls, path: str, replace: bool) -> WholeFile: ...
    @property
    def part(self) -> Path: ...
    def publish(self) -> None: ...
    def discard(self) -> None: ...

@final
class ShiftedMasks:
    def __new__(cls, parameters: dict[str, Any]) -> ShiftedMasks: ...
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
    def __new__(cls, kernel: str, name: str, parameters: dict[str, Any]) -> NativeUdf: ...

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
    def tile_depth(self) -> int: ...
    @property
    def tile_shape(self) -> tuple[int, ...]: ...
    def run_partition(self, index: int) -> Partial: ...
    def work(self, take: Callable[[], int | None], give: Callable[[Partial], object]) -> None: ...
    def results(
        self, udf: int | None = None, n_merged: int = 0, state: _State | None = None
    ) -> Results: ...
    def run(
        self,
        threads: int | None = None,
        callback: Callable[[str, int, int, int], None] | None = None,
    ) -> tuple[_ResultLists, npt.NDArray[np.bool_]]: ...

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
