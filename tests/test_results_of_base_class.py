"""``super().get_results()`` of the base class: the merged public buffers by name."""

from __future__ import annotations

import fake_cupy
import numpy as np
import pytest
from cuda_udfs import CUPY
from shared_contexts import shared
from test_native_udf import Sums as KeptSums
from test_native_udf import runs_here

import framefold as ff
from framefold.exceptions import UDFError
from framefold.udf import UDF
from framefold.udf.auto import AutoUDF
from framefold.udf.logsum import LogsumUDF
from framefold.udf.masks import ApplyMasksUDF
from framefold.udf.max import MaxUDF
from framefold.udf.raw import PickUDF
from framefold.udf.stddev import StdDevUDF
from framefold.udf.sum import SumUDF
from framefold.udf.sumsigudf import SumSigUDF
from framefold.warnings import DataSetWarning, MissingFramesWarning

NAV, SIG = (4, 5), (6, 7)
DATA = np.random.default_rng(3).integers(0, 100, (*NAV, *SIG)).astype("float32")
ROI = np.random.default_rng(4).random(NAV) < 0.5
SUM = DATA.sum(axis=(0, 1))
EXECUTORS = ["inline", "threads", "processes", "dask", "delayed"]


@pytest.fixture(scope="module", params=EXECUTORS)
def run(request):
    with shared(request.param) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
        yield lambda udf, **options: ctx.run_udf(dataset, udf, **options)


@pytest.fixture
def inline():
    with ff.Context.make_with("inline") as ctx:
        yield ctx, ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)


class Kinds(UDF):
    """Buffers of all kinds and uses."""

    def get_result_buffers(self):
        return {
            "nav": self.buffer("nav"),
            "hidden": self.buffer("sig", use="private"),
            "pair": self.buffer("nav", extra_shape=(2,), dtype="int64"),
            "sig": self.buffer("sig", dtype="float64"),
            "end": self.buffer("sig", use="result_only"),
            "one": self.buffer("single", dtype="int64"),
            "three": self.buffer("single", extra_shape=(3,), dtype="complex64"),
            "text": self.buffer("nav", dtype=object),
        }

    def process_frame(self, frame):
        self.results.nav[:] = frame.sum()
        self.results.pair[:] = 1, 2
        self.results.sig[:] += frame
        self.results.hidden[:] += frame
        self.results.one[:] += 1
        self.results.three[:] += 1j
        self.results.text[:] = "a"

    def merge(self, dest, src):
        dest.nav[:], dest.pair[:], dest.text[:] = src.nav, src.pair, src.text
        for name in ("sig", "hidden", "one", "three"):
            getattr(dest, name)[:] += getattr(src, name)


class Looks(Kinds):
    """Compares what the base class gives with what is merged."""

    def get_results(self):
        merged = super().get_results()
        assert list(merged) == ["nav", "pair", "sig", "one", "three", "text"]
        for name, array in merged.items():
            view = getattr(self.results, name)
            assert type(array) is np.ndarray
            assert array.flags.writeable
            assert (array.shape, array.dtype) == (view.shape, view.dtype)
            assert not np.shares_memory(array, view)
            np.testing.assert_array_equal(array, view)
        return {"end": merged.pop("sig") * 2, **merged}


class Changes(Kinds):
    """Changes in place what the base class gives."""

    def get_results(self):
        merged = super().get_results()
        for name in ("nav", "sig", "one"):
            merged[name] *= 3
        return {**merged, "end": merged["sig"]}


@pytest.mark.parametrize("roi", [None, ROI], ids=["all", "roi"])
def test_merged_public_buffers_by_name(run, roi):
    result = run(Looks(), roi=roi)
    assert list(result) == ["nav", "pair", "sig", "end", "one", "three", "text"]
    frames = DATA.reshape(-1, *SIG) if roi is None else DATA[roi]
    np.testing.assert_array_equal(result["nav"].raw_data.ravel(), frames.sum(axis=(1, 2)))
    np.testing.assert_array_equal(result["end"].data, 2 * frames.sum(axis=0))
    np.testing.assert_array_equal(result["sig"].data, frames.sum(axis=0))
    assert list(result["one"].data) == [len(frames)]
    assert set(np.asarray(result["text"].raw_data).ravel()) == {"a"}


