"""Results of a run: what they say of themselves, their axes, and computing with them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import framefold as ff
from framefold.common import _losses
from framefold.common.axes import Axis
from framefold.common.buffers import BufferWrapper
from framefold.common.shape import Shape
from framefold.exceptions import InvalidArgumentError, InvalidResultError
from framefold.udf.data import UDFData
from framefold.udf.reduction import ReductionUDF


class Everything(ff.UDF):
    """Results of all kinds."""

    def get_result_buffers(self):
        return {
            "image": self.buffer("nav", unit="counts"),
            "two": self.buffer("nav", extra_shape=(2,)),
            "pattern": self.buffer("sig", dtype="float64"),
            "field": self.buffer("sig", extra_shape=(2,), vector=True),
            "table": self.buffer("single", extra_shape=(2, 3)),
            "number": self.buffer("single", dtype="int64"),
        }

    def process_frame(self, frame):
        self.results.image[:] = frame.sum()
        self.results.pattern[:] += frame
        self.results.number[:] += 1

    def merge(self, dest, src):
        for name in src:
            if name in ("image", "two"):
                getattr(dest, name)[:] = getattr(src, name)
            else:
                getattr(dest, name)[:] += getattr(src, name)


@pytest.fixture
def scan(tmp_path):
    """A data set whose axes are calibrated: 3 × 4 frames of 6 × 5 pixels."""
    hs = pytest.importorskip("hyperspy.api", reason="HyperSpy writes calibrated files")
    data = np.arange(3 * 4 * 6 * 5, dtype=np.float32).reshape(3, 4, 6, 5)
    signal = hs.signals.Signal2D(data)
    steps = [("x", "nm", 0.5, -1.0), ("y", "nm", 0.25, 2.0)]
    for axis, (name, unit, scale, offset) in zip(
        signal.axes_manager._axes[1::-1], steps, strict=True
    ):
        axis.name, axis.units, axis.scale, axis.offset = f"scan_{name}", unit, scale, offset
    for axis, scale in zip(signal.axes_manager._axes[2:], (0.2, 0.1), strict=True):
        axis.units, axis.scale = "mrad", scale
    signal.save(tmp_path / "scan.hspy")
    return ff.Context.make_with("inline").open(tmp_path / "scan.hspy")


@pytest.fixture
def result(scan):
    return ff.Context.make_with("inline").run_udf(scan, Everything())


def test_axes_are_those_of_the_data_set(scan, result):
    nav, sig = scan.axes[:2], scan.axes[2:]
    assert [(axis.unit, axis.scale, axis.offset) for axis in scan.axes] == [
        ("nm", 0.25, 2.0),
        ("nm", 0.5, -1.0),
        ("mrad", 0.2, 0.0),
        ("mrad", 0.1, 0.0),
    ]
    extra = Axis("extra_0", "", 1.0, 0.0, 2, "extra")
    assert result["image"].axes == nav
    assert result["two"].axes == (*nav, extra)
    assert result["pattern"].axes == sig
    assert result["field"].axes == (*sig, extra)
    assert [axis.size for axis in result["table"].axes] == [2, 3]
    assert {axis.kind for axis in result["table"].axes} == {"extra"}
    for buffer in result.values():
        assert tuple(axis.size for axis in buffer.axes) == buffer.data.shape


def test_axes_under_a_region_are_those_of_the_whole_scan(scan):
    ctx = ff.Context.make_with("inline")
    image = ctx.run_udf(scan, Everything(), roi=np.s_[1:2, :3])["image"]
    assert image.axes == scan.axes[:2]
    assert image.raw_data.shape == (3,)
    for results in ctx.run_udf_iter(scan, Everything()):
        assert results.buffers[0]["image"].axes == scan.axes[:2]
        assert results.damage.axes == scan.axes[:2]


def test_delayed_results_have_axes_before_they_are_computed(scan):
    pytest.importorskip("dask", reason="delayed results are Dask's")
    image = ff.Context.make_with("delayed").run_udf(scan, Everything())["image"]
    assert image.axes == scan.axes[:2]
    assert "not computed yet" in repr(image)
    assert (image + 1).shape == (3, 4)
    assert "not computed yet" not in repr(image)


def test_results_say_what_they_are(result):
    shown = repr(result["image"])
    for part in (
        "'image' of Everything",
        "kind=nav",
        "shape=(3, 4)",
        "dtype=float32",
        "unit='counts'",
        "scan_y: 3 × 0.25 nm, from 2 nm",
    ):
        assert part in shown
    assert repr(result).count("\n") == len(result) + 1
    assert isinstance(result, dict)
    assert repr(BufferWrapper("nav")) == (
        "<BufferWrapper kind=nav dtype=float32 extra_shape=(), no data>"
    )


def test_results_compute_as_arrays_do(result):
    image, data = result["image"], result["image"].data
    bright = BufferWrapper("single", data.shape, bool, raw=data > 100)
    for made, expected in (
        (image + 1, data + 1),
        (2 - image, 2 - data),
        (image / image, data / data),
        (data * image, data * data),
        (-image, -data),
        (image**2, data**2),
        (image @ data.T, data @ data.T),
        (image > 100, data > 100),
        (image == data, data == data),
        (np.sqrt(image), np.sqrt(data)),
        (np.add.reduce(image), data.sum(axis=0)),
        (np.mean(image), data.mean()),
        (np.sum(data, where=bright), data[data > 100].sum()),
        (np.add(image, 1, out=np.zeros_like(data), where=bright), np.where(bright, data + 1, 0)),
        (np.stack([image, image]), np.stack([data, data])),
    ):
        assert type(made) is type(expected)
        np.testing.assert_array_equal(made, expected)
    assert np.ma.sum(np.ma.masked_less(data, 0) + image) == 2 * data.sum()
    assert int(result["number"]) == 12
    assert float(result["number"]) == 12.0
    assert (image.ndim, image.size) == (2, 12)
    np.testing.assert_array_equal(list(image), list(data))


def test_results_are_not_changed_in_place(result):
    before = result["image"].data.copy()
    changed = result["image"]
    changed += 1
    np.testing.assert_array_equal(changed, before + 1)
    np.testing.assert_array_equal(result["image"], before)
    with pytest.raises(TypeError, match=r"out=np\.array\(result\)"):
        np.add(before, 1, out=result["image"])
    with pytest.raises(TypeError, match=r"out=np\.array\(result\)"):
        np.add.at(result["image"], 0, 1)


def test_results_are_as_true_as_arrays(ctx):
    dark = ctx.load("memory", data=np.zeros((2, 1, 1), np.float32), sig_dims=2)
    assert not ctx.run_udf(dark, ff.SumUDF())["intensity"]
    assert ctx.run_udf(dark, ff.StdDevUDF())["num_frames"]
    with pytest.raises(ValueError, match="ambiguous"):
        bool(ctx.run_udf(dark, ff.SumSigUDF())["intensity"])
    assert not ctx.run(ctx.create_sum_analysis(dark)).intensity_lin


@pytest.mark.parametrize("executor", ["inline", "delayed"])
@pytest.mark.parametrize("sync_offset", [0, 2])
@pytest.mark.parametrize("roi", [None, np.s_[1:, 1:3]])
@pytest.mark.filterwarnings("ignore:.*ha(s|ve) no data")
def test_arrays_over_the_scan_are_made_of_the_result_as_it_is(executor, sync_offset, roi):
    if executor == "delayed":
        pytest.importorskip("dask", reason="delayed results are Dask's")
    ctx = ff.Context.make_with(executor)
    dataset = ctx.load("memory", data=np.ones((3, 4, 6, 5)), sync_offset=sync_offset)
    image = ctx.run_udf(dataset, Everything(), roi=roi)["image"]
    assert np.nansum(image.data) == 30 * image.valid_mask.sum()  # pictures change nothing
    valid = image.valid_mask
    image.raw_data[:] = 7
    for array in (image.data[valid], image.masked_data.compressed()):
        assert (array == 7).all()
    if valid.all():
        return
    for cleaned in (image.data, image.masked_data, np.asarray(image)):
        cleaned[:] = 0
        assert np.isnan(image.data[~valid]).all()
        assert np.nanmean(image) == 7


@pytest.mark.parametrize("kind", ["nav", "sig", "single"])
@pytest.mark.parametrize("extra", [(), (2,)])
def test_buffers_are_made_by_hand(kind, extra):
    shape = Shape((3, 4, 6, 5), sig_dims=2)
    roi = np.zeros((3, 4), bool)
    roi[1, :3] = True
    for given, n in ((None, 12), (roi, 3), (roi.reshape(-1), 3)):
        buffer = BufferWrapper(kind, extra, "f4")
        with pytest.raises(InvalidArgumentError, match="no shape yet; call set_shape_ds"):
            buffer.allocate()
        buffer.set_shape_ds(shape, given)
        buffer.allocate()
        own = {"nav": (n, *extra), "sig": (6, 5, *extra), "single": extra or (1,)}[kind]
        np.testing.assert_array_equal(buffer.raw_data, np.zeros(own, "f4"), strict=True)
        buffer.raw_data[:] = 7
        assert buffer.valid_mask.sum() == (buffer.data == 7).sum() == buffer.raw_data.size
        assert buffer.shape == buffer.data.shape
        assert kind != "nav" or buffer.shape == (3, 4, *extra)
        for change in (buffer.allocate, lambda: buffer.set_shape_ds(shape)):  # noqa: B023
            with pytest.raises(InvalidArgumentError, match="data already"):
                change()
    with pytest.raises(InvalidArgumentError, match=r"roi has shape \(2, 4\).*\(3, 4\)"):
        BufferWrapper(kind).set_shape_ds(shape, roi[:2])


def test_results_are_hashed_and_pickled(result):
    assert len({result["image"], result["two"], result["image"]}) == 2
    copy = pickle.loads(pickle.dumps(result))
    assert copy["image"].axes == result["image"].axes
    np.testing.assert_array_equal(copy["image"], result["image"])


def test_vectors_are_what_says_so(scan, result):
    assert result["field"].about.vector
    assert not result["two"].about.vector
    ctx = ff.Context.make_with("inline")
    for udf in (ff.CoMUDF(), ReductionUDF("com")):
        com = ctx.run_udf(scan, udf)
        vectors = [name for name, buffer in com.items() if buffer.about.vector]
        assert vectors
        assert all(com[name].extra_shape == (2,) for name in vectors)
    assert ctx.run_udf(scan, ff.CoMUDF())["field"].unit == "px"


def test_vectors_have_two_components(scan):
    class Wrong(Everything):
        def get_result_buffers(self):
            return {"x": self.buffer("nav", extra_shape=(3,), vector=True)}

    with pytest.raises(InvalidResultError, match=r"vector=True and extra_shape=\(3,\)"):
        ff.Context.make_with("inline").run_udf(scan, Wrong())


def test_any_name_will_do(scan):
    names = [name for name in dir(UDFData) if not name.startswith("_")]
    names += ["_declare", "_share", "_copies"]

    class Named(ff.UDF):
        def get_result_buffers(self):
            return {name: self.buffer("nav", dtype=int) for name in names}

        def process_frame(self, frame):
            for name, buffer in dict(self.results.__dict__).items():
                buffer[:] = getattr(self.params, name)

    values = dict.fromkeys(names, 3)
    with ff.Context.make_with("threads", cpus=2) as ctx:
        results = ctx.run_udf(scan, Named(**values))
    assert results.keys() == values.keys()
    assert all((result.data == 3).all() for result in results.values())


def test_what_processors_that_saturate_make_of_too_large_numbers_is_a_loss():
    for dtype in (np.int64, np.uint64, np.int32, np.uint32):
        too_large = np.array([np.ldexp(1.0, np.iinfo(dtype).bits)], np.float32)
        if np.iinfo(dtype).min < 0:
            too_large /= 2
        saturated = np.array([np.iinfo(dtype).max], dtype)
        assert _losses.changed(too_large, saturated).all()
        assert _losses.first_lost(too_large, np.dtype(dtype)) == too_large[0]
        below = np.nextafter(too_large, np.float32(0))
        assert _losses.first_lost(below, np.dtype(dtype)) is None
