"""AUX data: parameters of which user code sees the part that is its turn."""

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import InvalidArgumentError
from framefold.executor._wire.runs import pickle_rest
from framefold.run.plan import plan_run
from framefold.udf import UDF

NAV = np.arange(42.0).reshape(6, 7)
VECTORS = np.arange(84).reshape(6, 7, 2)
SIG = np.random.default_rng(0).random((10, 12))
SINGLE = np.arange(5.0)


def aux():
    return {
        "nav": UDF.aux_data(NAV, kind="nav", dtype="float64"),
        "vectors": UDF.aux_data(VECTORS, kind="nav", extra_shape=(2,), dtype=int),
        "sig": UDF.aux_data(SIG, kind="sig", dtype="float64"),
        "single": UDF.aux_data(SINGLE, kind="single", extra_shape=(5,), dtype="float64"),
    }


class Recorder(UDF):
    """Mirrors the AUX data it sees."""

    def get_result_buffers(self):
        return {
            "nav": self.buffer(kind="nav", dtype="float64"),
            "vectors": self.buffer(kind="nav", extra_shape=(2,), dtype=int),
            "weighted": self.buffer(kind="nav", dtype="float64"),
            "at_end": self.buffer(kind="nav", dtype="float64"),
            "total": self.buffer(kind="nav", dtype="float64", use="result_only"),
        }

    def preprocess(self):
        n = self.results.nav.shape[0]
        assert self.params.nav.shape == (n,)
        assert self.params.vectors.shape == (n, 2)
        assert self.params.sig.shape == (10, 12)
        assert np.array_equal(self.params.single, SINGLE)

    def postprocess(self):
        self.results.at_end[:] = self.params.nav

    def merge(self, dest, src):
        assert np.array_equal(src.at_end, self.params.nav)
        for name, array in src.items():
            getattr(dest, name)[:] = array

    def get_results(self):
        return {"total": self.params.nav + self.params.vectors.sum(axis=1)}


class PerFrame(Recorder):
    def process_frame(self, frame):
        assert self.params.nav.shape == (1,)
        assert self.params.vectors.shape == (2,)
        self.results.nav[:] = self.params.nav
        self.results.vectors[:] = self.params.vectors
        self.results.weighted[:] = (frame * self.params.sig).sum()


class PerTile(Recorder):
    def process_tile(self, tile):
        self.results.nav[:] = self.params.nav
        self.results.vectors[:] = self.params.vectors
        self.results.weighted[:] += (tile * self.params.sig).sum(axis=(1, 2))


class PerPartition(Recorder):
    def process_partition(self, partition):
        self.results.nav[:] = self.params.nav
        self.results.vectors[:] = self.params.vectors
        self.results.weighted[:] = (partition * self.params.sig).sum(axis=(1, 2))


@pytest.mark.parametrize("with_roi", [False, True])
@pytest.mark.parametrize("cls", [PerFrame, PerTile, PerPartition])
def test_each_sees_its_part(ctx, dataset, data, cls, with_roi):
    roi = np.random.default_rng(1).random((6, 7)) < 0.5 if with_roi else np.ones((6, 7), dtype=bool)
    result = ctx.run_udf(dataset, cls(**aux()), roi=roi if with_roi else None)
    assert np.array_equal(result["nav"].raw_data, NAV[roi])
    assert np.array_equal(result["at_end"].raw_data, NAV[roi])
    assert np.array_equal(result["vectors"].raw_data, VECTORS[roi])
    assert np.array_equal(result["total"].raw_data, NAV[roi] + VECTORS[roi].sum(axis=1))
    expected = (data[roi] * SIG).sum(axis=(1, 2))
    np.testing.assert_allclose(result["weighted"].raw_data, expected, rtol=1e-12)


def test_sig_data_are_sliced_with_the_tile(ctx):
    data = np.random.default_rng(3).integers(0, 9, size=(2, 3, 700, 800), dtype=np.uint8)
    weights = np.random.default_rng(4).random((700, 800))

    class Weighted(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav", dtype="float64")}

        def process_tile(self, tile):
            assert self.params.weights.shape == tile.shape[1:] != (700, 800)
            self.results.x[:] += (tile * self.params.weights).sum(axis=(1, 2))

    udf = Weighted(weights=UDF.aux_data(weights, kind="sig", dtype="float64"))
    result = ctx.run_udf(ctx.load("memory", data=data), udf)["x"].data
    np.testing.assert_allclose(result, (data * weights).sum(axis=(2, 3)), rtol=1e-12)


def test_navigation_may_be_flat(ctx, dataset):
    class Mirror(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def process_frame(self, frame):
            self.results.x[:] = self.params.x

    flat = UDF.aux_data(NAV.reshape(-1), kind="nav")
    assert np.array_equal(ctx.run_udf(dataset, Mirror(x=flat))["x"].data, NAV)


def test_all_entries_may_be_in_one_row(ctx, dataset):
    class First(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav", extra_shape=(2,))}

        def process_frame(self, frame):
            self.results.x[:] = self.params.x

    row = UDF.aux_data(VECTORS.ravel(), kind="nav", extra_shape=(2,))
    assert np.array_equal(ctx.run_udf(dataset, First(x=row))["x"].data, VECTORS)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"data": NAV[:5], "kind": "nav"}, r"'x' have shape \(5, 7\).*\(42,\) or \(6, 7\)"),
        ({"data": VECTORS, "kind": "nav", "extra_shape": (3,)}, r"\(6, 7, 2\).*\(6, 7, 3\)"),
        ({"data": SIG.T, "kind": "sig"}, r"\(12, 10\).*\(10, 12\)"),
        ({"data": SINGLE, "kind": "single", "extra_shape": (4,)}, r"\(5,\).*\(4,\)"),
    ],
)
def test_wrong_shapes(ctx, dataset, kwargs, message):
    with pytest.raises(InvalidArgumentError, match=message):
        ctx.run_udf(dataset, PerFrame(**{**aux(), "x": UDF.aux_data(**kwargs)}))


