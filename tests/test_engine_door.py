"""What is wrong on the engine's side of the door is a framefold error for every caller."""

import subprocess
import sys

import numpy as np
import pytest

from framefold import _engine
from framefold.exceptions import EngineError, InvalidArgumentError


def dataset():
    return _engine.from_array(np.ones((4, 2, 2), dtype=np.uint8), 2)


class Process:
    """One partition of a function that does nothing, as the engine asks for it."""

    process = staticmethod(lambda tile: None)
    give = None
    give_staged = None

    def __init__(self, method, kind):
        self.method = method
        self.cursor = _engine.TileCursor(0, 1)
        self.bindings = [({}, "total", np.zeros((2, 2)), kind, True, False)]

    def finish(self):
        return None, 0


class Bridge:
    """A function in Python, as the engine asks for it."""

    described_format = "numpy"
    by_rows = False

    def __init__(
        self, *, method="tile", layout="dense", declared="sig", bound="sig", processing="tile"
    ):
        self.wishes = (method, "uint8", None, None, layout, None)
        self.declared = [("total", declared, [], "float64", 8, None)]
        self.made = processing, bound

    is_compiled = False
    on_device = None

    def requirements(self, native):
        return self.wishes

    def declare(self, dtype):
        return self.declared

    def describe_run(self, depth, tile_shape, n_partitions):
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
        ({"method": "til"}, "'til'", "'tile' or 'frames' or 'frame' or 'partition'"),
        ({"processing": "til"}, "'til'", "'tile' or 'frames' or 'frame' or 'partition'"),
        ({"layout": "coo"}, "'coo'", "'dense' or 'csr'"),
        ({"declared": "navv"}, "'navv'", "'nav' or 'sig' or 'single'"),
        ({"bound": "navv"}, "'navv'", "'nav' or 'sig' or 'single'"),
    ],
)
def test_other_words_are_refused_by_name(words, named, allowed):
    with pytest.raises(InvalidArgumentError) as caught:
        process(**words)
    assert named in str(caught.value)
    assert allowed in str(caught.value)


#: Written by a call, and removed before the next one.
OUTPUT = "out.npy"


def calls(tmp_path):
    """One call through each part of the door."""
    path = tmp_path / "data.npy"
    np.save(path, np.ones((4, 2, 2), dtype=np.uint8))
    data = dataset()
    kernel = _engine.NativeUdf("sum", "SumUDF", {}, [2, 2])
    plan = _engine.Plan(data, [kernel])
    results = plan.results()
    rows = [np.array(part, dtype=t) for part, t in (([0, 1], "i8"), ([0], "i4"), ([1], "u1"))]
    # Each with a plan of its own: what ends one run does not end others.
    plans = iter([_engine.Plan(data, [kernel]) for _ in range(3)])
    drivers = iter([_engine.Driver(_engine.Plan(data, [kernel]), 0) for _ in range(6)])
    return {
        "load": lambda: _engine.load("npy", path, {}),
        "detect": lambda: _engine.detect(path),
        "from_array": dataset,
        "from_csr": lambda: _engine.from_csr(*rows, [2, 2]),
        "to_sparse": lambda: data.to_sparse(),
        "metadata": lambda: data.metadata,
        "Corrections": lambda: _engine.Corrections([2, 2]),
        "with_corrections": lambda: data.with_corrections(_engine.Corrections([2, 2])),
        "NativeUdf": lambda: _engine.NativeUdf("sum", "SumUDF", {}, [2, 2]),
        "Plan": lambda: _engine.Plan(data, [kernel]),
        "explain": plan.explain,
        "run_partition": lambda: plan.run_partition(0),
        "Driver": lambda: _engine.Driver(next(plans), 0),
        "run": lambda: next(drivers).run(),
        "step": lambda: next(drivers).step(),
        "results": plan.results,
        "snapshot": results.snapshot,
        "take_parts": lambda: plan.run_partition(0).take_parts(),
        "write": lambda: _engine.write_dataset(data, tmp_path / OUTPUT),
        "WholeFile": lambda: _engine.WholeFile(tmp_path / "whole", False),
    }


def test_a_panic_is_an_engine_error_wherever_it_happens(tmp_path, capfd):
    for name, call in calls(tmp_path).items():
        for panics in (False, True, False):
            (tmp_path / OUTPUT).unlink(missing_ok=True)
            said = ""
            if panics:
                _engine.panic_in_next_call()
            try:
                call()
            except EngineError as error:
                said = str(error)
            assert ("panicked: on purpose" in said) == panics, (name, said)
    assert "on purpose" in capfd.readouterr().err


def test_a_file_that_another_thread_writes_can_be_discarded(tmp_path):
    """Who waits for the file must not keep the one who writes it from the interpreter."""
    script = """
import sys, threading
from pathlib import Path
import numpy as np
from framefold import _engine

whole = _engine.WholeFile(sys.argv[1], False)
array = np.zeros((64, 512, 1024), np.uint8)
writer = threading.Thread(target=whole.write_tiff, args=(array, 0, "zeros"))
writer.start()
while not Path(whole.part).stat().st_size:
    pass
whole.discard()
writer.join()
"""
    command = [sys.executable, "-c", script, str(tmp_path / "a.tif")]
    subprocess.run(command, check=True, timeout=120)
    assert not list(tmp_path.iterdir())


DROPPED = """
import threading, time
from framefold._engine import CompiledCode

class Owner:
    def __del__(self):
        begun.set()
        time.sleep(0.2)  # which lets other threads go on

def code(owner=None):
    return CompiledCode("mine", (1, 0, 0), False, False, [0] * 8, [], [], owner)

def try_to(change):
    begun.clear()
    other = threading.Thread(target=lambda: (begun.wait(), change()))
    other.start()
    change()
    other.join()

begun = threading.Event()
followed = code()
followed.follow(code(Owner()), 5)
try_to(lambda: followed.follow(code(), 2))
followed.follow(code(Owner()), 5)
try_to(lambda: followed.replace([]))
print("done")
"""


def test_what_changed_code_refers_to_goes_while_other_threads_change_it():
    ended = subprocess.run(
        [sys.executable, "-c", DROPPED], capture_output=True, text=True, timeout=60
    )
    assert ended.stdout == "done\n", ended.stderr
