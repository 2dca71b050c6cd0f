"""The ``framefold`` command."""

from __future__ import annotations

import os
import signal
import sys

from framefold import _engine
from framefold.io._packages import formats_of_packages


def main() -> None:
    """Run the command line; exits with its code."""
    _open_missing_streams()
    arguments = sys.argv[1:]
    if arguments == ["help", "check"]:
        arguments = ["check", "--help"]
    # The command stops on Ctrl-C by itself, and tells by its exit code that it did.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    # A name as in my_module:MyUDF.
    if arguments[:1] == ["check"] or ":" in "".join(arguments[1:]):
        from framefold import _own_commands

        if _own_commands.wants(arguments):
            signal.signal(signal.SIGINT, before)
            sys.exit(_own_commands.run(arguments))
    # Most commands need no NumPy, which takes longer to import than what they do.
    if formats_of_packages():
        from framefold.io.dataset._opening import known_formats

        known_formats()
    # Tips name the command, not the file that `python -m framefold` runs.
    sys.exit(_engine.cli_main(["framefold", *arguments]))


def _open_missing_streams() -> None:
    """Open what the caller has closed, so that no file gets the number of a stream."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - until the process ends
