"""What is left of Dask executors, and runs whose workers come back late, or not at all."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import process_cases
import pytest
from process_cases import (
    PerFrame,
    eventually,
    frames,
    gone,
    hard_limit,  # noqa: F401 - a fixture
)
from sample_udfs import Level

pytest.importorskip("distributed")

import distributed
from dask_cases import (
    assert_usable,
    local,  # noqa: F401 - a fixture
    local_processes,
    ready_processes,
    scratch,
)
from distributed import client as dask_client
from tornado.ioloop import IOLoop

import framefold as ff
from framefold.exceptions import (
    InvalidArgumentError,
    UDFRunCancelled,
    WorkerError,
    WorkerTimeoutError,
)
from framefold.executor._dask import cluster as dask_cluster
from framefold.executor._dask import workers as dask_workers
from framefold.executor._tasks import Tasks
from framefold.executor.dask import DaskJobExecutor, cluster_spec
from framefold.udf import UDF

if sys.platform != "linux":
    pytest.skip("looks at /proc, and uses signals", allow_module_level=True)

pytestmark = [
    pytest.mark.usefixtures("hard_limit"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


# What is left.


def children():
    """The processes that this one has started."""
    found = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended
            found.update(map(int, path.read_text().split()))
    return found


@pytest.fixture
def interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(work, seconds):
    """Calls a function, and has Ctrl-C come after so many seconds; what it returned, if it did."""
    timer = threading.Timer(seconds, signal.raise_signal, [signal.SIGINT])
    value = None
    try:
        timer.start()
        value = work()
        timer.join()
    except KeyboardInterrupt:
        timer.join()
    return value


@pytest.fixture(scope="module")
def seconds_to_make():
    """How long a cluster takes to be made and closed."""
    begun = time.monotonic()
    ff.Context.make_with("dask", cpus=1).close()
    return time.monotonic() - begun


@pytest.mark.parametrize("part", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9])
def test_ctrl_c_while_a_cluster_is_made(interrupts, seconds_to_make, part):
    before, threads, folders = children(), set(threading.enumerate()), scratch()
    ctx = interrupted(lambda: ff.Context.make_with("dask", cpus=1), part * seconds_to_make)
    if ctx is not None:
        ctx.close()
    assert eventually(lambda: children() <= before)
    assert eventually(lambda: set(threading.enumerate()) <= threads)
    assert eventually(lambda: scratch() <= folders)


@pytest.mark.parametrize("seconds", [0.002, 0.01, 0.03])
def test_ctrl_c_while_a_cluster_is_closed(interrupts, seconds):
    threads = set(threading.enumerate())
    ctx = ff.Context.make_with("dask", cpus=1)
    workers = local_processes(ctx.executor)
    interrupted(ctx.close, seconds)
    ctx.close()
    assert ctx.executor._own.status is distributed.core.Status.closed
    assert gone(workers)
    assert eventually(lambda: set(threading.enumerate()) <= threads)


def test_a_cluster_is_closed_though_its_client_fails_to(monkeypatch):
    ctx = ff.Context.make_with("dask", cpus=1)
    workers, client = local_processes(ctx.executor), ctx.executor.client
    close = client.close

    def fail():
        close()
        raise TimeoutError("the scheduler does not answer")

    monkeypatch.setattr(client, "close", fail)
    with pytest.raises(TimeoutError, match="does not answer"):
        ctx.close()
    assert gone(workers)
    ctx.close()


@pytest.mark.parametrize("which", ["cluster_kwargs", "client_kwargs"])
def test_clusters_of_an_event_loop_are_refused(which):
    with pytest.raises(InvalidArgumentError, match=f"{which} have asynchronous=True"):
        DaskJobExecutor.make_local(cluster_spec(1), **{which: {"asynchronous": True}})


def in_fork(work):
    """The exit code of a fork that calls a function."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_closing_in_a_fork_closes_nothing(local):  # noqa: F811
    workers = local_processes(local.executor)
    assert in_fork(local.close) == 0
    assert local_processes(local.executor) == workers
    assert_usable(local)


def test_an_error_in_a_fork_says_that_the_client_is_another_process_s(local):  # noqa: F811
    def ask():
        with pytest.raises(WorkerError, match="fork"):
            _ = local.executor.n_workers

    assert in_fork(ask) == 0


