"""Dask clusters give the results of one thread, bit for bit, and nothing is left of a run."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from executor_cases import UDFS, assert_same
from process_cases import (
    Numbers,
    frames,
    hard_limit,  # noqa: F401 - a fixture
)
from sample_udfs import Level

pytest.importorskip("distributed")

import dask
import dask.array
import distributed
from dask_cases import (
    connected,  # noqa: F401 - a fixture
    forgotten,
    inline,  # noqa: F401 - a fixture
    local,  # noqa: F401 - a fixture
    local_processes,
    raw_file,
)
from dask_scripts import workers_without_them

import framefold as ff
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.executor._dask.feed import Feed
from framefold.executor._dask.memory import BufferPool
from framefold.executor._dask.resources import RunResources, Transfers
from framefold.executor._dask.security import ClosedScheduler
from framefold.executor._dask.settings import quiet
from framefold.executor._dask.work import Answer, Busy, ShippedRun
from framefold.executor._dask.workers import (
    Batch,
    ClusterTasks,
    Participation,
    WorkerState,
    busy_with,
    have_begun,
)
from framefold.executor.concurrent import ConcurrentJobExecutor
from framefold.executor.dask import DaskJobExecutor, cluster_spec
from framefold.executor.inline import InlineJobExecutor
from framefold.executor.integration import get_dask_integration_executor
from framefold.executor.processes import ProcessJobExecutor

pytestmark = pytest.mark.usefixtures("hard_limit")


def test_many_partitions_travel_together(connected, inline):  # noqa: F811
    dataset = frames(inline, n_frames=3000, n_partitions=1500)
    expected = inline.run_udf(dataset, [Level(offset=2), Numbers()])
    assert_same(connected.run_udf(dataset, [Level(offset=2), Numbers()]), expected)


def test_runs_from_several_threads(local, connected, inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    expected = inline.run_udf(dataset, UDFS["mixed"]())
    results = []

    def run(context):
        results.extend(context.run_udf(dataset, UDFS["mixed"]()) for _ in range(2))

    threads = [threading.Thread(target=run, args=(c,)) for c in (local, connected, connected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    for result in results:
        assert_same(result, expected)


def test_nothing_is_left_of_a_run(local, connected, inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    connected.run_udf(dataset, Level())
    with connected.run_udf_iter(dataset, Level()) as steps:
        next(steps)
    assert forgotten(local.executor)
    assert connected.executor.client.futures == {}


def test_where_native_runs_go(local, connected, inline):  # noqa: F811
    dataset = frames(inline)
    local.executor.client.wait_for_workers(2, timeout=60)  # the second one may come later
    assert "threads: all UDFs run on native kernels" in local.explain(dataset, ff.SumUDF())
    for context, udf in ((local, Level()), (connected, ff.SumUDF())):
        assert "2 Dask workers with 2 threads" in context.explain(dataset, udf)


def test_its_processes_rest_while_there_is_nothing_to_do(local):  # noqa: F811
    def seen(dask_worker=None, dask_scheduler=None):
        import gc

        there = dask_worker or dask_scheduler
        assert "profile" not in there.periodic_callbacks
        n_kept = gc.get_freeze_count() if dask_worker is not None else None
        return there.periodic_callbacks["tick"].callback_time, gc.isenabled(), n_kept

    client = local.executor.client
    client.wait_for_workers(2, timeout=60)
    assert client.run_on_scheduler(seen)[0] >= 100
    interval = dask.config.get("distributed.admin.tick.interval")
    assert interval == "20ms", "that of the user's other clusters"
    found = client.run(seen).values()
    assert len(found) == 2
    for milliseconds, collects, n_kept in found:
        assert milliseconds >= 100
        assert collects
        assert n_kept > 10_000, "each collection looks at all that was imported"


def set_ticks(**times):
    return dask.config.set({f"distributed.admin.tick.{key}": each for key, each in times.items()})


def test_it_is_looked_often_where_short_delays_are_to_be_noticed():
    for limit, milliseconds in (("3s", "500"), ("10s", "500"), ("240ms", "40"), (30, "20")):
        with set_ticks(limit=limit):
            assert quiet()["distributed.admin.tick.interval"] == f"{milliseconds} ms"
    with set_ticks(interval="2s"):
        assert quiet()["distributed.admin.tick.interval"] == "2000 ms"


def test_clusters_that_start_at_once_leave_settings_as_they_are(monkeypatch):
    """The second one starts while the first one does, and is there later."""
    begun, seconds_begun, done = (threading.Event() for _ in range(3))

    def first(*_, **__):
        begun.set()
        seconds_begun.wait(0.3)

    def second(*_, **__):
        seconds_begun.set()
        done.wait(60)

    calls = iter((first, second))
    monkeypatch.setattr(distributed.Scheduler, "__init__", lambda *_: next(calls)())
    before = dict(dask.config.get("distributed.admin.tick"))
    threads = [threading.Thread(target=ClosedScheduler) for _ in range(2)]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    threads[0].join()
    done.set()
    threads[1].join()
    assert dask.config.get("distributed.admin.tick") == before


def test_several_threads_of_a_worker(inline, tmp_path):  # noqa: F811
    spec = cluster_spec(1, options={"nthreads": 3})
    dataset = raw_file(inline, tmp_path)
    with DaskJobExecutor.make_local(spec) as executor:
        context = ff.Context(executor=DaskJobExecutor(executor.client))
        for udfs in UDFS.values():
            assert_same(context.run_udf(dataset, udfs()), inline.run_udf(dataset, udfs()))
        assert executor.n_workers == 1


def test_the_client_of_a_user_is_not_closed(local, inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    client = local.executor.client
    with ff.Context(executor=DaskJobExecutor(client)) as context:
        context.run_udf(dataset, Level())
    assert client.status == "running"
    with pytest.raises(InvalidArgumentError, match="this executor is closed"):
        context.run_udf(dataset, Level())


def test_make_default(inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    with workers_without_them(tmp_path):
        ctx = ff.Context.make_with("dask-make-default", cpus=1)
        ctx.executor.client.wait_for_workers(1)
    with ctx:
        ctx.run_udf(dataset, Level())
        client = ctx.executor.client
        assert distributed.default_client() is client
        where = dask.delayed(os.getpid)().compute()
        assert [where] == local_processes(ctx.executor)
        assert dask.array.ones(10, chunks=5).sum().compute() == 10
        # And back again: framefold on what Dask uses.
        with ff.Context.make_with("dask-integration") as integrated:
            assert isinstance(integrated.executor, DaskJobExecutor)
            assert integrated.executor.client is client
            expected = inline.run_udf(dataset, UDFS["mixed"]())
            assert_same(integrated.run_udf(dataset, UDFS["mixed"]()), expected)
        assert client.status == "running"
    with pytest.raises(ValueError, match="No clients"):
        distributed.default_client()


@pytest.mark.parametrize("exception", [asyncio.CancelledError, GeneratorExit])
def test_functions_may_raise_what_ends_coroutines(local, exception):  # noqa: F811
    def fail(_argument):
        raise exception("said so")

    for call in (local.executor.run_function, lambda fn, n: local.executor.map(fn, [n])):
        with pytest.raises(exception, match="said so"):
            call(fail, 3)


def test_plain_dask_is_left_alone(local):  # noqa: F811
    with pytest.raises(ValueError, match="No clients"):
        distributed.default_client()
    assert dask.delayed(os.getpid)().compute() == os.getpid()


@pytest.fixture(scope="module")
def one_thread():
    """A cluster that does one thing at a time."""
    with DaskJobExecutor.make_local(cluster_spec(1)) as executor:
        yield executor
        assert forgotten(executor)


def test_a_task_on_the_only_thread_runs_on_its_own_cluster(one_thread, inline):  # noqa: F811
    data = np.arange(24.0).reshape(6, 2, 2)

    def task():
        with ff.Context.make_with("dask-integration") as ctx:
            dataset = ctx.load("memory", data=data, num_partitions=3)
            with ctx.run_udf_iter(dataset, Level()) as steps:
                next(steps)
            levels = [ctx.run_udf(dataset, Level(n))["level"].data.tolist() for n in range(2)]
            return levels, ctx.executor.run_function(abs, -3), ctx.executor.map(abs, [-4])

    sums = data.sum(axis=(1, 2))
    expected = [sums.tolist(), (sums + 1).tolist()], 3, [4]
    client = one_thread.client
    tasks = [client.submit(task, pure=False) for _ in range(3)]
    assert [each.result(60) for each in tasks] == [expected] * 3
    del tasks
    ctx = ff.Context(executor=one_thread)
    run = frames(inline), [Level()]
    assert_same(ctx.run_udf(*run), inline.run_udf(*run))
    assert client.submit(abs, -5, pure=False).result(60) == 5


def test_a_task_on_the_only_thread_waits_for_several_runs(one_thread):
    data = np.arange(24.0).reshape(6, 2, 2)

    def task():
        def run(number):
            return ctx.run_udf(dataset, Level(number), sync=False)

        async def main():
            levels = [await run(0), *await asyncio.gather(run(1), run(2))]
            async with ctx.run_udf_iter(dataset, Level(3), sync=False) as steps:
                async for results in steps:
                    last = results
            return [each["level"].data.tolist() for each in (*levels, last[0])]

        with ff.Context.make_with("dask-integration") as ctx:
            dataset = ctx.load("memory", data=data, num_partitions=3)
            # The one that ends first does not take the thread from the other one.
            runs = [ctx.run_udf_iter(dataset, Level(number)) for number in (4, 5)]
            for steps in runs:
                next(steps)
            interleaved = [list(steps)[-1][0]["level"].data.tolist() for steps in runs]
            return asyncio.run(main()) + interleaved

    expected = [(data.sum(axis=(1, 2)) + number).tolist() for number in range(6)]
    client = one_thread.client
    tasks = [client.submit(task, pure=False) for _ in range(2)]
    assert [each.result(60) for each in tasks] == [expected] * 2
    assert client.submit(abs, -5, pure=False).result(60) == 5


def test_a_coroutine_is_no_place_for_dask_s_own_cluster(local):  # noqa: F811
    data = np.arange(24.0).reshape(6, 2, 2)

    async def task():
        with pytest.raises(
            UnsupportedError, match=r"asynchronous Client .* `async def` task.*`def`"
        ):
            ff.Context.make_with("dask-integration")
        with ff.Context.make_with("threads") as ctx:
            dataset = ctx.load("memory", data=data)
            return (await ctx.run_udf(dataset, Level(), sync=False))["level"].data.tolist()

    found = local.executor.client.submit(task, pure=False).result(60)
    assert found == data.sum(axis=(1, 2)).tolist()


def test_a_scheduler_that_dask_does_not_know():
    with (
        dask.config.set(scheduler="sums"),
        pytest.raises(UnsupportedError, match="no scheduler here: Expected one of"),
    ):
        get_dask_integration_executor()


@pytest.mark.parametrize(
    ("options", "kind", "n_workers"),
    [
        ({}, ConcurrentJobExecutor, None),
        ({"scheduler": "threads", "num_workers": 3}, ConcurrentJobExecutor, 3),
        ({"scheduler": "processes", "num_workers": 2}, ProcessJobExecutor, 2),
        ({"scheduler": "synchronous"}, InlineJobExecutor, 0),
    ],
)
def test_integration(inline, tmp_path, options, kind, n_workers):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    with dask.config.set(options), ff.Context.make_with("dask-integration") as ctx:
        assert type(ctx.executor) is kind
        assert ctx.executor.threads == n_workers
        assert_same(ctx.run_udf(dataset, UDFS["mixed"]()), inline.run_udf(dataset, UDFS["mixed"]()))


def test_integration_with_pools():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(5) as pool:
        for options in ({"pool": pool}, {"scheduler": pool}):
            with dask.config.set(options):
                executor = get_dask_integration_executor()
                assert isinstance(executor, ConcurrentJobExecutor)
                assert executor.threads == 5
    with (
        dask.config.set(scheduler=lambda *_arguments, **_options: None),
        pytest.raises(UnsupportedError, match="none that framefold can work on"),
    ):
        get_dask_integration_executor()


def test_specifications():
    spec = cluster_spec([0, 3], name="here", preload=["json"], options={"nthreads": 2})
    assert list(spec) == ["here-cpu-0", "here-cpu-3"]
    options = spec["here-cpu-3"]["options"]["options"]
    resources = {"CPU": 2, "compute": 2, "ndarray": 2}
    expected = {"nthreads": 2, "memory_limit": 0, "preload": ["json"], "resources": resources}
    assert options == expected
    spec = cluster_spec(0, [1, 1], has_cupy=True)
    assert list(spec) == ["default-cuda-1", "default-cuda-1-0"]
    options = spec["default-cuda-1"]["options"]
    assert options["device"] == 1
    assert options["options"]["resources"] == {"CUDA": 1, "compute": 1, "ndarray": 1}
    options = cluster_spec(1, 1, options={"resources": {"own": 3}})["default-cuda-0"]["options"]
    assert options["options"]["resources"] == {"own": 3}


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: cluster_spec(0), "at least one worker"),
        (lambda: cluster_spec(-2), "cpus is -2"),
        (lambda: cluster_spec(1, cudas=-1), "cudas is -1"),
        (lambda: cluster_spec(1, options=3), "options is 3, expected a dict"),
        (lambda: cluster_spec(1, options={"threads": 3}), "options have 'threads', which distrib"),
        (lambda: cluster_spec(1, options={"nthreads": "2"}), "nthreads of options='2' is not a wh"),
        (lambda: cluster_spec(1, options={"nthreads": 0}), "nthreads of options=0 is not a whole"),
        (lambda: cluster_spec(1, preload="json"), "preload is 'json', expected a list"),
        (lambda: cluster_spec(1, preload=3), "preload is 3, expected a list"),
        (lambda: DaskJobExecutor.make_local(3), "spec is 3, expected a dict of workers"),
        (lambda: DaskJobExecutor.make_local({"a": 3}), "spec is {'a': 3}, expected a dict of work"),
        (lambda: DaskJobExecutor.make_local({"a": {}}), "spec is {'a': {}}, expected a dict of wo"),
        (
            lambda: DaskJobExecutor.make_local(client_kwargs=3),
            "client_kwargs is 3, expected a dict",
        ),
        (lambda: DaskJobExecutor.make_local(cluster_kwargs="a"), "cluster_kwargs is 'a', expected"),
        (lambda: DaskJobExecutor("tcp://127.0.0.1:1"), "client is a str"),
        (lambda: DaskJobExecutor.make_local(main_process_gpu=-1), "number of a device"),
        (
            lambda: DaskJobExecutor.make_local(client_kwargs={"nmae": 1}),
            "client_kwargs have 'nmae'",
        ),
        (
            lambda: DaskJobExecutor.make_local(cluster_kwargs={"n": 1}),
            "cluster_kwargs have 'n', wh",
        ),
        (
            lambda: DaskJobExecutor.make_local(timeout="soon"),
            "timeout is 'soon'; use a number of s",
        ),
        (lambda: DaskJobExecutor.make_local(startup_timeout=None), "startup_timeout is None, exp"),
        (lambda: ff.Context.make_with("dask", gpus=99), "gpus is 99, and CUDA devices there are"),
        (lambda: ff.Context.make_with("dask-integration", cpus=1), "cannot be chosen"),
    ],
)
def test_options(make, match):
    with pytest.raises((InvalidArgumentError, UnsupportedError), match=match):
        make()


def test_no_worker_takes_more_than_a_share():
    tasks = ClusterTasks(128)
    tasks.set_n_threads(2)
    first = tasks.take(32)
    assert first == list(range(32))
    tasks.give([(index, None, 1000, 0.0015) for index in range(8)])
    # 96 are left, and 24 are being processed: 60 each.
    assert tasks.batch_size(8, 24) == 2 * 52 // 3
    assert tasks.batch_size(16, 24) == 2 * 44 // 3
    assert tasks.batch_size(60, 24) == tasks.batch_size(90, 24) == 0
    # What came back is given to a worker, even if it is all there is.
    while tasks.take(1):
        pass
    tasks.schedule.put_back(31)
    assert tasks.batch_size(0, 0) == 1
    assert tasks.take(1) == [31]


def test_a_worker_does_first_what_it_got_first(local, inline, tmp_path):  # noqa: F811
    local.run_udf(raw_file(inline, tmp_path), Level())  # there are workers now
    client, (address, *_) = local.executor.client, local.executor.client.nthreads()

    async def order():
        resources = RunResources(client, "order", BufferPool(), Transfers())
        try:
            futures = [resources.submit(address, "time", time.monotonic_ns) for _ in range(40)]
            return [await future for future in futures]
        finally:
            resources.close()

    begun = client.sync(order)
    assert begun == sorted(begun)


def test_what_a_worker_has_left_goes_by_the_time():
    worker = WorkerState("tcp://somewhere", 1, may_share=False, gone=None)
    worker.batches = [Batch([0, 1, 2, 3], None, since=10.0), Batch([4, 5], None, since=10.5)]
    assert worker.n_to_do(12.0, None) == 6
    assert worker.n_to_do(10.0, 0.5) == 6
    assert worker.n_to_do(11.0, 0.5) == 4
    # It is not done with the last one.
    assert worker.n_to_do(20.0, 0.5) == 2.5
    worker.done_with(worker.batches[0], 11.5)
    assert worker.n_to_do(11.5, 0.5) == 2
    assert worker.n_to_do(12.0, 0.5) == 1
    two = WorkerState("tcp://somewhere", 2, may_share=False, gone=None)
    two.batches = [Batch([0, 1, 2, 3], None, since=10.0), Batch([4, 5], None, since=10.0)]
    assert two.n_to_do(10.5, 0.5) == 4


@pytest.mark.parametrize(
    ("batches", "blamed"),
    [
        ({"pending": [[3]]}, {3}),
        ({"pending": [[3], [4]]}, set()),
        ({"pending": [[3, 4]]}, set()),
        ({"finished": [[3]], "pending": [[], [4]]}, {4}),
    ],
)
def test_a_partition_is_blamed_if_a_dead_worker_had_no_other(batches, blamed):
    found = set()

    def reassign(_worker, batch, *, lost, blamed):
        assert lost
        found.update(batch.indices if blamed else ())

    resources, merged = SimpleNamespace(release=lambda _run: None), threading.Event()
    feed = SimpleNamespace(_reassign=reassign, _resources=resources, _merged=merged)
    worker = WorkerState("tcp://somewhere", 1, may_share=False, gone=Future())
    worker.batches = [
        Batch(indices, SimpleNamespace(status=status), since=0.0)
        for status, each in batches.items()
        for indices in each
    ]
    Feed._release_worker(feed, worker, blamed=True)
    assert found == blamed


def test_changes_go_first_to_a_worker_that_takes_part():
    first_ones = []

    async def change(_data, having, _failed):
        first_ones.append([worker.address for worker in having()])

    async def send():
        workers = {address: WorkerState(address, 1, may_share=False) for address in "abcd"}
        for worker in workers.values():
            worker.state = Participation.USABLE
        workers["a"].is_late = workers["b"].is_paused = True
        workers["d"].state = Participation.EXCLUDED
        shipping = SimpleNamespace(change=change)
        feed = SimpleNamespace(_workers=workers, _shipping=shipping, _changed=asyncio.Event())
        await Feed._change(feed, b"", lambda: None)

    asyncio.run(send())
    assert first_ones == [["c", "a", "b"]]


def test_an_answer_that_was_lost_says_nothing_about_its_worker():
    answers = []

    async def follow():
        worker = WorkerState("tcp://somewhere", 1, may_share=True, has_device=True)
        future = asyncio.get_running_loop().create_future()
        future.set_result(ShippedRun("lost", None, None))
        worker.batches = [batch := Batch([0], future, since=0.0)]
        feed = SimpleNamespace(
            _tasks=ClusterTasks(1),
            _take_in=lambda _worker, _batch, answer: answers.append(answer),
            _changed=asyncio.Event(),
            _resources=Transfers(),
        )
        await Feed._follow(feed, worker, batch, at_once=True)

    asyncio.run(follow())
    assert answers == [Answer(shares=True, has_device=True)]


@pytest.mark.parametrize("is_gone", [False, True])
def test_data_that_come_in_vain_are_released(is_gone):
    async def send():
        arrived, transfers = asyncio.Event(), Transfers()
        future = Mock(spec=distributed.Future)

        async def scatter(data, **_options):
            await arrived.wait()
            (future.key,) = data
            return {future.key: future}

        client = SimpleNamespace(scatter=scatter)
        resources = RunResources(client, "vain", BufferPool(), transfers)
        worker = WorkerState("tcp://somewhere", 1, may_share=False)
        sending = asyncio.create_task(resources.scatter(b"", worker))
        await asyncio.sleep(0)
        if is_gone:
            worker.set_gone()
        else:
            sending.cancel()
        with pytest.raises((ConnectionError, asyncio.CancelledError)):
            await sending
        arrived.set()
        await asyncio.wait(transfers._tasks)
        await asyncio.sleep(0)
        future.release.assert_called_once()

    asyncio.run(send())


def test_a_worker_that_takes_long_to_answer_may_have_begun(monkeypatch):
    async def late(*_arguments, **_options):
        await asyncio.sleep(60)

    async def without_framefold(*_arguments, **_options):
        raise ModuleNotFoundError

    async def ask(answer):
        client = SimpleNamespace(run=answer)
        busy = await busy_with(client, "run", "tcp://somewhere", Busy.WITH_RUN)
        return busy, await have_begun(client, [], "tcp://somewhere")

    monkeypatch.setattr("framefold.executor._dask.workers.PATIENCE", 0.001)
    assert asyncio.run(ask(late)) == (Busy.WITH_RUN, True)
    assert asyncio.run(ask(without_framefold)) == (None, False)


def test_batches_grow_with_the_number_of_workers():
    tasks = ClusterTasks(100_000)
    sizes = []
    for n_threads in (1, 2, 10, 20, 25, 1000):
        tasks.set_n_threads(n_threads)
        tasks.give([(len(sizes), None, 1000, 0.01)])
        sizes.append(tasks.batch_size())
    assert sizes == [15, 15, 15, 20, 25, 25]


def test_timeouts_are_positive(local):  # noqa: F811
    with pytest.raises(InvalidArgumentError, match="timeout is 0"):
        DaskJobExecutor(local.executor.client, timeout=0)


def test_data_sets_can_be_sent(inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    again = pickle.loads(pickle.dumps(dataset))
    assert_same(inline.run_udf(again, [Level()]), inline.run_udf(dataset, [Level()]))
