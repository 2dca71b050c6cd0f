"""Python scripts, each in a process of its own, forked from one that has imported what they need.

To import Matplotlib, Dask and the like takes longer than most of what these scripts do. A script
runs as ``python SCRIPT`` runs it: under the name ``__main__``, its folder first in ``sys.path``.
The package itself is imported in each process anew, unless a script names it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

FORKS = f"""
import gc, json, os, runpy, signal, sys
from importlib import import_module
sys.path.append({str(Path(__file__).parent)!r})
import uncompiled  # as in tests/conftest.py
sys.path.pop()
for line in sys.stdin:
    folder, arguments, streams, modules, one_core = json.loads(line)
    for name in modules:
        import_module(name)
    assert "framefold" not in sys.modules or "framefold" in modules
    gc.freeze()  # to look through all this at the end of each fork would copy it
    pid = os.fork()
    if pid == 0:
        signal.alarm(300)
        for number, path in enumerate(streams):
            os.dup2(os.open(path, os.O_RDWR), number)
        if one_core and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
        os.chdir(folder)
        sys.argv = arguments
        sys.path[0] = os.path.dirname(arguments[0])
        runpy.run_path(arguments[0], run_name="__main__")
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@contextmanager
def forked_scripts(**environment: str) -> Iterator[Callable[..., str]]:
    """Runs scripts; what they need is imported before the first one that names it, and kept."""
    with (
        TemporaryDirectory() as there,
        subprocess.Popen(
            [sys.executable, "-c", FORKS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        ) as forks,
    ):
        streams = [Path(there) / name for name in ("in", "out", "err")]

        def run(
            script: Path,
            *arguments: str,
            folder: Path,
            modules: Iterable[str] = (),
            one_core: bool = False,
            warns: bool = True,
        ) -> str:
            """Run a script in a folder; gives what it prints if it ends with code 0.

            Where it never `warns`, a warning is an error, too.
            """
            for stream in streams:
                stream.write_text("")
            files = [str(stream) for stream in streams]
            order = [str(folder), [str(script), *arguments], files, [*modules], one_core]
            assert forks.stdin is not None
            assert forks.stdout is not None
            forks.stdin.write(json.dumps(order) + "\n")
            forks.stdin.flush()
            ended = forks.stdout.readline()
            _, out, err = (stream.read_text(encoding="utf-8") for stream in streams)
            assert ended == "0\n", ended + out + err
            assert warns or not re.search("warn", err, re.IGNORECASE), err
            return out

        yield run
