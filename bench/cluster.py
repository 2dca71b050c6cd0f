"""Measures what a Dask cluster costs around a user's code, and how large one that bounds it is.

A scheduler and two workers are started as users start them, on this machine, and run functions that
do next to nothing. Results are compared with those of one thread before any time is taken. Then, in
turns, medians over the rounds:

*Together*: time for each partition if partitions are short, so that many travel in one task.

*One by one*: with a ``timeout`` each task is one partition, as it is where partitions are long. The
seconds of CPU time that the client and the scheduler spend on one task say how many tasks a second
either can drive at most, and so how many workers.

*Large*: partial results of 4 MiB: how much of them a client takes in each second.

With ``--libertem PYTHON``, an interpreter that has LiberTEM, its own local Dask cluster of two
workers runs a function that does nothing on the same file::

    python bench/cluster.py
    python bench/cluster.py --rounds 5 --libertem .bench-venv/bin/python
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import framefold as ff
from framefold.executor.dask import DaskJobExecutor

N_WORKERS = 2
#: Frames, and how many of them are one partition, of the data set of short partitions.
N_FRAMES, FRAME = 4000, (32, 32)
#: Partitions in a run with one task for each, and in one with large partial results.
N_TASKS, N_LARGE = 200, 40
LARGE = (1024, 1024)
#: How long a task of a well-filled cluster takes.
TASK_SECONDS = 1.0

#: Run by an interpreter with LiberTEM; prints seconds for each run.
LIBERTEM = """
import json, sys, time
import numpy as np
from libertem.api import Context
from libertem.udf import UDF
from libertem.executor.dask import DaskJobExecutor, cluster_spec

class Nothing(UDF):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav", dtype="float32")}
    def process_frame(self, frame):
        pass

if __name__ == "__main__":
    path, n_frames, n_partitions, rounds = sys.argv[1], *map(int, sys.argv[2:])
    spec = cluster_spec(cpus=range(2), cudas=(), has_cupy=False)
    with DaskJobExecutor.make_local(spec=spec) as executor:
        ctx = Context(executor=executor)
        dataset = ctx.load("raw", path, dtype="float32", nav_shape=(n_frames,),
                           sig_shape=(32, 32), num_partitions=n_partitions)
        seconds = []
        for _ in range(rounds + 1):
            begin = time.perf_counter()
            ctx.run_udf(dataset=dataset, udf=Nothing())
            seconds.append(time.perf_counter() - begin)
        print("RESULT", json.dumps(seconds[1:]))
