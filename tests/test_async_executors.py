"""Runs beside an event loop, on every executor."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
from process_cases import eventually, hard_limit  # noqa: F401 - a fixture

import framefold as ff
from framefold.exceptions import UDFRunCancelled
from framefold.executor import auto
from framefold.udf import UDF

pytestmark = pytest.mark.usefixtures("hard_limit")

N_FRAMES = 120


class Slow(UDF):
    """10 ms per frame."""

    def __init__(self, offset=0, seconds=0.01):
        super().__init__(offset=offset, seconds=seconds)

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        time.sleep(self.params.seconds)
        self.results.x[:] = frame.sum() + self.params.offset


@pytest.fixture(scope="module", params=["inline", "threads", "processes", "auto"])
def ctx(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto, "PATIENCE", 0.0)
        with ff.Context.make_with(request.param, cpus=2) as context:
            yield context


@pytest.fixture
def dataset(ctx):
    data = np.arange(N_FRAMES * 16, dtype=np.float64).reshape(N_FRAMES, 4, 4)
    return ctx.load("memory", data=data, num_partitions=20)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert eventually(
        lambda: not [t for t in threading.enumerate() if t.name.startswith("framefold")]
    )


def sums(offset):
    return (np.arange(N_FRAMES * 16.0).reshape(N_FRAMES, 16).sum(axis=1) + offset).tolist()


def test_two_runs_at_once(ctx, dataset):
    """Their steps alternate, the loop goes on, and both have the right results."""
    order = []
    ticks = 0

    async def follow(offset):
        latest = None
        async for results in ctx.run_udf_iter(dataset, Slow(offset), sync=False):
            order.append(offset)
            latest = results
        return latest[0]["x"].data.tolist()

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    async def main():
        ticking = asyncio.create_task(tick())
        results = await asyncio.gather(follow(1), follow(2))
        ticking.cancel()
        return results

    assert asyncio.run(main()) == [sums(1), sums(2)]
    assert order.count(1) == order.count(2) == 20
    # Neither waits for the end of the other.
    assert order.index(2) < 20
    assert order.index(1) < 20
    assert ticks > 20


def test_several_runs_and_a_blocking_one(ctx, dataset):
    async def main():
        runs = [ctx.run_udf(dataset, Slow(n, 0.001), sync=False) for n in range(4)]
        tasks = [asyncio.create_task(run) for run in runs]
        await asyncio.sleep(0)
        here = ctx.run_udf(dataset, Slow(7, 0.001))["x"].data.tolist()
        return here, [result["x"].data.tolist() for result in await asyncio.gather(*tasks)]

    here, others = asyncio.run(main())
    assert here == sums(7)
    assert others == [sums(n) for n in range(4)]


def test_one_is_cancelled_and_the_other_goes_on(ctx, dataset):
    async def main():
        endless = ctx.load("memory", data=np.zeros((100_000, 4, 4)), num_partitions=1000)
        stopped = asyncio.create_task(ctx.run_udf(endless, Slow(), sync=False))
        other = asyncio.create_task(ctx.run_udf(dataset, Slow(3), sync=False))
        await asyncio.sleep(0.2)
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        return (await other)["x"].data.tolist()

    assert asyncio.run(main()) == sums(3)


def test_one_is_closed_while_the_other_waits(ctx, dataset):
    async def main():
        steps = ctx.run_udf_iter(dataset, Slow(1), sync=False)
        other = asyncio.create_task(ctx.run_udf(dataset, Slow(2), sync=False))
        await anext(steps)
        await steps.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(steps)
        return (await other)["x"].data.tolist()

    assert asyncio.run(main()) == sums(2)


def test_an_exception_ends_one_of_them(ctx, dataset):
    class Failing(Slow):
        def process_frame(self, frame):
            super().process_frame(frame)
            if self.meta.slice.origin[0] == 70:
                raise KeyError("broken here")

    async def main():
        failing = ctx.run_udf(dataset, Failing(), sync=False)
        good = ctx.run_udf(dataset, Slow(2), sync=False)
        return await asyncio.gather(failing, good, return_exceptions=True)

    failure, good = asyncio.run(main())
    assert isinstance(failure, KeyError)
    assert "partition" in "".join(failure.__notes__)
    assert good["x"].data.tolist() == sums(2)


def test_a_loop_on_another_thread(ctx, dataset):
    outcomes = []

    def run():
        outcomes.append(asyncio.run(ctx.run_udf(dataset, Slow(4, 0.001), sync=False)))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome["x"].data.tolist() for outcome in outcomes] == [sums(4)] * 2


def test_closing_the_context_ends_them():
    async def main(ctx):
        dataset = ctx.load("memory", data=np.zeros((100_000, 4, 4)), num_partitions=1000)
        runs = [asyncio.create_task(ctx.run_udf(dataset, Slow(), sync=False)) for _ in range(2)]
        await asyncio.sleep(0.5)
        await asyncio.to_thread(ctx.close)
        return await asyncio.gather(*runs, return_exceptions=True)

    with ff.Context.make_with("processes", cpus=2) as ctx:
        failures = asyncio.run(main(ctx))
    assert [type(failure) for failure in failures] == [UDFRunCancelled] * 2
