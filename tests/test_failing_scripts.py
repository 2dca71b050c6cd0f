"""Ctrl-C at each stage of a run, on each executor, in a script; forks; what is left afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import pytest
from process_cases import gone, hard_limit  # noqa: F401 - a fixture

if sys.platform != "linux":
    pytest.skip("looks at /proc, and uses signals", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("hard_limit")

EXECUTORS = ["inline", "threads", "processes", "auto"]

PRELUDE = """
    import os, signal, sys, threading, time
    import numpy as np
    import framefold as ff
    from framefold.udf import UDF

    def say(what):
        os.write(1, f"{what}\\n".encode())

    stage = None

    class Slow(UDF):
        # Takes minutes in all.
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav"), "y": self.buffer(kind="single")}

        def process_frame(self, frame):
            if stage == "run":
                say("now: run")
            time.sleep(0.02)

        def merge(self, dest, src):
            if stage == "merge":
                say("now: merge")
                # A signal that comes just before a sleep does not end it.
                for _ in range(5000):
                    time.sleep(0.02)
            dest.x[:] = src.x

    class Quick(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def process_frame(self, frame):
            self.results.x[:] = 1

    def begin(executor):
        ctx = ff.Context.make_with(executor, cpus=2)
        data = np.zeros((10_000, 8, 8), dtype=np.float32)
        return ctx, ctx.load("memory", data=data, num_partitions=1000)

    def check(ctx):
        small = ctx.load("memory", data=np.zeros((40, 8, 8), dtype=np.float32))
        assert ctx.run_udf(small, Quick())["x"].data.sum() == 40

    def finish(ctx):
        check(ctx)
        workers = getattr(ctx.executor, "worker_ids", [])
        ctx.close()
        threads = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
        print("left:", threads, "workers", *workers)
"""

INTERRUPTED = """
    ctx, dataset = begin(sys.argv[1])
    for stage in sys.argv[2].split():
        try:
            if stage == "start-up":
                # In the middle of whatever comes first.
                threading.Timer(float(sys.argv[3]), os.kill, (os.getpid(), signal.SIGINT)).start()
            ctx.run_udf(dataset, Slow())
        except KeyboardInterrupt:
            say(f"interrupted: {stage}")
        check(ctx)
    finish(ctx)
"""


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PRELUDE + script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where interrupts are ignored, as in jobs of a shell, children would ignore them, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def finished(process):
    """The last line, after it is checked that all went well, and that nothing is left."""
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "Traceback" not in err
    last = out.splitlines()[-1]
    assert last.startswith("left: [] workers"), (last, err)
    assert gone(map(int, last.split()[3:]))
    return out


def wait_for(process, line):
    """Read what a script says until it says this."""
    if line not in map(str.strip, process.stdout):
        raise AssertionError((line, process.communicate(timeout=20)))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_ctrl_c(executor):
    process = start(INTERRUPTED, executor, "run merge")
    try:
        wait_for(process, "now: run")
        process.send_signal(signal.SIGINT)
        wait_for(process, "interrupted: run")
        wait_for(process, "now: merge")
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)  # this one waits for the end of the merge
        process.send_signal(signal.SIGINT)
    except BaseException:
        process.kill()
        raise
    assert "interrupted: merge" in finished(process)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("seconds", [0.002, 0.01, 0.1, 0.3])
def test_ctrl_c_during_start_up(executor, seconds):
    assert "interrupted: start-up" in finished(start(INTERRUPTED, executor, "start-up", seconds))


FORKED = """
    def in_fork(run):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                run()
                status = 0
            finally:
                os._exit(status)
        return child

    def ended(child):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def again():
        ctx.run_udf(small, [Quick(), ff.SumUDF()])
        ctx.close()

    def go_on():
        signal.alarm(20)
        try:
            next(steps)
        except ff.exceptions.WorkerError as error:
            assert "a fork of" in str(error)
        else:
            raise AssertionError("the run went on")

    def with_another():
        other = ff.Context.make_with(sys.argv[1], cpus=2)
        check(other)
        other.close()

    ctx, dataset = begin(sys.argv[1])
    small = ctx.load("memory", data=np.zeros((40, 8, 8), dtype=np.float32), num_partitions=10)
    ctx.run_udf(small, [Quick(), ff.SumUDF()])

    assert ended(in_fork(again)) == 0
    say("os.fork")

    import multiprocessing

    process = multiprocessing.get_context("fork").Process(target=again)
    process.start()
    process.join()
    assert process.exitcode == 0
    say("multiprocessing")

    steps = ctx.run_udf_iter(dataset, Slow())
    next(steps)
    assert ended(in_fork(go_on)) == 0
    child = in_fork(with_another)
    next(steps)
    assert ended(child) == 0
    next(steps)
    steps.close()
    say("during a run")
    finish(ctx)
"""


@pytest.mark.parametrize("executor", EXECUTORS)
def test_runs_in_forks(executor):
    said = finished(start(FORKED, executor)).splitlines()
    assert said[:-1] == ["os.fork", "multiprocessing", "during a run"]


ON_A_THREAD = """
    ctx, dataset = begin(sys.argv[1])
    small = ctx.load("memory", data=np.zeros((40, 8, 8), dtype=np.float32), num_partitions=10)
    outcomes = []

    def run():
        outcomes.append(ctx.run_udf(small, Quick())["x"].data.sum())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert outcomes == [40]
    finish(ctx)
"""


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_run_on_a_thread(executor):
    finished(start(ON_A_THREAD, executor))


NOTEBOOK = """
import os, time
import numpy as np
import framefold as ff

class Slow(ff.UDF):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        time.sleep(self.meta.slice is not None and seconds)
        self.results.x[:] = frame.sum()

contexts = []
"""

BEGUN = """
seconds = 0.02
ctx = ff.Context.make_with(NAME, cpus=2)
contexts.append(ctx)  # with its workers, for as long as the notebook is open
data = np.ones((10_000, 8, 8), dtype=np.float32)
dataset = ctx.load("memory", data=data, num_partitions=1000)
steps = ctx.run_udf_iter(dataset, Slow())
next(steps)
print("begun")
"""


class Notebook:
    """A kernel that executes cells."""

    def __init__(self, manager, client):
        self.manager, self.client = manager, client
        self.workers = []

    def run(self, code, interrupt=False):
        """What a cell prints, and the error that it ends with."""
        request = self.client.execute(code)
        printed, failed, complaint = "", None, ""
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream" and content["name"] == "stderr":
                complaint += content["text"]
            elif message["msg_type"] == "stream":
                printed += content["text"]
                if interrupt and "now" in printed:
                    interrupt = False
                    self.manager.interrupt_kernel()
            elif message["msg_type"] == "error":
                failed = content["ename"]
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                # What was interrupted in an import, IPython prints as it is.
                if failed is None and "KeyboardInterrupt" in complaint.splitlines():
                    failed = "KeyboardInterrupt"
                return printed, failed


@pytest.fixture(scope="module")
def notebook():
    """One for all executors, whose kernel is killed in the end."""
    jupyter_client = pytest.importorskip("jupyter_client")
    pytest.importorskip("ipykernel")
    manager, client = jupyter_client.manager.start_new_kernel(
        kernel_name="python3", extra_arguments=["--Application.log_level=50"]
    )
    kernel = Notebook(manager, client)
    try:
        assert kernel.run(NOTEBOOK) == ("", None)
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert gone(kernel.workers)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_interrupting_a_notebook(notebook, executor):
    begun = notebook.run(f"NAME = {executor!r}\n" + BEGUN)
    assert begun == ("begun\n", None)
    _, failed = notebook.run("print('now', flush=True)\nfor _ in steps: pass", interrupt=True)
    assert failed == "KeyboardInterrupt"
    printed, failed = notebook.run(
        "seconds = 0\n"
        "print(ctx.run_udf(dataset, Slow())['x'].data.sum())\n"
        "print('workers', *getattr(ctx.executor, 'worker_ids', []))\n"
    )
    assert failed is None
    total, workers = printed.splitlines()
    assert total == "640000.0"
    workers = [int(pid) for pid in workers.split()[1:]]
    assert workers or executor != "processes"
    notebook.workers += workers
