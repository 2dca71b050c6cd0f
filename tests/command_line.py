"""The ``framefold`` command for tests that use it for each of many files.

Each command is a process of its own, forked from one that has imported the package, which takes
longer than most of what the commands do. It ends without freeing the memory that the two share,
which would copy it, and take twice as long as the rest. Not in the process of the tests: commands
keep SIGINT, SIGTERM and SIGHUP to themselves, and end their process on the next one without a word.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

FORKS = """
import atexit, gc, threading
import importlib.metadata, json, os, sys  # metadata is what each command imports first
from framefold import api, cli  # what functions of one's own need, and other commands do not
gc.freeze()
for line in sys.stdin:
    arguments, *streams = json.loads(line)
    pid = os.fork()
    if pid == 0:
        for number, path in enumerate(streams):
            os.dup2(os.open(path, os.O_RDWR), number)
        sys.argv = ["framefold", *arguments]
        try:
            cli.main()
        except SystemExit as ended:
            threading._shutdown()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended.code or 0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@contextmanager
def commands(folder, **environment):
    """Runs the command with these arguments, in the folder and environment of the beginning.

    Gives what it prints; what it says of an error if it is to end with another code than 0.
    """
    streams = [folder / name for name in ("in", "out", "err")]
    with subprocess.Popen(
        [sys.executable, "-c", FORKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as forks:

        def run(*arguments, code=0):
            for stream in streams:
                stream.write_text("")
            forks.stdin.write(json.dumps([[*map(str, arguments)], *map(str, streams)]) + "\n")
            forks.stdin.flush()
            ended = forks.stdout.readline()
            assert ended == f"{code}\n", (ended, streams[2].read_text())
            return streams[2 if code else 1].read_text()

        yield run


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The command for all tests of a module."""
    with commands(tmp_path_factory.mktemp("command")) as run:
        yield run
