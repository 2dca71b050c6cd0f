"""Compares framefold with NumPy on a memory-mapped file: answers first, then times.

Each case computes the same thing twice: with framefold, and with the plain NumPy that one would
write instead. Results are compared before any time is taken. Both sides run in turns on a file
that the system has in its cache, so that what is measured is the work and not the disk. The
table shows medians; all times are written to ``bench-results/``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import framefold as ff
from framefold.masks import circular, ring
from framefold.utils.simulate import StrainedCrystal

Array = npt.NDArray[Any]
NAV_SHAPE = (48, 64)
SIG_SHAPE = (128, 128)
CENTER = (SIG_SHAPE[0] / 2, SIG_SHAPE[1] / 2)


class BrightestUDF(ff.UDF):
    """A function of the user's: position and value of the brightest pixel of a frame."""

    def get_result_buffers(self) -> dict[str, Any]:
        """Declare (y, x, value) for each frame."""
        return {"brightest": self.buffer(kind="nav", extra_shape=(3,), dtype="float64")}

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """Take the data as they are, as the NumPy loop does."""
        return self.USE_NATIVE_DTYPE

    def process_frame(self, frame: Array) -> None:
        """Look at one frame."""
        self.results.brightest[:] = brightest(frame)


def brightest(frame: Array) -> tuple[float, float, float]:
    """Find the brightest pixel of a frame: y, x, value."""
    y, x = np.unravel_index(np.argmax(frame), frame.shape)
    return float(y), float(x), float(frame[y, x])


def masks() -> list[Array]:
    """Make a bright-field and a dark-field detector."""
    (cy, cx), (height, width) = CENTER, SIG_SHAPE
    return [
        circular(cx, cy, width, height, 8).astype(np.float32),
        ring(cx, cy, width, height, 60, 30).astype(np.float32),
    ]


@dataclass(frozen=True)
class Case:
    """One computation, both ways: of a data set, and of its memory-mapped array."""

    name: str
    framefold: Callable[[ff.Context, Any], Array]
    numpy: Callable[[Array], Array]
    rtol: float


def framefold_sum(ctx: ff.Context, dataset: Any) -> Array:
    """Sum all frames."""
    return np.asarray(ctx.run_udf(dataset=dataset, udf=ff.SumUDF())["intensity"].data)


def numpy_sum(data: Array) -> Array:
    """Sum all frames."""
    return np.asarray(data.sum(axis=(0, 1), dtype=np.uint64))


def framefold_sum_sig(ctx: ff.Context, dataset: Any) -> Array:
    """Sum each frame."""
    return np.asarray(ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF())["intensity"].data)


def numpy_sum_sig(data: Array) -> Array:
    """Sum each frame."""
    return np.asarray(data.sum(axis=(2, 3), dtype=np.uint64))


def framefold_masks(ctx: ff.Context, dataset: Any) -> Array:
    """Apply two virtual detectors."""
    factories = [lambda mask=mask: mask for mask in masks()]
    udf = ff.ApplyMasksUDF(mask_factories=factories)
    return np.asarray(ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data)


def numpy_masks(data: Array) -> Array:
    """Apply two virtual detectors, one row of the scan at a time to spare memory."""
    stack = np.stack([mask.ravel() for mask in masks()], axis=1)
    rows = [row.reshape(row.shape[0], -1).astype(np.float32) @ stack for row in data]
    return np.stack(rows)


def framefold_com(ctx: ff.Context, dataset: Any) -> Array:
    """Find the centre of mass of each frame."""
    return np.asarray(ctx.run_udf(dataset=dataset, udf=ff.CoMUDF())["raw_com"].data)


def numpy_com(data: Array) -> Array:
    """Find the centre of mass of each frame, one row of the scan at a time to spare memory."""
    y, x = np.arange(data.shape[2], dtype=np.float64), np.arange(data.shape[3], dtype=np.float64)
    result = np.empty((*data.shape[:2], 2))
    for index, row in enumerate(data):
        along_y, along_x = row.sum(axis=2), row.sum(axis=1)
        total = along_y.sum(axis=1)
        result[index, :, 0] = along_y @ y / total
        result[index, :, 1] = along_x @ x / total
    return result


def framefold_per_frame(ctx: ff.Context, dataset: Any) -> Array:
    """Call a Python function for each frame."""
    return np.asarray(ctx.run_udf(dataset=dataset, udf=BrightestUDF())["brightest"].data)


def numpy_per_frame(data: Array) -> Array:
    """Call a Python function for each frame."""
    flat = data.reshape((-1, *data.shape[2:]))
    return np.array([brightest(frame) for frame in flat]).reshape((*data.shape[:2], 3))


def framefold_together(ctx: ff.Context, dataset: Any) -> Array:
    """Sum all frames, sum each frame and find centres of mass, in one pass."""
    udfs = [ff.SumUDF(), ff.SumSigUDF(), ff.CoMUDF()]
    total, image, com = ctx.run_udf(dataset=dataset, udf=udfs)
    results = (total["intensity"].data, image["intensity"].data, com["raw_com"].data)
    return np.concatenate([np.asarray(result, dtype=np.float64).ravel() for result in results])


