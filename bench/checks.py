"""What the checks of compiled functions cost: the same bodies in plain ``numba.njit``.

Answers are compared before times are taken. Each figure is the best CPU time of some runs by turns
over the same frames of 256² ``float32``, which lie in the cache, in microseconds a frame. Run it on
its own: ``python bench/checks.py``, on Linux.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numba
import numpy as np
from cached import again

import framefold as ff

ROUNDS, N_FRAMES, SIZE = 3, 4096, 256


def centre_of_mass(frame: Any, out: Any) -> float:
    """Weighted sums of coordinates."""
    total, by_y, by_x = 0.0, 0.0, 0.0
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            total += frame[y, x]
            by_y += frame[y, x] * y
            by_x += frame[y, x] * x
    return by_y / total + by_x / total


def above_threshold(frame: Any, out: Any) -> int:
    """Pixels above a number."""
    n = 0
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            if frame[y, x] > 50.0:
                n += 1
    return n


def masks(frame: Any, out: Any) -> float:
    """Products with four masks."""
    total = 0.0
    for k in range(4):
        for y in range(frame.shape[0]):
            for x in range(frame.shape[1]):
                total += frame[y, x] * out[k, x]
    return total


def running_variance(frame: Any, out: Any) -> float:
    """Means and sums of squares that are kept up to date."""
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            difference = frame[y, x] - out[y, 0]
            out[y, 0] += difference / (x + 1)
            out[y, 1] += difference * (frame[y, x] - out[y, 0])
    mean = out[9, 0]
    out[:] = 0
    return mean


def cross_correlation(frame: Any, out: Any) -> float:
    """Sums over 9 × 9 pixels at 32 × 32 places."""
    best = 0.0
    for v in range(32):
        for u in range(32):
            total = 0.0
            for y in range(9):
                for x in range(9):
                    total += out[y, x] * frame[v + y, u + x] + frame[v + y, u + x]
            best = max(best, total)
    return best


def local_maxima(frame: Any, out: Any) -> int:
    """Pixels above a number and their eight neighbours."""
    n = 0
    for y in range(1, frame.shape[0] - 1):
        for x in range(1, frame.shape[1] - 1):
            if frame[y, x] > 55.0:
                largest = frame[y, x]
                for v in range(y - 1, y + 2):
                    for u in range(x - 1, x + 2):
                        largest = max(largest, frame[v, u])
                n += largest == frame[y, x]
    return n


def connected_events(frame: Any, out: Any) -> int:
    """Groups of pixels above a number, each found by going from one to the next."""
    n, stack = 0, np.empty((SIZE * SIZE, 2), np.int64)
    out[:] = 0
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            if frame[y, x] > 57.0 and out[y, x] == 0:
                n += 1
                out[y, x] = n
                stack[0, 0], stack[0, 1], left = y, x, 1
                while left > 0:
                    left -= 1
                    b, a = stack[left, 0], stack[left, 1]
                    for v in range(max(b - 1, 0), min(b + 2, frame.shape[0])):
                        for u in range(max(a - 1, 0), min(a + 2, frame.shape[1])):
                            if frame[v, u] > 57.0 and out[v, u] == 0:
                                out[v, u] = n
                                stack[left, 0], stack[left, 1] = v, u
                                left += 1
    out[:] = 0
    return n


def polar_by_nearest(frame: Any, out: Any) -> float:
    """The nearest pixel at 128 radii and 180 angles."""
    total = 0.0
    for t in range(180):
        by_y, by_x = math.sin(t * math.pi / 90), math.cos(t * math.pi / 90)
        for r in range(128):
            total += frame[int(128 + r * by_y), round(127.5 + r * by_x)]
    return total


def radial_histogram(frame: Any, out: Any) -> float:
    """Sums over rings."""
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            out[0, int(math.sqrt((y - 128) ** 2 + (x - 128) ** 2))] += frame[y, x]
    total = out[0, 99]
    out[0] = 0
    return total


def histogram(frame: Any, out: Any) -> float:
    """Counts of values."""
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            out[0, int(frame[y, x])] += 1
    n = out[0, 9]
    out[0] = 0
    return n


def sum_of_integers(frame: Any, out: Any) -> int:
    """A loop of nothing else."""
    total = 0
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            total += int(frame[y, x])
    return total


BODIES: tuple[Any, ...] = (
    centre_of_mass,
    above_threshold,
    masks,
    running_variance,
    cross_correlation,
    local_maxima,
    connected_events,
    polar_by_nearest,
    radial_histogram,
    histogram,
    sum_of_integers,
)


def plain(body: Any, data: Any) -> Callable[[], Any]:
    """A run of Numba's own."""
    function = numba.njit(body)

    @numba.njit
    def run(data: Any, x: Any, out: Any) -> None:
        for i in range(len(data)):
            x[i] = function(data[i], out)

    def answers() -> Any:
        x = np.zeros(len(data))
        run(data, x, np.zeros((SIZE, SIZE)))
        return x

    return answers


def compiled(body: Any, data: Any, **options: Any) -> Callable[[], Any]:
    """A run of framefold."""
    function = ff.compiled(**options)(FunctionType(body.__code__, body.__globals__))

    class Run(ff.UDF):
        def get_result_buffers(self) -> Any:
            return {"x": self.buffer("nav", dtype="float64")}

        def get_task_data(self) -> Any:
            return {"out": np.zeros((SIZE, SIZE))}

        @ff.compiled
        def process_frame(self, frame: Any) -> None:
            self.results.x[0] = function(frame, self.task_data.out)

    ctx = ff.Context.make_with("inline")
    dataset, udf = ctx.load("memory", data=data, sig_dims=2), Run()
    return lambda: ctx.run_udf(dataset=dataset, udf=udf)["x"].data


def main() -> None:
    """Print a table."""
    block = np.random.default_rng(0).uniform(0, 60, (4, SIZE, SIZE)).astype("f4")
    data = again(block, N_FRAMES // len(block)).reshape(-1, SIZE, SIZE)
    print("| body | `numba.njit` | compiled | indices not checked |\n|---|---:|---:|---:|")
    for body in BODIES:
        runs = [plain(body, data), compiled(body, data), compiled(body, data, boundscheck=False)]
        expected, *others = (run() for run in runs)
        for found in others:
            np.testing.assert_array_equal(found, expected)
        best = [math.inf] * len(runs)
        for _ in range(ROUNDS):
            for index, run in enumerate(runs):
                begin = time.process_time()
                run()
                took = (time.process_time() - begin) / N_FRAMES * 1e6
                best[index] = min(best[index], took)
        figures = " | ".join(f"{each:.3g}" for each in best)
        print(f"| {body.__name__.replace('_', ' ')} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
