"""Data sets: stacks of frames laid out on a scan."""

from __future__ import annotations

from os import PathLike
from typing import Any

from framefold import _engine
from framefold.common._paths import path_text
from framefold.common._read_only import ReadOnlyDict
from framefold.compat.submodules import submodule
from framefold.exceptions import FramefoldError, InvalidArgumentError
from framefold.io.dataset._file import CLASSES, Place
from framefold.io.dataset._opening import known_formats, load_as, of_format
from framefold.io.dataset.base import DataSet, DataSetException
from framefold.io.dataset.memory import MemoryDataSet

__all__ = [
    "DataSet",
    "DataSetException",
    "detect",
    "filetypes",
    "get_dataset_cls",
    "get_extensions",
    "load",
]

#: The dotted name of the class of each file type.
filetypes = ReadOnlyDict(
    {
        filetype: f"framefold.io.dataset.{module}.{name}"
        for filetype, (module, name, _) in {
            **CLASSES,
            "dask": Place("dask", "DaskDataSet"),
            "memory": Place("memory", "MemoryDataSet"),
        }.items()
    },
    "pass the class itself, ctx.load(MyDataSet, …), or add a format with framefold.register_format",
    on="what load opens",
)


def load(
    filetype: str | type[DataSet],
    *args: Any,
    enable_async: bool = False,
    executor: Any = None,
    **kwargs: Any,
) -> Any:
    """A data set; the same as :meth:`framefold.Context.load`, without a context.

    With ``enable_async`` the data set is to be awaited.
    """
    dataset = load_as(filetype, args, kwargs)
    return _awaited(dataset) if enable_async else dataset


async def _awaited(dataset: DataSet) -> DataSet:
    return dataset


def detect(path: str | PathLike[str], executor: Any = None) -> dict[str, Any]:
    """What a file is, and what :func:`load` may be given for it; empty if no format knows it.

    Returns
    -------
    ``{"type": …, "parameters": {"path": …, "nav_shape": …, "sig_shape": …}, "info": …}``
    """
    known_formats()  # those of packages, too
    name = path_text("path", path)
    try:
        filetype, _ = _engine.detect(name)
    except FramefoldError:
        return {}
    found = of_format(filetype).detect_params(path)
    return {**found, "type": filetype} if isinstance(found, dict) else {}


def get_extensions() -> set[str]:
    """Endings of the names of files that some format reads, without a dot."""
    return {ending for row in known_formats().values() for ending in row.extensions}


def get_dataset_cls(filetype: str | type[DataSet]) -> type[DataSet]:
    """The class of a file type, in small letters or capitals; a class is its own.

    Raises
    ------
    InvalidArgumentError
        If there is no such type.
    """
    if isinstance(filetype, type):
        return filetype
    filetype = filetype.lower()
    if filetype == "memory":
        return MemoryDataSet
    if filetype == "dask":
        from framefold.io.dataset.dask import DaskDataSet

        return DaskDataSet
    if filetype not in known_formats(filetype):
        raise InvalidArgumentError(
            f"there is no file type {filetype!r}; there are memory, dask, "
            f"{', '.join(known_formats())}"
        )
    return of_format(filetype)


def __getattr__(name: str) -> Any:
    """A submodule that was not imported yet."""
    return submodule(__name__, name)
