"""A viewer and a browser for tests: skips, in words, where there is no Chromium or Node.js."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
#: Where pictures of the page are left for people, if they want to see them.
PICTURES = os.environ.get("FRAMEFOLD_VIEW_PICTURES")
LIMIT = 240
#: What runs the scripts, all in one browser: to start one takes longer than most of them.
_runner: subprocess.Popen[str] | None = None


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


def runner() -> subprocess.Popen[str]:
    """The process that runs the scripts: it begins with the first one, or anew if it has ended."""
    global _runner
    if _runner is None or _runner.poll() is not None:
        _runner = subprocess.Popen(
            ["node", "browser.mjs"],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    return _runner


def close_browser() -> None:
    """Ends the browser, and what runs scripts in it."""
    global _runner
    process, _runner = _runner, None
    if process is not None:
        with process:
            assert process.stdin is not None
            # It ends with its input, also if the tests are killed.
            with suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(LIMIT)
            finally:
                process.kill()


def drive(script: str, **wanted: Any) -> Any:
    """What a script of the folder `browser` finds; `wanted` are its arguments."""
    wanted = {"chromium": chromium(), "dist": DIST, **wanted}
    process = runner()
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps({"script": script, "wanted": wanted}), file=process.stdin, flush=True)
    answers, _, _ = select.select([process.stdout], [], [], LIMIT)
    line = process.stdout.readline() if answers else ""
    if not line:
        process.kill()
        close_browser()
    assert answers, f"{script} does not end"
    assert line, f"{script} ended what runs it"
    answer = json.loads(line)
    assert "failed" not in answer, answer["failed"][-4000:]
    found = answer["found"]
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
