"""Results that a context keeps, and how they are asked for."""

from __future__ import annotations

import asyncio
import sys
import threading

import numpy as np
import pytest
from cache_cases import Above, Runs, aux, load
from out_cases import NAV, SIG, Mixed, assert_same, contexts, in_memory
from shared_contexts import shared

import framefold as ff
from framefold.common.progress import ProgressReporter
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.run import kept
from framefold.viz.base import Live2DPlot

if sys.platform == "win32":
    pytest.skip("files that are open cannot be changed here", allow_module_level=True)


@pytest.fixture(params=list(contexts()))
def anywhere(request):
    if request.param == "processes":
        with shared("processes") as other:
            yield ff.Context(executor=other.executor)
        return
    with contexts()[request.param]() as context:
        yield context


@pytest.fixture
def ctx():
    return ff.Context("inline")


@pytest.fixture
def runs(monkeypatch):
    return Runs(monkeypatch)


def test_the_same_run_is_not_run_again(anywhere, tmp_path, runs):
    ctx, roi = anywhere, np.arange(126).reshape(NAV) % 7 != 3
    for udf, how in (
        (ff.SumUDF(), {}),
        (ff.CoMUDF(cy=4, cx=5, r=3), {"roi": roi}),
        (Above(), {}),
        (Above(table=np.arange(3)), {"roi": roi}),
        ([Above(3), ff.StdDevUDF(), Mixed()], {}),
        (ff.ApplyMasksUDF(lambda: np.ones((2, *SIG))), {}),
    ):
        dataset = load(ctx, tmp_path)
        expected = ctx.run_udf(dataset, udf, **how)
        first, one = runs.during(lambda: ctx.run_udf(dataset, udf, cache=True, **how))  # noqa: B023
        assert first == 1
        # Another data set of the same files is the same.
        dataset = load(ctx, tmp_path)
        again, two = runs.during(lambda: ctx.run_udf(dataset, udf, cache=True, **how))  # noqa: B023
        assert again == 0, udf
        for found in (one, two):
            assert_same(found, expected)
            assert type(found) is type(expected)


def test_only_on_request(ctx, tmp_path, runs):
    dataset = load(ctx, tmp_path)
    ctx.run_udf(dataset, ff.SumUDF(), cache=True)
    assert runs.during(lambda: ctx.run_udf(dataset, ff.SumUDF()))[0] == 1
    assert runs.during(lambda: ff.Context("inline").run_udf(dataset, ff.SumUDF(), cache=True))[0]


def test_what_was_written_into_results_does_not_come_back(ctx, tmp_path, runs):
    dataset = load(ctx, tmp_path)
    expected = ctx.run_udf(dataset, Above())
    for _ in range(3):
        udf = Above()
        found = ctx.run_udf(dataset, udf, cache=True)
        assert_same(found, expected)
        for buffer in found.values():
            buffer.data[...] = 7
            buffer.raw_data[...] = 7
        for array in udf.results.values():
            array[...] = 7
    assert runs.n == 2


def test_objects_know_what_they_know_after_a_run(anywhere, tmp_path, runs):
    dataset, ctx = load(anywhere, tmp_path), anywhere
    roi = np.arange(126).reshape(NAV) % 7 != 3
    for make in (Above, ff.SumSigUDF, lambda: ff.CoMUDF(r=4), lambda: Above(aux=aux())):
        after, hit = make(), make()
        ctx.run_udf(dataset, after, roi=roi, cache=True)
        assert runs.during(lambda: ctx.run_udf(dataset, hit, roi=roi, cache=True))[0] == 0  # noqa: B023
        assert list(hit.results) == list(after.results)
        for name, array in after.results.items():
            assert array.tobytes() == getattr(hit.results, name).tobytes(), name
        assert list(hit.params) == list(after.params)
        assert hit.meta.dataset_shape == after.meta.dataset_shape
        np.testing.assert_array_equal(hit.meta.roi, roi)
        np.testing.assert_array_equal(
            hit.meta.get_valid_nav_mask(), after.meta.get_valid_nav_mask()
        )
        assert (hit.meta.tiling_scheme is None) == (after.meta.tiling_scheme is None)
    assert Above().results.get("n") is None


def test_the_call_counts_as_a_whole(ctx, tmp_path, runs):
    dataset = load(ctx, tmp_path)
    ctx.run_udf(dataset, [Above(), ff.SumUDF()], cache=True)
    for udf in ([ff.SumUDF(), Above()], [Above(), ff.SumUDF(), ff.SumUDF()], Above()):
        assert runs.during(lambda: ctx.run_udf(dataset, udf, cache=True))[0] == 1  # noqa: B023
    assert runs.during(lambda: ctx.run_udf(dataset, [Above(), ff.SumUDF()], cache=True))[0] == 0


