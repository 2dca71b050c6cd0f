"""Many small runs on each executor: some cancelled, some fail, and workers are killed meanwhile.

Each ends in the right result or in an error that says why, none hangs, and nothing is left.
``FRAMEFOLD_STRESS_SECONDS`` says for how long at least, ``FRAMEFOLD_SEED`` where chance begins.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import sys
import threading
import time
from contextlib import ExitStack, suppress

import numpy as np
import pytest
from executor_subjects import SUBJECTS, made
from process_cases import eventually, files_and_threads, new_since, nothing_new
from sample_udfs import Level

import framefold as ff
from framefold.exceptions import InvalidArgumentError, UDFRunCancelled, WorkerError

if sys.platform != "linux":
    pytest.skip("looks at /proc, and uses signals", allow_module_level=True)

SECONDS = float(os.environ.get("FRAMEFOLD_STRESS_SECONDS", "1"))
SEED = int(os.environ.get("FRAMEFOLD_SEED", "20"))
#: How long one run may take on a machine that does much else, and all of them to end.
PATIENCE = 120
N_THREADS = 3
N_FRAMES = 60


class Failing(Level):
    def process_frame(self, frame):
        if self.meta.slice.origin[0] == 41:
            raise ZeroDivisionError
        super().process_frame(frame)


class Runs:
    """One thread's runs, until the time is over; counts how they end."""

    def __init__(self, subject, context, seed):
        self.subject = subject
        self.context = context
        self.rng = random.Random(seed)
        self.stopped = threading.Event()
        self.ends = dict.fromkeys(("done", "cancelled", "worker died", "failed"), 0)
        self.wrong = []
        self.longest = 0.0
        rng = np.random.default_rng(seed)
        # Partial results of the larger ones go through shared memory.
        self.data = [rng.random((N_FRAMES, n, n)).astype(np.float32) for n in (8, 160)]
        #: Ways to run, and how often each is taken.
        self.ways = {self.to_end: 50, self.stop: 20, self.close_late: 20}
        if not subject.computes_later:
            self.ways[self.wait_for] = 7
        if subject.can_be_closed:
            self.ways[self.close_context] = 3

    def go(self):
        while not self.stopped.is_set():
            begin = time.monotonic()
            try:
                self.ends[self.one()] += 1
            except BaseException as exception:
                self.wrong.append(exception)
            self.longest = max(self.longest, time.monotonic() - begin)

    def one(self):
        """One run; says how it ended, and raises what no run should end in."""
        offset, fails = self.rng.randrange(100), self.rng.random() < 0.2
        data = self.rng.choice(self.data)
        udfs = [Failing(offset=offset) if fails else Level(offset=offset), ff.SumUDF()]
        way = self.rng.choices([*self.ways], weights=[*self.ways.values()])[0]
        dataset = self.context.load("memory", data=data, num_partitions=self.rng.choice([2, 7, 60]))
        try:
            buffers = way(dataset, udfs)
            if buffers is None:
                return "cancelled"
            # Some executors compute them now.
            levels, total = buffers[0]["level"].data, buffers[1]["intensity"].data
        except (UDFRunCancelled, TimeoutError):
            if way in (self.to_end, self.stop):
                raise
            return "cancelled"
        except InvalidArgumentError as error:
            if way != self.close_context or "closed" not in str(error):
                raise
            return "cancelled"
        except WorkerError as error:
            how = self.subject.says_how.get("kill", "signal 9")
            if self.subject.workers is None or how not in str(error):
                raise
            return "worker died"
        except ZeroDivisionError:
            if not fails:
                raise
            return "failed"
        assert not fails
        expected = data.reshape(N_FRAMES, -1).sum(axis=1, dtype=np.float64) + offset
        np.testing.assert_allclose(levels, expected, rtol=1e-4)
        np.testing.assert_allclose(total, data.sum(axis=0), rtol=1e-5)
        return "done"

    def to_end(self, dataset, udfs):
        if self.rng.random() < 0.5:
            return self.context.run_udf(dataset, udfs)
        *_, last = self.context.run_udf_iter(dataset, udfs)
        return last.buffers

    def stop(self, dataset, udfs):
        """After some steps: closed, or dropped."""
        steps = self.context.run_udf_iter(dataset, udfs)
        n_steps = self.rng.randrange(6)
        for _ in zip(range(n_steps), steps, strict=False):
            pass
        if self.rng.random() < 0.5:
            steps.close()

    def close_late(self, dataset, udfs):
        """At any time, from another thread."""
        with self.context.run_udf_iter(dataset, udfs) as steps:
            longest = self.rng.choice([0.05, 0.3])
            other = threading.Timer(self.rng.random() * longest, steps.close)
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

    def wait_for(self, dataset, udfs):
        """From an event loop, which loses patience."""
        seconds = self.rng.random() * 0.1
        run = self.context.run_udf(dataset, udfs, sync=False)
        return asyncio.run(asyncio.wait_for(run, seconds))

    def close_context(self, dataset, udfs):
        """With a context of its own, which is closed at any time."""
        with self.subject.make() as ctx:
            other = threading.Timer(self.rng.random() * 0.6, ctx.close)
            other.start()
            try:
                return ctx.run_udf(dataset, udfs)
            finally:
                other.join()


