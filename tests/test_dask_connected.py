"""Connections to Dask clusters: schedulers that are not there, go away, or begin anew."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time

import pytest
from process_cases import (
    Numbers,
    PerFrame,
    eventually,
    frames,
    gone,
    hard_limit,  # noqa: F401 - a fixture
    sleep_in_python,
    sleepy,
)
from sample_udfs import Level

pytest.importorskip("distributed")

from dask_cases import (
    Cluster,
    assert_usable,
    inline,  # noqa: F401 - a fixture
)

import framefold as ff
from framefold.exceptions import (
    FramefoldError,
    InvalidArgumentError,
    UDFRunCancelled,
    WorkerError,
    WorkerTimeoutError,
)
from framefold.executor.dask import DaskJobExecutor

if sys.platform != "linux":
    pytest.skip("looks at /proc, and uses signals", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("hard_limit")


def test_nothing_answers():
    with socket.socket() as taken:
        # Nothing listens there.
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        threads = threading.active_count()
        begin = time.monotonic()
        with pytest.raises(WorkerError, match=rf"no Dask scheduler answers at {address}"):
            DaskJobExecutor.connect(address, client_kwargs={"timeout": 0.5})
        assert time.monotonic() - begin < 20
        assert eventually(lambda: threading.active_count() <= threads + 1)


@pytest.mark.parametrize("address", ["nonsense", "ftp://127.0.0.1:80", "tcp://127.0.0.1:port"])
def test_addresses_that_are_none(address):
    with pytest.raises(FramefoldError, match=address):
        DaskJobExecutor.connect(address, client_kwargs={"timeout": 0.5})


@pytest.mark.parametrize(
    ("greeting", "said"),
    [
        (b"", "no Dask scheduler answers at {}"),
        (b"HTTP/1.0 400 Bad Request\r\n\r\n", "what answers at {} is no Dask scheduler"),
        (bytes(8), "what answers at {} is no Dask scheduler"),
    ],
)
def test_what_listens_is_no_scheduler(greeting, said):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            with server.accept()[0] as connection:
                connection.sendall(greeting)
                ended.wait(20)

        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        ended = threading.Event()
        greeter = threading.Thread(target=greet)
        greeter.start()
        begin = time.monotonic()
        try:
            with pytest.raises(WorkerError, match=said.format(address)):
                DaskJobExecutor.connect(address, client_kwargs={"timeout": "500ms"})
            assert time.monotonic() - begin < 10
        finally:
            ended.set()
            greeter.join()


def test_certificates_that_are_missing():
    with pytest.raises(InvalidArgumentError, match=r"pass client_kwargs=\{'security': "):
        DaskJobExecutor.connect("tls://127.0.0.1:9", client_kwargs={"timeout": 0.5})


@pytest.mark.parametrize(
    ("uri", "options", "said"),
    [
        ("tcp://127.0.0.1:9", {"tiemout": 3}, "client_kwargs have 'tiemout', which .* timeout,"),
        ("tcp://127.0.0.1:9", {"timeout": "soon"}, "client_kwargs have timeout='soon'; use sec"),
        ("tcp://127.0.0.1:9", {"timeout": None}, "client_kwargs have timeout=None; use sec"),
        ("tcp://127.0.0.1:9", {"timeout": 0}, "client_kwargs have timeout=0; use sec"),
        ("tcp://127.0.0.1:9", {"asynchronous": True}, "client_kwargs have asynchronous=True; lea"),
        ("tcp://127.0.0.1:9", {"security": 3}, "no client of these arguments for 'tcp://.*Secu"),
        (9, {}, "no client of these arguments for 9: .* must be a string"),
        (None, {}, "None is no address of a Dask scheduler: .* starts a cluster"),
    ],
)
def test_arguments_that_no_client_takes(uri, options, said):
    with pytest.raises(InvalidArgumentError, match=said):
        DaskJobExecutor.connect(uri, client_kwargs=options)


def test_no_workers():
    with DaskJobExecutor.make_local({}, startup_timeout=0.5) as executor:
        ctx = ff.Context(executor=executor)
        with pytest.raises(WorkerError, match=r"has had no worker .* for 0\.5 seconds"):
            ctx.run_udf(frames(ctx), Level())
        with pytest.raises(
            WorkerError, match=r"no worker for the run of the function abs for 0\.5"
        ):
            executor.run_function(abs, -3)


def test_the_scheduler_goes_away(inline, tmp_path, monkeypatch):  # noqa: F811
    with Cluster(tmp_path, n_workers=1) as cluster:
        ctx = ff.Context(executor=DaskJobExecutor.connect(cluster.address))
        ctx.executor.client.wait_for_workers(1)
        with monkeypatch.context() as patch:
            patch.setattr("framefold.executor._dask.feed.ANSWER", 1.0)
            cluster.scheduler.send_signal(signal.SIGSTOP)
            with pytest.raises(WorkerError, match=r"was lost .*no answer within 1 seconds"):
                ctx.run_udf(frames(inline), Level())
            cluster.scheduler.send_signal(signal.SIGCONT)
        assert_usable(ctx)
        ender = threading.Timer(1.0, cluster.scheduler.kill)
        with ctx, ctx.run_udf_iter(frames(inline, 10_000, 500), PerFrame(sleepy)) as steps:
            next(steps)
            ender.start()
            begin = time.monotonic()
            with pytest.raises(WorkerError, match=r"connection to the Dask scheduler .* was lost"):
                for _ in steps:
                    pass
            # Dask itself tries for 30 seconds to connect again.
            assert time.monotonic() - begin < 60
            with pytest.raises(WorkerError, match=r"is not connected|was lost"):
                ctx.run_udf(frames(inline), Level())


@pytest.fixture(scope="module")
def nannies(tmp_path_factory):
    """A cluster whose worker is looked after by a nanny."""
    with Cluster(tmp_path_factory.mktemp("cluster"), n_workers=1, nanny=True) as cluster:
        yield cluster


def test_workers_with_nannies(nannies, inline, tmp_path):  # noqa: F811
    def kill_once(frame):
        if frame == 11 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    executor = DaskJobExecutor.connect(nannies.address, timeout=5.0)
    with ff.Context(executor=executor) as ctx:
        results = ctx.run_udf(frames(inline), [PerFrame(kill_once), Numbers()])
        assert (tmp_path / "killed").exists()
        assert results[1]["number"].data.tolist() == list(range(40))
        pid = int(results[0]["pid"].data[-1])
        # The nanny is asked to replace a worker that is kept busy.
        with pytest.raises(WorkerTimeoutError, match="partition 0 took longer"):
            ctx.run_udf(frames(inline), PerFrame(sleep_in_python))
        assert gone([pid])
        assert_usable(ctx)


def test_a_busy_worker_that_holds_data_of_others_is_not_replaced(nannies, tmp_path):
    def touch_and_wait(frame):
        (tmp_path / "begun").touch()
        while not (tmp_path / "ends").exists():
            time.sleep(0.02)

    executor = DaskJobExecutor.connect(nannies.address)
    with ff.Context(executor=executor) as ctx:
        executor.client.wait_for_workers(1)
        scattered = executor.client.scatter([1, 2, 3], hash=False, broadcast=True)
        try:
            end_while_it_is_busy(ctx, tmp_path / "begun", touch_and_wait)
            assert executor.client.gather(scattered) == [1, 2, 3]
        finally:
            (tmp_path / "ends").touch()
        assert_usable(ctx)


def test_workers_that_an_ended_run_keeps_busy_are_left_out(inline, tmp_path):  # noqa: F811
    with Cluster(tmp_path, n_workers=1) as cluster:
        executor = DaskJobExecutor.connect(cluster.address, startup_timeout=2)
        with ff.Context(executor=executor) as ctx:
            executor.client.wait_for_workers(1)
            (stuck,) = executor.client.nthreads()
            end_while_it_is_busy(ctx, tmp_path / "begun")
            with pytest.raises(WorkerError, match=rf"all threads of {stuck} were busy"):
                ctx.run_udf(frames(inline), Level())
            cluster.add_worker()
            executor.client.wait_for_workers(2)
            assert_usable(ctx)
        cluster.processes[1].kill()  # it would not end by itself


def end_while_it_is_busy(ctx, file, action=None):
    """Begins a run whose function never returns, unless it is another one, and closes it."""

    def touch_and_sleep(frame):
        file.touch()
        sleep_in_python(frame)

    with ctx.run_udf_iter(frames(ctx), PerFrame(action or touch_and_sleep)) as steps:
        closer = threading.Thread(target=lambda: (eventually(file.exists), steps.close()))
        closer.start()
        with pytest.raises(UDFRunCancelled):
            next(steps)
        closer.join()


def test_everything_is_restarted(nannies, inline, tmp_path):  # noqa: F811
    restarted = tmp_path / "restarted"

    def wait_in_the_middle(frame):
        while frame >= 30 and not restarted.exists():
            time.sleep(0.01)

    executor = DaskJobExecutor.connect(nannies.address)
    with ff.Context(executor=executor) as ctx:
        restart = threading.Thread(target=lambda: (executor.client.restart(), restarted.touch()))
        with ctx.run_udf_iter(frames(inline, 60, 30), PerFrame(wait_in_the_middle)) as steps:
            next(steps)
            restart.start()
            for results in steps:
                last = results
        restart.join()
        assert last.damage.data.all()
        assert len(set(last[0]["pid"].data.tolist())) == 2


WITHOUT_FRAMEFOLD = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "framefold":
            raise ModuleNotFoundError("there is no framefold", name="framefold")

sys.meta_path.insert(0, Blocker())
"""


