"""Commands with functions of one's own: ``framefold run my_module:MyUDF scan.mib``, and ``check``.

The engine's command line knows no Python; what names a function in a module comes here instead,
and so do lists of reductions with such a function among them.
"""

from __future__ import annotations

import sys
import traceback
from argparse import Namespace
from collections.abc import Callable, Sequence

from framefold._own_commands.names import function_among
from framefold._own_commands.options import Parser
from framefold.common._tracebacks import without_own_lines
from framefold.exceptions import (
    BadFileError,
    EngineError,
    FileAccessError,
    FramefoldError,
    InvalidArgumentError,
    LimitError,
    UnsupportedError,
)

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
    """Whether a command, without the name of the program, is about functions of one's own."""
    if arguments[:1] == ["check"]:
        return True
    return arguments[:1] == ["run"] and function_among(arguments[1:]) is not None


def run(arguments: Sequence[str]) -> int:
    """Do what a command says; gives the exit code.

    Parameters
    ----------
    arguments
        Those of the command, without the name of the program.
    """
    work, parser = _command(arguments[0])
    given = parser.parse_args(arguments[1:])
    try:
        return work(given)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except FramefoldError as error:
        print(f"framefold: {' '.join(str(error).split())}", file=sys.stderr)
        return next((code for kind, code in _CODES if isinstance(error, kind)), _USER_CODE)
    except BaseException as error:  # of user code, such as sys.exit(3)
        traceback.print_exception(without_own_lines(error))
        return _USER_CODE


def _command(name: str) -> tuple[Callable[[Namespace], int], Parser]:
    """What a command does, and the parser of its arguments."""
    if name == "check":
        from framefold._own_commands.check import check, check_parser

        return check, check_parser()
    from framefold._own_commands.running import run_all, run_parser

    return run_all, run_parser()
