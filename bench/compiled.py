"""Compiled functions beside NumPy, Numba within ``process_frame``, and the engine's own kernels.

Answers are compared before times are taken; each figure is the best of some runs on data in memory.
Run it on its own: ``python bench/compiled.py [--threads N] [--markdown] [--cpu]``. Where others
work on the same cores, ``--cpu`` gives the time on all cores together: a thread more helps as far
as that does not grow.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
from cached import again
from loops import brightest

import framefold as ff

ROUNDS = 7
#: Frames of a run in the cache. A run begins on one thread alone, for nearly 1 ms: with 4096
#: frames, that is a fifth of what two threads take.
IN_CACHE = 32768


class Native(ff.UDF):
    """Gets the data as they are."""

    def get_preferred_input_dtype(self) -> Any:
        """Those of the data set."""
        return self.USE_NATIVE_DTYPE


class Where(Native):
    """The place of the brightest pixel, by NumPy."""

    def get_result_buffers(self) -> Any:
        """One number for each frame."""
        return {"where": self.buffer("nav", dtype="int64")}

    def process_frame(self, frame: Any) -> None:
        """Find it."""
        self.results.where[0] = frame.argmax()


by_numba = numba.njit(nogil=True)(brightest)
brightest_compiled = ff.compiled(boundscheck=False)(brightest)


class WhereNumba(Where):
    """The same with Numba inside."""

    def process_frame(self, frame: Any) -> None:
        """Find it."""
        self.results.where[0] = by_numba(frame)


class WhereCompiled(Where):
    """The same, compiled."""

    @ff.compiled
    def process_frame(self, frame: Any) -> None:
        """Find it."""
        self.results.where[0] = brightest_compiled(frame)


class Largest(Native):
    """The largest value, by NumPy."""

    def get_result_buffers(self) -> Any:
        """One number for each frame."""
        return {"max": self.buffer("nav", dtype="uint16")}

    def process_frame(self, frame: Any) -> None:
        """Find it."""
        self.results.max[0] = frame.max()


largest_numba = numba.njit(nogil=True)(lambda frame: frame.max())


class LargestNumba(Largest):
    """The same with Numba inside."""

    def process_frame(self, frame: Any) -> None:
        """Find it."""
        self.results.max[0] = largest_numba(frame)


class LargestCompiled(Largest):
    """The same, compiled."""

    @ff.compiled
    def process_frame(self, frame: Any) -> None:
        """Find it."""
        self.results.max[0] = frame.max()


class Sum(ff.UDF):
    """The sum of all frames, by NumPy."""

    def get_result_buffers(self) -> Any:
        """One number for each pixel."""
        return {"intensity": self.buffer("sig", dtype="float32")}

    def get_preferred_input_dtype(self) -> Any:
        """As the data are."""
        return self.USE_NATIVE_DTYPE

    def process_tile(self, tile: Any) -> None:
        """Add."""
        self.results.intensity += tile.sum(axis=0)

    def merge(self, dest: Any, src: Any) -> None:
        """Add."""
        dest.intensity += src.intensity


class SumCompiled(Sum):
    """The same, compiled."""

    @ff.compiled(boundscheck=False)
    def process_tile(self, tile: Any) -> None:
        """Add four frames at a time: sums go to memory and back a quarter as often."""
        out = self.results.intensity
        rest = tile.shape[0] % 4
        for i in range(rest):
            out += tile[i]
        for i in range(rest, tile.shape[0], 4):
            a, b, c, d = tile[i], tile[i + 1], tile[i + 2], tile[i + 3]
            for y in range(out.shape[0]):
                for x in range(out.shape[1]):
                    first = np.float32(a[y, x]) + np.float32(b[y, x])
                    out[y, x] += first + np.float32(c[y, x]) + np.float32(d[y, x])

    @ff.compiled
    def merge(self, dest: Any, src: Any) -> None:
        """Add."""
        dest.intensity += src.intensity


class MaskCompiled(ff.UDF):
    """One mask on sparse frames, compiled."""

    def get_backends(self) -> Any:
        """Rows of SciPy's CSR."""
        return (self.BACKEND_SCIPY_CSR,)

    def get_result_buffers(self) -> Any:
        """One number for each frame."""
        return {"intensity": self.buffer("nav", (1,), dtype="float32")}

    @ff.compiled(boundscheck=False)
    def process_frame(self, frame: Any) -> None:
        """Add up what the mask weighs."""
        total = np.float32(0)
        for k in range(frame.data.size):
            total += frame.data[k] * self.params.mask[frame.indices[k]]
        self.results.intensity[0] = total


def best(run: Callable[[], Any], n: int, clock: Callable[[], float]) -> float:
    """Microseconds for each of ``n`` frames, the best of some runs."""
    run()
    times = []
    for _ in range(ROUNDS):
        begin = clock()
        run()
        times.append(clock() - begin)
    return min(times) / n * 1e6


