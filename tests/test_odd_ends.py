"""Runs whose user code does odd things, and runs that meet others: none fails or hangs for it."""

from __future__ import annotations

import dataclasses
import gc
import importlib
import os
import signal
import sys
import threading
import time
import weakref
from multiprocessing.connection import Connection

import numpy as np
import pytest
from process_cases import (
    LIMIT,
    PerFrame,
    eventually,
    frames,
    hard_limit,  # noqa: F401 - a fixture
)
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import UDFError, WorkerError
from framefold.executor import auto
from framefold.executor._dask.workers import ClusterTasks
from framefold.executor._processes.pool import Pool
from framefold.executor.processes import ProcessJobExecutor
from framefold.udf import UDF

pytestmark = pytest.mark.usefixtures("hard_limit")


@pytest.fixture
def ctx():
    with ff.Context.make_with("processes", cpus=2) as context:
        yield context


@pytest.fixture
def warm():
    """A context whose workers may have done other things before."""
    with shared("processes", cpus=2) as context:
        yield context


class Constant(UDF):
    def __init__(self, value=0.0):
        super().__init__(value=value)

    def get_result_buffers(self):
        return {"value": self.buffer(kind="nav", dtype="float64")}

    def process_partition(self, partition):
        time.sleep(0.02)
        if self.meta.slice.origin[0] == 2:
            time.sleep(1)
        self.results.value[:] = self.params.value


class OtherConstant(Constant):
    pass


def test_workers_hear_of_all_changes(warm):
    """The one that is busy meanwhile, too."""
    zeros = frames(warm, 40, 40)
    with warm.run_udf_iter(zeros, [Constant(), OtherConstant()]) as steps:
        next(steps)
        steps.update_parameters_experimental([{"value": 1.0}, {}])
        next(steps)
        steps.update_parameters_experimental([{}, {"value": 2.0}])
        results = list(steps)[-1].buffers
    for result, value in zip(results, (1.0, 2.0), strict=True):
        values = result["value"].raw_data.tolist()
        assert values[-1] == value
        assert values == sorted(values)
    # Once the second change is known, so is the first.
    first, second = (result["value"].raw_data for result in results)
    assert (first[second == 2.0] == 1.0).all()


def test_the_end_of_a_run_leaves_others_alone(warm, tmp_path):
    def long(_frame):
        (tmp_path / f"{os.getpid()}").touch()
        time.sleep(3)

    warm.run_udf(frames(warm), PerFrame(abs))
    other = threading.Thread(target=warm.run_udf, args=(frames(warm, 1, 1), PerFrame(long)))
    short = frames(warm, 8, 8)
    with warm.run_udf_iter(short, PerFrame(lambda _: time.sleep(0.1))) as steps:
        next(steps)
        other.start()
        assert eventually(lambda: any(tmp_path.iterdir()))
    while other.is_alive():
        warm.run_udf(short, PerFrame(abs))
        time.sleep(0.1)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.fixture
def eager(monkeypatch):
    """The default executor takes workers for the shortest of runs."""
    monkeypatch.setattr(auto, "PATIENCE", 0.0)
    monkeypatch.setattr(auto, "SHARE", float("inf"))


def test_threads_begin_with_the_default_executor_at_once(monkeypatch, eager):
    make = ProcessJobExecutor.__init__

    def make_slowly(*arguments, **options):
        time.sleep(0.2)
        make(*arguments, **options)

    monkeypatch.setattr(ProcessJobExecutor, "__init__", make_slowly)
    with ff.Context.make_with("auto", cpus=2) as ctx:
        ends, together = [], threading.Barrier(4)

        def run():
            together.wait()
            zeros = frames(ctx, 20, 20)
            ends.append(ctx.run_udf(zeros, PerFrame(lambda _: time.sleep(0.01))))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ends) == 4


class Falsy(Exception):
    def __len__(self):
        return 0


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    what: str


class Mute(Exception):
    def __init__(self):
        super().__init__(threading.Lock())

    def __str__(self):
        raise ValueError("nothing to say")


class Other(Exception):
    def __reduce__(self):
        return str, ("something else",)


@pytest.mark.parametrize(
    ("make", "expected"),
    [(Falsy, Falsy), (lambda: Frozen("it"), UDFError), (Mute, UDFError), (Other, UDFError)],
)
@pytest.mark.parametrize("planning", [True, False])
def test_odd_exceptions(warm, make, expected, planning):
    class Raising(Constant):
        def get_result_buffers(self):
            if planning and os.getpid() != main:
                raise make()
            return super().get_result_buffers()

        def process_partition(self, partition):
            raise make()

    main = os.getpid()
    with pytest.raises(expected):
        warm.run_udf(frames(warm), Raising())
    assert warm.run_udf(frames(warm), PerFrame(abs))["pid"].data.all()


@pytest.mark.parametrize("name", ["timeout", "startup_timeout"])
@pytest.mark.parametrize("seconds", [float("inf"), 1e7])
def test_limits_may_be_very_long(name, seconds):
    with ff.Context(executor=ff.executor.processes.ProcessJobExecutor(2, **{name: seconds})) as ctx:
        assert ctx.run_udf(frames(ctx), PerFrame(abs))["pid"].data.all()


