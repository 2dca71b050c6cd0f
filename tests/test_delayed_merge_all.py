"""Partial results that a UDF merges in one step."""

import numpy as np
import pytest
from delayed_cases import NAV, SIG, PerFrame, assert_same, same_bits, scan, some
from known_oddities import FRAMES_LEFT_OVER, POSITIONS_WITHOUT_DATA

import framefold as ff
from framefold.common.slice import Slice
from framefold.exceptions import UDFError
from framefold.udf import UDF

da = pytest.importorskip("dask.array", reason="dask.array is not installed")


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("delayed")


class Own(UDF):
    """Merges in one step; keeps what it was given."""

    given = None

    def get_result_buffers(self):
        return {
            "most": self.buffer(kind="sig", dtype="uint16"),
            "total": self.buffer(kind="nav", extra_shape=(2,), dtype="float64"),
            "count": self.buffer(kind="single", dtype="int64", use="private"),
            "mean": self.buffer(kind="nav", dtype="float64", use="result_only"),
        }

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def process_frame(self, frame):
        self.results.most[:] = np.maximum(self.results.most, frame)
        self.results.total[:] = frame.sum(dtype="float64"), 1
        self.results.count[:] += 1

    def merge(self, dest, src):
        dest.most[:] = np.maximum(dest.most, src.most)
        dest.total[:] = src.total
        dest.count[:] += src.count

    def merge_all(self, ordered_results):
        type(self).given = ordered_results
        results = ordered_results.values()
        return {
            "most": np.stack([each.most for each in results]).max(axis=0),
            "total": np.concatenate([each["total"] for each in results]),
            "count": np.stack([each["count"] for each in results]).sum(axis=0),
        }

    def get_results(self):
        return {"mean": self.results.total[:, 0] / self.results.count[0]}


@pytest.mark.parametrize("roi", [None, some()], ids=["all", "roi"])
@pytest.mark.parametrize("options", [{}, {"sync_offset": -5}], ids=["plain", "inserted"])
@FRAMES_LEFT_OVER
@POSITIONS_WITHOUT_DATA
def test_it_is_used_and_gives_what_merge_gives(inline, ctx, roi, options):
    dataset = inline.load("memory", data=scan("uint16"), sig_dims=2, **options)
    found, expected = ctx.run_udf(dataset, Own(), roi=roi), inline.run_udf(dataset, Own(), roi=roi)
    assert_same(found, expected, "own")
    for name in expected:
        assert same_bits(found[name].delayed_data.compute(), expected[name].data), name


def test_what_it_is_given(ctx):
    roi = some()
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2, num_partitions=4)
    ctx.run_udf(dataset=dataset, udf=Own(), roi=roi)
    given = Own.given
    assert isinstance(given, dict)
    assert len(given) == 4
    end = 0
    for part, results in given.items():
        assert isinstance(part, Slice)
        assert part.origin == (end, 0, 0)
        assert tuple(part.shape.sig) == SIG
        (length,) = part.shape.nav
        end += length
        assert isinstance(results, dict)
        assert list(results) == ["most", "total", "count"]
        assert results.total is results["total"]
        assert isinstance(results.total, da.Array)
        assert results.total.shape == (length, 2)
        assert results.most.shape == SIG
        with pytest.raises(AttributeError, match="total"):
            _ = results.mean
    assert end == np.count_nonzero(roi)


def test_the_default_puts_frames_together(inline, ctx):
    class Calling(PerFrame):
        def merge_all(self, ordered_results):
            return super().merge_all(ordered_results)

    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2, num_partitions=4)
    expected = inline.run_udf(dataset, PerFrame())
    assert_same(ctx.run_udf(dataset, Calling()), expected, "called")
    assert_same(ctx.run_udf(dataset, PerFrame()), expected, "not called")


def test_the_default_refuses_what_has_to_be_merged(ctx):
    class Calling(Own):
        def merge_all(self, ordered_results):
            return UDF.merge_all(self, ordered_results)

    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2)
    with pytest.raises(NotImplementedError, match="Calling has no merge_all of a base class"):
        ctx.run_udf(dataset=dataset, udf=Calling())


def test_what_is_left_out_is_zero(ctx):
    class Less(Own):
        def merge_all(self, ordered_results):
            return {"most": super().merge_all(ordered_results)["most"]}

        def get_results(self):
            return {"mean": self.results.total[:, 0]}

    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2)
    results = ctx.run_udf(dataset=dataset, udf=Less())
    assert np.array_equal(results["most"].data, scan("uint16").max(axis=(0, 1)))
    assert not results["total"].data.any()
    assert results["total"].data.shape == (*NAV, 2)


