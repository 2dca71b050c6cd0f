"""What a function writes to a part of a ``sig`` buffer that it kept from an earlier tile.

It is in the result, or the run ends with an error.
"""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import framefold as ff
from framefold.udf import UDF

LOST = "after the last tile.*'total'.*write to self.results.total"
FORMATS = {
    "host": (UDF.BACKEND_NUMPY,),
    "host, tiles on a device": (UDF.BACKEND_CUPY,),
    "device": (UDF.BACKEND_CUPY,),
}


def as_it_is(array):
    yield array


def flat(array):
    yield array.reshape(-1)


def turned(array):
    yield array.T


def every_second(array):
    yield array[..., ::2]
    yield array[..., 1::2]


def halves_of_flat(array):
    whole = array.reshape(-1)
    middle = whole.size // 2
    yield whole[:middle]
    yield whole[middle:]


WAYS = [as_it_is, flat, turned, every_second, halves_of_flat]


class Keeps(UDF):
    """Sums that are added to the results some tiles later.

    Those that are left after the last tile are added with it, or in ``postprocess``, to views that
    were kept or to the whole buffer.
    """

    def __init__(self, lag, ending, way=as_it_is, where="host", kept_first=False):
        super().__init__(lag=lag, ending=ending, way=way, where=where, kept_first=kept_first)

    def get_backends(self):
        return FORMATS[self.params.where]

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        where = "device" if self.params.where == "device" else None
        return {"total": self.buffer("sig", dtype="float64", where=where)}

    def get_task_data(self):
        return {"kept": []}

    def process_tile(self, tile):
        view = self.results.total
        summed = self.forbuf(tile.astype("float64").sum(axis=0), view)
        if self.params.kept_first:  # other objects than the view itself
            view = list(self.params.way(view))
        place = self.meta.sig_slice
        self.task_data.kept.append((view, summed, place))
        if len(self.task_data.kept) > self.params.lag:
            self.add()
        part = self.meta.slice
        ends = [o + n for o, n in zip(part.origin, tuple(part.shape), strict=True)]
        self.first = min(getattr(self, "first", part.origin[0]), part.origin[0])
        last = [self.first + self.meta.partition_shape[0], *self.meta.dataset_shape.sig]
        if self.params.ending == "last tile" and ends == last:
            while self.task_data.kept:
                self.add()

    def add(self):
        view, summed, _ = self.task_data.kept.pop(0)
        views = view if self.params.kept_first else self.params.way(view)
        for part, what in zip(views, self.params.way(summed), strict=True):
            part += what

    def postprocess(self):
        while self.task_data.kept:
            _, summed, place = self.task_data.kept[0]
            if self.params.ending == "whole":
                self.results.total[place.get()] += summed
                self.task_data.kept.pop(0)
                continue
            if is_cut(tuple(place.shape), tuple(self.meta.dataset_shape.sig)):
                LATE.append(place)
            self.add()

    def merge(self, dest, src):
        dest.total[:] += src.total


#: What was added after the last tile to views of tiles that have some of the columns only.
LATE = []


def is_cut(shape, sig):
    """Whether a part of a buffer is no single piece of memory."""
    axes = [k for k in range(len(sig)) if shape[k] < sig[k]]
    return bool(axes) and any(n > 1 for n in shape[: axes[-1]])


