"""A cluster of several hosts, with the data on some of them only."""

from __future__ import annotations

import os
import socket
import sys
import time

import pytest
from process_cases import (
    LIMIT,
    eventually,
    hard_limit,  # noqa: F401 - a fixture
)
from sample_udfs import Level

pytest.importorskip("distributed")

from dask_cases import raw_file, scheduler_address
from dask_hosts import Network, needed
from dask_scripts import QUIET
from executor_cases import assert_same

import framefold as ff
from framefold.exceptions import WorkerError
from framefold.executor.dask import DaskJobExecutor
from framefold.udf import UDF

pytestmark = pytest.mark.usefixtures("hard_limit")

#: No test waits for Dask to notice by itself that a host does not answer.
PATIENT = {
    f"DASK_DISTRIBUTED__COMM__TIMEOUTS__{name}": f"{2 * LIMIT}s" for name in ("CONNECT", "TCP")
}


class Where(UDF):
    """On which host of a network each frame was processed; takes its time."""

    def __init__(self, address, seconds):
        super().__init__(address=address, seconds=seconds)

    def get_result_buffers(self):
        return {"host": self.buffer(kind="nav", dtype=object)}

    def process_frame(self, frame):
        time.sleep(self.params.seconds)
        self.results.host[:] = own_address(self.params.address)


class Together(Where):
    """After one frame on each host, the others wait there until ``everyone`` is in a folder.

    What a host has begun is in the folder, under its address.
    """

    def __init__(self, address, seconds, folder):
        UDF.__init__(self, address=address, seconds=seconds, folder=folder)

    def process_frame(self, frame):
        began = self.params.folder / own_address(self.params.address)
        awaits, deadline = began.exists(), time.monotonic() + 120
        began.touch()
        while awaits and not (self.params.folder / "everyone").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        super().process_frame(frame)


def own_address(other):
    """The address by which the host that this is called on reaches another one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((other, 1))  # sends nothing
        return probe.getsockname()[0]


class Cluster:
    """A scheduler on this machine, and workers on hosts of their own.

    Some of them see the data; what is in the folder ``secret``, none of them sees.
    """

    def __init__(self, folder):
        self.data, self.secret = folder / "data", folder / "secret"
        self.data.mkdir()
        self.secret.mkdir()
        self.folder = folder
        self.log = open(folder / "cluster.log", "w")  # noqa: SIM115 - closed at the end
        self.network = Network()
        #: The hosts of the workers that see the data, and of those that do not.
        self.seeing, self.blind = [], []
        try:
            self.start_scheduler()
        except BaseException:
            self.close()
            raise

    def start_scheduler(self):
        import subprocess

        file = self.folder / "scheduler.json"
        command = [sys.executable, "-m", "dask", "scheduler", "--port", "0", "--no-dashboard"]
        command += ["--host", self.network.address, "--scheduler-file", str(file)]
        process = subprocess.Popen(
            command, stdout=self.log, stderr=self.log, env={**os.environ, **QUIET, **PATIENT}
        )
        self.network.processes.append(process)
        self.address = scheduler_address(file)

    def add_worker(self, *, sees_data):
        """Start a worker on a host of its own."""
        host = self.network.add_host()
        command = [sys.executable, "-m", "dask", "worker", self.address, "--no-nanny"]
        command += ["--nthreads", "1", "--no-dashboard", "--death-timeout", "30"]
        scratch = self.folder / host.address
        scratch.mkdir()
        command += ["--local-directory", str(scratch), "--host", host.address]
        hidden = (self.secret,) if sees_data else (self.secret, self.data)
        settings = [f"{name}={value}" for name, value in {**QUIET, **PATIENT}.items()]
        host.run(["env", *settings, *command], log=self.log, hidden=hidden)
        (self.seeing if sees_data else self.blind).append(host)
        return host

    @property
    def n_workers(self):
        """How many there are."""
        return len(self.seeing) + len(self.blind)

    def close(self):
        self.network.close()
        self.log.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Of two hosts that see the data, and one that does not; tests add others."""
    needed()
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        for sees_data in (True, True, False):
            cluster.add_worker(sees_data=sees_data)
        yield cluster
    finally:
        cluster.close()
    assert not any(process.poll() is None for process in cluster.network.processes)


