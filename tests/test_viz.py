"""Live plots: what is drawn, from what, and when; without drawing it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import framefold as ff
from framefold.common.buffers import BufferWrapper
from framefold.common.shape import Shape
from framefold.exceptions import InvalidArgumentError
from framefold.viz import (
    BQLive2DPlot,
    Dummy2DPlot,
    Live2DPlot,
    MPLLive2DPlot,
    UDFInfo,
    get_plottable_2D_channels,
    rgb_from_2dvector,
    robust_limits,
)
from framefold.viz import base as viz_base


class ManyUDF(ff.UDF):
    """Results of many shapes and dtypes; zeros and frame numbers."""

    def get_result_buffers(self) -> Any:
        return {
            "nav": self.buffer("nav"),
            "vector": self.buffer("nav", extra_shape=(2,), vector=True),
            "strip": self.buffer("nav", extra_shape=(1, 3)),
            "sig": self.buffer("sig"),
            "sig1": self.buffer("sig", extra_shape=(1,), dtype="int64"),
            "number": self.buffer("single"),
            "matrix": self.buffer("single", extra_shape=(3, 4)),
            "complex": self.buffer("nav", dtype=np.complex64),
            "flag": self.buffer("nav", dtype=bool),
            "private": self.buffer("nav", use="private"),
        }

    def process_frame(self, frame: Any) -> None:
        self.results.nav[:] = frame.sum()
        self.results.vector[:] = (frame.sum(), -1)
        self.results.flag[:] = True
        self.results.complex[:] = 1j

    def merge(self, dest: Any, src: Any) -> None:
        for name in ("nav", "vector", "complex", "flag"):
            getattr(dest, name)[:] = getattr(src, name)


class OnlyVectorsUDF(ff.UDF):
    def get_result_buffers(self) -> Any:
        return {"v": self.buffer("nav", extra_shape=(2,), vector=True)}

    def process_frame(self, frame: Any) -> None:
        self.results.v[:] = 1


class NothingUDF(ff.UDF):
    def get_result_buffers(self) -> Any:
        return {"cube": self.buffer("single", extra_shape=(3, 4, 5)), "one": self.buffer("single")}

    def process_frame(self, frame: Any) -> None:
        pass

    def merge(self, dest: Any, src: Any) -> None:
        pass


def scan(*nav: int) -> Any:
    """A data set of that navigation shape, of frames of 6 x 7 pixels, frame ``i`` full of i."""
    frames = np.arange(np.prod(nav), dtype=np.float32)
    data = np.broadcast_to(frames[:, None, None], (len(frames), 6, 7)).reshape((*nav, 6, 7))
    return ff.Context().load("memory", data=np.ascontiguousarray(data), sig_dims=2)


def results(dataset: Any, udf: ff.UDF) -> Any:
    return ff.Context.make_with("inline").run_udf(dataset=dataset, udf=udf)


class Recorder(Live2DPlot):
    """Keeps what it would draw."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.drawn: list[tuple[np.ma.MaskedArray[Any, Any], Any, bool]] = []
        super().__init__(*args, **kwargs)

    def update(self, damage: Any, force: bool = False) -> None:
        self.drawn.append((self.data.copy(), damage.copy(), force))


@pytest.mark.parametrize(
    ("nav", "expected"),
    [
        ((4, 5), ["nav", "sig", "sig1", "matrix", "complex", "flag"]),
        ((1, 5), ["nav", "strip", "sig", "sig1", "matrix", "complex", "flag"]),
        ((5,), ["nav", "strip", "sig", "sig1", "matrix", "complex", "flag"]),
        ((1, 1), ["strip", "sig", "sig1", "matrix"]),
        ((2, 3, 4), ["sig", "sig1", "matrix"]),
    ],
)
def test_plottable_are_one_and_two_axes(nav: tuple[int, ...], expected: list[str]) -> None:
    dataset = scan(*nav)
    buffers = results(dataset, ManyUDF())
    assert get_plottable_2D_channels(buffers) == expected
    assert Dummy2DPlot(dataset, ManyUDF()).channel == expected[0]