def test_forks_in_the_middle_of_a_run_end(local):  # noqa: F811
    stop = threading.Event()
    failures = []

    def run():
        while not stop.is_set():
            try:
                local.run_udf(frames(local, 400, 200), Level())
            except BaseException as error:
                failures.append(error)
                return

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.3)
    codes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(12):
            child = multiprocessing.get_context("fork").Process(target=abs, args=(1,))
            child.start()
            child.join(10)
            codes.append(child.exitcode)
            if child.exitcode is None:
                child.kill()
    stop.set()
    thread.join()
    assert codes == [0] * 12
    assert not failures


# Folders for temporary files.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(dask_cluster, "YOUNG", -1.0)
    return tmp_path


def test_folders_of_processes_that_are_gone_are_removed(folder):
    stale = folder / f"{dask_cluster.PREFIX}{os.getpid()}-left"  # such as by another container's
    (stale / "inner").mkdir(parents=True)
    other = folder / "of-another-program"
    other.mkdir()
    mine = dask_cluster.Scratch()
    dask_cluster.remove_stale()
    assert set(folder.iterdir()) == {other, Path(mine.path)}
    mine.remove()
    assert set(folder.iterdir()) == {other}
    mine.remove()


def test_a_folder_that_is_in_use_stays_whatever_its_number(folder):
    """As where processes of other containers see it, which have numbers of their own."""
    mine = dask_cluster.Scratch()
    no_such = folder / f"{dask_cluster.PREFIX}{2**22 + 1}-x"
    Path(mine.path).rename(no_such)
    assert in_fork(dask_cluster.remove_stale) == 0
    assert no_such.exists()
    mine.path = str(no_such)
    assert in_fork(mine.remove) == 0
    assert no_such.exists()
    mine.remove()
    assert not no_such.exists()


def test_young_folders_are_left_alone(folder, monkeypatch):
    monkeypatch.setattr(dask_cluster, "YOUNG", 60.0)
    young = folder / f"{dask_cluster.PREFIX}1-new"
    young.mkdir()
    dask_cluster.remove_stale()
    assert young.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user, as root can")
def test_folders_of_other_users_are_left_alone(folder):
    theirs = folder / f"{dask_cluster.PREFIX}2-theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    link = folder / f"{dask_cluster.PREFIX}3-link"
    link.symlink_to(theirs)
    dask_cluster.remove_stale()
    assert set(folder.iterdir()) == {theirs, link}


def test_no_folder_is_left_where_a_cluster_cannot_be_started(folder, monkeypatch):
    def fail(*_arguments, **_options):
        raise OSError("no ports are left")

    monkeypatch.setattr(dask_cluster, "LocalCluster", fail)
    with pytest.raises(WorkerError, match="no ports are left"):
        ff.Context.make_with("dask", cpus=1)
    assert not list(folder.iterdir())


# Workers that come back late, or not at all.


class Counted(UDF):
    """Each frame's number; what happens at one of them depends on how often it was begun."""

    def __init__(self, file, actions, seconds=0.05):
        super().__init__(file=file, actions=actions, seconds=seconds)

    def get_result_buffers(self):
        return {"number": self.buffer(kind="nav", dtype="int64")}

    def process_frame(self, frame):
        number = self.meta.slice.origin[0]
        if number == 2:
            with open(self.params.file, "a") as file:
                file.write("x")
            actions = dict(enumerate(self.params.actions, 1))
            actions.get(os.path.getsize(self.params.file), abs)(number)
        time.sleep(self.params.seconds)
        self.results.number[:] = number


def never_end(_number):
    time.sleep(1000)


def die(_number):
    os.kill(os.getpid(), signal.SIGKILL)


def both_ready(context):
    """Wait for two workers, of which none may be about to be replaced."""
    executor = context.executor
    assert eventually(
        lambda: sorted(ready_processes(executor)) == sorted(local_processes(executor))
    )
    assert eventually(lambda: executor.n_workers == 2, 40)


def test_a_copy_that_is_lost_is_made_again(tmp_path):
    """One worker is stuck, the one that gets a copy of what it has dies: a third one does it."""
    executor = DaskJobExecutor.make_local(cluster_spec(3))
    with ff.Context(executor=executor) as ctx:
        executor.client.wait_for_workers(3)
        udf = Counted(file=str(tmp_path / "begun"), actions=[never_end, die])
        result = ctx.run_udf(frames(ctx, 12, 12), udf)["number"].data
        assert result.tolist() == list(range(12))
        assert (tmp_path / "begun").read_text() == "xxx"


