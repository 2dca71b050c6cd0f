"""Contexts: made by name, and their smaller methods."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from sample_udfs import Level, Recorder

import framefold as ff
from framefold.common.exceptions import ExecutorSpecException
from framefold.exceptions import InvalidArgumentError, UDFError
from framefold.viz.base import Dummy2DPlot


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


def test_roi_helper(ctx, dataset):
    expected = np.zeros((6, 7), dtype=bool)
    expected[1:3, 4] = True
    roi = dataset.roi[1:3, 4]
    assert np.array_equal(roi, expected)
    assert dataset.roi[...].all()
    assert np.count_nonzero(dataset.roi[0, 1]) == 1
    with pytest.raises(IndexError):
        dataset.roi[6]
    result = ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF(), roi=roi)
    assert result["intensity"].raw_data.shape == (2,)


@pytest.mark.parametrize(
    "index",
    [np.s_[1:3, ::2], np.s_[::3], np.s_[2:, 4], np.s_[..., -1], 3, np.s_[2:2], np.s_[1:3, [0, 5]]],
    ids=str,
)
def test_slices_are_regions(ctx, dataset, index):
    expected = dataset.roi[index]
    udf = ff.SumSigUDF()
    with warnings.catch_warnings(action="ignore"):  # for the one that selects nothing
        result = ctx.run_udf(dataset, udf, roi=index)["intensity"]
        (*_, last) = ctx.run_udf_iter(dataset, udf, roi=index)
        assert np.array_equal(ctx.map(dataset, np.sum, roi=index).valid_mask, expected)
    assert np.array_equal(result.valid_mask, expected)
    assert np.array_equal(last.damage.data, expected)


def test_slices_of_all_that_takes_a_region(ctx, dataset, tmp_path):
    index = np.s_[1:3, 2:5]
    ctx.export_dataset(dataset, tmp_path / "part.npy", roi=index)
    assert np.array_equal(np.load(tmp_path / "part.npy"), dataset[index])
    analysis = ctx.create_sum_analysis(dataset)
    total = ctx.run(analysis, roi=index)["intensity"].raw_data
    assert np.array_equal(total, dataset[index].sum(axis=(0, 1)))
    assert ctx.explain(dataset, ff.SumUDF(), roi=index)
    assert ctx.display(dataset, ff.SumUDF(), roi=index)


@pytest.mark.parametrize("index", [np.s_[1:2, 3, 4], np.s_[:, 7], 6, np.s_["a":], np.s_[1:2, 0.5]])
def test_slices_that_do_not_fit(ctx, dataset, index):
    with pytest.raises(InvalidArgumentError, match=r"does not fit a scan of shape \(6, 7\)"):
        ctx.run_udf(dataset, ff.SumSigUDF(), roi=index)


def test_contexts_by_name():
    assert ff.Context.make_with("synchronous").executor.threads == 0
    assert ff.Context.make_with("threads", cpus=3).executor.threads == 3
    assert ff.Context.make_with("threads", cpus=[4, 5], gpus=0).executor.threads == 2
    context = ff.Context.make_with("inline", plot_class=Plot, snooze_timeout=5)
    assert context.plot_class is Plot
    for name, match in [("dusk", "no executor 'dusk'"), ("delay", "no executor 'delay'")]:
        with pytest.raises(ExecutorSpecException, match=match):
            ff.Context.make_with(name)
    assert ff.Context.make_with("inline", gpus=[1]).executor.gpus == (1,)
    assert ff.Context.make_with("threads", cpus=0, gpus=2).executor.gpus_only
    for device in (True, False, 0, np.int64(1), None):
        assert ff.Context.make_with("threads", main_process_gpu=device).executor.threads is None
    for wrong in (-1, "0", 0.5):
        with pytest.raises(ExecutorSpecException, match="merged on the CPU"):
            ff.Context.make_with("threads", main_process_gpu=wrong)
    for name in ("threads", "processes", "auto"):
        for cpus in ("16", [0.5], ["a"]):  # a text has two characters, and made two workers
            with pytest.raises(InvalidArgumentError, match=r"cpus is .*; use how many, or a list"):
                ff.Context.make_with(name, cpus=cpus)


def test_arguments_that_cannot_be_are_named(ctx, dataset):
    for amount in (float("nan"), "3", np.ones(2), -1):
        with pytest.raises(InvalidArgumentError, match="cache_bytes is "):
            ff.Context(cache_bytes=amount)
    with pytest.raises(InvalidArgumentError, match="plot_class is 'abc', expected a class"):
        ff.Context(plot_class="abc")
    with pytest.raises(InvalidArgumentError, match="f is None, expected a function that takes"):
        ctx.map(dataset, None)
    with pytest.raises(InvalidArgumentError, match="array_backends is 3, expected names"):
        ctx.load("memory", data=np.ones((2, 2, 2)), array_backends=3)


def test_map_keeps_all_that_a_function_returns_or_refuses(ctx):
    bright = np.zeros((5, 2, 2), "float32")
    bright[2, 0, 1] = 9
    dataset = ctx.load("memory", data=bright, sig_dims=2)
    one = ctx.map(dataset, lambda frame: frame[frame > 5] if frame.max() > 5 else np.zeros(1))
    assert one.data.tolist() == [[0], [0], [9], [0], [0]]
    with pytest.raises(UDFError, match=r"returned shape \(1,\) for this frame, and \(4,\) for"):
        ctx.map(dataset, lambda frame: frame[frame > 5] if frame.max() > 5 else np.zeros(4))
    with pytest.raises(UDFError, match=r"returned masked elements .*np\.ma\.filled"):
        ctx.map(dataset, lambda frame: np.ma.masked_less(frame, 0.5).mean())
    with pytest.raises(UDFError, match="returned masked elements"):
        ctx.map(dataset, lambda frame: np.ma.masked_less(frame, 0.5))


def test_map_refuses_functions_of_which_a_call_does_nothing(ctx, dataset):
    def one_by_one(frame):
        yield frame.sum()

    async def later(frame):
        return frame.sum()

    with pytest.raises(UDFError, match=r"'yield' in it, .*; return the result instead"):
        ctx.map(dataset, one_by_one)
    with pytest.raises(UDFError, match="'async def'"):
        ctx.map(dataset, later)


def test_map_takes_all_arguments(ctx, dataset, data):
    recorder = Recorder()
    result = ctx.map(dataset, np.max, progress=recorder, corrections=None, backends="numpy")
    assert np.array_equal(result.data, data.max(axis=(2, 3)))
    assert recorder.states


def test_display(ctx, dataset):
    shown = ctx.display(dataset, Level())
    assert "level" in shown._repr_html_()
    assert "Level" in str(shown)


def test_the_default_plot_is_that_of_matplotlib():
    pytest.importorskip("matplotlib")
    from framefold.viz.mpl import MPLLive2DPlot

    assert ff.Context().plot_class is MPLLive2DPlot


def test_executors_take_what_the_reference_takes():
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

    from framefold.executor.concurrent import ConcurrentJobExecutor
    from framefold.executor.inline import InlineJobExecutor
    from framefold.executor.pipelined import PipelinedExecutor

    assert InlineJobExecutor(debug=True, inline_threads=2).threads == 0
    assert ConcurrentJobExecutor(client=ThreadPoolExecutor(3), is_local=True).threads == 3
    assert ConcurrentJobExecutor.make_local(n_threads=2, main_process_gpu=False).threads == 2
    with pytest.raises(InvalidArgumentError, match="expected a ThreadPoolExecutor"):
        ConcurrentJobExecutor(ProcessPoolExecutor(1))
    for make in (InlineJobExecutor, ConcurrentJobExecutor, PipelinedExecutor):
        make(main_process_gpu=0).close()
        with pytest.raises(InvalidArgumentError, match="expected the number of a device"):
            make(main_process_gpu="first")


def test_a_roi_may_be_zeros_and_ones_or_in_one_row(ctx, dataset, data):
    roi = np.zeros((6, 7))
    roi[2, 3] = roi[5, 0] = 1
    expected = data[roi > 0].sum(axis=(1, 2))
    assert np.array_equal(
        ctx.run_udf(dataset, ff.SumSigUDF(), roi=(roi > 0).ravel())["intensity"].raw_data, expected
    )
    for numbers in (roi, roi.astype("u1").ravel()):
        with pytest.warns(UserWarning, match="its ones are taken as True"):
            result = ctx.run_udf(dataset, ff.SumSigUDF(), roi=numbers)
        assert np.array_equal(result["intensity"].raw_data, expected)


@pytest.mark.parametrize(
    ("roi", "instead"),
    [
        (np.full((6, 7), 0.5), "float64, .* a comparison such as roi > 0"),
        (np.full((6, 7), np.nan), "float64, .* a comparison such as roi > 0"),
        (np.full((6, 7), 1j), "complex128, .* a comparison such as roi > 0"),
        (np.full((6, 7), "no"), "use a boolean array"),
        (np.ones((3, 3)), r"the ROI has shape \(3, 3\), but the scan"),
        ({(0, 1), (2, 3)}, r"of type set; use a list of .* list\(roi\)"),
        ((at for at in [(0, 1)]), r"of type generator; use a list of .* list\(roi\)"),
        ({(0, 1): True}, "use a boolean array .* list of coordinate tuples"),
        (2**63, r"does not fit a scan of shape \(6, 7\)"),
        (np.uint64(2**63), r"does not fit a scan of shape \(6, 7\)"),
    ],
)
def test_what_is_no_region_is_refused_with_what_can_be_one(ctx, dataset, roi, instead):
    with pytest.raises(InvalidArgumentError, match=instead):
        ctx.run_udf(dataset, ff.SumSigUDF(), roi=roi)


def test_a_tuple_with_arrays_is_an_index(ctx, dataset, data, tmp_path):
    mask = np.zeros((6, 7), dtype=bool)
    mask[0, 1] = mask[2, 3] = True  # as many positions as the scan has axes
    roi = np.where(mask)
    sums = ctx.run_udf(dataset, ff.SumSigUDF(), roi=roi)["intensity"]
    np.testing.assert_array_equal(sums.valid_mask, mask)
    np.testing.assert_array_equal(ctx.map(dataset, np.sum, roi=roi).valid_mask, mask)
    ctx.export_dataset(dataset, tmp_path / "part.npy", roi=roi)
    np.testing.assert_array_equal(np.load(tmp_path / "part.npy"), data[roi])
    mixed = ctx.run_udf(dataset, ff.SumSigUDF(), roi=(2, np.array([-1, 3, 3])))["intensity"]
    assert np.argwhere(mixed.valid_mask).tolist() == [[2, 3], [2, 6]]
    for wrong in ((np.array([1, 2]), True), (np.array([0.5]), 1), (np.array([7]), 1)):
        with pytest.raises(InvalidArgumentError, match="does not fit a scan"):
            ctx.run_udf(dataset, ff.SumSigUDF(), roi=wrong)


def test_a_list_of_zeros_and_ones_that_can_be_positions_is_refused(ctx, data):
    line = ctx.load("memory", data=data[0], sig_dims=2)
    listed = [0, 1, 0, 1, 0, 1, 0]
    for roi in (listed, [1] * 7):
        with pytest.raises(InvalidArgumentError, match=r"it can mean positions .* where it is 1"):
            ctx.run_udf(line, ff.SumSigUDF(), roi=roi)
    for roi, expected in (
        ([(i,) for i in listed], [0, 1]),
        (np.array(listed, dtype=bool), [1, 3, 5]),
        ([0, 1, 0], [0, 1]),
    ):
        found = ctx.run_udf(line, ff.SumSigUDF(), roi=roi)["intensity"]
        assert np.flatnonzero(found.valid_mask).tolist() == expected
    pair = ctx.load("memory", data=data[0, :2], sig_dims=2)
    for roi in ([1, 1], [0, 0], [1, 0]):
        with pytest.raises(InvalidArgumentError, match=r"it can mean positions? .* where it is 1"):
            ctx.run_udf(pair, ff.SumSigUDF(), roi=roi)


@pytest.mark.parametrize("form", [tuple, list])
def test_coordinates_count_from_the_end(ctx, data, form):
    line = ctx.load("memory", data=data[0], sig_dims=2)
    for position in (-7, -1):
        found = ctx.run_udf(line, ff.SumSigUDF(), roi=form([position]))["intensity"]
        assert np.flatnonzero(found.valid_mask).tolist() == [position + 7]
    for position in (-8, 7):
        with pytest.raises(InvalidArgumentError, match=r"outside of the scan of shape \(7,\)"):
            ctx.run_udf(line, ff.SumSigUDF(), roi=form([position]))


def test_frames_in_memory_may_have_another_number_of_axes(ctx, data):
    dataset = ctx.load("memory", data=data, nav_shape=(42,), sig_shape=(120,))
    assert tuple(dataset.shape) == (42, 120)
    assert dataset.shape.sig.dims == 1
    total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
    assert np.array_equal(total, data.sum(axis=(0, 1)).ravel())


@pytest.mark.parametrize("name", ["inline", "threads", "processes"])
def test_names_of_executors(name):
    with ff.Context(executor=name) as ctx, ff.Context.make_with(name) as other:
        assert type(ctx.executor) is type(other.executor)
