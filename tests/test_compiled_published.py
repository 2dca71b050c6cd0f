"""Functions of kinds that are published, compiled and interpreted: their results are equal.

The first is the example of the specification with Numba: a loop over the pixels of some frames.
"""

import os
import subprocess
import sys

import numpy as np
import published_udfs
import pytest
from compiled_cases import both, cache, dataset, interpreted, results  # noqa: F401
from published_udfs import (
    TEMPLATE,
    WINDOWS,
    Autocorrelation,
    Correlation,
    Counting,
    Deviation,
    Peaks,
    RadialProfile,
)

import framefold as ff

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("threads")


@pytest.fixture(scope="module")
def data():
    return published_udfs.numbers()


def test_example_of_the_specification(ctx, data):
    found = both(ctx, data, Deviation)
    n = 30
    variance = found["squares"] / n - (found["sums"] / n) ** 2
    np.testing.assert_allclose(variance, data.var((0, 1), dtype="f8"))


def test_radial_profile(ctx, data):
    params = {"n_bins": 9, "cy": 7.5, "cx": 7.0}
    found = both(ctx, data, RadialProfile, params=lambda: params)["profile"]
    y, x = np.indices((16, 16))
    r = np.minimum(np.hypot(y - 7.5, x - 7.0).astype(int), 8)
    for i in range(9):
        np.testing.assert_allclose(found[:, i], data.reshape(30, 16, 16)[:, r == i].mean(1))


def test_threshold_counting(ctx, data):
    found = both(ctx, data, Counting, params=lambda: {"threshold": 40})
    inner = data[..., 1:-1, 1:-1]
    hit = (inner > 40) & (inner > data[..., :-2, 1:-1]) & (inner > data[..., 2:, 1:-1])
    hit &= (inner >= data[..., 1:-1, :-2]) & (inner > data[..., 1:-1, 2:])
    np.testing.assert_array_equal(found["image"][1:-1, 1:-1], hit.sum((0, 1)))


def test_peaks_in_windows(ctx, data):
    # An integer times a float32 is a float64 in compiled code, and a float32 for NumPy.
    params = {"windows": WINDOWS, "size": 5}
    found = both(ctx, data, Peaks, equal=False, params=lambda: params)["peaks"]
    for i, (y, x) in enumerate(WINDOWS):
        part = data.reshape(30, 16, 16)[:, y : y + 5, x : x + 5]
        np.testing.assert_array_equal(found[:, i, 0], part.max((1, 2)))


def test_cross_correlation_of_a_window(ctx, data):
    part = data[:2, :3]
    found = both(ctx, part, Correlation, params=lambda: {"template": TEMPLATE})
    views = np.lib.stride_tricks.sliding_window_view(part.reshape(6, 16, 16), (6, 7), (1, 2))
    scores = np.einsum("nyxab,ab->nyx", views, TEMPLATE)
    np.testing.assert_array_equal(found["best"], scores.max((1, 2)))


def test_autocorrelation(ctx, data):
    found = both(ctx, data, Autocorrelation, params=lambda: {"n": 3})["map"]
    assert found[0, 0] == (data.astype("f8") ** 2).sum()
    assert found[1, 2] == (data[..., :-1, :-2].astype("f8") * data[..., 1:, 2:]).sum()


NO_NUMBA = "import sys; sys.modules['numba'] = None; "
RUN = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


@pytest.mark.parametrize("where", ["without Numba", "LiberTEM"])
def test_the_same_file_elsewhere(tmp_path, where):
    python, before, path = sys.executable, NO_NUMBA, os.path.dirname(os.path.dirname(ff.__file__))
    if where == "LiberTEM":
        python, before, path = os.environ.get("LIBERTEM_PYTHON"), "", ""
        if not python:
            pytest.skip("LIBERTEM_PYTHON names no interpreter that has LiberTEM")
    published_udfs.main(tmp_path / "here.npz")
    there = tmp_path / "there.npz"
    command = [python, "-W", "ignore", "-c", before + RUN, published_udfs.__file__, str(there)]
    subprocess.run(command, check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path})
    here, found = np.load(tmp_path / "here.npz"), np.load(there)
    assert found["engine"] == ("libertem" if where == "LiberTEM" else "framefold")
    for name in set(here) - {"engine"}:
        # An integer times a float32 is a float64 in compiled code, and a float32 for NumPy.
        compare = np.testing.assert_allclose if "Peaks" in name else np.testing.assert_array_equal
        compare(found[name], here[name], **({"rtol": 1e-5} if "Peaks" in name else {}))
    assert set(here) == set(found)


