"""``framefold run my_module:MyUDF scan.mib``: functions of one's own on the command line.

The engine's command line knows no Python; what names a function in a module comes here instead,
and so do lists of reductions with such a function among them.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from argparse import Action, ArgumentParser, BooleanOptionalAction, Namespace
from ast import literal_eval
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

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
from framefold.results.saving import FOR_ONE, WRITERS, ending_of, new_file
from framefold.udf.base import UDF
from framefold.udf.reduction import ReductionUDF

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
    """The first argument that names a function, or has one in a list.

    A name is ``module:name`` or ``file.py:name``.
    """
    reductions = {name.replace("_", "") for name in (*_reductions(), *_SHORT)}
    for argument in arguments:
        if argument.startswith("-"):
            continue
        words = [(item.split() or [""])[0] for item in _split(argument)]
        if any(map(_is_function, words)):
            return argument
        if any(word.replace("_", "") in reductions for word in words):
            return None  # what follows is for the engine: a value of an option may have a colon
    return None


def _is_function(word: str) -> bool:
    place, colon, name = word.rpartition(":")
    if not (colon and name.isidentifier()):
        return False
    return place.endswith(".py") or all(part.isidentifier() for part in place.split("."))


def _split(text: str) -> list[str]:
    """The items of a list: a comma before a number belongs to a parameter, others end an item."""
    if Path(text.rpartition(":")[0]).is_file():
        return [text]
    items: list[str] = []
    for part in map(str.strip, text.split(",")):
        if items and re.match(r"[-+]?[0-9.]", part):
            items[-1] += f",{part}"
        else:
            items.append(part)
    return items


def _reductions() -> dict[str, dict[str, Any]]:
    """The engine's reductions by their names and their other names."""
    rows = _engine.native_reductions()
    return {name: row for row in rows for name in (row["name"], row["alias"]) if name is not None}


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
        items = _items(given)
        template = _template(items, given)
        for file in given.files:
            _run_over(file, items, template, given)
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
        help="a UDF class, a UDF, or a function that takes a frame; FILE.py:NAME is as good; a "
        "list of these and of reductions runs in one pass: 'sum,MODULE:NAME -p x=3,ring 18,50'",
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
        help="NAME.npz, .h5 and others for all buffers, NAME.npy or .tif for one; '{stem}' and "
        "'{reduction}' stand for names; a folder, FOLDER/, is FOLDER/{reduction}.h5",
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
    axes = parser.add_argument_group("options about axes")
    for flag, metavar, kind, words in (
        ("scan-step", "STEP", str, "the step of the scan with its unit: 0.5nm"),
        ("pixel-size", "SIZE", str, "the size of a pixel with its unit: 1.2mrad"),
        ("rotation", "DEGREES", float, "the rotation of the scan in degrees"),
        ("centre", "CY,CX", _numbers, "the pixel at which the axes of a frame have the value 0"),
        ("names", "NAMES", _names, "the names of all axes, those of the scan first"),
    ):
        dest = f"option_{flag.replace('-', '_')}"
        axes.add_argument(f"--{flag}", dest=dest, type=kind, metavar=metavar, help=words)
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


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(number) for number in text.split(","))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


class _Item(NamedTuple):
    """One of the functions and reductions of a run.

    Attributes
    ----------
    text
        As it was written.
    name
        What its results are called.
    function
        What a module has under that name, or the name of a reduction.
    parameters
        Those given.
    buffer
        The one result to write, if that was said.
    """

    text: str
    name: str
    function: Any
    parameters: dict[str, Any]
    buffer: str | None

    def made(self) -> UDF:
        if isinstance(self.function, str):
            return ReductionUDF(self.function, **self.parameters)
        return _made(self.function, self.parameters)


def _items(given: Namespace) -> list[_Item]:
    """What is to run, in one pass."""
    texts = _split(given.function)
    if len(texts) > 1 and (given.param or given.buffer):
        option = "-p" if given.param else "--buffer"
        raise InvalidArgumentError(
            f"{option} is for one function, and here are {len(texts)}; write it into the list: "
            f"'{texts[0]} {option} …'"
        )
    items: list[_Item] = []
    for text in texts:
        item = _item(text, given)
        items.append(item)
    names = [item.name for item in items]
    for i, name in enumerate(names):
        if name in names[:i]:
            items[i] = items[i]._replace(name=f"{name}-{names[:i].count(name) + 1}")
    return items