def test_workers_are_closed_once_they_have_answered(tmp_path, monkeypatch):
    """A run whose results are there does not wait for who has its last partitions, too."""
    answered = []

    async def stop(*arguments):
        await dask_workers.stop(*arguments)
        await asyncio.sleep(0.3)
        answered.append(arguments)

    def wait(_number):
        time.sleep(20)

    monkeypatch.setattr("framefold.executor._dask.feed.stop", stop)
    monkeypatch.setattr("framefold.executor._dask.feed.LATE", 0.2)
    with ff.Context.make_with("dask", cpus=2) as ctx:
        both_ready(ctx)
        udf = Counted(file=str(tmp_path / "begun"), actions=[wait], seconds=0.01)
        result = ctx.run_udf(frames(ctx, 40, 40), udf)["number"].data
        assert result.tolist() == list(range(40))
    assert len(answered) == 1


def test_a_failure_after_another_worker_was_faster_does_not_count(local, tmp_path):  # noqa: F811
    merged = tmp_path / "merged"

    def fail_late(_number):
        while not merged.exists():
            time.sleep(0.01)
        raise ZeroDivisionError("only the first time")

    both_ready(local)
    udf = Counted(file=str(tmp_path / "begun"), actions=[fail_late])
    with local.run_udf_iter(frames(local, 150, 150), udf) as steps:
        for results in steps:
            if results.damage.data[2]:
                merged.touch()
            last = results
    assert last[0]["number"].data.tolist() == list(range(150))
    assert (tmp_path / "begun").read_text() == "xx"


def test_a_time_limit_does_not_hold_for_what_another_worker_has_done(tmp_path):
    executor = DaskJobExecutor.make_local(cluster_spec(2), timeout=10)
    with ff.Context(executor=executor) as ctx:
        executor.client.wait_for_workers(2)
        udf = Counted(file=str(tmp_path / "begun"), actions=[never_end], seconds=0.3)
        begin = time.monotonic()
        result = ctx.run_udf(frames(ctx, 42, 42), udf)["number"].data
        assert time.monotonic() - begin > 10
        assert result.tolist() == list(range(42))


def test_a_worker_that_was_late_once_is_used_again(local, tmp_path):  # noqa: F811
    """It is the only one left when the faster one stops working."""

    def wait(_number):
        time.sleep(6)

    class Held(Counted):
        def process_frame(self, frame):
            if self.meta.slice.origin[0] == 120:
                with open(self.params.file + "-2", "a") as file:
                    file.write("x")
                if os.path.getsize(self.params.file + "-2") == 1:
                    time.sleep(1000)
            super().process_frame(frame)

    both_ready(local)
    udf = Held(file=str(tmp_path / "begun"), actions=[wait])
    result = local.run_udf(frames(local, 150, 150), udf)["number"].data
    assert result.tolist() == list(range(150))
    assert (tmp_path / "begun-2").read_text() == "xx"


def test_a_run_that_waits_for_a_worker_which_an_ended_run_keeps_busy(tmp_path):
    with (
        ff.Context(executor=DaskJobExecutor.make_local(cluster_spec(1))) as ctx,
        ThreadPoolExecutor(2) as pool,
    ):
        udf = Counted(file=str(tmp_path / "begun"), actions=[never_end])
        steps = ctx.run_udf_iter(frames(ctx), udf)

        def n_runs():
            tasks = [task for tasks in ctx.executor.client.processing().values() for task in tasks]
            return len({str(task).split("-")[1] for task in tasks})

        first = pool.submit(list, steps)
        assert eventually((tmp_path / "begun").exists, 30)
        other = pool.submit(ctx.run_udf, frames(ctx), Level(offset=5))
        assert eventually(lambda: n_runs() == 2, 40)
        steps.close()
        assert other.result(40)["level"].data.tolist() == [5] * 40
        assert isinstance(first.exception(40), UDFRunCancelled)


def test_a_time_limit_holds_for_planning(tmp_path):
    class Endless(Level):
        def get_result_buffers(self):
            if os.getpid() != here:
                time.sleep(1000)
            return super().get_result_buffers()

    here = os.getpid()
    executor = DaskJobExecutor.make_local(cluster_spec(1), timeout=60, startup_timeout=2)
    with ff.Context(executor=executor) as ctx:
        executor.client.wait_for_workers(1)
        before = set(ready_processes(executor))
        with pytest.raises(WorkerTimeoutError, match="did not get ready for the run within 2 sec"):
            ctx.run_udf(frames(ctx), Endless())
        assert eventually(lambda: set(ready_processes(executor)) - before, 40)
        # It may take longer than that on a busy machine.
        process_cases.assert_usable(ff.Context(executor=DaskJobExecutor(executor.client)))


