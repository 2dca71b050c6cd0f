"""Annotations of names that only type checkers import: not computed from Python 3.14 on."""

import pickle
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.executor._wire.pickles import packed

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

if sys.version_info < (3, 14):
    pytest.skip("annotations are computed where they stand", allow_module_level=True)

DATA = np.arange(4 * 5 * 6 * 7, dtype=np.float32).reshape(4, 5, 6, 7)


class Sums(ff.UDF):
    factor: NDArray = 2

    def get_result_buffers(self) -> dict[str, NDArray]:
        return {"total": self.buffer(kind="sig", dtype="float64")}

    def process_frame(self, frame: NDArray) -> None:
        self.results.total[:] += frame * self.factor

    def merge(self, into: NDArray, part: NDArray) -> None:
        into.total[:] += part.total


class Doubled(ff.Transform):
    def process_frame(self, frame: NDArray, out: NDArray) -> None:
        out[:] = 2 * frame


def largest(frame: NDArray) -> NDArray:
    return frame.max()


@pytest.mark.parametrize("executor", ["inline", "processes", "dask"])
def test_runs(executor):
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
        found = ctx.run_udf(dataset.pipe(Doubled()), Sums())["total"]
        np.testing.assert_array_equal(found, 4 * DATA.sum((0, 1), dtype=np.float64))
        np.testing.assert_array_equal(ctx.map(dataset, largest), DATA.max((2, 3)))


def test_compiled_functions():
    pytest.importorskip("numba")
    with ff.Context.make_with("inline") as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2)
        np.testing.assert_array_equal(ctx.map(dataset, ff.compiled(largest)), DATA.max((2, 3)))


def test_formats():
    class Unread:
        name = "of_unknown_names"
        extensions = ("unread",)

        @staticmethod
        def detect(path: Path, head: NDArray) -> NDArray:
            return None

        @staticmethod
        def open(path):
            raise ValueError

    ff.register_format(Unread)


SCRIPT = """
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import NDArray

lock = threading.Lock()

@dataclass
class Numbers:
    dark: NDArray
    several: list[NDArray] = ()
    other: NDArray | None = None
"""


def test_dataclasses_of_the_main_script():
    scope = {"__name__": "__main__"}
    exec(SCRIPT, scope)
    sent = pickle.loads(packed(scope["Numbers"](3)))
    assert (sent.dark, sent.several, sent.other) == (3, (), None)
    assert fields(sent)[0].type.__forward_arg__ == "NDArray"