def test_vectors_are_plottable_if_there_is_nothing_else() -> None:
    dataset = scan(4, 5)
    assert get_plottable_2D_channels(results(dataset, OnlyVectorsUDF())) == ["v"]
    assert get_plottable_2D_channels(results(dataset, NothingUDF())) == []
    with pytest.raises(InvalidArgumentError, match=r"NothingUDF has no result.*cube \(3, 4, 5\)"):
        Dummy2DPlot(dataset, NothingUDF())


@pytest.mark.parametrize(
    ("nav", "channel", "shape"),
    [
        ((4, 5), "nav", (4, 5)),
        ((4, 5), "vector", (4, 5, 2)),
        ((4, 5), "sig1", (6, 7)),
        ((4, 5), "complex", (4, 5)),
        ((1, 5), "nav", (5,)),
        ((5, 1), "nav", (5,)),
        ((5,), "nav", (5,)),
        ((1, 5), "vector", (5, 2)),
        ((5,), "vector", (5, 2)),
        ((5,), "strip", (5, 3)),
        ((4, 5), ("vector", lambda v: v[..., 0]), (4, 5)),
        ((4, 5), ("vector", lambda v: rgb_from_2dvector(v[..., 0], v[..., 1])), (4, 5, 3)),
        ((4, 5), lambda res, damage: (res["sig"].data, True), (6, 7)),
        ((4, 5), lambda res, damage: (res["nav"].data, damage), (4, 5)),
        ((2, 3, 4), ("nav", lambda v: v[1]), (3, 4)),
    ],
)
def test_channels_give_pictures(nav: tuple[int, ...], channel: Any, shape: Any) -> None:
    dataset, udf = scan(*nav), ManyUDF()
    plot = Dummy2DPlot(dataset, udf, channel=channel)
    assert plot.get_udf() is udf
    assert plot.data.shape == shape  # known before the run
    data, damage = plot.extract(results(dataset, udf), True)
    assert data.shape == shape
    curve_or_vectors = len(shape) == 3 or (channel == "vector" and len(shape) == 2)
    assert damage.shape == (shape[:-1] if curve_or_vectors else shape)
    assert damage.all()
    assert not np.ma.getmaskarray(data).any()