def rows(threads: int, clock: Callable[[], float]) -> list[tuple[str, str, float]]:
    """Case, how, and microseconds a frame."""
    one, many = ff.Context.make_with("inline"), ff.Context.make_with("threads", cpus=threads)
    contexts = [(one, "1 thread"), (many, f"{threads} threads")]
    made: list[tuple[str, str, float]] = []

    def measure(case: str, data: Any, udfs: dict[str, Any], n: int, **load: Any) -> None:
        expected = None
        for ctx, where in contexts:
            dataset = ctx.load("memory", data=data, **load)
            for how, udf in udfs.items():
                found = ctx.run_udf(dataset=dataset, udf=udf)
                answer = np.asarray(next(iter(found.values())).raw_data).reshape(-1)
                expected = answer if expected is None else expected
                np.testing.assert_allclose(answer, expected, rtol=1e-5)
                run = partial(ctx.run_udf, dataset=dataset, udf=udf)
                took = best(run, n, clock)
                made.append((case, f"{how}, {where}", took))
                print(f"{case}: {how}, {where}: {took:.3g}", file=sys.stderr, flush=True)

    rng = np.random.default_rng(0)
    data = rng.integers(0, 4000, (64, 64, 256, 256), dtype=np.uint16)
    wheres = {"NumPy": Where(), "njit in process_frame": WhereNumba(), "compiled": WhereCompiled()}
    measure("brightest pixel, 256² uint16", data, wheres, 4096)
    for n in (4, 64) if sys.platform == "linux" else ():
        case = f"brightest pixel, {n} frames again and again, in the cache"
        measure(case, again(data[0, :n], IN_CACHE // n), wheres, IN_CACHE, sig_dims=2)
    sums = {"NumPy": Sum(), "native kernel": ff.SumUDF(), "compiled": SumCompiled()}
    measure("sum of frames, 256² uint16", data, sums, 4096)
    del data
    small = rng.integers(0, 4000, (1000, 1000, 16, 16), dtype=np.uint16)
    largest = {"njit in process_frame": LargestNumba(), "compiled": LargestCompiled()}
    measure("frame.max(), 1 M frames of 16²", small, largest, 1_000_000)
    del small
    from scipy import sparse

    rows_ = sparse.random_array((65536, 65536), density=0.001, format="csr", rng=rng, dtype="f4")
    mask = rng.random((256, 256)).astype("f4")
    masks = {
        "native kernel": ff.ApplyMasksUDF(mask_factories=[lambda: mask]),
        "compiled": MaskCompiled(mask=mask.reshape(-1)),
    }
    shapes = {"nav_shape": (256, 256), "sig_shape": (256, 256)}
    measure("mask on sparse data, 0.1 %", rows_, masks, 65536, **shapes)
    return made


START = """
import sys, time
import numpy as np, framefold as ff
sys.path.insert(0, {here!r})
class Count(ff.UDF):
    def get_result_buffers(self):
        return {{"n": self.buffer("nav", dtype="int64")}}
    {mark}
    def process_frame(self, frame):
        for y in range(frame.shape[0]):
            for x in range(frame.shape[1]):
                if frame[y, x] > self.params.threshold:
                    self.results.n[0] += 1
ctx = ff.Context.make_with("inline")
ds = ctx.load("memory", data=np.ones((2, 2, 8, 8), "f4"))
begin = time.perf_counter()
ctx.run_udf(dataset=ds, udf=Count(threshold=0.5))
print(time.perf_counter() - begin)
"""


def starts() -> list[tuple[str, str, float]]:
    """Seconds that a first run takes longer with a compiled function than without."""

    def run(mark: str, cache: str) -> float:
        path = os.path.join(cache, "script.py")
        with open(path, "w") as file:
            file.write(START.format(here=os.path.dirname(__file__), mark=mark))
        env = {**os.environ, "FRAMEFOLD_CACHE_DIR": cache}
        done = subprocess.run(
            [sys.executable, path], check=True, text=True, capture_output=True, env=env
        )
        return float(done.stdout)

    with tempfile.TemporaryDirectory() as cache:
        plain = min(run("", cache) for _ in range(3))
        cold = run("@ff.compiled", cache)
        warm = min(run("@ff.compiled", cache) for _ in range(3))
    case = "first run in a process, s more than without"
    return [(case, "nothing cached", cold - plain), (case, "cached", warm - plain)]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="CPU time, on all cores together")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu else time.perf_counter
    if arguments.markdown:
        print("| case | how | µs a frame |\n|---|---|---:|")
    for case, how, took in [*rows(arguments.threads, clock), *starts()]:
        cells = case, how, f"{took:.3g}"
        print(
            "| " + " | ".join(cells) + " |" if arguments.markdown else "  ".join(cells), flush=True
        )


if __name__ == "__main__":
    main()
