"""What tests of Dask executors share."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading

import numpy as np
import process_cases
import pytest
from dask_scripts import QUIET
from process_cases import eventually, gone

import framefold as ff

pytest.importorskip("distributed")

from framefold.executor.dask import DaskJobExecutor


def local_processes(executor):
    """The processes of a local cluster's workers."""
    workers = list(executor.client.cluster.workers.values())
    return [worker._process.pid for worker in workers if worker._process is not None]


def ready_processes(executor):
    """The processes of those that the scheduler knows."""
    cluster = executor.client.cluster
    known = set(cluster.scheduler.aliases)
    return [each._process.pid for each in list(cluster.workers.values()) if each.name in known]


def own_threads():
    return {thread.name for thread in threading.enumerate() if not thread.daemon}


def scratch():
    """The folders of local clusters that this process has now."""
    own = f"framefold-dask-{os.getpid()}-"
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith(own)}


def forgotten(executor, *clients):
    """Whether neither clients nor scheduler know a task of framefold any more, or soon will."""
    scheduler = executor.client.cluster.scheduler

    def left():
        keys = [key for each in (executor.client, *clients) for key in list(each.futures)]
        futures = [f"{key} of a client" for key in keys]
        tasks = [f"{key} is {task.state}" for key, task in list(scheduler.tasks.items())]
        return [each for each in [*futures, *tasks] if "framefold" in each]

    assert eventually(lambda: not left()), left()
    return True


@pytest.fixture(scope="module")
def local():
    """A context with a cluster of its own, of which nothing is left."""
    folders = scratch()
    with ff.Context.make_with("dask", cpus=2) as context:
        yield context
        workers = local_processes(context.executor)
        assert len(workers) == 2
        assert forgotten(context.executor)
    assert gone(workers)
    gc.collect()
    assert eventually(lambda: scratch() == folders)


def connected_to(executor, **options):
    """An executor that is connected to the local cluster of another one, as from elsewhere."""
    client = executor.client
    options = {"security": client.security, **options}
    address = client.scheduler.address
    return DaskJobExecutor.connect(address, client_kwargs=options, main_process_gpu=0)


@pytest.fixture(scope="module")
def connected(local):
    """A context that is connected to the same cluster, as from elsewhere."""
    with ff.Context(executor=connected_to(local.executor)) as context:
        yield context


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


def raw_file(context, folder, *, num_partitions=8, shape=(6, 7, 10, 12), dtype="uint16"):
    """A data set in a file."""
    path = folder / "scan.raw"
    if not path.exists():
        np.random.default_rng(3).integers(0, 200, size=shape).astype(dtype).tofile(path)
    return context.load(
        "raw",
        path,
        dtype=dtype,
        nav_shape=shape[:2],
        sig_shape=shape[2:],
        num_partitions=num_partitions,
    )


def assert_usable(context):
    """Runs something else, with the right result; nothing of what was before is left."""
    process_cases.assert_usable(context)
    if context.executor.client.cluster is not None:
        assert forgotten(context.executor)


def scheduler_address(scheduler_file):
    """Where a scheduler listens, once it has written all of its file."""

    def address():
        try:
            return json.loads(scheduler_file.read_text())["address"]
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    assert eventually(address, 60), "the scheduler did not start"
    return address()


class Cluster:
    """A scheduler and workers, started as users start them."""

    def __init__(self, folder, n_workers, scheduler_environment=None, *, nanny=False):
        port_file = folder / "scheduler.json"
        command = [sys.executable, "-m", "dask", "scheduler", "--port", "0", "--no-dashboard"]
        self.log = open(folder / "cluster.log", "w")  # noqa: SIM115 - closed at the end
        self.folder, self.processes = folder, []
        command += ["--scheduler-file", str(port_file)]
        self.scheduler = self.start(command, scheduler_environment)
        try:
            self.address = scheduler_address(port_file)
            for _ in range(n_workers):
                self.add_worker(nanny=nanny)
        except BaseException:
            self.__exit__()
            raise

    def add_worker(self, environment=None, *, nanny=False):
        command = [sys.executable, "-m", "dask", "worker", self.address, "--nthreads", "1"]
        command += ["--no-dashboard", "--death-timeout", "20"]
        command += [] if nanny else ["--no-nanny"]
        self.start([*command, "--local-directory", str(self.folder)], environment)

    def start(self, command, environment):
        environment = {**(os.environ if environment is None else environment), **QUIET}
        process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environment)
        self.processes.append(process)
        return process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        scheduler, *workers = self.processes
        for some in (workers, [scheduler]):  # workers take leave of a scheduler that is there
            for process in some:
                process.terminate()
            for process in some:
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self.log.close()
