"""What executors do beside runs: functions of users, and how many threads libraries may use."""

from __future__ import annotations

import os
import platform
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.common.executor import JobCancelledError, JobExecutor
from framefold.common.scheduler import Worker, WorkerSet
from framefold.common.threading import _POOLS, allowed_threads, set_num_threads
from framefold.exceptions import InvalidArgumentError, UDFRunCancelled, UnsupportedError
from framefold.executor.inline import InlineJobExecutor
from framefold.udf.base import get_resources_for_backends


@pytest.mark.parametrize("name", ["inline", "threads", "processes", "auto"])
def test_functions_are_called_here(name):
    with ff.Context.make_with(name) as ctx:
        executor = ctx.executor
        assert isinstance(executor, JobExecutor)
        assert executor.run_function(divmod, 7, 2) == (3, 1)
        assert executor.run_function(int, "11", base=2) == 3
        assert executor.map(abs, [-1, 2]) == [1, 2]
        assert executor.run_each_host(os.getpid) == {platform.node(): os.getpid()}
        (worker,) = executor.get_available_workers()
        assert (worker.host, worker.n_threads >= 1) == (platform.node(), True)
        assert executor.get_available_workers().has_cpu() == [worker]
        assert executor.get_available_workers().has_cuda() == []
        assert executor.ensure_sync() is executor
        if name == "processes":
            with pytest.raises(UnsupportedError, match="early_setup=function"):
                executor.run_each_worker(os.getpid)
        else:
            assert executor.run_each_worker(os.getpid) == {worker.name: os.getpid()}


def test_functions_on_dask():
    with shared("dask", cpus=2) as ctx:
        executor = ctx.executor
        executor.client.wait_for_workers(2, 60)
        assert executor.run_function(int, "11", base=2) == 3
        assert executor.run_function(os.getpid) != os.getpid()
        assert executor.run_function(dict, key=3, workers=4) == {"key": 3, "workers": 4}
        each = executor.run_each_worker(dict, workers=4)
        assert list(each.values()) == [{"workers": 4}] * 2
        assert executor.map(abs, iter([-1, 2])) == [1, 2]
        workers = executor.get_available_workers()
        assert {worker.name for worker in workers} == {"default-cpu-0", "default-cpu-1"}
        assert workers.has_cpu() == workers
        pids = executor.run_each_worker(os.getpid)
        assert pids.keys() == {worker.name for worker in workers}
        assert len({os.getpid(), *pids.values()}) == 3
        (pid,) = executor.run_each_host(os.getpid).values()
        assert pid in pids.values()


def test_workers_are_found_while_the_client_asks_for_other_facts(monkeypatch):
    """It asks now and then for what the scheduler says of itself, without workers."""
    with shared("dask", cpus=2) as ctx:
        client = ctx.executor.client
        client.wait_for_workers(2, 60)
        sync = client.sync

        def sync_and_ask(*args, **kwargs):
            found = sync(*args, **kwargs)
            sync(client._update_scheduler_info)
            return found

        monkeypatch.setattr(client, "sync", sync_and_ask)
        workers = ctx.executor.get_available_workers()
        assert {worker.name for worker in workers} == {"default-cpu-0", "default-cpu-1"}


class Threads(ff.UDF):
    """How many threads user code is to use, and libraries use."""

    def __init__(self, ask=None):
        super().__init__(ask=ask)

    def get_result_buffers(self):
        return {"allowed": self.buffer(kind="nav", dtype=int), "used": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.results.allowed[:] = self.meta.threads_per_worker
        self.results.used[:] = self.params.ask() if self.params.ask else 0


def threads(executor, ask=None):
    ctx = ff.Context(executor=executor)
    dataset = ctx.load("memory", data=np.zeros((6, 2, 2)), sig_dims=2, num_partitions=3)
    result = ctx.run_udf(dataset=dataset, udf=Threads(ask))
    return result["allowed"].data.tolist(), result["used"].data.tolist()


def test_threads_inline():
    assert threads(InlineJobExecutor()) == ([1] * 6, [0] * 6)
    assert threads(InlineJobExecutor(inline_threads=3)) == ([3] * 6, [0] * 6)
    with pytest.raises(InvalidArgumentError, match="inline_threads is 0"):
        InlineJobExecutor(inline_threads=0)


def test_libraries_get_the_number():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    numba = pytest.importorskip("numba")

    def pools():
        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]

    if not pools():
        pytest.skip("NumPy has a BLAS that threadpoolctl does not know")
    before = numba.get_num_threads(), pools()
    assert threads(InlineJobExecutor(inline_threads=1), lambda: max(pools()))[1] == [1] * 6
    assert threads(InlineJobExecutor(inline_threads=1), numba.get_num_threads)[1] == [1] * 6
    assert (numba.get_num_threads(), pools()) == before


