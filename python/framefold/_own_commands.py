"""``framefold run my_module:MyUDF scan.mib``: functions of one's own on the command line.

The engine's command line knows no Python; what names a function in a module comes here instead.
"""

from __future__ import annotations

import sys
import traceback
from argparse import Action, ArgumentParser, BooleanOptionalAction, Namespace
from ast import literal_eval
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.api import Context
from framefold.common._tracebacks import without_own_lines
from framefold.common.buffers import BufferWrapper
from framefold.exceptions import (
    BadFileError,
    EngineError,
    FileAccessError,
    FramefoldError,
    InvalidArgumentError,
    LimitError,
    UnsupportedError,
)
from framefold.io.dataset._opening import known_formats
from framefold.io.dataset._table import Option
from framefold.results.saving import FOR_ONE, ending_of, new_file
from framefold.udf.base import UDF

__all__ = ["run", "wants"]

#: What the engine's command line has for each class of errors, narrower classes first.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (EngineError, 70),
    (InvalidArgumentError, 2),
    (BadFileError, 3),
    (UnsupportedError, 4),
    (LimitError, 4),
    (FileAccessError, 5),
)
_USER_CODE, _INTERRUPTED = 6, 130


def wants(arguments: Sequence[str]) -> bool:
    """Whether a command, without the name of the program, runs a function of one's own."""
    return arguments[:1] == ["run"] and _named(arguments[1:]) is not None


def _named(arguments: Sequence[str]) -> str | None:
    """The first argument that names a function: ``module:name`` or ``file.py:name``."""
    reductions = {row["name"].replace("_", "") for row in _engine.native_reductions()}
    for argument in arguments:
        if argument.replace("_", "") in reductions:
            return None  # what follows is for the engine: a value of an option may have a colon
        place, colon, name = argument.rpartition(":")
        if argument.startswith("-") or not (colon and name.isidentifier()):
            continue
        if place.endswith(".py") or all(part.isidentifier() for part in place.split(".")):
            return argument
    return None


def run(arguments: Sequence[str]) -> int:
    """Run a function of one's own over files; gives the exit code.

    Parameters
    ----------
    arguments
        Those of the command, without the name of the program.
    """
    parser = _parser()
    given = parser.parse_args(arguments[1:])
    try:
        function = _found(given.function)
        for file in given.files:
            _run_over(file, function, given)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except FramefoldError as error:
        print(f"framefold: {' '.join(str(error).split())}", file=sys.stderr)
        return next((code for kind, code in _CODES if isinstance(error, kind)), _USER_CODE)
    except Exception as error:  # of user code
        traceback.print_exception(without_own_lines(error))
        return _USER_CODE
    return 0


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"framefold: {message}; see 'framefold run MODULE:NAME --help'", file=sys.stderr)
        raise SystemExit(2)


def _parser() -> ArgumentParser:
    parser = _Parser(
        prog="framefold run",
        description="Runs a function of your own over files: a UDF, or a function of a frame.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "function",
        metavar="MODULE:NAME",
        help="a UDF class, a UDF, or a function that takes a frame; FILE.py:NAME is as good",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="the files to run over")
    parser.add_argument(
        "-p",
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the UDF class, as Python writes it, or a text; may be repeated",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="NAME.npz, .h5 and others for all buffers, NAME.npy or .tif for one",
    )
    parser.add_argument("-f", "--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument("-b", "--buffer", metavar="NAME", help="which result buffer to write")
    parser.add_argument(
        "-r", "--roi", help="'0:64,10:20', '::2', '3,4', several joined by ';', or .npy"
    )
    parser.add_argument("-j", "--threads", type=int, metavar="N", help="the number of threads")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, no summary")
    file = parser.add_argument_group("options about the file")
    file.add_argument("--format", default="auto", metavar="NAME", help="see 'framefold formats'")
    seen: set[str] = set()
    for option in (each for row in known_formats("?").values() for each in row.options):
        if option.name not in seen and option.kind != "paths":
            seen.add(option.name)
            _add_option(file, option)
    return parser


#: What some options are called on the engine's command line.
_FLAGS = {
    "io_backend": "backend",
    "enable_corrections": "corrections",
    "endianess": "byte-order",
    "gain_map_path": "gain-map",
}


def _add_option(group: Any, option: Option) -> None:
    flag = f"--{_FLAGS.get(option.name, option.name).replace('_', '-')}"
    how: dict[str, Any] = {"dest": f"option_{option.name}", "default": None}
    how["help"] = option.help.replace("%", "%%")
    action: type[Action] = BooleanOptionalAction
    if option.kind in ("flag", "switch"):
        group.add_argument(flag, action=action, **how)
    else:
        how["type"] = {
            "shape": _shape,
            "count": int,
            "bytes": int,
            "integer": int,
            "number": float,
        }.get(option.kind, str)
        group.add_argument(flag, metavar=option.kind.upper(), **how)


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(length) for length in text.replace("x", ",").split(","))


