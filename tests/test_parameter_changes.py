"""Parameters that change while a run goes on: which frames have which ones, on every executor."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from long_runs import IS_LONG
from process_cases import eventually
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.udf import UDF

N = 300
DATA = np.random.default_rng(4).random((N, 4, 5)).astype(np.float32)
ROI = np.arange(N) % 3 != 0

EXECUTORS = ["inline", "threads", "processes", "auto", "delayed"]


class Weighted(UDF):
    """Sums of floats, which depend on the order, and on parameters everywhere but in results."""

    def __init__(self, factor=1.0, shift=None, aux=0.0):
        super().__init__(factor=factor, shift=shift, aux=aux)

    def get_preferred_input_dtype(self):
        return np.float64

    def get_result_buffers(self):
        return {
            "level": self.buffer("nav", dtype="float64"),
            "factor": self.buffer("nav", dtype="float64"),
            "image": self.buffer("sig", dtype="float64"),
            "latest": self.buffer("single", dtype="float64", use="result_only"),
        }

    def process_frame(self, frame):
        time.sleep(0.002)
        aux = np.asarray(self.params.aux)[..., None, None]
        self.results.level[:] = (frame * self.params.factor + aux).sum()
        self.results.factor[:] = self.params.factor
        self.results.image[:] += frame * self.params.factor

    def merge(self, dest, src):
        dest.level[:] = src.level
        # With the parameters of the partition, whenever it is merged.
        assert (src.factor == self.params.factor).all()
        dest.factor[:] = src.factor * self.params.factor
        dest.image[:] += src.image * self.params.factor

    def get_results(self):
        return {"latest": np.array([self.params.factor])}


def context(executor):
    return shared(executor, **({} if executor == "delayed" else {"cpus": 2}))


def load(ctx, n_partitions=60):
    return ctx.load("memory", data=DATA, sig_dims=2, num_partitions=n_partitions)


def factors(changes, n_frames, first=1.0):
    """The factor of each selected frame, as the record says."""
    found = np.full(n_frames, first)
    for change in changes:
        found[change.first_frame :] = change.parameters["factor"]
    return found


def by_hand(changes, roi, partitions):
    """The merged image: the sums of each partition with its own factor, one after the other."""
    selected = np.flatnonzero(np.ones(N, bool) if roi is None else roi)
    factor = factors(changes, len(selected))
    image = np.zeros(DATA.shape[1:])
    for start, stop in partitions:
        part = np.zeros(DATA.shape[1:])
        for k in range(start, stop):
            assert factor[k] == factor[start]
            part += DATA[selected[k]].astype(np.float64) * factor[k]
        image += part * factor[start]
    return factor, image


@pytest.mark.parametrize("executor", [*EXECUTORS, "dask"])
def test_the_record_says_which_frames_have_which_values(executor):
    with context(executor) as ctx:
        # The executor auto begins without worker processes, and then has them.
        for roi in (None, ROI):
            record_is_right(ctx, roi)


def record_is_right(ctx, roi):
    dataset = load(ctx)
    udf, other = Weighted(), Weighted(factor=10.0)
    partitions = ctx._plan(dataset, [udf, other], roi)[0].partitions()
    before = ()
    with ctx.run_udf_iter(dataset=dataset, udf=[udf, ff.SumUDF(), other], roi=roi) as steps:
        for n, results in enumerate(steps):
            assert results.changes[: len(before)] == before
            before = results.changes
            if n in (3, 4, 20):
                steps.update(udf, factor=1.0 + n)
    assert len(results.changes) == 3
    assert [change.udf for change in results.changes] == [0, 0, 0]
    firsts = [change.first_frame for change in results.changes]
    assert firsts == sorted(firsts)
    assert 0 < firsts[0] < len(np.flatnonzero(np.ones(N, bool) if roi is None else roi))
    factor, image = by_hand(results.changes, roi, partitions)
    np.testing.assert_array_equal(results[0]["factor"].raw_data, factor**2)
    np.testing.assert_array_equal(results[0]["image"].data, image)
    assert results[0]["latest"].data == [21.0]
    assert udf.params.factor == 21.0
    # The others are as they were.
    np.testing.assert_array_equal(results[2]["factor"].raw_data, np.full(len(factor), 100.0))
    complete = ctx.run_udf(dataset=dataset, udf=Weighted(factor=10.0), roi=roi)
    np.testing.assert_array_equal(results[2]["image"].data, complete["image"].data)


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_two_runs_over_the_frames_before_and_after_give_the_same(executor):
    with context(executor) as ctx:
        dataset, udf = load(ctx), Weighted(factor=2.0)
        with ctx.run_udf_iter(dataset=dataset, udf=udf) as steps:
            for n, results in enumerate(steps):  # noqa: B007 - the last one
                if n == 5:
                    steps.update(udf, factor=3.0)
        (change,) = results.changes
        before = np.arange(N) < change.first_frame
        first = ctx.run_udf(dataset=dataset, udf=Weighted(factor=2.0), roi=before)
        second = ctx.run_udf(dataset=dataset, udf=Weighted(**change.parameters), roi=~before)
        for name in ("level", "factor"):
            found = results[0][name].raw_data
            np.testing.assert_array_equal(found[before], first[name].raw_data)
            np.testing.assert_array_equal(found[~before], second[name].raw_data)


@contextmanager
def changing(steps, udf):
    """Changes a parameter from another thread meanwhile, not more often where a run is slow."""
    stop = threading.Event()

    def change():
        for n in range(2, 3000 if IS_LONG else 200):
            if stop.wait(0.002):
                return
            try:
                steps.update(udf, factor=1.0 + n % 40)
            except InvalidArgumentError:  # over
                return

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("executor", ["threads", "processes", "auto", "dask"])
def test_changes_from_another_thread(executor):
    """While the thread that merges waits for partitions: it may wait for the change, too."""
    with context(executor) as ctx:
        dataset, udf = load(ctx, 300 if IS_LONG else 100), Weighted()
        partitions = ctx._plan(dataset, [udf], None)[0].partitions()
        steps = ctx.run_udf_iter(dataset=dataset, udf=udf)
        results = next(steps)
        with changing(steps, udf):
            for results in steps:  # noqa: B007 - the last one
                pass
        assert len(results.changes) > 2
        factor, image = by_hand(results.changes, None, partitions)
        np.testing.assert_array_equal(results[0]["factor"].raw_data, factor**2)
        np.testing.assert_array_equal(results[0]["image"].data, image)


def test_changes_at_the_same_time_keep_each_other():
    class Slow(Weighted):
        def __init__(self, factor=1.0, shift=None, aux=0.0):
            super().__init__(factor, shift, aux)
            if threading.current_thread() is not threading.main_thread():
                time.sleep(0.05)

    with context("inline") as ctx:
        udf = Slow()
        with ctx.run_udf_iter(dataset=load(ctx, 6), udf=udf) as steps:
            next(steps)
            threads = [
                threading.Thread(target=steps.update, args=(udf,), kwargs={name: 2.0})
                for name in ("factor", "shift", "aux")
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            *_, results = steps
        assert udf.params.as_dict() == {"factor": 2.0, "shift": 2.0, "aux": 2.0}
        assert len(results.changes) == 3
        assert (results[0]["factor"].raw_data[50:] == 4).all()


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_aux_data_and_arrays(executor):
    def aux(values):
        return UDF.aux_data(values, "nav", (), "float64")

    values, shift = np.arange(N, dtype=float), np.zeros(3)
    with context(executor) as ctx:
        dataset, udf = load(ctx), Weighted(factor=0.0, aux=aux(np.zeros(N)))
        with ctx.run_udf_iter(dataset=dataset, udf=udf) as steps:
            for n, results in enumerate(steps):  # noqa: B007 - the last one
                if n == 2:
                    shift[:] = 7
                    steps.update(udf, aux=aux(values), shift=shift)
                    shift[:] = 8  # the caller's array, for the next change
        (change,) = results.changes
        assert (change.parameters["shift"] == 7).all()
        assert (udf.params.shift == 7).all()
        expected = np.where(np.arange(N) < change.first_frame, 0.0, values * 20)
        np.testing.assert_array_equal(results[0]["level"].raw_data, expected)
        np.testing.assert_array_equal(udf.params.aux, values)


def test_a_partition_that_is_repeated_keeps_its_values(tmp_path):
    """Its worker dies, and another one hears of the change before it gets the partition."""

    class Dies(Weighted):
        def process_frame(self, frame):
            super().process_frame(frame)
            path = tmp_path / "died"
            if self.meta.slice.origin[0] == 25 and not path.exists():
                path.touch()
                time.sleep(0.5)
                os._exit(3)

    with ff.Context.make_with("processes", cpus=2) as ctx:
        dataset, udf = load(ctx), Dies()
        with ctx.run_udf_iter(dataset=dataset, udf=udf) as steps:
            next(steps)
            assert eventually((tmp_path / "died").exists, 60)
            steps.update(udf, factor=2.0)
            *_, results = steps
    (change,) = results.changes
    assert change.first_frame > 25
    expected = factors(results.changes, N) ** 2
    np.testing.assert_array_equal(results[0]["factor"].raw_data, expected)


def test_before_the_first_step_all_frames_have_it():
    for executor in ("inline", "processes", "auto"):
        with context(executor) as ctx:
            dataset, udf = load(ctx), Weighted()
            with ctx.run_udf_iter(dataset=dataset, udf=udf) as steps:
                steps.update(udf, factor=5.0)
                *_, results = steps
            assert results.changes[0].first_frame == 0
            assert (results[0]["factor"].raw_data == 25).all()


def test_beside_an_event_loop():
    async def main():
        with context("inline") as ctx:
            udf = Weighted()
            steps = ctx.run_udf_iter(dataset=load(ctx), udf=udf, sync=False)
            n = 0
            async for results in steps:  # noqa: B007 - the last one
                n += 1
                if n == 7:
                    await steps.update(udf, factor=3.0)
            return results

    results = asyncio.run(main())
    (change,) = results.changes
    assert change.first_frame == 35
    np.testing.assert_array_equal(results[0]["factor"].raw_data, factors(results.changes, N) ** 2)


def test_results_of_a_step_know_the_changes_until_then():
    with context("inline") as ctx:
        udf = Weighted()
        with ctx.run_udf_iter(dataset=load(ctx), udf=udf) as steps:
            first = next(steps)
            steps.update(udf, factor=2.0)
            second = next(steps)
        assert first.changes == ()
        assert second.changes == (ff.api.ParameterChange(0, 5, {"factor": 2.0}),)


class Own(ff.CoMUDF):
    """In Python, as its method is another one."""

    def process_tile(self, tile):
        super().process_tile(tile)


def test_names_are_those_of_with_params():
    with context("inline") as ctx:
        udf = Own.with_params(cy=1, cx=2)
        with ctx.run_udf_iter(dataset=load(ctx, 6), udf=udf) as steps:
            next(steps)
            steps.update(udf, r=1.0)
            *_, results = steps
        (change,) = results.changes
        whole = ctx.run_udf(dataset=load(ctx), udf=ff.CoMUDF(cy=1, cx=2))["raw_com"].data
        near = ctx.run_udf(dataset=load(ctx), udf=ff.CoMUDF(cy=1, cx=2, r=1.0))["raw_com"].data
        found = results[0]["raw_com"].data
        np.testing.assert_array_equal(found[: change.first_frame], whole[: change.first_frame])
        np.testing.assert_array_equal(found[change.first_frame :], near[change.first_frame :])


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_what_the_constructor_makes_of_new_values(executor):
    """Shifts for each position become AUX data, of which each frame sees its own."""

    def masks():
        return np.arange(20, dtype=np.float32).reshape((1, 4, 5))

    shifts = np.random.default_rng(1).integers(-2, 3, (N, 2))
    with context(executor) as ctx:
        udf = ff.ApplyMasksUDF(masks, backends=("numpy",), shifts=np.zeros((N, 2), int))
        with ctx.run_udf_iter(dataset=load(ctx), udf=udf) as steps:
            next(steps)
            steps.update(udf, shifts=shifts)
            *_, results = steps
        (change,) = results.changes
        assert change.parameters["shifts"] is not shifts
        np.testing.assert_array_equal(change.parameters["shifts"], shifts)
        shifts[: change.first_frame] = 0
        again = ff.ApplyMasksUDF(masks, backends=("numpy",), shifts=shifts)
        expected = ctx.run_udf(dataset=load(ctx), udf=again)["intensity"].data
        np.testing.assert_array_equal(results[0]["intensity"].data, expected)


def test_misuse():
    with context("inline") as ctx:
        udf, native = Weighted(), ff.SumUDF()
        steps = ctx.run_udf_iter(dataset=load(ctx), udf=[udf, native])
        next(steps)
        with pytest.raises(InvalidArgumentError, match="'facter', did you mean 'factor'"):
            steps.update(udf, facter=2)
        with pytest.raises(InvalidArgumentError, match="not among the UDFs that are run"):
            steps.update(Weighted(), factor=2)
        with pytest.raises(UnsupportedError, match="SumUDF runs on a native kernel"):
            steps.update(native, dtype="float64")
        with pytest.raises(UnsupportedError, match="only run_udf and explain"):
            steps.update(udf, factor=ff.from_result(native, "intensity"))
        *_, results = steps
        assert results.changes == ()
        with pytest.raises(InvalidArgumentError, match="the run is over"):
            steps.update(udf, factor=2)


class Fast(UDF):
    """The same, compiled: no interpreter takes part when a partition begins.

    With loops, as expressions of whole arrays take seconds to compile, for each type anew.
    """

    def __init__(self, factor=1.0, table=None, aux=0.0):
        super().__init__(factor=factor, table=table, aux=aux)

    def get_preferred_input_dtype(self):
        return np.float64

    def get_result_buffers(self):
        return {
            "factor": self.buffer("nav", dtype="float64"),
            "image": self.buffer("sig", dtype="float64"),
        }

    @ff.compiled
    def process_frame(self, frame):
        if self.params.factor > 50:
            raise ValueError("too large")
        self.results.factor[...] = self.params.factor
        for y in range(frame.shape[0]):
            for x in range(frame.shape[1]):
                self.results.image[y, x] += frame[y, x] * self.params.factor

    @ff.compiled
    def merge(self, dest, src):
        for i in range(len(src.factor)):
            dest.factor[i] = src.factor[i] * self.params.factor
        for y in range(src.image.shape[0]):
            for x in range(src.image.shape[1]):
                dest.image[y, x] += src.image[y, x] * self.params.factor


class FastWithAux(Fast):
    """Of each frame, what it sees of its parameters."""

    def get_result_buffers(self):
        return {name: self.buffer("nav", dtype="float64") for name in ("factor", "aux")}

    @ff.compiled
    def process_frame(self, frame):
        self.results.factor[0] = self.params.factor
        self.results.aux[0] = self.params.aux[0]

    @ff.compiled
    def merge(self, dest, src):
        for i in range(len(src.factor)):
            dest.factor[i] = src.factor[i] * self.params.factor
            dest.aux[i] = src.aux[i]


@pytest.mark.parametrize("executor", [*EXECUTORS, "dask"])
def test_compiled_functions(executor):
    pytest.importorskip("numba")
    with context(executor) as ctx:
        # The executor auto begins without worker processes, and then has them.
        for roi in (None, ROI):
            record_of_compiled_is_right(ctx, roi)


def record_of_compiled_is_right(ctx, roi):
    dataset = load(ctx)
    udf, other, slow = Fast(), Fast(factor=10.0), Weighted()
    partitions = ctx._plan(dataset, [udf, other, slow], roi)[0].partitions()
    with ctx.run_udf_iter(dataset=dataset, udf=[udf, other, slow], roi=roi) as steps:
        for n, results in enumerate(steps):  # noqa: B007 - the last one
            if n in (3, 4, 20):
                steps.update(udf, factor=1.0 + n)
            if n == 10:
                steps.update(slow, factor=2.0)
    changes = [change for change in results.changes if change.udf == 0]
    assert [change.parameters["factor"] for change in changes] == [4.0, 5.0, 21.0]
    firsts = [change.first_frame for change in changes]
    assert firsts == sorted(firsts)
    assert firsts[0] > 0
    factor, image = by_hand(changes, roi, partitions)
    np.testing.assert_array_equal(results[0]["factor"].raw_data, factor**2)
    np.testing.assert_array_equal(results[0]["image"].data, image)
    assert udf.params.factor == 21.0
    np.testing.assert_array_equal(results[1]["factor"].raw_data, np.full(len(factor), 100.0))
    (change,) = (change for change in results.changes if change.udf == 2)
    factor, _ = by_hand([change], roi, partitions)
    np.testing.assert_array_equal(results[2]["factor"].raw_data, factor**2)


@pytest.mark.parametrize("executor", ["threads", "processes", "auto"])
def test_compiled_functions_alone_from_another_thread(executor):
    pytest.importorskip("numba")
    with context(executor) as ctx:
        dataset, udf = load(ctx, 300), Fast()
        partitions = ctx._plan(dataset, [udf], None)[0].partitions()
        steps = ctx.run_udf_iter(dataset=dataset, udf=udf)
        results = next(steps)
        with changing(steps, udf):
            for results in steps:  # noqa: B007 - the last one
                time.sleep(0.001)
        assert len(results.changes) > 2
        factor, image = by_hand(results.changes, None, partitions)
        np.testing.assert_array_equal(results[0]["factor"].raw_data, factor**2)
        np.testing.assert_array_equal(results[0]["image"].data, image)


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_compiled_functions_get_other_types_aux_data_and_errors(executor):
    pytest.importorskip("numba")
    ramp = np.arange(float(N))
    with context(executor) as ctx:
        dataset = load(ctx)
        udf = FastWithAux(aux=Fast.aux_data(ramp, "nav", dtype="float64"))
        with ctx.run_udf_iter(dataset=dataset, udf=udf) as steps:
            next(steps)
            steps.update(udf, aux=Fast.aux_data(-ramp, "nav", dtype="float64"))
            next(steps)
            steps.update(udf, factor=3)  # no float
            *_, results = steps
        aux, factor = results.changes
        first = np.arange(N) < aux.first_frame
        np.testing.assert_array_equal(results[0]["aux"].data, np.where(first, ramp, -ramp))
        found = results[0]["factor"].data
        np.testing.assert_array_equal(found, np.where(np.arange(N) < factor.first_frame, 1, 9))
        udf = Fast()  # beside one that takes some time
        with ctx.run_udf_iter(dataset=dataset, udf=[udf, Weighted()]) as steps:
            next(steps)
            steps.update(udf, factor=60.0)
            with pytest.raises(ValueError, match="too large"):
                list(steps)


def test_many_changes_at_once_of_compiled_functions():
    pytest.importorskip("numba")
    with context("inline") as ctx:
        udf, other = Fast(), Weighted()
        with ctx.run_udf_iter(dataset=load(ctx), udf=[udf, other]) as steps:
            next(steps)
            steps.update_parameters_experimental([{"factor": 3.0}, {"factor": 4.0}])
            *_, results = steps
        assert results.changes == (
            ff.api.ParameterChange(0, 5, {"factor": 3.0}),
            ff.api.ParameterChange(1, 5, {"factor": 4.0}),
        )