"""


class Nothing(ff.UDF):
    """Looks at each frame, and does nothing."""

    def get_result_buffers(self) -> dict[str, Any]:
        return {"x": self.buffer(kind="nav", dtype="float32")}

    def process_frame(self, frame: Any) -> None:
        """Do nothing."""


class Last(ff.UDF):
    """Has a partial result as large as a frame."""

    def get_result_buffers(self) -> dict[str, Any]:
        return {"last": self.buffer(kind="sig", dtype="float32")}

    def process_frame(self, frame: Any) -> None:
        self.results.last[:] = frame

    def merge(self, dest: Any, src: Any) -> None:
        dest.last[:] = src.last


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, int]]:
    """A scheduler and workers; gives the address and the scheduler's process id."""
    file = folder / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    worker = [*dask, "worker", *common, "--nthreads", "1", "--no-nanny", "--memory-limit", "0"]
    worker += ["--local-directory", str(folder)]
    processes: list[subprocess.Popen[bytes]] = []

    def start(command: list[str]) -> None:
        quiet = subprocess.DEVNULL
        processes.append(subprocess.Popen(command, stdout=quiet, stderr=quiet))

    start([*dask, "scheduler", *common, "--port", "0"])
    try:
        while not file.exists():
            time.sleep(0.05)
        for _ in range(N_WORKERS):
            start(worker)
        yield json.loads(file.read_text())["address"], processes[0].pid
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def cpu_seconds(pid: int) -> float:
    """How long a process has kept a core busy."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(ctx: ff.Context, dataset: Any, udf: ff.UDF, scheduler: int) -> tuple[float, float, float]:
    """Seconds of a run, and of CPU time of client and scheduler."""
    before = time.perf_counter(), time.process_time(), cpu_seconds(scheduler)
    ctx.run_udf(dataset=dataset, udf=udf)
    after = time.perf_counter(), time.process_time(), cpu_seconds(scheduler)
    seconds, client, server = (b - a for a, b in zip(before, after, strict=True))
    return seconds, client, server


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--libertem", help="an interpreter that has LiberTEM")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure(folder, options.rounds, options.libertem)


def measure(folder: Path, rounds: int, libertem: str | None) -> None:
    """All tables."""
    rng = np.random.default_rng(1)
    rng.random((N_FRAMES, *FRAME), dtype=np.float32).tofile(folder / "small.raw")
    rng.random((N_LARGE, *LARGE), dtype=np.float32).tofile(folder / "large.raw")
    inline = ff.Context.make_with("inline")

    def load(file: str, n: int, shape: tuple[int, int], partitions: int) -> Any:
        how = {"dtype": "float32", "nav_shape": (n,), "sig_shape": shape}
        return inline.load("raw", folder / file, num_partitions=partitions, **how)

    short = load("small.raw", N_FRAMES, FRAME, N_FRAMES // 2)
    single = load("small.raw", N_FRAMES, FRAME, N_TASKS)
    large = load("large.raw", N_LARGE, LARGE, N_LARGE)
    with cluster(folder) as (address, scheduler):
        executor = DaskJobExecutor.connect(address)
        together = ff.Context(executor=executor)
        one_by_one = ff.Context(executor=DaskJobExecutor.connect(address, timeout=60.0))
        while executor.n_workers < N_WORKERS:
            time.sleep(0.05)
        cases: dict[str, tuple[ff.Context, Any, ff.UDF]] = {
            "together": (together, short, Nothing()),
            "one by one": (one_by_one, single, Nothing()),
            "large": (together, large, Last()),
        }
        for ctx, dataset, _ in cases.values():
            for udf in (ff.SumUDF(), Last()):
                (got,) = ctx.run_udf(dataset=dataset, udf=udf).values()
                (expected,) = inline.run_udf(dataset=dataset, udf=udf).values()
                assert got.data.tobytes() == expected.data.tobytes()
        taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in cases}
        for _ in range(rounds):
            for name, case in cases.items():
                taken[name].append(timed(*case, scheduler))
        together.close()
        one_by_one.close()
    medians = {
        name: tuple(statistics.median(column) for column in zip(*rows, strict=True))
        for name, rows in taken.items()
    }
    report(medians)
    if libertem is not None:
        compare(libertem, folder / "small.raw", rounds, medians)


def report(medians: dict[str, tuple[float, ...]]) -> None:
    """Print what was measured, and what follows."""
    print(f"{'':12}{'partitions':>11}{'ms each':>9}{'client ms':>11}{'scheduler ms':>14}")
    counts = {"together": N_FRAMES // 2, "one by one": N_TASKS, "large": N_LARGE}
    for name, n in counts.items():
        each = "".join(
            f"{1e3 * seconds / n:>{width}.3f}"
            for seconds, width in zip(medians[name], (9, 11, 14), strict=True)
        )
        print(f"{name:12}{n:>11}{each}")
    client, scheduler = (seconds / N_TASKS for seconds in medians["one by one"][1:])
    most = 1 / max(client, scheduler)
    mib = N_LARGE * LARGE[0] * LARGE[1] * 4 / 2**20
    print(
        f"\none client drives at most {most:.0f} tasks a second: {most * TASK_SECONDS:.0f} ", end=""
    )
    print(f"threads of workers that are busy for {TASK_SECONDS:g} s with each")
    print(f"and takes in {mib / medians['large'][0]:.0f} MiB of partial results a second here")


def compare(python: str, path: Path, rounds: int, medians: dict[str, tuple[float, ...]]) -> None:
    """The same in LiberTEM."""
    counts = {"together": N_FRAMES // 2, "one by one": N_TASKS}
    script = path.parent / "libertem_side.py"
    script.write_text(LIBERTEM)
    print()
    for name, n in counts.items():
        # Thousands of its partitions take minutes: fewer do.
        n_run = min(n, N_TASKS)
        arguments = [str(path), str(N_FRAMES), str(n_run), str(rounds)]
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [python, str(script), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        line = next((x for x in done.stdout.splitlines() if x.startswith("RESULT")), None)
        if line is None:
            print(f"LiberTEM failed: {done.stderr[-500:]}")
            return
        theirs = statistics.median(json.loads(line.split(" ", 1)[1])) / n_run
        ours = medians[name][0] / n
        print(f"LiberTEM, {n_run} partitions: {1e3 * theirs:.3f} ms each; ", end="")
        print(f"framefold {name}: {1e3 * ours:.3f} ms, {theirs / ours:.1f} times faster")
        if n_run == n:
            break


if __name__ == "__main__":
    main()
