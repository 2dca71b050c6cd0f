"""What goes wrong on Dask clusters: each ends in the right result, or in an error that says why."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from executor_cases import assert_same
from process_cases import (
    Numbers,
    PerFrame,
    eventually,
    frames,
    gone,
    hard_limit,  # noqa: F401 - a fixture
    is_running,
)
from sample_udfs import Level

pytest.importorskip("distributed")

import dask.array as da
import distributed
from dask_cases import (
    Cluster,
    assert_usable,
    connected,  # noqa: F401 - a fixture
    connected_to,
    inline,  # noqa: F401 - a fixture
    local,  # noqa: F401 - a fixture
    raw_file,
)
from distributed import client as dask_client
from distributed import scheduler as dask_scheduler

import framefold as ff
from framefold.exceptions import (
    FileAccessError,
    FramefoldError,
    UDFRunCancelled,
    WorkerError,
)
from framefold.executor._dask import calls
from framefold.executor.dask import DaskJobExecutor
from framefold.udf import UDF

if sys.platform != "linux":
    pytest.skip("looks at /proc, and uses signals", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("hard_limit")


@pytest.mark.parametrize(
    ("command", "reason"),
    [("/nonexistent/python", "No such file"), ("/bin/false", "ended with exit code 1")],
)
def test_workers_that_do_not_start(command, reason, monkeypatch):
    monkeypatch.setattr(sys, "executable", command)
    begin = time.monotonic()
    with (
        pytest.raises(WorkerError, match=rf"could not be started: .*{reason}.*'threads'"),
        ff.Context.make_with("dask", cpus=2) as ctx,
    ):
        ctx.run_udf(frames(ctx), PerFrame(abs))
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("len_bytes", [0, 100_000])
def test_a_function_that_kills_its_worker(local, len_bytes):  # noqa: F811
    # Large ones lie on workers, and die with them.
    ballast = os.urandom(len_bytes)

    def kill(frame):
        if frame == 2:
            assert len(ballast) == len_bytes
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerError, match="died while processing partition 1 of PerFrame, 3 times"):
        local.run_udf(frames(local), PerFrame(kill))
    assert_usable(local)


def test_a_file_that_is_gone(connected, inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    connected.run_udf(dataset, Level())
    (tmp_path / "scan.raw").unlink()
    # A worker in the place of one that a test before had ended may come later.
    asked = set(connected.executor.client.nthreads())
    with pytest.raises(WorkerError, match="no worker of the Dask scheduler") as caught:
        connected.run_udf(dataset, Level())
    assert isinstance(caught.value, FileAccessError)
    assert isinstance(caught.value, OSError)
    asked &= set(connected.executor.client.nthreads())
    assert asked
    for address in asked:
        assert address in str(caught.value)
    assert str(tmp_path / "scan.raw") in str(caught.value)
    assert_usable(connected)


def test_files_that_differ(connected, inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    connected.run_udf(dataset, Level())
    # As if another host had an older, shorter one under the same path.
    os.truncate(tmp_path / "scan.raw", 20 * 120 * 2)
    with pytest.raises(FramefoldError, match=r"scan\.raw|differently"):
        connected.run_udf(dataset, Level())
    assert_usable(connected)


def test_a_worker_with_another_framefold(connected, inline, monkeypatch):  # noqa: F811
    monkeypatch.setattr("framefold.executor._wire.runs.VERSION", "0.0.0")
    with pytest.raises(WorkerError, match=r"framefold .* is installed there, 0\.0\.0 here"):
        connected.run_udf(frames(inline), Level())
    monkeypatch.undo()
    assert_usable(connected)


def test_a_worker_that_is_left_out_is_not_asked_again(local):  # noqa: F811
    """Though it was sent more than its first batch, which is taken back."""

    def refuse(answer):
        from framefold.executor._dask.work import Answer, ShippedRun

        def prepare(self, changes):
            prepare.n_asked += 1
            return Answer(refusal=answer)

        prepare.n_asked = 0
        prepare.before, ShippedRun._prepare = ShippedRun._prepare, prepare

    def restore():
        from framefold.executor._dask.work import ShippedRun

        prepare = ShippedRun._prepare
        ShippedRun._prepare = prepare.before
        return prepare.n_asked

    def short(_frame):
        time.sleep(0.01)

    assert eventually(lambda: local.executor.n_workers == 2, 40)
    client = local.executor.client
    address = next(iter(client.nthreads()))
    client.run(refuse, "it has no time", workers=[address])
    try:
        results = local.run_udf(frames(local, 200, 200), [PerFrame(short), Numbers()])
    finally:
        n_asked = client.run(restore, workers=[address])[address]
    assert results[1]["number"].data.tolist() == list(range(200))
    assert len(set(results[0]["pid"].data)) == 1
    assert 1 <= n_asked <= 2
    assert_usable(local)


def test_large_parameters_survive_a_worker(local, tmp_path):  # noqa: F811
    """They lie on one worker, which is killed, and have to come to another one."""

    def kill_once(frame):
        if frame == 0 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    offset = np.full(100_000, 3.0)
    dataset = frames(local, 400, 200)
    with local.run_udf_iter(dataset, [PerFrame(kill_once), Sums(offset=offset)]) as steps:
        next(steps)
        steps.update_parameters_experimental([{}, {"offset": 2 * offset}])
        *_, results = steps
    sums = results[1]["sum"].raw_data
    assert sums[0] == 300_000
    assert set(sums) == {300_000, 600_000}


def test_a_worker_that_dies_before_the_scheduler_knows_what_it_has(local, monkeypatch):  # noqa: F811
    scatter = dask_client.scatter_to_workers
    cluster = local.executor.client.cluster
    gone_ones = []

    async def then_gone(*arguments):
        placed = await scatter(*arguments)
        if not gone_ones:
            gone_ones.extend(*placed[1].values())
            for address in gone_ones:
                cluster.replace(address)
            while gone_ones[0] in cluster.scheduler.workers:
                await asyncio.sleep(0.01)
        return placed

    monkeypatch.setattr(dask_client, "scatter_to_workers", then_gone)
    results = local.run_udf(frames(local), Sums(offset=np.full(100_000, 3.0)))
    assert set(results["sum"].raw_data) == {300_000}
    assert gone_ones
    assert not set(gone_ones) & set(cluster.scheduler.workers)
    assert_usable(local)


@pytest.mark.parametrize("changes", [False, True])
def test_a_worker_that_is_gone_before_data_reach_it(local, monkeypatch, changes):  # noqa: F811
    """Dask's scheduler tries to connect to it for half a minute."""
    scatter = dask_client.scatter_to_workers
    scheduler = local.executor.client.cluster.scheduler
    left, given_up = asyncio.Event(), threading.Event()
    first = []

    async def to_one_that_dies(workers, *arguments):
        if first:
            return await scatter(workers, *arguments)
        first.extend(workers)
        local.executor.client.cluster.replace(first[0])
        await left.wait()
        given_up.set()
        raise OSError("timed out")

    parameters = {"offset": np.full(100_000, 3.0)}
    begun = {"offset": np.zeros(1)} if changes else parameters
    with local.run_udf_iter(frames(local, 40, 20), Sums(**begun)) as steps:
        if changes:
            next(steps)
        monkeypatch.setattr(dask_client, "scatter_to_workers", to_one_that_dies)
        if changes:
            steps.update_parameters_experimental([parameters])
        results = next(steps)  # sends them
        assert eventually(lambda: first)
        for results in steps:  # noqa: B007 - the last one
            pass
    assert not given_up.is_set()
    sums = set(results[0]["sum"].raw_data)
    assert sums <= {0, 300_000} if changes else sums == {300_000}
    scheduler.loop.add_callback(left.set)
    assert given_up.wait(20)
    assert_usable(local)


