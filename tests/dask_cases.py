"""What tests of Dask executors share."""

from __future__ import annotations

import gc
import os
import tempfile
import threading

import numpy as np
import pytest
from process_cases import eventually, gone

import framefold as ff

pytest.importorskip("distributed")

from framefold.executor.dask import DaskJobExecutor


def local_processes(executor):
    """The processes of a local cluster's workers."""
    workers = list(executor.client.cluster.workers.values())
    return [worker._process.pid for worker in workers if worker._process is not None]


def own_threads():
    return {thread.name for thread in threading.enumerate() if not thread.daemon}


def scratch():
    """The folders of local clusters that this process has now."""
    own = f"framefold-dask-{os.getpid()}-"
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith(own)}


def forgotten(executor):
    """Whether neither client nor scheduler knows a task of framefold any more, or soon will."""
    scheduler = executor.client.cluster.scheduler

    def nothing():
        left = [*executor.client.futures, *scheduler.tasks]
        return not any("framefold" in str(key) for key in left)

    return eventually(nothing)


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


@pytest.fixture(scope="module")
def connected(local):
    """A context that is connected to the same cluster, as from elsewhere."""
    address = local.executor.client.cluster.scheduler_address
    with ff.Context(executor=DaskJobExecutor.connect(address)) as context:
        yield context


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


def assert_same(one, other):
    """Whether results are equal, bit for bit."""
    assert type(one) is type(other)
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            for show in ("data", "raw_data", "valid_mask"):
                left, right = getattr(a[name], show), getattr(b[name], show)
                assert (left.dtype, left.shape) == (right.dtype, right.shape)
                if left.dtype == object:
                    assert left.tolist() == right.tolist()
                else:
                    assert left.tobytes() == right.tobytes(), (name, show)


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