def connect(cluster):
    executor = DaskJobExecutor.connect(cluster.address, startup_timeout=2 * LIMIT)
    assert eventually(lambda: executor.n_workers == cluster.n_workers, 60)
    return ff.Context(executor=executor)


def addresses(hosts):
    return {host.address for host in hosts}


def test_partitions_are_processed_where_the_data_are(cluster):
    inline = ff.Context.make_with("inline")
    dataset = raw_file(inline, cluster.data, num_partitions=21)
    udfs = [Level(offset=1), ff.StdDevUDF()]
    expected = inline.run_udf(dataset, udfs)
    with connect(cluster) as ctx:
        results = ctx.run_udf(dataset, [*udfs, Where(cluster.network.address, 0.02)])
        assert_same(results[:2], expected)
        assert set(results[2]["host"].data.flat) == addresses(cluster.seeing)
        # Native kernels alone run there, too.
        assert_same([ctx.run_udf(dataset, ff.StdDevUDF())], [expected[1]])
        # What is in memory travels: then all take part.
        memory = ctx.load("memory", data=dataset_array(cluster), num_partitions=42, sig_dims=2)
        results = ctx.run_udf(memory, [*udfs, Where(cluster.network.address, 0.1)])
        hosts = addresses([*cluster.seeing, *cluster.blind])
        assert set(results[2]["host"].data.flat) == hosts


def dataset_array(cluster):
    import numpy as np

    return np.fromfile(cluster.data / "scan.raw", np.uint16).reshape(6, 7, 10, 12)


def test_no_worker_has_the_data(cluster):
    inline = ff.Context.make_with("inline")
    dataset = raw_file(inline, cluster.secret)
    no_worker = pytest.raises(WorkerError, match="no worker of the Dask scheduler")
    with connect(cluster) as ctx, no_worker as caught:
        ctx.run_udf(dataset, Level())
    message = str(caught.value)
    assert all(host in message for host in addresses([*cluster.seeing, *cluster.blind]))
    assert str(cluster.secret / "scan.raw") in message


def test_a_worker_that_comes_late(cluster):
    inline = ff.Context.make_with("inline")
    dataset = raw_file(inline, cluster.data, num_partitions=42)
    with connect(cluster) as ctx:
        waiting = Together(cluster.network.address, 0.2, cluster.data)
        steps = ctx.run_udf_iter(dataset, [Level(), waiting])
        next(steps)
        blind = cluster.add_worker(sees_data=False)
        late = cluster.add_worker(sees_data=True)
        executor = ctx.executor
        assert eventually(lambda: executor.n_workers == cluster.n_workers, 60)
        assert eventually((cluster.data / late.address).exists, 60)
        (cluster.data / "everyone").touch()
        *_, results = steps
    assert_same([results[0]], [inline.run_udf(dataset, Level())])
    hosts = set(results[1]["host"].data.flat)
    assert hosts == addresses(cluster.seeing)
    assert late.address in hosts
    assert blind.address not in hosts


def test_hosts_see_what_they_are_to_see(cluster, tmp_path):
    """The tests would show nothing if a host that is to be blind saw the data."""
    (cluster.data / "file").touch()
    host = cluster.network.add_host()
    for hidden, found in (((cluster.data,), 1), ((), 0)):
        code = f"import os, sys; sys.exit(not os.path.exists({str(cluster.data / 'file')!r}))"
        process = host.run([sys.executable, "-c", code], log=cluster.log, hidden=hidden)
        assert process.wait(20) == found
    assert os.path.exists(cluster.data / "file")


def test_a_host_that_is_cut_off(cluster):
    """The last test, as that host does not come back."""
    inline = ff.Context.make_with("inline")
    hosts = addresses(cluster.seeing)
    dataset = raw_file(inline, cluster.data, num_partitions=42)
    expected = inline.run_udf(dataset, [Level(offset=4), ff.StdDevUDF()])
    with connect(cluster) as ctx:
        steps = ctx.run_udf_iter(
            dataset, [Level(offset=4), ff.StdDevUDF(), Where(cluster.network.address, 0.2)]
        )
        for _ in range(6):
            next(steps)
        lost = cluster.seeing.pop(0)
        lost.cut_off()
        *_, results = steps
    assert_same(results.buffers[:2], expected)
    processed = list(results[2]["host"].data.flat)
    assert all(
        processed.count(lost.address) < processed.count(host.address) for host in cluster.seeing
    )
    assert set(processed) == hosts