@pytest.mark.parametrize("dies", [False, True])
def test_changes_reach_workers_that_come_while_they_are_sent(tmp_path, monkeypatch, dies):
    """The only worker that there was does not take them, and may die of it."""
    scatter = dask_client.scatter_to_workers
    late, left = [], asyncio.Event()

    async def to_the_others(workers, *arguments):
        if not late:
            late.extend(workers)
            await left.wait()
        return await scatter(workers, *arguments)

    monkeypatch.setattr("framefold.executor._dask.resources.LATE", 1000 if dies else 0.1)
    with Cluster(tmp_path, n_workers=1) as cluster:
        options = {"direct_to_workers": True}
        executor = DaskJobExecutor.connect(cluster.address, client_kwargs=options)
        with ff.Context(executor=executor) as ctx:
            with ctx.run_udf_iter(frames(ctx, 120, 120), Sums(offset=np.zeros(1))) as steps:
                next(steps)
                monkeypatch.setattr(dask_client, "scatter_to_workers", to_the_others)
                steps.update_parameters_experimental([{"offset": np.full(100_000, 3.0)}])
                next(steps)  # sends them
                assert eventually(lambda: late, 40)
                cluster.add_worker()
                has_what = executor.client.has_what
                assert eventually(lambda: len(has_what()) == 2 and all(has_what().values()), 40)
                time.sleep(0.2)  # the new one has said that it has the run
                if dies:
                    cluster.processes[1].kill()
                *_, results = steps
            executor.client.loop.add_callback(left.set)
        assert set(results[0]["sum"].raw_data) == {0, 300_000}