@pytest.mark.parametrize("roi", [None, ROI], ids=["all", "roi"])
def test_they_may_be_changed(run, roi):
    result = run(Changes(), roi=roi)
    frames = DATA.reshape(-1, *SIG) if roi is None else DATA[roi]
    for name in ("sig", "end"):
        np.testing.assert_array_equal(result[name].data, 3 * frames.sum(axis=0))
    np.testing.assert_array_equal(result["nav"].raw_data.ravel(), 3 * frames.sum(axis=(1, 2)))
    assert list(result["one"].data) == [3 * len(frames)]


def test_changes_do_not_reach_later_merges(inline):
    ctx, dataset = inline
    kept, n_merged = [], 0
    for part in ctx.run_udf_iter(dataset, Changes()):
        merged = part.damage.data
        for _ in range(2):  # however often it is looked at
            np.testing.assert_array_equal(part[0]["sig"].data, 3 * DATA[merged].sum(axis=0))
        np.testing.assert_array_equal(
            part[0]["nav"].data[merged], 3 * DATA[merged].sum(axis=(1, 2))
        )
        np.testing.assert_array_equal(part[0]["nav"].valid_mask, merged)
        assert merged.sum() > n_merged
        n_merged = merged.sum()
        kept.append((part[0]["sig"], part[0]["sig"].data.copy()))
    assert len(kept) == 3
    for result, then in kept:
        np.testing.assert_array_equal(result.data, then)


class Toggles(Kinds):
    """A mask that is a merged buffer."""

    def get_result_buffers(self):
        return {
            "sig": self.buffer("sig", dtype="float64"),
            "valid": self.buffer("sig", dtype=bool, use="private"),
        }

    def process_frame(self, frame):
        self.results.sig[:] += frame

    def merge(self, dest, src):
        dest.sig[:] += src.sig
        dest.valid[:] = ~dest.valid

    def get_results(self):
        return {"sig": self.with_mask(self.results.sig, self.results.valid)}


def test_results_and_masks_that_are_merged_buffers_stay(inline):
    ctx, dataset = inline
    kept, sums = [], []
    for part in ctx.run_udf_iter(dataset, Toggles()):
        part[0]["sig"].valid_mask  # noqa: B018 - computed when it is first looked at
        kept.append(part[0]["sig"])
        sums.append(DATA[part.damage.data].sum(axis=0))
    assert [bool(result.valid_mask.all()) for result in kept] == [True, False, True]
    assert [bool(result.valid_mask.any()) for result in kept] == [True, False, True]
    for result, then in zip(kept, sums, strict=True):
        np.testing.assert_array_equal(result.data, then)


class Dim(UDF):
    """Means of frames, of which bright ones are no results, and a sum that is always one."""

    def get_result_buffers(self):
        return {"mean": self.buffer("nav"), "sum": self.buffer("sig"), "n": self.buffer("single")}

    def process_frame(self, frame):
        self.results.mean[:] = frame.mean()
        self.results.sum[:] += frame
        self.results.n[:] += 1

    def merge(self, dest, src):
        dest.mean[:] = src.mean
        dest.sum[:] += src.sum
        dest.n[:] += src.n

    def get_results(self):
        mean, total, n = self.results.mean, self.results.sum, self.results.n
        return {
            "mean": self.with_mask(mean, mean < 5),
            "sum": np.ma.array(total, mask=False),
            "n": n,
        }


DIM = np.arange(1, 8, dtype="float32")[:, None, None] * np.ones((7, 2, 3), "float32")


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "delayed"])
def test_own_masks_count_beside_frames_that_are_missing(executor):
    valid = [False, False, True, True, True, True, False]
    with shared(executor) as ctx:
        with pytest.warns(DataSetWarning, match="the first 2 positions have no data"):
            dataset = ctx.load("memory", data=DIM, sig_dims=2, sync_offset=-2, num_partitions=3)
        with pytest.warns(MissingFramesWarning):
            mean = ctx.run_udf(dataset, Dim())["mean"]
        assert mean.valid_mask.tolist() == valid
        assert (~mean.raw_masked_data.mask).tolist() == valid
        assert mean.raw_masked_data.mean() == mean.masked_data.mean() == 2.5
        with pytest.warns(UserWarning, match="the ROI selects no position"):
            found = ctx.run_udf(dataset, Dim(), roi=[])
        for result in found.values():
            assert not result.valid_mask.any()
            assert np.ma.getmaskarray(result.raw_masked_data).all()


