"""A viewer and a browser for tests: skips, in words, where there is no Chromium or Node.js."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent / "browser"
#: Another command than the installed one, for those who work at the viewer.
COMMAND = shlex.split(os.environ.get("FRAMEFOLD_VIEW_COMMAND", "")) or [
    sys.executable,
    "-m",
    "framefold",
]
#: A folder with a page that is tried instead of the one that the command holds.
DIST = os.environ.get("FRAMEFOLD_VIEW_DIST")
#: Where pictures of the page are left for people; by default they go with the test.
PICTURES = os.environ.get("FRAMEFOLD_VIEW_PICTURES")
LIMIT = 240
#: Where the browser listens that is there for several scripts.
_endpoint: str | None = None


def chromium() -> str:
    """The browser; skips the test where there is none, or nothing to drive it with."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip(
            "the viewer is tried in Chromium, which is not installed: apt-get install chromium"
        )
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("the viewer's page is tried with Node.js and npm, which are not installed")
    install()
    return found


def install() -> None:
    """Installs what drives the browser, once, whichever process of the tests comes first."""
    with (HERE / "package-lock.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = HERE / "node_modules" / ".package-lock.json"
        if stamp.exists() and stamp.stat().st_mtime >= (HERE / "package-lock.json").stat().st_mtime:
            return
        subprocess.run(
            ["npm", "ci", "--silent", "--no-audit", "--no-fund"],
            cwd=HERE,
            check=True,
            timeout=LIMIT,
            stdin=subprocess.DEVNULL,
        )
        stamp.touch()


@contextmanager
def shared_browser() -> Iterator[None]:
    """One browser for all that is driven meanwhile: to start one takes longer than most tests."""
    global _endpoint
    with subprocess.Popen(
        ["node", "browser.mjs", chromium()],
        cwd=HERE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _endpoint = process.stdout.readline().strip()
            assert _endpoint.startswith("ws://"), "the browser did not start"
            yield
        finally:
            _endpoint = None
            # It ends with its input, also if the tests are killed.
            process.stdin.close()
            try:
                process.wait(LIMIT)
            finally:
                process.kill()


def drive(script: str, **wanted: Any) -> Any:
    """What a script of the folder `browser` finds; `wanted` are its arguments."""
    wanted = {"chromium": chromium(), "browser": _endpoint, "dist": DIST, **wanted}
    ended = subprocess.run(
        ["node", script],
        cwd=HERE,
        input=json.dumps(wanted),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout)
    assert found["foreign"] == [], "the page asked other hosts"
    return found


@contextmanager
def viewer(*arguments: Any) -> Iterator[tuple[str, int]]:
    """A viewer of files: its link, and the number of its process."""
    command = [*COMMAND, "view", *map(str, arguments), "--no-browser", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            link = process.stdout.readline().strip()
            assert link.startswith("http://"), process.stderr.read()
            yield link, process.pid
        finally:
            process.kill()
