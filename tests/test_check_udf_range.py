"""``ff.check_udf`` finds results of integers that do not hold what is written into them."""

from __future__ import annotations

import numpy as np
import pytest
from test_check_udf import DATA, FrameSums, Sums

import framefold as ff
from framefold.checking import rules


@pytest.fixture
def dataset(monkeypatch):
    # Threads and processes take their time to start.
    monkeypatch.setattr(rules, "executors", lambda sample: ())
    with ff.Context.make_with("inline") as ctx:
        yield ctx.load("memory", data=DATA, sig_dims=2)


class Wraps(FrameSums):
    def get_result_buffers(self):
        return {**Sums.get_result_buffers(self), "n": self.buffer(kind="nav", dtype="uint8")}


class Spans(FrameSums):
    """Right: a brightness within what its buffer holds, and that of a pixel below zero."""

    def get_result_buffers(self):
        return {
            "image": self.buffer(kind="sig", dtype="int32"),
            "n": self.buffer(kind="nav", dtype="uint8"),
        }

    def process_frame(self, frame):
        self.results.image[:] -= frame.astype("int32")
        self.results.n[:] = frame.max()


class FirstHits(Sums):
    """Right: the first position that hits each pixel; the largest number, if none does."""

    def get_result_buffers(self):
        return {"first": self.buffer(kind="sig", dtype="uint32")}

    def preprocess(self):
        self.results.first[:] = np.iinfo(self.results.first.dtype).max

    def process_tile(self, tile):
        first = self.meta.slice.origin[0]
        for i, frame in enumerate(tile):
            places = np.where(frame > 2000, first + i, self.results.first)
            self.results.first[:] = np.minimum(self.results.first, places)

    def merge(self, dest, src):
        dest.first[:] = np.minimum(dest.first, src.first)


def test_what_wraps_around_is_named(dataset):
    report = ff.check_udf(Wraps(), dataset)
    (finding,) = (each for each in report.findings if each.wrong)
    assert (finding.rule, finding.buffer) == ("range", "n")
    assert "'n' is uint8, which does not hold what is written into it (64 of 64" in finding.message


@pytest.mark.parametrize("cls", [Spans, FirstHits])
def test_what_fits_is_not_called_wrong(dataset, cls):
    report = ff.check_udf(cls(), dataset)
    assert not report.findings, str(report)
