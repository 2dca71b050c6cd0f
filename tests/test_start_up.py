"""Importing framefold and running a reduction needs NumPy, and nothing heavy besides."""

import subprocess
import sys

HEAVY = ["asyncio", "matplotlib", "numba", "scipy", "sparse", "tempfile", "tqdm", "pathlib"]

SCRIPT = """
import sys
import numpy as np
before = set(sys.modules)
import framefold as ff
ctx = ff.Context()
dataset = ctx.load("memory", data=np.ones((2, 2, 4, 4)))
assert ctx.run_udf(dataset=dataset, udf=ff.SumUDF())["intensity"].data.sum() == 64
print(*(set(sys.modules) - before))
assert ff.install_as_libertem.__name__ == "install_as_libertem"
assert "install_as_libertem" in dir(ff)
"""


def test_no_heavy_library_is_imported():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert "framefold" in imported
    assert not imported & set(HEAVY)
