"""Commands with functions of one's own: ``framefold run my_module:MyUDF scan.mib``, and ``check``.

The engine's command line knows no Python; what names a function in a module comes here instead,
and so do lists of reductions with such a function among them.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence

from framefold._own_commands.ending import OutputClosedError, code_of, ends_well, report
from framefold._own_commands.names import function_among
from framefold._own_commands.options import Parser
from framefold.exceptions import FileAccessError

__all__ = ["run", "wants"]


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
    try:
        with ends_well():
            work, parser = _command(arguments[0])
            return _done(work, parser.parse_args(arguments[1:]))
    except OutputClosedError:
        return 0
    except KeyboardInterrupt as interrupt:
        return code_of(interrupt)
    except FileAccessError as error:
        return report(error)


def _done(work: Callable[[Namespace], int], given: Namespace) -> int:
    try:
        return work(given)
    except (KeyboardInterrupt, OutputClosedError):
        raise
    except BaseException as error:  # also of user code, such as sys.exit(3)
        return report(error)


def _command(name: str) -> tuple[Callable[[Namespace], int], Parser]:
    """What a command does, and the parser of its arguments."""
    if name == "check":
        from framefold._own_commands.check import check, check_parser

        return check, check_parser()
    from framefold._own_commands.running import run_all, run_parser

    return run_all, run_parser()
