"""Clusters that adapt to their work know how many workers a run has a use for."""

from __future__ import annotations

import time

import numpy as np
import pytest
from process_cases import (
    eventually,
    hard_limit,  # noqa: F401 - a fixture
)

import framefold as ff
from framefold.executor.dask import DaskJobExecutor
from framefold.udf import UDF

pytest.importorskip("distributed")

import distributed

from framefold.executor._dask.resources import Demand
from framefold.executor._dask.workers import MOST_WISHES, demand

pytestmark = pytest.mark.usefixtures("hard_limit")


class Slow(UDF):
    def __init__(self, seconds):
        super().__init__(seconds=seconds)

    def get_result_buffers(self):
        return {"sum": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        time.sleep(self.params.seconds)
        self.results.sum[:] = frame.sum()


@pytest.fixture
def adaptive():
    """A client of a cluster that begins without workers."""
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        cluster.adapt(minimum=0, maximum=2, interval="100ms", target_duration="1s")
        yield client


def scheduled(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


def test_workers_are_started_for_a_run(adaptive):
    data = np.arange(64 * 16, dtype=np.float64).reshape((8, 8, 4, 4))
    with ff.Context(executor=DaskJobExecutor(adaptive)) as ctx:
        dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=64)
        assert not adaptive.nthreads()
        most = 0
        sums = None
        for step in ctx.run_udf_iter(dataset=dataset, udf=Slow(0.15)):
            most = max(most, len(adaptive.nthreads()))
            sums = step.buffers[0]["sum"].data
        assert np.array_equal(sums, data.sum(axis=(2, 3)))
        assert most == 2
        assert eventually(lambda: scheduled(adaptive) == 0)


def test_what_is_asked_for():
    # Without workers, for all that is left; with some, where it takes them long.
    assert demand(40, None, 0) == 40
    assert demand(10_000, 0.2, 0) == MOST_WISHES
    assert demand(40, None, 2) == 0
    assert demand(40, 0.2, 2) == 0
    assert demand(40, 0.3, 2) == 24
    assert demand(40, 3.0, 2) == 40
    assert demand(0, 3.0, 2) == 0


def test_few_tasks_are_taken_back():
    class Things:
        def __init__(self):
            self.n_made, self.n_there = 0, 0

        def wish(self):
            self.n_made += 1
            self.n_there += 1
            return object()

        def release(self, *futures):
            self.n_there -= len(futures)

    resources = Things()
    demanded = Demand(resources)
    for n_tasks, n_there in [(0, 0), (10, 10), (9, 10), (6, 10), (5, 5), (7, 7), (0, 0)]:
        demanded.set_n_tasks(n_tasks)
        assert resources.n_there == n_there
    assert resources.n_made == 12
