"""``framefold check MODULE:NAME FILE``: :func:`framefold.check_udf` on the command line."""

from __future__ import annotations

from argparse import Namespace

from framefold._own_commands.ending import say
from framefold._own_commands.functions import found, made, parameters_of
from framefold._own_commands.options import (
    Parser,
    add_file_options,
    add_parameters,
    opened,
    whole,
)
from framefold.api import Context
from framefold.checking import check_udf

#: As for a function that raises.
WRONG = 6


def check_parser() -> Parser:
    """What the command takes."""
    parser = Parser(
        prog="framefold check",
        description="Runs a function in about twenty ways that must give the same, and says in "
        "words what differs. Ends with 6 if a result is wrong.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "function",
        metavar="MODULE:NAME",
        help="a UDF class, a UDF, or a function that takes a frame; FILE.py:NAME is as good",
    )
    parser.add_argument("file", metavar="FILE", help="data that it is made for")
    add_parameters(parser)
    parser.add_argument(
        "-n",
        "--frames",
        type=whole,
        default=64,
        metavar="N",
        help="about how many frames to run it over [default: 64]",
    )
    add_file_options(parser)
    return parser


def check(given: Namespace) -> int:
    """Check what the arguments of the command name, and print what was found."""
    udf = made(found(given.function), parameters_of(given.param))
    with Context.make_with("inline") as ctx:
        report = check_udf(udf, opened(ctx, given, given.file), frames=given.frames)
    say(str(report))
    return 0 if report else WRONG
