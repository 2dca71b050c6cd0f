"""Ctrl-C at each stage of a run, on each executor, in a script; forks; what is left afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import pytest
from process_cases import eventually, gone, hard_limit, shm  # noqa: F401 - a fixture

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

    class Slow(UDF):
        # Takes minutes in all.
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav"), "y": self.buffer(kind="single")}

        def process_frame(self, frame):
            if stage == "run":
                say(f"now {os.getpid()}")
            time.sleep(0.02)

        def merge(self, dest, src):
            if stage == "merge":
                say(f"now {os.getpid()}")
                # A signal that comes just before a sleep does not end it.
                for _ in range(5000):
                    time.sleep(0.02)
            dest.x[:] = src.x

    class Quick(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def process_frame(self, frame):
            self.results.x[:] = 1

    stage = sys.argv[2]

    def begin(executor):
        ctx = ff.Context.make_with(executor, cpus=2)
        data = np.zeros((10_000, 8, 8), dtype=np.float32)
        return ctx, ctx.load("memory", data=data, num_partitions=1000)

    def finish(ctx):
        small = ctx.load("memory", data=np.zeros((40, 8, 8), dtype=np.float32))
        assert ctx.run_udf(small, Quick())["x"].data.sum() == 40
        workers = getattr(ctx.executor, "worker_ids", [])
        ctx.close()
        threads = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
        print("left:", threads, "workers", *workers)
"""

INTERRUPTED = """
    ctx, dataset = begin(sys.argv[1])
    try:
        if stage == "start-up":
            # In the middle of whatever comes first.
            threading.Timer(float(sys.argv[3]), os.kill, (os.getpid(), signal.SIGINT)).start()
        ctx.run_udf(dataset, Slow())
    except KeyboardInterrupt:
        say("interrupted")
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


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("stage", ["run", "merge"])
def test_ctrl_c(executor, stage):
    names = shm()
    process = start(INTERRUPTED, executor, stage)
    try:
        line = process.stdout.readline()
        assert line.startswith("now"), process.communicate(timeout=20)
        process.send_signal(signal.SIGINT)
        if stage == "merge":  # the first one waits for its end
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
    except BaseException:
        process.kill()
        raise
    assert "interrupted" in finished(process)
    assert eventually(lambda: shm() <= names)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("seconds", [0.002, 0.01, 0.1, 0.3])
def test_ctrl_c_during_start_up(executor, seconds):
    names = shm()
    assert "interrupted" in finished(start(INTERRUPTED, executor, "start-up", seconds))
    assert eventually(lambda: shm() <= names)


FORKED = """
    ctx, dataset = begin(sys.argv[1])
    small = ctx.load("memory", data=np.zeros((40, 8, 8), dtype=np.float32), num_partitions=10)
    ctx.run_udf(small, [Quick(), ff.SumUDF()])

    def in_fork():
        ctx.run_udf(small, [Quick(), ff.SumUDF()])
        ctx.close()

    if stage == "os.fork":
        child = os.fork()
        if child == 0:
            status = 1
            try:
                in_fork()
                status = 0
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    else:
        import multiprocessing

        process = multiprocessing.get_context("fork").Process(target=in_fork)
        process.start()
        process.join()
        status = process.exitcode
    assert status == 0
    finish(ctx)
"""


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("how", ["os.fork", "multiprocessing"])
def test_a_run_in_a_fork(executor, how):
    names = shm()
    finished(start(FORKED, executor, how))
    assert eventually(lambda: shm() <= names)


FORKED_DURING_A_RUN = """
    ctx, dataset = begin(sys.argv[1])
    steps = ctx.run_udf_iter(dataset, Slow())
    next(steps)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            other = ff.Context.make_with(sys.argv[1], cpus=2)
            small = other.load("memory", data=np.zeros((40, 8, 8), dtype=np.float32))
            assert other.run_udf(small, Quick())["x"].data.sum() == 40
            other.close()
            status = 0
        finally:
            os._exit(status)
    next(steps)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    next(steps)
    steps.close()
    finish(ctx)
"""


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_fork_during_a_run(executor):
    names = shm()
    finished(start(FORKED_DURING_A_RUN, executor, "fork"))
    assert eventually(lambda: shm() <= names)


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
    finished(start(ON_A_THREAD, executor, "thread"))


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

seconds = 0.02
ctx = ff.Context.make_with(NAME, cpus=2)
data = np.ones((10_000, 8, 8), dtype=np.float32)
dataset = ctx.load("memory", data=data, num_partitions=1000)
steps = ctx.run_udf_iter(dataset, Slow())
next(steps)
print("begun")
"""


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_interrupting_a_notebook(executor):
    jupyter_client = pytest.importorskip("jupyter_client")
    pytest.importorskip("ipykernel")
    manager, client = jupyter_client.manager.start_new_kernel(
        kernel_name="python3", extra_arguments=["--Application.log_level=50"]
    )
    try:

        def run(code, interrupt=False):
            request = client.execute(code)
            printed, failed, complaint = "", None, ""
            while True:
                message = client.get_iopub_msg(timeout=60)
                if message["parent_header"].get("msg_id") != request:
                    continue
                content = message["content"]
                if message["msg_type"] == "stream" and content["name"] == "stderr":
                    complaint += content["text"]
                elif message["msg_type"] == "stream":
                    printed += content["text"]
                    if interrupt and "now" in printed:
                        interrupt = False
                        manager.interrupt_kernel()
                elif message["msg_type"] == "error":
                    failed = content["ename"]
                elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                    # What was interrupted in an import, IPython prints as it is.
                    if failed is None and "KeyboardInterrupt" in complaint.splitlines():
                        failed = "KeyboardInterrupt"
                    return printed, failed

        begun = run(f"NAME = {executor!r}\n" + NOTEBOOK)
        assert begun == ("begun\n", None)
        _, failed = run("print('now', flush=True)\nfor _ in steps: pass", interrupt=True)
        assert failed == "KeyboardInterrupt"
        printed, failed = run(
            "seconds = 0\n"
            "print(ctx.run_udf(dataset, Slow())['x'].data.sum())\n"
            "print(*getattr(ctx.executor, 'worker_ids', []))\n"
        )
        assert failed is None
        total, workers = printed.splitlines()[0], printed.splitlines()[-1].split()
        assert total == "640000.0"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert gone(int(pid) for pid in workers if executor != "inline" and pid.isdigit())
