"""Results of functions as parameters of others: several passes over the data."""

from __future__ import annotations

import asyncio
import pickle

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.common.progress import ProgressReporter
from framefold.exceptions import (
    ArgumentTypeError,
    FileChangedError,
    InvalidArgumentError,
    UDFRunCancelled,
    UnsupportedError,
)
from framefold.udf import UDF
from framefold.udf.base import UDFRunner
from framefold.viz.base import Dummy2DPlot

NAV, SIG = (5, 6), (8, 9)
DATA = np.random.default_rng(8).integers(0, 50, (*NAV, *SIG)).astype(np.uint16)
FRAMES = DATA.reshape((30, *SIG)).astype(np.float64)
ROI = np.arange(30).reshape(NAV) % 4 != 1


class Stats(UDF):
    """A result of each kind; sums of floats depend on their order."""

    def __init__(self, scale=1.0):
        super().__init__(scale=scale)

    def get_preferred_input_dtype(self):
        return np.float64

    def get_result_buffers(self):
        return {
            "level": self.buffer("nav", (2,), dtype="float64"),
            "image": self.buffer("sig", dtype="float64"),
            "total": self.buffer("single", (3,), dtype="float64"),
            "hidden": self.buffer("single", use="private"),
        }

    def process_frame(self, frame):
        self.results.level[:] = frame.sum() * self.params.scale, self.meta.coordinates[0, 0]
        self.results.image[:] += frame * 0.1
        self.results.total[:] += frame.mean() * np.array([0.1, 0.2, 0.3])

    def merge(self, dest, src):
        dest.level[:] = src.level
        dest.image[:] += src.image
        dest.total[:] += src.total


class Uses(UDF):
    """What it got, and a number that depends on all of it."""

    def __init__(self, level=None, image=None, total=None):
        super().__init__(level=level, image=image, total=total)

    def get_preferred_input_dtype(self):
        return np.float64

    def get_result_buffers(self):
        return {
            "level": self.buffer("nav", (2,), dtype="float64"),
            "product": self.buffer("nav", dtype="float64"),
        }

    def process_frame(self, frame):
        self.results.level[:] = self.params.level
        self.results.product[:] = (frame * self.params.image).sum() * self.params.total[1]


def uses(stats, **changed):
    names = ("level", "image", "total")
    return Uses(**{name: ff.from_result(stats, name) for name in names} | changed)


def by_hand(ctx, dataset, roi=None):
    """Two runs, one after the other."""
    found = ctx.run_udf(dataset=dataset, udf=Stats(), roi=roi)
    aux = {
        "level": UDF.aux_data(found["level"].data, "nav", (2,), "float64"),
        "image": UDF.aux_data(found["image"].data, "sig", (), "float64"),
        "total": np.array(found["total"].data),
    }
    return found, ctx.run_udf(dataset=dataset, udf=Uses(**aux), roi=roi)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, result in expected.items():
        np.testing.assert_array_equal(found[name].raw_data, result.raw_data)
        np.testing.assert_array_equal(found[name].valid_mask, result.valid_mask)


@pytest.fixture
def dataset(ctx):
    return ctx.load("memory", data=DATA, sig_dims=2, num_partitions=4)


@pytest.mark.parametrize("roi", [None, ROI], ids=["all", "roi"])
@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "auto", "delayed", "dask"])
def test_the_bits_are_those_of_two_runs_by_hand(executor, roi):
    if executor == "dask":
        pytest.importorskip("distributed")
    with ff.Context.make_with("inline") as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=4)
        first, second = by_hand(ctx, dataset, roi)
    cpus = {} if executor == "delayed" else {"cpus": 2}
    with shared(executor, **cpus) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=4)
        stats = Stats()
        found = ctx.run_udf(dataset=dataset, udf=[uses(stats), stats], roi=roi)
        assert_same(found[0], second)
        assert_same(found[1], first)
    selected = np.ones(30, bool) if roi is None else roi.reshape(-1)
    expected = FRAMES[selected].sum(axis=(1, 2))
    np.testing.assert_array_equal(found[0]["level"].raw_data[:, 0], expected)


def test_masks_that_follow_the_beam(ctx, dataset):
    def masks():
        return np.stack([np.ones(SIG), np.arange(72.0).reshape(SIG)])

    com = ff.CoMUDF.with_params(cy=4, cx=4)
    shifts = ff.from_result(com, "raw_shifts", np.round)
    a, b = ctx.run_udf(dataset=dataset, udf=[com, ff.ApplyMasksUDF(masks, shifts=shifts)])
    y, x = np.round(np.moveaxis(a["raw_shifts"].data, -1, 0)).astype(int)
    for place in np.ndindex(*NAV):
        moved = np.zeros(SIG)
        for i, j in np.ndindex(*SIG):
            to = i + y[place], j + x[place]
            if 0 <= to[0] < SIG[0] and 0 <= to[1] < SIG[1]:
                moved[to] = masks()[1][i, j]
        expected = (DATA[place] * moved).sum()
        assert b["intensity"].data[(*place, 1)] == pytest.approx(expected, rel=1e-6)