def test_changes_that_a_worker_does_not_take_go_to_another_one(connected, monkeypatch):  # noqa: F811
    """As of one that has died just now, which the scheduler says at once, and Dask not yet."""
    scatter = dask_scheduler.scatter_to_workers
    refused = []

    async def not_to_the_first(workers, *arguments, **options):
        refused.extend(() if refused else workers)
        if set(workers) & set(refused):
            raise KeyError(*refused)
        return await scatter(workers, *arguments, **options)

    connected.executor.client.wait_for_workers(2, 40)
    with connected.run_udf_iter(frames(connected, 200, 100), Sums(offset=np.zeros(1))) as steps:
        next(steps)
        monkeypatch.setattr(dask_scheduler, "scatter_to_workers", not_to_the_first)
        steps.update_parameters_experimental([{"offset": np.full(100_000, 3.0)}])
        *_, results = steps
    assert refused
    sums = results[0]["sum"].raw_data
    assert (sums[0], sums[-1]) == (0, 300_000)
    assert set(sums) == {0, 300_000}
    assert_usable(connected)


@pytest.mark.parametrize("changes", [False, True])
def test_data_that_do_not_reach_a_worker_go_to_another_one(local, monkeypatch, changes):  # noqa: F811
    """The first one is stuck, and the others wait for data that go from worker to worker."""
    scatter = dask_client.scatter_to_workers
    stuck, left = [], asyncio.Event()

    async def late(workers, *arguments):
        if not stuck:
            stuck.extend(workers)
            await left.wait()
        return await scatter(workers, *arguments)

    parameters = {"offset": np.full(100_000, 3.0)}
    begun = {"offset": np.zeros(1)} if changes else parameters
    monkeypatch.setattr("framefold.executor._dask.resources.LATE", 0.1)
    try:
        with local.run_udf_iter(frames(local, 40, 20), Sums(**begun)) as steps:
            if changes:
                next(steps)
            monkeypatch.setattr(dask_client, "scatter_to_workers", late)
            if changes:
                steps.update_parameters_experimental([parameters])
            for results in steps:  # noqa: B007 - the last one
                pass
    finally:
        local.executor.client.cluster.scheduler.loop.add_callback(left.set)
    sums = set(results[0]["sum"].raw_data)
    assert sums <= {0, 300_000} if changes else sums == {300_000}
    assert stuck
    assert_usable(local)


def test_results_that_do_not_arrive(local, tmp_path, monkeypatch):  # noqa: F811
    """As Dask brings them together with that of a worker which is stopped."""
    gather = dask_client.gather_from_workers
    from_workers, left = set(), asyncio.Event()
    both = tmp_path / "both"

    def slow_until_both(_frame):
        if not both.exists():
            time.sleep(0.01)

    async def but_the_first_of_each(who_has, **options):
        addresses = set().union(*who_has.values())
        if not addresses <= from_workers:
            from_workers.update(addresses)
            if len(from_workers) == 2:
                both.touch()
            await left.wait()
        return await gather(who_has, **options)

    monkeypatch.setattr("framefold.executor._dask.feed.LATE", 0.1)
    client = local.executor.client
    client.wait_for_workers(2, 40)
    udfs = [Numbers(), PerFrame(slow_until_both)]
    try:
        with local.run_udf_iter(frames(local, 2000, 1000), udfs) as steps:
            for _ in range(30):
                next(steps)
            monkeypatch.setattr(dask_client, "gather_from_workers", but_the_first_of_each)
            *_, results = steps
    finally:
        client.loop.add_callback(left.set)
    assert len(from_workers) == 2
    assert (results[0]["number"].raw_data == np.arange(2000)).all()
    assert_usable(local)