def case_of(seed):
    """Frames, the number of their axes, the shape of tiles, functions, the number of partitions."""
    rng = np.random.default_rng(seed)
    sig_dims = int(rng.integers(2, 4))
    shape = tuple(int(rng.integers(n // 2, n + 1)) for n in (3, 4, 7, 7, 5)[: 2 + sig_dims])
    tile = tuple(int(rng.integers(1, max(2, n))) for n in shape[1:])
    udfs = [
        Keeps(
            int(rng.integers(0, 9)),
            ("last tile", "view", "view", "whole")[rng.integers(4)],
            WAYS[rng.integers(len(WAYS))],
            sorted(FORMATS)[rng.integers(len(FORMATS))],
            kept_first=bool(rng.integers(2)),
        )
        for _ in range(rng.integers(1, 3))
    ]
    data = rng.integers(1, 100, shape).astype("u2")
    return data, sig_dims, tile, udfs, int(rng.integers(1, 4))


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_what_is_written_to_kept_views_is_there_or_an_error(executor, monkeypatch):
    fake_cupy.install(monkeypatch)
    options = {} if executor == "inline" else {"cpus": 2, "gpus": 1}
    ctx = ff.Context.make_with(executor, **options)
    seen = {"results": 0, "errors": 0}

    @settings(max_examples=100, derandomize=True)
    @given(seed=st.integers(0, 2**32 - 1))
    def check(seed):
        data, sig_dims, tile, udfs, n_partitions = case_of(seed)
        LATE.clear()
        dataset = ctx.load(
            "memory", data=data, sig_dims=sig_dims, tileshape=tile, num_partitions=n_partitions
        )
        results, message = [], ""
        try:
            results = ctx.run_udf(dataset, udfs)
        except ff.exceptions.UDFError as error:
            message = str(error)
        assert bool(message) == bool(LATE), message
        if message:
            assert "after the last tile" in message
            seen["errors"] += 1
            return
        for result in results:
            np.testing.assert_array_equal(result["total"].data, data.sum(axis=(0, 1)))
        seen["results"] += 1

    check()
    assert min(seen.values()) > 10, "both were to be tried"


@pytest.fixture
def data():
    return np.random.default_rng(0).integers(1, 100, (3, 4, 8, 9)).astype("u2")


@pytest.mark.parametrize("where", FORMATS)
def test_the_error_says_what_to_do(monkeypatch, data, where):
    fake_cupy.install(monkeypatch)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=data, tileshape=(2, 8, 4), num_partitions=1)
    with pytest.raises(ff.exceptions.UDFError, match=LOST) as raised:
        ctx.run_udf(dataset, Keeps(2, "view", where=where))
    assert "UDF Keeps, partition 0, postprocess" in "".join(raised.value.__notes__)
    result = ctx.run_udf(dataset, Keeps(2, "whole", where=where))
    np.testing.assert_array_equal(result["total"].data, data.sum(axis=(0, 1)))


@pytest.mark.parametrize("dtype", ["float32", "complex64", "U3", object])
def test_views_may_be_kept_that_nothing_is_written_to(ctx, data, dtype):
    """Also of what is not equal to itself."""

    class OnlyKeeps(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer("sig", dtype=dtype)}

        def get_task_data(self):
            return {"kept": []}

        def process_tile(self, tile):
            self.results.x[:] = float("nan")
            self.task_data.kept.append(self.results.x)

        def postprocess(self):
            self.results.x[:] = self.results.x.astype(dtype)

        def merge(self, dest, src):
            dest.x[:] = src.x

    dataset = ctx.load("memory", data=data, tileshape=(2, 3, 4), num_partitions=2)
    x = ctx.run_udf(dataset, OnlyKeeps())["x"].data
    assert x.dtype == np.dtype(dtype)
    assert all(str(value).startswith(("nan", "(nan")) for value in x.reshape(-1))


def test_parts_in_one_piece_after_those_that_are_not(ctx):
    """In frames of three axes, tiles of both kinds follow each other in any order."""

    class KeepsAll(Keeps):
        def process_tile(self, tile):
            self.results.total[:] += tile.sum(axis=0)
            self.task_data.kept.append((self.results.total, np.zeros(1), self.meta.sig_slice))

        def postprocess(self):
            return

    data = np.random.default_rng(0).integers(1, 100, (2, 2, 3, 3, 4)).astype("u2")
    dataset = ctx.load("memory", data=data, sig_dims=3, tileshape=(2, 1, 2, 2))
    total = ctx.run_udf(dataset, KeepsAll(0, "none"))["total"].data
    np.testing.assert_array_equal(total, data.sum(axis=(0, 1)))