def test_arithmetic_that_differs(ctx):
    # What the guide says: integers are not wrapped at their own width, but computed with 64 bits.
    class Widths(ff.UDF):
        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype="int64")}

        @ff.compiled
        def process_frame(self, frame):
            self.results.x[0] = frame[0, 0] + frame[0, 1]

    data = np.full((1, 2, 2, 2), 200, "uint8")
    assert results(ctx, data, Widths())["x"].tolist() == [400, 400]
    with pytest.warns(RuntimeWarning, match="overflow"):
        assert results(ctx, data, interpreted(Widths)())["x"].tolist() == [144, 144]


def test_differences_of_unsigned_integers(ctx):
    # What the guide says, with its way out.
    class Differences(ff.UDF):
        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

        def get_result_buffers(self):
            kinds = {"whole": "int64", "real": "float64", "signed": "float64"}
            return {name: self.buffer("nav", dtype=dtype) for name, dtype in kinds.items()}

        @ff.compiled
        def process_frame(self, frame):
            self.results.whole[0] = frame[0, 0] - frame[0, 1]
            self.results.real[0] = frame[0, 0] - frame[0, 1]
            self.results.signed[0] = np.int64(frame[0, 0]) - np.int64(frame[0, 1])

    data = np.array([1, 2, 0, 0], "uint8").reshape(1, 1, 2, 2)
    found = results(ctx, data, Differences())
    assert [found[name][0] for name in found] == [-1, 2.0**64, -1]


def test_floats_that_differ(ctx):
    # What the guide says, with its ways out.
    class Floats(ff.UDF):
        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

        def get_result_buffers(self):
            return {name: self.buffer("nav", (2,), dtype="float64") for name in ("x", "same")}

    class Products(Floats):
        @ff.compiled
        def process_frame(self, frame):
            self.results.x[0] = frame[0, 0] * 0.1
            self.results.x[1] = (frame * self.params.factor)[0, 0]
            self.results.same[0] = frame[0, 0] * np.float32(0.1)
            self.results.same[1] = (frame * np.float32(0.1))[0, 0]

    class Roots(Floats):
        @ff.compiled
        def process_frame(self, frame):
            self.results.x[0] = np.sqrt(frame[0, 0])
            self.results.x[1] = np.hypot(frame, frame)[0, 0]
            self.results.same[0] = np.sqrt(np.float32(frame[0, 0]))
            same = frame.astype(np.float32)
            self.results.same[1] = np.hypot(same, same)[0, 0]

    for cls, dtype, plain, compiled in (
        (Products, "float32", "float32", "float64"),
        (Roots, "uint8", "float16", "float32"),
        (Roots, "int8", "float16", "float32"),
    ):
        data = np.full((1, 1, 2, 2), 3, dtype)
        found = results(ctx, data, cls(factor=0.1))
        other = results(ctx, data, interpreted(cls)(factor=0.1))
        np.testing.assert_array_equal(found["same"], other["same"])
        for values, kind in (found["x"], compiled), (other["x"], plain):
            assert (values == values.astype(kind)).all()
        assert (found["x"] != other["x"]).all()


def test_meta_of_what_runs_once(ctx):
    class Counts(ff.UDF):
        def get_result_buffers(self):
            return {name: self.buffer("nav", dtype="int64") for name in ("task", "own")}

        def get_task_data(self):
            return {"n": int(self.meta.partition_shape.nav[0])}

        @ff.compiled
        def process_frame(self, frame):
            self.results.task[0] = self.task_data.n
            self.results.own[0] = self.meta.partition_shape.nav[0]

    data = np.zeros((2, 3, 2, 2), "uint8")
    found = results(ctx, data, Counts(), options={"num_partitions": 2})
    assert found["own"].tolist() == [3] * 6
    assert found["task"].tolist() == [6] * 6
    plain = results(ctx, data, interpreted(Counts)(), options={"num_partitions": 2})
    assert plain["task"].tolist() == [3] * 6
