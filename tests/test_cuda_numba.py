"""A function that uses CUDA by way of numba, on numba's own simulator of a device."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from numba import cuda

import framefold as ff
import framefold.utils.devices as devices
from framefold.common.backend import get_use_cuda

devices.cuda_ids = lambda: [0]


@cuda.jit
def add_rows(frame, sums):
    row = cuda.grid(1)
    if row < frame.shape[0]:
        total = 0.0
        for column in range(frame.shape[1]):
            total += frame[row, column]
        sums[row] = total


class Rows(ff.UDF):
    def get_backends(self):
        return (self.BACKEND_CUDA,)

    def get_result_buffers(self):
        return {"rows": self.buffer("nav", extra_shape=(4,)), "device": self.buffer("nav")}

    def process_frame(self, frame):
        cuda.select_device(get_use_cuda())
        sums = np.zeros(4, dtype=np.float32)
        add_rows[1, 4](frame.copy(), sums)
        self.results.rows[:] = sums
        self.results.device[:] = get_use_cuda()
        assert self.meta.device_class == "cuda"


ctx = ff.Context()
data = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
result = ctx.run_udf(ctx.load("memory", data=data, num_partitions=2), Rows())
np.testing.assert_array_equal(result["rows"].data, data.sum(axis=3))
assert not result["device"].data.any()
print("done")
"""


def test_numba_on_its_simulator():
    pytest.importorskip("numba", reason="numba is not installed")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"
