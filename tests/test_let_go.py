"""Runs are let go of when they end, however that is: nothing of them waits for the collector.

They hold result buffers and partial results, which may be large.
"""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

import numpy as np
import pytest
from process_cases import eventually
from sample_udfs import Level
from shared_contexts import shared

from framefold.exceptions import UDFRunCancelled
from framefold.executor import _tasks
from framefold.run import plan

KINDS = (plan.Run, _tasks.Tasks, Level)


class Failing(Level):
    def process_frame(self, frame):
        if self.meta.slice.origin[0] == 41:
            raise ZeroDivisionError
        super().process_frame(frame)


def to_end(ctx, dataset, udf):
    ctx.run_udf(dataset, [udf])


def fail(ctx, dataset, udf):
    with pytest.raises(ZeroDivisionError):
        ctx.run_udf(dataset, [Failing(offset=1), udf])


def drop(ctx, dataset, udf):
    steps = ctx.run_udf_iter(dataset, [udf])
    next(steps)
    del steps


def close(ctx, dataset, udf):
    with ctx.run_udf_iter(dataset, [udf]) as steps:
        next(steps)


def cancel(ctx, dataset, udf):
    steps = ctx.run_udf_iter(dataset, [udf])
    next(steps)
    steps.cancel()
    with suppress(UDFRunCancelled):  # the rest may have been done ahead
        for _ in steps:
            pass


def fail_in_a_loop(ctx, dataset, udf):
    async def main():
        # What asyncio.run itself raises refers to itself.
        with pytest.raises(ZeroDivisionError):
            await ctx.run_udf(dataset, [Failing(offset=1), udf], sync=False)

    asyncio.run(main())


def held():
    return sum(isinstance(thing, KINDS) for thing in gc.get_objects())


@pytest.mark.parametrize("way", [to_end, fail, drop, close, cancel, fail_in_a_loop])
@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "auto"])
def test_nothing_of_a_run_waits_for_the_collector(executor, way):
    data = np.zeros((60, 160, 160), dtype=np.float32)
    gc.collect()
    gc.disable()
    before = held()
    try:
        with shared(executor, cpus=2) as ctx:
            dataset = ctx.load("memory", data=data, num_partitions=20)
            for offset in range(2):
                way(ctx, dataset, Level(offset=offset))
                # The thread of worker processes takes notice a little later.
                assert eventually(lambda: held() <= before), (before, held())
    finally:
        gc.enable()
