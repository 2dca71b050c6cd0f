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
from framefold.executor._dask.work import Answer, FirstBatch, ShippedRun
from framefold.executor._wire.runs import Shipment
from framefold.executor.dask import DaskJobExecutor
from framefold.udf.sum import SumUDF

pytestmark = pytest.mark.usefixtures("hard_limit")


@pytest.fixture
def first(monkeypatch):
    """What a worker makes of a first batch; its answers say which parameters they know."""
    monkeypatch.setattr(ShippedRun, "_prepare", lambda _self, changes: Answer(results=[changes]))

    def made(changes):
        shipment = Shipment("version", ([], False), "fingerprint", b"data", b"rest")
        run = ShippedRun("1", None, shipment)
        batch = FirstBatch(pickle.dumps(run), [3, 4], changes, (0.5, 100), None)
        return pickle.loads(pickle.dumps(batch))

    return made


def test_it_is_called_by_unpickling(first):
    for changes in (None, (2, b"later")):
        run = first(changes)
        assert run.answer.results == [changes]
        assert run([5], (3, b"last"), (0.5, 100), None).results == [(3, b"last")]


def test_what_was_fetched_is_not_kept(first):
    run = first(None)
    run([5], None, (0.5, 100), None)
    assert run.answer is not None  # it has not been sent yet
    there, again = (pickle.loads(pickle.dumps(run)) for _ in range(2))  # Dask may do it twice
    assert there.answer == again.answer == Answer(results=[None])
    run([5], None, (0.5, 100), None)
    assert run.answer is None
    # The run can be made anew from it.
    assert there.shipment == run.shipment
    assert there([7], (2, b"later"), (0.5, 100), None).results == [(2, b"later")]


def test_a_run_that_dask_brought_to_disk_goes_on(local, inline, tmp_path):  # noqa: F811
    def spill(frame):
        from distributed import get_worker

        data = get_worker().data
        for key in list(data):
            value = data.get(key)  # the worker's own thread may have dropped it by now
            if type(value).__name__ == "ShippedRun":
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
