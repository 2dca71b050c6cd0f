"""What every executor does beside an event loop."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
from executor_cases import UDFS, assert_same, load
from process_cases import eventually
from sample_udfs import Level

from framefold.udf import UDF

N_FRAMES = 60


class Slow(UDF):
    """10 ms per frame."""

    def __init__(self, offset=0, seconds=0.01):
        super().__init__(offset=offset, seconds=seconds)

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        time.sleep(self.params.seconds)
        self.results.x[:] = frame.sum() + self.params.offset


class FailingLate(Slow):
    def process_frame(self, frame):
        super().process_frame(frame)
        if self.meta.slice.origin[0] == 35:
            raise KeyError("broken here")


def ramp(context):
    data = np.arange(N_FRAMES * 16, dtype=np.float64).reshape(N_FRAMES, 4, 4)
    return context.load("memory", data=data, num_partitions=20)


def endless(context):
    return context.load("memory", data=np.zeros((100_000, 4, 4)), num_partitions=1000)


def sums(offset):
    return (np.arange(N_FRAMES * 16.0).reshape(N_FRAMES, 16).sum(axis=1) + offset).tolist()


class Async:
    """Runs beside an event loop."""

    @pytest.fixture(autouse=True)
    def no_thread_is_left(self, subject):
        before = {t for t in threading.enumerate() if t.name.startswith("framefold")}
        yield
        assert subject.forgotten is not None or eventually(
            lambda: (
                not {t for t in threading.enumerate() if t.name.startswith("framefold")} - before
            )
        )

    def test_within_a_running_event_loop(self, ctx, inline, tmp_path):
        dataset = load("raw", "uint16", inline, tmp_path)
        wanted = inline.run_udf(dataset, UDFS["python"]())

        async def main():
            blocking = ctx.run_udf(dataset, UDFS["python"]())
            return blocking, await ctx.run_udf(dataset, UDFS["python"](), sync=False)

        for results in asyncio.run(main()):
            assert_same(results, wanted)

    def test_several_runs_from_one_event_loop(self, ctx, inline, tmp_path):
        dataset = load("memory", "uint16", inline, tmp_path)

        async def main():
            runs = [ctx.run_udf(dataset, Level(offset=n), sync=False) for n in range(3)]
            seen = [results async for results in ctx.run_udf_iter(dataset, Level(), sync=False)]
            return await asyncio.gather(*runs), seen

        several, seen = asyncio.run(main())
        for n, results in enumerate(several):
            assert_same([results], [inline.run_udf(dataset, Level(offset=n))])
        assert_same([seen[-1][0]], [inline.run_udf(dataset, Level())])
        assert len(seen) == 5

    def test_two_runs_at_once(self, ctx):
        """Their steps alternate, the loop goes on, and both have the right results."""
        dataset = ramp(ctx)
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
        assert ticks > 10

    def test_several_runs_and_a_blocking_one(self, ctx):
        dataset = ramp(ctx)

        async def main():
            runs = [ctx.run_udf(dataset, Slow(n, 0.001), sync=False) for n in range(4)]
            tasks = [asyncio.create_task(run) for run in runs]
            await asyncio.sleep(0)
            here = ctx.run_udf(dataset, Slow(7, 0.001))["x"].data.tolist()
            return here, [result["x"].data.tolist() for result in await asyncio.gather(*tasks)]

        here, others = asyncio.run(main())
        assert here == sums(7)
        assert others == [sums(n) for n in range(4)]

    def test_one_is_cancelled_and_the_other_goes_on(self, ctx, subject):
        dataset = ramp(ctx)

        async def follow(steps):
            async for _ in steps:
                pass

        async def main():
            steps = ctx.run_udf_iter(endless(ctx), Slow(), sync=False)
            stopped = [asyncio.create_task(follow(steps))]
            if not subject.computes_later:
                whole = ctx.run_udf(endless(ctx), Slow(), sync=False)
                stopped.append(asyncio.create_task(whole))
            other = asyncio.create_task(ctx.run_udf(dataset, Slow(3), sync=False))
            await asyncio.sleep(0.2)
            for task in stopped:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            return (await other)["x"].data.tolist()

        assert asyncio.run(main()) == sums(3)

    def test_one_is_closed_while_the_other_waits(self, ctx):
        dataset = ramp(ctx)

        async def main():
            steps = ctx.run_udf_iter(dataset, Slow(1), sync=False)
            other = asyncio.create_task(ctx.run_udf(dataset, Slow(2), sync=False))
            await anext(steps)
            await steps.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(steps)
            return (await other)["x"].data.tolist()

        assert asyncio.run(main()) == sums(2)

    def test_an_exception_ends_one_of_them(self, ctx):
        dataset = ramp(ctx)

        async def failing():
            return (await ctx.run_udf(dataset, FailingLate(), sync=False))["x"].data

        async def main():
            good = ctx.run_udf(dataset, Slow(2), sync=False)
            return await asyncio.gather(failing(), good, return_exceptions=True)

        failure, good = asyncio.run(main())
        assert isinstance(failure, KeyError)
        assert "partition" in "".join(failure.__notes__)
        assert good["x"].data.tolist() == sums(2)

    def test_a_loop_on_another_thread(self, ctx):
        dataset = ramp(ctx)
        outcomes = []

        def run():
            outcomes.append(asyncio.run(ctx.run_udf(dataset, Slow(4, 0.001), sync=False)))

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [outcome["x"].data.tolist() for outcome in outcomes] == [sums(4)] * 2