@pytest.fixture(params=SUBJECTS)
def subject(request):
    with ExitStack() as stack:
        yield made(request.param, stack)


# Where all workers are killed before they are ready, the default executor goes on with threads.
@pytest.mark.filterwarnings("ignore::framefold.warnings.ThreadsInsteadWarning")
def test_stress(subject):
    print("seed", SEED)
    gc.collect()
    before = files_and_threads()
    context = subject.make()
    runs = [Runs(subject, context, SEED + n) for n in range(N_THREADS)]
    # Where workers take long to come back, or the machine does much else, few runs have their turn.
    all_ends = SECONDS >= 60 or subject.ready is not None
    expected = ("done", "cancelled", "failed") if all_ends else ("done",)
    least_kills = 0 if not subject.has_processes else 1 if subject.ready is None else 3

    def enough(kills):
        seen = all(any(run.ends[name] for run in runs) for name in expected)
        return seen and kills >= least_kills

    threads = [threading.Thread(target=run.go, daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    workers, kills, paused = disturb(subject, context.executor, enough)
    for run in runs:
        run.stopped.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), (SEED, "a run hangs")
    if subject.workers is not None:
        workers.update(identities(subject.workers(context.executor)))
    if subject.forgotten is not None:
        assert subject.forgotten(context.executor)
    context.close()
    wrong = [f"{type(e).__name__}: {e}" for run in runs for e in run.wrong]
    assert not wrong, (SEED, len(wrong), wrong[:5])
    ends = {name: sum(run.ends[name] for run in runs) for name in runs[0].ends}
    longest = max(run.longest for run in runs)
    print(ends, "kills", kills, f"longest run {longest:.2f} s, pauses {paused:.2f} s")
    assert longest - paused < PATIENCE
    assert all(ends[name] for name in expected), ends
    assert kills >= least_kills
    gc.collect()
    if subject.owns_workers:
        assert eventually(lambda: not workers & identities(pid for pid, _ in workers))
    if subject.forgotten is None:
        assert nothing_new(before), new_since(before)


def identities(pids):
    """Numbers of processes that run, with when each began: numbers are used again."""
    found = set()
    for pid in pids:
        with suppress(OSError), open(f"/proc/{pid}/stat") as file:
            state, *rest = file.read().rpartition(")")[2].split()
            if state != "Z":
                found.add((pid, rest[18]))
    return found


def disturb(subject, executor, enough):
    """Kill workers now and then, until the time is over and enough has happened.

    Returns all workers that there were, how many were killed, and how long the machine paused.
    """
    rng = random.Random(SEED)
    workers, kills, paused = set(), 0, 0.0
    # A worker of Dask's takes longer to come back.
    pause = 0.4 if subject.ready is None else 2.0
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline or (
        not enough(kills) and time.monotonic() < deadline + PATIENCE
    ):
        seconds, begin = pause * rng.uniform(0.5, 1.5), time.monotonic()
        time.sleep(min(seconds, SECONDS / 3))
        # The machine may have stood still, or done something else altogether.
        paused += max(0.0, time.monotonic() - begin - seconds - 0.5)
        if subject.workers is None:
            continue
        workers.update(identities(subject.workers(executor)))
        pids = (subject.ready or subject.workers)(executor)
        # On a busy machine, no worker of Dask's would live long enough to do anything.
        if len(pids) > (0 if subject.ready is None else 1):
            try:
                os.kill(rng.choice(pids), signal.SIGKILL)
            except ProcessLookupError:  # it has died by itself
                continue
            kills += 1
    return workers, kills, paused
