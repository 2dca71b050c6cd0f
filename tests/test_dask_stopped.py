"""Dask workers that are stopped, and keep the results of others from arriving."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest
from process_cases import (
    PerFrame,
    frames,
    hard_limit,  # noqa: F401 - a fixture
    sleepy,
)

pytest.importorskip("distributed")

from dask_cases import (
    assert_usable,
    local,  # noqa: F401 - a fixture
)
from distributed import client as dask_client

if sys.platform != "linux":
    pytest.skip("stops processes", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("hard_limit")


def test_a_result_that_does_not_arrive_while_others_are_stopped(local, monkeypatch):  # noqa: F811
    """As Dask has begun to bring it together with that of the one that is stopped."""
    gather = dask_client.gather_from_workers
    left, hung = asyncio.Event(), []
    client = local.executor.client
    client.wait_for_workers(2, 40)
    stopped, other = client.run(os.getpid).items()

    async def but_the_first(who_has, **options):
        if not hung and any(other[0] in addresses for addresses in who_has.values()):
            hung.append(who_has)
            await left.wait()
        return await gather(who_has, **options)

    monkeypatch.setattr("framefold.executor._dask.feed.LATE", 0.1)
    try:
        with local.run_udf_iter(frames(local, 80, 40), PerFrame(sleepy)) as steps:
            for _ in range(10):
                next(steps)
            os.kill(stopped[1], signal.SIGSTOP)
            monkeypatch.setattr(dask_client, "gather_from_workers", but_the_first)
            *_, results = steps
    finally:
        os.kill(stopped[1], signal.SIGCONT)
        client.loop.add_callback(left.set)
    assert hung
    assert results.damage.data.all()
    assert_usable(local)