def test_a_run_that_ends_while_its_data_are_sent(local, monkeypatch):  # noqa: F811
    scatter = dask_client.scatter_to_workers
    begun, sent = threading.Event(), threading.Event()

    async def late(*arguments):
        begun.set()
        await asyncio.sleep(1.5)
        placed = await scatter(*arguments)
        sent.set()
        return placed

    monkeypatch.setattr(dask_client, "scatter_to_workers", late)
    monkeypatch.setattr("framefold.executor._dask.feed.PATIENCE", 20.0)
    steps = local.run_udf_iter(frames(local), Sums(offset=np.full(100_000, 3.0)))
    closer = threading.Thread(target=lambda: (begun.wait(20), steps.close()))
    closer.start()
    with pytest.raises(UDFRunCancelled):
        next(steps)
    closer.join()
    assert not sent.is_set()
    assert sent.wait(20)
    assert_usable(local)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("direct", [False, True])
def test_a_client_that_is_closed_while_its_data_are_sent(local, monkeypatch, direct, own):  # noqa: F811
    where = dask_client if direct else dask_scheduler
    scatter = where.scatter_to_workers
    begun, sent = threading.Event(), threading.Event()

    async def late(*arguments, **options):
        begun.set()
        await asyncio.sleep(0.5)
        placed = await scatter(*arguments, **options)
        sent.set()
        return placed

    monkeypatch.setattr(where, "scatter_to_workers", late)
    executor = connected_to(local.executor, direct_to_workers=direct)
    client = executor.client
    context = ff.Context(executor=executor if own else DaskJobExecutor(client))

    def close():
        begun.wait(20)
        context.close()
        client.close()

    steps = context.run_udf_iter(frames(context), Sums(offset=np.full(100_000, 3.0)))
    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(UDFRunCancelled):
        next(steps)
    closer.join()
    assert sent.wait(20)
    executor.close()
    monkeypatch.undo()
    assert_usable(local)
    clients = local.executor.client.cluster.scheduler.clients
    assert eventually(lambda: client.id not in clients)


