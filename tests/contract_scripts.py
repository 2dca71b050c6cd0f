"""What every executor with worker processes does in programs of their own."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from process_cases import gone

SCRIPT = """
import numpy as np
import framefold as ff
from framefold.udf import UDF

SCALE = 2

class Mine(UDF):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.x[:] = helper(frame)

def helper(frame):
    print("helping")
    return SCALE * frame.sum()

ctx = %s
dataset = ctx.load("memory", data=np.ones((4, 5, 6)), num_partitions=4)
print(ctx.run_udf(dataset=dataset, udf=Mine())["x"].data)
print("pids", *%s)
"""

ENDING = """
import ctypes, os, sys, time
import numpy as np
import framefold as ff
from framefold.udf import UDF

class Slow(UDF):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        state = "python"
        if how == "both":  # the first worker sleeps in Python; the other one is stuck
            try:
                first = open("first", "x")
            except FileExistsError:
                state = "python" if open("first").read() == str(os.getpid()) else "stuck"
            else:
                with first:
                    first.write(str(os.getpid()))
        sys.stdout.write(f"working {state} {os.getpid()}\\n")
        sys.stdout.flush()
        if state == "stuck":
            ctypes.PyDLL(None).sleep(1000)
        time.sleep(0.02)

how = sys.argv[1]
ctx = %s
dataset = ctx.load("memory", data=np.zeros((10_000, 8, 8), dtype=np.float32), num_partitions=1000)
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
    ctx.close()
"""


class Scripts:
    """Programs of their own: nothing has to be prepared, and nothing survives them."""

    @pytest.mark.parametrize("how", ["file", "module", "standard input"])
    def test_a_script_needs_no_guard(self, subject, tmp_path, how):
        subject.lacks("script")
        script = SCRIPT % (subject.script, subject.script_workers)
        (tmp_path / "script.py").write_text(script)
        command = {"file": ["script.py"], "module": ["-m", "script"], "standard input": ["-"]}[how]
        done = subprocess.run(
            [sys.executable, *command],
            input=script,
            capture_output=True,
            text=True,
            timeout=80,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        # Lines of several processes can run into each other where streams are not buffered; and on
        # a busy machine, another worker may do again what everything waits for.
        n_times = done.stdout.count("helping")
        assert n_times == 4 or (n_times > 4 and subject.forgotten is not None)
        assert "[60. 60. 60. 60.]" in lines
        assert done.stderr == ""
        pids = next(line for line in lines if line.startswith("pids")).split()[1:]
        assert len(pids) == 2
        assert gone(map(int, pids))

    @pytest.fixture
    def started(self, subject, tmp_path):
        """A script that is at work, and the processes that work."""
        subject.lacks("script")
        processes = []

        def start(how):
            process = subprocess.Popen(
                [sys.executable, "-c", ENDING % subject.script, how],
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                # Where interrupts are ignored, as in jobs of a shell, children would do so, too.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
            processes.append(process)
            workers = {}
            while set(workers) != ({"python", "stuck"} if how == "both" else {"python"}):
                line = process.stdout.readline()
                assert line.startswith("working"), process.communicate(timeout=20)
                _, at, worker = line.split()
                workers[at] = int(worker)
            return process, set(workers.values())

        yield start
        for process in processes:
            process.kill()
            process.wait()

    def test_ctrl_c_in_a_script(self, started):
        """One of its workers is stuck in a function of C, which has the lock of Python."""
        process, workers = started("both")
        assert len(workers) == 2
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=40)
        assert process.returncode == 0, err
        assert "next run: (4,)" in out
        assert "Traceback" not in err
        assert gone(workers)

    def test_the_main_process_dies(self, started):
        process, workers = started("both")
        assert len(workers) == 2
        process.kill()
        # Workers have the pipe, too: it ends when they do.
        process.communicate(timeout=40)
        assert gone(workers)

    def test_the_interpreter_ends_in_the_middle(self, started, subject):
        process, workers = started("exit")
        _, err = process.communicate(timeout=40)
        assert process.returncode == 7, err
        assert "Traceback" not in err
        assert err == "" or subject.forgotten is not None
        assert gone(workers)
