"""From the name of a function to the function."""

from __future__ import annotations

import os
import sys
from ast import literal_eval
from collections.abc import Sequence, Set
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from framefold.compat.as_libertem import install_as_libertem
from framefold.exceptions import InvalidArgumentError
from framefold.udf.base import UDF
from framefold.udf.native import METHOD, NativeUDF, as_udf

#: The folders of files with functions that this command runs.
_beside: list[str] = []


def found(name: str) -> Any:
    """What a name in a module stands for; ``libertem`` is framefold in this process from now on."""
    with suppress(InvalidArgumentError):  # LiberTEM itself was imported at start: it is that, then
        install_as_libertem()  # functions that were written for LiberTEM run as they are
    place, _, attribute = name.rpartition(":")
    try:
        if place.endswith(".py"):
            spec = spec_from_file_location(_name_of_file(Path(place)), place)
            if spec is None or spec.loader is None or not Path(place).is_file():
                raise InvalidArgumentError(f"there is no file '{place}'")
            # Modules beside it are found, too, after all others, which framefold itself may need.
            beside = Path(place).resolve().parent
            here = {"", os.getcwd()}.intersection(sys.path)  # with `python -m framefold`, too
            _refuse_same(beside, [*_beside, *here], {Path(place).stem} & {*sys.modules})
            sys.path.append(str(beside))
            _beside.append(str(beside))
            module = module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        elif not place or place.startswith("."):
            raise InvalidArgumentError(
                f"'{name}' names no function; write MODULE:NAME or FILE.py:NAME, before the files"
            )
        else:
            _refuse_same(Path.cwd(), _beside)
            sys.path.insert(0, "")  # modules of this folder, as `python -m` finds them
            module = import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise
        raise InvalidArgumentError(
            f"there is no module '{place}' here, nor is it installed; name a file as FILE.py:NAME"
        ) from None
    if not hasattr(module, attribute):
        public = [each for each in vars(module) if not each.startswith("_")]
        raise InvalidArgumentError(
            f"'{place}' has no '{attribute}'; it has {', '.join(public) or 'nothing'}"
        )
    return getattr(module, attribute)


def _refuse_same(folder: Path, others: Sequence[str], known: Set[str] = frozenset()) -> None:
    """Raise if others have a module of the same name as one in a folder.

    Python has one of them alone, and functions from both folders would get that one.
    """
    for other in {Path(each).resolve() for each in others} - {folder.resolve()}:
        if both := (_modules(folder) & _modules(other)) - known:
            raise InvalidArgumentError(
                f"'{folder}' and '{other}' both have a module '{min(both)}', of which a command "
                f"can import one alone: rename one, or run the functions of each folder there, by "
                f"a command of their own"
            )


def _modules(folder: Path) -> set[str]:
    """What can be imported from a folder: files, packages, and folders without __init__.py."""
    beside = {module.name for module in iter_modules([str(folder)])}
    return beside | {path.parent.name for path in folder.glob("*/*.py")}


def _name_of_file(path: Path) -> str:
    """What a file is called as a module: as other files, unless others import that name."""
    try:
        other = find_spec(path.stem)
    except ImportError:
        return path.stem
    except ValueError:  # one that has been imported, and says nothing of its file
        return f"{path.stem}_py"
    is_free = other is None or (other.origin and Path(other.origin).resolve() == path.resolve())
    return path.stem if is_free else f"{path.stem}_py"


def made(function: Any, parameters: dict[str, Any]) -> UDF:
    """A UDF of what a name stands for."""
    if isinstance(function, type) and issubclass(function, UDF):
        try:
            return function(**parameters)
        except TypeError as error:
            raise InvalidArgumentError(f"{error}; -p NAME=VALUE gives parameters") from error
    if isinstance(function, type) and hasattr(function, METHOD):
        try:
            return NativeUDF(function(**parameters))
        except TypeError as error:
            raise InvalidArgumentError(f"{error}; -p NAME=VALUE gives parameters") from error
    if parameters:
        raise InvalidArgumentError(
            f"parameters are for UDF classes, and this is a {type(function).__name__}; bind those "
            f"of a function in its module, as functools.partial does"
        )
    function = as_udf(function)
    if isinstance(function, UDF):
        return function
    if not callable(function):
        raise InvalidArgumentError(
            f"it is a {type(function).__name__}; name a UDF class, a UDF, or a function of a frame"
        )
    from framefold.udf.auto import AutoUDF

    return AutoUDF(function)


def parameters_of(texts: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.isidentifier()):
            raise InvalidArgumentError(f"the parameter '{text}' is not NAME=VALUE")
        if name in found:
            raise InvalidArgumentError(f"the parameter '{name}' is given twice")
        try:
            found[name] = literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = _TRUTHS.get(value.strip().lower(), value)
        except (TypeError, MemoryError, RecursionError) as error:  # as of {[1]: 2}
            raise InvalidArgumentError(f"the parameter '{text}' has no value: {error}") from None
    return found


#: What the command line has for True and False elsewhere: as texts, both would count as True.
_TRUTHS = {"true": True, "false": False}
