"""The interpreter ends while daemon threads are in the engine: never by SIGABRT."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys, threading, time
import numpy as np
import framefold as ff
from framefold import UDF
from framefold.common import _daemon_threads

kind, executor = sys.argv[1:]
begun = threading.Event()

class Frames(UDF):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}
    def process_frame(self, frame):
        begun.set()
        time.sleep(0.001)

class Tiles(UDF):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="sig")}
    def process_tile(self, tile):
        begun.set()
        self.results.x += tile.sum(axis=0)
    def merge(self, dest, src):
        time.sleep(0.001)
        dest.x += src.x

class Stuck(Frames):
    def process_frame(self, frame):
        begun.set()
        time.sleep(60)

if kind == "stuck":
    _daemon_threads.SECONDS = 0.1
made = {"frames": Frames, "tiles": Tiles, "native": ff.SumUDF, "stuck": Stuck}[kind]
ctx = ff.Context.make_with(executor)
data = np.ones((20_000, 16, 16), dtype=np.float32)
dataset = ctx.load("memory", data=data)

def work():
    while True:
        ctx.run_udf(dataset, made())
        begun.set()

threading.Thread(target=work, daemon=True).start()
assert begun.wait(30)
time.sleep(0.05)
print("the end", flush=True)
"""


@pytest.mark.parametrize("executor", ["inline", "threads"])
@pytest.mark.parametrize("kind", ["frames", "tiles", "native"])
def test_runs_on_daemon_threads_end_with_the_interpreter(kind, executor):
    command = [sys.executable, "-c", SCRIPT, kind, executor]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")


def test_user_code_that_does_not_end_is_left(tmp_path):
    command = [sys.executable, "-c", SCRIPT, "stuck", "inline"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "the end\n")
    assert "did not stop within 0.1 s" in done.stderr


DROPS = """
import threading, time
import numpy as np
import framefold as ff
from framefold import _engine

ctx = ff.Context.make_with("inline")
dataset = ctx.load("memory", data=np.ones((4, 4, 4)), num_partitions=4)
steps = ctx.run_udf_iter(dataset, ff.SumUDF())
next(steps)
kept = [steps._driver]
steps.close()
del steps
waits, go = threading.Event(), threading.Event()

def drop():
    waits.set()
    go.wait()
    kept.clear()

threading.Thread(target=drop, daemon=True).start()
waits.wait()
go.set()
print(_engine.end_threads(5.0), flush=True)
"""


def test_a_run_that_is_dropped_while_the_interpreter_ends():
    """Its thread waits for the end of the process, and keeps no lock meanwhile."""
    command = [sys.executable, "-c", DROPS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


READS = """
import json, sys, threading, time
import numpy as np
import framefold as ff

begun = threading.Event()

class Slow:
    name, extensions = "slow", ()
    shape, sig, dtype = (40,), (4, 4), np.dtype("u1")

    @staticmethod
    def open(path):
        return Slow()

    def read(self, frames, out):
        begun.set()
        time.sleep(0.02)
        out[...] = 1

ff.register_format(Slow)
ctx = ff.Context.make_with("threads", cpus=4)
dataset = ctx.load("slow", sys.argv[1], num_partitions=40)
if sys.argv[2] == "steps":
    steps = ctx.run_udf_iter(dataset, ff.SumUDF())
    next(steps)
else:
    from framefold._viewer.viewing import host_of
    session = host_of(dataset).session()
    query = {"channel": {"kind": "sum"}}
    ask = dict(pane="scan", gen=1, wish="exact", precision="f64", query=query)
    session.receive_text(json.dumps({"type": "hello", "version": 1}))
    session.receive_text(json.dumps({"type": "ask", **ask}))
    assert begun.wait(30)
print("the end", flush=True)
"""


@pytest.mark.parametrize("reader", ["steps", "viewer"])
def test_frames_that_python_reads_while_the_interpreter_ends(reader, tmp_path):
    path = tmp_path / "scan"
    path.touch()
    command = [sys.executable, "-c", READS, str(path), reader]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")


PLUGIN = """
import sys, threading, time
import numpy as np
import framefold as ff
from ctypes_plugin import MERGE, SINGLE, Plugin

merged = threading.Event()

def process(*_):
    time.sleep(0.02)
    return 0

def merge(*_):
    merged.set()
    time.sleep(0.02)
    return 0

class Merges(Plugin):
    def __framefold_udf__(self):
        capsule = super().__framefold_udf__()
        self.table.merge = MERGE(merge)
        return capsule

ctx = ff.Context.make_with("threads", cpus=4)
dataset = ctx.load("memory", np.ones((40, 4, 4), np.float32), num_partitions=40)
if sys.argv[1] == "process":
    steps = ctx.run_udf_iter(dataset, Plugin(process))
    next(steps)
else:
    run = dict(dataset=dataset, udf=Merges(kind=SINGLE))
    threading.Thread(target=ctx.run_udf, kwargs=run, daemon=True).start()
    assert merged.wait(30)
print("the end", flush=True)
"""


@pytest.mark.parametrize("entry", ["process", "merge"])
def test_compiled_functions_that_run_python_while_the_interpreter_ends(entry):
    command = [sys.executable, "-c", PLUGIN, entry]
    here = Path(__file__).parent
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=here)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")