class Sums(UDF):
    def __init__(self, offset):
        super().__init__(offset=offset)

    def get_result_buffers(self):
        return {"sum": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        time.sleep(0.005)
        self.results.sum[:] = frame.sum() + self.params.offset.sum()


def test_a_busy_worker_is_not_waited_for(local, inline):  # noqa: F811
    """Another client keeps one of the workers busy."""
    client = local.executor.client
    client.wait_for_workers(2)
    address = next(iter(client.nthreads()))
    other = client.submit(time.sleep, 1000, key="other", workers=[address], pure=False)
    try:
        dataset = frames(inline)
        assert eventually(lambda: other.key in str(client.processing()))
        assert_same([local.run_udf(dataset, Level())], [inline.run_udf(dataset, Level())])
        assert not other.done()
    finally:
        other.release()
        local.executor._own.replace(address)
        assert eventually(lambda: address not in client.nthreads(), 20)
        assert eventually(lambda: local.executor.n_workers == 2, 20)


def set_status(status, dask_worker):
    """Pause a worker as Dask does, or let it go on."""
    dask_worker.status = distributed.core.Status[status]


@pytest.fixture
def impatient(local, monkeypatch):  # noqa: F811
    """As if it had been made with ``startup_timeout=0.8``; and the addresses of two workers."""
    monkeypatch.setattr(local.executor, "_startup_timeout", 0.8)
    client = local.executor.client
    assert eventually(lambda: local.executor.n_workers == 2, 40)
    yield local, *client.nthreads()
    client.run(set_status, "running")


def test_paused_workers(impatient, inline, monkeypatch):  # noqa: F811
    def pause_within(frame):
        if frame == 5:
            worker = distributed.get_worker()
            worker.loop.add_callback(set_status, "paused", worker)
            time.sleep(2.5)
            worker.loop.add_callback(set_status, "running", worker)

    ctx, first, second = impatient
    client = ctx.executor.client
    client.run(set_status, "paused")
    with pytest.raises(WorkerError, match=r"for 0\.8 seconds .* were paused .*--memory-limit"):
        ctx.run_udf(frames(inline), Numbers())
    # Others do all of the work, and begin at once.
    client.run(set_status, "running", workers=[second])
    pid = client.run(os.getpid, workers=[second])[second]
    begin = time.monotonic()
    with monkeypatch.context() as patch:
        for name in ("LATE", "LATE_FIRST"):
            patch.setattr(f"framefold.executor._dask.feed.{name}", 1000)
        pids = ctx.run_udf(frames(inline), PerFrame(abs))["pid"].data
    assert set(pids.tolist()) == {pid}
    assert time.monotonic() - begin < 30
    # What a worker has begun is waited for, and it may go on.
    results = ctx.run_udf(frames(inline), [PerFrame(pause_within), Numbers()])
    assert results[1]["number"].data.tolist() == list(range(40))
    client.run(set_status, "running", workers=[first])
    assert_usable(ctx)


def test_functions_where_all_workers_are_paused(impatient, tmp_path, monkeypatch):
    asked = tmp_path / "asked"

    def pause_and_wait():
        worker = distributed.get_worker()
        worker.loop.add_callback(set_status, "paused", worker)
        while not asked.exists():
            time.sleep(0.01)
        worker.loop.add_callback(set_status, "running", worker)
        return "done"

    have_begun = calls.have_begun

    async def touch_and_ask(*arguments):
        asked.touch()
        return await have_begun(*arguments)

    ctx, _, other = impatient
    executor = ctx.executor
    executor.client.run(set_status, "paused", workers=[other])
    with monkeypatch.context() as patch:
        # What a worker has begun is waited for.
        patch.setattr(calls, "have_begun", touch_and_ask)
        assert executor.run_function(pause_and_wait) == "done"
    executor.client.run(set_status, "paused")
    with pytest.raises(WorkerError, match=r"of the function abs: for 0\.8 seconds .* paused"):
        executor.run_function(abs, -3)
    with pytest.raises(WorkerError, match=r"for 0\.8 seconds .* were paused"):
        executor.map(abs, [-3, -4])
    executor.client.run(set_status, "running")
    assert executor.map(abs, [-3, -4]) == [3, 4]


def test_arrays_that_no_worker_computes(impatient):
    ctx, worker, _ = impatient
    client = ctx.executor.client
    client.run(set_status, "paused")
    frames = da.ones((4, 8, 8), chunks=(2, 8, 8))
    dataset = ctx.load("dask", client.persist(frames))
    with pytest.raises(WorkerError, match=r"of SumUDF: for 0\.8 seconds .* were paused"):
        ctx.run_udf(dataset, ff.SumUDF())
    # What a worker computes is waited for.
    client.run(set_status, "running", workers=[worker])
    slow = frames.map_blocks(lambda block: time.sleep(2) or block, dtype=float)
    slow_dataset = ctx.load("dask", client.persist(slow))
    assert ctx.run_udf(slow_dataset, ff.SumUDF())["intensity"].data.sum() == 256
    assert ctx.run_udf(dataset, ff.SumUDF())["intensity"].data.sum() == 256


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_run_in_a_fork(local):  # noqa: F811
    dataset = frames(local)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            local.run_udf(dataset, Level())
        except WorkerError as error:
            code = 0 if "fork" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert_usable(local)


def test_the_main_process_dies_while_workers_start(tmp_path):
    code = """
        import os, signal
        import framefold as ff
        from framefold.executor._dask import cluster as dask_cluster

        launch, launched = dask_cluster.LocalWorker._launch, []

        def launch_and_die(self):
            launch(self)
            launched.append(self._process.pid)
            if len(launched) == 2:
                print(*launched, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

        dask_cluster.LocalWorker._launch = launch_and_die
        ff.Context.make_with("dask", cpus=2)
    """
    output = tmp_path / "output"
    with open(output, "w") as file:
        command = [sys.executable, "-c", textwrap.dedent(code)]
        ended = subprocess.run(command, stdout=file, stderr=file, timeout=40)
    assert ended.returncode == -signal.SIGKILL, output.read_text()
    workers = [int(line) for line in output.read_text().split()]
    try:
        assert len(workers) == 2
        assert gone(workers, 40)  # they have to get so far as to look
    finally:
        for worker in filter(is_running, workers):
            os.kill(worker, signal.SIGKILL)