def test_pyfftw_gets_the_number(monkeypatch):
    module = SimpleNamespace(config=SimpleNamespace(NUM_THREADS=1))
    monkeypatch.setitem(sys.modules, "pyfftw", module)
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)  # not needed for it
    ask = InlineJobExecutor(inline_threads=5), lambda: module.config.NUM_THREADS
    assert threads(*ask) == ([5] * 6, [5] * 6)
    assert module.config.NUM_THREADS == 1


def test_threads_of_scripts(monkeypatch):
    module = SimpleNamespace(config=SimpleNamespace(NUM_THREADS=1))
    monkeypatch.setitem(sys.modules, "pyfftw", module)
    with set_num_threads(2):
        assert (allowed_threads(), module.config.NUM_THREADS) == (2, 2)
        with set_num_threads(3):
            assert (allowed_threads(), module.config.NUM_THREADS) == (3, 3)
        assert (allowed_threads(), module.config.NUM_THREADS) == (2, 2)
    assert (allowed_threads(), module.config.NUM_THREADS) == (1, 1)


@pytest.fixture
def of_pyfftw(monkeypatch):
    module = SimpleNamespace(config=SimpleNamespace(NUM_THREADS=7))
    monkeypatch.setitem(sys.modules, "pyfftw", module)
    return lambda: module.config.NUM_THREADS


@pytest.fixture
def of_blas():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    pools = threadpoolctl.ThreadpoolController().select(user_api="blas")
    before = [pool["num_threads"] for pool in pools.info()]
    # On a thread that ends: as long as one goes on that has set it, no other one can.
    on_a_thread(lambda: pools.limit(limits=7))
    if not before or pools.info()[0]["num_threads"] != 7:
        pytest.skip("NumPy has a BLAS that threadpoolctl does not set")
    yield lambda: pools.info()[0]["num_threads"]
    on_a_thread(lambda: pools.limit(limits=before[0]))


def on_a_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


@pytest.mark.parametrize("library", ["of_pyfftw", "of_blas"])
def test_limits_of_two_threads_at_a_time(library, request):
    """Libraries keep the number of the run that goes on, and then have that of before."""
    number = request.getfixturevalue(library)
    entered, may_leave = threading.Event(), threading.Event()

    def limit():
        with set_num_threads(1):
            entered.set()
            may_leave.wait(60)

    first = threading.Thread(target=limit)
    first.start()
    assert entered.wait(60)
    with set_num_threads(1):
        may_leave.set()
        first.join()
        assert number() == 1
    assert number() == 7


def test_runs_that_are_stopped_raise_what_scripts_catch():
    assert issubclass(UDFRunCancelled, JobCancelledError)


def test_resources_of_formats():
    assert get_resources_for_backends(["numpy", ("numpy", "cupy")]) == {}
    assert get_resources_for_backends([("cuda",)], None) == {"CUDA": 1, "compute": 1}
    needed = {"CUDA": 1, "compute": 1, "ndarray": 1}
    assert get_resources_for_backends([("numpy", "cupy")], ("cupy",)) == needed
    assert get_resources_for_backends([("numpy", "cupy")], ()) == {}
    for formats, allowed in [((("numpy",), ("cupy",)), None), ((("numpy",),), "cupy")]:
        with pytest.raises(ValueError, match=r"in common|one by one"):
            get_resources_for_backends(formats, allowed)


def test_workers_are_sorted_out_by_what_they_have():
    cpu, cuda = Worker("a", "one", 4, {"CPU": 1}), Worker("b", "two", 1, {"CUDA": 1})
    workers = WorkerSet([cpu, cuda])
    assert (workers.has_cpu(), workers.has_cuda()) == ([cpu], [cuda])
    assert (workers.names(), workers.hosts()) == (["a", "b"], {"one", "two"})
    assert workers.get_by_host("two").example() == cuda
    assert workers.group_by_host() == [[cpu], [cuda]]
    assert workers.concurrency() == sum(worker.nthreads for worker in workers) == 5
    assert workers.has_threaded_workers()
    assert workers.filter(lambda worker: worker.n_threads == 1).workers == [cuda]


def test_limits_within_a_limit_keep_one_number(of_blas):
    with set_num_threads(1):
        for _ in range(20):
            with set_num_threads(2):
                pass
        assert len(_POOLS._undo) == 1
        assert of_blas() == 1
    assert of_blas() == 7


def test_an_interrupt_while_a_limit_is_set_leaves_none(of_blas, monkeypatch):
    join, n_calls = threading.Thread.join, []

    def interrupted(self, timeout=None):
        n_calls.append(None)
        if len(n_calls) == 1:
            raise KeyboardInterrupt
        return join(self, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt), set_num_threads(1):
        raise AssertionError("it was not interrupted")
    assert len(n_calls) > 2
    assert of_blas() == 7