class AttrDict(dict):
    __getattr__ = dict.__getitem__


CONFIGURATION = AttrDict(value=3.0)


class Configured(Constant):
    settings = AttrDict(value=2.0)

    def process_partition(self, partition):
        time.sleep(0.02)  # or the default executor takes no workers
        CONFIGURATION.update(value=3.0)
        self.results.value[:] = self.settings.value + CONFIGURATION.value


@pytest.mark.parametrize("executor", ["inline", "processes", "auto"])
def test_attributes_that_are_not_there_may_raise_anything(executor, eager):
    with shared(executor, cpus=2) as ctx:
        assert (ctx.run_udf(frames(ctx), Configured())["value"].data == 5).all()


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "auto"])
def test_a_runtime_error_of_user_code_stays_one(executor):
    def raising(_frame):
        try:
            next(iter(()))
        except StopIteration as error:
            raise RuntimeError("no entry") from error

    with (
        shared(executor, cpus=2) as ctx,
        pytest.raises(RuntimeError, match="no entry"),
    ):
        ctx.run_udf(frames(ctx), PerFrame(raising))


def test_results_that_fail_are_let_go():
    class Failing(Constant):
        def get_results(self):
            raise ZeroDivisionError

    with ff.Context.make_with("inline") as ctx:
        gc.collect()
        gc.disable()
        try:
            steps = ctx.run_udf_iter(frames(ctx, 3, 3), Failing())
            results = next(steps)
            next(steps)
            run = weakref.ref(steps._run)
            for expected in (ZeroDivisionError, UDFError):
                with pytest.raises(expected):
                    _ = results.buffers
            steps.close()
            del steps, results
            assert eventually(lambda: run() is None)
        finally:
            gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="cannot fork here")
def test_a_killed_worker_is_noticed_though_its_forks_live(ctx):
    def fork_and_die(_frame):
        if os.fork() == 0:
            time.sleep(2 * LIMIT)  # longer than the test may take
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(WorkerError, match="died"):
        ctx.run_udf(frames(ctx, 2, 2), PerFrame(fork_and_die))


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize(
    "function", [threading.Thread.start, Connection.send_bytes, Pool.submit, Pool.end, Pool.wake]
)
def test_ctrl_c_in_the_pool_leaves_it_usable(ctx, function):
    done = []
    if function is not threading.Thread.start:  # or the thread runs already
        ctx.run_udf(frames(ctx), PerFrame(abs))

    def trace(frame, event, _argument):
        if not done and event == "call" and frame.f_code is function.__code__:
            done.append(True)
            signal.raise_signal(signal.SIGINT)

    sys.settrace(trace)
    try:
        with pytest.raises(KeyboardInterrupt):
            ctx.run_udf(frames(ctx), PerFrame(abs))
    finally:
        sys.settrace(None)
    assert done
    assert ctx.run_udf(frames(ctx), PerFrame(abs))["pid"].data.all()
    assert eventually(lambda: not ctx.executor._pool._jobs)


def test_what_fails_after_another_worker_did_it_does_not_count():
    tasks = ClusterTasks(10)
    tasks.set_n_threads(2)
    assert tasks.take(2) == [0, 1]
    tasks.give([(0, "zero", 1, 0.1)])
    assert tasks.collect(0, lambda: None) == "zero"
    tasks.schedule.merged(1)
    tasks.fail(0, ZeroDivisionError())
    tasks.give([(1, "one", 1, 0.1)])
    tasks.fail(1, ZeroDivisionError())
    assert tasks.collect(1, lambda: None) == "one"
    assert tasks.take(1) == [2]


def test_packages_in_a_folder_of_their_own_are_no_code_of_the_user(tmp_path, monkeypatch):
    """As ``pip install --target`` puts them: workers import them, as they import NumPy."""
    from framefold.common._user_code import is_of_user

    for folder in ("packages/of_packages", "packages/of_packages/inner", "scripts/of_user"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "packages" / "single_module.py").touch()
    (tmp_path / "packages" / "beside_packages.py").touch()
    about = tmp_path / "packages" / "of_packages-1.0.dist-info"
    about.mkdir()
    (about / "RECORD").write_text("of_packages/__init__.py,,\nsingle_module.py,sha256=x,0\n")
    for folder in ("packages", "scripts"):
        monkeypatch.syspath_prepend(tmp_path / folder)
    for name in ("of_packages", "of_packages.inner", "single_module"):
        importlib.import_module(name)
        assert not is_of_user(name)
    for name in ("of_user", "beside_packages"):
        importlib.import_module(name)
        assert is_of_user(name)


class Known(Constant):
    def __init__(self, known):
        UDF.__init__(self, known=known)

    def process_partition(self, partition):
        self.results.value[:] = self.params.known["self"][0]["values"].sum()


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_parameters_that_are_within_themselves(executor):
    known = {"values": np.arange(6.0)[::2]}
    known["self"] = [known]
    with shared(executor, cpus=2) as ctx:
        assert (ctx.run_udf(frames(ctx), Known(known))["value"].data == 6).all()
