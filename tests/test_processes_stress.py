"""Many small runs on worker processes, some of them cancelled, some with workers that are killed.

Each ends in the right result or in an error that says why, none hangs, and nothing is left.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time

import numpy as np
import pytest
from process_cases import (
    gone,
    hard_limit,  # noqa: F401 - a fixture
    open_files,
    pool_threads,
    shm,
)
from sample_udfs import Level

import framefold as ff
from framefold.exceptions import UDFRunCancelled, WorkerError

if sys.platform != "linux":
    pytest.skip("looks at /proc, and uses signals", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("hard_limit")

SECONDS = 30
N_THREADS = 3


class Runs:
    """One thread's runs, until the time is over; counts how they end."""

    def __init__(self, ctx, seed, deadline):
        self.ctx = ctx
        self.rng = random.Random(seed)
        self.deadline = deadline
        self.ends = {"done": 0, "cancelled": 0, "worker died": 0, "failed": 0, "wrong": 0}
        self.wrong = []
        rng = np.random.default_rng(seed)
        # Partial results of the larger ones go through shared memory.
        self.data = [rng.random((60, n, n)).astype(np.float32) for n in (8, 160)]

    def go(self):
        try:
            while time.monotonic() < self.deadline:
                self.ends[self.one()] += 1
        except BaseException as exception:
            self.wrong.append(exception)

    def one(self):
        data = self.rng.choice(self.data)
        n_partitions = self.rng.choice([1, 7, 60])
        dataset = self.ctx.load("memory", data=data, num_partitions=n_partitions)
        offset, kind = self.rng.randrange(100), self.rng.random()
        udfs = [Failing(offset=offset) if kind < 0.1 else Level(offset=offset), ff.SumUDF()]
        stop_after = self.rng.randrange(n_partitions) if kind > 0.8 else None
        other = results = None
        try:
            with self.ctx.run_udf_iter(dataset=dataset, udf=udfs) as steps:
                if kind > 0.9:
                    other = threading.Timer(self.rng.random() * 0.05, steps.close)
                    other.start()
                for step in steps:
                    results = step
                    if stop_after == 0:
                        return "cancelled"
                    stop_after = None if stop_after is None else stop_after - 1
                if results is None or not results.damage.data.all():
                    return "cancelled"
        except UDFRunCancelled:
            assert kind > 0.9
            return "cancelled"
        except WorkerError as error:
            return "worker died" if "signal 9" in str(error) else "wrong"
        except ZeroDivisionError:
            assert kind < 0.1
            return "failed"
        finally:
            if other is not None:
                other.join()
        expected = data.reshape(60, -1).sum(axis=1, dtype=np.float64) + offset
        np.testing.assert_allclose(results[0]["level"].data, expected, rtol=1e-4)
        np.testing.assert_allclose(results[1]["intensity"].data, data.sum(axis=0), rtol=1e-5)
        return "done"


class Failing(Level):
    def process_frame(self, frame):
        if self.meta.slice.origin[0] == 41:
            raise ZeroDivisionError
        super().process_frame(frame)


def test_stress():
    names, files = shm(), open_files()
    seed = int(os.environ.get("FRAMEFOLD_SEED", time.time_ns() % 10**9))
    print("seed", seed)
    deadline = time.monotonic() + SECONDS
    rng = random.Random(seed)
    workers = set()
    with ff.Context.make_with("processes", cpus=2) as ctx:
        runs = [Runs(ctx, seed + n, deadline) for n in range(N_THREADS)]
        threads = [threading.Thread(target=run.go) for run in runs]
        for thread in threads:
            thread.start()
        kills = 0
        while time.monotonic() < deadline:
            time.sleep(rng.random() * 0.4)
            pids = ctx.executor.worker_ids
            workers.update(pids)
            if pids and rng.random() < 0.5:
                os.kill(rng.choice(pids), signal.SIGKILL)
                kills += 1
        for thread in threads:
            thread.join(40)
            assert not thread.is_alive()
        workers.update(ctx.executor.worker_ids)
    wrong = [exception for run in runs for exception in run.wrong]
    assert not wrong, (seed, wrong)
    ends = {name: sum(run.ends[name] for run in runs) for name in runs[0].ends}
    print(ends, "kills", kills)
    assert kills > 5
    assert ends["wrong"] == 0
    assert all(ends[name] for name in ("done", "cancelled", "failed")), ends
    assert gone(workers)
    assert pool_threads() == []
    assert shm() == names
    assert open_files() == files
