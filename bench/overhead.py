"""Measures what framefold itself costs around a user's Python code, and how fast it starts.

Three tables, in this order:

*Start-up*, in fresh processes: importing framefold beyond NumPy, making a ``Context``, opening
1 MB and getting the first result, and the whole process from the outside.

*Per frame*: the time of a run divided by its frames, for functions that do nothing, write a
result, look at where they are, or sum the frame, on frames of several sizes; inline and on
threads. What remains of the time of the same plain NumPy loop is the engine's share.

*Per tile and per partition*: a sum over whole tiles and partitions, against the same NumPy call
on the same memory; inline on one thread, and on threads; and what one more partition costs.

Results are compared with NumPy's before any time is taken. The tables show medians; all times
are written as JSON to ``bench-results/``::

    python bench/overhead.py                    # everything, about a minute
    python bench/overhead.py start-up           # one table: start-up, frames, tiles
    python bench/overhead.py frames --runs 3
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import framefold as ff

Array = npt.NDArray[Any]

#: Scan and frame shapes of the data sets in memory: many tiny frames to few large ones.
SHAPES = [((256, 256), (16, 16)), ((128, 128), (64, 64)), ((64, 32), (256, 256))]

#: Run in a fresh process; prints seconds: NumPy, framefold, Context, load, first result.
START_UP = """
import time
t0 = time.perf_counter()
import numpy as np
t1 = time.perf_counter()
import framefold as ff
t2 = time.perf_counter()
ctx = ff.Context()
t3 = time.perf_counter()
dataset = ctx.load("memory", data=np.ones((16, 16, 64, 32), dtype=np.uint16))
t4 = time.perf_counter()
result = ctx.run_udf(dataset=dataset, udf={udf})
total = result["intensity"].data.sum()
t5 = time.perf_counter()
assert total == 16 * 16 * 64 * 32, total
print(t1 - t0, t2 - t1, t3 - t2, t4 - t3, t5 - t4)
"""

#: A sum that runs in Python: a method that a subclass overrides is called.
PYTHON_SUM = "type('Sum', (ff.SumUDF,), {'get_results': lambda self: {}})()"


class NativeDtypeUDF(ff.UDF):
    """Takes the data as they are, and has one number for each frame."""

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The data's own."""
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self) -> dict[str, Any]:
        """One number for each frame."""
        return {"x": self.buffer(kind="nav", dtype="float64")}


class FrameUDF(NativeDtypeUDF):
    """Looks at each frame, and does nothing."""

    def process_frame(self, frame: Array) -> None:
        """Do nothing."""


class Float32UDF(FrameUDF):
    """Takes frames in the default dtype."""

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The interface's default."""
        return np.float32


class WriteUDF(FrameUDF):
    """Writes a number for each frame."""

    def process_frame(self, frame: Array) -> None:
        """Write."""
        self.results.x[:] = 1


class SumUDF(FrameUDF):
    """Sums each frame."""

    def process_frame(self, frame: Array) -> None:
        """Sum."""
        self.results.x[:] = np.sum(frame)


class BuffersUDF(FrameUDF):
    """Has four result buffers."""

    def get_result_buffers(self) -> dict[str, Any]:
        """Of all kinds."""
        return {
            "x": self.buffer(kind="nav", dtype="float64"),
            "y": self.buffer(kind="nav", extra_shape=(2,), dtype="float32"),
            "z": self.buffer(kind="sig", dtype="float32"),
            "n": self.buffer(kind="single", dtype="int64"),
        }

    def merge(self, dest: Any, src: Any) -> None:
        """Nothing was written."""


class AuxUDF(FrameUDF):
    """Copies AUX data."""

    def process_frame(self, frame: Array) -> None:
        """Copy."""
        self.results.x[:] = self.params.aux


class CoordinatesUDF(FrameUDF):
    """Asks for the position in the scan."""

    def process_frame(self, frame: Array) -> None:
        """Ask."""
        self.results.x[:] = self.meta.coordinates[0, 1]


class SliceUDF(FrameUDF):
    """Asks for the part being processed."""

    def process_frame(self, frame: Array) -> None:
        """Ask."""
        part = self.meta.slice
        self.results.x[:] = 0 if part is None else part.origin[0]


class TileSumUDF(NativeDtypeUDF):
    """Sums each frame, a tile at a time."""

    def process_tile(self, tile: Array) -> None:
        """Sum."""
        self.results.x[:] += np.sum(tile, axis=(1, 2))


class PartitionSumUDF(NativeDtypeUDF):
    """Sums each frame, a partition at a time."""

    def process_partition(self, partition: Array) -> None:
        """Sum."""
        self.results.x[:] = np.sum(partition, axis=(1, 2))


