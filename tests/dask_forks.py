"""``dask scheduler`` and ``dask worker``, forked from one process that has imported Dask.

To import it takes most of what these commands do in a test. Forks can be on another host, which is
a network namespace, have folders of their own in the place of some, and find modules missing. So
that nannies need not import it for each worker either, they fork workers from another process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from dask_scripts import QUIET
from process_cases import eventually, is_running

NANNIES = "DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"
FORKS = """
import ctypes, gc, json, os, sys
import distributed.cli.dask_scheduler, distributed.cli.dask_worker
from dask.__main__ import main

libc = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS, NEW_NETWORK, RECURSIVE, PRIVATE = 0x20000, 0x40000000, 0x4000, 0x40000


def done(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def begin(command, log, host, hidden, missing):
    streams = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND)
    for number, stream in enumerate((*streams, streams[1])):
        os.dup2(stream, number)
    if host is not None:
        done(libc.setns(os.open(host, os.O_RDONLY), NEW_NETWORK))
        done(libc.unshare(NEW_MOUNTS))
        done(libc.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None))
        for folder in hidden:
            done(libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, None))
    for name in missing:
        sys.modules[name] = None
    if command[0] != "dask":
        os.execv(command[0], command)
    sys.argv = command
    main()
    sys.exit()


gc.freeze()
for line in sys.stdin:
    order = json.loads(line)
    if isinstance(order, int):
        answer = os.waitstatus_to_exitcode(os.waitpid(order, 0)[1])
    else:
        answer = os.fork()
        if answer == 0:
            begin(*order)
    print(answer, flush=True)
"""


class Forks:
    """The process that is forked."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **QUIET, NANNIES: "forkserver"},
        )

    def start(self, command, log, *, host=None, hidden=(), missing=()):
        """A process with this command: ``dask`` and its arguments, or the path of a program."""
        folders = [str(folder) for folder in hidden]
        return Fork(self, self.ask([command, str(log), host, folders, [*missing]]))

    def ask(self, order):
        """The answer to a line: a number."""
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self):
        """All forks have ended."""
        self._process.communicate()


class Fork:
    """A forked process, as :class:`subprocess.Popen` shows it."""

    def __init__(self, forks, pid):
        self.pid, self.returncode, self._forks = pid, None, forks

    def poll(self):
        if self.returncode is None and not is_running(self.pid):
            self.returncode = self._forks.ask(self.pid)
        return self.returncode

    def wait(self, timeout=60.0):
        if not eventually(lambda: self.poll() is not None, timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


@pytest.fixture(scope="module")
def forks():
    """The process that the clusters of a module are forked from."""
    forks = Forks()
    yield forks
    forks.close()
