"""A ROI that selects nothing: results as for a scan of which nothing was read, and a warning."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from shared_contexts import shared

from framefold.udf import UDF
from framefold.udf.com import CoMUDF
from framefold.udf.masks import ApplyMasksUDF
from framefold.udf.max import MaxUDF
from framefold.udf.raw import PickUDF
from framefold.udf.stddev import StdDevUDF
from framefold.udf.sum import SumUDF
from framefold.udf.sumsigudf import SumSigUDF

DATA = np.ones((3, 4, 5, 6), np.float32)
NOTHING = np.zeros((3, 4), bool)


class Everything(UDF):
    """One buffer of each kind."""

    def get_result_buffers(self):
        return {
            "n": self.buffer("nav", extra_shape=(2,)),
            "s": self.buffer("sig"),
            "one": self.buffer("single", dtype=int),
        }

    def process_tile(self, tile):
        raise AssertionError("something was read")

    def merge(self, dest, src):
        raise AssertionError("something was merged")


UDFS = [
    Everything(),
    SumUDF(),
    SumSigUDF(),
    MaxUDF(),
    StdDevUDF(),
    PickUDF(),
    CoMUDF(),
    CoMUDF.with_params(regression=1),
    ApplyMasksUDF(lambda: np.ones((2, 5, 6))),
]


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "auto", "delayed"])
@pytest.mark.parametrize("roi", [NOTHING, NOTHING.reshape(-1)], ids=["scan", "flat"])
def test_nothing_is_read_and_nothing_is_valid(executor, roi):
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2)
        with pytest.warns(UserWarning, match="selects no position"):
            results = ctx.run_udf(dataset, UDFS, roi=roi)
        for result in results:
            for name, buffer in result.items():
                assert buffer.masked_data.mask.all(), name
                assert not buffer.valid_mask.any(), name
                if buffer.kind == "nav":
                    assert buffer.raw_data.shape == (0, *buffer.extra_shape), name
                    assert buffer.data.shape == (3, 4, *buffer.extra_shape)
                    assert np.isnan(buffer.data).all()
                elif buffer.kind == "sig":
                    assert buffer.data.shape == (5, 6)
        assert not results[0]["s"].data.any()
        assert not any(results[4][name].data.any() for name in ("mean", "var", "std"))


def test_step_by_step_and_on_an_event_loop(ctx):
    dataset = ctx.load("memory", data=DATA, sig_dims=2)
    with pytest.warns(UserWarning, match="selects no position"):
        steps = list(ctx.run_udf_iter(dataset, UDFS, roi=NOTHING))
    assert [step.damage.data.any() for step in steps] == [False]

    async def main():
        return await ctx.run_udf(dataset, SumUDF(), roi=NOTHING, sync=False)

    with pytest.warns(UserWarning, match="selects no position"):
        assert not asyncio.run(main())["intensity"].data.any()


def test_sparse_data(ctx):
    sparse = pytest.importorskip("sparse")
    dataset = ctx.load("memory", data=sparse.COO.from_numpy(DATA), sig_dims=2)
    with pytest.warns(UserWarning, match="selects no position"):
        assert not ctx.run_udf(dataset, SumUDF(), roi=NOTHING)["intensity"].data.any()


def test_it_can_be_explained(ctx):
    dataset = ctx.load("memory", data=DATA, sig_dims=2)
    with pytest.warns(UserWarning, match="selects no position"):
        assert "0 of 0 frames" in ctx.explain(dataset, UDFS, roi=NOTHING)
