"""What is wrong on the engine's side of the door is a framefold error, whoever called."""

import numpy as np
import pytest

from framefold import _engine
from framefold.exceptions import InvalidArgumentError


def dataset():
    return _engine.from_array(np.ones((4, 2, 2), dtype=np.uint8), 2)


class Process:
    """One partition of a function that does nothing, as the engine asks for it."""

    process = staticmethod(lambda tile: None)
    give = None

    def __init__(self, method, kind):
        self.method = method
        self.cursor = _engine.TileCursor(0, 1)
        self.bindings = [({}, "total", np.zeros((2, 2)), kind, True, False)]

    def finish(self):
        return None, 0


class Bridge:
    """A function in Python, as the engine asks for it."""

    described_format = "numpy"

    def __init__(
        self, *, method="tile", layout="dense", declared="sig", bound="sig", processing="tile"
    ):
        self.wishes = (method, "uint8", None, None, layout, None)
        self.declared = [("total", declared, [], "float64", 8, None)]
        self.made = processing, bound

    def requirements(self, native):
        return self.wishes

    def declare(self, dtype):
        return self.declared

    def begin(self, depth, tile_shape, n_partitions):
        return self

    def partition(self, index, start, stop):
        return Process(*self.made)


def process(**words):
    plan = _engine.Plan(dataset(), [("Nothing", Bridge(**words))])
    return plan.run_partition(0)


def test_the_words_of_the_interface_are_understood():
    assert process().partition == 0
    process(processing="partition", bound="single")


@pytest.mark.parametrize(
    ("words", "named", "allowed"),
    [
        ({"method": "til"}, "'til'", "'tile' or 'frame' or 'partition'"),
        ({"processing": "til"}, "'til'", "'tile' or 'frame' or 'partition'"),
        ({"layout": "coo"}, "'coo'", "'dense' or 'csr'"),
        ({"declared": "navv"}, "'navv'", "'nav' or 'sig' or 'single'"),
        ({"bound": "navv"}, "'navv'", "'nav' or 'sig' or 'single'"),
    ],
)
def test_other_words_are_refused_by_name(words, named, allowed):
    with pytest.raises(InvalidArgumentError) as told:
        process(**words)
    assert named in str(told.value)
    assert allowed in str(told.value)