def test_what_functions_get_and_what_they_are_called() -> None:
    dataset, udf = scan(4, 5), ManyUDF()
    seen: list[Any] = []

    def one(data: Any) -> Any:
        seen.append(data)
        return data

    def everything(udf_results: Any, damage: Any) -> Any:
        seen.extend([udf_results, damage])
        return udf_results["nav"], damage

    plot = Dummy2DPlot(dataset, udf, channel=("nav", one))
    assert (plot.channel, plot.title) == ("nav", "ManyUDF: one(nav)")
    assert type(seen[0]) is np.ndarray
    assert seen[0].shape == (4, 5)
    plot = Dummy2DPlot(dataset, udf, channel=everything)
    assert (plot.channel, plot.title) == (None, "ManyUDF: everything")
    _, given, damage = seen
    assert isinstance(given["nav"], BufferWrapper)
    assert damage.shape == (4, 5)
    assert damage.dtype == bool
    assert not damage.any()
    assert Dummy2DPlot(dataset, udf, channel="sig").title == "ManyUDF: sig"
    assert Dummy2DPlot(dataset, udf, title="mine").title == "mine"


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        ("nope", r"ManyUDF: there is no result 'nope' to plot; there are: nav, vector"),
        (("nope", np.abs), r"there is no result 'nope'"),
        ("private", r"there is no result 'private'"),
        ("strip", r"'strip' of shape \(4, 5, 1, 3\) and dtype float32 cannot be plotted as it is"),
        ("number", r"'number' of shape \(1,\)"),
        (3, r"the channel 3 is a int"),
        (("nav",), r"is no pair"),
        (("nav", "sig"), r"is no pair"),
        (("vector", True), r"is no pair"),
        (("vector", 1.0), r"is no pair"),
        (("vector", lambda v: v[..., [0, 0, 0]] * 1j), r"complex64, expected real numbers"),
        (("strip", np.abs), r"absolute\(strip\) gives data of shape \(4, 5, 1, 3\)"),
        (("nav", np.sum), r"gives data of shape \(\)"),
        (("nav", lambda v: v.astype(object)), r"dtype object, expected numbers"),
        (lambda res, damage: res["nav"].data, r"returned ndarray, expected a pair"),
        (lambda res, damage: (res["sig"].data, damage), r"shape \(6, 7\) and a damage of shape"),
        (lambda res, damage: (res["nav"].data.T, damage), r"shape \(5, 4\) and a damage of shape"),
    ],
)
def test_wrong_channels_are_refused_before_the_run(channel: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Dummy2DPlot(scan(4, 5), ManyUDF(), channel=channel)


def test_exceptions_of_functions_come_back_as_themselves() -> None:
    with pytest.raises(ZeroDivisionError):
        Dummy2DPlot(scan(4, 5), ManyUDF(), channel=("nav", lambda v: 1 // 0))


def test_positions_without_results_are_masked() -> None:
    dataset, udf = scan(4, 5), ManyUDF()
    buffers = results(dataset, udf)
    half = np.arange(20).reshape(4, 5) < 9
    for channel in ("nav", "vector", "complex", ("nav", np.negative)):
        plot = Dummy2DPlot(dataset, udf, channel=channel)
        assert np.ma.getmaskarray(plot.data).all()
        for damage in (half, half.reshape(-1), nav_buffer(half)):
            data, covered = plot.extract(buffers, damage)
            assert (covered == half).all()
            mask = np.ma.getmaskarray(data)
            assert (mask.reshape(4, 5, -1) == ~half[..., None]).all()
    # What is not laid out on the scan is valid as soon as anything is.
    plot = Dummy2DPlot(dataset, udf, channel="sig")
    assert plot.extract(buffers, half)[1].all()
    assert not plot.extract(buffers, np.zeros_like(half))[1].any()
    with pytest.raises(InvalidArgumentError, match=r"damage has shape \(3,\)"):
        plot.extract(buffers, np.ones(3, dtype=bool))
    with pytest.raises(InvalidArgumentError, match=r"damage has shape \(5, 4\), but the scan has"):
        plot.extract(buffers, half.T)


@pytest.mark.parametrize("damage", [np.ones((1, 5)), np.ones(5), True])
def test_functions_may_leave_out_axes_of_length_one(damage: Any) -> None:
    def row(results: Any, _: Any) -> Any:
        return results["nav"].data[0], damage

    assert Dummy2DPlot(scan(1, 5), ManyUDF(), channel=row).data.shape == (5,)


def nav_buffer(mask: np.ndarray[Any, Any]) -> BufferWrapper:
    shape = Shape((*mask.shape, 6, 7), sig_dims=2)
    return BufferWrapper("nav", (), bool, raw=mask.reshape(-1), dataset_shape=shape)


def test_positions_outside_of_the_roi_are_masked() -> None:
    dataset, udf = scan(4, 5), ManyUDF()
    roi = np.zeros((4, 5), dtype=bool)
    roi[1:3, 2:] = True
    buffers = ff.Context().run_udf(dataset=dataset, udf=udf, roi=roi)
    for channel in ("nav", "vector", "flag"):
        plot = Dummy2DPlot(dataset, udf, roi=roi, channel=channel)
        data, covered = plot.extract(buffers, True)
        assert (covered == roi).all()
        assert (np.ma.getmaskarray(data).reshape(4, 5, -1) == ~roi[..., None]).all()
    # Given as coordinates, as for a run.
    assert Dummy2DPlot(dataset, udf, roi=[(0, 1), (2, 3)]).data.shape == (4, 5)


class Clock:
    """A time that passes only when it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_pauses_begin_at_the_end_of_a_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(viz_base, "time", clock)
    dataset, udf = scan(4, 5), ManyUDF()
    buffers = results(dataset, udf)
    drawing_time = 0.1

    class Slow(Recorder):
        def update(self, damage: Any, force: bool = False) -> None:
            clock.now += drawing_time
            super().update(damage, force)

    plot = Slow(dataset, udf, min_delta=0.5)
    assert plot.is_due()
    plot.new_data(buffers, True)
    assert len(plot.drawn) == 1
    assert plot.last_update == clock.now
    clock.now += 0.49
    assert not plot.is_due()
    plot.new_data({}, True)  # not even looked at
    assert len(plot.drawn) == 1
    clock.now += 0.02
    plot.new_data(buffers, True)
    assert len(plot.drawn) == 2
    # The end of the run cannot wait.
    plot.new_data(buffers, True, force=True)
    assert [force for _, _, force in plot.drawn] == [False, False, True]

    # Drawing takes no more than a fifth of the time, however slow it is.
    drawing_time = 10.0
    plot = Slow(dataset, udf, min_delta=0.5)
    begin = clock.now
    while clock.now < begin + 1000:
        plot.new_data(buffers, True)
        clock.now += 0.01
    assert 18 <= len(plot.drawn) <= 21

    plot = Slow(dataset, udf)  # min_delta=0: whatever it costs
    for _ in range(7):
        plot.new_data(buffers, True)
    assert len(plot.drawn) == 7
    with pytest.raises(InvalidArgumentError, match="min_delta is -1"):
        Slow(dataset, udf, min_delta=-1)


def test_a_run_drives_its_plots(ctx: ff.Context, dataset: Any, data: Any) -> None:
    udf = ff.SumSigUDF()
    plot = Recorder(dataset, udf)
    result = ctx.run_udf(dataset=dataset, udf=udf, plots=[plot])
    covered = [int(damage.sum()) for _, damage, _ in plot.drawn]
    assert covered[0] < covered[-1] == 42
    assert covered == sorted(covered)
    drawn, _, force = plot.drawn[-1]
    assert force
    np.testing.assert_array_equal(drawn, result["intensity"].data)
    np.testing.assert_allclose(drawn, data.sum(axis=(2, 3)))


def test_another_channel_can_be_chosen() -> None:
    dataset, udf = scan(4, 5), ManyUDF()
    found = results(dataset, udf)
    plot = Recorder(dataset, udf, channel="sig")
    for channel, name, title, shape in (
        ("nav", "nav", "nav", (4, 5)),
        (("vector", 0), "vector", "vector[0]", (4, 5)),
        (("nav", np.transpose), "nav", "transpose(nav)", (5, 4)),
        (lambda udf_results, damage: (udf_results["sig"].data, True), None, "<lambda>", (6, 7)),
        (None, "nav", "nav", (4, 5)),
    ):
        plot.channel = channel
        plot.new_data(found, True)
        assert (plot.channel, plot.title) == (name, f"ManyUDF: {title}")
        assert plot.drawn[-1][0].shape == shape
    with pytest.raises(InvalidArgumentError, match="there is no result 'nope' to plot"):
        plot.channel = "nope"
    assert plot.channel == "nav"
    titled = Recorder(dataset, udf, title="mine")
    titled.channel = "sig"
    assert titled.title == "mine"
    for made_for_one in (MPLLive2DPlot, BQLive2DPlot):
        figure = made_for_one(dataset, udf, channel="sig")
        with pytest.raises(InvalidArgumentError, match="'sig'; make another plot, with channel='n"):
            figure.channel = "nav"
        assert figure.channel == "sig"


def test_another_channel_as_the_reference_s_subclasses_choose_it() -> None:
    dataset, udf = scan(4, 5), ManyUDF()
    found, plot = results(dataset, udf), Recorder(dataset, udf)
    for function, name, shape in (
        (lambda udf_results, damage: (udf_results["nav"].data.T, True), "nav", (5, 4)),
        (lambda udf_results, damage: (udf_results["sig"].data, damage.any()), None, (6, 7)),
        (None, "flag", (4, 5)),
    ):
        plot._extract = function
        plot.channel = name
        plot.new_data(found, True)
        assert plot.channel == name
        assert plot.drawn[-1][0].shape == shape


def test_an_empty_result_can_be_handed_over() -> None:
    dataset, udf = scan(4, 5), ff.SumSigUDF()

    class Given:
        buffers = (results(dataset, udf),)
        damage = nav_buffer(np.arange(20).reshape(4, 5) < 3)

    assert Dummy2DPlot(dataset, udf, udfresult=Given()).data.count() == 3
    assert Dummy2DPlot(dataset, udf, udfresult=Given.buffers[0]).data.count() == 0


def test_the_base_class_says_what_is_missing() -> None:
    plot = Live2DPlot(scan(4, 5), ff.SumSigUDF())
    with pytest.raises(NotImplementedError, match="Live2DPlot does not implement display"):
        plot.display()
    with pytest.raises(NotImplementedError, match="Live2DPlot does not implement update"):
        plot.update(True)


def test_importing_plots_imports_no_plotting_library() -> None:
    code = (
        "import sys, framefold, framefold.viz, framefold.viz.mpl, framefold.viz.bqp\n"
        "heavy = {'matplotlib', 'bqplot', 'ipywidgets', 'IPython', 'PIL', 'scipy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class TestRobustLimits:
    rng = np.random.default_rng(5)

    def test_data_without_outliers_keep_their_range(self) -> None:
        for data in (
            self.rng.normal(size=(40, 50)),
            self.rng.poisson(0.01, size=(60, 60)),
            np.eye(50),
            np.arange(5),
            np.where(np.arange(1000) < 100, 1e6, 1.0),
        ):
            assert robust_limits(data) == (data.min(), data.max())

    def test_outliers_are_left_out(self) -> None:
        clean = self.rng.normal(size=(40, 50))
        data = clean.copy()
        data[3, 3], data[4, 4] = 1e9, -1e9
        clean[3, 3] = clean[4, 4] = 0
        assert robust_limits(data) == (clean.min(), clean.max())
        small = np.arange(12.0)
        small[5] = 1e9
        assert robust_limits(small) == (0, 11)
        sparse = self.rng.poisson(0.005, size=(100, 100)) * self.rng.integers(1, 4, (100, 100))
        expected = float(sparse.max())
        sparse[50, 50] = 60000
        assert robust_limits(sparse) == (0, expected)

    @pytest.mark.parametrize("every", [2, 3, 4, 5, 8])
    def test_stripes_are_no_outliers(self, every: int) -> None:
        data = self.rng.uniform(100, 101, (1024, 1024))
        data[:, ::every] = self.rng.uniform(0, 1, data[:, ::every].shape)
        assert robust_limits(data) == (data.min(), data.max()) == robust_limits(data)

    def test_nan_infinity_and_what_is_not_usable_do_not_count(self) -> None:
        data = np.array([np.nan, 1.0, np.inf, 2.0, -np.inf, 50.0])
        assert robust_limits(data) == (1, 50)
        assert robust_limits(data, [True, True, True, True, True, False]) == (1, 2)
        assert robust_limits(np.full(4, np.nan)) == (0, 0)
        assert robust_limits(np.zeros((0, 3))) == (0, 0)

    def test_what_is_masked_does_not_count(self) -> None:
        data = np.ma.MaskedArray([[1, 2, 3], [4, 5, 60]], mask=[[0, 0, 0], [0, 0, 1]])
        assert robust_limits(data) == robust_limits(data.astype(float)) == (1, 5)
        assert robust_limits(data, data > 2) == (3, 5)


class TestVectorColours:
    def test_zero_is_grey_and_saturation_grows_with_length(self) -> None:
        length = np.linspace(0, 1, 6)
        for angle in np.deg2rad([0, 77, 180, 271]):
            rgb = rgb_from_2dvector(length * np.sin(angle), length * np.cos(angle)).astype(int)
            assert rgb[0].tolist() == [127, 127, 127]
            spread = rgb.max(axis=-1) - rgb.min(axis=-1)
            assert (np.diff(spread) > 5).all()

    def test_directions_differ_and_are_equally_light(self) -> None:
        angle = np.deg2rad(np.arange(0, 360, 30))
        rgb = rgb_from_2dvector(np.sin(angle), np.cos(angle)).astype(float)
        assert len({tuple(colour) for colour in rgb}) == 12
        linear = np.where(rgb <= 10.31, rgb / 12.92 / 255, ((rgb / 255 + 0.055) / 1.055) ** 2.4)
        luminance = linear @ [0.2126, 0.7152, 0.0722]
        assert luminance.max() / luminance.min() < 1.35
        # The nearest colour is that of a neighbour, and the opposite direction is far away.
        distance = np.linalg.norm(rgb[:, None] - rgb, axis=-1)
        assert (distance[np.arange(12), (np.arange(12) + 6) % 12] > 150).all()
        distance[np.diag_indices(12)] = np.inf
        steps = np.abs(distance.argmin(axis=1) - np.arange(12))
        assert set(steps) <= {1, 11}

    def test_limits_and_nan(self) -> None:
        y, x = np.array([0.0, 0.0, np.nan, 0.0]), np.array([1.0, 2.0, 1.0, 4.0])
        scaled = rgb_from_2dvector(y, x, vmax=2)
        assert scaled.dtype == np.uint8
        assert scaled.shape == (4, 3)
        assert (scaled[1] == scaled[3]).all()  # beyond vmax
        assert (scaled[0] != scaled[1]).any()
        assert (scaled[2] == 0).all()
        assert (rgb_from_2dvector(y, x)[3] == scaled[3]).all()  # the longest is the limit
        assert (rgb_from_2dvector(np.zeros((2, 3)), np.zeros((2, 3))) == 127).all()
        masked = np.ma.MaskedArray(x, mask=[False, False, False, True])
        assert (rgb_from_2dvector(y, masked)[:3] == scaled[:3]).all()
        assert (rgb_from_2dvector(y, masked)[3] == 0).all()


def times(shape: tuple[int, ...]) -> str:
    """A shape as people write it."""
    return " \N{MULTIPLICATION SIGN} ".join(map(str, shape))


class TestUDFInfo:
    def dataset(self) -> Any:
        return ff.Context().load(
            "memory", data=np.zeros((8, 9, 64, 48), np.uint16), sig_dims=2, num_partitions=5
        )

    def test_the_page_shows_partitions_tiles_and_results(self) -> None:
        class Cut(ff.UDF):
            def get_result_buffers(self) -> Any:
                return {"a<b": 1} if self.params.bad else {"mean": self.buffer("nav")}

            def process_tile(self, tile: Any) -> None:
                pass

            def get_tiling_preferences(self) -> Any:
                return {"depth": 8, "total_size": 2000}

        info = UDFInfo(self.dataset(), [Cut(bad=False), ff.SumUDF()])
        assert len(info.partitions) == 5
        assert info.partitions[-1][1] == 72
        rows, columns = info.tile_shape
        n_tiles = -(-64 // rows) * -(-48 // columns)
        assert n_tiles > 1
        page = info._repr_html_()
        assert f"frame {times((64, 48))}, {n_tiles} tiles of up to {info.tile_depth}" in page
        assert times((info.tile_depth, *info.tile_shape)) in page
        assert page.count("<line ") == (-(-64 // rows) - 1) + (-(-48 // columns) - 1)
        for text in ("Cut", "SumUDF", "uint16 → float32", "72 frames", "5 of", "mean", "(64, 48)"):
            assert text in page
        explained = ff.Context().explain(self.dataset(), [Cut(bad=False), ff.SumUDF()])
        assert explained.startswith(str(info))

    def test_names_may_have_any_letters(self) -> None:
        odd = type("Odd: by  nothing", (ff.SumUDF,), {})
        page = UDFInfo(self.dataset(), odd())._repr_html_()
        assert "<h4>Odd: by  nothing</h4><p>by " in page

    def test_the_page_is_well_formed_and_escaped(self) -> None:
        from xml.etree import ElementTree

        odd = type("Odd<b>", (ff.SumUDF,), {})
        page = UDFInfo(self.dataset(), odd())._repr_html_()
        root = ElementTree.fromstring(page)
        assert root.tag == "div"
        assert "Odd&lt;b&gt;" in page

    @pytest.mark.parametrize("sig", [(1000,), (3, 4, 5), (1, 500), (1024, 1024)])
    def test_frames_of_any_shape_have_a_picture(self, sig: tuple[int, ...]) -> None:
        data = np.zeros((3, *sig), np.uint8)
        dataset = ff.Context().load("memory", data=data, sig_dims=len(sig))
        page = UDFInfo(dataset, ff.SumUDF(), roi=[(1,)])._repr_html_()
        assert "<svg" in page
        assert times(sig) in page
        assert page.count("<line ") < 200
