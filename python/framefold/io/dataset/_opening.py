"""From the name of a format to its class, and to a data set.

Stands above the formats, those of packages, too: none of them knows what others there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import Parameter, signature
from threading import RLock
from typing import TYPE_CHECKING, Any

from framefold.common._telling import tell
from framefold.exceptions import InvalidArgumentError
from framefold.io._packages import formats_of_packages
from framefold.io.dataset._calibration import split_facts
from framefold.io.dataset._file import CLASSES, FileDataSet, open_files
from framefold.io.dataset._table import FormatRow, format_rows
from framefold.io.dataset.base import DataSet
from framefold.io.dataset.memory import MemoryDataSet

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["known_formats", "load_as", "of_format"]


def load_as(
    filetype: str | type[DataSet], args: tuple[Any, ...], options: dict[str, Any]
) -> DataSet:
    """Open a data set; see :meth:`framefold.Context.load`."""
    options, turn, facts = split_facts(options)
    dataset = _load_as(filetype, args, options)
    dataset = dataset.orient(**turn) if turn else dataset
    return dataset.calibrate(**facts) if facts else dataset


def _load_as(
    filetype: str | type[DataSet], args: tuple[Any, ...], options: dict[str, Any]
) -> DataSet:
    if isinstance(filetype, type) and issubclass(filetype, DataSet):
        dataset = filetype(*args, **options)
        if "_engine" not in vars(dataset):
            raise filetype._without_frames()
        return dataset
    if not isinstance(filetype, str):
        raise InvalidArgumentError(
            f"the format is of type {type(filetype).__name__}; its name comes first, such as "
            f"load('hdf5', path), 'auto' where it is to be found out, and load('memory', data=…) "
            f"for an array"
        )
    given_type, filetype = filetype, filetype.lower()
    if filetype == "memory":
        return MemoryDataSet(*args, **options)
    if filetype == "dask":
        from framefold.io.dataset.dask import DaskDataSet

        return DaskDataSet(*args, **options)
    given = [options.pop(name, None) for name in ("path", "files")]
    if given[1] is not None and (args or given[0] is not None):
        raise InvalidArgumentError(
            f"load({filetype!r}, …) got both a path and files; pass the list of files alone"
        )
    if given[0] is not None and args:
        raise InvalidArgumentError(
            f"load({filetype!r}, …) got {args[0]!r} and path={given[0]!r}; pass one path, first or "
            f"by its name, and with path=… all others by name"
        )
    args = (*(value for value in given if value is not None), *args)
    if not args:
        raise InvalidArgumentError(
            f"load({given_type!r}, …) takes one path, got none: the format comes first, as in "
            f"load('mib', path); open(path) finds it out"
        )
    if len(args) > 1:
        options = {**_named(filetype, args[1:], options), **options}
    known_formats(filetype)  # those of packages, too, if they may be needed
    engine, how = open_files(filetype, args[0], options)
    return _class_of(engine.format, is_stack="files" in how[2])._of(engine, how)


def _class_of(filetype: str, *, is_stack: bool) -> type[FileDataSet]:
    """The class of what was opened; in the reference, stacks of ``dm`` have one of their own."""
    if filetype != "dm":
        return of_format(filetype)
    from framefold.io.dataset import dm, dm_single

    return dm.StackedDMDataSet if is_stack else dm_single.SingleDMDataSet


def of_format(filetype: str) -> type[FileDataSet]:
    """The class of a format."""
    if filetype in CLASSES:
        module, name, _ = CLASSES[filetype]
        # Asked for by name, so that start-up stays short; from where pickles look for it.
        found: type[FileDataSet] = getattr(import_module(f"framefold.io.dataset.{module}"), name)
        return found
    known_formats(filetype)
    from framefold.io.dataset._own import class_of_own

    return class_of_own(filetype) or FileDataSet


def known_formats(asked: str = "auto") -> Mapping[str, FormatRow]:
    """The rows of all formats, or of those that are enough to open a file of the type ``asked``."""
    found = format_rows()
    if asked not in found:
        _load_packages()
        found = format_rows()
    return found


#: A package that is imported may open files.
_lock = RLock()
_loaded = False


def _load_packages() -> None:
    """Register the formats of packages that are installed, once in a process."""
    global _loaded
    with _lock:
        if _loaded:
            return
        # A package that is imported may open files itself.
        _loaded = True
        try:
            for entry in formats_of_packages():
                _load(entry)
        except BaseException:
            # Ctrl-C, or a warning that is an error: the next time, all are asked again.
            _loaded = False
            raise


def _load(entry: EntryPoint) -> None:
    from framefold.io.dataset._own import register_format

    try:
        register_format(entry.load())
    except (Exception, SystemExit) as error:  # whatever the package does must not keep files closed
        package = entry.dist.name if entry.dist is not None else entry.value
        tell(
            f"the format {entry.name!r} of the package {package} is not there: "
            f"{type(error).__name__}: {error}",
            RuntimeWarning,
        )


def _named(filetype: str, values: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """What follows the path without names, by the names that the class of the format gives it."""
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    parameters = signature(of_format(filetype)).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind in kinds][1:]
    if len(values) > len(names):
        raise InvalidArgumentError(
            f"load({filetype!r}, …) takes one path and {len(names)} options without names, got "
            f"{len(values) + 1} values; to read several files as a stack, pass a list of them"
        )
    named = dict(zip(names, values, strict=False))
    for name in named:
        if name in options:
            raise InvalidArgumentError(f"load({filetype!r}, …) got {name} twice")
    return named
