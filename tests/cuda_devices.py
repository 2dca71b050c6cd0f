"""What tests with a CUDA device run on: a real one, and the stand-in for CuPy."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import fake_cupy
import numpy as np
import pytest
from cuda_udfs import check_released

from framefold.arrays.cuda.staging import drop_spare
from framefold.utils.devices import cuda_ids, cupy_installed, why_no_device


class Real:
    """The first device of this machine; skips, in words, where there is none."""

    is_real = True
    #: Of products; some devices multiply with fewer digits.
    rtol = 1e-4

    def __init__(self):
        if not cuda_ids():
            pytest.skip(f"no CUDA device: {why_no_device()}")
        if not cupy_installed():
            pytest.skip("CuPy is not installed")
        import cupy

        self.cupy = cupy

    def run_out_of_memory(self):
        """Ask for more memory than any device has."""
        self.cupy.empty(1 << 50, dtype=np.uint8)

    @contextmanager
    def counting_transfers(self) -> Iterator[None]:
        """What crosses the link is not seen here."""
        yield None

    def check_released(self):
        """Look whether runs that have ended hold any memory."""
        drop_spare()
        gc.collect()
        assert self.cupy.get_default_memory_pool().used_bytes() == 0
        assert self.cupy.get_default_pinned_memory_pool().n_free_blocks() == 0


class StandIn:
    """The device of the stand-in."""

    is_real = False
    rtol = 1e-5

    def __init__(self, machine):
        self.cupy = sys.modules["cupy"]
        self.machine = machine

    def run_out_of_memory(self):
        """Ask for more memory than it has from now on."""
        self.machine.limit = 1 << 30
        fake_cupy.alloc(1 << 50)

    def counting_transfers(self):
        """The bytes of each transfer within."""
        return self.machine.counting_transfers()

    def check_released(self):
        """Look whether runs that have ended hold any memory."""
        check_released(self.machine)
