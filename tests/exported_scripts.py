"""Runs scripts that the viewer exports."""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from forked_scripts import forked_scripts

#: What all of them import.
MODULES = ["matplotlib.pyplot", "framefold", "framefold.api"]
ENVIRONMENT = {"MPLBACKEND": "Agg", "PYTHONPATH": ""}


def run(script: str, folder: Path, python: str = sys.executable, alone: bool = False) -> None:
    """Runs a script in a folder of its own: `alone`, and by other interpreters, as users do."""
    path = folder / "exported.py"
    path.write_text(script, encoding="utf-8")
    if not alone and python == sys.executable:
        forks()(path, folder=folder, modules=MODULES, warns=False)
        return
    done = subprocess.run(
        [python, path.name],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"{done.stderr}\n{script}"
    assert not re.search("warn", done.stderr, re.IGNORECASE), done.stderr


@cache
def forks() -> Callable[..., str]:
    """What runs scripts in forks of a process that has imported what all of them import."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(forked_scripts(**ENVIRONMENT))
