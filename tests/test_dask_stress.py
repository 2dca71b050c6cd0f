"""Many small runs on a Dask cluster, some of them cancelled, some with workers that are killed.

Each ends in the right result or in an error that says why, none hangs, and nothing is left.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from process_cases import eventually, gone
from sample_udfs import Level

pytest.importorskip("distributed")

from dask_cases import forgotten, local_processes

import framefold as ff
from framefold.exceptions import UDFRunCancelled, WorkerError

if sys.platform != "linux":
    pytest.skip("uses signals", allow_module_level=True)

SECONDS = float(os.environ.get("FRAMEFOLD_STRESS_SECONDS", "20"))
N_THREADS = 3


class Failing(Level):
    def process_frame(self, frame):
        if self.meta.slice.origin[0] == 41:
            raise ZeroDivisionError
        super().process_frame(frame)


class Runs:
    """One thread's runs, until the time is over; counts how they end."""

    def __init__(self, ctx, seed, deadline):
        self.ctx = ctx
        self.rng = random.Random(seed)
        self.deadline = deadline
        self.ends = {"done": 0, "cancelled": 0, "worker died": 0, "failed": 0, "wrong": 0}
        self.wrong = []
        self.errors = []
        rng = np.random.default_rng(seed)
        # The larger ones are scattered, and have large partial results.
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
        udfs = [Failing(offset=offset) if kind < 0.2 else Level(offset=offset), ff.SumUDF()]
        stop_after = self.rng.randrange(n_partitions) if kind > 0.7 else None
        results = other = None
        try:
            with self.ctx.run_udf_iter(dataset=dataset, udf=udfs) as steps:
                if kind > 0.85:
                    other = threading.Timer(self.rng.random() * 0.3, steps.close)
                    other.start()
                for number, step in enumerate(steps):
                    results = step
                    if number == stop_after:
                        return "cancelled"
            if results is None or not results.damage.data.all():
                return "cancelled"
        except UDFRunCancelled:
            assert kind > 0.85
            return "cancelled"
        except WorkerError as error:
            self.errors.append(str(error))
            return "worker died" if "died while processing" in str(error) else "wrong"
        except ZeroDivisionError:
            assert kind < 0.2
            return "failed"
        finally:
            if other is not None:
                other.join()
        expected = data.reshape(60, -1).sum(axis=1, dtype=np.float64) + offset
        np.testing.assert_allclose(results[0]["level"].data, expected, rtol=1e-4)
        np.testing.assert_allclose(results[1]["intensity"].data, data.sum(axis=0), rtol=1e-5)
        return "done"


def ready_processes(executor):
    """The processes of workers that the scheduler knows."""
    cluster = executor.client.cluster
    known = set(cluster.scheduler.aliases)
    return [each._process.pid for each in list(cluster.workers.values()) if each.name in known]


def test_stress():
    seed = int(os.environ.get("FRAMEFOLD_SEED", time.time_ns() % 10**9))
    print("seed", seed)
    rng = random.Random(seed)
    workers, kills = set(), 0
    with ff.Context.make_with("dask", cpus=2) as ctx:
        assert eventually(lambda: ctx.executor.n_workers == 2, 60)
        deadline = time.monotonic() + SECONDS
        runs = [Runs(ctx, seed + n, deadline) for n in range(N_THREADS)]
        threads = [threading.Thread(target=run.go) for run in runs]
        for thread in threads:
            thread.start()
        while time.monotonic() < deadline:
            time.sleep(1 + 2 * rng.random())
            workers.update(local_processes(ctx.executor))
            # Those that die again and again before they are ready are given up.
            if pids := ready_processes(ctx.executor):
                with suppress(ProcessLookupError):  # it has died by itself
                    os.kill(rng.choice(pids), signal.SIGKILL)
                    kills += 1
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive(), seed
        workers.update(local_processes(ctx.executor))
        assert forgotten(ctx.executor)
    wrong = [exception for run in runs for exception in run.wrong]
    assert not wrong, (seed, wrong)
    ends = {name: sum(run.ends[name] for run in runs) for name in runs[0].ends}
    print(ends, "kills", kills, [error for run in runs for error in run.errors])
    assert kills > 2
    assert ends["wrong"] == 0, (seed, [error for run in runs for error in run.errors])
    assert all(ends[name] for name in ("done", "cancelled", "failed")), ends
    assert gone(workers)
