"""Compares framefold with LiberTEM, NumPy and dask.array: answers first, then times.

Each engine has a process of its own. Case by case, all answers are compared with NumPy's before
any time is taken; then the engines run in turns, round by round, on a file that the system has in
its cache, beside a program that only reads it. See ``docs/guide/benchmarks.md``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from cases import CASES, Case, sweeps
from data import DATA, Data
from engines import ENGINES, Engine, EngineError, Limit, Worker, python_of
from environment import cores, environment
from measure import ROUNDS, Bench
from plot import plots
from report import HEADER, complete, conclusion, line, markdown, text_line
from startup import PARTS, startup, startup_engines

QUICK_SCALE = 8


def main() -> int:
    """Run what was asked for; the exit code is 1 if an answer is wrong."""
    arguments = parse_arguments()
    if arguments.markdown is not None:
        print(markdown(json.loads(arguments.markdown.read_text())), end="")
        return 0
    chosen = choose(arguments)
    if not chosen and not arguments.startup:
        print("no case has such a name; see --list", file=sys.stderr)
        return 2
    if arguments.list:
        names = [case.name for case in chosen] + (list(PARTS) if arguments.startup else [])
        print(*names, sep="\n")
        return 0
    folder = arguments.data or arguments.out / "data"
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        report = measure(arguments, chosen, folder)
    finally:
        if made and not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return write(report, arguments.out)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few cases on smaller data")
    parser.add_argument(
        "--only",
        action="append",
        metavar="CASE",
        help="these cases only, or all of raw, mib, raw_csr or formats; * stands for anything",
    )
    parser.add_argument("--engines", help=f"comma-separated: {', '.join(ENGINES)}")
    parser.add_argument(
        "--engine",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="one more engine: a file like numpy_engine.py",
    )
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help="how often each runs")
    parser.add_argument("--scale", type=positive, help="divide the number of frames by this")
    parser.add_argument("--sweeps", action="store_true", help="measure only what is plotted")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--data", type=Path, help="where data are made; in the output by default")
    parser.add_argument("--keep", action="store_true", help="do not delete the data")
    parser.add_argument("--out", type=Path, default=Path("bench-results"), help="where to write")
    parser.add_argument(
        "--libertem-python", help="the interpreter that has LiberTEM and dask; else left out"
    )
    parser.add_argument("--limit", type=Path, help="the program that measures the limit")
    parser.add_argument(
        "--markdown", type=Path, metavar="JSON", help="print the tables of an earlier run"
    )
    arguments = parser.parse_args()
    if arguments.scale is None:
        arguments.scale = QUICK_SCALE if arguments.quick else 1
    arguments.startup = not arguments.sweeps and any(wanted(part, arguments) for part in PARTS)
    return arguments


def positive(text: str) -> int:
    """Read a number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"found {value}, expected at least 1")
    return value


def wanted(name: str, arguments: argparse.Namespace, group: str = "") -> bool:
    """Whether ``--only`` lets a case through, by its name or that of its group."""
    only = arguments.only
    return only is None or group in only or any(fnmatch(name, pattern) for pattern in only)


def choose(arguments: argparse.Namespace) -> list[Case]:
    """List the cases to run, data set by data set, so that only one file is needed at a time."""
    points = sweeps(cores())
    cases = points if arguments.sweeps else [*CASES, *points]
    if arguments.quick and arguments.only is None:
        cases = [case for case in cases if case.quick]
    cases = [case for case in cases if wanted(case.name, arguments, DATA[case.data].group)]
    # A part of a data set cannot be larger than what is left of it.
    cases = [
        case
        for case in cases
        if "nav" not in case.params
        or case.params["nav"][0] <= DATA[case.data].scaled(arguments.scale).nav[0]
    ]
    return sorted(cases, key=lambda case: list(DATA).index(case.data))


