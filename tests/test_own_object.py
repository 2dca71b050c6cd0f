"""The object that the user passed in works on the main side, and keeps what it learns there."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import threading
import time
import weakref

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import UDFError, UnsupportedError
from framefold.udf import UDF
from framefold.udf.base import UDFRunner
from framefold.udf.com import CoMUDF
from framefold.udf.raw import PickUDF
from framefold.udf.sum import SumUDF

DATA = np.random.default_rng(3).integers(0, 100, (4, 5, 6, 7)).astype(np.float32)
SUMS = DATA.sum(axis=(2, 3))


class Learns(UDF):
    """Multiplies by what is set on the object, and counts what is called on the main side."""

    def __init__(self, offset=0, aux=None):
        super().__init__(offset=offset, aux=aux)
        self.calls = []

    def get_result_buffers(self):
        return {"x": self.buffer("nav"), "total": self.buffer("single", use="private")}

    def get_task_data(self):
        return {"twice": 2 * self.params.offset}

    def preprocess(self):
        if self.meta.slice is None:
            self.calls.append("preprocess")

    def process_frame(self, frame):
        self.results.x[:] = frame.sum() + self.params.offset
        self.results.total[:] += frame.sum()

    def merge(self, dest, src):
        self.calls.append("merge")
        dest.x[:] = src.x
        dest.total[:] += src.total

    def get_results(self):
        self.calls.append("get_results")
        return {"x": self.results.x * getattr(self, "factor", 1)}


@pytest.fixture
def dataset(ctx):
    return ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)


EVERYWHERE = ["inline", "threads", "processes", "auto", "delayed"]


@pytest.mark.parametrize("executor", EVERYWHERE)
def test_what_is_set_on_the_object_counts_on_the_main_side(executor):
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
        udf = Learns()
        udf.factor = 3.0
        result = ctx.run_udf(dataset, udf)
        np.testing.assert_allclose(result["x"].data, 3 * SUMS, rtol=1e-6)
        assert udf.calls[0] == "preprocess"
        if executor != "delayed":
            assert udf.calls == ["preprocess", "merge", "merge", "merge", "get_results"]


class Extremes(UDF):
    order = ("low", "high")
    dtype = "float32"

    def get_result_buffers(self):
        return {name: self.buffer("nav", dtype=self.dtype) for name in self.order}

    def process_frame(self, frame):
        self.results.low[:], self.results.high[:] = frame.min(), frame.max()

    def get_results(self):
        return {"high": self.results.high}


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_buffers_keep_their_names_in_whatever_order(executor):
    main, calls = os.getpid(), [0]

    class OfASet(Extremes):
        order = property(lambda self: ("low", "high") if os.getpid() == main else ("high", "low"))

    class Alternating(Extremes):
        @property
        def order(self):
            calls[0] += 1
            return ("low", "high") if calls[0] % 2 else ("high", "low")

    udf = Extremes()
    udf.order = ("high", "low")
    with shared(executor, cpus=2) as ctx:
        dataset = ctx.load("memory", data=DATA)
        for each in (udf, OfASet(), Alternating()):
            result = ctx.run_udf(dataset, each)
            np.testing.assert_array_equal(result["low"], DATA.min(axis=(2, 3)))
            np.testing.assert_array_equal(result["high"], DATA.max(axis=(2, 3)))


@pytest.mark.parametrize(("name", "value"), [("dtype", "uint8"), ("order", ("low", "high", "n"))])
def test_buffers_are_those_of_the_plan(ctx, dataset, name, value):
    udf = Extremes()
    setattr(udf, name, value)
    with pytest.raises(UDFError, match=r"Extremes.get_result_buffers declares .* on the main side"):
        ctx.run_udf(dataset, udf)


def test_what_is_set_on_the_object_counts_in_processes_of_dask():
    dask = pytest.importorskip("dask")
    with ff.Context.make_with("delayed") as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
        udf = Learns()
        udf.factor = 3.0
        delayed = ctx.run_udf(dataset, udf)["x"].delayed_data
        with dask.config.set(scheduler="processes", num_workers=1):
            np.testing.assert_allclose(delayed.compute(), 3 * SUMS, rtol=1e-6)


class Record(UDF):
    """Published programs write files like this: who has made it knows that it is the first."""

    def __init__(self, filename, _is_master=True):
        super().__init__(filename=filename, _is_master=False)
        self.is_master = _is_master

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"n": self.buffer("nav")}

    def preprocess(self):
        if self.is_master:
            meta = self.meta
            shape = tuple(meta.dataset_shape)
            np.lib.format.open_memmap(self.params.filename, "w+", meta.input_dtype, shape)

    def get_task_data(self):
        return {"file": np.lib.format.open_memmap(self.params.filename, "r+")}

    def process_tile(self, tile):
        flat = self.task_data.file.reshape((-1, *self.meta.dataset_shape.sig))
        flat[self.meta.slice.get()] = tile


@pytest.mark.parametrize("executor", EVERYWHERE)
def test_a_file_made_on_the_main_side_is_not_that_of_another_run(tmp_path, executor):
    path = str(tmp_path / "record.npy")
    np.save(path, np.full((4, 5, 6, 7), 7, np.uint8))  # stale, of another dtype
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
        result = ctx.run_udf(dataset, Record(path))
        assert (result["n"].data == 0).all()  # computed, where runs are delayed
    written = np.load(path)
    assert written.dtype == np.float32
    np.testing.assert_array_equal(written, DATA)


def test_after_a_run_the_object_knows_it(ctx, dataset):
    roi = np.zeros((4, 5), bool)
    roi[1:3] = True
    aux = UDF.aux_data(np.arange(20), kind="nav", dtype="int64")
    udf = Learns(offset=4, aux=aux)
    ctx.run_udf(dataset, udf, roi=roi)
    assert udf.meta.slice is None
    assert tuple(udf.meta.dataset_shape) == DATA.shape
    assert udf.meta.input_dtype == np.float32
    assert udf.meta.get_valid_nav_mask().all()
    assert udf.get_task_data() == {"twice": 8}
    np.testing.assert_allclose(udf.results.x, SUMS[roi] + 4, rtol=1e-6)
    assert udf.results.total[0] == pytest.approx(SUMS[roi].sum())
    np.testing.assert_array_equal(udf.params.aux, np.arange(20)[roi.reshape(-1)])
    # And can be run again, over other data.
    other = ctx.load("memory", data=DATA[:2], sig_dims=2)
    with pytest.raises(ff.exceptions.InvalidArgumentError, match="AUX data 'aux'"):
        ctx.run_udf(other, udf)
    result = ctx.run_udf(dataset, udf)
    np.testing.assert_allclose(result["x"].data, SUMS + 4, rtol=1e-6)
    np.testing.assert_array_equal(udf.params.aux, np.arange(20))


def test_complete_results_are_not_copied_once_more(ctx, dataset):
    class Sums(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype="float64")}

        def process_frame(self, frame):
            self.results.x[:] = frame.sum(dtype="float64")

    udf = Sums()
    before = ctx.run_udf(dataset, udf)["x"].raw_data
    assert np.shares_memory(before, udf.results.x)
    for steps in ctx.run_udf_iter(dataset, udf):
        assert not np.shares_memory(steps.buffers[0]["x"].raw_data, udf.results.x)
    assert not np.shares_memory(before, udf.results.x)
    np.testing.assert_array_equal(before.reshape(SUMS.shape), DATA.sum((-1, -2), dtype="float64"))


@pytest.mark.parametrize("udf", [SumUDF(), CoMUDF(), PickUDF()])
def test_after_a_run_on_a_kernel_the_object_knows_it_too(ctx, dataset, udf):
    result = ctx.run_udf(dataset, udf)
    assert udf.meta.slice is None
    assert udf.meta.input_dtype == np.float32
    for name, buffer in result.items():
        np.testing.assert_array_equal(getattr(udf.results, name), buffer.raw_data)
    udf.get_task_data()


@pytest.mark.parametrize("udf", [Learns(), SumUDF(), CoMUDF()])
def test_after_a_delayed_run_the_object_has_no_results(ctx, dataset, udf):
    ctx.run_udf(dataset, udf)
    roi = np.zeros((4, 5), bool)
    roi[1] = True
    with ff.Context.make_with("delayed") as delayed:
        result = delayed.run_udf(dataset, udf, roi=roi)
        assert udf.meta.slice is None
        np.testing.assert_array_equal(udf.meta.roi, roi)
        # Neither initial values nor those of the run before.
        assert len(udf.results) == 0
        for name in result:
            with pytest.raises(AttributeError, match=f"no result buffer '{name}'"):
                getattr(udf.results, name)
            assert result[name].valid_mask.any()


def test_one_object_twice_in_a_list(ctx, dataset):
    udf = Learns()
    udf.factor = 2.0
    first, second = ctx.run_udf(dataset, [udf, udf])
    np.testing.assert_allclose(first["x"].data, 2 * SUMS, rtol=1e-6)
    np.testing.assert_array_equal(first["x"].data, second["x"].data)


def test_one_object_on_two_threads(dataset):
    udf = Learns()
    udf.factor = 2.0
    roi = np.zeros((2, 4, 5), bool)
    roi[0, :2] = roi[1, 1:] = True
    found = {}

    def work(number):
        with ff.Context.make_with("inline") as ctx:
            found[number] = [
                ctx.run_udf(dataset, udf, roi=roi[number])["x"].raw_data for _ in range(20)
            ]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(2):
        assert len(found[number]) == 20
        for raw in found[number]:
            np.testing.assert_allclose(raw, 2 * SUMS[roi[number]], rtol=1e-6)


def test_a_run_within_the_steps_of_another(ctx, dataset):
    udf = Learns()
    udf.factor = 2.0
    row = np.zeros((4, 5), bool)
    row[0] = True
    for part in ctx.run_udf_iter(dataset, udf):  # noqa: B007 - the last is looked at
        within = ctx.run_udf(dataset, udf, roi=row)
        np.testing.assert_allclose(within["x"].raw_data, 2 * SUMS[0], rtol=1e-6)
    np.testing.assert_allclose(part[0]["x"].data, 2 * SUMS, rtol=1e-6)
    # Its results so far are still held, and so is not in the way of the next run.
    ctx.run_udf(dataset, udf, roi=row)
    assert len(udf.results.x) == 5
    np.testing.assert_allclose(part[0]["x"].data, 2 * SUMS, rtol=1e-6)


def test_results_of_a_run_that_is_over_are_looked_at_during_another(ctx, dataset):
    udf = Learns()
    steps = ctx.run_udf_iter(dataset, udf)
    for _ in range(3):
        part = next(steps)  # the last one: its results were not looked at
    steps.close()
    row = np.zeros((4, 5), bool)
    row[0] = True
    other = ctx.run_udf_iter(dataset, udf, roi=row)
    next(other)
    np.testing.assert_allclose(part[0]["x"].data, SUMS, rtol=1e-6)
    assert len(udf.results.x) == 5


def test_parameters_changed_between_steps_stay(ctx, dataset):
    udf = Learns()
    with ctx.run_udf_iter(dataset, udf) as steps:
        next(steps)
        steps.update_parameters_experimental([{"offset": 5}])
        next(steps)
    assert udf.params.offset == 5
    result = ctx.run_udf(dataset, udf)
    np.testing.assert_allclose(result["x"].data, SUMS + 5, rtol=1e-6)


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_aux_data_changed_between_steps(executor, tmp_path):
    """A partition that is handed out keeps the old values, whenever it is processed.

    All but the first one wait for the change. Until it is merged, at most 65 are handed out: 32 at
    hand, as many that may wait for the merge, and the first.
    """
    n, changed = 100, tmp_path / "changed"

    class Adds(Learns):
        def process_frame(self, frame):
            deadline = time.monotonic() + 100
            while self.meta.slice.origin[0] and not changed.exists():
                assert time.monotonic() < deadline
                time.sleep(0.001)
            self.results.x[:] = self.params.aux

        def get_results(self):
            return {"x": self.results.x + 1000 * self.params.aux}

    def aux(values):
        return UDF.aux_data(values, kind="nav", dtype="float32")

    with shared(executor, cpus=1) as ctx:
        dataset = ctx.load("memory", data=np.ones((n, 4, 4), np.float32), num_partitions=n)
        udf = Adds(aux=aux(np.zeros(n)))
        with ctx.run_udf_iter(dataset, udf) as steps:
            next(steps)
            with pytest.raises(ff.exceptions.InvalidArgumentError, match="have shape"):
                steps.update_parameters_experimental([{"aux": aux(np.zeros(n + 1))}])
            steps.update_parameters_experimental([{"aux": aux(np.arange(n))}])
            changed.touch()
            *_, part = steps
        processed = part[0]["x"].data - 1000 * np.arange(n)
        (change,) = part.changes
        assert 0 < change.first_frame < n
        late = np.arange(n) >= change.first_frame
        np.testing.assert_array_equal(processed, np.where(late, np.arange(n), 0))
        np.testing.assert_array_equal(udf.params.aux, np.arange(n))


@pytest.mark.parametrize("hook", ["preprocess", "process_frame", "merge", "get_results"])
def test_after_an_exception_the_object_can_be_used(ctx, dataset, hook):
    class Fails(Learns):
        pass

    def fail(self, *args, **kwargs):
        raise ZeroDivisionError

    setattr(Fails, hook, fail)
    udf = Fails(aux=UDF.aux_data(np.arange(20), kind="nav"))
    udf.factor = 2.0
    with pytest.raises(ZeroDivisionError):
        ctx.run_udf(dataset, udf)
    delattr(Fails, hook)
    result = ctx.run_udf(dataset, udf)
    np.testing.assert_allclose(result["x"].data, 2 * SUMS, rtol=1e-6)
    assert udf.calls[-1] == "get_results"


def test_on_an_event_loop(dataset):
    udf = Learns()
    udf.factor = 2.0

    async def main():
        with ff.Context.make_with("inline") as ctx:
            return await ctx.run_udf(dataset, udf, sync=False)

    np.testing.assert_allclose(asyncio.run(main())["x"].data, 2 * SUMS, rtol=1e-6)
    assert udf.calls[-1] == "get_results"


@pytest.mark.parametrize("again", [lambda u: pickle.loads(pickle.dumps(u)), copy.copy])
def test_copies_and_pickles_hold_nothing_of_the_run(ctx, dataset, again):
    udf = Learns(offset=2)
    udf.factor = 2.0
    size = len(pickle.dumps(udf))
    ctx.run_udf(dataset, udf)
    udf.calls.clear()
    assert len(pickle.dumps(udf)) == size
    other = again(udf)
    assert not hasattr(other, "meta")
    assert list(other.results) == []
    assert (other.factor, other.params.offset) == (2.0, 2)
    result = ctx.run_udf(dataset, other)
    np.testing.assert_allclose(result["x"].data, 2 * (SUMS + 2), rtol=1e-6)


def test_the_object_keeps_nothing_alive_and_waits_for_no_collector(ctx, dataset):
    udf = Learns()
    gc.collect()
    gc.disable()
    try:
        ctx.run_udf(dataset, udf)
        gone = weakref.ref(udf)
        del udf
        assert gone() is None
    finally:
        gc.enable()


def test_runs_are_made_by_contexts():
    with pytest.raises(UnsupportedError, match=r"Context\.run_udf"):
        UDFRunner([Learns()])


def test_dry_runs_use_the_object(dataset):
    udf = Learns()
    udf.factor = 2.0
    UDFRunner.dry_run(udf, dataset)
    assert udf.calls == ["preprocess", "get_results"]


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_new_for_partition_may_have_no_defaults(executor):
    class Doubled(UDF):
        factor = 1

        @classmethod
        def new_for_partition(cls, kwargs, partition, roi):
            copy = cls(**kwargs)
            copy.factor = 2
            return copy

        def get_result_buffers(self):
            return {"total": self.buffer(kind="nav", dtype=np.float64)}

        def process_frame(self, frame):
            self.results.total[:] = self.factor * frame.sum()

    data = np.arange(36.0, dtype=np.float32).reshape((2, 2, 3, 3))
    with shared(executor, cpus=1) as ctx:
        dataset = ctx.load("memory", data=data, sig_dims=2)
        total = ctx.run_udf(dataset=dataset, udf=Doubled())["total"].data
    np.testing.assert_array_equal(total, 2 * data.sum(axis=(2, 3)))


class ChoosesItsMethod(Learns):
    """Has a method of the object that copies have, too."""

    process_frame = None

    def __init__(self, offset=0, aux=None):
        super().__init__(offset, aux)
        self.process_frame = self.of_frame

    def of_frame(self, frame):
        self.results.x[:] = frame.sum()


@pytest.mark.parametrize("executor", ["inline", "processes", "delayed"])
def test_methods_that_are_set_on_objects(executor):
    """Those are called, or refused."""
    set_on = [
        (SumUDF(), "get_results", UnsupportedError),
        (CoMUDF(), "get_results", UnsupportedError),
        (ff.StdDevUDF(), "merge", UnsupportedError),
        (ff.SumSigUDF(), "process_frame", UnsupportedError),
        (ff.ApplyMasksUDF([lambda: np.ones((6, 7))]), "postprocess", UnsupportedError),
        (Learns(), "process_frame", UDFError),
        (Learns(), "postprocess", UDFError),
        (Learns(), "get_task_data", UDFError),
    ]
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2)
        for udf, name, error in set_on:
            setattr(udf, name, lambda *_: {})
            with pytest.raises(error, match=rf"{type(udf).__name__}\.{name} is set on the object"):
                ctx.run_udf(dataset, udf)
        udf = Learns()
        udf.get_results = lambda: {"x": np.full(SUMS.shape, 3, np.float32)}
        assert np.all(ctx.run_udf(dataset, udf)["x"].data == 3)
        assert np.array_equal(ctx.run_udf(dataset, ChoosesItsMethod())["x"].data, SUMS)
