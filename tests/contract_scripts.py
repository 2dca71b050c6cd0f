"""What every executor with worker processes does in programs of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

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
        stuck = how == "stuck" or how == "one stuck" and self.meta.slice.origin[0] == 0
        sys.stdout.write(f"{'stuck' if stuck else how}: {os.getpid()}\\n")
        sys.stdout.flush()
        if stuck:
            ctypes.PyDLL(None).sleep(1000)
        time.sleep(0.02)

ctx = %s
dataset = ctx.load("memory", data=np.zeros((10_000, 8, 8), dtype=np.float32), num_partitions=1000)
small = ctx.load("memory", data=np.zeros((4, 8, 8), dtype=np.float32))
for how in sys.argv[1:]:
    steps = ctx.run_udf_iter(dataset=dataset, udf=Slow())
    try:
        for _ in steps:
            if how == "exit":
                sys.exit(7)
    except KeyboardInterrupt:
        how = "small"
        shape = ctx.run_udf(dataset=small, udf=Slow())["x"].data.shape
        sys.stdout.write(f"next run: {shape}\\n")  # in one piece, as workers write there, too
        sys.stdout.flush()
ctx.close()
"""


def said(process, what):
    """What a script, or one of its workers, says next of something."""
    for line in process.stdout:
        before, _, rest = line.strip().partition(": ")
        if before == what:
            return rest
    raise AssertionError((what, process.communicate(timeout=20)))


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
    def started(self, subject):
        """A script that is at work."""
        subject.lacks("script")
        processes = []

        def start(*hows):
            process = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(ENDING % subject.script), *hows],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                # Where interrupts are ignored, as in jobs of a shell, children would do so, too.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
            processes.append(process)
            return process

        yield start
        for process in processes:
            process.kill()
            process.wait()

    def test_ctrl_c_in_a_script(self, started):
        process = started("python", "stuck")
        workers = []
        for how in ("python", "stuck"):
            workers.append(said(process, how))
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert said(process, "next run") == "(4,)"
            assert time.monotonic() - begin < 30
        _, err = process.communicate(timeout=40)
        assert process.returncode == 0, err
        assert "Traceback" not in err
        assert time.monotonic() - begin < 30
        assert gone(map(int, workers))

    def test_the_main_process_dies(self, started):
        process = started("one stuck")
        # One of its workers never returns, and the other one runs Python.
        workers = said(process, "stuck"), said(process, "one stuck")
        process.kill()
        # Workers have the pipe, too: it ends when they do.
        process.communicate(timeout=40)
        assert gone(map(int, workers))

    def test_the_interpreter_ends_in_the_middle(self, started, subject):
        process = started("exit")
        worker = said(process, "exit")
        _, err = process.communicate(timeout=40)
        assert process.returncode == 7, err
        assert "Traceback" not in err
        assert err == "" or subject.forgotten is not None
        assert gone([int(worker)])