def make_data(nav_shape: tuple[int, int], sig_shape: tuple[int, int]) -> Array:
    """Small counts, as detectors give."""
    rng = np.random.default_rng(1)
    row = rng.integers(0, 16, size=(nav_shape[1], *sig_shape), dtype=np.uint16)
    return np.broadcast_to(row, (nav_shape[0], *row.shape)).copy()


def frame_cases(data: Array) -> dict[str, tuple[Callable[[], ff.UDF], Array, Array | None]]:
    """Name to UDF, expected result and ROI."""
    nav = data.shape[:2]
    zero, sums = np.zeros(nav), data.sum(axis=(2, 3), dtype=np.float64)
    index = np.arange(sums.size, dtype=np.float64).reshape(nav)
    columns = np.broadcast_to(np.arange(nav[1], dtype=np.float64), nav)
    aux = FrameUDF.aux_data(index.ravel(), kind="nav", dtype="float64")
    roi = np.zeros(nav, dtype=bool)
    roi[::2] = True
    return {
        "nothing": (FrameUDF, zero, None),
        "nothing, float32": (Float32UDF, zero, None),
        "nothing, ROI of one half": (FrameUDF, zero, roi),
        "nothing, four buffers": (BuffersUDF, zero, None),
        "results.x[:] = 1": (WriteUDF, zero + 1, None),
        "results.x[:] = params.aux": (lambda: AuxUDF(aux=aux), index, None),
        "meta.coordinates": (CoordinatesUDF, columns, None),
        "meta.coordinates, ROI": (CoordinatesUDF, columns, roi),
        "meta.slice": (SliceUDF, index, None),
        "np.sum(frame)": (SumUDF, sums, None),
    }


def check(result: Any, expected: Array, roi: Array | None, name: str) -> None:
    """Compare a result with what NumPy says."""
    found = np.asarray(result["x"].data)
    if roi is not None:
        found, expected = found[roi], expected[roi]
    np.testing.assert_array_equal(found, expected, err_msg=name)


