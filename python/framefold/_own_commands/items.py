"""A list of functions and reductions that run in one pass."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold._own_commands.functions import found, made, parameters_of
from framefold._own_commands.names import SHORT, is_function, reductions, split
from framefold._own_commands.options import Parser, number, numbers, radius
from framefold.exceptions import BadFileError, FileAccessError, InvalidArgumentError
from framefold.udf.base import UDF
from framefold.udf.reduction import ReductionUDF


class Item(NamedTuple):
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
    main_buffer
        The one that files of a single result hold; that of functions of one's own is the first.
    files
        Those that parameters are read from.
    """

    text: str
    name: str
    function: Any
    parameters: dict[str, Any]
    buffer: str | None
    main_buffer: str | None = None
    files: tuple[str, ...] = ()

    def made(self) -> UDF:
        """The UDF."""
        if isinstance(self.function, str):
            return ReductionUDF(self.function, **self.parameters)
        return made(self.function, self.parameters)


def items_of(given: Namespace) -> list[Item]:
    """What is to run, in one pass."""
    texts = split(given.function)
    if len(texts) > 1 and (given.param or given.buffer):
        option = "-p" if given.param else "--buffer"
        raise InvalidArgumentError(
            f"{option} is for one function, and here are {len(texts)}; write it into the list: "
            f"'{texts[0]} {option} …'"
        )
    items: list[Item] = []
    for text in texts:
        item = _item(text, given)
        items.append(item)
    names = [item.name for item in items]
    for i, name in enumerate(names):
        if name in names[:i]:
            items[i] = items[i]._replace(name=f"{name}-{names[:i].count(name) + 1}")
    return items


class _ItemParser(Parser):
    """For the words of one item of a list."""

    def __init__(self, text: str) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self.text = text
        self.add_argument("-b", "--buffer")

    def error(self, message: str) -> NoReturn:
        raise InvalidArgumentError(f"in '{self.text}': {message}")


def _item(text: str, given: Namespace) -> Item:
    words = [text] if Path(text.rpartition(":")[0]).is_file() else text.split()
    if not words:
        raise InvalidArgumentError(
            f"an item of the list '{given.function}' is empty; write one comma between the items"
        )
    parser = _ItemParser(text)
    if is_function(words[0]):
        parser.add_argument("-p", "--param", action="append", default=[])
        own = parser.parse_args(words[1:])
        name = words[0].rpartition(":")[2]
        parameters = parameters_of([*own.param, *given.param])
        return Item(text, name, found(words[0]), parameters, own.buffer or given.buffer)
    rows = reductions()
    name = "masks" if words[0] in SHORT else words[0]
    if name not in rows:
        similar = _engine.nearest_names(name, [*rows, *SHORT])
        raise InvalidArgumentError(
            f"there is no reduction '{name}', as in '{given.function}'"
            + (f"; similar: {', '.join(map(repr, similar))}" if similar else "")
        )
    row = rows[name]
    if words[0] in SHORT:
        words = [words[0], f"--{words[0]}", *words[1:]]
    kinds = {}
    for parameter in row["parameters"]:
        if parameter["option"] is not None:
            flag, kind = f"--{parameter['option']}", parameter["kind"]
            kinds[parameter["name"]] = kind
            how = _KINDS.get(kind, {})
            parser.add_argument(flag, dest=f"of_{parameter['name']}", default=None, **how)
            if kind == "number" or words[0] in SHORT:
                parser.any_value_follows(flag)
    own = parser.parse_args(words[1:])
    parameters = {
        key.removeprefix("of_"): value
        for key, value in vars(own).items()
        if key.startswith("of_") and value is not None
    }
    files: list[str] = []
    for key, kind in kinds.items():
        if key in parameters and kind in ("array", "arrays"):
            paths = parameters[key] if kind == "arrays" else [parameters[key]]
            files += paths
            arrays = [_array(path) for path in paths]
            parameters[key] = arrays if kind == "arrays" else arrays[0]
    shown = words[0] if words[0] in SHORT else row["name"]
    buffer, main = own.buffer or given.buffer, row["main_buffer"]
    return Item(text, shown, row["name"], parameters, buffer, main, tuple(files))


def _detector(text: str) -> float | tuple[float, ...]:
    radii = numbers(text)
    return radii[0] if len(radii) == 1 else radii


def _array(path: str) -> npt.NDArray[Any]:
    try:
        with open(path, "rb") as file:
            array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    except OSError as error:
        raise FileAccessError(f"the array '{path}' cannot be read: {error}") from None
    except (ValueError, EOFError) as error:
        raise BadFileError(f"the array '{path}' cannot be read: {error}") from None
    return array


#: How parameters of a kind are parsed; others stay texts.
_KINDS: dict[str, dict[str, Any]] = {
    "number": {"type": number},
    "radius": {"type": radius},
    "switch": {"action": "store_const", "const": True},
    "disks": {"type": _detector, "action": "append"},
    "rings": {"type": _detector, "action": "append"},
    "arrays": {"action": "append"},
}