def test_what_a_function_makes_of_a_result(ctx, dataset):
    total = ff.SumUDF()

    def bright(image):
        image -= image.mean()  # its own copy
        return [lambda: image > 0]

    summed, found = ctx.run_udf(
        dataset=dataset, udf=[total, ff.ApplyMasksUDF(ff.from_result(total, "intensity", bright))]
    )
    image = DATA.sum(axis=(0, 1))
    np.testing.assert_array_equal(summed["intensity"].data, image)
    expected = DATA[:, :, image > image.mean()].sum(axis=-1)
    np.testing.assert_array_equal(found["intensity"].data[..., 0], expected)


def test_a_function_may_add_axes_and_change_the_dtype(ctx, dataset):
    class Kept(Uses):
        def get_result_buffers(self):
            return {"kept": self.buffer("nav", (2, 3), dtype="int64")}

        def process_frame(self, frame):
            assert self.params.level.dtype == np.int16
            self.results.kept[:] = self.params.level

    def make(level):
        assert level.shape == (*NAV, 2)
        return np.repeat(level[..., np.newaxis], 3, axis=-1).astype(np.int16)

    stats = Stats()
    found = ctx.run_udf(dataset=dataset, udf=Kept(ff.from_result(stats, "level", make)))
    expected = np.repeat(FRAMES.sum(axis=(1, 2)).astype(np.int16), 3).reshape((*NAV, 3))
    np.testing.assert_array_equal(found["kept"].data[:, :, 0], expected)


@pytest.mark.parametrize(
    "make", [lambda level: level.reshape((30, 2)), lambda level: level[0], np.ravel]
)
def test_a_function_that_loses_the_axes_is_an_error(ctx, dataset, make):
    stats = Stats()
    with pytest.raises(InvalidArgumentError, match=r"the first axes must be \(5, 6\)") as caught:
        ctx.run_udf(dataset=dataset, udf=Uses(ff.from_result(stats, "level", make)))
    assert any("from_result(Stats, 'level'" in note for note in caught.value.__notes__)


def test_a_parameter_that_is_the_same_for_all(ctx, dataset):
    class Scaled(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype="float64")}

        def process_frame(self, frame):
            self.results.x[:] = self.params.factor + self.params.pair[1]

    stats = Stats()
    udf = Scaled(
        factor=ff.from_result(stats, "level", lambda level: level[..., 0].max()),
        pair=ff.from_result(
            stats, "level", lambda level: tuple(level[..., 0].min(keepdims=False) * np.ones(2))
        ),
    )
    sums = DATA.sum(axis=(2, 3))
    found = ctx.run_udf(dataset=dataset, udf=udf)["x"].data
    np.testing.assert_array_equal(found, np.full(NAV, sums.max() + sums.min()))


def test_more_levels_give_more_passes(ctx, dataset):
    first = Stats()
    second = Stats(ff.from_result(first, "total", lambda total: float(total[0])))
    third = Stats(ff.from_result(second, "level"))

    class Third(Stats):
        def process_frame(self, frame):
            self.results.level[:] = self.params.scale

    third = Third(ff.from_result(second, "level"))
    text = ctx.explain(dataset=dataset, udf=third)
    assert "pass        1 of 3: Stats\n" in text
    assert "pass        3 of 3: Third; planned when" in text
    found = ctx.run_udf(dataset=dataset, udf=third)  # the others run, too
    one = ctx.run_udf(dataset=dataset, udf=Stats())
    scale = float(one["total"].data[0])
    expected = ctx.run_udf(dataset=dataset, udf=Stats(scale))["level"].data
    np.testing.assert_array_equal(found["level"].data, expected)


def test_functions_run_in_the_first_pass_that_they_can(ctx, dataset):
    class Log(ProgressReporter):
        begun, ended = 0, 0

        def start(self, state):
            self.begun += 1

        def update(self, state):
            assert state.num_part_total == 4

        def end(self, state):
            self.ended += 1

    log, stats, other = Log(), Stats(), ff.SumUDF()
    waits = uses(stats)
    # The order is that of the list; one object may be there twice.
    results = ctx.run_udf(dataset=dataset, udf=[waits, other, stats, waits], progress=log)
    assert (log.begun, log.ended) == (2, 2)
    assert len(results) == 4
    assert isinstance(results, ff.api.UDFResultTuple)
    assert list(results[1]) == ["intensity"]
    assert_same(results[0], results[3])
    assert_same(results[2], ctx.run_udf(dataset=dataset, udf=Stats()))


