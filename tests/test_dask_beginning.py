"""The first task of a run on a Dask worker, whose result is the run."""

from __future__ import annotations

import os
import pickle

import pytest
from executor_cases import assert_same
from process_cases import (
    PerFrame,
    hard_limit,  # noqa: F401 - a fixture
)

pytest.importorskip("distributed")

from dask_cases import (
    assert_usable,
    inline,  # noqa: F401 - a fixture
    local,  # noqa: F401 - a fixture
    local_processes,
    raw_file,
)
from distributed import Client, LocalCluster

import framefold as ff
from framefold.executor._dask import first as beginning
from framefold.executor._dask.work import Answer, Planned
from framefold.executor.dask import DaskJobExecutor
from framefold.udf.sum import SumUDF

pytestmark = pytest.mark.usefixtures("hard_limit")


class Echo:
    """In place of a run."""

    def __call__(self, verb, *arguments):
        if verb == "prepare":
            return Planned("planned", "fingerprint", Answer([]), shares=True)
        return verb, *arguments


def test_it_is_called_by_unpickling():
    parts = beginning.FirstTask([3, 4], (0.5, 100), None)
    data = pickle.dumps(Echo())
    for changes in (None, (2, b"later")):
        stream, buffers = parts.arguments(data, changes)
        # What futures stand for gets there beside the pickle.
        assert data not in stream
        began = pickle.loads(stream, buffers=buffers)
        assert began("verb", 1) == ("verb", 1)
        assert began.planned.kind == "planned"


def test_what_was_fetched_is_not_kept():
    stream, buffers = beginning.FirstTask([], (0.5, 100), None).arguments(
        pickle.dumps(Echo()), None
    )
    began = pickle.loads(stream, buffers=buffers)
    assert began("process") == ("process",)
    assert began.planned.answer is not None  # nobody has it yet
    there = pickle.loads(pickle.dumps(began))
    assert there.planned.answer is not None
    assert began("process") == ("process",)
    assert began.planned.answer is None
    assert (began.planned.detail, began.planned.shares) == ("fingerprint", True)
    # And whoever has it can make the run anew.
    assert there("process", 7) == ("process", 7)


def test_a_run_that_dask_brought_to_disk_goes_on(local, inline, tmp_path):  # noqa: F811
    def spill(frame):
        from distributed import get_worker

        data = get_worker().data
        for key in list(data):
            value = data.get(key)  # the worker's own thread may have dropped it by now
            if type(value).__name__ == "FirstResult":
                data[key] = pickle.loads(pickle.dumps(value))
                (tmp_path / str(frame)).touch()

    dataset = raw_file(inline, tmp_path, num_partitions=42)
    results = local.run_udf(dataset, [PerFrame(spill), SumUDF()])
    assert any(path.name.isdecimal() for path in tmp_path.iterdir())
    assert set(results[0]["pid"].data.ravel()) <= set(local_processes(local.executor))
    assert os.getpid() not in results[0]["pid"].data
    assert_same(results[1:], inline.run_udf(dataset, [SumUDF()]))
    assert_usable(local)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_workers_in_this_process(inline, tmp_path, n_threads):  # noqa: F811
    """Nothing is pickled on the way; with more threads, the first batch is a task of its own."""
    dataset = raw_file(inline, tmp_path, num_partitions=42)
    with (
        LocalCluster(
            1, threads_per_worker=n_threads, processes=False, dashboard_address=":0"
        ) as here,
        Client(here, set_as_default=False) as client,
        ff.Context(executor=DaskJobExecutor(client)) as context,
    ):
        udfs = [PerFrame(abs), SumUDF()]
        results = context.run_udf(dataset, udfs)
    assert (results[0]["pid"].data == os.getpid()).all()
    assert_same(results[1:], inline.run_udf(dataset, udfs[1:]))