def test_a_client_that_is_closed_in_the_middle_of_a_run(tmp_path):
    begun = tmp_path / "begun"

    def touch_and_sleep(_frame):
        begun.touch()
        time.sleep(0.2)

    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address=":0", threads_per_worker=1
    ) as cluster:
        client = distributed.Client(cluster.scheduler_address, set_as_default=False)
        ctx = ff.Context(executor=DaskJobExecutor(client))
        closer = threading.Thread(target=lambda: (eventually(begun.exists, 60), client.close()))
        closer.start()
        with pytest.raises(WorkerError, match="was lost during the run"):
            ctx.run_udf(frames(ctx, 400, 400), PerFrame(touch_and_sleep))
        closer.join()
        with pytest.raises(WorkerError, match="not connected"):
            ctx.run_udf(frames(ctx), Level())


def test_a_run_that_ends_after_the_loop_of_its_client():
    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address=":0", threads_per_worker=1
    ) as cluster:
        loop = IOLoop(make_current=False)
        thread = threading.Thread(target=loop.start)
        thread.start()
        client = distributed.Client(cluster.scheduler_address, loop=loop, set_as_default=False)
        ctx = ff.Context(executor=DaskJobExecutor(client))
        parts = ctx.run_udf_iter(frames(ctx, 40, 40), Level())
        next(parts)
        client.close()
        loop.add_callback(loop.stop)  # it takes callbacks still, and calls none
        thread.join()
        parts.close()
        loop.close()
    del parts
    gc.collect()  # a coroutine that was never awaited warns, which is an error here


@pytest.mark.parametrize(("n_workers", "held", "travels"), [(1, 0.0, 0.5), (2, 0.5, 0.05)])
def test_a_result_on_its_way_is_computed_once(tmp_path, monkeypatch, n_workers, held, travels):
    """It travels for long from the only worker, or stayed there until others were merged."""
    gather, give = dask_client.gather_from_workers, Tasks.give

    async def slow(who_has, **options):
        await asyncio.sleep(travels)
        return await gather(who_has, **options)

    def give_large(tasks, results):
        give(tasks, [(index, data, 1 << 40, seconds) for index, data, _, seconds in results])

    def note(_frame):
        with open(tmp_path / "calls", "a") as calls:
            calls.write(".")

    monkeypatch.setattr("framefold.executor._dask.feed.LATE", 0.2)
    monkeypatch.setattr("framefold.executor._dask.feed.POLL", 0.02)
    if held:
        monkeypatch.setattr(Tasks, "give", give_large)
    with (
        distributed.LocalCluster(
            n_workers=n_workers, processes=False, dashboard_address=":0", threads_per_worker=1
        ) as cluster,
        distributed.Client(
            cluster.scheduler_address, direct_to_workers=True, set_as_default=False
        ) as client,
    ):
        ctx = ff.Context(executor=DaskJobExecutor(client))
        with ctx.run_udf_iter(frames(ctx, 12, 12), PerFrame(note)) as steps:
            next(steps)
            monkeypatch.setattr(dask_client, "gather_from_workers", slow)
            time.sleep(held)
            for _ in steps:
                pass
    assert (tmp_path / "calls").read_text() == 12 * "."


COLLECTED_WHILE_A_THREAD_STARTS = """
import gc, threading, weakref
import framefold as ff

class Left:
    closed = threading.Event()
    def close(self):
        self.closed.set()

class Owner:
    pass

from framefold.executor.dask import DaskJobExecutor
executor = DaskJobExecutor.__new__(DaskJobExecutor)
executor._owns(Left().close)
executor.itself = executor
# A thread that starts takes these locks, and makes objects meanwhile: the collector may come.
with threading._active_limbo_lock, getattr(threading, "_shutdown_locks_lock", threading.Lock()):
    del executor
    gc.collect()
assert Left.closed.wait(60)
print("closed")
"""


def test_a_dropped_executor_is_closed_while_a_thread_starts():
    command = [sys.executable, "-c", COLLECTED_WHILE_A_THREAD_STARTS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "closed\n", done.stderr
