"""Each difference that the page on compatibility tells has a test of its own, named here."""

import json
import multiprocessing
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests_by_row import TESTS

import framefold as ff
from framefold.exceptions import FramefoldError, InvalidArgumentError
from framefold.masks import radial_bins
from framefold.udf import UDF
from framefold.udf.com import CoMUDF
from framefold.udf.stddev import StdDevUDF
from framefold.viz.base import Dummy2DPlot

HERE = Path(__file__).resolve()
PAGE = HERE.parents[2] / "docs" / "compatibility.md"
DATA = np.random.default_rng(4).integers(0, 100, (4, 5, 8, 6)).astype(np.float32)


def rows(status):
    """The features of that status, without marks."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line[:2] == "| "]
    return [cell[0].replace("`", "") for cell in cells if len(cell) > 2 and cell[2] == status]


def test_every_difference_is_tested_by_name():
    assert sorted(TESTS) == sorted(rows("differs"))


@pytest.mark.parametrize("feature", TESTS)
def test_tests_exist(feature):
    for place in TESTS[feature]:
        file, _, name = place.partition("::")
        text = (HERE.parents[1] / file).read_text(encoding="utf-8")
        assert re.search(rf"def {name}\(", text), place


@pytest.fixture
def dataset():
    return ff.Context.make_with("inline").load("memory", data=DATA, sig_dims=2, num_partitions=3)


@pytest.fixture
def ctx():
    return ff.Context.make_with("inline")


class Sums(UDF):
    def get_result_buffers(self):
        return {"x": self.buffer("nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.x[:] = frame.sum()


def test_making_a_context_starts_nothing():
    threads, children = threading.active_count(), multiprocessing.active_children()
    contexts = [ff.Context(), ff.Context.make_with("threads"), ff.Context.make_with("processes")]
    assert threading.active_count() == threads
    assert multiprocessing.active_children() == children
    for context in contexts:
        context.close()


def test_methods_are_chosen_by_plain_strings(ctx, dataset):
    class Chosen(Sums):
        def get_method(self):
            return "tile"

        def process_tile(self, tile):
            self.results.x[:] += 2 * tile.sum(axis=(1, 2))

    np.testing.assert_allclose(ctx.run_udf(dataset, Chosen())["x"].data, 2 * DATA.sum(axis=(2, 3)))


@pytest.mark.parametrize("dtype", [object, "U3", "datetime64[s]"])
def test_dtypes_that_are_not_numbers_are_refused(ctx, dataset, dtype):
    class Wrong(Sums):
        def get_preferred_input_dtype(self):
            return np.dtype(dtype)

    with pytest.raises(InvalidArgumentError, match="unknown dtype"):
        ctx.run_udf(dataset, Wrong())


def test_native_functions_do_not_widen_what_others_get(ctx):
    seen = set()

    class Native(Sums):
        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

        def process_frame(self, frame):
            seen.add(frame.dtype)

    dataset = ctx.load("memory", data=DATA.astype(np.uint16), sig_dims=2)
    ctx.run_udf(dataset, [Native(), ff.SumUDF(), CoMUDF()])
    assert seen == {np.dtype(np.uint16)}


def test_the_main_side_has_numpy_and_the_whole_frame(ctx, dataset):
    seen = []

    class Looks(Sums):
        def merge(self, dest, src):
            dest.x[:] = src.x
            self.look()

        def get_results(self):
            self.look()
            return {"x": self.results.x}

        def look(self):
            seen.append((self.xp, self.meta.array_backend, self.meta.threads_per_worker))
            assert tuple(self.meta.sig_slice.shape) == (8, 6)
            np.testing.assert_array_equal(self.meta.coordinates, np.argwhere(roi))

    roi = DATA.sum(axis=(2, 3)) > np.median(DATA.sum(axis=(2, 3)))
    ctx.run_udf(dataset, Looks(), roi=roi)
    assert seen == len(seen) * [(np, None, 1)]


def test_aux_data_in_preprocess_are_those_of_the_selected_frames(ctx, dataset):
    seen = []

    class Looks(Sums):
        def preprocess(self):
            if self.meta.slice is None:
                seen.append(np.array(self.params.weights))

    roi = np.zeros((4, 5), bool)
    roi[1, 2:] = True
    weights = UDF.aux_data(np.arange(20), kind="nav", dtype="float32")
    ctx.run_udf(dataset, Looks(weights=weights), roi=roi)
    np.testing.assert_array_equal(seen, [[7, 8, 9]])
    ctx.run_udf(dataset, Looks(weights=weights))
    np.testing.assert_array_equal(seen[1], np.arange(20))


def test_aux_data_of_merges_and_results_are_those_of_the_selected_frames(ctx, dataset):
    merged, results = [], []

    class Looks(Sums):
        def merge(self, dest, src):
            merged.extend(self.params.weights)
            dest.x[:] = src.x

        def get_results(self):
            results.extend(self.params.weights)
            return {"x": self.results.x}

    roi = np.arange(20).reshape(4, 5) % 3 == 1
    weights = UDF.aux_data(np.arange(20), kind="nav", dtype="float32")
    ctx.run_udf(dataset, Looks(weights=weights), roi=roi)
    assert merged == results == np.flatnonzero(roi).tolist()


def test_one_frame_alone_is_a_scan_of_one(ctx, tmp_path):
    np.save(tmp_path / "frame.npy", DATA[0, 0])
    for dataset in (
        ctx.load("npy", path=tmp_path / "frame.npy", sig_dims=2),
        ctx.load("memory", data=DATA[0, 0], sig_dims=2),
    ):
        assert tuple(dataset.shape) == (1, 8, 6)
        assert tuple(dataset.shape.nav) == (1,)
        np.testing.assert_array_equal(ctx.run_udf(dataset, Sums())["x"], [DATA[0, 0].sum()])


def test_plots_of_functions_that_are_not_listed_are_left_out(dataset):
    made = []

    class Plot(Dummy2DPlot):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self.channel)

    with ff.Context.make_with("inline", plot_class=Plot) as ctx:
        ctx.run_udf(dataset, [ff.SumUDF(), ff.SumSigUDF()], plots=[["intensity"]])
        assert made == ["intensity"]


def test_statistics_have_the_dtype_that_is_declared(ctx, dataset):
    result = ctx.run_udf(dataset, StdDevUDF(dtype="float32"))
    assert {result[name].dtype for name in ("var", "std", "mean")} == {np.dtype("float32")}
    turned = ctx.load("memory", data=DATA + 1j * DATA, sig_dims=2)
    result = ctx.run_udf(turned, StdDevUDF(dtype="complex64"))
    assert (result["std"].dtype.kind, result["mean"].dtype.kind) == ("f", "c")
    np.testing.assert_allclose(result["std"].data, (DATA + 1j * DATA).std(axis=(0, 1)), rtol=1e-5)


def test_fields_have_the_dtype_that_is_declared(ctx, dataset):
    for result in (
        ctx.run_udf(dataset, CoMUDF(cy=3, cx=2)),
        ctx.run_udf(dataset, CoMUDF.with_params(cy=3, cx=2)),
    ):
        names = ("field", "field_y", "field_x", "magnitude", "divergence", "curl")
        assert {result[name].dtype for name in names} == {np.dtype("float32")}
    analysis = ctx.run(ctx.create_com_analysis(dataset, cy=3, cx=2))
    assert analysis.magnitude.raw_data.dtype == np.float32
    assert analysis.field.raw_data.shape == (2, 4, 5)
    x, y = analysis.field.raw_data
    np.testing.assert_array_equal(x, analysis.x.raw_data)
    np.testing.assert_array_equal(y, analysis.y.raw_data)
    whole = ctx.run(ctx.create_com_analysis(dataset, cy=3, cx=2, mask_radius_inner=2))
    assert not np.allclose(whole.magnitude.raw_data, analysis.magnitude.raw_data)


def test_divergence_and_curl_stay_within_a_roi(ctx, dataset):
    roi = np.ones((4, 5), bool)
    roi[1, 2] = False  # its neighbours are selected
    analysis = ctx.run(ctx.create_com_analysis(dataset, cy=3, cx=2), roi=roi)
    for result in (analysis.divergence, analysis.curl):
        assert np.isnan(result.raw_data[1, 2])
        assert np.isfinite(result.raw_data).any()


def test_normalized_bins_add_up_to_one():
    bins = radial_bins(8, 8, 16, 16, radius=6, n_bins=3, normalize=True, use_sparse=False)
    np.testing.assert_allclose(bins.sum(axis=(1, 2)), 1)


def test_info_has_the_byte_order_of_a_file(ctx, tmp_path):
    path = tmp_path / "scan.npy"
    np.save(path, DATA.astype(">u2"))
    dataset = ctx.load("npy", path)
    assert dataset.dtype == np.uint16
    assert dataset.dtype.isnative
    command = [sys.executable, "-m", "framefold", "info", "--json", str(path)]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert json.loads(said)["byte_order"] == "big"
    np.testing.assert_array_equal(dataset.frame(1, 2), DATA[1, 2])


def test_files_in_fortran_order_are_read(ctx, tmp_path):
    np.save(tmp_path / "scan.npy", np.asfortranarray(DATA))
    dataset = ctx.load("npy", tmp_path / "scan.npy")
    np.testing.assert_array_equal(np.asarray(dataset), DATA)


def test_options_that_only_the_reference_needs_are_refused(ctx, tmp_path):
    DATA.tofile(tmp_path / "scan.raw")
    shape = {"nav_shape": (4, 5), "sig_shape": (8, 6), "dtype": "float32"}
    for enable_direct in (False, True):
        dataset = ctx.load("raw", tmp_path / "scan.raw", **shape, enable_direct=enable_direct)
        np.testing.assert_array_equal(np.asarray(dataset), DATA)
    with pytest.raises(FramefoldError, match="detector_size_raw"):
        ctx.load("raw", tmp_path / "scan.raw", **shape, detector_size_raw=(8, 6))
    with pytest.raises(FramefoldError, match="dest_dtype"):
        ctx.load("frms6", tmp_path / "scan.hdr", dest_dtype="float32")
    assert ctx.load("memory", data=DATA, io_backend=None).shape == DATA.shape
    tests = ({"tiledelay": 1}, {"base_shape": (1, 1)}, {"force_need_decode": True})
    for option in (*tests, {"io_backend": "mmap"}):
        with pytest.raises(FramefoldError, match=next(iter(option))):
            ctx.load("memory", data=DATA, sig_dims=2, **option)
    with pytest.raises(TypeError, match="unexpected keyword argument 'init'"):
        ctx.run_udf(dataset=dataset, fn=len, make_buffers=dict, init=dict)


def test_raw_data_that_are_computed_at_the_end_are_flat(ctx, dataset):
    class Computes(Sums):
        def get_result_buffers(self):
            return {**super().get_result_buffers(), "y": self.buffer("nav", use="result_only")}

        def get_results(self):
            return {"y": self.results.x.reshape(self.meta.dataset_shape.nav)}

    found = ctx.run_udf(dataset=dataset, udf=Computes())
    assert found["y"].raw_data.shape == found["x"].raw_data.shape == (20,)
    assert found["y"].data.shape == (4, 5)


def test_the_number_of_cores_changes_nothing(ctx, dataset):
    before = ctx.explain(dataset, Sums())
    dataset.set_num_cores(17)
    assert ctx.explain(dataset, Sums()) == before
    assert dataset.initialize(ctx.executor) is dataset
    assert dataset.check_valid()


@pytest.mark.parametrize("executor", ["inline", "processes"])
def test_schemes_tell_what_their_tiles_are_for(executor):
    class Tells(UDF):
        def get_result_buffers(self):
            return {"intent": self.buffer("single", dtype="U9")}

        def merge(self, dest, src):
            dest.intent[:] = src.intent

        def tell(self, data):
            self.results.intent[:] = self.meta.tiling_scheme.intent

    methods = ("tile", "frames", "frame", "partition")
    udfs = [type("TellsBy", (Tells,), {f"process_{method}": Tells.tell})() for method in methods]
    with ff.Context.make_with(executor) as ctx:
        results = ctx.run_udf(ctx.load("memory", data=DATA, sig_dims=2), udfs)
    intents = [str(result["intent"].data[0]) for result in results]
    assert intents == ["tile", "frame", "frame", "partition"]