def start_engines(
    arguments: argparse.Namespace, needed: set[str]
) -> tuple[dict[str, Worker], dict[str, str]]:
    """Start the processes; gives those that run, and why others do not."""
    engines = dict(ENGINES)
    extra = [item.partition("=") for item in arguments.engine]
    for name, _, file in extra:
        engines[name] = Engine(name, Path(file).stem)
    folders = {name: Path(file).resolve().parent for name, _, file in extra}
    asked = set(engines) if arguments.engines is None else set(arguments.engines.split(","))
    unknown = asked - set(engines)
    if unknown:
        raise SystemExit(f"there is no engine {', '.join(sorted(unknown))}; see --help")
    # NumPy's answers are what all others are compared with.
    asked = (asked & (needed | {"peak"})) | set(folders) | {"numpy"}
    workers: dict[str, Worker] = {}
    missing: dict[str, str] = {}
    for name in (name for name in engines if name in asked):
        python = python_of(engines[name], arguments.libertem_python)
        if python is None:
            missing[name] = "there is no environment with LiberTEM and dask"
            continue
        try:
            folder = folders.get(name)
            engine = engines[name]
            workers[name] = Worker(engine, python, *([] if folder is None else [folder]))
        except (EngineError, OSError) as error:
            missing[name] = str(error)
    return workers, missing


def measure(arguments: argparse.Namespace, cases: list[Case], folder: Path) -> dict[str, Any]:
    """Run all cases; prints a line for each as soon as it is known."""
    needed = {name for case in cases for name in case.engines}
    workers, missing = start_engines(arguments, needed) if cases else ({}, {})
    extra = tuple(name for name in workers if name not in ENGINES)
    limit = None if arguments.limit is None else Limit(arguments.limit)
    versions: dict[str, str] = {}
    for worker in workers.values():
        versions = worker.versions | versions
    report: dict[str, Any] = {
        "environment": environment() | {"versions": versions},
        "scale": arguments.scale,
        "rounds": arguments.rounds,
        "missing": missing | ({} if limit else {"limit": "no program was named with --limit"}),
        "cases": [],
    }
    for name, words in report["missing"].items():
        print(f"without {name}: {words}")
    if arguments.scale != 1:
        print(f"data sets scaled down by {arguments.scale}")
    print(text_line(HEADER))
    bench = Bench(workers, limit, folder, arguments.rounds)
    try:
        for case in cases:
            data = prepared(case, cases, arguments.scale, folder)
            add(report, bench.run(case, data, extra))
            if is_last_of_data(case, cases) and not arguments.keep:
                data.remove(folder)
    finally:
        for worker in workers.values():
            worker.close()
        if limit is not None:
            limit.close()
    if arguments.startup:
        engines = startup_engines(arguments.libertem_python)
        for result in startup(folder, engines, arguments.rounds):
            if wanted(result["name"], arguments):
                add(report, result)
    return complete(report)


def prepared(case: Case, cases: list[Case], scale: int, folder: Path) -> Data:
    """Make the file of a case's data set, if this is the first case that needs it."""
    data = DATA[case.data].scaled(scale)
    first = next(other for other in cases if other.data == case.data)
    if first is case:
        data.write(folder)
    return data


def is_last_of_data(case: Case, cases: list[Case]) -> bool:
    """Whether no later case needs the same file."""
    return [other for other in cases if other.data == case.data][-1] is case


def add(report: dict[str, Any], case: dict[str, Any]) -> None:
    """Keep a case, and print its line."""
    report["cases"].append(case)
    print(text_line(line(case)), flush=True)


def write(report: dict[str, Any], out: Path) -> int:
    """Write JSON and pictures; gives the exit code."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print()
    print(conclusion(report))
    print(f"all times: {path}")
    try:
        for picture in plots(report, out):
            print(f"plot: {picture}")
    except ImportError as error:
        print(f"no plots: {error}")
    return 1 if any(case["wrong"] for case in report["cases"]) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (subprocess.SubprocessError, EngineError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(2)
