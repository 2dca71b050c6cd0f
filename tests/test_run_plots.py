"""Runs tell their live plots of new results."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from sample_udfs import Level

import framefold as ff
from framefold.exceptions import (
    InvalidArgumentError,
)
from framefold.viz.base import Dummy2DPlot


def workers():
    return [t for t in threading.enumerate() if t.name.startswith("framefold")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    gc.collect()
    assert workers() == []


class Plot(Dummy2DPlot):
    made: list = []  # noqa: RUF012

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.displayed = 0
        self.seen = []
        Plot.made.append(self)

    def display(self):
        self.displayed += 1

    def new_data(self, udf_results, damage, force=False):
        self.seen.append((np.count_nonzero(damage), force))
        self.thread = threading.current_thread()
        super().new_data(udf_results, damage, force=force)


@pytest.fixture
def plotting(ctx):
    Plot.made = []
    return ff.Context(ctx.executor, plot_class=Plot)


def test_all_plots(plotting, dataset, data):
    results = plotting.run_udf(dataset=dataset, udf=[Level(), ff.SumUDF()], plots=True)
    assert [(type(plot.udf), plot.channel) for plot in Plot.made] == [
        (Level, "level"),
        (Level, "peak"),
        (ff.SumUDF, "intensity"),
    ]
    for plot in Plot.made:
        assert plot.displayed == 1
        counts = [count for count, _ in plot.seen]
        assert counts == sorted(set(counts))
        assert counts[-1] == 42
        assert [force for _, force in plot.seen] == [False] * 4 + [True]
        assert plot.thread is threading.main_thread()
    assert np.array_equal(Plot.made[0].data, data.sum(axis=(2, 3)))
    assert np.array_equal(results[0]["peak"].data, data.max(axis=(0, 1)))


def test_plots_of_channels(plotting, dataset, data):
    plotting.run_udf(dataset=dataset, udf=Level(), plots=["peak", ("level", np.sqrt)])
    assert np.array_equal(Plot.made[0].data, data.max(axis=(0, 1)))
    np.testing.assert_allclose(Plot.made[1].data, np.sqrt(data.sum(axis=(2, 3))))
    assert len(Plot.made) == 2
    Plot.made = []
    udfs = [Level(), ff.SumUDF()]
    for _ in plotting.run_udf_iter(dataset=dataset, udf=udfs, plots=[[], ["intensity"]]):
        pass
    assert [plot.udf for plot in Plot.made] == [udfs[1]]
    assert Plot.made[0].seen[-1] == (42, True)


def test_plot_objects(plotting, dataset):
    udfs = [Level(), ff.SumUDF()]
    plot = Plot(dataset, udfs[1])
    plotting.run_udf(dataset=dataset, udf=udfs, plots=[plot])
    assert plot.displayed == 0
    assert len(plot.seen) == 5
    with pytest.raises(InvalidArgumentError, match="not among the UDFs"):
        plotting.run_udf(dataset=dataset, udf=ff.SumUDF(), plots=[plot])
    other = plotting.load("memory", data=np.ones((3, 14, 8, 9), np.float32), sig_dims=2)
    with pytest.raises(InvalidArgumentError, match=r"scan of shape \(6, 7\), but .* \(3, 14\)"):
        plotting.run_udf(dataset=other, udf=udfs, plots=[plot])


def test_no_results_are_computed_for_plots_that_rest(plotting, dataset):
    calls = []

    class Counting(Level):
        def get_results(self):
            calls.append(1)
            return {}

    udf = Counting()
    plot = Plot(dataset, udf, min_delta=1000)
    del calls[:]
    plotting.run_udf(dataset=dataset, udf=udf, plots=[plot])
    assert [force for _, force in plot.seen] == [False, True]
    assert len(calls) == 2


def test_misuse_of_plots(plotting, dataset):
    def run(plots, udf=None):
        plotting.run_udf(dataset=dataset, udf=udf or Level(), plots=plots)

    with pytest.raises(InvalidArgumentError, match="no result 'nonsense'"):
        run(["nonsense"])
    with pytest.raises(InvalidArgumentError, match="plots is 'level'"):
        run("level")
    with pytest.raises(InvalidArgumentError, match="one list of channels, but 2 UDFs"):
        run(["level"], [Level(), Level()])
    with pytest.raises(InvalidArgumentError, match="for 3 UDFs, but 2"):
        run([["level"], [], []], [Level(), Level()])


@pytest.mark.parametrize("call", ["run_udf", "run_udf_iter"])
def test_a_failing_plot_ends_the_run(plotting, dataset, call):
    class Broken(Plot):
        def update(self, damage, force=False):
            raise LookupError("no screen")

    udf = Level()
    plots = [Broken(dataset, udf)]
    with pytest.raises(LookupError, match="no screen"):
        list(getattr(plotting, call)(dataset=dataset, udf=udf, plots=plots))
    assert workers() == []


def test_a_plot_that_ends_loops(plotting, dataset):
    class Broken(Plot):
        def update(self, damage, force=False):
            next(iter(()))

    udf = Level()
    steps = plotting.run_udf_iter(dataset=dataset, udf=udf, plots=[Broken(dataset, udf)])
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(steps)


def test_an_object_is_free_after_plots_that_fail(plotting, dataset):
    class Broken(Plot):
        def display(self):
            raise LookupError("no screen")

    plotting.plot_class, udf = Broken, Level()
    with pytest.raises(LookupError) as kept:
        plotting.run_udf(dataset=dataset, udf=udf, plots=True)
    plotting.run_udf(dataset=dataset, udf=udf)
    assert udf.results.level.any()
    assert kept.value is not None


def subtracted(image):
    image -= image.min()
    return image


def cleared(results, damage):
    image = results["peak"].data
    image[:] = 0
    damage[0] = False
    return image, True


@pytest.mark.parametrize("channel", ["peak", ("peak", subtracted), cleared])
def test_plots_may_write_into_what_they_get(plotting, dataset, channel):
    class Writing(Plot):
        def update(self, damage, force=False):
            np.ma.getdata(self.data)[...] = -1

    udf = Level()
    expected = plotting.run_udf(dataset=dataset, udf=udf)
    plots = [Writing(dataset, udf, channel=channel), Plot(dataset, udf)]
    found = plotting.run_udf(dataset=dataset, udf=udf, plots=plots)
    for name, buffer in expected.items():
        assert np.array_equal(found[name].data, buffer.data), name
    steps = list(plotting.run_udf_iter(dataset=dataset, udf=udf, plots=plots))
    assert [np.count_nonzero(step.damage.data) for step in steps] == [
        n for n, _ in plots[1].seen[-5:]
    ]
    assert np.count_nonzero(steps[-1].damage.data) == steps[-1].damage.size
