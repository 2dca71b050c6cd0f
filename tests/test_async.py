"""Runs beside an event loop."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import time
from typing import ClassVar

import numpy as np
import pytest

import framefold as ff
from framefold.common.progress import ProgressReporter
from framefold.exceptions import InvalidArgumentError, UDFRunCancelled
from framefold.udf import UDF
from framefold.viz.base import Dummy2DPlot


class Slow(UDF):
    """10 ms per frame; notes which frames it has seen: not all of them if its run was stopped."""

    seen: ClassVar[list[int]] = []

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.seen.append(self.meta.slice.origin[0])
        time.sleep(0.01)
        self.results.x[:] = 1


class Slower(Slow):
    """As slow for some partitions, and then 2 s for each, in steps of 0.2 s."""

    def process_frame(self, frame):
        super().process_frame(frame)
        if self.meta.coordinates[0, 0] >= 40:
            time.sleep(0.2)


#: Of the slow data set.
N_FRAMES = 4000


@pytest.fixture
def slow_dataset(ctx):
    """First partitions of 0.1 s each, 40 s in all."""
    data = np.zeros((N_FRAMES, 4, 4), dtype=np.float32)
    Slow.seen.clear()
    return ctx.load("memory", data=data, num_partitions=400)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    gc.collect()
    for thread in workers():  # each ends by itself once its run is cancelled
        thread.join(60)
    assert workers() == []


def workers():
    return [t for t in threading.enumerate() if t.name.startswith("framefold")]


def test_the_same_results(ctx, dataset):
    udfs = [ff.SumUDF(), ff.StdDevUDF(), ff.SumSigUDF()]
    expected = ctx.run_udf(dataset, udfs)

    async def main():
        coroutine = ctx.run_udf(dataset, udfs, sync=False)
        assert inspect.iscoroutine(coroutine)
        complete = await coroutine
        n_steps = 0
        last = None
        async for results in ctx.run_udf_iter(dataset, udfs, sync=False):
            last = results
            n_steps += 1
        single = await ctx.run_udf(dataset, ff.SumUDF(), sync=False)
        return complete, last, n_steps, single

    complete, last, n_steps, single = asyncio.run(main())
    assert n_steps == 5
    assert isinstance(complete, tuple)
    for found in (complete, last.buffers):
        for mine, wanted in zip(found, expected, strict=True):
            for name in wanted:
                assert mine[name].data.tobytes() == wanted[name].data.tobytes()
    assert last.damage.data.all()
    assert single["intensity"].data.tobytes() == expected[0]["intensity"].data.tobytes()


def test_partial_results(ctx, dataset, data):
    flat = data.reshape(42, -1).sum(axis=1)

    async def main():
        counts = []
        async for results in ctx.run_udf_iter(dataset, ff.SumSigUDF(), sync=False):
            count = np.count_nonzero(results.damage.raw_data)
            assert np.array_equal(results[0]["intensity"].raw_data[:count], flat[:count])
            counts.append(count)
        return counts

    counts = asyncio.run(main())
    assert len(counts) == 5
    assert counts == sorted(set(counts))
    assert counts[-1] == 42


def test_the_loop_goes_on(ctx, slow_dataset):
    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        ticking = asyncio.create_task(tick())
        roi = np.arange(4000) < 40
        await ctx.run_udf(slow_dataset, Slow(), roi=roi, sync=False)
        ticking.cancel()
        return ticks

    assert asyncio.run(main()) > 10


def test_arguments_are_checked_before_anything_is_awaited(ctx, dataset):
    with pytest.raises(InvalidArgumentError, match="pass an instance"):
        ctx.run_udf(dataset, Slow, sync=False)
    with pytest.raises(InvalidArgumentError, match="pass an instance"):
        ctx.run_udf_iter(dataset, Slow, sync=False)


def test_aclose(ctx, slow_dataset):
    async def main():
        steps = ctx.run_udf_iter(slow_dataset, Slow(), sync=False)
        assert aiter(steps) is steps
        await anext(steps)
        assert await steps.aclose() is None
        assert len(Slow.seen) < N_FRAMES
        assert [t for t in workers() if "async" not in t.name] == []
        with pytest.raises(StopAsyncIteration):
            await anext(steps)
        await steps.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("exception", [ValueError("mine"), UDFRunCancelled("mine")])
def test_athrow(ctx, slow_dataset, exception):
    async def main():
        steps = ctx.run_udf_iter(slow_dataset, Slow(), sync=False)
        await anext(steps)
        with pytest.raises(type(exception), match="mine") as caught:
            await steps.athrow(exception)
        assert caught.value is exception
        assert len(Slow.seen) < N_FRAMES
        with pytest.raises(StopAsyncIteration):
            await anext(steps)

    asyncio.run(main())


def test_closing_while_results_are_awaited(ctx, slow_dataset):
    async def main():
        steps = ctx.run_udf_iter(slow_dataset, Slower(), sync=False)
        for _ in range(4):
            await anext(steps)  # the next one takes 2 s

        async def consume():
            async for _ in steps:
                pass

        consuming = asyncio.create_task(consume())
        await asyncio.sleep(0.15)
        await steps.aclose()
        with pytest.raises(UDFRunCancelled):
            await consuming
        assert len(Slow.seen) < N_FRAMES

    asyncio.run(main())


@pytest.mark.parametrize("call", ["run_udf", "run_udf_iter"])
def test_a_cancelled_task_stops_its_run(ctx, slow_dataset, call):
    async def consume():
        if call == "run_udf":
            await ctx.run_udf(slow_dataset, Slow(), sync=False)
        else:
            async for _ in ctx.run_udf_iter(slow_dataset, Slow(), sync=False):
                pass

    async def main():
        task = asyncio.create_task(consume())
        await asyncio.sleep(0.25)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(Slow.seen) < N_FRAMES
        assert [t for t in workers() if "async" not in t.name] == []

    asyncio.run(main())


def test_a_task_that_is_cancelled_twice(ctx, slow_dataset):
    async def main():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: said.append(context["message"]))
        task = asyncio.create_task(ctx.run_udf(slow_dataset, Slow(), sync=False))
        await asyncio.sleep(0.1)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        gc.collect()
        await asyncio.sleep(0)

    said = []
    asyncio.run(main())
    assert said == []


def test_timeouts(ctx, slow_dataset):
    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ctx.run_udf(slow_dataset, Slow(), sync=False), 0.2)
        assert len(Slow.seen) < N_FRAMES

    asyncio.run(main())


def test_a_dropped_generator_stops(ctx, slow_dataset):
    async def main():
        steps = ctx.run_udf_iter(slow_dataset, Slow(), sync=False)
        await anext(steps)
        del steps

    asyncio.run(main())
    gc.collect()
    time.sleep(0.1)
    assert [t for t in workers() if "async" not in t.name] == []


def test_async_with(ctx, slow_dataset):
    async def main():
        async with ctx.run_udf_iter(slow_dataset, Slow(), sync=False) as steps:
            async for _ in steps:
                break
        with pytest.raises(StopAsyncIteration):
            await anext(steps)

    asyncio.run(main())


def test_exceptions_come_back_as_themselves(ctx, dataset):
    class Failing(Slow):
        def process_frame(self, frame):
            if self.meta.slice.origin[0] == 30:
                raise KeyError("broken here")

    async def main():
        with pytest.raises(KeyError, match="broken here") as caught:
            await ctx.run_udf(dataset, Failing(), sync=False)
        assert any("Failing" in note for note in caught.value.__notes__)
        n_steps = 0
        with pytest.raises(KeyError, match="broken here"):  # noqa: PT012
            async for _ in ctx.run_udf_iter(dataset, Failing(), sync=False):
                n_steps += 1
        assert 0 < n_steps < 5

    asyncio.run(main())


def test_an_exception_that_ends_loops(ctx, dataset):
    class Failing(Slow):
        def process_frame(self, frame):
            if self.meta.slice.origin[0] == 30:
                raise StopAsyncIteration

    async def main():
        with pytest.raises(RuntimeError, match="a function raised StopAsync") as caught:
            async for _ in ctx.run_udf_iter(dataset, Failing(), sync=False):
                pass
        assert any("Failing" in note for note in caught.value.__notes__)

    asyncio.run(main())


def test_several_runs_at_once(ctx, dataset, data):
    async def main():
        return await asyncio.gather(
            *(ctx.run_udf(dataset, ff.SumUDF(), sync=False) for _ in range(5))
        )

    for results in asyncio.run(main()):
        assert np.array_equal(results["intensity"].data, data.sum(axis=(0, 1)))


def test_plots_are_drawn_on_the_thread_of_the_loop(ctx, dataset):
    threads = []

    class Plot(Dummy2DPlot):
        def update(self, damage, force=False):
            threads.append((threading.current_thread(), force))

    udf = ff.SumUDF()
    plots = [Plot(dataset, udf)]

    async def main():
        await ctx.run_udf(dataset, udf, plots=plots, sync=False)
        async for _ in ctx.run_udf_iter(dataset, udf, plots=plots, sync=False):
            pass
        with pytest.warns(UserWarning, match="selects no position"):
            await ctx.run_udf(dataset, udf, roi=[], plots=plots, sync=False)

    asyncio.run(main())
    assert [force for _, force in threads] == [*[False, False, False, False, True] * 2, True]
    assert {thread for thread, _ in threads} == {threading.main_thread()}


def test_progress_and_parameters(ctx, dataset):
    class Recorder(ProgressReporter):
        def __init__(self):
            self.kinds = []

        def start(self, state):
            self.kinds.append("start")

        def update(self, state):
            self.kinds.append(state.num_part_complete)

        def end(self, state):
            self.kinds.append("end")

    async def main():
        recorder = Recorder()
        await ctx.run_udf(dataset, ff.SumUDF(), progress=recorder, sync=False)
        assert recorder.kinds == ["start", 1, 2, 3, 4, 5, "end"]
        steps = ctx.run_udf_iter(dataset, Slow(), progress=recorder, sync=False)
        with pytest.raises(InvalidArgumentError, match="for 2 UDFs, but 1"):
            await steps.update_parameters_experimental([{}, {}])
        await steps.update_parameters_experimental([{}])
        await anext(steps)
        await steps.aclose()
        assert recorder.kinds[7:] == ["start", 1, "end"]

    asyncio.run(main())


def test_results_are_computed_beside_the_loop(ctx, dataset):
    places = []

    class Computes(UDF):
        def __init__(self, value=0):
            super().__init__(value=value)

        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def process_frame(self, frame):
            self.results.x[:] = self.params.value

        def get_results(self):
            places.append(threading.current_thread().name)
            return {"x": self.results.x}

    def value(array):
        places.append(threading.current_thread().name)
        return array.max()

    udf = Computes()
    asyncio.run(ctx.run_udf(dataset, udf, sync=False))
    asyncio.run(ctx.run_udf(dataset, Computes(ff.from_result(udf, "x", value)), sync=False))
    assert len(places) == 4
    assert all(name.startswith("framefold-async") for name in places)


@pytest.mark.parametrize("how", ["aclose", "athrow"])
def test_a_loop_that_another_task_ends_is_not_complete(ctx, dataset, how):
    async def main():
        async def close_and_go_on():
            if how == "aclose":
                await steps.aclose()
            else:
                with pytest.raises(LookupError):
                    await steps.athrow(LookupError())
            closed.set()
            await heard.wait()

        steps = ctx.run_udf_iter(dataset, ff.SumSigUDF(), sync=False)
        await anext(steps)
        closed, heard = asyncio.Event(), asyncio.Event()
        other = asyncio.create_task(close_and_go_on())
        await closed.wait()
        with pytest.raises(UDFRunCancelled, match="another task"):
            await anext(steps)
        heard.set()
        await other
        assert [results async for results in steps] == []
        # A task that only waits for the close is this one's doing.
        for by_a_task in (False, True):
            steps = ctx.run_udf_iter(dataset, ff.SumSigUDF(), sync=False)
            await asyncio.wait_for(anext(steps), 60)
            await (asyncio.wait_for(steps.aclose(), 60) if by_a_task else steps.aclose())
            assert [results async for results in steps] == []

    asyncio.run(main())


@pytest.mark.parametrize("exception", [StopIteration, StopAsyncIteration])
def test_a_plot_that_ends_loops(ctx, dataset, exception):
    class Broken(Dummy2DPlot):
        def update(self, damage, force=False):
            raise exception

    async def main():
        udf = ff.SumSigUDF()
        steps = ctx.run_udf_iter(dataset, udf, plots=[Broken(dataset, udf)], sync=False)
        with pytest.raises(RuntimeError, match=exception.__name__):
            _ = [results async for results in steps]
        with pytest.raises(RuntimeError, match=exception.__name__):
            await ctx.run_udf(dataset, udf, plots=[Broken(dataset, udf)], sync=False)

    asyncio.run(main())
