"""Files of results, with axes and units, whole or not at all."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._booleans import boolean
from framefold.common._paths import path_text
from framefold.exceptions import (
    ArgumentTypeError,
    InvalidArgumentError,
    UnsupportedError,
)
from framefold.results.colours import n_placed
from framefold.results.layout import VALID, Groups, Labelled, all_labelled, numeric
from framefold.results.refusals import as_refusal
from framefold.results.trees import Group, hyperspy, labelled_arrays, nexus
from framefold.results.zarr_files import write_zarr

if TYPE_CHECKING:
    from framefold.common.axes import Axis
    from framefold.common.buffers import BufferWrapper

#: Results by name, in groups by the name of their UDF; those of the group ``""`` are in none.
Results = Mapping[str, Mapping[str, "BufferWrapper"]]


def save(results: Results, path: str | os.PathLike[str], overwrite: bool) -> Path:
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
    path = Path(path_text("path", path))
    with new_file(path, overwrite) as write:
        write(results)
    return path


def save_each(results: Results, path: str | os.PathLike[str], overwrite: bool) -> list[Path]:
    """Write each result to a file of its own, and give the paths.

    Names of group and result stand before the ending. All is refused that :func:`save` refuses
    of a single one, mostly before the first file is there.
    """
    path = Path(path_text("path", path))
    ending = path.name[-len(ending_of(path)) :]
    stem = path.name.removesuffix(ending)
    paths = []
    with ExitStack() as files:
        writers = []
        for group, buffers in results.items():
            for name, buffer in buffers.items():
                words = "-".join(word for word in (stem, group, name) if word)
                paths.append(path.with_name(words + ending))
                write = files.enter_context(new_file(paths[-1], overwrite))
                writers.append((write, {"": {name: buffer}}))
        if not writers:
            raise InvalidArgumentError(NOTHING)
        for write, one in writers:
            write(one)
    return paths


def grouped(
    results: Sequence[Mapping[str, BufferWrapper]],
    names: Sequence[str] | None,
    taken: Sequence[str] = (),
) -> dict[str, Mapping[str, BufferWrapper]]:
    """The results of several UDFs under one name for each.

    Parameters
    ----------
    results
        Of each UDF.
    names
        One for each UDF. By default, that of its class; the second one of a class has ``_2``
        behind it, the third one ``_3``.
    taken
        Names that are in use.

    Raises
    ------
    InvalidArgumentError, ArgumentTypeError
        If names are not as many as the UDFs, not different, or none that files can have.
    """
    if names is not None:
        return dict(zip(_checked_names(names, len(results), taken), results, strict=True))
    udfs = [next((b.about.udf for b in buffers.values()), "") for buffers in results]
    return dict(zip(group_names(udfs, taken), results, strict=True))


def group_names(udfs: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """The names of groups for UDFs of these names, as :func:`grouped` gives them by default."""
    found: list[str] = []
    for udf in udfs:
        # Functions that others compiled may be called anything.
        known = re.sub(r"\W", "_", udf) or "UDF"
        name, number = known, 2
        while name in found or name in taken:
            name, number = f"{known}_{number}", number + 1
        found.append(name)
    return found


def _checked_names(names: Sequence[str], n: int, taken: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ArgumentTypeError(f"names is {names!r}; pass a list of texts, one for each UDF")
    names = list(names)
    if len(names) != n:
        raise InvalidArgumentError(
            f"got {len(names)} names for the results of {n} UDFs; pass one for each"
        )
    for i, name in enumerate(names):
        if name in names[:i] or name in taken:
            raise InvalidArgumentError(f"the name {name!r} is there twice; choose another one")
        is_a_name = name.isprintable() and not name.startswith(".") and not set(name) & set("/\\:")
        if not name or not is_a_name or name == "zarr.json":
            raise InvalidArgumentError(
                f"the name {name!r} cannot be that of a group in a file; use letters, digits and "
                f"underscores"
            )
    return names


def ending_of(path: Path) -> str:
    """What the name ends in, of what results are saved as."""
    name = path.name.lower()
    ending = next((known for known in WRITERS if name.endswith(known)), None)
    if ending is None:
        raise InvalidArgumentError(
            f"'{path}' does not end in anything that results are saved as; use one of "
            f"{', '.join(WRITERS)}; in Python, plot() draws pictures"
        )
    return ending


NOTHING = "there is nothing to save: there are no results"


@contextmanager
def new_file(path: Path, overwrite: bool) -> Iterator[Callable[[Results], None]]:
    """Refuse at once what cannot be written; gives what writes the results when they are there.

    They appear under their name at the end of the context, unless that is an exception.
    """
    ending = ending_of(path)
    overwrite = boolean("overwrite", overwrite)
    whole = _engine.WholeFile(os.fspath(path), overwrite, folder=ending in FOLDERS)
    written = False

    def write(results: Results) -> None:
        names = [
            f"{group}/{name}".lstrip("/") for group, buffers in results.items() for name in buffers
        ]
        if not names:
            raise InvalidArgumentError(NOTHING)
        if ending in FOR_ONE and len(names) > 1:
            raise InvalidArgumentError(
                f"{ending} holds one result, and there are {', '.join(names)}; save one of them, "
                f"each to a file of its own with separate=True, or all of them as .h5, .npz or "
                f".zarr"
            )
        nonlocal written
        inputs = (buffer.about.files for each in results.values() for buffer in each.values())
        _engine.keeps_inputs(os.fspath(path), tuple(dict.fromkeys(chain.from_iterable(inputs))))
        with as_refusal(path):
            groups = {group: all_labelled(each, group) for group, each in results.items() if each}
            WRITERS[ending](whole, groups, ending)
        written = True

    try:
        yield write
        if written:
            with as_refusal(path):
                whole.publish()
    finally:
        whole.discard()


def _npy(whole: _engine.WholeFile, groups: Groups, ending: str) -> None:
    array = _with_nan(_only(groups), ending)
    with whole.part.open("wb") as file:
        # What is no file gets the array piece by piece, and Ctrl-C is heard between two of them.
        np.save(SimpleNamespace(write=file.write), array, allow_pickle=False)


def _npz(whole: _engine.WholeFile, groups: Groups, ending: str) -> None:
    arrays: dict[str, Any] = {}
    about = {}
    for group, results in groups.items():
        for result in results:
            if result.array.dtype.hasobject:
                numeric(result, ending)  # says so
            name = f"{group}/{result.name}" if group else result.name
            arrays[name] = result.array
            if result.valid is not None:
                arrays[name + VALID] = result.valid
            about[name] = {
                "udf": result.udf,
                "unit": result.unit,
                "axes": [_as_dict(axis) for axis in result.axes],
            }
    if "about" in arrays:
        raise UnsupportedError(
            "a result is called 'about', as what .npz files say of the others; save it as .h5"
        )
    # A text among the arrays: ``json.loads(str(file["about"]))``.
    arrays["about"] = np.array(json.dumps(about))
    # Not ``np.savez``, whose own parameters, such as ``file``, cannot be names of arrays.
    with zipfile.ZipFile(whole.part, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _hdf5(whole: _engine.WholeFile, groups: Groups, ending: str) -> None:
    whole.write_hdf5(_for_engine(nexus(groups)))


def _hspy(whole: _engine.WholeFile, groups: Groups, ending: str) -> None:
    whole.write_hdf5(_for_engine(hyperspy(groups, ending)))


def _zspy(whole: _engine.WholeFile, groups: Groups, ending: str) -> None:
    write_zarr(whole.part, hyperspy(groups, ending), version=2)


def _zarr(whole: _engine.WholeFile, groups: Groups, ending: str) -> None:
    write_zarr(whole.part, labelled_arrays(groups), version=3)


def _tiff(whole: _engine.WholeFile, groups: Groups, ending: str) -> None:
    result = _only(groups)
    own = list(result.axes[: n_placed(result.axes)]) or list(result.axes)
    steps = [
        (axis.unit, float(axis.scale), float(axis.offset)) if axis.is_calibrated else None
        for axis in own[-2:]
    ]
    y, x = steps if len(steps) == 2 else [None, *steps]
    n_channel_axes = len(result.axes) - len(own)
    array = np.ascontiguousarray(_with_nan(result, ending))
    whole.write_tiff(array, n_channel_axes, result.title, y, x, ending.startswith(".ome"))


#: The endings of names, longer ones first, and what writes such files.
WRITERS: dict[str, Callable[[_engine.WholeFile, Groups, str], None]] = {
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


def _only(groups: Groups) -> Labelled:
    ((result,),) = groups.values()
    return result


def _with_nan(result: Labelled, ending: str) -> npt.NDArray[Any]:
    """The array with NaN where it is not valid, for files that hold no mask.

    Raises
    ------
    UnsupportedError
        If it is of integers that no float holds, or of a dtype that files do not hold.
    """
    array = numeric(result, ending)
    if result.valid is None or array.dtype.kind in "fc":
        return without_invalid(array, result.valid)
    wide = np.float32 if array.dtype.itemsize <= 2 else np.float64
    floats = array.astype(wide)
    if array.dtype.itemsize == 8 and not _holds(floats, array):
        raise UnsupportedError(
            f"the result {result.name!r} has positions without data, and its integers are too "
            f"large for a float; save it as .npz or .h5, which hold a mask"
        )
    floats[~result.valid] = np.nan
    return floats


def _holds(floats: npt.NDArray[Any], integers: npt.NDArray[Any]) -> bool:
    """Whether floats are these integers of 64 bits."""
    # The largest ones are rounded up, to what is no integer of that dtype.
    if (floats >= float(np.iinfo(integers.dtype).max)).any():
        return False
    return np.array_equal(floats.astype(integers.dtype), integers)


def without_invalid(
    array: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None
) -> npt.NDArray[Any]:
    """The array with NaN where it is not valid, if its dtype has NaN."""
    if valid is None or array.dtype.kind not in "fc":
        return array
    array = array.copy()
    array[~valid] = np.nan
    return array


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
