"""Formats of one's own: Python classes that read frames, as rows of the engine's table."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from os import PathLike, fsdecode
from os.path import abspath, exists
from pathlib import Path
from threading import RLock
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._paths import absolute
from framefold.common._telling import tell
from framefold.common._user_code import signature_of
from framefold.exceptions import InvalidArgumentError
from framefold.io.dataset._arrays import lengths
from framefold.io.dataset._calibration import FACTS, TURNS
from framefold.io.dataset._factory import class_from
from framefold.io.dataset._file import (
    FORMER,
    NO_EFFECT,
    REFUSED,
    FileDataSet,
    _default_paths,
)
from framefold.io.dataset._table import format_added, format_rows
from framefold.io.dataset.base import _open_again

__all__ = ["class_of_own", "register_format"]

Class = TypeVar("Class", bound=type)

#: What all formats of one's own take, without `open` being asked.
OF_ALL = {
    "nav_shape": ("shape", "The scan shape, where it is not that of the source"),
    "sync_offset": ("integer", "Scan position p shows frame p + N"),
}
#: What `load` and the engine take themselves, and what `load` drops or calls by another name.
OF_LOAD = (
    *("filetype", "files", "nav_shape", "sync_offset", "num_partitions", *FACTS, *TURNS),
    *(*NO_EFFECT, *FORMER, *REFUSED),
)

#: The kind of an option by the type of its annotation.
KINDS = {
    bool: "flag",
    int: "integer",
    float: "number",
    str: "text",
    tuple: "shape",
    Path: "path",
    PathLike: "path",
    np.dtype: "dtype",
}

_lock = RLock()
#: The class of a format by its name, and that of its data sets.
_own: dict[str, tuple[type, type[_OwnDataSet]]] = {}
#: The formats whose classes pickles of data sets brought along, and nothing else registered.
_from_pickles: set[str] = set()


def register_format(cls: Class) -> Class:
    """Add a format that a Python class reads; its files open like those of any other format.

    Can be used as a decorator. A class of the same name that was registered before is replaced;
    data sets that are open stay as they are. A package registers its formats by entry points of
    the group ``framefold.formats``.

    Parameters
    ----------
    cls
        A class with these members:

        ``name`` : str
            What :meth:`framefold.Context.load` takes: small letters, digits and ``_``.
        ``extensions`` : sequence of str
            Usual endings of the names of its files: small letters, without the dot.
        ``title`` : str, optional
            What it is, in a few words.
        ``detect(path, head)``, optional
            Whether a file is of the format, and why: a sentence such as ``"it starts with 'ABC'"``,
            or None. ``head`` are the first 4096 bytes; empty for a folder. Without it, files are
            opened by the name of the format only.
        ``open(path, **options)``
            Opens a file, and returns a source. Its parameters with annotations and defaults are
            the options of the format: ``bool``, ``int``, ``float``, ``str``, ``tuple[int, ...]`` of
            numbers from 0 on, ``pathlib.Path``, ``numpy.dtype`` or ``Literal`` of texts, each with
            ``| None`` if it need not be given. An option of a name that a built-in format has takes
            what it takes there. On the command line, those that no built-in format has have
            ``option-`` in front: ``--option-gain``.
        ``option_help`` : dict of str, optional
            A sentence for each option, without its full stop.

        A source has

        ``shape``, ``sig`` : tuple of int
            The shapes of the scan and of a frame.
        ``dtype``
            That of the pixels.
        ``read(frames, out)``
            Fills ``out``, an array of shape ``(len(frames), *sig)`` in the dtype and native byte
            order, with the frames of these numbers: a ``range``, or an array of ascending ``int64``
            for some of them. Numbers count the positions of ``shape`` in C order. It is called by
            several threads at a time, with the interpreter's lock.
        ``paths`` : list of paths, optional
            The files that it reads beside the one that was opened.
        ``details`` : dict of str, optional
            More about the file for people to read.

    Returns
    -------
    The class itself.

    Raises
    ------
    InvalidArgumentError
        If something is missing, or another format has the name, or a built-in one uses that of an
        option for something else, or :meth:`framefold.Context.load` does.
    """
    name = getattr(cls, "name", None)
    if not isinstance(cls, type) or not isinstance(name, str):
        raise InvalidArgumentError(
            f"a format is a class with a `name` in text, such as name = 'abc', not {cls!r}"
        )
    if not callable(getattr(cls, "open", None)):
        raise InvalidArgumentError(f"the format {name!r} has no open(path, **options)")
    _check_detect(cls, name)
    extensions = getattr(cls, "extensions", None)
    if isinstance(extensions, str) or not isinstance(extensions, Iterable):
        raise InvalidArgumentError(
            f"the format {name!r} has extensions={extensions!r}; a tuple was expected, such as "
            f"('abc',), or ()"
        )
    with _lock:
        rows = {row: each for row, each in format_rows().items() if row != name}
        _add(cls, _options(cls, name, rows))
    return cls


def _add(cls: Any, options: list[tuple[Any, ...]]) -> None:
    """Add the format of a class that was looked at, with these options."""
    name, title = cls.name, str(getattr(cls, "title", cls.name))
    _engine.register_format(
        name,
        title,
        [str(extension) for extension in cls.extensions],
        options,
        _Detect(cls),
        _Open(cls),
    )
    format_added()
    made = class_from(
        format_rows()[name],
        f"{cls.__name__}DataSet",
        cls.__module__,
        "path",
        f"Data sets of {title} files, which :class:`{cls.__name__}` reads.",
        _OwnDataSet,
        _format=cls,
        _options=options,
    )
    assert issubclass(made, _OwnDataSet)
    _own[name] = (cls, made)
    _from_pickles.discard(name)


def class_of_own(filetype: str) -> type[FileDataSet] | None:
    """The class of data sets of a format; None if it is none of a Python class."""
    _, found = _own.get(filetype, (None, None))
    return found


class _OwnDataSet(FileDataSet):
    """Base of the classes of data sets that Python classes read."""

    _format: ClassVar[type]
    #: What annotations say of them: names in these may mean nothing where the class is sent to.
    _options: ClassVar[list[tuple[Any, ...]]]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold the class of the format with its options, and the path."""
        how = (self._format, self._opened_with, self._engine.stamps, self._options)
        return _open_own_again, how