def test_one_function_gives_one_result(ctx, dataset):
    result = ctx.run_udf(dataset=dataset, udf=uses(Stats()))
    assert_same(result, by_hand(ctx, dataset)[1])


def test_explain_says_what_is_read_by_each_pass(ctx, dataset):
    stats = Stats()
    text = ctx.explain(dataset=dataset, udf=[stats, uses(stats), ff.SumUDF()], roi=ROI)
    read = [line for line in text.splitlines() if line.startswith("read")]
    assert read[0] == "read        22 frames, 3.09 KiB"
    assert read[1] == "read        22 frames, 3.09 KiB, once more"
    assert "pass        1 of 2: Stats, SumUDF\n" in text
    assert "needs       Uses: level = from_result(Stats, 'level')\n" in text
    assert "pass" not in ctx.explain(dataset=dataset, udf=Stats())


class Learns(Uses):
    """Counts what is called on the main side, and multiplies by what is set on the object."""

    def __init__(self, level=None):
        UDF.__init__(self, level=level)
        self.calls = []

    def get_result_buffers(self):
        return {"x": self.buffer("nav", dtype="float64")}

    def preprocess(self):
        if self.meta.slice is None:
            self.calls.append("preprocess")
            self.learned = True

    def process_frame(self, frame):
        self.results.x[:] = self.params.level[0]

    def get_results(self):
        return {"x": self.results.x * getattr(self, "factor", 1)}


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "auto", "delayed"])
def test_the_own_object_is_on_the_main_side(executor):
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=4)
        udf = Learns(ff.from_result(Stats(), "level"))
        reference = udf.params.level
        udf.factor = 3.0
        for _ in range(2):
            found = ctx.run_udf(dataset=dataset, udf=udf)["x"].data
            np.testing.assert_array_equal(found, 3 * DATA.sum(axis=(2, 3)))
            assert udf.params.level is reference
            assert udf._kwargs == {"level": reference}
            assert udf.learned
        assert udf.calls[0] == "preprocess"
        assert udf.calls.count("preprocess") == 2
        if executor != "delayed":
            assert udf.meta.slice is None
            assert len(udf.results.x) == 30
    again = pickle.loads(pickle.dumps(udf))
    assert isinstance(again.params.level, ff.udf.references.FromResult)


def test_a_failure_names_the_pass_and_leaves_the_object_as_it_was(ctx, dataset):
    class Fails(Learns):
        broken = True

        def process_frame(self, frame):
            if type(self).broken:
                raise ZeroDivisionError("by intention")
            super().process_frame(frame)

    stats = Stats()
    udf = Fails(ff.from_result(stats, "level"))
    with pytest.raises(ZeroDivisionError, match="by intention") as caught:
        ctx.run_udf(dataset=dataset, udf=[stats, udf])
    assert "in pass 2 of 2 over the data" in caught.value.__notes__
    assert isinstance(udf.params.level, ff.udf.references.FromResult)
    # What the first pass found is not lost.
    np.testing.assert_array_equal(stats.results.level[:, 0], FRAMES.sum(axis=(1, 2)))
    Fails.broken = False
    found = ctx.run_udf(dataset=dataset, udf=udf)["x"].data
    np.testing.assert_array_equal(found, DATA.sum(axis=(2, 3)))


def test_ctrl_c_brings_the_results_so_far():
    class Interrupted(Learns):
        def process_frame(self, frame):
            if self.meta.slice.origin[0] >= 20:
                raise KeyboardInterrupt
            super().process_frame(frame)

    with ff.Context.make_with("inline") as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=5)
        stats = Stats()
        with pytest.raises(KeyboardInterrupt) as caught:
            ctx.run_udf(dataset=dataset, udf=[Interrupted(ff.from_result(stats, "level")), stats])
        results = caught.value.results
        assert_same(results[1], ctx.run_udf(dataset=dataset, udf=Stats()))
        n_done = int(np.count_nonzero(results.damage.data))
        assert n_done == 18
        np.testing.assert_array_equal(
            results[0]["x"].raw_data[:n_done], FRAMES[:n_done].sum(axis=(1, 2))
        )

        class Before(Stats):
            def process_frame(self, frame):
                raise KeyboardInterrupt

        before = Before()
        with pytest.raises(KeyboardInterrupt) as caught:
            ctx.run_udf(dataset=dataset, udf=[Learns(ff.from_result(before, "level")), before])
        assert list(caught.value.results[0]) == []  # its pass has not begun
        assert list(caught.value.results[1]) == ["level", "image", "total"]


