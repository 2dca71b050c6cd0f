"""Dask workers that are stopped, and keep the results of others from arriving."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import contextmanager

import pytest
from process_cases import (
    Numbers,
    PerFrame,
    eventually,
    frames,
    hard_limit,  # noqa: F401 - a fixture
    sleepy,
)

pytest.importorskip("distributed")

from dask_cases import (
    assert_usable,
    connected_to,
    local,  # noqa: F401 - a fixture
)
from distributed import client as dask_client

import framefold as ff
from framefold.exceptions import WorkerError

if sys.platform != "linux":
    pytest.skip("stops processes", allow_module_level=True)


class Both(Numbers):
    """The number of each frame, and the sum of them; each takes its time."""

    def __init__(self, action):
        super(Numbers, self).__init__(action=action)

    def get_result_buffers(self):
        total = self.buffer(kind="single", dtype="int64")
        return {**super().get_result_buffers(), "total": total}

    def process_frame(self, frame):
        self.params.action(frame)
        super().process_frame(frame)
        self.results.total[:] += self.meta.slice.origin[0]

    def merge(self, dest, src):
        dest.number[:] = src.number
        dest.total[:] += src.total


pytestmark = pytest.mark.usefixtures("hard_limit")


@contextmanager
def stopped_from_now_on(executor, monkeypatch, which):
    """One worker is stopped, and the first result of the other one does not arrive.

    As if Dask had begun to bring it together with a result of the one that is stopped.
    """
    gather = dask_client.gather_from_workers
    left, hung = asyncio.Event(), []
    client = executor.client
    pids = list(client.run(os.getpid).items())
    (_, stopped), (other, _) = pids[which], pids[1 - which]

    async def but_the_first(who_has, **options):
        if not hung and any(other in addresses for addresses in who_has.values()):
            hung.append(who_has)
            await left.wait()
        return await gather(who_has, **options)

    monkeypatch.setattr("framefold.executor._dask.feed.LATE", 0.1)
    monkeypatch.setattr("framefold.executor._dask.feed.LATE_FIRST", 0.5)
    monkeypatch.setattr(dask_client, "gather_from_workers", but_the_first)
    os.kill(stopped, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(stopped, signal.SIGCONT)
        client.loop.add_callback(left.set)
    assert hung


def test_a_result_that_does_not_arrive_while_others_are_stopped(local, monkeypatch):  # noqa: F811
    local.executor.client.wait_for_workers(2, 40)
    with local.run_udf_iter(frames(local, 80, 40), PerFrame(sleepy)) as steps:
        for _ in range(10):
            next(steps)
        with stopped_from_now_on(local.executor, monkeypatch, 0):
            *_, results = steps
    assert results.damage.data.all()
    assert_usable(local)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("long", [1.0, 0.0])
def test_a_first_result_that_does_not_arrive(local, monkeypatch, which, long):  # noqa: F811
    """Of a worker that has planned the run, while the other one, which has partitions, does not.

    Where partitions take long, a worker gets no other one before it is done with the first.
    """
    monkeypatch.setattr("framefold.executor._dask.workers.LONG", long)
    local.executor.client.wait_for_workers(2, 40)
    udf = Both(sleepy)
    with stopped_from_now_on(local.executor, monkeypatch, which):
        results = local.run_udf(frames(local, 40, 20), udf)
    assert results["number"].data.tolist() == list(range(40))
    assert results["total"].data.tolist() == [sum(range(40))]
    assert_usable(local)


def test_a_client_that_brings_no_results_any_more(local, monkeypatch):  # noqa: F811
    """Dask brings no more than five at a time, and none after one was cancelled that waited."""
    local.executor.client.wait_for_workers(2, 40)
    executor = connected_to(local.executor, direct_to_workers=True)
    client = executor.client

    async def never(_who_has, **_options):
        await asyncio.Event().wait()

    async def cancel_one_that_waits():
        tasks = []
        for future in futures:
            tasks.append(asyncio.ensure_future(client.gather([future], asynchronous=True)))
            await asyncio.sleep(0.01)
        for task in reversed(tasks):
            task.cancel()
        await asyncio.wait(tasks)

    futures = [client.submit(abs, number, pure=False) for number in range(6)]
    assert eventually(lambda: all(future.status == "finished" for future in futures))
    with monkeypatch.context() as patched:
        patched.setattr(dask_client, "gather_from_workers", never)
        client.sync(cancel_one_that_waits)
    with ff.Context(executor=executor) as context, pytest.raises(WorkerError, match="make another"):
        context.run_udf(frames(context), PerFrame(sleepy))
    assert_usable(local)
