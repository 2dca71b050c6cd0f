"""What goes wrong on worker processes ends in the right result or in one clear error."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import pickle
import resource
import signal
import sys
import time
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from process_cases import (
    PerFrame,
    assert_usable,
    eventually,
    files_and_threads,
    forking,
    frames,
    gone,
    hard_limit,  # noqa: F401 - a fixture
    new_since,
    nothing_new,
    the_fork,
)
from sample_udfs import Level

import framefold as ff
from framefold.exceptions import (
    LimitError,
    UDFRunCancelled,
    WorkerError,
)
from framefold.executor._processes.channels import MainEnd
from framefold.executor._wire import pickles

if sys.platform != "linux":
    pytest.skip("looks at /proc, and uses signals", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("hard_limit", "nothing_is_left")


@pytest.fixture
def nothing_is_left():
    before = files_and_threads()
    yield
    gc.collect()
    assert nothing_new(before), new_since(before)


@pytest.fixture
def ctx():
    with ff.Context.make_with("processes", cpus=2) as context:
        yield context
        workers = context.executor.worker_ids
    assert gone(workers)


def test_workers_that_are_gone_when_they_are_given_something(ctx, monkeypatch):
    assert_usable(ctx)
    workers = ctx.executor._pool._workers
    assert eventually(lambda: not any(worker.jobs for worker in workers))
    send, lost = MainEnd.send, [worker.channel for worker in workers]

    def fail(channel, *arguments, **options):
        if channel in lost:
            raise BrokenPipeError
        send(channel, *arguments, **options)

    monkeypatch.setattr(MainEnd, "send", fail)
    assert_usable(ctx)


@pytest.mark.parametrize("reopened", [False, True])
def test_a_function_that_closes_what_is_not_its_own(ctx, tmp_path, reopened):
    path = tmp_path / "own"

    def close_all(_frame):
        os.closerange(3, 1000)
        if reopened:  # in the place of the connection
            for _ in range(20):
                os.open(path, os.O_WRONLY | os.O_CREAT)

    with pytest.raises(WorkerError, match="lost the connection that its results go through"):
        ctx.run_udf(frames(ctx), PerFrame(close_all))
    assert not reopened or path.read_bytes() == b""
    assert_usable(ctx)


def test_forks_end_with_a_worker_that_is_killed(tmp_path):
    with ff.Context.make_with("processes", cpus=1) as ctx:
        ctx.run_udf(frames(ctx), PerFrame(forking(tmp_path)))
        fork = the_fork(tmp_path)
        os.kill(ctx.executor.worker_ids[0], signal.SIGKILL)
        assert_usable(ctx)
        assert gone([fork])


def test_too_much_memory_to_share():
    with pytest.raises(LimitError, match="memory to share with other processes cannot be had"):
        pickles.allocate(1 << 62)


def test_too_few_descriptors_for_memory_to_share(monkeypatch):
    def refused(*_args, **_options):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", refused)
    with pytest.raises(LimitError, match=r"\(Too many open files\); raise .*`ulimit -n`"):
        pickles.allocate(1)
    monkeypatch.undo()
    descriptor = pickles.allocate(1)
    monkeypatch.setattr(mmap, "mmap", refused)
    with pytest.raises(LimitError, match="ulimit -n"):
        pickles.mapped(descriptor, 1, private=False, keep=True)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(descriptor)


def test_a_limit_on_files_holds_for_shared_memory(ctx):
    """One that users of clusters may have been given."""

    def limit(_frame):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, resource.RLIM_INFINITY))

    class Large(PerFrame):
        def get_result_buffers(self):
            return {"pid": self.buffer(kind="nav", extra_shape=(1 << 14,), dtype="int64")}

    with pytest.raises(LimitError, match=r"cannot be had \(File too large\); use"):
        ctx.run_udf(frames(ctx), Large(limit))
    for pid in ctx.executor.worker_ids:
        os.kill(pid, signal.SIGKILL)
    assert_usable(ctx)


@pytest.mark.parametrize("command", ["/bin/false", "/nonexistent/python"])
def test_workers_that_do_not_start(ctx, command, monkeypatch):
    monkeypatch.setattr(sys, "executable", command)
    with pytest.raises(WorkerError, match=r"end before they are ready|could not be started"):
        ctx.run_udf(frames(ctx), Level())
    monkeypatch.undo()
    assert_usable(ctx)


def await_entries(folder, n_entries, _frame):
    while len(os.listdir(folder)) < n_entries:
        time.sleep(0.01)


def test_what_did_not_start_for_one_run_does_not_fail_the_next(tmp_path, monkeypatch):
    n_workers, started, ended = 7, tmp_path / "started", tmp_path / "ended"
    started.mkdir()
    ended.mkdir()
    command = tmp_path / "python"
    # The first three end at once, the others during the next run.
    command.write_text(
        f"#!/bin/sh\ncd {tmp_path}\nmkdir started/$$\n"
        f"mkdir 1 2>/dev/null || mkdir 2 2>/dev/null || mkdir 3 2>/dev/null || "
        f"while ! test -e next; do sleep 0.02; done\n"
        f"mkdir ended/$$\nexit 1\n"
    )
    command.chmod(0o755)
    with ff.Context.make_with("processes", cpus=n_workers) as ctx:
        monkeypatch.setattr(sys, "executable", str(command))
        with pytest.raises(WorkerError, match="end before they are ready"):
            ctx.run_udf(frames(ctx), Level())
        monkeypatch.undo()
        assert eventually(lambda: len(os.listdir(started)) >= n_workers)
        (tmp_path / "next").touch()
        ctx.run_udf(frames(ctx), PerFrame(partial(await_entries, ended, n_workers)))
        assert len(os.listdir(started)) < n_workers + 3, "some for a run that had failed"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
class SumOfOffset(ff.UDF):
    """The sum of a parameter, which takes its time."""

    def get_result_buffers(self):
        return {"sum": self.buffer("nav", dtype="float64")}

    def process_frame(self, _frame):
        time.sleep(0.05)
        self.results.sum[:] = np.sum(self.params.offset)


def test_memory_of_a_run_that_ended_with_its_context(ctx):
    """The context is still there, and keeps nothing of it."""
    before = files_and_threads()
    with suppress(UDFRunCancelled), ctx.run_udf_iter(frames(ctx), SumOfOffset(offset=1)) as steps:
        next(steps)
        steps.update_parameters_experimental([{"offset": np.ones(1_000_000)}])
        next(steps)
        ctx.close()
        for _ in steps:
            pass
    del steps
    gc.collect()
    assert nothing_new(before), new_since(before)


def test_a_run_in_a_fork(ctx):
    assert_usable(ctx)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            assert ctx.executor.worker_ids == []
            assert_usable(ctx)
            os.write(writing, pickle.dumps(ctx.executor.worker_ids))
            ctx.close()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        theirs = pickle.load(file)
    os.waitpid(child, 0)
    assert len(theirs) == 2
    assert not set(theirs) & set(ctx.executor.worker_ids)
    assert gone(theirs)
    assert_usable(ctx)