def test_beside_an_event_loop(dataset):
    async def main():
        with ff.Context.make_with("threads") as ctx:
            stats = Stats()
            both = await ctx.run_udf(dataset=dataset, udf=[uses(stats), stats], sync=False)
            one = await ctx.run_udf(dataset=dataset, udf=uses(stats), sync=False)
        return both, one

    (second, first), one = asyncio.run(main())
    with ff.Context.make_with("inline") as ctx:
        expected = by_hand(ctx, dataset)
    assert_same(first, expected[0])
    assert_same(second, expected[1])
    assert_same(one, expected[1])


def test_the_region_is_that_of_the_call_beside_an_event_loop(ctx, dataset):
    roi, stats = ROI.copy(), Stats()

    async def run():
        run = ctx.run_udf(dataset=dataset, udf=[uses(stats), stats], roi=roi, sync=False)
        roi[:] = ~roi
        return await run

    for found, expected in zip(asyncio.run(run()), by_hand(ctx, dataset, ROI)[::-1], strict=True):
        assert_same(found, expected)


def test_a_task_that_is_cancelled_ends_the_pass(dataset):
    begun = []

    class Slow(Learns):
        def process_frame(self, frame):
            begun.append(1)
            super().process_frame(frame)

        def merge(self, dest, src):
            task.get_loop().call_soon_threadsafe(task.cancel)
            dest.x[:] = src.x

    async def main():
        nonlocal task
        with ff.Context.make_with("inline") as ctx:
            run = ctx.run_udf(
                dataset=dataset, udf=Slow(ff.from_result(Stats(), "level")), sync=False
            )
            task = asyncio.ensure_future(run)
            with pytest.raises(asyncio.CancelledError):
                await task

    task = None
    asyncio.run(main())
    assert begun


class Recorded(Dummy2DPlot):
    made: list = []  # noqa: RUF012

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        Recorded.made.append(self)

    def display(self):
        pass


def test_plots_of_each_pass(ctx, dataset):
    plotting = ff.Context(ctx.executor, plot_class=Recorded)
    stats = Stats()
    udfs = [uses(stats), stats]
    for plots, expected in [
        ([["product"], ["image"]], ["image", "product"]),
        ([["product"]], ["product"]),
        ([[], ["image"]], ["image"]),
        (True, ["image", "product"]),
    ]:
        Recorded.made = []
        plotting.run_udf(dataset=dataset, udf=udfs, plots=plots)
        channels = [plot.channel for plot in Recorded.made]
        assert [name for name in channels if name in ("image", "product")] == expected
    with pytest.raises(InvalidArgumentError, match="plots does not fit 2 UDFs"):
        plotting.run_udf(dataset=dataset, udf=udfs, plots=["image"])
    with pytest.raises(UnsupportedError, match="makes its plots itself"):
        plotting.run_udf(dataset=dataset, udf=udfs, plots=Recorded.made)


def test_the_region_is_the_same_in_all_passes(ctx, dataset):
    roi, stats = ROI.copy(), Stats()

    def change(level):
        roi[:] = True  # by who passed it
        return level

    udf = uses(stats, level=ff.from_result(stats, "level", change))
    found = ctx.run_udf(dataset=dataset, udf=udf, roi=roi)
    assert_same(found, by_hand(ctx, dataset, ROI)[1])


def test_a_file_that_changes_between_passes_is_an_error(ctx, tmp_path):
    path = tmp_path / "scan.raw"
    DATA.tofile(path)
    dataset = ctx.load("raw", path, dtype="uint16", nav_shape=NAV, sig_shape=SIG)

    def change(level):
        (DATA + 1).tofile(path.with_name("other"))
        path.with_name("other").replace(path)
        return level

    with pytest.raises(FileChangedError):
        ctx.run_udf(dataset=dataset, udf=Uses(ff.from_result(Stats(), "level", change)))


def test_results_are_not_the_memory_of_parameters(ctx, dataset):
    class Writes(Learns):
        def process_frame(self, frame):
            self.params.level[:] = 0
            self.results.x[:] = 1

    stats = Stats()
    reference = ff.from_result(stats, "total")
    found, _ = ctx.run_udf(dataset=dataset, udf=[stats, Writes(reference)])
    expected = ctx.run_udf(dataset=dataset, udf=Stats())["total"].data
    np.testing.assert_array_equal(found["total"].data, expected)