def test_own_masks_count_beside_frames_that_are_not_merged_yet(inline):
    ctx, _ = inline
    dataset = ctx.load("memory", data=DIM, sig_dims=2, num_partitions=3)
    for part in ctx.run_udf_iter(dataset, Dim()):
        mean = part[0]["mean"]
        valid = part.damage.data & (np.arange(1, 8) < 5)
        assert valid.any()
        assert np.array_equal(mean.valid_mask, valid)
        assert np.array_equal(~np.ma.getmaskarray(mean.raw_masked_data), valid)


def thrice(cls):
    """The same with all results that the base class gives, times three."""

    class Thrice(cls):
        def get_results(self):
            return {name: 3 * array for name, array in super().get_results().items()}

    return Thrice


CASES = {
    "sum": (SumUDF, {}, ["intensity"]),
    "sumsig": (SumSigUDF, {}, ["intensity"]),
    "max": (MaxUDF, {}, ["intensity"]),
    "logsum": (LogsumUDF, {}, ["logsum"]),
    "masks": (ApplyMasksUDF, {"mask_factories": [lambda: np.ones(SIG, "f4")]}, ["intensity"]),
    "pick": (PickUDF, {}, ["intensity"]),
    "auto": (AutoUDF, {"f": np.sum}, ["result"]),
    # Its class computes these, and leaves the rest as they are.
    "stddev": (StdDevUDF, {}, ["var", "std", "mean"]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("roi", [None, ROI], ids=["all", "roi"])
def test_classes_that_derive_from_built_in_ones(run, case, roi):
    cls, params, changed = CASES[case]
    plain, found = run(cls(**params), roi=roi), run(thrice(cls)(**params), roi=roi)
    assert plain.keys() == found.keys()
    for name in plain:
        factor = 3 if name in changed else 1
        np.testing.assert_allclose(
            found[name].raw_data, factor * np.asarray(plain[name].raw_data), rtol=1e-5
        )


class Wider(SumUDF):
    """Calls the base class of all by its name, beside its own."""

    def get_results(self):
        assert UDF.get_results(self).keys() == super().get_results().keys() == {"intensity"}
        return UDF.get_results(self)


def test_nothing_but_what_the_base_class_gives(run):
    np.testing.assert_array_equal(run(Wider())["intensity"].data, SUM)


@runs_here
@pytest.mark.parametrize("roi", [None, ROI], ids=["all", "roi"])
def test_functions_that_others_compiled(run, roi):
    plain = run(ff.NativeUDF(KeptSums()), roi=roi)
    found = run(thrice(ff.NativeUDF)(KeptSums()), roi=roi)
    assert plain.keys() == found.keys() == {"of_frames", "of_pixels"}
    for name in plain:
        np.testing.assert_array_equal(found[name].raw_data, 3 * np.asarray(plain[name].raw_data))


def test_compiled_methods(run):
    pytest.importorskip("numba")

    class Compiled(UDF):
        def get_result_buffers(self):
            return {
                "sig": self.buffer("sig", dtype="float64"),
                "hidden": self.buffer("single", dtype="int64", use="private"),
            }

        @ff.compiled
        def process_frame(self, frame):
            self.results.hidden[0] += 1
            for y in range(frame.shape[0]):
                for x in range(frame.shape[1]):
                    self.results.sig[y, x] += frame[y, x]

        def merge(self, dest, src):
            dest.sig[:] += src.sig
            dest.hidden[:] += src.hidden

        def get_results(self):
            merged = super().get_results()
            assert list(merged) == ["sig"]
            merged["sig"] /= self.results.hidden[0]
            return merged

    np.testing.assert_allclose(run(Compiled())["sig"].data, SUM / 20, rtol=1e-6)


class OnDevice(Kinds):
    """Buffers on the device while a partition is processed."""

    def get_backends(self):
        return (CUPY,)

    def get_result_buffers(self):
        return {
            "sig": self.buffer("sig", dtype="float64", where="device"),
            "hidden": self.buffer("sig", dtype="float64", where="device", use="private"),
        }

    def process_frame(self, frame):
        assert isinstance(self.results.sig, fake_cupy.ndarray)
        self.results.sig[:] += frame
        self.results.hidden[:] += frame

    def merge(self, dest, src):
        dest.sig[:] += src.sig
        dest.hidden[:] += src.hidden

    def get_results(self):
        merged = super().get_results()
        assert {name: type(array) for name, array in merged.items()} == {"sig": np.ndarray}
        merged["sig"] *= 3
        return merged


@pytest.mark.usefixtures("machine")
def test_buffers_on_a_device():
    with ff.Context.make_with("threads", cpus=1, gpus=[0]) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
        for part in ctx.run_udf_iter(dataset, OnDevice()):
            merged = part.damage.data
            np.testing.assert_array_equal(part[0]["sig"].data, 3 * DATA[merged].sum(axis=0))
        assert merged.all()


class AsItCame(Kinds):
    """Adds nothing to what the base class gives."""

    def get_results(self):
        return super().get_results()


def test_results_that_nothing_computes_are_noticed(run):
    with pytest.raises(UDFError, match=r"AsItCame.get_results did not return 'end'"):
        _ = run(AsItCame())["sig"].data


class Forgotten(Kinds):
    """Without ``end``, which has to be returned anyway."""

    def get_result_buffers(self):
        buffers = super().get_result_buffers()
        return {name: buffers[name] for name in buffers if name != "end"}

    def get_results(self):
        _ = {"sig": self.results.sig / 2}


NO_RETURN = r"Forgotten.get_results returned None, expected a dict .* was 'return' forgotten\?"


def test_a_return_that_was_forgotten(run):
    with pytest.raises(UDFError, match=NO_RETURN):
        _ = run(Forgotten())["sig"].data


def test_a_return_that_was_forgotten_shows_in_the_first_partial_result(inline):
    ctx, dataset = inline
    with ctx.run_udf_iter(dataset, Forgotten()) as steps, pytest.raises(UDFError, match=NO_RETURN):
        next(steps).buffers  # noqa: B018


def test_after_a_run_and_before_one(inline):
    ctx, dataset = inline
    for udf in (SumUDF(), thrice(SumUDF)()):
        assert UDF.get_results(udf) == {}
        ctx.run_udf(dataset, udf)
        np.testing.assert_array_equal(UDF.get_results(udf)["intensity"], SUM)


class Sums(UDF):
    """The sum of all frames, with nothing to compute in the end."""

    def get_result_buffers(self):
        return {"sig": self.buffer("sig", dtype="float64")}

    def process_frame(self, frame):
        self.results.sig[:] += frame

    def merge(self, dest, src):
        dest.sig[:] += src.sig


def test_who_has_no_other_pays_nothing(inline, monkeypatch):
    """Who has none of its own is not asked: its merged buffers would be copied twice."""
    calls = []
    get_results = UDF.get_results

    def counts(self):
        calls.append(type(self).__name__)
        return get_results(self)

    monkeypatch.setattr(UDF, "get_results", counts)

    ctx, dataset = inline
    for udf in (Sums(), SumUDF(), StdDevUDF(), AutoUDF(f=np.sum)):
        ctx.run_udf(dataset, udf)
    for part in ctx.run_udf_iter(dataset, Sums()):
        part[0]["sig"].data  # noqa: B018
    assert calls == []
    ctx.run_udf(dataset, thrice(Sums)())
    assert calls == ["Thrice"]


def test_those_that_are_set_on_the_object(inline):
    ctx, dataset = inline
    udf = Sums()
    udf.get_results = lambda: {"sig": 3 * UDF.get_results(udf)["sig"]}
    np.testing.assert_array_equal(ctx.run_udf(dataset, udf)["sig"].data, 3 * SUM)


class Rows(UDF):
    """The sum of each frame, merged by the base class."""

    def get_result_buffers(self):
        return {"result": self.buffer("nav")}

    def process_frame(self, frame):
        self.results.result[:] = frame.sum()


def test_rows_that_are_files(inline, tmp_path):
    """Rows go to a file as they come, unless ``get_results`` makes others of them."""
    ctx, dataset = inline
    for factor, udf in (
        (1, Rows()),
        (3, thrice(Rows)()),
        (1, AutoUDF(f=np.sum)),
        (3, thrice(AutoUDF)(f=np.sum)),
    ):
        path = tmp_path / "rows.npy"
        ctx.run_udf(dataset, udf, out=path, overwrite=True)
        np.testing.assert_allclose(np.load(path), factor * DATA.sum(axis=(2, 3)), rtol=1e-6)
