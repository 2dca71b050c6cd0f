"""Live plots that matplotlib draws, without a screen and on pretended ones."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pytest

import framefold as ff
from framefold.exceptions import InvalidArgumentError, MissingLibraryError
from framefold.viz import MPLLive2DPlot, encode_image, visualize_simple

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _no_screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from matplotlib import pyplot as plt

    monkeypatch.delenv("DISPLAY", raising=False)
    before = matplotlib.get_backend()
    matplotlib.use("agg")
    yield
    plt.close("all")
    monkeypatch.undo()  # no backend can be chosen while a test pretends to have a window
    matplotlib.use(before)


class Picture(ff.UDF):
    """The data themselves: frames of two pixels as vectors, and their first pixel."""

    def get_result_buffers(self) -> Any:
        return {
            "first": self.buffer("nav", dtype=self.meta.input_dtype),
            "vector": self.buffer("nav", extra_shape=(2,), vector=True),
        }

    def process_frame(self, frame: Any) -> None:
        self.results.first[:] = frame[0]
        self.results.vector[:] = frame


def plotted(values: Any, roi: Any = None, **options: Any) -> Any:
    """Run with a plot of ``values``, shape ``(*nav)`` or ``(*nav, 2)``; gives the plot."""
    values = np.asarray(values, dtype=options.pop("dtype", np.float32))
    if options.get("channel") != "vector":
        values = np.stack([values, -values], axis=-1)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=values, sig_dims=1, num_partitions=3)
    udf = Picture()
    plot = MPLLive2DPlot(dataset, udf, roi=roi, **options)
    plot.display()
    ctx.run_udf(dataset=dataset, udf=udf, roi=roi, plots=[plot])
    return plot


def pixels(plot: Any) -> Any:
    """The saved picture: RGBA, uint8."""
    buffer = BytesIO()
    plot.fig.savefig(buffer, format="png")
    buffer.seek(0)
    return np.round(255 * matplotlib.image.imread(buffer)).astype(int)


def test_the_image_is_the_result() -> None:
    values = np.arange(20.0).reshape(4, 5)
    plot = plotted(values)
    np.testing.assert_array_equal(plot.im_obj.get_array(), values)
    assert plot.im_obj.get_clim() == (0, 19)
    assert plot.axes.get_title() == "Picture: first"
    viridis = matplotlib.colormaps["viridis"]([0.0, 1.0], bytes=True).astype(int)
    colours = {tuple(colour) for colour in pixels(plot).reshape(-1, 4)}
    assert {tuple(colour) for colour in viridis} <= colours


def test_nan_outliers_and_other_positions_do_not_set_limits() -> None:
    values = np.arange(200.0).reshape(10, 20)
    values[3, 3], values[4, 4], values[9] = 1e12, np.nan, -500
    roi = np.ones((10, 20), dtype=bool)
    roi[9] = False
    plot = plotted(values, roi=roi)
    assert plot.im_obj.get_clim() == (0, 179)
    mask = np.ma.getmaskarray(plot.im_obj.get_array())
    assert mask[4, 4]
    assert mask[9].all()
    assert mask.sum() == 21


@pytest.mark.parametrize("values", [np.full((4, 5), 7.0), np.zeros((4, 5)), np.full((4, 5), -2.0)])
def test_constant_images_have_a_range(values: Any) -> None:
    low, high = plotted(values).im_obj.get_clim()
    assert low == values[0, 0] < high


def test_data_that_are_all_nan_can_be_drawn() -> None:
    plot = plotted(np.full((4, 5), np.nan))
    assert np.ma.getmaskarray(plot.im_obj.get_array()).all()
    pixels(plot)
    pixels(plotted(np.full((5,), np.nan)))


def test_options_reach_imshow_and_limits_can_be_fixed() -> None:
    plot = plotted(np.arange(1.0, 21).reshape(4, 5), vmin=5, cmap="gray", title="mine")
    assert plot.im_obj.get_clim() == (5, 20)
    assert plot.im_obj.get_cmap().name == "gray"
    assert plot.axes.get_title() == "mine"
    plot = plotted(np.arange(20.0).reshape(4, 5), norm=matplotlib.colors.LogNorm())
    assert plot.im_obj.get_clim() == (1, 19)  # zero is not on the scale
    pixels(plot)
    plot = plotted(np.arange(20.0).reshape(4, 5), norm=matplotlib.colors.LogNorm(vmin=2, vmax=9))
    assert plot.im_obj.get_clim() == (2, 9)


def test_a_norm_with_a_centre_keeps_it() -> None:
    values = np.arange(-15.0, 5).reshape(4, 5)
    plot = plotted(values, norm=matplotlib.colors.CenteredNorm())
    assert plot.im_obj.get_clim() == (-15, 15)
    plot = plotted(values, norm=matplotlib.colors.CenteredNorm(-5, 20))
    assert plot.im_obj.get_clim() == (-25, 15)


@pytest.mark.parametrize("nav", [(7,), (1, 7), (7, 1)])
def test_line_scans_are_curves(nav: tuple[int, ...]) -> None:
    plot = plotted(np.arange(7.0).reshape(nav) - 3)
    (line,) = plot.lines
    np.testing.assert_array_equal(line.get_ydata(), np.arange(7.0) - 3)
    low, high = plot.axes.get_ylim()
    assert low < -3 < 3 < high
    assert plot.im_obj is None
    vectors = np.stack([np.arange(7.0), -np.arange(7.0)], axis=-1).reshape((*nav, 2))
    plot = plotted(vectors, channel="vector", color="black")
    y, x = plot.lines
    np.testing.assert_array_equal(y.get_ydata(), np.arange(7.0))
    np.testing.assert_array_equal(x.get_ydata(), -np.arange(7.0))
    assert [text.get_text() for text in plot.axes.get_legend().get_texts()] == ["y", "x"]
    assert x.get_color() == "black"
    pixels(plot)


@pytest.mark.filterwarnings("ignore:overflow encountered")  # of float32
@pytest.mark.parametrize("values", [[-1, 0, 1], [0, 1, 1], [1, 1, 1]])
def test_curves_of_the_largest_numbers(values: Any) -> None:
    values = np.array(values) * np.finfo(np.float64).max
    plot = plotted(values, dtype=np.float64)
    np.testing.assert_array_equal(plot.lines[0].get_ydata(), values)
    pixels(plot)


@pytest.mark.filterwarnings("ignore:overflow encountered")  # of float32
@pytest.mark.parametrize("values", [[-1, 0, 1], [1, 1, 1]])
def test_images_of_the_largest_numbers(values: Any) -> None:
    pixels(plotted(np.outer([1, 1], values) * np.finfo(np.float64).max, dtype=np.float64))


def test_vectors_and_complex_numbers_have_the_same_colours() -> None:
    y, x = np.mgrid[-3:4.0, -4:5.0]
    vectors = np.stack([y, x], axis=-1)
    vectors[0, 0] = np.nan
    plot = plotted(vectors, channel="vector")
    picture = np.asarray(plot.im_obj.get_array())
    assert picture.shape == (7, 9, 4)
    assert picture[3, 4].tolist() == [127, 127, 127, 255]  # the zero vector
    assert picture[0, 0, 3] == 0
    pixels(plot)
    as_complex = ("vector", lambda v: v[..., 1] + 1j * v[..., 0])
    values = np.ascontiguousarray(vectors)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=values.astype(np.float32), sig_dims=1)
    udf = Picture()
    other = MPLLive2DPlot(dataset, udf, channel=as_complex)
    ctx.run_udf(dataset=dataset, udf=udf, plots=[other])  # shows itself
    np.testing.assert_array_equal(other.im_obj.get_array(), picture)


def test_colours_are_drawn_as_they_are() -> None:
    colours = np.zeros((4, 5, 3))
    colours[1, 2] = (1.0, 0.5, 7.0)
    plot = plotted(np.zeros((4, 5)), channel=("first", lambda _: colours))
    picture = np.asarray(plot.im_obj.get_array())
    assert picture[1, 2].tolist() == [255, 128, 255, 255]
    assert (picture[0] == [0, 0, 0, 255]).all()
    plot = plotted(np.zeros((1, 5)), channel=("first", lambda _: colours[:1].astype(np.uint8)))
    assert plot.im_obj.get_array().shape == (1, 5, 4)


def test_half_of_a_run_is_half_of_the_picture() -> None:
    ctx = ff.Context.make_with("inline")
    data = np.ones((4, 5, 2), dtype=np.float32)
    dataset, udf = ctx.load("memory", data=data, sig_dims=1, num_partitions=4), Picture()
    plot = MPLLive2DPlot(dataset, udf, min_delta=0)
    plot.display()
    seen = []
    for _ in ctx.run_udf_iter(dataset=dataset, udf=udf, plots=[plot]):
        array = plot.im_obj.get_array()
        seen.append(0 if array is None else int(np.ma.count(array)))
    assert seen == [5, 10, 15, 20]


def test_a_plot_of_frames_is_for_frames_of_one_shape() -> None:
    ctx = ff.Context.make_with("inline")
    first, other = (
        ctx.load("memory", data=np.ones((4, 5, *sig)), sig_dims=2) for sig in ((6, 8), (12, 10))
    )
    plot = MPLLive2DPlot(first, udf := ff.SumUDF())
    ctx.run_udf(first, udf, plots=[plot])
    words = r"made for frames of shape \(6, 8\), but .* of shape \(12, 10\); make a plot"
    with pytest.raises(InvalidArgumentError, match=words):
        ctx.run_udf(other, udf, plots=[plot])
    # The scan has the same shape.
    plot = MPLLive2DPlot(first, udf := ff.SumSigUDF())
    ctx.run_udf(other, udf, plots=[plot])
    assert (plot.data == 120).all()


def test_images_of_functions_have_one_shape() -> None:
    ctx = ff.Context.make_with("inline")
    first, other = (
        ctx.load("memory", data=np.ones((4, 5, *sig)), sig_dims=2) for sig in ((6, 8), (12, 10))
    )
    plot = MPLLive2DPlot(
        first, udf := ff.SumUDF(), channel=("intensity", lambda data: data[:4, :3])
    )
    for dataset in (first, other):
        ctx.run_udf(dataset, udf, plots=[plot])
        assert plot.data.shape == (4, 3)

    def whole(results: Any, damage: Any) -> Any:
        return np.asarray(results["intensity"].data), True

    for channel in (("intensity", lambda data: data + 1), whole):
        plot = MPLLive2DPlot(first, udf := ff.SumUDF(), channel=channel)
        ctx.run_udf(first, udf, plots=[plot])
        words = r"an image of shape \(6, 8\), but .* of shape \(12, 10\) now; make a plot"
        with pytest.raises(InvalidArgumentError, match=words):
            ctx.run_udf(other, udf, plots=[plot])


def test_plots_true_makes_shows_and_forgets_plots() -> None:
    from matplotlib import pyplot as plt

    made = []

    class Kept(MPLLive2DPlot):
        def display(self) -> None:
            made.append(self)
            super().display()

    ctx = ff.Context(plot_class=Kept)
    dataset = ctx.load("memory", data=np.ones((4, 5, 8, 8), np.uint16), sig_dims=2)
    com = ff.CoMUDF()
    ctx.run_udf(dataset=dataset, udf=[com, ff.SumUDF()], plots=True)
    assert [plot.title for plot in made][-1] == "SumUDF: intensity"
    assert {"CoMUDF: field_y", "CoMUDF: magnitude"} <= {plot.title for plot in made}
    np.testing.assert_array_equal(made[-1].im_obj.get_array(), np.full((8, 8), 20))
    assert plt.get_fignums() == []
    made.clear()
    ctx.run_udf(dataset=dataset, udf=com, plots=["field", ("field", lambda f: f[..., 0])])
    assert [plot.title for plot in made] == ["CoMUDF: field", "CoMUDF: <lambda>(field)"]
    assert isinstance(ff.Context().plot_class, type)
    assert ff.Context().plot_class is MPLLive2DPlot


def test_a_window_is_drawn_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn = []
    monkeypatch.setattr(FigureCanvasAgg, "required_interactive_framework", "pretended")
    monkeypatch.setattr(FigureCanvasAgg, "draw_idle", lambda self: drawn.append(self))
    monkeypatch.setattr(FigureCanvasAgg, "flush_events", lambda self: None)
    plot = plotted(np.zeros((4, 5)), min_delta=0)
    assert plt.get_fignums() == [plot.fig.number]
    n_drawn = len(drawn)
    assert n_drawn == 1 + 3  # shown, and one for each partition
    plt.close(plot.fig)
    plot.update(np.ones((4, 5), bool), force=True)
    assert len(drawn) == n_drawn


def test_a_widget_is_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    shown: list[Any] = []
    drawn: list[Any] = []
    monkeypatch.setattr(matplotlib, "get_backend", lambda: "module://ipympl.backend_nbagg")
    monkeypatch.setattr(FigureCanvasAgg, "comm", "pretended", raising=False)
    monkeypatch.setattr(FigureCanvasAgg, "draw", lambda self: drawn.append(self))
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    module: Any = types.ModuleType("IPython.display")
    module.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    plot = plotted(np.zeros((4, 5)), min_delta=0)
    assert shown == [plot.fig.canvas]
    assert drawn == [plot.fig.canvas] * 3


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = ff.Context()
    dataset = ctx.load("memory", data=np.ones((4, 5, 2), np.float32), sig_dims=1)
    plot = MPLLive2DPlot(dataset, Picture())
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        MissingLibraryError, match="MPLLive2DPlot needs matplotlib for drawing"
    ) as e:
        plot.display()
    assert "pip install matplotlib" in str(e.value)
    assert isinstance(e.value, ImportError)


class TestVisualizeSimple:
    def test_values_become_colours_of_the_map(self) -> None:
        values = np.arange(6.0).reshape(2, 3)
        expected = matplotlib.colormaps["gist_earth"](values / 5, bytes=True)
        np.testing.assert_array_equal(visualize_simple(values), expected)
        gray = visualize_simple(values, colormap="gray", vmin=1, vmax=3)
        assert gray.dtype == np.uint8
        assert gray[..., 0].tolist() == [[0, 0, 128], [255, 255, 255]]
        by_object = visualize_simple(values, matplotlib.colormaps["gray"], vmin=1, vmax=3)
        np.testing.assert_array_equal(by_object, gray)

    def test_damage_nan_and_logarithm(self) -> None:
        values = np.array([[0.0, 1.0, np.nan], [3.0, 9.0, 1e6]])
        picture = visualize_simple(values, "gray", damage=values < 4)
        assert picture[..., 0].tolist() == [[0, 85, 0], [255, 255, 255]]
        assert picture[..., 3].tolist() == [[255, 255, 0], [255, 255, 255]]
        picture = visualize_simple([[10.0, 10 + np.e - 1, 10 + np.e**2 - 1]], "gray", True)
        np.testing.assert_allclose(picture[0, :, 0].astype(int), [0, 127.5, 255], atol=0.5)
        assert (visualize_simple(np.full((2, 2), 3)) == visualize_simple(np.zeros((2, 2)))).all()
        assert (visualize_simple(np.full((2, 2), np.nan)) == 0).all()

    def test_what_is_masked_is_transparent_and_sets_no_limit(self) -> None:
        for values in (np.array([[1, 2, 3, 60]]), np.array([[0, 1, 1j, 60]])):
            masked = np.ma.MaskedArray(values, mask=[[0, 0, 0, 1]])
            picture = visualize_simple(masked, "gray")
            np.testing.assert_array_equal(picture[:, :3], visualize_simple(values[:, :3], "gray"))
            assert picture[0, 3, 3] == 0

    def test_numbers_may_be_as_far_apart_as_they_can_be(self) -> None:
        ends = np.finfo(np.float64)
        picture = visualize_simple([[ends.min, ends.min / 2, 0.0, ends.max]], "gray")
        np.testing.assert_allclose(picture[0, :, 0].astype(int), [0, 64, 128, 255], atol=1)

    def test_complex_numbers_show_phase_and_modulus(self) -> None:
        picture = visualize_simple(np.array([[0, 1, 1j, np.nan]]))
        assert picture.shape == (1, 4, 4)
        assert picture[0, 0].tolist() == [127, 127, 127, 255]
        assert picture[0, 3, 3] == 0
        assert (picture[0, 1] != picture[0, 2]).any()

    def test_a_picture_can_be_written(self) -> None:
        image = pytest.importorskip("PIL.Image")
        picture = visualize_simple(np.arange(6.0).reshape(2, 3))
        read = np.asarray(image.open(encode_image(picture)))
        np.testing.assert_array_equal(read, picture)
        jpeg = encode_image(picture[..., :3], {"format": "jpeg", "quality": 90}).getvalue()
        assert jpeg.startswith(b"\xff\xd8")
