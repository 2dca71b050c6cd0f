"""A JupyterLab of a test's own: its settings, its kernels and its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jupyterlab
import psutil

#: Longer than a start may take.
LIMIT = 120.0
TOKEN = "of-this-test"


@contextmanager
def jupyterlab_server(folder: Path) -> Iterator[str]:
    """The address of a JupyterLab that shows the notebooks of a folder; it leaves no process."""
    own = folder / ".jupyter"
    # Where it was installed: not where it runs, if the tests have an environment of their own.
    shared = Path(jupyterlab.__file__).parents[4] / "share" / "jupyter"
    environment = {
        **os.environ,
        "JUPYTER_PATH": str(shared),
        "JUPYTERLAB_DIR": str(shared / "lab"),
        "JUPYTERLAB_SETTINGS_DIR": str(own / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(own / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(own / "config"),
        "JUPYTER_DATA_DIR": str(own / "data"),
        "JUPYTER_RUNTIME_DIR": str(own / "runtime"),
        "IPYTHONDIR": str(own / "ipython"),
    }
    # No question about news lies over the page.
    settings = own / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        "--ServerApp.port=0",
        f"--ServerApp.root_dir={folder}",
        f"--IdentityProvider.token={TOKEN}",
        # It does not look for news, newer versions or extensions.
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
    ]
    log = folder / "jupyterlab.log"
    with (
        log.open("w") as said,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        ) as process,
    ):
        try:
            yield address_of(process, own / "runtime", log)
        finally:
            end(process)


def address_of(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    """Where the server answers, once it does."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()
        for path in runtime.glob("jpserver-*.json"):
            try:
                url = json.loads(path.read_text())["url"]
                with urllib.request.urlopen(f"{url}api/status?token={TOKEN}", timeout=10):
                    return str(url)
            except (ValueError, OSError):  # it is being written, or does not listen yet
                pass
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends the server, and its kernels, whether or not it does so itself."""
    try:
        left = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        left = []
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
    _, alive = psutil.wait_procs(left, 10)
    for each in alive:
        each.kill()
