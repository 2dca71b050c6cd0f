"""The engines, and the processes that they run in: one each, kept alive."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class EngineError(Exception):
    """An engine gave an error instead of an answer."""


@dataclass(frozen=True)
class Engine:
    """Where an engine's code is, and what it is made with."""

    name: str
    module: str
    options: dict[str, Any] = field(default_factory=dict)
    #: Whether it lives in the environment of LiberTEM and dask.
    apart: bool = False


ENGINES = {
    engine.name: engine
    for engine in (
        Engine("framefold", "udf_engine", {"package": "framefold", "executor": "threads"}),
        Engine("framefold-inline", "udf_engine", {"package": "framefold", "executor": "inline"}),
        Engine(
            "libertem-inline", "udf_engine", {"package": "libertem", "executor": "inline"}, True
        ),
        Engine(
            "libertem-threads", "udf_engine", {"package": "libertem", "executor": "threads"}, True
        ),
        Engine("libertem-dask", "udf_engine", {"package": "libertem", "executor": None}, True),
        Engine("numpy", "numpy_engine"),
        Engine("dask", "dask_engine", {}, True),
        Engine("peak", "peak_engine"),
    )
}

LIBERTEM = ("libertem-inline", "libertem-threads", "libertem-dask")
ARRAYS = ("numpy", "dask")


class Worker:
    """One engine's process."""

    def __init__(self, engine: Engine, python: str, folder: Path = HERE) -> None:
        paths = [str(HERE), str(folder)]
        if not engine.apart and "PYTHONPATH" in os.environ:
            paths.append(os.environ["PYTHONPATH"])
        self.name = engine.name
        self.process = subprocess.Popen(
            [python, str(HERE / "worker.py"), engine.module, json.dumps(engine.options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            text=True,
        )
        self.versions: dict[str, str] = self.ask("start")["versions"]

    def tell(self, do: str, **arguments: Any) -> None:
        """Send a command; the answer is taken with :meth:`hear`."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise EngineError("its process has ended") from None

    def hear(self) -> dict[str, Any]:
        """Take the answer to a command."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EngineError(f"its process ended with code {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send a command and take the answer."""
        self.tell(do, **arguments)
        return self.hear()

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Limit:
    """The program that only reads: see ``crates/io/examples/stream_limit.rs``."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen(
            [str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _ask(self, line: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise EngineError("the program that measures the limit has ended") from None
        answer = self.process.stdout.readline()
        if not answer:
            raise EngineError("the program that measures the limit has ended")
        return answer

    def open(self, path: Path, n_bytes: int | None = None) -> int:
        """Map a file or its beginning, and read it once, so that the system has it in its cache."""
        n_bytes = int(self._ask(f"open {n_bytes or 0} {path}"))
        self.time("warm")
        return n_bytes

    def time(self, mapping: str) -> tuple[float, int]:
        """Read it all on a ``warm`` or a ``fresh`` mapping: seconds, and the sum of its words."""
        seconds, total = self._ask(mapping).split()
        return float(seconds), int(total)

    def close(self) -> None:
        """End the program."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()


def python_of(engine: Engine, apart: str | None) -> str | None:
    """The interpreter that an engine runs on; None if its environment is not there."""
    return apart if engine.apart else sys.executable
