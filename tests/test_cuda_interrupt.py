"""Ctrl-C and cancellation where CUDA devices take part, on a stand-in for CuPy.

The run ends within a fraction of a second, and gives back all memory. What is queued on the device
is waited for, as transfers still read the memory: a kernel that was begun cannot be stopped.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time

import fake_cupy
import numpy as np
import pytest
from cuda_udfs import CUPY, NAV, SIG, Tiles, check, check_released, check_spare
from sparse_files import counts

import framefold as ff
from framefold.exceptions import UDFRunCancelled

#: How long a run may go on, in seconds; whole ones would take minutes. Machines may be busy.
SOON = 2.0

EITHER = ("numpy", CUPY)


@pytest.fixture
def data():
    return counts((*NAV, *SIG), "uint16")


@pytest.fixture
def many(ctx):
    """Frames for minutes, in one partition for each worker."""
    return ctx.load("memory", data=np.ones((100, 100, *SIG), np.uint16), num_partitions=3)


class Slow(Tiles):
    """Says when it has begun with a tile."""

    def get_task_data(self):
        return {}

    def process_tile(self, tile):
        self.params.gate.set()
        self.add(tile, len(tile))


def stop(begun, act, waits=0.1):
    """Have a thread act some time after a run has begun; gives when it did."""
    at = []

    def wait_and_act():
        begun.wait(20)
        time.sleep(waits)
        at.append(time.monotonic())
        act()

    threading.Thread(target=wait_and_act, daemon=True).start()
    return at


@pytest.mark.skipif(sys.platform == "win32", reason="signals work differently there")
@pytest.mark.parametrize("kind", ["kernel", "copy"])
def test_ctrl_c_while_the_device_computes_or_a_worker_waits_for_a_transfer(
    ctx, monkeypatch, many, kind, data
):
    machine = fake_cupy.install(monkeypatch)
    machine.seconds[kind] = 0.02
    begun = threading.Event()
    at = stop(begun, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt) as interrupted:
        ctx.run_udf(many, Slow(gate=begun))
    assert time.monotonic() - at[0] < SOON
    interrupted.value.with_traceback(None)
    del interrupted
    machine.seconds.clear()
    check_released(machine)
    check(ctx.run_udf(ctx.load("memory", data=data, num_partitions=3), Tiles()), data)


@pytest.mark.parametrize("kind", ["kernel", "copy"])
def test_cancellation_from_another_thread(ctx, monkeypatch, many, kind):
    machine = fake_cupy.install(monkeypatch)
    machine.seconds[kind] = 0.02
    begun = threading.Event()
    steps = ctx.run_udf_iter(many, Slow(gate=begun))
    at = stop(begun, steps.cancel)
    with pytest.raises(UDFRunCancelled) as cancelled:
        list(steps)
    assert time.monotonic() - at[0] < SOON
    cancelled.value.with_traceback(None)
    del cancelled, steps
    machine.seconds.clear()
    check_released(machine)


def test_a_run_that_is_left_on_a_device_that_breaks(ctx, machine, many):
    """Nothing hangs, and nothing is raised that hides why the run was left."""
    begun = threading.Event()
    steps = ctx.run_udf_iter(many, Slow(gate=begun))

    def act(cancel=steps.cancel):
        machine.fail("now")
        cancel()

    at = stop(begun, act, 0)
    with pytest.raises((UDFRunCancelled, ff.exceptions.DeviceError)) as ended:
        list(steps)
    assert time.monotonic() - at[0] < SOON
    ended.value.with_traceback(None)
    if ended.value.__cause__ is not None:
        ended.value.__cause__.with_traceback(None)
    del ended, steps
    gc.collect()
    assert machine.live_bytes() == 0
    check_spare(machine)
    assert machine.n_destroyed_broken == 0


def test_ctrl_c_where_only_some_workers_have_a_device(monkeypatch):
    machine = fake_cupy.install(monkeypatch, n_devices=2)
    machine.seconds["kernel"] = 0.02
    with ff.Context.make_with("threads", cpus=2, gpus=[0, 1]) as context:
        frames = np.ones((100, 100, *SIG), np.uint16)
        dataset = context.load("memory", data=frames, num_partitions=8)
        begun = threading.Event()
        steps = context.run_udf_iter(dataset, Slow(EITHER, gate=begun))
        at = stop(begun, steps.cancel)
        with pytest.raises(UDFRunCancelled) as cancelled:
            list(steps)
        assert time.monotonic() - at[0] < SOON
        cancelled.value.with_traceback(None)
        del cancelled, steps
        machine.seconds.clear()
        check_released(machine)