def numpy_together(data: Array) -> Array:
    """Sum all frames, sum each frame and find centres of mass, one after the other."""
    results = (numpy_sum(data), numpy_sum_sig(data), numpy_com(data))
    return np.concatenate([result.astype(np.float64).ravel() for result in results])


CASES = [
    Case("sum", framefold_sum, numpy_sum, 1e-6),
    Case("sum of each frame", framefold_sum_sig, numpy_sum_sig, 1e-6),
    Case("two masks", framefold_masks, numpy_masks, 1e-5),
    Case("centre of mass", framefold_com, numpy_com, 1e-5),
    Case("Python, per frame", framefold_per_frame, numpy_per_frame, 0.0),
    Case("three in one pass", framefold_together, numpy_together, 1e-5),
]


def main() -> int:
    """Check all answers, then take all times; the exit code is 1 if an answer is wrong."""
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="framefold-bench-") as folder:
        path = Path(folder) / "scan.npy"
        write_data(path, arguments.repeat_data)
        ctx = ff.Context()
        dataset = ctx.open(path)
        mapped = np.load(path, mmap_mode="r")
        size = path.stat().st_size
        print(f"{mapped.shape} {mapped.dtype}, {size / 2**20:.0f} MiB, {os.cpu_count()} cores")

        wrong = [case.name for case in CASES if not is_right(case, ctx, dataset, mapped)]
        if wrong:
            print(f"wrong answers, so no times: {', '.join(wrong)}", file=sys.stderr)
            return 1
        print("all answers agree\n")

        print(f"{'case':20} {'framefold':>11} {'NumPy':>11} {'speed-up':>8} {'framefold':>13}")
        results = [measure(case, ctx, dataset, mapped, arguments.runs, size) for case in CASES]
        # Windows cannot remove a file that is mapped.
        del mapped, dataset

    arguments.out.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    report = arguments.out / f"{now:%Y%m%dT%H%M%SZ}.json"
    report.write_text(
        json.dumps(
            {
                "time": now.isoformat(),
                "framefold": ff.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
                "machine": platform.machine(),
                "cores": os.cpu_count(),
                "bytes": size,
                "cases": results,
            },
            indent=2,
        )
        + "\n"
    )
    print(f"\nall times: {report}")
    return 0


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=positive, default=7, help="how often each side runs")
    parser.add_argument(
        "--repeat-data", type=positive, default=4, help="how often the simulated scan is repeated"
    )
    parser.add_argument("--out", type=Path, default=Path("bench-results"), help="where to write")
    return parser.parse_args()


def positive(text: str) -> int:
    """Read a number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"found {value}, expected at least 1")
    return value


def write_data(path: Path, repeats: int) -> None:
    """Write a simulated scan, repeated to make it larger, as ``.npy``."""
    crystal = StrainedCrystal(nav_shape=NAV_SHAPE, sig_shape=SIG_SHAPE)
    counts = crystal.counts()
    shape = (repeats * NAV_SHAPE[0], NAV_SHAPE[1], *SIG_SHAPE)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=counts.dtype, shape=shape)
    for repeat in range(repeats):
        file[repeat * NAV_SHAPE[0] : (repeat + 1) * NAV_SHAPE[0]] = counts
    file.flush()


def is_right(case: Case, ctx: ff.Context, dataset: Any, mapped: Array) -> bool:
    """Compare the two answers; runs each side once, which also warms up the caches."""
    try:
        np.testing.assert_allclose(
            case.framefold(ctx, dataset), case.numpy(mapped), rtol=case.rtol, err_msg=case.name
        )
    except AssertionError as error:
        print(error, file=sys.stderr)
        return False
    return True


def measure(
    case: Case, ctx: ff.Context, dataset: Any, mapped: Array, runs: int, size: int
) -> dict[str, Any]:
    """Time both sides in turns and print their medians."""
    times: dict[str, list[float]] = {"framefold": [], "numpy": []}
    for _ in range(runs):
        start = time.perf_counter()
        case.framefold(ctx, dataset)
        times["framefold"].append(time.perf_counter() - start)
        start = time.perf_counter()
        case.numpy(mapped)
        times["numpy"].append(time.perf_counter() - start)
    ours, theirs = (statistics.median(times[side]) for side in ("framefold", "numpy"))
    print(
        f"{case.name:20} {1e3 * ours:8.1f} ms {1e3 * theirs:8.1f} ms "
        f"{theirs / ours:8.1f} {size / ours / 2**30:7.2f} GiB/s"
    )
    return {
        "name": case.name,
        "median_framefold_s": ours,
        "median_numpy_s": theirs,
        "ratio": theirs / ours,
        "times_s": times,
    }


if __name__ == "__main__":
    sys.exit(main())