def test_cancelling_ends_all_passes(ctx, dataset):
    class Ends(ProgressReporter):
        def start(self, state):
            pass

        def update(self, state):
            raise UDFRunCancelled("enough")

        def end(self, state):
            pass

    calls = []
    reference = ff.from_result(Stats(), "level", lambda level: calls.append(1))
    with pytest.raises(UDFRunCancelled):
        ctx.run_udf(dataset=dataset, udf=Learns(reference), progress=Ends())
    assert not calls


def test_functions_that_wait_for_each_other(ctx, dataset):
    one = Stats()
    other = Stats(ff.from_result(one, "level"))
    one._kwargs["scale"] = ff.from_result(other, "level")
    with pytest.raises(InvalidArgumentError, match=r"wait for each other.*Stats → Stats → Stats"):
        ctx.run_udf(dataset=dataset, udf=[one, other])


def test_names_are_checked_before_anything_is_read(ctx, dataset):
    class NeverRuns(Stats):
        def process_frame(self, frame):
            raise AssertionError("processed")

    for name in ("nonsense", "hidden"):
        udf = Learns(ff.from_result(NeverRuns(), name))
        with pytest.raises(InvalidArgumentError, match=f"'{name}'.*level, image, total"):
            ctx.run_udf(dataset=dataset, udf=udf)
    with pytest.raises(InvalidArgumentError, match="results of CoMUDF are raw_shifts, raw_com"):
        ctx.explain(dataset=dataset, udf=Learns(ff.from_result(ff.CoMUDF(), "shifts")))
    with pytest.raises(InvalidArgumentError, match="results of SumUDF are intensity"):
        ctx.run_udf(dataset=dataset, udf=Learns(ff.from_result(ff.SumUDF(), "sum")))


def test_where_nothing_can_be_run_before(ctx, dataset):
    udf = Learns(ff.from_result(Stats(), "level"))
    calls = (
        lambda: ctx.run_udf_iter(dataset=dataset, udf=udf),
        lambda: ctx.run_udf_iter(dataset=dataset, udf=udf, sync=False),
        lambda: ctx.display(dataset, udf),
        lambda: UDFRunner.inspect_udf(udf, dataset),
        lambda: UDFRunner.dry_run(udf, dataset),
    )
    for call in calls:
        with pytest.raises(UnsupportedError, match="only run_udf and explain know what to run"):
            call()


def test_misuse():
    with pytest.raises(ArgumentTypeError, match="pass an instance, not the class"):
        ff.from_result(Stats, "level")
    with pytest.raises(ArgumentTypeError, match="the name of the result is 3"):
        ff.from_result(Stats(), 3)
    with pytest.raises(ArgumentTypeError, match="7 is not a function"):
        ff.from_result(Stats(), "level", 7)
    reference = ff.from_result(Stats(), "level")
    for use in (np.asarray, bool):
        with pytest.raises(InvalidArgumentError, match="has no value before its run"):
            use(reference)
    with pytest.raises(InvalidArgumentError, match="regression is from_result"):
        ff.CoMUDF(regression=reference)


def test_with_params_takes_references(ctx, dataset):
    stats = Stats()
    udf = Learns().with_params(level=ff.from_result(stats, "level"))
    found = ctx.run_udf(dataset=dataset, udf=udf)["x"].data
    np.testing.assert_array_equal(found, DATA.sum(axis=(2, 3)))


def test_references_within_parameters_are_refused(ctx, dataset):
    reference = ff.from_result(Stats(), "level")
    for nested in ([reference], (1, reference), {"x": reference}):
        with pytest.raises(InvalidArgumentError, match="a result is a parameter by itself"):
            ctx.run_udf(dataset=dataset, udf=Learns(nested))
        within = Learns(ff.from_result(Stats(nested), "level"))
        with pytest.raises(InvalidArgumentError, match=r"'scale' is a (list|tuple|dict) with"):
            ctx.run_udf(dataset=dataset, udf=within)


@pytest.mark.parametrize("executor", ["inline", "delayed"])
def test_the_end_of_a_pass_is_that_of_a_run(executor):
    """It is called once, with whether everything is merged; in a delayed run not before."""
    ends = []

    class Ends(Stats):
        def _at_end(self):
            return ends.append

    def calls(run):
        ends.clear()
        run()
        return list(ends)

    with ff.Context.make_with(executor) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2)
        alone = calls(lambda: ctx.run_udf(dataset=dataset, udf=Ends()))
        first = Ends()
        both = calls(lambda: ctx.run_udf(dataset=dataset, udf=[first, uses(first)]))
    assert both == alone
    assert executor == "delayed" or both == [True]