def test_a_scheduler_without_framefold(inline, tmp_path):  # noqa: F811
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_FRAMEFOLD)
    without = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with Cluster(tmp_path, n_workers=1, scheduler_environment=without) as cluster:
        cluster.add_worker(without)
        with ff.Context(executor=DaskJobExecutor.connect(cluster.address)) as ctx:
            assert eventually(lambda: ctx.executor.n_workers == 2, 40)
            # The worker without it is left out; the other one does all the work.
            results = ctx.run_udf(frames(inline), [PerFrame(sleepy), Numbers()])
            assert results[1]["number"].data.tolist() == list(range(40))
            assert len(set(results[0]["pid"].data.tolist())) == 1


def test_nothing_is_left_where_no_executor_is_made(monkeypatch):
    from distributed import Client, LocalCluster

    def n_clients():
        return len([client for client in list(Client._instances) if client.status == "running"])

    with LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        before = n_clients()
        with pytest.raises(InvalidArgumentError):
            DaskJobExecutor.connect(cluster.scheduler_address, timeout=-1)
        with pytest.raises(InvalidArgumentError):
            DaskJobExecutor.make_local(startup_timeout=-1)

        def fail():
            raise MemoryError

        monkeypatch.setattr("framefold.executor._dask.resources.Transfers", fail)
        with pytest.raises(MemoryError):
            DaskJobExecutor.make_local({})
        assert n_clients() == before


def test_arrays_of_a_client_that_is_not_the_default_one():
    import dask.array as da
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with (
        LocalCluster(1, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
        ff.Context(executor=DaskJobExecutor(client)) as ctx,
    ):
        slow = da.ones((4, 8, 8), chunks=(2, 8, 8)).map_blocks(
            lambda block: time.sleep(0.5) or block, dtype=float
        )
        dataset = ctx.load("dask", client.persist(slow))
        assert ctx.run_udf(dataset, ff.SumUDF())["intensity"].data.sum() == 256
