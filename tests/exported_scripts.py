"""Runs scripts that the viewer exports.

Each runs in a process of its own, which another one forks that has imported what all of them
import: that takes longer than they do.
"""

from __future__ import annotations

import atexit
import os
import re
import runpy
import select
import subprocess
import sys
from pathlib import Path

LIMIT = 600
#: It forks the processes; each line of its input names a folder with a script.
_server: subprocess.Popen[str] | None = None


def run(script: str, folder: Path, python: str = sys.executable, alone: bool = False) -> None:
    """Runs a script in a folder of its own: `alone`, and by other interpreters, as users do."""
    (folder / "exported.py").write_text(script, encoding="utf-8")
    if alone or python != sys.executable or not hasattr(os, "fork"):
        with (folder / "said.txt").open("w") as said:
            code = subprocess.run(
                [python, "exported.py"],
                cwd=folder,
                env=environment(),
                stdout=said,
                stderr=said,
                timeout=LIMIT,
            ).returncode
    else:
        code = forked(folder)
    said = (folder / "said.txt").read_text()
    assert code == 0, f"{said}\n{script}"
    assert not re.search(r"warn", said, re.IGNORECASE), said


def environment() -> dict[str, str]:
    return {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": ""}


def forked(folder: Path) -> int:
    """How the script of a folder ended in a process that had imported what it imports."""
    global _server
    if _server is None:
        _server = subprocess.Popen(
            [sys.executable, __file__],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(_server.communicate)
    assert _server.stdin is not None
    assert _server.stdout is not None
    print(folder, file=_server.stdin, flush=True)
    answers, _, _ = select.select([_server.stdout], [], [], LIMIT)
    assert answers, "the script does not end"
    return int(_server.stdout.readline())


def serve() -> None:
    """Returns in each process that is forked, in its folder; ends with its input elsewhere."""
    import matplotlib.pyplot  # noqa: F401

    import framefold.api  # noqa: F401

    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os.chdir(line.rstrip("\n"))
            for stream, path, flags in [
                (0, os.devnull, os.O_RDONLY),
                (1, "said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC),
            ]:
                os.dup2(os.open(path, flags), stream)
            os.dup2(1, 2)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    sys.exit()


if __name__ == "__main__":
    serve()
    sys.argv, sys.path[0] = ["exported.py"], os.getcwd()
    runpy.run_path("exported.py", run_name="__main__")
