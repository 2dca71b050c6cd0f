"""Compiled functions on every executor: the same bits, and what ``explain`` says."""

import asyncio
import os
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from compiled_cases import cache, dataset, interpreted  # noqa: F401

import framefold as ff
from framefold.exceptions import InvalidArgumentError, WorkerError

pytest.importorskip("numba")

EXECUTORS = ("inline", "threads", "processes", "auto", "delayed", "dask", "dask threads")


@contextmanager
def made(name, **options):
    """A context with that executor; ``dask threads`` has its workers in this process."""
    if name.startswith("d"):
        pytest.importorskip("distributed" if name.startswith("dask") else "dask")
    if name != "dask threads":
        options = {"cpus": 2, **options} if name == "dask" else options
        with ff.Context.make_with(name, **options) as context:
            yield context
        return
    from distributed import Client, LocalCluster

    from framefold.executor.dask import DaskJobExecutor

    options = {"processes": False, "threads_per_worker": 2, "dashboard_address": ":0"}
    with (
        LocalCluster(1, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
        ff.Context(executor=DaskJobExecutor(client)) as context,
    ):
        yield context


@pytest.fixture(scope="module", params=EXECUTORS)
def ctx(request):
    with made(request.param) as context:
        yield context


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


DATA = np.random.default_rng(7).random((6, 7, 10, 11)).astype("f4") * 100


class Frames(ff.UDF):
    """All that can be compiled; its sums depend on the order in which they are made."""

    def get_result_buffers(self):
        return {
            "n": self.buffer("nav", (2,), dtype="float64"),
            "image": self.buffer("sig", dtype="float32"),
            "count": self.buffer("single", (2,), dtype="int64", use="private"),
            "end": self.buffer("single", dtype="int64", use="result_only"),
        }

    def get_task_data(self):
        return {"seen": np.zeros(1)}

    def preprocess(self):
        self.results.image[:] = 0.1

    @ff.compiled
    def weigh(self, value):
        return value * self.params.factor

    @ff.compiled
    def process_frame(self, frame):
        self.task_data.seen[0] += 1
        weight = self.params.scale[0]
        for y in range(frame.shape[0]):
            for x in range(frame.shape[1]):
                self.results.image[y, x] += self.weigh(frame[y, x]) * weight
                self.results.n[0] += frame[y, x]
        self.results.n[1] = self.meta.coordinates[0, 1]
        self.results.count[0] += 1

    @ff.compiled
    def postprocess(self):
        self.results.count[1] += int(self.task_data.seen[0])

    @ff.compiled
    def merge(self, dest, src):
        for i in range(dest.n.shape[0]):
            dest.n[i, 0], dest.n[i, 1] = src.n[i, 0], src.n[i, 1]
        for y in range(dest.image.shape[0]):
            for x in range(dest.image.shape[1]):
                dest.image[y, x] += src.image[y, x]
        dest.count[0] += src.count[0]
        dest.count[1] += src.count[1]

    def get_results(self):
        return {"end": self.results.count[0] - self.results.count[1]}


class Tiles(ff.UDF):
    """Parts of frames, merged in Python."""

    def get_result_buffers(self):
        return {"n": self.buffer("nav", dtype="float32"), "image": self.buffer("sig", dtype="f4")}

    @ff.compiled
    def process_tile(self, tile):
        for i in range(tile.shape[0]):
            for y in range(tile.shape[1]):
                for x in range(tile.shape[2]):
                    self.results.n[i] += tile[i, y, x]
                    self.results.image[y, x] += tile[i, y, x]

    def merge(self, dest, src):
        dest.n[:] = src.n
        dest.image += src.image


def udfs():
    scale = ff.UDF.aux_data(np.random.default_rng(1).random((6, 7)), "nav", dtype="float64")
    return [Frames(factor=1.5, scale=scale), Tiles()]


ROIS = {"all": None, "few": np.random.default_rng(2).random((6, 7)) < 0.4}


def arrays(found):
    return [{name: np.array(buffer.raw_data) for name, buffer in each.items()} for each in found]


def assert_same(found, expected):
    for one, other in zip(arrays(found), arrays(expected), strict=True):
        assert one.keys() == other.keys()
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.parametrize("roi", ROIS)
def test_the_same_bits(ctx, inline, roi):
    ds = dataset(ctx, DATA, num_partitions=5)
    expected = inline.run_udf(dataset(inline, DATA, num_partitions=5), udfs(), roi=ROIS[roi])
    found = ctx.run_udf(ds, udfs(), roi=ROIS[roi])
    assert_same(found, expected)
    assert np.asarray(found[0]["end"]) == 0
    plain = ctx.run_udf(
        ds, [interpreted(type(udf))(**udf._kwargs) for udf in udfs()], roi=ROIS[roi]
    )
    for one, other in zip(arrays(plain), arrays(expected), strict=True):
        for name, array in one.items():  # numbers times float32 are float64 in compiled code
            np.testing.assert_allclose(array, other[name], rtol=1e-5, err_msg=name)


def test_explain(ctx):
    said = ctx.explain(dataset(ctx, DATA, num_partitions=5), udfs())
    assert said.count(", compiled") == 2


def test_map(ctx):
    def spread(frame):
        return frame.max() - frame.min()

    ds = dataset(ctx, DATA, num_partitions=5)
    np.testing.assert_array_equal(
        np.asarray(ctx.map(ds, ff.compiled(spread))), DATA.max((2, 3)) - DATA.min((2, 3))
    )


def test_partial_results_and_event_loops(ctx, inline):
    expected = inline.run_udf(dataset(inline, DATA, num_partitions=5), udfs())
    ds = dataset(ctx, DATA, num_partitions=5)
    *_, last = ctx.run_udf_iter(ds, udfs())
    assert_same(last.buffers, expected)

    async def run():
        return await ctx.run_udf(ds, udfs(), sync=False)

    assert_same(asyncio.run(run()), expected)


def test_exceptions(ctx):
    class Fails(Tiles):
        @ff.compiled
        def process_tile(self, tile):
            if self.meta.slice.origin[0] > 20:
                raise ValueError("no such frame")

    with pytest.raises(ValueError, match="no such frame"):
        arrays(ctx.run_udf(dataset(ctx, DATA, num_partitions=5), [Fails()]))


def test_closures_that_cannot_be_sent(ctx, request):
    lock = threading.Lock()

    class Locked(Tiles):
        def get_results(self):
            with lock:
                return {"n": self.results.n * 2, "image": self.results.image}

    ds, name = dataset(ctx, DATA, num_partitions=5), request.node.callspec.params["ctx"]
    if name == "processes" or name.startswith("dask"):
        with pytest.raises(InvalidArgumentError, match="'get_results' of the class refers to"):
            ctx.run_udf(ds, Locked())
    else:
        np.testing.assert_array_equal(
            np.asarray(ctx.run_udf(ds, Locked())["n"]),
            2 * np.asarray(ctx.run_udf(ds, Tiles())["n"]),
        )


def without_numba(here):
    """Itself in this process; others find no Numba from then on."""
    if os.getpid() == here:
        return Blocks()
    sys.modules["numba"] = None
    return None


class Blocks:
    def __init__(self):
        self.here = os.getpid()

    def __reduce__(self):
        return without_numba, (self.here,)


@pytest.mark.parametrize("name", ["processes", "dask"])
def test_workers_without_numba(name):
    with made(name, cpus=1) as own, pytest.raises(WorkerError) as caught:
        own.run_udf(dataset(own, DATA, num_partitions=5), Tiles(unused=Blocks()))
    assert "Numba is not installed" in str(caught.value)
    assert "install Numba both here and there, or in neither place" in str(caught.value)
