"""Scripts of tests that work with Dask's arrays, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

#: What ``dask.array`` imports wherever it is installed, to know other kinds of arrays. Numba and
#: pandas come along, which takes a second of the processor's time in each process.
NOT_NEEDED = ("scipy", "sparse", "xarray")
#: Processes that wait look for stalled loops and for what they spend their time on, some hundred
#: times a second: most of what they do in tests.
QUIET = {
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
}


def without_them(folder):
    """What is first in a path, so that processes do without those packages."""
    for name in NOT_NEEDED:
        (folder / f"{name}.py").write_text("raise ImportError('not needed here')\n")
    return str(folder)


@contextmanager
def workers_without_them(folder):
    """Workers that start meanwhile do without those packages; a folder says that there are none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(without_them(folder))
        yield


def run_script(folder, code, *arguments, paths=()):
    """What came of a script, in a folder of its own; its workers do without those packages, too."""
    path = folder / "script.py"
    path.write_text(code)
    given = os.environ.get("PYTHONPATH")
    paths = [without_them(folder), *map(str, paths), *([given] if given else [])]
    return subprocess.run(
        [sys.executable, str(path), *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
