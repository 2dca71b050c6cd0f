"""Arrays in memory that stay in shared memory from run to run, for as long as they are the same."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from process_cases import (
    eventually,
    hard_limit,  # noqa: F401 - a fixture
    open_files,
)

import framefold as ff
from framefold.executor._processes.channels import CAN_SHARE
from framefold.executor._wire import datasets, pickles

pytestmark = [
    pytest.mark.usefixtures("hard_limit"),
    pytest.mark.skipif(not CAN_SHARE, reason="no memory can be shared"),
]


class FrameSum(ff.UDF):
    """The sum of each frame, in Python."""

    def get_result_buffers(self):
        return {"total": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.total[:] = frame.sum()


@pytest.fixture(scope="module")
def ctx():
    with ff.Context.make_with("processes", cpus=2) as ctx:
        yield ctx


@pytest.fixture
def data():
    return np.random.default_rng(6).integers(0, 9, size=(4, 5, 64, 65)).astype(np.float32)


def sums(ctx, dataset):
    return ctx.run_udf(dataset, FrameSum())["total"].data


def n_pieces():
    return sum("memfd:framefold" in name for name in open_files())


def test_the_same_array_is_copied_once(ctx, data):
    dataset = ctx.load("memory", data=data)
    assert (sums(ctx, dataset) == data.sum(axis=(2, 3))).all()
    kept = datasets.copy_of(dataset)
    assert kept is not None
    assert (sums(ctx, dataset) == data.sum(axis=(2, 3))).all()
    assert datasets.copy_of(dataset) is kept


@pytest.mark.parametrize("where", [0, 64 * 65 * 13 + 7, -1])
def test_an_array_that_was_changed_is_copied_again(ctx, data, where):
    dataset = ctx.load("memory", data=data)
    sums(ctx, dataset)
    kept = datasets.copy_of(dataset)
    data.reshape(-1)[where] += 100
    assert (sums(ctx, dataset) == data.sum(axis=(2, 3))).all()
    assert datasets.copy_of(dataset) not in (None, kept)


def test_a_run_that_goes_on_keeps_the_array_that_it_began_with(ctx, data):
    dataset = ctx.load("memory", data=data, num_partitions=20)
    before, began, changed = data.sum(axis=(2, 3)), threading.Event(), threading.Event()
    results = []

    def run():
        steps = ctx.run_udf_iter(dataset, FrameSum())
        next(steps)
        began.set()
        changed.wait()
        results.extend(list(steps)[-1:])

    one = threading.Thread(target=run)
    one.start()
    try:
        assert began.wait(60)
        data += 1
        assert (sums(ctx, dataset) == data.sum(axis=(2, 3))).all()
    finally:
        changed.set()
        one.join()
    assert (results[0].buffers[0]["total"].data == before).all()


def test_it_goes_with_the_data_set(ctx, data):
    dataset = ctx.load("memory", data=data)
    before = n_pieces()
    sums(ctx, dataset)
    kept = weakref.ref(datasets.copy_of(dataset))
    assert n_pieces() > before
    del dataset
    # The thread of the pool may still be busy with the end of the run.
    assert eventually(lambda: gc.collect() >= 0 and kept() is None)
    assert eventually(lambda: n_pieces() <= before)


def test_more_than_a_share_of_the_memory_is_not_kept(ctx, data, monkeypatch):
    dataset = ctx.load("memory", data=data)
    sums(ctx, dataset)
    assert datasets.copy_of(dataset) is not None
    monkeypatch.setattr(datasets, "available_memory", lambda: 8 * data.nbytes - 8)
    assert (sums(ctx, dataset) == data.sum(axis=(2, 3))).all()
    assert datasets.copy_of(dataset) is None


def test_parameters_are_not_kept(ctx, tmp_path):
    np.save(tmp_path / "a.npy", np.ones((4, 5, 6, 7), np.float32))
    dataset = ctx.load("npy", path=tmp_path / "a.npy")
    aux = ff.UDF.aux_data(np.zeros((20, 4000)), kind="nav", extra_shape=(4000,), dtype="float64")

    class Large(FrameSum):
        pass

    ctx.run_udf(dataset, Large(aux=aux))
    assert datasets.copy_of(dataset) is None


@pytest.mark.parametrize("length", [1, pickles.COMPARED, 2 * pickles.COMPARED + 1])
def test_every_byte_counts(length):
    bytes_ = np.arange(length, dtype=np.uint8)
    other = np.arange(3, dtype=np.uint8)
    arrays = [memoryview(bytes_), memoryview(other)]
    places, size = pickles.layout(arrays)
    shared = pickles.SharedArrays(arrays, places, size)
    assert shared.hold(arrays, places)
    for array in (bytes_, other):
        array[-1] ^= 1
        assert not shared.hold(arrays, places)
        array[-1] ^= 1
    assert shared.hold(arrays, places)
    assert not shared.hold(arrays[:1], places[:1])