def medians(work: dict[str, Callable[[], object]], runs: int) -> dict[str, dict[str, Any]]:
    """Times of everything in ``work``, done in turns."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(runs):
        for name, function in work.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {
        name: {"median_s": statistics.median(each), "times_s": each} for name, each in times.items()
    }


def contexts() -> dict[str, ff.Context]:
    """The executors."""
    return {"inline": ff.Context.make_with("inline"), "threads": ff.Context.make_with("threads")}


def measure_start_up(runs: int) -> list[dict[str, Any]]:
    """Fresh processes, native and Python UDF in turns."""
    udfs = {"native": "ff.SumUDF()", "Python": PYTHON_SUM}
    parts = ["numpy", "framefold", "context", "load", "first_result", "process"]
    times: dict[str, list[list[float]]] = {name: [] for name in udfs}
    # As installed packages are: compiled where they are imported first.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    for run in range(-1, runs):
        for name, udf in udfs.items():
            start = time.perf_counter()
            command = [sys.executable, "-c", START_UP.format(udf=udf)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, env=environment
            )
            whole = time.perf_counter() - start
            if run >= 0:  # the first one compiles
                times[name].append([*map(float, done.stdout.split()), whole])
    rows = []
    print(f"{'start-up, ms':24} " + " ".join(f"{part:>12}" for part in parts))
    for name, each in times.items():
        columns = list(zip(*each, strict=True))
        middle = [statistics.median(column) for column in columns]
        print(f"{name + ' UDF':24} " + " ".join(f"{1e3 * value:12.1f}" for value in middle))
        rows.append(
            {"udf": name, "median_s": dict(zip(parts, middle, strict=True)), "times_s": each}
        )
    return rows


def measure_frames(runs: int) -> list[dict[str, Any]]:
    """The time per frame, in microseconds."""
    rows = []
    print(f"{'per frame, µs':28} {'frame':>9} {'inline':>9} {'threads':>9} {'NumPy loop':>11}")
    for nav_shape, sig_shape in SHAPES:
        data = make_data(nav_shape, sig_shape)
        flat = data.reshape((-1, *sig_shape))
        dataset = ff.Context().load("memory", data=data)
        for name, (udf, expected, roi) in frame_cases(data).items():
            work: dict[str, Callable[[], object]] = {}
            for executor, ctx in contexts().items():
                check(ctx.run_udf(dataset=dataset, udf=udf(), roi=roi), expected, roi, name)
                work[executor] = _run(ctx, dataset, udf, roi)
            if name == "np.sum(frame)":
                work["numpy"] = lambda flat=flat: [np.sum(frame) for frame in flat]
            n_frames = len(flat) if roi is None else int(roi.sum())
            times = medians(work, runs)
            per_frame = {key: 1e6 * each["median_s"] / n_frames for key, each in times.items()}
            shown = " ".join(
                f"{per_frame[key]:{width}.3f}" if key in per_frame else ""
                for key, width in (("inline", 9), ("threads", 9), ("numpy", 11))
            )
            print(f"{name:28} {'×'.join(map(str, sig_shape)):>9} {shown}")
            rows.append({"case": name, "sig_shape": sig_shape, "frames": n_frames, **times})
    return rows


def measure_tiles(runs: int) -> list[dict[str, Any]]:
    """Whole tiles and partitions against the same NumPy calls, and the cost of a partition."""
    data = make_data(*SHAPES[-1])
    flat = data.reshape((-1, 256, 256))
    sums = data.sum(axis=(2, 3), dtype=np.float64)
    rows = []
    print(f"{'per tile and partition':28} {'inline':>9} {'threads':>9} {'NumPy':>9}  ms; of NumPy")
    for name, udf in (("tile", TileSumUDF), ("partition", PartitionSumUDF)):
        dataset = ff.Context().load("memory", data=data)
        work: dict[str, Callable[[], object]] = {}
        for executor, ctx in contexts().items():
            check(ctx.run_udf(dataset=dataset, udf=udf()), sums, None, name)
            work[executor] = _run(ctx, dataset, udf, None)
        parts = list(_parts(dataset, udf(), by_tile=name == "tile"))
        work["numpy"] = lambda parts=parts: [
            np.sum(flat[start:stop], axis=(1, 2)) for start, stop in parts
        ]
        times = medians(work, runs)
        inline, threads, numpy = (times[key]["median_s"] for key in ("inline", "threads", "numpy"))
        print(
            f"{name:28} {1e3 * inline:9.2f} {1e3 * threads:9.2f} {1e3 * numpy:9.2f}  "
            f"{numpy / inline:.2f}, {numpy / threads:.2f}"
        )
        rows.append({"case": name, **times})
    rows.append(_partition_cost(data[:, :, :16, :16].copy(), runs))
    return rows


def _partition_cost(data: Array, runs: int) -> dict[str, Any]:
    """What a partition costs: one frame in each, against few partitions."""
    few = ff.Context().load("memory", data=data, num_partitions=4)
    many = ff.Context().load("memory", data=data, num_partitions=data.shape[0] * data.shape[1])
    work: dict[str, Callable[[], object]] = {}
    for executor, ctx in contexts().items():
        for count, dataset in (("few", few), ("many", many)):
            work[f"{executor}, {count}"] = _run(ctx, dataset, WriteUDF, None)
    times = medians(work, runs)
    more = data.shape[0] * data.shape[1] - 4
    cost = {
        executor: (times[f"{executor}, many"]["median_s"] - times[f"{executor}, few"]["median_s"])
        / more
        for executor in contexts()
    }
    print(f"{'one more partition, µs':28} {1e6 * cost['inline']:9.1f} {1e6 * cost['threads']:9.1f}")
    return {"case": "one more partition", "cost_s": cost, **times}


def _parts(dataset: Any, udf: ff.UDF, by_tile: bool) -> Iterable[tuple[int, int]]:
    """The frames of each tile or partition."""
    info = ff.Context().display(dataset, udf)
    for start, stop in info.partitions:
        step = info.tile_depth if by_tile else stop - start
        for first in range(start, stop, step):
            yield first, min(stop, first + step)


def _run(
    ctx: ff.Context, dataset: Any, udf: Callable[[], ff.UDF], roi: Array | None
) -> Callable[[], object]:
    return lambda: ctx.run_udf(dataset=dataset, udf=udf(), roi=roi)


TABLES = {"start-up": measure_start_up, "frames": measure_frames, "tiles": measure_tiles}


def main() -> int:
    """Print the tables asked for and write all times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = ", ".join(TABLES)
    parser.add_argument("tables", nargs="*", metavar="table", help=f"{names}; all if left out")
    parser.add_argument("--runs", type=int, default=5, help="how often each case runs")
    parser.add_argument("--out", type=Path, default=Path("bench-results"), help="where to write")
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error("--runs must be at least 1")
    wanted = arguments.tables or list(TABLES)
    if unknown := set(wanted) - set(TABLES):
        parser.error(f"there is no table {', '.join(sorted(unknown))}; there are {names}")
    tables = {name: TABLES[name](arguments.runs) for name in TABLES if name in wanted}
    arguments.out.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    report = arguments.out / f"overhead-{now:%Y%m%dT%H%M%SZ}.json"
    facts = {
        "time": now.isoformat(),
        "framefold": ff.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "tables": tables,
    }
    report.write_text(json.dumps(facts, indent=2) + "\n")
    print(f"\nall times: {report}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
