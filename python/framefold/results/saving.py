"""Files of results, with axes and units, whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.exceptions import (
    FileAccessError,
    FramefoldError,
    InvalidArgumentError,
    UnsupportedError,
)
from framefold.results.layout import VALID, Labelled, all_labelled, numeric
from framefold.results.trees import Group, hyperspy, labelled_arrays, nexus
from framefold.results.zarr_files import write_zarr

if TYPE_CHECKING:
    from framefold.common.axes import Axis
    from framefold.common.buffers import BufferWrapper


def save(
    buffers: Mapping[str, BufferWrapper], path: str | os.PathLike[str], overwrite: bool
) -> Path:
    """Write results as what the ending of ``path`` means, and give the path.

    Raises
    ------
    InvalidArgumentError
        If the ending means nothing, there is nothing to write, the file exists and is not to be
        overwritten, or it can hold one result only.
    UnsupportedError
        If the file cannot hold a result.
    FileAccessError
        If it cannot be written.
    """
    path = Path(path)
    with new_file(path, overwrite) as write:
        write(buffers)
    return path


def ending_of(path: Path) -> str:
    """What the name ends in, of what results are saved as."""
    name = path.name.lower()
    ending = next((known for known in WRITERS if name.endswith(known)), None)
    if ending is None:
        raise InvalidArgumentError(
            f"'{path}' does not end in anything that results are saved as; use one of "
            f"{', '.join(WRITERS)}"
        )
    return ending


@contextmanager
def new_file(
    path: Path, overwrite: bool
) -> Iterator[Callable[[Mapping[str, BufferWrapper]], None]]:
    """Refuse at once what cannot be written; gives what writes the results when they are there."""
    ending = ending_of(path)
    whole = _engine.WholeFile(os.fspath(path), overwrite, folder=ending in FOLDERS)

    def write(buffers: Mapping[str, BufferWrapper]) -> None:
        if not buffers:
            raise InvalidArgumentError("there is nothing to save: there are no results")
        if ending in FOR_ONE and len(buffers) > 1:
            raise InvalidArgumentError(
                f"{ending} holds one result, and there are {', '.join(map(repr, buffers))}; save "
                f"one, as in result['{next(iter(buffers))}'].save(…), or all of them as .h5, .npz "
                f"or .zarr"
            )
        try:
            WRITERS[ending](whole, all_labelled(buffers), ending)
            whole.publish()
        except OSError as error:
            if isinstance(error, FramefoldError):
                raise
            raise FileAccessError(
                f"could not write '{path}': {error}; check the space on the disk and the "
                f"permissions of the folder"
            ) from error

    try:
        yield write
    finally:
        whole.discard()


def _npy(whole: _engine.WholeFile, results: list[Labelled], ending: str) -> None:
    with whole.part.open("wb") as file:
        np.save(file, _with_nan(results[0], ending), allow_pickle=False)


def _npz(whole: _engine.WholeFile, results: list[Labelled], ending: str) -> None:
    arrays: dict[str, Any] = {}
    about = {}
    for result in results:
        if result.array.dtype.hasobject:
            numeric(result, ending)  # says so
        arrays[result.name] = result.array
        if result.valid is not None:
            arrays[result.name + VALID] = result.valid
        about[result.name] = {
            "udf": result.udf,
            "unit": result.unit,
            "axes": [_as_dict(axis) for axis in result.axes],
        }
    # A text among the arrays: ``json.loads(str(file["about"]))``.
    if "about" in arrays:
        raise UnsupportedError(
            "a result is called 'about', as what .npz files say of the others; save it as .h5"
        )
    with whole.part.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays, about=np.array(json.dumps(about)))


def _hdf5(whole: _engine.WholeFile, results: list[Labelled], ending: str) -> None:
    whole.write_hdf5(_for_engine(nexus(results)))


def _hspy(whole: _engine.WholeFile, results: list[Labelled], ending: str) -> None:
    whole.write_hdf5(_for_engine(hyperspy(results, ending)))


def _zspy(whole: _engine.WholeFile, results: list[Labelled], ending: str) -> None:
    write_zarr(whole.part, hyperspy(results, ending), version=2)


def _zarr(whole: _engine.WholeFile, results: list[Labelled], ending: str) -> None:
    write_zarr(whole.part, labelled_arrays(results), version=3)


def _tiff(whole: _engine.WholeFile, results: list[Labelled], ending: str) -> None:
    (result,) = results
    own = [axis for axis in result.axes if axis.kind != "extra"] or list(result.axes)
    steps = [
        (axis.unit, float(axis.scale), float(axis.offset)) if axis.is_calibrated else None
        for axis in own[-2:]
    ]
    y, x = steps if len(steps) == 2 else [None, *steps]
    n_channel_axes = len(result.axes) - len(own)
    array = np.ascontiguousarray(_with_nan(result, ending))
    whole.write_tiff(array, n_channel_axes, result.title, y, x, ending.startswith(".ome"))


#: The endings of names, longer ones first, and what writes such files.
WRITERS: dict[str, Callable[[_engine.WholeFile, list[Labelled], str], None]] = {
    ".ome.tiff": _tiff,
    ".ome.tif": _tiff,
    ".h5": _hdf5,
    ".hdf5": _hdf5,
    ".hspy": _hspy,
    ".zspy": _zspy,
    ".zarr": _zarr,
    ".tiff": _tiff,
    ".tif": _tiff,
    ".npz": _npz,
    ".npy": _npy,
}
#: Those that hold one result.
FOR_ONE = {".npy", ".tif", ".tiff", ".ome.tif", ".ome.tiff"}
#: Those that are folders.
FOLDERS = {".zarr", ".zspy"}


def _with_nan(result: Labelled, ending: str) -> npt.NDArray[Any]:
    """The array with NaN where it is not valid, for files that hold no mask.

    Raises
    ------
    UnsupportedError
        If it is of integers that no float holds, or of a dtype that files do not hold.
    """
    array = numeric(result, ending)
    if result.valid is None or array.dtype.kind in "fc":
        return array
    wide = np.float32 if array.dtype.itemsize <= 2 else np.float64
    floats = array.astype(wide)
    if array.dtype.itemsize == 8 and not np.array_equal(floats.astype(array.dtype), array):
        raise UnsupportedError(
            f"the result {result.name!r} has positions without data, and its integers are too "
            f"large for a float; save it as .npz or .h5, which hold a mask"
        )
    floats[~result.valid] = np.nan
    return floats


def _as_dict(axis: Axis) -> dict[str, Any]:
    known = ("name", "unit", "scale", "offset", "size", "kind")
    return {name: getattr(axis, name) for name in known}


def _for_engine(group: Group) -> Any:
    """A group with its arrays as bytes."""
    attributes, members = group
    return attributes, [
        (name, _for_engine(member) if isinstance(member[1], list) else _as_bytes(*member))
        for name, member in members
    ]


def _as_bytes(attributes: dict[str, Any], array: npt.NDArray[Any]) -> Any:
    array = np.ascontiguousarray(array)
    return attributes, array.dtype.name, array.shape, array.reshape(-1).view(np.uint8)
