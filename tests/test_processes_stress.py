"""Many small runs on worker processes, some of them cancelled, some with workers that are killed.

Each ends in the right result or in an error that says why, none hangs, and nothing is left.
``FRAMEFOLD_STRESS_SECONDS`` says for how long, ``FRAMEFOLD_SEED`` where chance begins.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
import time

import numpy as np
import pytest
from process_cases import files_and_threads, gone, new_since, nothing_new, shm
from sample_udfs import Level

import framefold as ff
from framefold.exceptions import InvalidArgumentError, UDFRunCancelled, WorkerError
from framefold.executor import auto

if sys.platform != "linux":
    pytest.skip("looks at /proc, and uses signals", allow_module_level=True)

SECONDS = float(os.environ.get("FRAMEFOLD_STRESS_SECONDS", "10"))
SEED = int(os.environ.get("FRAMEFOLD_SEED", "20"))
#: How long one run may take on a machine that does much else, and all of them to end.
PATIENCE = 60
N_THREADS = 3
CLOSED = "closed"


class Failing(Level):
    def process_frame(self, frame):
        if self.meta.slice.origin[0] == 41:
            raise ZeroDivisionError
        super().process_frame(frame)


class Runs:
    """One thread's runs, until the time is over; counts how they end."""

    def __init__(self, contexts, seed, deadline):
        self.contexts = contexts
        self.rng = random.Random(seed)
        self.deadline = deadline
        self.ends = dict.fromkeys(("done", "cancelled", "worker died", "failed", CLOSED), 0)
        self.wrong = []
        self.longest = 0.0
        rng = np.random.default_rng(seed)
        # Partial results of the larger ones go through shared memory.
        self.data = [rng.random((60, n, n)).astype(np.float32) for n in (8, 160)]

    def go(self):
        while time.monotonic() < self.deadline:
            begin = time.monotonic()
            try:
                self.ends[self.one()] += 1
            except BaseException as exception:
                self.wrong.append(exception)
            self.longest = max(self.longest, time.monotonic() - begin)

    def one(self):
        """One run; says how it ended, and raises what no run should end in."""
        kind = self.rng.random()
        name = self.rng.choice(list(self.contexts))
        offset = self.rng.randrange(100)
        data = self.rng.choice(self.data)
        n_partitions = self.rng.choice([2, 7, 60])
        fails = kind < 0.1
        udfs = [Failing(offset=offset) if fails else Level(offset=offset), ff.SumUDF()]
        ways = {0.1: self.close_context, 0.13: self.wait_for, 0.2: self.stop, 0.4: self.close_late}
        way = next((ways[limit] for limit in reversed(ways) if kind >= limit), self.to_end)
        if kind >= 0.6:
            way = self.to_end
        ctx = self.contexts[name]
        dataset = ctx.load("memory", data=data, num_partitions=n_partitions)
        try:
            buffers = way(ctx, dataset, udfs)
        except (UDFRunCancelled, TimeoutError):
            if way in (self.to_end, self.stop):
                raise
            return "cancelled"
        except InvalidArgumentError as error:
            if way != self.close_context or "closed" not in str(error):
                raise
            return CLOSED
        except WorkerError as error:
            if "signal 9" not in str(error):
                raise
            return "worker died"
        except ZeroDivisionError:
            if not fails:
                raise
            return "failed"
        if buffers is None:
            return "cancelled"
        assert not fails
        expected = data.reshape(60, -1).sum(axis=1, dtype=np.float64) + offset
        np.testing.assert_allclose(buffers[0]["level"].data, expected, rtol=1e-4)
        np.testing.assert_allclose(buffers[1]["intensity"].data, data.sum(axis=0), rtol=1e-5)
        return CLOSED if way == self.close_context else "done"

    def to_end(self, ctx, dataset, udfs):
        if self.rng.random() < 0.5:
            return ctx.run_udf(dataset, udfs)
        results = None
        for step in ctx.run_udf_iter(dataset, udfs):
            results = step
        return results.buffers

    def stop(self, ctx, dataset, udfs):
        """After some steps: closed, or dropped."""
        steps = ctx.run_udf_iter(dataset, udfs)
        n_steps = self.rng.randrange(6)
        for _ in zip(range(n_steps), steps, strict=False):
            pass
        if self.rng.random() < 0.5:
            steps.close()

    def close_late(self, ctx, dataset, udfs):
        """At any time, from another thread."""
        with ctx.run_udf_iter(dataset, udfs) as steps:
            other = threading.Timer(self.rng.random() * 0.05, steps.close)
            other.start()
            results = None
            try:
                for step in steps:
                    results = step
            finally:
                other.join()
            if results is None or not results.damage.data.all():
                return None
            return results.buffers

    def wait_for(self, ctx, dataset, udfs):
        """From an event loop, which loses patience."""
        seconds = self.rng.random() * 0.1
        run = ctx.run_udf(dataset, udfs, sync=False)
        return asyncio.run(asyncio.wait_for(run, seconds))

    def close_context(self, _ctx, dataset, udfs):
        """With a context of its own, which is closed at any time."""
        with ff.Context.make_with(self.rng.choice(list(self.contexts)), cpus=2) as ctx:
            other = threading.Timer(self.rng.random() * 0.6, ctx.close)
            other.start()
            try:
                return ctx.run_udf(dataset, udfs)
            finally:
                other.join()


# Where all workers are killed before they are ready, the default executor goes on with threads.
@pytest.mark.filterwarnings("ignore::framefold.warnings.ThreadsInsteadWarning")
def test_stress(monkeypatch):
    names, before = shm(), files_and_threads()
    # The default executor takes workers for the shortest of runs.
    monkeypatch.setattr(auto, "PATIENCE", 0.0)
    monkeypatch.setattr(auto, "SHARE", float("inf"))
    print("seed", SEED)
    deadline = time.monotonic() + SECONDS
    rng = random.Random(SEED)
    workers = set()
    contexts = {name: ff.Context.make_with(name, cpus=2) for name in ("processes", "auto")}
    runs = [Runs(contexts, SEED + n, deadline) for n in range(N_THREADS)]
    threads = [threading.Thread(target=run.go, daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    kills, paused = 0, 0.0
    while time.monotonic() < deadline:
        seconds, begin = rng.random() * 0.4, time.monotonic()
        time.sleep(seconds)
        # The machine may have stood still, or done something else altogether.
        paused += max(0.0, time.monotonic() - begin - seconds - 0.5)
        pids = [pid for ctx in contexts.values() for pid in ctx.executor.worker_ids]
        workers.update(pids)
        if pids and rng.random() < 0.5:
            try:
                os.kill(rng.choice(pids), signal.SIGKILL)
            except ProcessLookupError:
                continue
            kills += 1
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), (SEED, "a run hangs")
    for ctx in contexts.values():
        workers.update(ctx.executor.worker_ids)
        ctx.close()
    wrong = [f"{type(e).__name__}: {e}" for run in runs for e in run.wrong]
    assert not wrong, (SEED, len(wrong), wrong[:5])
    ends = {name: sum(run.ends[name] for run in runs) for name in runs[0].ends}
    longest = max(run.longest for run in runs)
    print(ends, "kills", kills, f"longest run {longest:.2f} s, pauses {paused:.2f} s")
    assert longest - paused < PATIENCE
    assert kills
    # On a machine that does much else, few runs have their turn.
    expected = ("done", "cancelled", "failed") if SECONDS >= 60 else ("done",)
    assert all(ends[name] for name in expected), ends
    assert gone(workers)
    assert shm() <= names
    assert nothing_new(before), new_since(before)
