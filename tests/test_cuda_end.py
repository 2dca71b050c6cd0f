"""The end of runs with CUDA devices, on a stand-in for CuPy: memory, and errors."""

from __future__ import annotations

import gc

import fake_cupy
import pytest
from cuda_udfs import NAV, SIG, Tiles, check, check_released
from sparse_files import counts

import framefold as ff
from framefold.common.backend import get_use_cuda
from framefold.exceptions import (
    LimitError,
    UDFRunCancelled,
)


@pytest.fixture
def data():
    return counts((*NAV, *SIG), "uint16")


@pytest.fixture
def dataset(ctx, data):
    return ctx.load("memory", data=data, num_partitions=3)


class Failing(Tiles):
    def process_tile(self, tile):
        super().process_tile(tile)
        if self.meta.slice.get()[0].start >= 10:
            raise KeyError("on purpose")


def test_memory_is_given_back_after_errors(ctx, machine, dataset, data):
    with pytest.raises(KeyError, match="on purpose") as failure:
        ctx.run_udf(dataset, Failing())
    assert "Failing" in "".join(failure.value.__notes__)
    failure.value.with_traceback(None)
    del failure
    check_released(machine)
    check(ctx.run_udf(dataset, Tiles()), data)


def test_memory_is_given_back_when_a_run_is_closed(ctx, machine, dataset):
    steps = ctx.run_udf_iter(dataset, Tiles())
    next(steps)
    assert get_use_cuda() is None  # between steps, this thread is no worker
    assert fake_cupy.machine.device == 0
    steps.close()
    del steps
    check_released(machine)


def test_memory_is_given_back_after_cancellation(ctx, machine, dataset):
    class Cancels(Tiles):
        def process_tile(self, tile):
            super().process_tile(tile)
            begun[0].cancel()

    begun = []
    begun.append(ctx.run_udf_iter(dataset, Cancels()))
    with pytest.raises(UDFRunCancelled) as cancelled:
        list(begun[0])
    cancelled.value.with_traceback(None)
    begun.clear()
    del cancelled
    check_released(machine)


def test_memory_that_runs_out_is_a_clear_error(ctx, monkeypatch, dataset, data):
    machine = fake_cupy.install(monkeypatch, limit=1000)
    with pytest.raises(LimitError, match=r"memory of CUDA device 0 ran out.*smaller tiles"):
        ctx.run_udf(dataset, Tiles())
    gc.collect()
    assert machine.live_bytes() == 0
    machine.limit = None
    check(ctx.run_udf(dataset, Tiles()), data)


def test_pools_are_left_alone_while_another_run_goes_on(monkeypatch, data):
    machine = fake_cupy.install(monkeypatch)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=data, num_partitions=3)
    steps = ctx.run_udf_iter(dataset, Tiles())
    next(steps)
    ctx.run_udf(dataset, Tiles())
    assert machine.freed_pools == []
    steps.close()
    assert machine.freed_pools == [("device", 0), ("pinned", 0)]