def _open_own_again(
    cls: type,
    how: tuple[str, str, dict[str, Any]],
    stamps: bytes,
    options: list[tuple[Any, ...]],
) -> FileDataSet:
    filetype: str = cls.name  # type: ignore[attr-defined]
    with _lock:
        known = _own.get(filetype)
        is_registered_here = known is not None and filetype not in _from_pickles
        if known is None or known[0] is not cls:
            _add(cls, options)
            _from_pickles.add(filetype)
        try:
            dataset = _open_again(_own[filetype][1], (filetype, *how[1:]), stamps)
        finally:
            if known is not None and is_registered_here and known[0] is not cls:
                # It replaced that of the data set, or is of a module of another version.
                _add(known[0], known[1]._options)
                _own[filetype] = known
    assert isinstance(dataset, FileDataSet)
    return dataset


class _Detect:
    """What the engine asks about a file."""

    def __init__(self, cls: type) -> None:
        self._cls: Any = cls

    def __call__(self, path: Path, head: bytes) -> str | None:
        if not callable(getattr(self._cls, "detect", None)):
            return None
        try:
            reason = self._cls.detect(path, head)
        except Exception as error:  # files of other formats must still open
            tell(
                f"the format {self._cls.name!r} could not say whether it knows '{path}': "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
            )
            return None
        if reason is not None and not isinstance(reason, str):
            tell(
                f"detect of the format {self._cls.name!r} returned {reason!r} for '{path}', which "
                f"counts as no; a reason in text or None was expected",
                RuntimeWarning,
            )
            return None
        return reason


class _Open:
    """What the engine calls to open a file."""

    def __init__(self, cls: type) -> None:
        self._cls: Any = cls

    def __call__(self, path: Path, options: dict[str, Any]) -> tuple[Any, ...]:
        name = self._cls.name
        # So that it finds what it reads later from another current folder. Names of no file stay.
        path = Path(absolute(path)) if exists(path) else path
        defaults = _default_paths(format_rows()[name], options)
        options |= {option: Path(default) for option, default in defaults.items()}
        source = self._cls.open(path, **options)
        missing = [each for each in ("shape", "sig", "dtype", "read") if not hasattr(source, each)]
        if missing:
            raise InvalidArgumentError(
                f"open of the format {name!r} returned {source!r}, which has no "
                f"{', '.join(missing)}"
            )
        dtype: npt.DTypeLike = np.dtype(source.dtype).newbyteorder("=")
        given = getattr(source, "paths", None) or []
        if isinstance(given, str | bytes | PathLike):
            raise InvalidArgumentError(
                f"open of the format {name!r} returned a source with paths={given!r}, expected a "
                f"list of paths"
            )
        paths = [Path(each) for each in given]
        # Of a folder, they are what is in it, and other files may be, too.
        named = abspath(path) in map(abspath, paths)
        if not paths or not (named or path.is_dir()):
            paths.insert(0, path)
        details = dict(getattr(source, "details", None) or {})
        return (
            source.read,
            np.dtype(dtype).name,
            lengths("shape", source.shape),
            lengths("sig", source.sig),
            paths,
            [(str(key), str(value)) for key, value in details.items()],
        )


