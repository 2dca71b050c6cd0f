"""Options that commands share: parameters of functions, and what is known of a file."""

from __future__ import annotations

import sys
import warnings
from argparse import (
    Action,
    ArgumentParser,
    ArgumentTypeError,
    BooleanOptionalAction,
    Namespace,
)
from collections.abc import Sequence
from math import inf, isfinite
from typing import Any, NoReturn

from framefold._engine import known_stages
from framefold.api import Context
from framefold.exceptions import InvalidArgumentError
from framefold.io.dataset._opening import known_formats
from framefold.io.dataset._table import Option
from framefold.io.dataset.base import DataSet
from framefold.warnings import DataSetWarning


class Parser(ArgumentParser):
    """Takes values and says what is wrong as the engine's command line does."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self._before_any: set[str] = set()

    def any_value_follows(self, *flags: str) -> None:
        """Take what follows one of these for its value, though it may begin with ``-``."""
        self._before_any.update(flags)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str], namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """As in the base class, of which ``parse_args`` gets here, too."""
        words: list[str] = []
        for word in args:
            if words and words[-1] in self._before_any and word.startswith("-"):
                words[-1] += f"={word}" if words[-1].startswith("--") else word
            else:
                words.append(word)
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        print(f"framefold: {message}; see '{self.prog} MODULE:NAME --help'", file=sys.stderr)
        raise SystemExit(2)


def add_parameters(parser: Parser) -> None:
    """Parameters of a class of functions."""
    parser.add_argument(
        "-p",
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the UDF class, as Python writes it (or true or false), or a text; "
        "may be repeated",
    )


def add_file_options(parser: Parser) -> None:
    """What can be said of a file and its axes: the options of all formats."""
    file = parser.add_argument_group("options about the file")
    file.add_argument("--format", default="auto", metavar="NAME", help="see 'framefold formats'")
    seen: set[str] = set()
    for option in (each for row in known_formats("?").values() for each in row.options):
        if option.name not in seen and option.kind != "paths":
            seen.add(option.name)
            _add_option(file, option)
            if option.kind in ("integer", "number", "written"):
                parser.any_value_follows(f"--{option.flag}")
    axes = parser.add_argument_group("options about axes")
    for flag, metavar, kind, words in (
        ("scan-step", "STEP", str, "the step of the scan with its unit: 0.5nm"),
        ("pixel-size", "SIZE", str, "the size of a pixel with its unit: 1.2mrad"),
        ("rotation", "DEGREES", number, "the rotation of the scan in degrees"),
        ("centre", "CY,CX", numbers, "the pixel at which the axes of a frame have the value 0"),
        ("names", "NAMES", _names, "the names of all axes, those of the scan first"),
    ):
        dest = f"option_{flag.replace('-', '_')}"
        axes.add_argument(f"--{flag}", dest=dest, type=kind, metavar=metavar, help=words)
        parser.any_value_follows(f"--{flag}")
    axes.add_argument("--flip", dest="option_flip", metavar="AXES", help="turns frames: y, x or yx")
    axes.add_argument(
        "--transpose",
        dest="option_transpose",
        action="store_const",
        const=True,
        help="swaps the axes of frames, before --flip",
    )

    stages = parser.add_argument_group("options about frames")
    for flag, metavar, words in (
        ("dark", "FILE.npy", "subtract this from each frame, before all stages"),
        ("gain", "FILE.npy", "multiply each frame with this, after --dark"),
        ("bad-pixels", "PIXELS", "repair these: Y,X;Y,X, slices as in --roi, or a file"),
    ):
        stages.add_argument(f"--{flag}", metavar=metavar, help=words)
    for name, *_, value, _, _ in known_stages():
        if name in ("bin", "crop"):
            words = f"the same as --stage '{name} …'"
            stages.add_argument(f"--{name}", action=_Stage, metavar=value, help=words)
    words = "makes other frames of the frames, before all else, in the order of the stages"
    stages.add_argument("--stage", action=_Stage, metavar="STAGE", help=words)
    parser.set_defaults(stages=())
    parser.any_value_follows("--bad-pixels", "--bin", "--crop", "--stage")


class _Stage(Action):
    """Adds a stage to those that were given before, as text."""

    def __call__(
        self, parser: Any, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        name = (option_string or "").removeprefix("--").removesuffix("stage")
        namespace.stages = (*namespace.stages, f"{name} {values}".strip())


def file_options(given: Namespace) -> dict[str, Any]:
    """Those that were given, as :meth:`framefold.Context.load` takes them."""
    return {
        name.removeprefix("option_"): value
        for name, value in vars(given).items()
        if name.startswith("option_") and value is not None
    }


def opened(ctx: Context, given: Namespace, file: str) -> DataSet:
    """The data set that the options say, with its corrections and stages."""
    corrections = {name: getattr(given, name) for name in ("dark", "gain", "bad_pixels")}
    any_given = any(value is not None for value in corrections.values())
    if any_given and given.option_enable_corrections:
        raise InvalidArgumentError(
            "--corrections asks for those that come with the file, and other ones are given; "
            "leave either out"
        )
    dataset = ctx.load(given.format, file, **file_options(given))
    if any_given:
        n_known = len(dataset.warnings)
        dataset = dataset._changed(("corrected_by_files", corrections))
        for sentence in dataset.warnings[n_known:]:
            warnings.warn(sentence, DataSetWarning, stacklevel=2)
    return dataset.pipe(*given.stages)


def _add_option(group: Any, option: Option) -> None:
    flag = f"--{option.flag}"
    how: dict[str, Any] = {"dest": f"option_{option.name}", "default": None}
    how["help"] = option.help.replace("%", "%%")
    action: type[Action] = BooleanOptionalAction
    if option.kind in ("flag", "switch"):
        group.add_argument(flag, action=action, **how)
    else:
        how["type"] = {
            "shape": _shape,
            "count": whole,
            "bytes": whole,
            "integer": whole,
            "number": number,
        }.get(option.kind, str)
        group.add_argument(flag, metavar=option.kind.upper(), **how)


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"'{text}' is not a whole number") from None


def number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = inf
    if not isfinite(value):
        raise ArgumentTypeError(f"'{text}' is not a finite number")
    return value


def radius(text: str) -> float:
    return inf if text.strip().lower().removeprefix("+") in ("inf", "infinity") else number(text)


def numbers(text: str) -> tuple[float, ...]:
    return tuple(number(part) for part in text.split(","))


def _shape(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(length) for length in text.rstrip(",").replace("x", ",").split(","))
    except ValueError:
        raise ArgumentTypeError(f"'{text}' is not a shape; write one like 128,128") from None


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
