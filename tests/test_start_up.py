"""Importing framefold and running a reduction needs NumPy, and nothing heavy besides."""

import subprocess
import sys

import numpy as np

HEAVY = [
    "asyncio",
    "concurrent",
    "cupy",
    "dask",
    "dataclasses",
    "distributed",
    "hashlib",
    "importlib.metadata",
    "inspect",
    "logging",
    "matplotlib",
    "multiprocessing",
    "numba",
    "numpy.ma",
    "pathlib",
    "scipy",
    "sparse",
    "sparseconverter",
    "subprocess",
    "tempfile",
    "tqdm",
    "uuid",
]

#: Parts of framefold that a plain reduction has no use for.
LAZY = [
    "framefold.run.aio",
    "framefold.arrays.cuda",
    "framefold.viz._live",
    "framefold.analysis.base",
    "framefold.io.corrections.corrset",
    "framefold.udf.engine.bridge",
    "framefold.arrays.formats",
    "framefold.arrays.tile_formats",
    "framefold.arrays.sparse_tiles",
    "framefold.common.backend",
    "framefold.udf.com",
    "framefold.utils.devices",
    "framefold.udf.masks",
    "framefold.viz",
]

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
    imported = set(done.stdout.split())
    assert "framefold.udf.sum" in imported
    assert not imported & {*HEAVY, *LAZY}


#: What worker processes are spoken to with, which a short run has no use for.
OF_WORKERS = [
    "concurrent",
    "dataclasses",
    "framefold.executor._processes.crew",
    "framefold.executor._wire.pickles",
    "logging",
    "mmap",
    "multiprocessing",
    "pickle",
    "socket",
    "subprocess",
    "tempfile",
    "tqdm",
]

SHORT_RUN = """
import sys
import numpy as np
before = set(sys.modules)
import framefold as ff

class Sums(ff.UDF):
    def get_result_buffers(self):
        return {"sums": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.results.sums[:] = frame.sum()

ctx = ff.Context.make_with("auto", cpus=2)
dataset = ctx.load("memory", data=np.ones((2, 2, 4, 4)))
assert "begins on the calling thread" in ctx.explain(dataset, Sums())
assert ctx.run_udf(dataset=dataset, udf=Sums())["sums"].data.sum() == 64
print(*(set(sys.modules) - before))
"""


def test_a_short_run_of_a_function_imports_nothing_of_worker_processes():
    command = [sys.executable, "-c", SHORT_RUN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert "framefold.executor._auto_crew" in imported
    assert not imported & {*OF_WORKERS}


IN_A_WORKER = """
import sys
import cloudpickle, numpy as np
before = set(sys.modules)
import framefold as ff

class Modules(ff.UDF):
    def get_result_buffers(self):
        return {"names": self.buffer(kind="single", dtype=object)}

    def process_partition(self, partition):
        self.results.names[:] = " ".join(sys.modules)

    def merge(self, dest, src):
        dest.names[:] = src.names

with ff.Context.make_with("processes", cpus=1) as ctx:
    dataset = ctx.load("memory", data=np.ones((2, 2, 4, 4)), num_partitions=1)
    (names,) = ctx.run_udf(dataset=dataset, udf=Modules())["names"].data
    print(*set(names.split()) - before)
"""


def test_no_heavy_library_is_imported_in_a_worker():
    """Beside what NumPy and cloudpickle import."""
    command = [sys.executable, "-c", IN_A_WORKER]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert "framefold.udf.engine.bridge" in imported
    assert not imported & {*HEAVY}


def test_a_command_imports_no_numpy(tmp_path):
    np.save(tmp_path / "scan.npy", np.zeros((2, 3, 4, 4), dtype=np.uint16))
    script = (
        "import sys\n"
        "sys.modules['numpy'] = None\n"
        "from framefold.cli import main\n"
        "sys.argv = ['framefold', 'run', 'sum', 'scan.npy', '-o', 'sum.npy']\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    assert np.load(tmp_path / "sum.npy").shape == (4, 4)


def test_all_names_at_the_top_can_be_imported():
    script = """
import framefold
names = {}
exec("from framefold import *", names)
assert set(framefold.__all__) <= set(names), set(framefold.__all__) - set(names)
assert set(framefold.__all__) <= set(dir(framefold))
for name in framefold.__all__:
    assert getattr(framefold, name) is names[name]
try:
    framefold.Missing
except AttributeError as error:
    assert "Missing" in str(error)
else:
    raise AssertionError("found a name that is missing")
from framefold.api import ResultAsyncGenerator, ResultGenerator
from framefold.udf import AutoUDF
assert AutoUDF is framefold.AutoUDF
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