def _options(cls: Any, name: str, rows: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The options of a format: name, kind, choices, unit, default, whether None is one, help."""
    options = (option for row in rows.values() for option in row.options)
    built_in = {each.name: each for each in options if not each.flag.startswith("option-")}
    found: list[tuple[Any, ...]] = [
        (option, kind, [], None, None, False, help_) for option, (kind, help_) in OF_ALL.items()
    ]
    helps = getattr(cls, "option_help", {})
    try:
        parameters = _parameters(cls.open)
    except NameError as error:
        raise InvalidArgumentError(
            f"the annotations of open of the format {name!r} cannot be read: {error}"
        ) from None
    if not parameters or any(parameter.name == "path" for parameter in parameters[1:]):
        raise InvalidArgumentError(_without_an_object(name, "open(path, **options)"))
    for parameter in parameters[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InvalidArgumentError(
                f"open of the format {name!r} takes {parameter}; name its options, so that others "
                f"can be refused"
            )
        if isinstance(parameter.default, np.generic):
            parameter = parameter.replace(default=parameter.default.item())
        option = parameter.name
        if option in OF_LOAD:
            raise InvalidArgumentError(
                f"open of the format {name!r} takes {option}, which framefold sees to itself; "
                f"leave it out"
            )
        same = built_in.get(option)
        default = None if parameter.default is parameter.empty else parameter.default
        if same is not None:
            kind, choices, unit = same.kind, same.choices, same.unit
        else:
            kind, choices = _kind(name, parameter)
            unit = None
        about = helps.get(option) or (same.help if same else f"An option of {name} files")
        takes_none = default is not None and NoneType in get_args(parameter.annotation)
        found.append((option, kind, choices, unit, _text(default), takes_none, about))
    return found


def _parameters(open_: Any) -> list[inspect.Parameter]:
    """Those of `open`, with the annotations of options as types."""
    try:
        return list(inspect.signature(open_, eval_str=True).parameters.values())
    except NameError:  # perhaps of the result or of the path, which say nothing about options
        path, *options = signature_of(open_).parameters.values()
    known = getattr(inspect.unwrap(open_), "__globals__", {})
    return [
        path,
        *(
            option.replace(annotation=eval(option.annotation, known))
            if isinstance(option.annotation, str)
            else option
            for option in options
        ),
    ]


def _check_detect(cls: Any, name: str) -> None:
    """Raise if a class cannot be asked about a file, which would be a warning for each."""
    detect = getattr(cls, "detect", None)
    try:
        arguments = signature_of(detect) if callable(detect) else None
    except ValueError:  # it is compiled, and does not say
        return
    try:
        if arguments is not None:
            arguments.bind(Path(), b"")
    except TypeError:
        raise InvalidArgumentError(_without_an_object(name, "detect(path, head)")) from None


def _without_an_object(name: str, call: str) -> str:
    return (
        f"{call} of the format {name!r} is called without an object of the class: write it with "
        f"these parameters, as a @staticmethod"
    )


def _kind(name: str, parameter: inspect.Parameter) -> tuple[str, list[str]]:
    """What an option takes, by its annotation or default."""
    annotation = parameter.annotation
    if annotation is parameter.empty and parameter.default not in (parameter.empty, None):
        annotation = type(parameter.default)
    parts = [annotation]
    if get_origin(annotation) in (Union, UnionType):
        parts = [part for part in get_args(annotation) if part is not NoneType]
    if len(parts) == 1 and get_origin(parts[0]) is Literal:
        choices = get_args(parts[0])
        if all(isinstance(choice, str) for choice in choices):
            return "choice", list(choices)
    # str | PathLike is a path.
    kinds = {KINDS.get(get_origin(part) or part) for part in parts}
    if any(set(get_args(part)) - {int, ...} for part in parts if get_origin(part) is tuple):
        kinds = set()
    kinds = {"path"} if kinds == {"text", "path"} else kinds
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None:
        raise InvalidArgumentError(
            f"the option {parameter} of the format {name!r} is not of a type that options can "
            f"have: bool, int, float, str, tuple[int, ...], pathlib.Path, numpy.dtype, or Literal "
            f"of texts, each with '| None' if it need not be given"
        )
    if kind == "flag" and parameter.default is not False:
        kind = "switch"
    return kind, []


def _text(default: Any) -> str | None:
    """A default as the command line spells it."""
    if default is None:
        return None
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return fsdecode(default) if isinstance(default, PathLike) else str(default)
