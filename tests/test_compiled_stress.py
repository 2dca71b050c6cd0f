"""Compiled functions on eight threads that allocate, raise, and are left in the middle.

``FRAMEFOLD_STRESS_SECONDS`` says for how long at least, ``FRAMEFOLD_SEED`` where chance begins.
"""

import collections
import os
import random
import threading
import time

import numpy as np
import pytest
from compiled_cases import cache, dataset  # noqa: F401

import framefold as ff

pytest.importorskip("numba")

SECONDS = float(os.environ.get("FRAMEFOLD_STRESS_SECONDS", "0"))
SEED = int(os.environ.get("FRAMEFOLD_SEED", "20"))
N_CALLERS, N_ROUNDS = 3, 6
ENDS = ("complete", "raises", "left", "new parameters")


class Stressed(ff.UDF):
    """Allocates for each frame, and raises for some values of a parameter."""

    def get_result_buffers(self):
        return {"sum": self.buffer("nav", dtype="float64"), "all": self.buffer("sig", dtype="f8")}

    @ff.compiled
    def process_frame(self, frame):
        copy = frame.astype(np.float64) * self.params.factor
        parts = [copy[i].copy() for i in range(copy.shape[0])]
        for part in parts:
            if part[0] == self.params.bad * self.params.factor:
                raise ValueError("bad pixel")
            self.results.sum[0] += part.sum()
        self.results.all += copy

    @ff.compiled
    def merge(self, dest, src):
        dest.sum[:] = src.sum
        dest.all += src.all


class Caller:
    """One thread's runs; what they give is what NumPy gives, or the exception of the function."""

    def __init__(self, ctx, data, seed):
        self.ctx, self.data, self.rng = ctx, data, random.Random(seed)
        self.dataset = dataset(ctx, data, num_partitions=32)
        self.sums = data.sum((2, 3), dtype="f8")
        self.ends, self.failures = collections.Counter(), []

    def run(self, until):
        rounds = 0
        while rounds < N_ROUNDS or time.monotonic() < until:
            end = ENDS[rounds] if rounds < len(ENDS) else self.rng.choice(ENDS)
            try:
                getattr(self, end.replace(" ", "_"))()
            except BaseException as error:
                self.failures.append(error)
                return
            self.ends[end] += 1
            rounds += 1

    def complete(self):
        roi = np.random.default_rng(self.rng.randrange(99)).random(self.data.shape[:2]) < 0.5
        factor = self.rng.choice([2.0, 0.5])
        found = self.ctx.run_udf(self.dataset, Stressed(factor=factor, bad=-1.0), roi=roi)
        np.testing.assert_allclose(found["sum"].raw_data, self.sums[roi] * factor)
        total = self.data[roi].sum(0, dtype="f8") * factor
        np.testing.assert_allclose(found["all"].data, total)

    def raises(self):
        bad = float(self.data[self.rng.randrange(16), self.rng.randrange(16), 3, 0])
        with pytest.raises(ValueError, match="bad pixel"):
            self.ctx.run_udf(self.dataset, Stressed(factor=2.0, bad=bad))

    def left(self):
        steps = self.ctx.run_udf_iter(self.dataset, Stressed(factor=2.0, bad=-1.0))
        for _ in range(self.rng.randrange(4)):
            next(steps, None)
        steps.close()

    def new_parameters(self):
        steps = self.ctx.run_udf_iter(self.dataset, Stressed(factor=2.0, bad=-1.0))
        first = next(steps)
        steps.update_parameters_experimental([{"factor": 4.0}])
        last = [first, *steps][-1]
        found = last.buffers[0]["sum"].data / self.sums
        assert (np.isclose(found, 2) | np.isclose(found, 4)).all()


def test_eight_threads_that_allocate_and_raise():
    data = np.random.default_rng(1).random((16, 16, 12, 12)).astype("f4") + 1
    with ff.Context.make_with("threads", cpus=8) as ctx:
        callers = [Caller(ctx, data, SEED + number) for number in range(N_CALLERS)]
        until = time.monotonic() + SECONDS
        threads = [threading.Thread(target=caller.run, args=(until,)) for caller in callers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    print("seed", SEED, sum((caller.ends for caller in callers), collections.Counter()))
    assert [error for caller in callers for error in caller.failures] == []
