"""One case: answers first, then times, engine by engine and round by round."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from cases import Case
from data import Data
from engines import EngineError, Limit, Worker
from format_data import SEVERAL_FILES
from watch import settle, watched_answer

#: Rounds of each engine, if it does not take long.
ROUNDS = 5
#: Up to so many for what is over quickly, within this time in seconds.
MORE_ROUNDS, QUICK_S = 15, 0.5
#: From here on an engine sits out the remaining rounds, once it had two.
SLOW_S = 2.0


@dataclass
class Bench:
    """All that a case needs: the processes, and where the data are."""

    workers: dict[str, Worker]
    limit: Limit | None
    folder: Path
    rounds: int = ROUNDS

    def run(self, case: Case, data: Data, extra: tuple[str, ...] = ()) -> dict[str, Any]:
        """Check and time a case, with ``extra`` engines; gives what the report says about it."""
        case = replace(case, engines=(*case.engines, *extra))
        described = data.describe(self.folder)
        if "nav" in case.params:
            data = replace(data, nav=case.params["nav"])
            described["nav"] = data.nav
        report: dict[str, Any] = {
            "name": case.name,
            "title": case.title,
            "data": case.data,
            "shape": [*data.nav, *data.sig],
            "bytes": round(data.n_bytes * case.fraction),
            "frames": max(1, round(data.n_frames * case.fraction)),
            "events": data.n_events,
            "ours": case.ours,
            "limit": "limit-fresh" if case.params.get("fresh") else "limit-warm",
            "sweep": case.sweep,
            "engines": {},
            "left_out": {},
            "wrong": {},
        }
        # The limit is about one file, of which every byte counts.
        streams = data.group != "raw_csr" and data.kind not in SEVERAL_FILES
        if self.limit is not None and streams:
            part = data.n_bytes if "nav" in case.params else None
            self.limit.open(Path(described["path"]), part)
        params = dict(case.params)
        ready = self.check(case, described, params, report)
        if report["wrong"]:
            self.close(ready)
            return report
        if data.group != "raw_csr":
            ready += self.peak(case, described, params, report)
        times = self.time(ready, timed_limit=streams and reads_all(case))
        for name in list(times):
            taken = times[name]
            if isinstance(taken, str):
                report["left_out"][name] = taken
            else:
                report["engines"].setdefault(name, {}).update(summary(taken))
        self.close(ready)
        return report

    def check(
        self, case: Case, data: dict[str, Any], params: dict[str, Any], report: dict[str, Any]
    ) -> list[tuple[Worker, float]]:
        """Compute all answers and compare them with NumPy's; gives the engines that can."""
        ready: list[tuple[Worker, float]] = []
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            expected = Path(folder) / "numpy.npy"
            others = [name for name in case.engines if name != "numpy" and name in self.workers]
            for name in ("numpy", *others):
                worker = self.workers[name]
                found = expected.with_name(f"{name}.npy")
                try:
                    worker.ask("prepare", data=data, task=case.task, params=params)
                    memory = watched_answer(worker, str(found))
                except EngineError as error:
                    if name == "numpy":
                        raise
                    report["left_out"][name] = str(error)
                    continue
                if name in ("numpy", *case.engines):
                    report["engines"][name] = memory if name in (case.ours, "numpy") else {}
                    ready.append((worker, 1.0))
                if name != "numpy":
                    difference = disagreement(np.load(found), np.load(expected), case.rtol)
                    if difference is not None:
                        report["wrong"][name] = difference
        if "numpy" not in case.engines:
            del report["engines"]["numpy"]
            ready = [(worker, scale) for worker, scale in ready if worker.name != "numpy"]
        return ready

    def peak(
        self, case: Case, data: dict[str, Any], params: dict[str, Any], report: dict[str, Any]
    ) -> list[tuple[Worker, float]]:
        """Get the bare loop, product, copy or decoder ready, where there is one for this task."""
        task = peak_task(case, data)
        if "peak" not in self.workers or task is None:
            return []
        worker = self.workers["peak"]
        try:
            if case.task == "tile-sum":
                tiling = self.workers[case.ours].ask("tile", data=data)
                params = params | {"tile_shape": tiling["tile_shape"]}
                report["tile_shape"] = tiling["tile_shape"]
            scale = worker.ask("prepare", data=data, task=task, params=params)["scale"]
            worker.ask("answer", path=None)
        except EngineError as error:
            report["left_out"]["peak"] = str(error)
            return []
        return [(worker, scale)]

    def time(
        self, ready: list[tuple[Worker, float]], timed_limit: bool
    ) -> dict[str, list[float] | str]:
        """Time all engines in turns; a slow one sits out when it has used up its time."""
        times: dict[str, list[float] | str] = {}
        for _ in range(MORE_ROUNDS):
            for worker, scale in ready:
                taken = times.setdefault(worker.name, [])
                if isinstance(taken, list) and self.wants_more(taken, scale):
                    try:
                        taken.append(scale * worker.ask("time")["seconds"])
                    except EngineError as error:
                        times[worker.name] = str(error)
                    settle(worker.process.pid)
            if self.limit is not None and timed_limit:
                for mapping in ("warm", "fresh"):
                    taken = times.setdefault(f"limit-{mapping}", [])
                    if isinstance(taken, list) and self.wants_more(taken, 1.0):
                        taken.append(self.limit.time(mapping)[0])
        return times

    def wants_more(self, taken: list[float], scale: float) -> bool:
        """Whether an engine takes part in the next round."""
        spent = sum(taken) / scale
        if len(taken) < min(2, self.rounds):
            return True
        if len(taken) < self.rounds:
            return spent < SLOW_S
        return self.rounds >= ROUNDS and len(taken) < MORE_ROUNDS and spent < QUICK_S

    def close(self, ready: list[tuple[Worker, float]]) -> None:
        """Let go of the data set."""
        for worker in self.workers.values():
            try:
                worker.ask("close")
            except EngineError:
                continue  # it has been reported when its process ended


def peak_task(case: Case, data: dict[str, Any]) -> str | None:
    """Name what bounds a case besides reading, in the words of ``peak_engine.py``."""
    if case.sweep:
        return None
    if case.task == "tile-sum" or (case.task == "masks" and case.params["n"] >= 8):
        return case.task
    if case.name.startswith("inline-"):
        return "copy"
    if case.task == "to-zarr":
        return "convert"
    if case.task == "sum" and data["kind"] in ("hdf5-gzip", "hdf5-bslz4"):
        return "decode"
    return None


def reads_all(case: Case) -> bool:
    """Whether all that is mapped is read, as it is for the limit."""
    return case.fraction == 1 and case.task not in ("frame-noop", "to-zarr")


def summary(taken: list[float]) -> dict[str, Any]:
    """Describe how long an engine took; ``spread`` is how much longer the slowest round was."""
    fastest, slowest = min(taken), max(taken)
    return {
        "median_s": statistics.median(taken),
        "min_s": fastest,
        "max_s": slowest,
        "spread": (slowest - fastest) / fastest,
        "times_s": taken,
    }


def disagreement(found: Any, expected: Any, rtol: float) -> str | None:
    """Say how an answer differs from NumPy's; None if it does not."""
    if found.shape != expected.shape:
        return f"found shape {found.shape}, expected {expected.shape}"
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    wrong = ~np.isclose(found, expected, rtol=rtol, atol=0.0, equal_nan=True)
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} values differ, at {place} "
        f"{found[place]:.9g} from {expected[place]:.9g}"
    )
