"""Runs in functions that a script registered with ``atexit`` work, or fail in framefold's words."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
from dask_scripts import without_them

SCRIPT = """
    import atexit, sys
    import numpy as np
    import framefold as ff

    class Highest(ff.UDF):
        def get_result_buffers(self):
            return {"highest": self.buffer(kind="nav")}

        def process_frame(self, frame):
            self.results.highest[:] = frame.max()

    cpus = 1 if sys.argv[1] == "dask" else None
    ctx = ff.Context.make_with(sys.argv[1], cpus=cpus)
    data = np.ones((40, 4, 4), dtype=np.float32)
    dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=4)

    def late():
        if sys.argv[1] == "threads":
            *_, last = ctx.run_udf_iter(dataset, Highest())
            found = last.buffers[0]["highest"].data
        else:
            found = ctx.run_udf(dataset, Highest())["highest"].data
        assert found.tolist() == [1] * 40
        print("done", flush=True)
        ctx.close()

    atexit.register(late)
"""


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "auto", "delayed", "dask"])
def test_a_run_after_the_last_line(executor, tmp_path):
    if executor in ("delayed", "dask"):
        pytest.importorskip("distributed")
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), executor]
    paths = [without_them(tmp_path), os.environ.get("PYTHONPATH")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    last = ended.stderr.strip().rpartition("\n")[2]
    if executor == "dask":
        assert "WorkerError: workers of Dask cannot be used any more when the" in last
    elif executor == "processes" and ended.stderr:  # Python 3.12 starts no thread then
        assert "worker processes cannot be used, as no thread can be started" in last
    else:
        assert (ended.stdout, ended.stderr) == ("done\n", "")


FIRST_USE = """
    import atexit, sys
    import numpy as np
    import framefold as ff

    def late():
        ctx = ff.Context.make_with(sys.argv[1])
        dataset = ctx.load("memory", data=np.ones((40, 4, 4)), sig_dims=2)
        assert (ctx.run_udf(dataset, ff.SumUDF())["intensity"].data == 40).all()
        print("done", flush=True)

    atexit.register(late)
"""


@pytest.mark.parametrize("executor", ["inline", "threads", "delayed", "dask"])
def test_a_script_that_uses_framefold_then_for_the_first_time(executor):
    if executor in ("delayed", "dask"):
        pytest.importorskip("distributed")
    command = [sys.executable, "-c", textwrap.dedent(FIRST_USE), executor]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    last = ended.stderr.strip().rpartition("\n")[2]
    if executor in ("inline", "threads"):
        assert (ended.stdout, ended.stderr) == ("done\n", "")
    elif ended.stderr:  # Python 3.11 has no threads to come then
        assert "WorkerError: Dask" in last or "WorkerError: Delayed" in last
        assert "when the interpreter ends" in last
    else:
        assert ended.stdout == "done\n"
