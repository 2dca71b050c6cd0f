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
from process_cases import (
    PerFrame,
    eventually,
    forking,
    frames,
    gone,
    hard_limit,  # noqa: F401 - a fixture
    is_running,
    the_fork,
)
from sample_udfs import Level

pytest.importorskip("distributed")

from dask_cases import (
    Numbers,
    assert_same,
    assert_usable,
    connected,  # noqa: F401 - a fixture
    inline,  # noqa: F401 - a fixture
    local,  # noqa: F401 - a fixture
    local_processes,
    raw_file,
    sleep_in_python,
    sleep_with_the_lock,
    sleepy,
)
from distributed import client as dask_client

import framefold as ff
from framefold.exceptions import (
    FileAccessError,
    FramefoldError,
    InvalidArgumentError,
    UDFRunCancelled,
    WorkerError,
    WorkerTimeoutError,
)
from framefold.executor.dask import DaskJobExecutor, cluster_spec
from framefold.udf import UDF

if sys.platform != "linux":
    pytest.skip("looks at /proc, and uses signals", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("hard_limit")


def test_exceptions_come_back_as_themselves(local):  # noqa: F811
    class MineError(ValueError):
        def __init__(self, code):
            super().__init__(code)
            self.code = code

    def raise_mine(frame):
        if frame >= 7:
            raise MineError(frame)

    with pytest.raises(MineError) as caught:
        local.run_udf(frames(local), PerFrame(raise_mine))
    # The first in the order of partitions, whichever came first in time.
    assert caught.value.code == 7
    assert "UDF PerFrame, partition 3, frame 7" in "".join(caught.value.__notes__)
    text = str(caught.value.__cause__)
    assert "In a worker process" in text
    assert "in raise_mine" in text
    assert_usable(local)


@pytest.mark.parametrize("where", ["postprocess", "get_results", "merge"])
def test_exceptions_elsewhere(local, where):  # noqa: F811
    class Failing(Level):
        def postprocess(self):
            self.fail("postprocess")

        def merge(self, dest, src):
            self.fail("merge")
            super().merge(dest, src)

        def get_results(self):
            self.fail("get_results")
            return {}

        def fail(self, place):
            if place == where:
                raise KeyError(place)

    with pytest.raises(KeyError, match=where):
        local.run_udf(frames(local), Failing())
    assert_usable(local)


def test_a_worker_that_is_killed(local, tmp_path):  # noqa: F811
    def kill_once(frame):
        if frame == 11 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    before = local_processes(local.executor)
    results = local.run_udf(frames(local), [PerFrame(kill_once), Numbers()])
    assert (tmp_path / "killed").exists()
    assert results[1]["number"].data.tolist() == list(range(40))
    # Another one was started in its place.
    assert eventually(lambda: local.executor.n_workers == 2, 20)
    assert set(local_processes(local.executor)) != set(before)
    assert_usable(local)


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


@pytest.mark.parametrize("end", [sys.exit, str], ids=["exit", "return"])
def test_a_function_that_forks(local, end):  # noqa: F811
    """The other process leaves what it was doing, and the run, to the worker."""

    def fork(frame):
        if frame == 3:
            other = os.fork()
            if other == 0:
                end(0)
            else:
                assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 0

    results = local.run_udf(frames(local), [PerFrame(fork), Numbers()])
    assert results[1]["number"].data.tolist() == list(range(40))
    assert_usable(local)


def test_forks_end_with_their_worker(tmp_path):
    with ff.Context.make_with("dask", cpus=1) as ctx:
        ctx.run_udf(frames(ctx), PerFrame(forking(tmp_path)))
        fork = the_fork(tmp_path)
    assert gone([fork])


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


@pytest.mark.parametrize("action", [sleep_in_python, sleep_with_the_lock])
def test_a_function_that_never_returns(action):
    with ff.Context(executor=DaskJobExecutor.make_local(cluster_spec(1), timeout=3.0)) as ctx:
        assert_usable(ctx)
        workers = local_processes(ctx.executor)
        begin = time.monotonic()
        with pytest.raises(WorkerTimeoutError, match=r"partition 0 took longer than timeout=3 sec"):
            ctx.run_udf(frames(ctx), PerFrame(action))
        assert time.monotonic() - begin < 20
        assert gone(workers)
        assert_usable(ctx)


def test_what_cannot_be_sent(local):  # noqa: F811
    lock = threading.Lock()
    with pytest.raises(
        InvalidArgumentError, match="PerFrame: parameter 'action', a lock, cannot be sent"
    ):
        local.run_udf(frames(local), PerFrame(lock))

    class Closed(Level):
        def process_frame(self, frame):
            with lock:
                super().process_frame(frame)

    with pytest.raises(InvalidArgumentError, match="Closed: 'process_frame' of the class refers"):
        local.run_udf(frames(local), Closed())
    with local.run_udf_iter(frames(local, 4000, 2000), Level()) as steps:
        next(steps)
        steps.update_parameters_experimental([{"offset": lock}])
        with pytest.raises(InvalidArgumentError, match="parameter 'offset', a lock"):
            next(steps)
    assert_usable(local)


def test_results_that_cannot_be_sent(local):  # noqa: F811
    class Locks(UDF):
        def get_result_buffers(self):
            return {"lock": self.buffer(kind="nav", dtype=object)}

        def process_frame(self, frame):
            self.results.lock[:] = threading.Lock()

    with pytest.raises(TypeError, match="pickle"):
        local.run_udf(frames(local), Locks())
    assert_usable(local)


def test_a_file_that_is_gone(connected, inline, tmp_path):  # noqa: F811
    dataset = raw_file(inline, tmp_path)
    connected.run_udf(dataset, Level())
    (tmp_path / "scan.raw").unlink()
    with pytest.raises(WorkerError, match="no worker of the Dask scheduler") as caught:
        connected.run_udf(dataset, Level())
    assert isinstance(caught.value, FileAccessError)
    assert isinstance(caught.value, OSError)
    for address in connected.executor.client.nthreads():
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
    monkeypatch.setattr("framefold.executor._dask.shipping.VERSION", "0.0.0")
    with pytest.raises(WorkerError, match=r"framefold .* is installed there, 0\.0\.0 here"):
        connected.run_udf(frames(inline), Level())
    monkeypatch.undo()
    assert_usable(connected)


def test_functions_that_declare_something_else_elsewhere(local):  # noqa: F811
    here = os.getpid()

    class Changing(Level):
        def get_result_buffers(self):
            extra = () if os.getpid() == here else (2,)
            return {"level": self.buffer(kind="nav", extra_shape=extra)}

    with pytest.raises(WorkerError, match="plans the run of Changing differently: 'level: nav"):
        local.run_udf(frames(local), Changing())
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
        told = await scatter(*arguments)
        if not gone_ones:
            gone_ones.extend(*told[1].values())
            cluster.replace(gone_ones)
            while gone_ones[0] in cluster.scheduler.workers:
                await asyncio.sleep(0.01)
        return told

    monkeypatch.setattr(dask_client, "scatter_to_workers", then_gone)
    results = local.run_udf(frames(local), Sums(offset=np.full(100_000, 3.0)))
    assert set(results["sum"].raw_data) == {300_000}
    assert gone_ones
    assert_usable(local)


def test_a_run_that_ends_while_its_data_are_sent(local, monkeypatch):  # noqa: F811
    scatter = dask_client.scatter_to_workers
    sent = threading.Event()

    async def late(*arguments):
        # Longer than the end of a run waits for what is under way.
        await asyncio.sleep(1.5)
        told = await scatter(*arguments)
        sent.set()
        return told

    monkeypatch.setattr(dask_client, "scatter_to_workers", late)
    steps = local.run_udf_iter(frames(local), Sums(offset=np.full(100_000, 3.0)))
    closer = threading.Timer(0.3, steps.close)
    closer.start()
    with pytest.raises(UDFRunCancelled):
        next(steps)
    closer.join()
    assert sent.wait(20)
    assert_usable(local)


class Sums(UDF):
    def __init__(self, offset):
        super().__init__(offset=offset)

    def get_result_buffers(self):
        return {"sum": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        time.sleep(0.005)
        self.results.sum[:] = frame.sum() + self.params.offset.sum()


def test_closing_during_a_run():
    ctx = ff.Context.make_with("dask", cpus=1)
    workers = local_processes(ctx.executor)
    dataset = frames(ctx, 10_000, 500)
    with ctx.run_udf_iter(dataset, PerFrame(sleepy)) as steps:
        next(steps)
        closer = threading.Timer(0.5, ctx.close)
        closer.start()
        with pytest.raises(UDFRunCancelled, match="closed"):
            for _ in steps:
                pass
    closer.join()
    assert gone(workers)
    with pytest.raises(InvalidArgumentError, match="this executor is closed"):
        ctx.run_udf(dataset, Level())
    ctx.close()


def test_a_context_that_is_dropped():
    import gc

    ctx = ff.Context.make_with("dask", cpus=1)
    assert_usable(ctx)
    workers = local_processes(ctx.executor)
    del ctx
    gc.collect()
    assert gone(workers)


@pytest.mark.parametrize("action", [sleepy, sleep_in_python, sleep_with_the_lock])
def test_a_run_that_is_closed(local, action):  # noqa: F811
    steps = local.run_udf_iter(frames(local, 10_000, 50), PerFrame(action))
    closer = threading.Timer(1.5, steps.close)
    closer.start()
    with pytest.raises(UDFRunCancelled):
        next(steps)
    begin = time.monotonic()
    closer.join()
    assert time.monotonic() - begin < 20
    assert_usable(local)


def test_a_generator_that_is_dropped(local):  # noqa: F811
    import gc

    steps = local.run_udf_iter(frames(local, 400, 200), PerFrame(sleepy))
    next(steps)
    del steps
    gc.collect()
    assert_usable(local)


def test_a_busy_worker_is_not_waited_for(local, inline):  # noqa: F811
    """Somebody else keeps one of the workers busy."""
    client = local.executor.client
    address = next(iter(client.nthreads()))
    other = client.submit(time.sleep, 60, key="other", workers=[address], pure=False)
    try:
        dataset = frames(inline)
        assert eventually(lambda: other.key in str(client.processing()))
        begin = time.monotonic()
        assert_same([local.run_udf(dataset, Level())], [inline.run_udf(dataset, Level())])
        assert not other.done(), time.monotonic() - begin
    finally:
        other.release()
        local.executor._own.replace([address])
        assert eventually(lambda: address not in client.nthreads(), 20)
        assert eventually(lambda: local.executor.n_workers == 2, 20)


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


SCRIPT = """
    import os, sys, time
    import numpy as np
    import framefold as ff
    from framefold.udf import UDF

    class Slow(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def process_frame(self, frame):
            sys.stdout.write(f"working {os.getpid()}\\n")
            sys.stdout.flush()
            time.sleep(0.02)

    how = sys.argv[1]
    ctx = ff.Context.make_with("dask", cpus=2)
    dataset = ctx.load("memory", data=np.zeros((10_000, 8, 8), dtype=np.float32),
                       num_partitions=1000)
    steps = ctx.run_udf_iter(dataset=dataset, udf=Slow())
    if how == "exit":
        next(steps)
        sys.exit(7)
    try:
        for _ in steps:
            pass
    except KeyboardInterrupt:
        small = ctx.load("memory", data=np.zeros((4, 8, 8), dtype=np.float32))
        print("next run:", ctx.run_udf(dataset=small, udf=Slow())["x"].data.shape)
        ctx.close()
"""


def run_script(*arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where interrupts are ignored, as in jobs of a shell, children would ignore them, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def first_worker(process):
    line = process.stdout.readline()
    assert line.startswith("working"), process.communicate(timeout=20)
    return int(line.split()[1])


def test_ctrl_c():
    process = run_script("")
    try:
        worker = first_worker(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=40)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "next run: (4,)" in out
    assert "Traceback" not in err
    assert gone([worker])


def test_the_main_process_dies():
    process = run_script("")
    try:
        worker = first_worker(process)
        assert is_running(worker)
        process.kill()
        # Workers have the pipe, too: it ends when they do.
        process.communicate(timeout=40)
    finally:
        process.kill()
    assert gone([worker])


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


def test_the_interpreter_ends_in_the_middle():
    process = run_script("exit")
    try:
        worker = first_worker(process)
        _, err = process.communicate(timeout=40)
    finally:
        process.kill()
    assert process.returncode == 7, err
    assert "Traceback" not in err
    assert gone([worker])
