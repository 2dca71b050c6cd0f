"""What goes wrong on worker processes ends in the right result or in one clear error."""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import pickle
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from process_cases import (
    PerFrame,
    files_and_threads,
    forking,
    frames,
    gone,
    hard_limit,  # noqa: F401 - a fixture
    is_running,
    new_since,
    nothing_new,
    shm,
    the_fork,
)
from sample_udfs import Level

import framefold as ff
from framefold.exceptions import (
    FramefoldError,
    InvalidArgumentError,
    LimitError,
    UDFError,
    UDFRunCancelled,
    UnsupportedError,
    WorkerError,
    WorkerTimeoutError,
)
from framefold.executor._wire import pickles
from framefold.executor.processes import ProcessJobExecutor
from framefold.udf import UDF

if sys.platform != "linux":
    pytest.skip("looks at /proc, and uses signals", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("hard_limit", "nothing_is_left")


@pytest.fixture
def nothing_is_left():
    names, before = shm(), files_and_threads()
    yield
    gc.collect()
    assert shm() <= names
    assert nothing_new(before), new_since(before)


@pytest.fixture
def ctx():
    with ff.Context.make_with("processes", cpus=2) as context:
        yield context
        workers = context.executor.worker_ids
    assert gone(workers)


def assert_usable(context):
    """Runs something else, with the right result."""
    level = context.run_udf(frames(context), Level(offset=5))["level"].data
    assert level.tolist() == [5] * 40


def test_exceptions_come_back_as_themselves(ctx):
    class MineError(ValueError):
        def __init__(self, code):
            super().__init__(code)
            self.code = code

    def raise_mine(frame):
        if frame >= 7:
            raise MineError(frame)

    with pytest.raises(MineError) as caught:
        ctx.run_udf(frames(ctx), PerFrame(raise_mine))
    # The first in the order of partitions, whichever came first in time.
    assert caught.value.code == 7
    notes = "".join(caught.value.__notes__)
    assert "UDF PerFrame, partition 3, frame 7" in notes
    text = str(caught.value.__cause__)
    assert "In a worker process" in text
    assert "in raise_mine" in text
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


class Awkward(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")
        self.lock = threading.Lock()


def test_exceptions_that_cannot_be_pickled(ctx):
    def raise_awkward(_frame):
        raise Awkward(1, 2)

    with pytest.raises(UDFError, match="Awkward: 1 and 2") as caught:
        ctx.run_udf(frames(ctx), PerFrame(raise_awkward))
    assert "partition 0" in "".join(caught.value.__notes__)
    assert "raise_awkward" in str(caught.value.__cause__)


@pytest.mark.parametrize("where", ["preprocess", "postprocess", "get_results", "merge"])
def test_exceptions_elsewhere(ctx, where):
    class Failing(Level):
        def preprocess(self):
            self.fail("preprocess", self.meta.slice is not None)

        def postprocess(self):
            self.fail("postprocess")

        def merge(self, dest, src):
            self.fail("merge")
            super().merge(dest, src)

        def get_results(self):
            self.fail("get_results")
            return {}

        def fail(self, place, really=True):
            if really and place == where:
                raise KeyError(place)

    with pytest.raises(KeyError, match=where):
        ctx.run_udf(frames(ctx), Failing())
    assert_usable(ctx)


def test_a_worker_that_is_killed(ctx, tmp_path):
    def kill_once(frame):
        if frame == 11 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    expected = list(range(40))
    results = ctx.run_udf(frames(ctx), [PerFrame(kill_once), Numbers()])
    assert (tmp_path / "killed").exists()
    assert results[1]["number"].data.tolist() == expected
    assert len(set(results[0]["pid"].data.tolist())) <= 3


class Numbers(UDF):
    def get_result_buffers(self):
        return {"number": self.buffer(kind="nav", dtype="int64")}

    def process_frame(self, frame):
        self.results.number[:] = self.meta.slice.origin[0]


def test_idle_workers_that_are_killed(ctx):
    assert_usable(ctx)
    for pid in ctx.executor.worker_ids:
        os.kill(pid, signal.SIGKILL)
    assert_usable(ctx)


def kill(_frame):
    os.kill(os.getpid(), signal.SIGKILL)


def break_memory(_frame):
    ctypes.string_at(0)


def leave(_frame):
    os._exit(3)


@pytest.mark.parametrize(
    ("action", "match"),
    [
        (kill, r"signal 9 \(SIGKILL\): it was killed, or memory ran out"),
        (break_memory, r"signal 11 \(SIGSEGV\)"),
        (leave, "ended with exit code 3"),
    ],
)
def test_a_function_that_ends_its_worker(ctx, action, match):
    expected = rf"died while processing partition 0 of PerFrame, 3 times; .*{match}"
    with pytest.raises(WorkerError, match=expected):
        ctx.run_udf(frames(ctx, 10, 1), PerFrame(action))
    assert_usable(ctx)


@pytest.mark.parametrize("end", [sys.exit, str, int.__floordiv__], ids=["exit", "return", "raise"])
def test_a_function_that_forks(ctx, end, capfd):
    """The other process leaves what it was doing, and the run, to the worker."""

    def fork(frame):
        if frame == 3:
            other = os.fork()
            if other == 0:
                end(*((1, 0) if end is int.__floordiv__ else (0,)))
            else:
                found.append(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
                assert found.pop() == (1 if end is int.__floordiv__ else 0)

    found = []
    result = ctx.run_udf(frames(ctx), PerFrame(fork))
    assert set(result["pid"].data.ravel().tolist()) <= set(ctx.executor.worker_ids)
    assert_usable(ctx)
    assert ("ZeroDivisionError" in capfd.readouterr().err) == (end is int.__floordiv__)


@pytest.mark.parametrize("end", ["close", "kill"])
def test_forks_end_with_their_worker(end, tmp_path):
    with ff.Context.make_with("processes", cpus=1) as ctx:
        ctx.run_udf(frames(ctx), PerFrame(forking(tmp_path)))
        fork = the_fork(tmp_path)
        if end == "kill":
            os.kill(ctx.executor.worker_ids[0], signal.SIGKILL)
            assert_usable(ctx)
            assert gone([fork])
    assert gone([fork])


def sleep_in_python(_frame):
    while True:
        time.sleep(0.01)


def sleep_with_the_lock(_frame):
    ctypes.PyDLL(None).sleep(1000)


@pytest.mark.parametrize("action", [sleep_in_python, sleep_with_the_lock])
def test_a_function_that_never_returns(action):
    with ff.Context(executor=ProcessJobExecutor(2, timeout=2)) as ctx:
        assert_usable(ctx)
        begin = time.monotonic()
        with pytest.raises(WorkerTimeoutError, match=r"partition 0 took longer than timeout=2"):
            ctx.run_udf(frames(ctx), PerFrame(action))
        assert time.monotonic() - begin < 30
        assert_usable(ctx)


def test_parameters_that_cannot_be_sent(ctx):
    with pytest.raises(
        InvalidArgumentError, match="PerFrame: parameter 'action', a lock, cannot be sent"
    ):
        ctx.run_udf(frames(ctx), PerFrame(threading.Lock()))

    lock = threading.Lock()

    class Closed(Level):
        def process_frame(self, frame):
            with lock:
                super().process_frame(frame)

    with pytest.raises(InvalidArgumentError, match="Closed: 'process_frame' of the class refers"):
        ctx.run_udf(frames(ctx), Closed())
    with ctx.run_udf_iter(frames(ctx, 400, 200), Level()) as steps:
        next(steps)
        steps.update_parameters_experimental([{"offset": lock}])
        with pytest.raises(InvalidArgumentError, match="parameter 'offset', a lock"):
            next(steps)
    assert_usable(ctx)


def test_results_that_cannot_be_sent(ctx):
    class Locks(UDF):
        def get_result_buffers(self):
            return {"lock": self.buffer(kind="nav", dtype=object)}

        def process_frame(self, frame):
            self.results.lock[:] = threading.Lock()

    with pytest.raises(TypeError, match="pickle"):
        ctx.run_udf(frames(ctx), Locks())
    assert_usable(ctx)


def test_too_much_memory(ctx):
    def allocate(_frame):
        np.ones(1 << 50)

    with pytest.raises(MemoryError):
        ctx.run_udf(frames(ctx), PerFrame(allocate))
    with pytest.raises(LimitError, match="memory to share with other processes cannot be had"):
        pickles.allocate(1 << 62)
    assert_usable(ctx)


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


def test_executors_with_workers_cannot_be_copied(ctx):
    with pytest.raises(UnsupportedError, match="cannot be pickled or copied: its workers"):
        copy.deepcopy(ctx)


def test_a_file_that_is_gone(ctx, tmp_path):
    np.zeros((40, 4, 4), dtype=np.float32).tofile(tmp_path / "scan.raw")
    dataset = ctx.load(
        "raw", tmp_path / "scan.raw", dtype="float32", nav_shape=(40,), sig_shape=(4, 4)
    )
    ctx.run_udf(dataset, Level())
    (tmp_path / "scan.raw").unlink()
    with pytest.raises(FramefoldError, match=r"scan\.raw") as caught:
        ctx.run_udf(dataset, Level())
    assert "worker process" in "".join(caught.value.__notes__)


def test_functions_that_declare_something_else_elsewhere(ctx):
    here = os.getpid()

    class Changing(Level):
        def get_result_buffers(self):
            extra = () if os.getpid() == here else (2,)
            return {"level": self.buffer(kind="nav", extra_shape=extra)}

    with pytest.raises(WorkerError, match="plans the run of Changing differently: 'level: nav"):
        ctx.run_udf(frames(ctx), Changing())
    assert_usable(ctx)


def test_a_closed_context():
    with ff.Context.make_with("processes", cpus=2) as ctx:
        assert_usable(ctx)
        workers = ctx.executor.worker_ids
    assert not any(map(is_running, workers))
    with pytest.raises(InvalidArgumentError, match="this executor is closed"):
        ctx.run_udf(frames(ctx), Level())
    ctx.close()


def test_a_context_that_is_dropped():
    ctx = ff.Context.make_with("processes", cpus=2)
    assert_usable(ctx)
    workers = ctx.executor.worker_ids
    del ctx
    gc.collect()
    assert gone(workers)


def sleepy(_frame):
    time.sleep(0.05)


def test_closing_during_a_run(ctx):
    closer = threading.Timer(0.7, ctx.close)
    closer.start()
    with pytest.raises(UDFRunCancelled, match="closed"):
        ctx.run_udf(frames(ctx, 10_000, 50), PerFrame(sleepy))
    closer.join()
    assert ctx.executor.worker_ids == []


@pytest.mark.parametrize("action", [sleepy, sleep_with_the_lock])
def test_a_run_that_is_closed(ctx, action):
    steps = ctx.run_udf_iter(frames(ctx, 10_000, 50), PerFrame(action))
    closer = threading.Timer(1.5, steps.close)
    closer.start()
    with pytest.raises(UDFRunCancelled):
        next(steps)
    begin = time.monotonic()
    closer.join()
    assert time.monotonic() - begin < 30
    assert_usable(ctx)


def test_a_generator_that_is_dropped(ctx):
    steps = ctx.run_udf_iter(frames(ctx, 400, 200), PerFrame(sleepy))
    next(steps)
    del steps
    gc.collect()
    assert_usable(ctx)
    assert len(ctx.executor.worker_ids) == 2


@pytest.mark.parametrize("command", ["/bin/false", "/nonexistent/python"])
def test_workers_that_do_not_start(ctx, command, monkeypatch):
    monkeypatch.setattr(sys, "executable", command)
    with pytest.raises(WorkerError, match=r"end before they are ready|could not be started"):
        ctx.run_udf(frames(ctx), Level())
    monkeypatch.undo()
    assert_usable(ctx)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
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


SCRIPT = """
    import ctypes, os, sys, time
    import numpy as np
    import framefold as ff
    from framefold.udf import UDF

    class Slow(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def process_frame(self, frame):
            sys.stdout.write(f"working {os.getpid()}\\n")
            sys.stdout.flush()
            if how == "stuck":
                ctypes.PyDLL(None).sleep(1000)
            time.sleep(0.02)

    how = sys.argv[1]
    ctx = ff.Context.make_with("processes", cpus=2)
    dataset = ctx.load("memory", data=np.zeros((10_000, 8, 8), dtype=np.float32),
                       num_partitions=1000)
    steps = ctx.run_udf_iter(dataset=dataset, udf=Slow())
    if how == "exit":
        next(steps)
        sys.exit(7)
    try:
        for _ in steps:
            pass
    except KeyboardInterrupt:
        how = ""
        small = ctx.load("memory", data=np.zeros((4, 8, 8), dtype=np.float32))
        print("next run:", ctx.run_udf(dataset=small, udf=Slow())["x"].data.shape)
"""


def run_script(*arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where interrupts are ignored, as in jobs of a shell, children would ignore them, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def first_worker(process):
    line = process.stdout.readline()
    assert line.startswith("working"), process.communicate(timeout=20)
    return int(line.split()[1])


@pytest.mark.parametrize("how", ["python", "stuck"])
def test_ctrl_c(how):
    process = run_script(how)
    try:
        worker = first_worker(process)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=40)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "next run: (4,)" in out
    assert "Traceback" not in err
    assert time.monotonic() - begin < 30
    assert gone([worker])


@pytest.mark.parametrize("how", ["python", "stuck"])
def test_the_main_process_dies(how):
    process = run_script(how)
    try:
        worker = first_worker(process)
        process.kill()
        # They have the pipe, too: it ends when they do.
        process.communicate(timeout=20)
    finally:
        process.kill()
    assert gone([worker])


def test_the_interpreter_ends_in_the_middle():
    process = run_script("exit")
    try:
        worker = first_worker(process)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 7, err
    assert err == ""
    assert gone([worker])
