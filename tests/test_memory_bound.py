"""A run takes a bounded amount of memory of its own, however large the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: What any native reduction may take beyond the interpreter, in MiB.
BOUND = 100
SIZE = 128

SCRIPT = """
import sys, threading, time
import numpy as np
import framefold as ff

def own_memory():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024

def watch():
    while True:
        peak[0] = max(peak[0], own_memory())
        time.sleep(0.002)

path, n_frames = sys.argv[1], int(sys.argv[2])
ctx = ff.Context()
ds = ctx.load("raw", path=path, dtype="uint16", nav_shape=(n_frames,), sig_shape=(256, 256))
masks = [lambda i=i: np.full((256, 256), i, dtype=np.float32) for i in range(64)]
udfs = {
    "sum": ff.SumUDF(),
    "sumsig": ff.SumSigUDF(),
    "max": ff.MaxUDF(),
    "stddev": ff.StdDevUDF(),
    "com": ff.CoMUDF(),
    "logsum": ff.LogsumUDF(),
    "masks": ff.ApplyMasksUDF(mask_factories=masks),
}
peak = [own_memory()]
threading.Thread(target=watch, daemon=True).start()
for name, udf in udfs.items():
    start = peak[0] = own_memory()
    result = ctx.run_udf(dataset=ds, udf=udf)
    peak[0] = max(peak[0], own_memory())
    del result
    print(name, peak[0] - start)
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs the memory figures of Linux"
)
@pytest.mark.parametrize("backend", ["mmap", "buffered"])
def test_native_reductions_take_little_memory(tmp_path, backend):
    path = tmp_path / "frames.raw"
    with path.open("wb") as file:
        file.truncate(SIZE << 20)
    script = SCRIPT.replace(
        "sig_shape=(256, 256))", f'sig_shape=(256, 256), io_backend="{backend}")'
    )
    command = [sys.executable, "-c", script, str(path), str(SIZE << 20 >> 17)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    peaks = {name: float(peak) for name, peak in map(str.split, done.stdout.splitlines())}
    assert len(peaks) == 7
    assert max(peaks.values()) <= BOUND, peaks
    print(peaks)


LARGE_RESULTS = """
import numpy as np
import framefold as ff
{watching}
ds = ff.Context().load("memory", data=np.ones((512, 256, 256), np.uint16), sig_dims=2)
ctx, pick = ff.Context.make_with("{executor}"), ff.PickUDF()
for what in lambda: ctx.run_udf(ds, pick)["intensity"].data, lambda: ds[...]:
    start = peak[0] = own_memory()
    assert what().all()
    peak[0] = max(peak[0], own_memory())
    print((peak[0] - start) / 64)
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs the memory figures of Linux"
)
@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_large_results_are_in_memory_once(executor):
    watching = SCRIPT[: SCRIPT.index("path, n_frames")]
    watching += "peak = [0]\nthreading.Thread(target=watch, daemon=True).start()"
    script = LARGE_RESULTS.format(watching=watching, executor=executor)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    peaks = [float(line) for line in done.stdout.splitlines()]
    assert len(peaks) == 2
    assert max(peaks) < 1.5, peaks