def _found(name: str) -> Any:
    """What a name in a module stands for."""
    place, _, attribute = name.rpartition(":")
    try:
        if place.endswith(".py"):
            spec = spec_from_file_location(Path(place).stem, place)
            if spec is None or spec.loader is None or not Path(place).is_file():
                raise InvalidArgumentError(f"there is no file '{place}'")
            module = module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
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


def _made(function: Any, parameters: dict[str, Any]) -> UDF:
    """A UDF of what a name stands for."""
    if isinstance(function, type) and issubclass(function, UDF):
        try:
            return function(**parameters)
        except TypeError as error:
            raise InvalidArgumentError(f"{error}; -p NAME=VALUE gives parameters") from error
    if parameters:
        raise InvalidArgumentError("parameters are for UDF classes; this is none")
    if isinstance(function, UDF):
        return function
    if not callable(function):
        raise InvalidArgumentError(
            f"it is a {type(function).__name__}; name a UDF class, a UDF, or a function of a frame"
        )
    from framefold.udf.auto import AutoUDF

    return AutoUDF(function)


def _parameters(texts: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.isidentifier()):
            raise InvalidArgumentError(f"the parameter '{text}' is not NAME=VALUE")
        try:
            found[name] = literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def _run_over(file: str, function: Any, given: Namespace) -> None:
    """Run over one file, write the result, and say what it is."""
    options = {
        name.removeprefix("option_"): value
        for name, value in vars(given).items()
        if name.startswith("option_") and value is not None
    }
    path = None if given.output is None else Path(given.output.replace("{stem}", Path(file).stem))
    if path is not None and len(given.files) > 1 and "{stem}" not in given.output:
        raise InvalidArgumentError(
            "several input files would be written to this output; put {stem} into its name"
        )
    how = {} if given.threads is None else {"cpus": given.threads}
    with (
        nullcontext() if path is None else new_file(path, given.force) as write,
        Context.make_with("auto" if given.threads is None else "threads", **how) as ctx,
    ):
        dataset = ctx.load(given.format, file, **options)
        udf = _made(function, _parameters(given.param))
        roi = None if given.roi is None else _roi(given.roi, tuple(dataset.shape.nav))
        progress = not given.quiet and sys.stderr.isatty()
        results = ctx.run_udf(dataset=dataset, udf=udf, roi=roi, progress=progress)
        names = list(results) if given.buffer is None else [given.buffer]
        if given.buffer is not None and given.buffer not in results:
            raise InvalidArgumentError(
                f"there is no result buffer '{given.buffer}'; there are {', '.join(results)}"
            )
        if path is not None and ending_of(path) in FOR_ONE:
            names = names[:1]
        if write is not None:
            write({"": {name: results[name] for name in names}})
    if not given.quiet:
        for name in names:
            print(f"{path or file}: {_in_words(name, results[name])}")


def _in_words(name: str, buffer: BufferWrapper) -> str:
    data = np.asarray(buffer.data)
    text = f"{name} {data.shape} {data.dtype}"
    valid = np.asarray(buffer.masked_data.compressed())
    if valid.size and valid.dtype.kind in "iuf":
        text += f", from {np.nanmin(valid)} to {np.nanmax(valid)}"
    return text


def _roi(text: str, nav: tuple[int, ...]) -> npt.NDArray[Any]:
    """What a text of the command line selects of a scan."""
    if text.lower().endswith(".npy"):
        try:
            array: npt.NDArray[Any] = np.load(text, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InvalidArgumentError(f"the ROI '{text}' cannot be read: {error}") from None
        return array
    mask = np.zeros(nav, dtype=bool)
    for block in text.split(";"):
        try:
            mask[tuple(_index(entry) for entry in block.split(","))] = True
        except (ValueError, IndexError) as error:
            raise InvalidArgumentError(
                f"the ROI '{block}' does not fit a scan of shape {nav}: {error}; write slices such "
                f"as 0:64,10:20 or ::2, a position such as 3,4, or name an .npy file"
            ) from None
    return mask


def _index(entry: str) -> int | slice:
    parts = [int(part) if part.strip() else None for part in entry.split(":")]
    if len(parts) > 1:
        return slice(*parts)
    if parts[0] is None:
        raise ValueError("an entry is empty")
    return parts[0]