class _ItemParser(ArgumentParser):
    """For the words of one item of a list."""

    def __init__(self, text: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self.text = text
        self.add_argument("-b", "--buffer")

    def error(self, message: str) -> NoReturn:
        raise InvalidArgumentError(f"in '{self.text}': {message}")


def _item(text: str, given: Namespace) -> _Item:
    words = [text] if Path(text.rpartition(":")[0]).is_file() else text.split()
    if not words:
        raise InvalidArgumentError(
            f"an item of the list '{given.function}' is empty; write one comma between the items"
        )
    parser = _ItemParser(text)
    if _is_function(words[0]):
        parser.add_argument("-p", "--param", action="append", default=[])
        own = parser.parse_args(words[1:])
        name = words[0].rpartition(":")[2]
        parameters = _parameters([*own.param, *given.param])
        return _Item(text, name, _found(words[0]), parameters, own.buffer or given.buffer)
    rows = _reductions()
    name = "masks" if words[0] in _SHORT else words[0]
    if name not in rows:
        similar = get_close_matches(name, [*rows, *_SHORT], 1)
        raise InvalidArgumentError(
            f"there is no reduction '{name}', as in '{given.function}'"
            + "".join(f"; similar: '{each}'" for each in similar)
        )
    row = rows[name]
    if words[0] in _SHORT:
        words = [words[0], f"--{words[0]}", *words[1:]]
    for parameter in row["parameters"]:
        if parameter["option"] is not None:
            parser.add_argument(
                f"--{parameter['option']}",
                dest=f"of_{parameter['name']}",
                default=None,
                **_KINDS.get(parameter["kind"], {}),
            )
    own = parser.parse_args(words[1:])
    parameters = {
        key.removeprefix("of_"): value
        for key, value in vars(own).items()
        if key.startswith("of_") and value is not None
    }
    shown = words[0] if words[0] in _SHORT else row["name"]
    return _Item(text, shown, row["name"], parameters, own.buffer or given.buffer)


def _detector(text: str) -> float | tuple[float, ...]:
    numbers = _numbers(text)
    return numbers[0] if len(numbers) == 1 else numbers


def _mask(path: str) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"the masks '{path}' cannot be read: {error}") from None
    return array


#: What is short for masks with one parameter of that name.
_SHORT = ("disk", "ring")
#: How parameters of a kind are parsed; others stay texts.
_KINDS: dict[str, dict[str, Any]] = {
    "number": {"type": float},
    "radius": {"type": float},
    "switch": {"action": "store_const", "const": True},
    "disks": {"type": _detector, "action": "append"},
    "rings": {"type": _detector, "action": "append"},
    "arrays": {"type": _mask, "action": "append"},
}


def _template(items: list[_Item], given: Namespace) -> str | None:
    """Where results go, with the places of names in it; None if they are not written."""
    template: str | None = given.output
    if template is None:
        return None
    is_known = any(template.lower().endswith(ending) for ending in WRITERS)
    if template.endswith(("/", os.sep)) or (not is_known and Path(template).is_dir()):
        stem = "{stem}-" if len(given.files) > 1 and "{stem}" not in template else ""
        template = os.path.join(template, stem + "{reduction}.h5")
    if len(items) > 1 and "{reduction}" not in template:
        raise InvalidArgumentError(
            f"{len(items)} reductions would be written to one output, '{template}'; name a folder, "
            f"as in -o out/, or files in it: -o 'out/{{reduction}}.npz'"
        )
    if len(given.files) > 1 and "{stem}" not in template:
        raise InvalidArgumentError(
            "several input files would be written to this output; put {stem} into its name"
        )
    return template


@contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Makes a folder; one that is empty at the end goes."""
    is_new = not folder.exists()
    if is_new:
        try:
            folder.mkdir()
        except OSError as error:
            raise FileAccessError(f"could not make the folder '{folder}': {error}") from None
    try:
        yield
    finally:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


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


def _run_over(file: str, items: list[_Item], template: str | None, given: Namespace) -> None:
    """Run over one file, write the results, and say what they are."""
    options = {
        name.removeprefix("option_"): value
        for name, value in vars(given).items()
        if name.startswith("option_") and value is not None
    }
    how = {} if given.threads is None else {"cpus": given.threads}
    named = [] if template is None else [template.replace("{reduction}", i.name) for i in items]
    paths = [Path(name.replace("{stem}", Path(file).stem)) for name in named]
    said: list[str] = []
    with ExitStack() as stack:
        if template is not None and "{reduction}" in template:
            stack.enter_context(_in_folder(paths[0].parent))
        writes = [stack.enter_context(new_file(path, given.force)) for path in paths]
        ctx = stack.enter_context(
            Context.make_with("auto" if given.threads is None else "threads", **how)
        )
        dataset = ctx.load(given.format, file, **options)
        udfs = [item.made() for item in items]
        roi = None if given.roi is None else _roi(given.roi, tuple(dataset.shape.nav))
        progress = not given.quiet and sys.stderr.isatty()
        found = ctx.run_udf(dataset=dataset, udf=udfs, roi=roi, progress=progress)
        for i, (item, results) in enumerate(zip(items, found, strict=True)):
            names = list(results) if item.buffer is None else [item.buffer]
            if item.buffer is not None and item.buffer not in results:
                raise InvalidArgumentError(
                    f"there is no result buffer '{item.buffer}'; there are {', '.join(results)}"
                )
            if paths and ending_of(paths[i]) in FOR_ONE:
                names = names[:1]
            if paths:
                writes[i]({"": {name: results[name] for name in names}})
            of = f"{file}: {item.text}" if len(items) > 1 else file
            said += [f"{paths[i] if paths else of}: {_in_words(n, results[n])}" for n in names]
    if not given.quiet:
        print("\n".join(said))


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
