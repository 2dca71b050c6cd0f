"""Pictures of results: what is drawn, with which scale, and which results are vectors."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from test_results_saved import AXES, NAV, SIG, buffer

import framefold as ff
from framefold.common.axes import Axis
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.results import plots as drawn
from framefold.results.plots import extent_of, round_length
from framefold.run.results import UDFResultDict
from framefold.viz import Dummy2DPlot, MPLLive2DPlot

pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib draws")


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


#: A scan with the same unit on both axes, whose steps differ.
STEPS = (Axis("scan_y", "nm", 2.0, 0.0, 3, "nav"), Axis("scan_x", "nm", -1.0, 5.0, 4, "nav"))


def bars(axes):
    """The colour bars beside a picture."""
    return [child for child in axes.child_axes if child.get_label() == "colour bar"]


def test_images_have_a_title_a_colour_bar_and_a_scale_bar():
    values = np.arange(12.0).reshape(NAV)
    axes = buffer("nav", values, name="image", unit="mrad", axes=STEPS).plot(cmap="gray")
    assert axes.get_title() == "SomeUDF: image"
    (image,) = axes.get_images()
    assert (image.norm.vmin, image.norm.vmax, image.cmap.name) == (0, 11, "gray")
    np.testing.assert_array_equal(image.get_array(), values)
    (bar,) = bars(axes)
    assert bar.get_ylabel() == "mrad"
    assert len(bar.get_yticklabels()) > 2
    (patch,) = [patch for patch in axes.patches if patch.get_gid() == "scale bar"]
    (label,) = axes.texts
    length, unit = label.get_text().split()
    assert unit == "nm"
    # As long as it says, in the picture of 4 steps of 1 nm.
    assert patch.get_width() * 4 == pytest.approx(float(length))
    assert axes.get_aspect() == 1.0


#: Limits that were asked for, of data from 10 to 21, and those that are drawn.
LIMITS = [
    ({"vmax": 20}, (10, 20)),
    ({"clim": (12, None)}, (12, 21)),
    ({"clim": (0, 5)}, (0, 5)),
    ({"vmax": 5}, (0, 5)),
    ({"vmax": 0}, (-1, 0)),
    ({"vmin": 21}, (21, 42)),
    ({"vmin": 100, "norm": "log"}, (100, 200)),
    ({"vmin": 12, "vmax": 12}, (0, 12)),
]


@pytest.mark.parametrize(("options", "limits"), LIMITS)
def test_limits_that_are_asked_for_are_kept(scan, options, limits):
    values = np.arange(10.0, 22).reshape(NAV)
    image = buffer("nav", values, axes=STEPS).plot(**options).get_images()[0]
    assert image.get_clim() == limits
    plot = MPLLive2DPlot(scan, Masks(), channel=("sum", lambda _: values), **options)
    plot.new_data(ff.Context.make_with("inline").run_udf(scan, Masks()), True)
    assert plot.im_obj.get_clim() == limits
    plot.fig.savefig(BytesIO())


@pytest.mark.parametrize("options", [{"vmin": 5, "vmax": 4}, {"clim": (5, 1)}])
def test_limits_are_in_order(scan, options):
    with pytest.raises(
        InvalidArgumentError, match=r"vmin is 5 and vmax is \d, expected vmin up to"
    ):
        buffer("nav", np.ones(NAV), axes=STEPS).plot(**options)
    with pytest.raises(
        InvalidArgumentError, match=r"vmin is 5 and vmax is \d, expected vmin up to"
    ):
        MPLLive2DPlot(scan, Masks(), channel="sum", **options)
    with pytest.raises(InvalidArgumentError, match=r"expected clim=\(vmin, vmax\), or vmin="):
        buffer("nav", np.ones(NAV), axes=STEPS).plot(clim=(0, 1), vmax=2)


def shown_bar(axes):
    """The length of a scale bar as it is drawn, in the numbers on the sides, and as it says."""
    (patch,) = [patch for patch in axes.patches if patch.get_gid() == "scale bar"]
    left, right = axes.get_xlim()
    return patch.get_width() * abs(right - left), axes.texts[0].get_text()


def test_scale_bars_follow_the_part_that_is_shown(scan, monkeypatch):
    monkeypatch.setattr(type(scan), "axes", property(lambda self: (*STEPS, *AXES[2:])))
    drawn = buffer("nav", np.arange(12.0).reshape(NAV), axes=STEPS).plot()
    live = MPLLive2DPlot(scan, Masks(), channel="sum")
    live.display()
    for axes in (drawn, live.axes):
        assert shown_bar(axes) == (pytest.approx(1), "1 nm")
        left, right = axes.get_xlim()
        axes.set_xlim(left, left + (right - left) / 4)
        assert shown_bar(axes) == (pytest.approx(0.2), "0.2 nm")


@pytest.mark.parametrize("aspect", ["equal", 3])
def test_scale_bars_need_the_same_scale_on_both_axes(scan, monkeypatch, aspect):
    monkeypatch.setattr(type(scan), "axes", property(lambda self: (*STEPS, *AXES[2:])))
    plot = MPLLive2DPlot(scan, Masks(), channel="sum", aspect=aspect)
    plot.display()
    drawn = buffer("nav", np.ones(NAV), axes=STEPS).plot(aspect=3)
    for axes in (plot.axes, drawn):
        assert not [patch for patch in axes.patches if patch.get_gid()]
        assert axes.get_ylabel().startswith("scan_y")


def test_live_plots_are_stretched_as_pictures_are(scan, monkeypatch):
    long = (STEPS[0]._replace(scale=100.0), STEPS[1], *AXES[2:])
    monkeypatch.setattr(type(scan), "axes", property(lambda self: long))
    plot = MPLLive2DPlot(scan, Masks(), channel="sum")
    plot.display()
    assert plot.axes.get_aspect() == "auto"


def test_names_and_units_are_no_formulas():
    odd = (STEPS[0]._replace(name=r"a$\frac$", unit="$"), STEPS[1])
    axes = buffer("nav", np.ones(NAV), axes=odd).plot()
    axes.figure.savefig(BytesIO())
    assert axes.get_ylabel() == r"a\$\frac\$ (\$)"


def test_pictures_that_are_stretched_have_axes_with_numbers(scan, monkeypatch):
    long = (STEPS[0]._replace(scale=100.0), STEPS[1])
    result = buffer("nav", np.arange(12.0).reshape(NAV), axes=long)
    for axes in (result.plot(), buffer("nav", np.ones(NAV), axes=STEPS).plot(aspect="auto")):
        assert axes.get_aspect() == "auto"
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("scan_x (nm)", "scan_y (nm)")
        assert len(axes.get_yticks()) > 1
        assert not [patch for patch in axes.patches if patch.get_gid()]
    monkeypatch.setattr(type(scan), "axes", property(lambda self: (*STEPS, *AXES[2:])))
    plot = MPLLive2DPlot(scan, Masks(), channel="sum", aspect="auto")
    plot.display()
    assert not [patch for patch in plot.axes.patches if patch.get_gid()]
    assert plot.axes.get_ylabel() == "scan_y"


def test_pictures_without_units_have_axes_with_numbers():
    axes = buffer("nav", np.arange(12.0).reshape(NAV), axes=()).plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("nav_1", "nav_0")
    assert not [patch for patch in axes.patches if patch.get_gid()]
    mixed = (STEPS[0], STEPS[1]._replace(unit="mrad"))
    axes = buffer("nav", np.arange(12.0).reshape(NAV), axes=mixed).plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("scan_x (mrad)", "scan_y (nm)")


def test_rows_and_columns_are_where_their_axes_say():
    # The first row is at the top, the first column on the left, whatever the direction.
    assert extent_of(STEPS) == (5.5, 1.5, 5.0, -1.0)
    # Or at the bottom, where it keeps its numbers.
    assert extent_of(STEPS, "lower") == (5.5, 1.5, -1.0, 5.0)
    result = buffer("nav", np.arange(12.0).reshape(NAV), axes=STEPS)
    with pyplot.rc_context({"image.origin": "lower"}):
        by_style = result.plot()
    for axes in (result.plot(origin="lower"), by_style):
        assert axes.get_images()[0].get_extent() == [5.5, 1.5, -1.0, 5.0]
        assert axes.get_ylim() == (-1, 5)


@pytest.mark.parametrize(("origin", "y"), [("upper", -1), ("lower", 1)])
def test_wheels_are_as_the_picture_is(scan, origin, y):
    plot = MPLLive2DPlot(scan, Field(), origin=origin)
    plot.display()
    drawn = buffer("nav", np.ones((*NAV, 2)), vector=True).plot(origin=origin)
    for wheel in (plot._wheel, drawn.child_axes[0]):
        (place,) = [text.get_position() for text in wheel.texts if text.get_text() == "y"]
        (_, middle), (_, end) = wheel.transData.transform([(0, 0), place])
        assert np.sign(end - middle) == y


@pytest.mark.parametrize(
    ("most", "length"), [(3.2, 2.0), (0.99, 0.5), (1.0, 1.0), (70, 50), (2.1e-3, 2e-3)]
)
def test_scale_bars_are_round(most, length):
    assert round_length(most) == pytest.approx(length)


def test_two_channels_are_two_pictures_and_vectors_one():
    values = np.random.default_rng(0).random((*NAV, 2))
    two = buffer("nav", values, name="two").plot()
    assert [axes.get_title() for axes in two] == ["SomeUDF: two[0]", "SomeUDF: two[1]"]
    for axes, channel in zip(two, np.moveaxis(values, -1, 0), strict=True):
        np.testing.assert_array_equal(axes.get_images()[0].get_array(), channel)
        assert bars(axes)
    one = buffer("nav", values, name="two").plot(index=1)
    assert one.get_title() == "SomeUDF: two[1]"
    field = buffer("nav", values, name="field", vector=True, unit="px").plot()
    assert field.get_images()[0].get_array().shape == (*NAV, 4)
    assert not bars(field)
    (wheel,) = field.child_axes
    assert wheel.get_title().endswith(" px")
    assert {text.get_text() for text in wheel.texts} == {"x", "y"}


def test_complex_numbers_are_colours():
    axes = buffer("sig", np.exp(1j * np.arange(30.0)).reshape(SIG)).plot()
    assert {text.get_text() for text in axes.child_axes[0].texts} == {"Re", "Im"}


def test_curves_have_places_and_names():
    energy = Axis("energy", "eV", 0.5, -20.0, 5, "sig")
    spectrum = buffer("sig", np.arange(5.0), unit="counts", axes=(energy,))
    axes = spectrum.plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("energy (eV)", "counts")
    np.testing.assert_array_equal(axes.get_lines()[0].get_xdata(), energy.values)
    scan = buffer("nav", np.arange(24.0).reshape(3, 4, 2)[:1], axes=())
    scan._shape = ff.common.shape.Shape((1, 4, *SIG), sig_dims=2)
    axes = scan.plot()
    assert [line.get_label() for line in axes.get_lines()] == ["0", "1"]
    np.testing.assert_array_equal(axes.get_lines()[1].get_ydata(), [1, 3, 5, 7])


@pytest.mark.parametrize("n", [3, 4])
def test_three_or_four_bytes_are_colours(n):
    values = np.arange(12 * n, dtype=np.uint8).reshape(*NAV, n)
    result = buffer("nav", values, name="photo", axes=STEPS)
    axes = result.plot(cmap="gray", alpha=0.5)
    assert axes.get_title() == "SomeUDF: photo"
    (image,) = axes.get_images()
    drawn = np.asarray(image.get_array())
    np.testing.assert_array_equal(drawn[..., :n], values)
    assert n == 4 or (drawn[..., 3] == 255).all()
    assert not bars(axes)
    assert any(patch.get_gid() == "scale bar" for patch in axes.patches)
    # One of them is numbers, and so are those of other dtypes, and two or five of them.
    assert bars(result.plot(index=1))
    numbers = buffer("nav", values.astype(np.uint16), axes=STEPS)
    assert len(numbers.plot()) == n
    five = np.zeros((*NAV, 5), dtype=np.uint8)
    assert len(buffer("nav", five, axes=STEPS).plot()) == 5


def test_colours_of_frames_are_those_of_the_file(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    photos = np.random.default_rng(3).integers(0, 256, (2, *SIG, 3), dtype=np.uint8)
    resolution = {"resolution": (4, 2), "metadata": {"unit": "um"}}
    tifffile.imwrite(tmp_path / "rgb.tif", photos, photometric="rgb", imagej=True, **resolution)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.open(tmp_path / "rgb.tif")
    found = [(axis.name, axis.size, axis.scale, axis.unit) for axis in dataset.axes[1:]]
    y, x = SIG
    assert found == [("y", y, 500.0, "nm"), ("x", x, 250.0, "nm"), ("colour", 3, 1.0, "")]
    (image,) = dataset.plot(1).get_images()
    np.testing.assert_array_equal(image.get_array(), photos[1])
    (image,) = dataset.plot().get_images()
    np.testing.assert_array_equal(image.get_array(), np.round(photos.mean(axis=0)))
    brightest = ctx.run_udf(dataset, ff.MaxUDF())["intensity"]
    (image,) = brightest.plot().get_images()
    np.testing.assert_array_equal(np.asarray(image.get_array())[..., :3], photos.max(axis=0))
    # Sums are numbers: a picture for each colour, in files too.
    total = ctx.run_udf(dataset, ff.SumUDF())["intensity"]
    assert [each.get_title() for each in total.plot()] == [
        f"SumUDF: intensity[{i}]" for i in range(3)
    ]
    total.save(tmp_path / "sum.tif")
    with tifffile.TiffFile(tmp_path / "sum.tif") as file:
        assert (len(file.pages), file.pages[0].shape) == (3, SIG)


def test_gaps_are_blank():
    valid = np.ones(NAV, bool)
    valid[0, 1] = False
    axes = buffer("nav", np.arange(12).reshape(NAV), valid=valid).plot()
    np.testing.assert_array_equal(axes.get_images()[0].get_array().mask, ~valid)


def test_all_results_are_drawn_side_by_side():
    results = UDFResultDict(
        image=buffer("nav", np.arange(12.0).reshape(NAV), name="image"),
        two=buffer("nav", np.ones((*NAV, 2)), name="two"),
        number=buffer("single", np.array([3]), name="number"),
        pattern=buffer("sig", np.ones(SIG), name="pattern"),
    )
    titles = [axes.get_title().removeprefix("SomeUDF: ") for axes in results.plot()]
    assert titles == ["image", "two[0]", "two[1]", "pattern"]
    with pytest.raises(UnsupportedError, match="nothing to draw: none of number"):
        UDFResultDict(number=results["number"]).plot()
    # Of kind single, if there are no others.
    table = buffer("single", np.arange(30.0).reshape(5, 6), name="table")
    assert len(UDFResultDict(table=table, **results).plot()) == 4
    (axes,) = UDFResultDict(table=table, number=results["number"]).plot()
    np.testing.assert_array_equal(axes.get_images()[0].get_array(), table.data)


def test_what_is_no_picture_is_said():
    with pytest.raises(UnsupportedError, match="1 elements, too few"):
        buffer("single", np.array([3])).plot()
    with pytest.raises(UnsupportedError, match="40 pictures, too many"):
        buffer("nav", np.ones((*NAV, 40))).plot()
    with pytest.raises(UnsupportedError, match="neither a picture nor a curve"):
        buffer("single", np.ones((2, 3, 4))).plot()
    with pytest.raises(UnsupportedError, match="dtype object"):
        buffer("nav", np.full(NAV, None)).plot()
    with pytest.raises(InvalidArgumentError, match="several pictures"):
        buffer("nav", np.ones((*NAV, 2))).plot(pyplot.figure().add_subplot())
    with pytest.raises(InvalidArgumentError, match=r"index is 2.*shape \(2,\)"):
        buffer("nav", np.ones((*NAV, 2))).plot(index=2)
    for index in (1.0, [1], (1, 0.0)):
        with pytest.raises(InvalidArgumentError, match="is not a whole number"):
            buffer("nav", np.ones((*NAV, 2))).plot(index=index)


def test_too_many_pictures_are_not_made(monkeypatch):
    monkeypatch.setattr(drawn, "_entries", None)  # which took 15 s for as many as these
    with pytest.raises(UnsupportedError, match="100000 pictures, too many"):
        buffer("nav", np.ones((*NAV, 100000), np.uint8)).plot()


class Masks(ff.UDF):
    """Two values of each frame, which are no vector."""

    def get_result_buffers(self):
        return {"two": self.buffer("nav", extra_shape=(2,)), "sum": self.buffer("nav")}

    def process_frame(self, frame):
        self.results.two[:] = frame.sum(), frame[0, 0]
        self.results.sum[:] = frame.sum()


class Field(ff.UDF):
    """A vector of each frame."""

    def get_result_buffers(self):
        return {"field": self.buffer("nav", extra_shape=(2,), vector=True)}

    def process_frame(self, frame):
        self.results.field[:] = frame.sum(), frame[0, 0]


@pytest.fixture
def scan():
    data = np.arange(3 * 4 * 6 * 5, dtype=np.float32).reshape(*NAV, *SIG)
    return ff.Context().load("memory", data=data, sig_dims=2)


@pytest.mark.parametrize("plots", [True, ["two", "sum"]])
def test_live_plots_show_two_channels_as_two_pictures(scan, plots):
    made = []

    class Kept(Dummy2DPlot):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    ctx = ff.Context(executor=ff.Context.make_with("inline").executor, plot_class=Kept)
    result = ctx.run_udf(scan, Masks(), plots=plots)
    titles = ["Masks: two[0]", "Masks: two[1]", "Masks: sum"]
    assert sorted(plot.title for plot in made) == sorted(titles)
    for plot in made:
        if plot.title.endswith("]"):
            expected = result["two"].data[..., int(plot.title[-2])]
            np.testing.assert_array_equal(plot.data, expected)


def test_live_plots_show_colours(scan):
    class Photo(ff.UDF):
        def get_result_buffers(self):
            return {"photo": self.buffer(kind="nav", extra_shape=(3,), dtype=np.uint8)}

        def process_frame(self, frame):
            self.results.photo[:] = frame.reshape(-1)[:3]

    made = []

    class Kept(MPLLive2DPlot):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    ctx = ff.Context(executor=ff.Context.make_with("inline").executor, plot_class=Kept)
    results = ctx.run_udf(scan, Photo(), plots=True)
    (plot,) = made
    assert plot.title == "Photo: photo"
    (image,) = plot.axes.get_images()
    np.testing.assert_array_equal(np.asarray(image.get_array())[..., :3], results["photo"].data)


def test_live_plots_of_one_of_several_pictures(scan):
    for entry in (1, np.int64(1), -1):
        plot = Dummy2DPlot(scan, Masks(), channel=("two", entry))
        assert plot.data.shape == NAV
        assert plot.title == f"Masks: two[{entry}]"
    with pytest.raises(InvalidArgumentError, match=r"choose one: \('two', 0\) or \('two', 1\)"):
        Dummy2DPlot(scan, Masks(), channel="two")
    with pytest.raises(InvalidArgumentError, match="of which 2 is none"):
        Dummy2DPlot(scan, Masks(), channel=("two", 2))


class Masked(ff.UDF):
    """Two values of each frame and of each pixel, of which some are not valid."""

    def get_result_buffers(self):
        kinds = {"scan": "nav", "frame": "sig"}
        return {name: self.buffer(kind, extra_shape=(2,)) for name, kind in kinds.items()}

    def process_frame(self, frame):
        self.results.scan[:] = frame.sum()
        self.results.frame[:] += frame[..., np.newaxis]

    def merge(self, dest, src):
        dest.scan[:] = src.scan
        dest.frame[:] += src.frame

    def get_results(self):
        scan_valid = np.ones(self.results.scan.shape, bool)
        frame_valid = np.ones(self.results.frame.shape, bool)
        scan_valid[:, 1], frame_valid[0, 0, 1] = False, False
        return {
            "scan": self.with_mask(self.results.scan, scan_valid),
            "frame": self.with_mask(self.results.frame, frame_valid),
        }


def test_entries_in_live_plots_are_valid_where_they_are_in_results(scan):
    udf = Masked()
    made = {}
    for name in ("scan", "frame"):
        # What the function gives has an element for each place, valid where all entries are.
        for part in (0, 1, lambda data: data.max(axis=-1)):
            made[name, part] = Dummy2DPlot(scan, udf, channel=(name, part))
    results = ff.Context.make_with("inline").run_udf(scan, udf, plots=list(made.values()))
    for (name, part), plot in made.items():
        mask = np.ma.getmaskarray(results[name].masked_data)
        expected = mask.any(axis=-1) if callable(part) else mask[..., part]
        np.testing.assert_array_equal(np.ma.getmaskarray(plot.data), expected)


def test_live_plots_have_scale_bars(scan, monkeypatch):
    monkeypatch.setattr(type(scan), "axes", property(lambda self: (*STEPS, *AXES[2:])))
    plot = MPLLive2DPlot(scan, Masks(), channel="sum")
    plot.display()
    assert [patch.get_gid() for patch in plot.axes.patches] == ["scale bar"]
    assert plot.axes.get_aspect() == 2.0
    assert plot.title == "Masks: sum"
