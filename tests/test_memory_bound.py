"""A run takes a bounded amount of memory of its own, however large the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: What any native reduction may take beyond the interpreter, in MiB.
BOUND = 200
SIZE = 256

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
