"""``ff.check_udf`` finds parameters that a function writes into."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from test_check_udf import DATA, FrameSums

import framefold as ff
from framefold.checking import rules


class Scratch(FrameSums):
    def __init__(self, room):
        super().__init__(room=room)

    def process_frame(self, frame):
        np.multiply(frame, 2, out=self.params.room, casting="unsafe")
        self.results.n[:] = self.params.room.sum()


class Writing(FrameSums):
    def process_frame(self, frame):
        super().process_frame(frame)
        if self.meta.slice.origin[0] == 3:
            self.params.room[0] = frame.max()


class Masks(FrameSums):
    def process_frame(self, frame):
        super().process_frame(frame)
        self.params.room[1] = np.ma.masked


class CleansUp(Writing):
    def cleanup(self):
        self.params.room[:] = 0


class Resets(FrameSums):
    def process_frame(self, frame):
        np.multiply(frame, 2, out=self.params.room[-1], casting="unsafe")
        super().process_frame(frame)

    def postprocess(self):
        self.params.room[-1][:] = 0


class Chooses(Writing):
    """The function that is compiled is not the one that is called."""

    @ff.compiled
    def process_tile(self, tile):
        self.results.image += tile[0]

    def get_method(self):
        return "frame"


class Pads(FrameSums):
    """Right: no field has that byte."""

    def process_frame(self, frame):
        super().process_frame(frame)
        self.params.room.view("uint8")[1] = 7


class Learns(FrameSums):
    def get_results(self):
        self.params.room[:] = self.results.image  # on the main side, which has one object
        return {}

    def get_method(self):
        return "frame" if self.meta.dataset_shape.sig.size else "tile"


@pytest.fixture
def dataset(monkeypatch):
    # Not on threads and processes, which take their time to start.
    monkeypatch.setattr(rules, "executors", lambda sample: ())
    with ff.Context.make_with("inline") as ctx:
        yield ctx.load("memory", data=DATA, sig_dims=2)


@pytest.mark.parametrize(
    "udf",
    [
        Scratch(np.zeros(DATA.shape[2:])),
        Writing(room=np.zeros(3)),
        Scratch(np.zeros((12, 7))[::2]),
        Masks(room=np.ma.zeros(3)),
        Masks(room=np.ma.array(np.zeros(3), mask=[True, False, False])),
        CleansUp(room=np.zeros(3)),
        Resets(room=[np.zeros((6, 7))]),
        Chooses(room=np.zeros(3)),
    ],
    ids=lambda udf: type(udf).__name__,
)
def test_arrays_that_are_written_into_are_wrong(dataset, udf):
    (finding,) = ff.check_udf(udf, dataset).findings
    assert (finding.rule, finding.wrong) == ("state", True)
    assert finding.message.startswith(f"{type(udf).__name__} writes into self.params.room: threads")


@pytest.mark.parametrize("room", [[0], {}], ids=["list", "dict"])
def test_lists_and_dicts_may_be_a_cache(dataset, room):
    (finding,) = ff.check_udf(Writing(room=room), dataset).findings
    assert (finding.rule, finding.wrong) == ("state", False)
    assert finding.message.startswith("Writing changes self.params.room: threads share")


def test_what_is_not_shared_or_no_value_is_not_named(dataset):
    assert not ff.check_udf(Learns(room=np.zeros(DATA.shape[2:])), dataset).findings
    fields = np.dtype([("a", "uint8"), ("b", "float64")], align=True)
    room = np.zeros(3, fields)
    room["b"] = np.nan
    assert not ff.check_udf(Pads(room=room), dataset).findings


def test_large_parameters_are_copied_once_and_those_that_are_read_only_not(dataset):
    frozen, room = np.zeros((2, 1 << 22))
    frozen.flags.writeable = False
    tracemalloc.start()
    try:
        assert not ff.check_udf(FrameSums(frozen=frozen, room=room), dataset).findings
        assert tracemalloc.get_traced_memory()[1] < 1.5 * room.nbytes
    finally:
        tracemalloc.stop()
