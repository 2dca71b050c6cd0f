"""Start-up: what a new process needs until it has a first result on 1 MB.

A few processes are run in turns for each package; none of them finds anything prepared by another
but the files in the system's cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from data import Data
from measure import disagreement, summary

DATA = Data("startup", (8, 16), (64, 64))
#: For those that take seconds.
SLOW_ROUNDS = 3

SCRIPT = """
import json, sys, time
import numpy as np
start = time.perf_counter()
from {package}.api import Context
from {package}.udf.sum import SumUDF
imported = time.perf_counter()
def main():
    began = time.perf_counter()
    context = Context() if {executor!r} is None else Context.make_with({executor!r})
    made = time.perf_counter()
    dataset = context.load("raw", path={path!r}, dtype="uint16", nav_shape={nav}, sig_shape={sig})
    result = context.run_udf(dataset=dataset, udf=SumUDF())["intensity"].data
    print(json.dumps([imported - start, made - began, np.asarray(result).tolist()]), flush=True)
    sys.stdin.read()
    context.close()
if __name__ == "__main__":
    main()
"""

PARTS = {
    "startup-import": "import, beyond NumPy's",
    "startup-context": "Context()",
    "startup-first": "new process to first result on 1 MB",
}


def startup(
    folder: Path, engines: dict[str, tuple[str, str, str | None]], rounds: int
) -> list[dict[str, Any]]:
    """Measure start-up; ``engines`` gives interpreter, package and executor by name."""
    import numpy as np

    DATA.write(folder)
    expected = np.fromfile(DATA.path(folder), DATA.dtype).reshape(-1, *DATA.sig).sum(axis=0)
    taken: dict[str, dict[str, list[float]]] = {part: {} for part in PARTS}
    wrong: dict[str, str] = {}
    left_out: dict[str, str] = {}
    # The first round finds out whether answers are right, and fills the system's cache.
    for round_ in range(rounds + 1):
        for name, (python, package, executor) in engines.items():
            if name in left_out or (round_ > SLOW_ROUNDS and package != "framefold"):
                continue
            try:
                seconds, result = one_process(folder, python, package, executor)
            except (subprocess.CalledProcessError, ValueError) as error:
                left_out[name] = str(error)
                continue
            if round_ == 0:
                difference = disagreement(np.asarray(result), expected, 1e-6)
                if difference is not None:
                    wrong[name] = difference
                continue
            for part, value in zip(PARTS, seconds, strict=True):
                if part == "startup-context" and executor is not None:
                    continue  # what is compared is what a context without arguments costs
                taken[part].setdefault(name, []).append(value)
        if wrong:
            break
    return [
        {
            "name": part,
            "title": title,
            "data": "startup",
            "shape": [*DATA.nav, *DATA.sig],
            "bytes": DATA.n_bytes,
            "frames": DATA.n_frames,
            "ours": "framefold",
            "sweep": None,
            "engines": {
                name: summary(values)
                for name, values in taken[part].items()
                if name not in left_out
            },
            "left_out": left_out,
            "wrong": wrong,
        }
        for part, title in PARTS.items()
    ]


def one_process(
    folder: Path, python: str, package: str, executor: str | None
) -> tuple[list[float], Any]:
    """Run one process until it has its first result: seconds of the three parts, and the result."""
    script = folder / "startup.py"
    script.write_text(
        SCRIPT.format(
            package=package,
            executor=executor,
            path=str(DATA.path(folder)),
            nav=DATA.nav,
            sig=DATA.sig,
        )
    )
    start = time.perf_counter()
    process = subprocess.Popen(
        [python, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    # Other output may come before; the line that counts is a list.
    line = next((line for line in process.stdout if line.startswith("[")), None)
    total = time.perf_counter() - start
    process.stdin.close()
    process.stdout.read()
    process.stdout.close()
    code = process.wait()
    script.unlink()
    if line is None:
        raise subprocess.CalledProcessError(code, python)
    imported, context, result = json.loads(line)
    return [imported, context, total], result


def startup_engines(apart: str | None) -> dict[str, tuple[str, str, str | None]]:
    """Name the packages that can be started here."""
    engines: dict[str, tuple[str, str, str | None]] = {
        "framefold": (sys.executable, "framefold", None)
    }
    if apart is not None:
        engines["libertem-inline"] = (apart, "libertem", "inline")
        engines["libertem-threads"] = (apart, "libertem", "threads")
        engines["libertem-dask"] = (apart, "libertem", None)
    return engines