def test_a_kind_that_there_is_not():
    with pytest.raises(InvalidArgumentError, match="kind 'foo'; use 'nav', 'sig' or 'single'"):
        UDF.aux_data(SINGLE, kind="foo")


def test_views_are_read_only(ctx, dataset):
    class Vandal(PerFrame):
        def process_frame(self, frame):
            self.params.nav[:] = 0

    with pytest.raises(ValueError, match="read-only") as caught:
        ctx.run_udf(dataset, Vandal(**aux()))
    (note,) = caught.value.__notes__
    assert "UDF Vandal" in note
    assert "AUX data" in note
    assert "are read-only: work on a copy" in note
    assert NAV[0, 1] == 1


class Filled(UDF):
    """AUX data as partitions see them, and another parameter."""

    def __init__(self, aux, number=0):
        super().__init__(aux=aux, number=number)

    def get_result_buffers(self):
        return {"aux": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.aux[:] = self.params.aux


@pytest.mark.parametrize("with_change", [False, True])
@pytest.mark.parametrize("executor", ["inline", "processes", "dask"])
def test_data_that_are_filled_anew_while_a_run_goes_on(executor, with_change):
    """They are as they were when it began, wherever and whenever frames are processed."""
    given = NAV.copy()
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=np.zeros((6, 7, 2, 2)), num_partitions=42)
        udf = Filled(UDF.aux_data(given, kind="nav", dtype="float64"))
        steps = ctx.run_udf_iter(dataset, udf)
        if with_change:
            next(steps)
        given[:] = -1
        if with_change:
            steps.update(udf, number=1)
        *_, results = steps
        assert np.array_equal(results[0]["aux"].data, NAV)
        assert np.all(ctx.run_udf(dataset, udf)["aux"].data == -1)


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_data_that_are_filled_anew_and_given_once_more(executor):
    given = UDF.aux_data(NAV.copy(), kind="nav", dtype="float64")
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=np.zeros((6, 7, 2, 2)), num_partitions=42)
        udf = Filled(given)
        steps = ctx.run_udf_iter(dataset, udf)
        next(steps)
        given.data[:] = -1
        steps.update(udf, aux=given)
        *_, results = steps
    first = results.changes[0].first_frame
    found = results[0]["aux"].data.reshape(-1)
    assert np.array_equal(found[:first], NAV.reshape(-1)[:first])
    assert np.all(found[first:] == -1)


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_data_of_a_later_pass_that_are_filled_anew_in_an_earlier_one(executor):
    given = NAV.copy()

    class Fills(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="single")}

        def process_frame(self, frame):
            pass

        def merge(self, dest, src):
            given[:] = -1

    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=np.zeros((6, 7, 2, 2)), num_partitions=6)
        aux = UDF.aux_data(given, kind="nav", dtype="float64")
        waits = Filled(aux, number=ff.from_result(Fills(), "x"))
        assert np.array_equal(ctx.run_udf(dataset, waits)["aux"].data, NAV)
        assert waits.params.aux is aux
        assert np.all(ctx.run_udf(dataset, waits)["aux"].data == -1)


def test_data_of_several_functions_travel_once(ctx, dataset):
    given = UDF.aux_data(np.zeros((6, 7, 1000)), kind="nav", extra_shape=(1000,), dtype="float64")

    class Ignores(Filled):
        def process_frame(self, frame):
            self.results.aux[:] = self.params.aux[0]

    run = plan_run(dataset, [Ignores(given), Ignores(given), Ignores(given)], None, 0)
    arrays = [bridge.aux["aux"][1] for bridge in run.bridges]
    assert arrays[0] is arrays[1] is arrays[2]
    assert given.data.nbytes < len(pickle_rest(run)) < 2 * given.data.nbytes


@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_data_of_a_kernel_that_are_filled_anew_once_a_run_is_begun(executor):
    """Beside a function in Python, kernels work in other processes, too."""
    shifts = np.zeros((6, 7, 2))
    frames = np.random.default_rng(3).random((6, 7, 4, 4))
    mask = np.zeros((4, 4))
    mask[1, 1] = 1
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=frames, num_partitions=42)
        masks = ff.ApplyMasksUDF(mask_factories=[lambda: mask], shifts=shifts)
        given = UDF.aux_data(NAV, kind="nav", dtype="float64")
        steps = ctx.run_udf_iter(dataset, [masks, Filled(given)])
        shifts[:] = 1
        *_, results = steps
    found = results[0]["intensity"].data[..., 0]
    np.testing.assert_allclose(found, frames[..., 1, 1])
