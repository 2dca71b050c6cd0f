"""Programs as users of LiberTEM write them, unchanged: they run, and their numbers are right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "user_scripts").glob("*.py"))
INSTALLED = """
import runpy, sys
import framefold
framefold.install_as_libertem()
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script, tmp_path):
    if "matplotlib" in script.read_text(encoding="utf-8"):
        pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    done = subprocess.run(
        [sys.executable, "-c", INSTALLED, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
