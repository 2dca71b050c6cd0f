"""What is not reported on Dask: results that are on their way when runs end, and other clusters."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from process_cases import (
    LIMIT,
    PerFrame,
    eventually,
    frames,
    hard_limit,  # noqa: F401 - a fixture
)

pytest.importorskip("distributed")

from dask_cases import assert_usable

import framefold as ff
from framefold.executor import dask
from framefold.executor._dask import crew, feed

pytestmark = pytest.mark.usefixtures("hard_limit")

#: Has a worker wait before it sends a result, from when there is a file ``hold`` until there is a
#: file ``go``.
SLOW = """
import asyncio
from pathlib import Path

folder = Path(%r)

def dask_setup(worker):
    send = worker.handlers["get_data"]

    async def slow(comm, keys, **options):
        if any("partitions" in str(key) for key in keys) and (folder / "hold").exists():
            (folder / "sending").touch()
            while not (folder / "go").exists():
                await asyncio.sleep(0.01)
        return await send(comm, keys=keys, **options)

    worker.handlers["get_data"] = slow
"""


@pytest.mark.parametrize("which", ["run", "context"])
def test_what_is_on_its_way_arrives(which, tmp_path, capfd, monkeypatch):
    for module, name in [(feed, "PATIENCE"), (crew, "LEAVING"), (dask, "LEAVING")]:
        monkeypatch.setattr(module, name, LIMIT)
    reported, has_arrived = [], []
    scheduler = logging.getLogger("distributed.scheduler")
    monkeypatch.setattr(scheduler, "error", lambda *said: reported.append(said))
    (tmp_path / "slow.py").write_text(SLOW % str(tmp_path))
    spec = dask.cluster_spec(2, preload=[str(tmp_path / "slow.py")])
    with ff.Context(executor=dask.DaskJobExecutor.make_local(spec)) as ctx:
        client = ctx.executor.client
        close = client.close
        monkeypatch.setattr(
            client, "close", lambda: (has_arrived.append((tmp_path / "go").exists()), close())
        )
        steps = ctx.run_udf_iter(frames(ctx, 1000, 100), PerFrame(lambda _frame: time.sleep(0.01)))
        next(steps)
        (tmp_path / "hold").touch()
        assert eventually((tmp_path / "sending").exists)
        later = threading.Timer(0.5, (tmp_path / "go").touch)
        later.start()
        if which == "run":
            steps.close()
            assert_usable(ctx)
    later.join()
    if which == "context":
        assert has_arrived == [True]
    assert capfd.readouterr().err == ""
    assert not reported


def test_nothing_is_said_while_one_of_several_clusters_is_there():
    (handler,) = logging.getLogger("distributed").handlers
    before = handler.level
    first, second = (ff.Context.make_with("dask", cpus=1) for _ in range(2))
    with second:
        with first:
            assert handler.level == logging.ERROR
        assert handler.level == logging.ERROR
    assert handler.level == before