def test_budget(tmp_path, runs):
    ctx = ff.Context("inline", cache_bytes=2 * 126 * 8)
    dataset = load(ctx, tmp_path)

    def took(factor):
        return runs.during(lambda: ctx.map(dataset, lambda f: f.sum() * factor, cache=True))[0]

    assert [took(n) for n in (1, 2, 1, 3, 1)] == [1, 1, 0, 1, 0]
    total = sum(entry.n_bytes for entry in ctx._kept._entries.values())
    assert 0 < total == ctx._kept._n_bytes <= 2 * 126 * 8
    # What was not asked for the longest is gone.
    assert len(ctx._kept._entries) == 3
    assert [took(n) for n in (4, 1, 3, 2)] == [1, 0, 0, 1]
    for n in (5, 6, 7, 8, 9):
        took(n)
    assert took(1) == 1
    # What is larger than all of it is not kept, and nothing goes for it.
    n = len(ctx._kept._entries)
    assert n > 1
    # Two runs at a time may bring the same.
    ctx._kept.put(*list(ctx._kept._entries.items())[-1])
    assert len(ctx._kept._entries) == n
    assert ctx._kept._n_bytes == sum(entry.n_bytes for entry in ctx._kept._entries.values())
    ctx.map(dataset, lambda frame: frame * 1.0, cache=True)
    assert len(ctx._kept._entries) == n
    ctx.clear_cache()
    assert ctx._kept._n_bytes == 0
    assert took(9) == 1
    with pytest.raises(InvalidArgumentError, match="cache_bytes is -1"):
        ff.Context(cache_bytes=-1)
    assert kept.DEFAULT_BYTES == 256 << 20


class Log(ProgressReporter):
    def __init__(self):
        self.states = []

    def start(self, state):
        self.states.append(("start", state.num_frames_complete))

    def update(self, state):
        self.states.append(("update", state.num_frames_complete))

    def end(self, state):
        self.states.append(("end", state.num_frames_complete))


def test_plots_and_progress(ctx, tmp_path, runs):
    shown = []

    class Plot(Live2DPlot):
        def display(self):
            shown.append("display")

        def update(self, damage, force=False):
            shown.append((damage.all(), self.data.copy()))

    ctx.plot_class = Plot
    dataset = load(ctx, tmp_path)
    expected = ctx.run_udf(dataset, ff.SumSigUDF(), plots=True, cache=True)["intensity"].data
    shown.clear()
    log = Log()
    ctx.run_udf(dataset, ff.SumSigUDF(), plots=True, progress=log, cache=True)
    assert runs.n == 1
    assert shown[0] == "display"
    complete, last = shown[-1]
    assert complete
    np.testing.assert_array_equal(last, expected)
    assert log.states == [("start", 0), ("update", 126), ("end", 126)]


def test_beside_an_event_loop(ctx, tmp_path, runs):
    dataset = load(ctx, tmp_path)
    for _ in range(2):
        found = asyncio.run(ctx.run_udf(dataset, Above(), sync=False, cache=True))
        assert_same(found, ctx.run_udf(dataset, Above()))
    assert runs.n == 3


def test_each_pass_is_looked_for(ctx, tmp_path, runs):
    dataset = load(ctx, tmp_path)

    def both(level):
        total = ff.SumSigUDF()
        return [total, Above(level, aux=ff.from_result(total, "intensity", lambda x: x / 1000))]

    expected = ctx.run_udf(dataset, both(3))
    for level, n in ((3, 2), (3, 0), (4, 1)):
        taken, found = runs.during(lambda: ctx.run_udf(dataset, both(level), cache=True))  # noqa: B023
        assert taken == n
        if level == 3:
            assert_same(found, expected)


def test_what_is_refused(ctx, tmp_path):
    dataset = load(ctx, tmp_path)
    for run, error, why in (
        (
            lambda: ctx.run_udf(in_memory(ctx), ff.SumUDF(), cache=True),
            UnsupportedError,
            "in files",
        ),
        (
            lambda: ctx.run_udf(dataset, ff.SumUDF(), out=tmp_path / "x.zarr", cache=True),
            InvalidArgumentError,
            "leave one of them out",
        ),
        (
            lambda: ctx.run_udf(
                dataset, ff.udf.record.RecordUDF(str(tmp_path / "x.npy")), cache=True
            ),
            UnsupportedError,
            "RecordUDF has none",
        ),
        (
            lambda: ctx.run_udf(dataset, Above(table=[LOCK]), cache=True),
            UnsupportedError,
            r"the parameter 'table' of Above cannot be compared",
        ),
        (
            lambda: ctx.map(dataset, lambda frame: frame.sum() + hash(LOCK), cache=True),
            UnsupportedError,
            r"parameter 'f' of AutoUDF .*uses 'LOCK', a lock",
        ),
    ):
        with pytest.raises(error, match=why):
            run()
    pytest.importorskip("dask")
    delayed = ff.Context("delayed")
    with pytest.raises(UnsupportedError, match="a delayed run computes nothing yet"):
        delayed.run_udf(dataset, ff.SumUDF(), cache=True)


LOCK = threading.Lock()


def test_on_dask(tmp_path, runs):
    pytest.importorskip("distributed")
    with ff.Context.make_with("dask", cpus=1) as ctx:
        dataset = load(ctx, tmp_path)
        for _ in range(2):
            assert_same(
                ctx.run_udf(dataset, Above(), cache=True),
                ff.Context("inline").run_udf(dataset, Above()),
            )
    assert runs.n == 3
