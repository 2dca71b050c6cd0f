"""A function in Rust beside the engine's own kernel: the sum of frames, in turns.

Builds ``examples/udf-plugin`` as its users do, for any processor of the platform. Answers are
compared before times are taken. Both run in turns on data in memory, so that what else the machine
does meets both; the ratio is the median of those of neighbours.
Run it on its own: ``python bench/plugin.py [--threads 1 2] [--rounds N]``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import framefold as ff

ROOT = Path(__file__).parent.parent
#: Of the native kernel's speed.
GOAL = 0.95


def example() -> Any:
    """The module of the example, built anew if it changed."""
    crate, target = ROOT / "examples" / "udf-plugin", ROOT / "target" / "udf-plugin"
    build = ["cargo", "build", "--release", "--quiet", "--manifest-path", f"{crate}/Cargo.toml"]
    env = {**os.environ, "CARGO_TARGET_DIR": str(target), "PYO3_PYTHON": sys.executable}
    subprocess.run(build, check=True, env=env)
    path = target / "release" / "libudf_plugin.so"
    spec = importlib.util.spec_from_file_location("udf_plugin", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sums(threads: int, rounds: int) -> tuple[float, float, float]:
    """Microseconds a frame of kernel and function, and how many times as fast the latter is."""
    ctx = ff.Context.make_with("threads", cpus=threads)
    data = np.random.default_rng(0).integers(0, 4000, (64, 64, 256, 256), dtype=np.uint16)
    dataset = ctx.load("memory", data=data, sig_dims=2)
    udfs = [ff.SumUDF(), example().Sum()]
    kernel, function = (next(iter(ctx.run_udf(dataset=dataset, udf=udf).values())) for udf in udfs)
    np.testing.assert_array_equal(kernel.data, function.data)

    def seconds(udf: Any) -> float:
        begin = time.perf_counter()
        ctx.run_udf(dataset=dataset, udf=udf)
        return time.perf_counter() - begin

    # Neither is always the first one.
    pairs = [
        [seconds(udf) for udf in udfs[:: 1 - i % 2 * 2]][:: 1 - i % 2 * 2] for i in range(rounds)
    ]
    times = [median(column) / len(data) ** 2 * 1e6 for column in zip(*pairs, strict=True)]
    return times[0], times[1], median(kernel / function for kernel, function in pairs)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=31)
    arguments = parser.parse_args()
    print("| sum of frames, 256² uint16 | native kernel, µs | in Rust, µs | in Rust / kernel |")
    print("|---|---:|---:|---|")
    for threads in arguments.threads:
        kernel, function, ratio = sums(threads, arguments.rounds)
        met = "✓" if ratio >= GOAL else "✗"
        speed = f"{kernel:.3g} | {function:.3g} | {met} {ratio:.2f} (≥ {GOAL})"
        print(f"| {threads} thread{'s' * (threads > 1)} | {speed} |", flush=True)


if __name__ == "__main__":
    main()
