"""Result buffers by item, as whole buffers, and those that are only computed at the end."""

from __future__ import annotations

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.udf import UDF
from framefold.warnings import UseDiscouragedWarning

pytestmark = pytest.mark.filterwarnings("ignore::framefold.warnings.UseDiscouragedWarning")


@pytest.fixture
def sums(data):
    return data.sum(axis=(2, 3), dtype=float)


class Items(UDF):
    """Sums of frames, scaled, all of it through items."""

    def get_result_buffers(self):
        return {
            "x": self.buffer("nav", dtype="float64"),
            "two": self.buffer("nav", extra_shape=(2,), dtype="float64"),
            "total": self.buffer("sig", dtype="float64"),
            "scaled": self.buffer("nav", dtype="float64", use="result_only"),
        }

    def process_frame(self, frame):
        assert self.results.scaled is None
        assert self.results["scaled"] is None
        assert "scaled" not in self.results
        assert type(self.results["x"].data) is np.ndarray
        assert np.shares_memory(self.results["x"].data, self.results.x)
        self.results["x"].data[:] = frame.sum()
        self.results["two"].raw_data[:] = (1, frame.sum())
        self.results["total"].raw_data[:] += frame
        (self.results["total"] + 1).data[:] = 0
        self.results.get_buffer("total").data[:] += frame

    def merge(self, dest, src):
        assert "scaled" not in src
        dest.x[:], dest.two[:] = src.x, src.two
        dest.total[:] += src.total

    def get_results(self):
        assert self.results.scaled is None
        whole = self.results.get_buffer("x")
        assert whole.kind == "nav"
        assert whole.data.shape == tuple(self.meta.dataset_shape.nav)
        np.testing.assert_array_equal(whole.data, self.results["x"].data)
        assert self.results["two"].data.shape == (*self.meta.dataset_shape.nav, 2)
        assert self.results["x"].raw_data is not None
        return {"scaled": 3 * self.results["x"].raw_data, "x": self.results["x"]}


@pytest.mark.parametrize("roi", [False, True])
def test_items_are_buffers(ctx, dataset, data, sums, roi):
    mask = np.random.default_rng(0).random(sums.shape) < 0.5 if roi else np.ones(sums.shape, bool)
    result = ctx.run_udf(dataset, Items(), roi=mask if roi else None)
    np.testing.assert_array_equal(result["x"].raw_data, sums[mask])
    np.testing.assert_array_equal(result["two"].raw_data[:, 1], sums[mask])
    np.testing.assert_array_equal(result["scaled"].raw_data, 3 * sums[mask])
    np.testing.assert_array_equal(result["total"].data, 2.0 * data[mask].sum(axis=0))


@pytest.mark.parametrize("executor", ["inline", "processes", "delayed"])
def test_items_of_both_sides_of_a_merge_are_buffers(executor, data, sums):
    class Both(Items):
        def merge(self, dest, src):
            assert dest.scaled is None
            assert src["scaled"] is None
            dest["x"].data[:] = src["x"].data
            dest["two"].raw_data[:] = src["two"].raw_data
            dest.get_buffer("total").data[:] += src["total"].data
            dest["total"] += 0

    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=3)
        result = ctx.run_udf(dataset, Both())
        np.testing.assert_array_equal(result["x"].data, sums)
        np.testing.assert_array_equal(result["two"].data[..., 1], sums)
        np.testing.assert_array_equal(result["total"].data, 2.0 * data.sum(axis=(0, 1)))


def test_items_warn(dataset):
    with pytest.warns(UseDiscouragedWarning):
        ff.Context.make_with("inline").run_udf(dataset, Items())


def test_buffers_outside_of_the_region_hold_no_numbers(ctx, dataset, sums):
    class Looks(Items):
        def get_results(self):
            whole = self.results.get_buffer("x")
            return {**super().get_results(), "total": np.full((10, 12), np.isnan(whole.data).sum())}

    roi = np.zeros(sums.shape, bool)
    roi[1, :4] = True
    result = ctx.run_udf(dataset, Looks(), roi=roi)
    assert (result["total"].data == roi.size - 4).all()


def test_names_that_are_not_declared(ctx, dataset):
    class Wrong(Items):
        def process_frame(self, frame):
            with pytest.raises(AttributeError, match=r"no result buffer 'nothing'.*x, two, total"):
                _ = self.results.nothing
            with pytest.raises(KeyError, match=r"no result buffer 'nothing'"):
                self.results.get_buffer("nothing")
            with pytest.raises(AttributeError, match=r"no result buffer 'scaled' to assign"):
                self.results.scaled = 1

    ctx.run_udf(dataset, Wrong())


def test_raw_data_of_aux_data_have_one_axis_for_the_scan(ctx, dataset, data, sums):
    values = np.arange(sums.size * 3.0).reshape((*sums.shape, 3))
    for given in (values, values.reshape((-1, 3)), values.reshape(-1)):
        aux = UDF.aux_data(given, "nav", extra_shape=(3,), dtype="float64")
        assert aux.raw_data.shape == (sums.size, 3)
        np.testing.assert_array_equal(aux.raw_data, values.reshape((-1, 3)))
        assert aux.data.shape == given.shape
        assert np.array_equal(aux, given)
        aux.replace_array(values + 1)
        assert aux.data.shape == given.shape
    plain = UDF.aux_data(sums, "nav", dtype="float64")
    np.testing.assert_array_equal(plain.raw_data, sums.reshape(-1))
    sig = UDF.aux_data(data[0, 0], "sig", dtype="float64")
    np.testing.assert_array_equal(sig.raw_data, data[0, 0])
    odd = UDF.aux_data(np.zeros(7), "nav", extra_shape=(3,))
    assert odd.raw_data.shape == (7,)

    class Uses(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype="float64")}

        def process_frame(self, frame):
            self.results.x[:] = frame.sum() + self.params.plain

    result = ctx.run_udf(dataset, Uses(plain=plain))
    np.testing.assert_array_equal(result["x"].data, 2 * sums)
