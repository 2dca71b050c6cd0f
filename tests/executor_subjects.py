"""The executors that go through the contract and through the stress test."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from executor_contract import Subject

import framefold as ff
from framefold import _engine
from framefold.common.exceptions import ExecutorSpecException
from framefold.exceptions import UDFRunCancelled
from framefold.executor import auto
from framefold.executor.base import JobExecutor
from framefold.executor.processes import ProcessJobExecutor


class PoolExecutor(JobExecutor):
    """Partitions on a pool of ``concurrent.futures``: all that an executor from outside needs."""

    threads = 2

    def __init__(self):
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="outside")

    def crew(self, run):
        return PoolCrew(run, self._pool)

    def explain(self, run):
        return "executor    a pool of 2 threads from outside\n"

    def close(self):
        self._pool.shutdown()


class PoolCrew:
    """Asks the engine's schedule what to hand out, and tells it what came of that."""

    def __init__(self, run, pool):
        self._plan, self._pool = run.plan, pool
        self._schedule = _engine.Schedule(run.plan.n_partitions, 2, run.first)
        self._news = threading.Semaphore(0)
        self._futures = set()

    def next(self):
        while True:
            for index in self._schedule.take(2):
                self._futures.add(self._pool.submit(self._process, index))
            if self._plan.cancelled:
                raise UDFRunCancelled("the run was cancelled")
            if (found := self._schedule.next()) is not None:
                return found[1]
            self._news.acquire(timeout=0.05)
            self._futures = {future for future in self._futures if not future.done()}

    def _process(self, index):
        try:
            partial = self._plan.run_partition(index)
            self._schedule.finished(index, partial, partial.len_bytes, 0.0)
        except BaseException as error:
            self._schedule.failed(index, error)
        self._news.release()

    def merged(self, count):
        self._schedule.merged(count)

    @property
    def in_progress(self):
        return self._schedule.n_in_progress

    def close(self, complete):
        self._schedule.close()
        if not complete:
            self._plan.cancel()
        wait(self._futures)


def of_processes():
    return Subject(
        "processes",
        lambda: ff.Context.make_with("processes", cpus=2),
        workers=lambda executor: executor.worker_ids,
        has_processes=True,
        with_timeout=lambda seconds: ProcessJobExecutor(2, timeout=seconds),
        explains="up to 2 worker processes",
        script="ff.Context.make_with('processes', cpus=2)",
        script_workers="ctx.executor.worker_ids",
        says_how={
            "kill": "signal 9 (SIGKILL): it was killed, or memory ran out",
            "crash": "signal 11 (SIGSEGV)",
            "leave": "ended with exit code 3",
        },
    )


def of_auto(name, at_once, stack):
    """One that takes worker processes for the shortest of runs, or as it is."""
    if at_once:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(auto, "PATIENCE", 0.0)
        patch.setattr("framefold.executor._auto_crew.TURN", 0.0)
        patch.setattr(auto, "SHARE", float("inf"))
    return Subject(
        name,
        lambda: ff.Context.make_with("auto", cpus=2),
        workers=lambda executor: executor.worker_ids,
        explains="auto: begins on the calling thread; 2 worker processes",
    )


def of_dask(name, stack):
    pytest.importorskip("distributed")
    from dask_cases import connected_to, forgotten, local_processes, ready_processes

    from framefold.executor.dask import DaskJobExecutor, cluster_spec

    options = {
        "has_processes": True,
        "explains": "2 Dask workers with 2 threads",
        "says_how": dict.fromkeys(("kill", "crash", "leave"), "3 times"),
    }
    if name == "dask":
        return Subject(
            name,
            lambda: ff.Context.make_with("dask", cpus=2),
            workers=local_processes,
            ready=ready_processes,
            with_timeout=lambda seconds: DaskJobExecutor.make_local(
                cluster_spec(1), timeout=seconds
            ),
            forgotten=forgotten,
            script="ff.Context.make_with('dask', cpus=2)",
            script_workers="[w._process.pid for w in ctx.executor.client.cluster.workers.values()]",
            **options,
        )
    cluster = stack.enter_context(ff.Context.make_with("dask", cpus=2)).executor
    return Subject(
        name,
        lambda: ff.Context(executor=connected_to(cluster)),
        workers=lambda _executor: local_processes(cluster),
        ready=lambda _executor: ready_processes(cluster),
        owns_workers=False,
        forgotten=lambda executor: forgotten(cluster, executor.client),
        **options,
    )


def of_threads(name, **options):
    def make():
        # How many workers Dask has is not for framefold to choose.
        chosen = name not in ("dask-integration", "delayed")
        return ff.Context.make_with(name, cpus=2 if chosen else None)

    return Subject(name, make, can_be_closed=False, **options)


#: Makes the subject, and what has to be undone on the stack.
SUBJECTS = {
    "inline": lambda _stack: of_threads("inline"),
    "threads": lambda _stack: of_threads("threads"),
    # "pipelined" is another name for the same: tests/test_processes.py.
    "processes": lambda _stack: of_processes(),
    "auto": lambda stack: of_auto("auto", False, stack),
    "auto, at once": lambda stack: of_auto("auto, at once", True, stack),
    "dask": lambda stack: of_dask("dask", stack),
    "dask, connected": lambda stack: of_dask("dask, connected", stack),
    "dask-integration": lambda _stack: of_threads("dask-integration"),
    "delayed": lambda _stack: of_threads("delayed", computes_later=True),
    "from outside": lambda _stack: Subject(
        "from outside",
        lambda: ff.Context(executor=PoolExecutor()),
        explains="a pool of 2 threads from outside",
        can_be_closed=False,
    ),
}


def made(name, stack):
    """The subject of this name; skips the test if what it needs is missing."""
    try:
        subject = SUBJECTS[name](stack)
        if subject.workers is None:  # a cluster is not started for that
            subject.make().close()
    except (ExecutorSpecException, ImportError) as error:
        pytest.skip(str(error))
    return subject
