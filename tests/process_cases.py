"""What tests of worker processes share."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections import Counter

import numpy as np
import pytest
from sample_udfs import Level

from framefold.udf import UDF

#: No test of worker processes takes longer than this, in seconds.
LIMIT = 90


@pytest.fixture
def hard_limit():
    """Ends a test that hangs: an alarm, where there is one."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def too_long(_number, _frame):
        raise AssertionError(f"the test took longer than {LIMIT} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def is_running(pid):
    """Whether there is such a process, other than as a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids, patience=10.0):
    """Whether these processes have ended, or do so soon."""
    pids = list(pids)  # which are looked at again and again
    return eventually(lambda: not any(is_running(pid) for pid in pids), patience)


def eventually(condition, patience=10.0):
    """Whether something becomes true."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def open_files():
    """What file descriptors of this process refer to, other than those of other tests."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            # Sockets count: a worker that was replaced has others.
            found.append(os.readlink(f"/proc/self/fd/{name}").partition("[")[0])
        except OSError:
            continue
    return sorted(entry for entry in found if "framefold" in entry or entry.startswith("socket:"))


def nothing_new(before):
    """Whether no file and no thread is open that was not among ``before``, or is soon closed."""
    return eventually(lambda: not new_since(before))


def new_since(before):
    """What is open that was not among ``before``."""
    files, threads = before
    new_files = Counter(open_files()) - Counter(files)
    return [*new_files.elements(), *set(pool_threads()).difference(threads)]


def files_and_threads():
    """What :func:`nothing_new` compares with."""
    return open_files(), pool_threads()


def pool_threads():
    return [thread for thread in threading.enumerate() if thread.name == "ff-pool"]


class PerFrame(UDF):
    """Calls a function with the number of the frame; one entry per frame."""

    def __init__(self, action):
        super().__init__(action=action)

    def get_result_buffers(self):
        return {"pid": self.buffer(kind="nav", dtype="int64")}

    def process_frame(self, frame):
        self.params.action(self.meta.slice.origin[0])
        self.results.pid[:] = os.getpid()


class Numbers(UDF):
    """The number of each frame."""

    def get_result_buffers(self):
        return {"number": self.buffer(kind="nav", dtype="int64")}

    def process_frame(self, frame):
        self.results.number[:] = self.meta.slice.origin[0]


def sleep_in_python(_frame):
    while True:
        time.sleep(0.01)


def sleep_with_the_lock(_frame):
    if sys.platform == "win32":
        ctypes.PyDLL("kernel32").Sleep(1_000_000)
    ctypes.PyDLL(None).sleep(1000)


def sleepy(_frame):
    time.sleep(0.05)


def frames(context, n_frames=40, n_partitions=20):
    data = np.zeros((n_frames, 4, 4), dtype=np.float32)
    return context.load("memory", data=data, num_partitions=n_partitions)


def forking(folder):
    """A function that leaves a forked process behind at frame 3; a file there is named by it."""

    def fork(frame):
        if frame == 3:
            other = os.fork()
            if other == 0:
                time.sleep(1000)
            (folder / str(other)).touch()

    return fork


def the_fork(folder):
    """The process that :func:`forking` has left behind."""
    (path,) = folder.iterdir()
    assert is_running(int(path.name))
    return int(path.name)


def assert_usable(context):
    """Runs something else, with the right result; there are partitions for each of two workers."""
    level = context.run_udf(frames(context, n_partitions=4), Level(offset=5))["level"].data
    assert level.tolist() == [5] * 40