@FRAMES_LEFT_OVER
@POSITIONS_WITHOUT_DATA
def test_objects(ctx, inline):
    class Lists(UDF):
        def get_result_buffers(self):
            kinds = {"each": "nav", "found": "single", "left": "single"}
            return {name: self.buffer(kind, dtype=object) for name, kind in kinds.items()}

        def process_frame(self, frame):
            self.results.each[0] = [int(frame.max())]

        def merge(self, dest, src):
            dest.each[:] = src.each
            dest.found[0] = ["all"]

        def merge_all(self, ordered_results):
            found = np.empty(1, dtype=object)
            found[0] = ["all"]
            each = da.concatenate([part.each for part in ordered_results.values()])
            return {"each": each, "found": found}

    dataset = ctx.load("memory", data=scan("uint16"), num_partitions=3, sync_offset=-5)
    mine, other = ctx.run_udf(dataset, Lists()), inline.run_udf(dataset, Lists())
    for name in other:
        assert mine[name].data.tolist() == other[name].data.tolist(), name
        assert mine[name].raw_data.tolist() == other[name].raw_data.tolist(), name


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "expected a dict"),
        ({"mean": np.zeros(42)}, "none of the buffers to merge"),
        ({"other": np.zeros(42)}, "none of the buffers to merge"),
        ({"most": np.zeros(3)}, r"shape \(3,\).*must have shape \(10, 12\)"),
        ({"total": np.zeros((6, 7, 2))}, r"must have shape \(42, 2\)"),
        ({"most": np.full(SIG, 0.5)}, "with dtype float64, which cannot become .* uint16"),
        ({"total": np.zeros((42, 2), "c16")}, "with dtype complex128, which cannot become"),
    ],
)
def test_what_does_not_fit_is_refused(ctx, returned, message):
    class Wrong(Own):
        def merge_all(self, ordered_results):
            return returned

    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2)
    with pytest.raises(UDFError, match=message):
        ctx.run_udf(dataset=dataset, udf=Wrong())


def test_values_that_the_declared_dtype_does_not_hold(ctx):
    class Sums(Own):
        def merge_all(self, ordered_results):
            partitions = ordered_results.values()
            most = np.stack([each.most for each in partitions]).sum(axis=0)
            return {**super().merge_all(ordered_results), "most": most + self.params.more}

    data = scan("uint16") % 1000
    dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=3)
    assert ctx.run_udf(dataset=dataset, udf=Sums(more=0))["most"].data.dtype == "uint16"
    results = ctx.run_udf(dataset=dataset, udf=Sums(more=65536))
    with pytest.raises(UDFError, match=r"Sums.merge_all returned 'most' with the value 6\d+"):
        _ = results["most"].data


def test_an_exception_in_it_names_the_udf(ctx):
    class Failing(Own):
        def merge_all(self, ordered_results):
            raise KeyError("here")

    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2)
    with pytest.raises(KeyError) as caught:
        ctx.run_udf(dataset=dataset, udf=Failing())
    assert any("UDF Failing, merge_all" in note for note in caught.value.__notes__)


def test_a_native_udf_with_its_own_runs_in_python(ctx):
    class Mine(ff.SumUDF):
        def merge_all(self, ordered_results):
            chunks = [each.intensity for each in ordered_results.values()]
            return {"intensity": np.stack(chunks).sum(axis=0) + 1}

    data = scan("uint16")
    dataset = ctx.load("memory", data=data, sig_dims=2)
    found = ctx.run_udf(dataset=dataset, udf=Mine())["intensity"].data
    assert np.array_equal(found, data.sum(axis=(0, 1)) + 1)


class Each(UDF):
    """The sum of each frame."""

    def get_result_buffers(self):
        return {"total": self.buffer("nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.total[:] = frame.sum(dtype="float64")


def test_a_merge_that_is_set_on_the_object(ctx, inline):
    data = scan("uint16")
    udf = Each()
    udf.merge = lambda dest, src: dest.total.__setitem__(..., src.total * 2)
    expected = 2 * data.sum(axis=(2, 3), dtype="float64")
    for each in (inline, ctx):
        result = each.run_udf(each.load("memory", data=data, num_partitions=3), udf)
        np.testing.assert_array_equal(np.asarray(result["total"].data), expected)


def test_get_results_that_is_set_on_the_object(ctx, inline):
    data = scan("uint16")
    udf = Each()
    udf.get_results = lambda: {"total": np.full(NAV, 5.0)}
    for each in (inline, ctx):
        result = each.run_udf(each.load("memory", data=data, num_partitions=3), udf)
        np.testing.assert_array_equal(np.asarray(result["total"].data), np.full(NAV, 5.0))
