"""What tests of kept results share: data sets in files, and how runs are counted."""

from __future__ import annotations

import os
import time
import types

import numpy as np
from out_cases import NAV, in_file

import framefold as ff
from framefold import _engine
from framefold.udf import UDF


def settled(path, age=60):
    """Files that were not written just now."""
    then = time.time() - age
    for each in [path, *path.rglob("*")] if path.is_dir() else [path]:
        os.utime(each, (then, then))


def load(ctx, folder, **kwargs):
    path = folder / "scan.raw"
    if not path.exists():
        in_file(ctx, folder)
        settled(path)
    return in_file(ctx, folder, **kwargs)


class Runs:
    """Counts runs that process data."""

    def __init__(self, monkeypatch):
        self.n = 0
        driver = ff.run.plan._engine.Driver

        def counted(*args, **kwargs):
            self.n += 1
            return driver(*args, **kwargs)

        fake = types.SimpleNamespace(**{**vars(_engine), "Driver": counted})
        monkeypatch.setattr(ff.run.plan, "_engine", fake)

    def during(self, work):
        before = self.n
        result = work()
        return self.n - before, result


class Above(UDF):
    """A threshold, a table, and AUX data."""

    def __init__(self, threshold=5, table=None, aux=None):
        super().__init__(threshold=threshold, table=table, aux=aux)

    def get_result_buffers(self):
        return {
            "n": self.buffer("nav", dtype="int64"),
            "total": self.buffer("sig", dtype="float64"),
            "n_frames": self.buffer("single", dtype="int64", use="private"),
        }

    def process_frame(self, frame):
        level = self.params.threshold
        if self.params.table is not None:
            level = level + self.params.table[0]
        if self.params.aux is not None:
            level = level + self.params.aux
        self.results.n[:] = (frame > level).sum()
        self.results.total[:] += frame
        self.results.n_frames[:] += 1

    def merge(self, dest, src):
        dest.n[:] = src.n
        dest.total[:] += src.total
        dest.n_frames[:] += src.n_frames

    def get_results(self):
        return {"total": self.results.total / 2}


def aux(value=2.0):
    return UDF.aux_data(np.full(NAV, value), kind="nav", dtype="float64")
