"""Compiled functions: what they compute is what the interpreter computes, on all executors."""

from enum import StrEnum

import numpy as np
import pytest
from compiled_cases import both, cache, dataset, results  # noqa: F401

import framefold as ff
from framefold.compilation import store
from framefold.exceptions import UDFError

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


class Native(ff.UDF):
    """Gets the data as they are."""

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE


class Above(Native):
    """Counts pixels above a threshold."""

    def get_result_buffers(self):
        return {
            "n": self.buffer("nav", dtype="int64"),
            "image": self.buffer("sig", dtype="int64"),
            "total": self.buffer("single", dtype="int64"),
        }

    @ff.compiled
    def process_frame(self, frame):
        for y in range(frame.shape[0]):
            for x in range(frame.shape[1]):
                if frame[y, x] > self.params.threshold:
                    self.results.image[y, x] += 1
                    self.results.n[0] += 1
                    self.results.total[0] += 1

    def merge(self, dest, src):
        dest.n[:] = src.n
        dest.image += src.image
        dest.total += src.total


def numbers(shape, dtype, seed=0):
    made = np.random.default_rng(seed).integers(0, 100, shape)
    if np.dtype(dtype).kind == "b":
        return made > 50
    if np.dtype(dtype).kind == "c":
        return (made + 1j * made[::-1]).astype(dtype)
    return made.astype(dtype)


def test_counts_are_those_of_numpy(ctx):
    data = numbers((6, 5, 8, 9), "uint16")
    found = both(ctx, data, Above, params=lambda: {"threshold": 40})
    np.testing.assert_array_equal(found["n"], (data > 40).sum((2, 3)).reshape(-1))
    np.testing.assert_array_equal(found["image"], (data > 40).sum((0, 1)))
    assert found["total"][0] == (data > 40).sum()


def test_explain_says_compiled(ctx):
    said = ctx.explain(dataset=dataset(ctx, numbers((2, 3, 4, 4), "uint8")), udf=Above(threshold=1))
    assert "compiled" in said


class Each(Native):
    """Something of each frame, with extra shapes, for all dtypes and numbers of signal axes."""

    def get_result_buffers(self):
        dtype = np.result_type(self.meta.input_dtype, np.int64)
        return {
            "ends": self.buffer("nav", extra_shape=(2,), dtype=dtype),
            "first": self.buffer("nav", dtype=self.meta.input_dtype),
            "sums": self.buffer("sig", extra_shape=(2,), dtype=dtype),
            "count": self.buffer("single", extra_shape=(3,), dtype="float32"),
        }

    @ff.compiled
    def process_frame(self, frame):
        flat = frame.reshape(-1)
        self.results.ends[0] = flat[0]
        self.results.ends[1] = flat[flat.size - 1]
        self.results.first[0] = flat[0]
        sums = self.results.sums.reshape((-1, 2))
        for i in range(flat.size):
            sums[i, 0] += flat[i]
            sums[i, 1] += 1
        self.results.count[1] += 1

    def merge(self, dest, src):
        dest.ends[:] = src.ends
        dest.first[:] = src.first
        dest.sums += src.sums
        dest.count += src.count


INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES = ("bool", *INTEGERS, "float32", "float64", "complex64", "complex128")


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(ctx, dtype):
    data = numbers((4, 3, 3, 5), dtype)
    found = both(ctx, data, Each)
    np.testing.assert_array_equal(found["first"], data[..., 0, 0].reshape(-1))
    np.testing.assert_array_equal(found["sums"][..., 0], data.sum((0, 1)))


@pytest.mark.parametrize("sig", [(7,), (3, 5), (2, 3, 4)])
def test_numbers_of_signal_axes(ctx, sig):
    data = numbers((4, 3, *sig), "int32")
    found = both(ctx, data, Each, sig_dims=len(sig))
    np.testing.assert_array_equal(found["sums"][..., 0], data.sum((0, 1)))


def test_roi(ctx):
    data = numbers((6, 5, 4, 3), "int16")
    roi = np.random.default_rng(1).random((6, 5)) < 0.4
    found = both(ctx, data, Each, roi=roi)
    np.testing.assert_array_equal(found["first"], data[roi][:, 0, 0])


class Aux(Native):
    """AUX data of each kind, arrays and tuples of parameters."""

    def get_result_buffers(self):
        return {"sum": self.buffer("nav", dtype="float64"), "row": self.buffer("nav", (3,), "f8")}

    @ff.compiled
    def process_frame(self, frame):
        total = 0.0
        for y in range(frame.shape[0]):
            for x in range(frame.shape[1]):
                total += frame[y, x] * self.params.weights[y, x] * self.params.mask[y, x]
        self.results.sum[0] = total * self.params.scale[0] + self.params.single[1]
        for i in range(3):
            self.results.row[i] = self.params.shift[i] + self.params.pair[0]
        if self.params.nothing is None:
            self.results.row[0] += self.params.pair[1]
        if self.params.texts[0] == "fine" and self.params.texts[1] == "it's":
            self.results.row[1] += 1


class Grain(StrEnum):
    FINE = "fine"


def aux_params():
    rng = np.random.default_rng(2)
    return {
        "weights": rng.integers(0, 9, (4, 3)).astype("f8"),
        "mask": ff.UDF.aux_data(rng.integers(0, 9, (4, 3)), kind="sig", dtype="int32"),
        "scale": ff.UDF.aux_data(rng.integers(1, 9, (6, 5)), kind="nav", dtype="int64"),
        "shift": ff.UDF.aux_data(rng.integers(0, 9, (6, 5, 3)), "nav", (3,), "float32"),
        "single": ff.UDF.aux_data(np.arange(4.0), "single", (4,), "float64"),
        "pair": (3, 0.5),
        "nothing": None,
        "texts": (Grain.FINE, np.str_("it's")),
        "unused": ["anything", object()],
    }


@pytest.mark.parametrize("with_roi", [False, True])
def test_aux_data_and_arrays(ctx, with_roi):
    data = numbers((6, 5, 4, 3), "uint8")
    roi = np.random.default_rng(1).random((6, 5)) < 0.5 if with_roi else None
    both(ctx, data, Aux, params=aux_params, roi=roi)


class Tiles(Native):
    """Any part of some frames."""

    def get_result_buffers(self):
        return {
            "sum": self.buffer("nav", dtype="int64"),
            "weighted": self.buffer("nav", (1,), dtype="int64"),
            "image": self.buffer("sig", (2,), dtype="int64"),
            "where": self.buffer("sig", dtype="int64"),
            "n": self.buffer("single", dtype="int64"),
        }

    def get_tiling_preferences(self):
        return {"depth": 3, "total_size": 64}

    @ff.compiled
    def process_tile(self, tile):
        flat = self.results.where.reshape(-1)
        sl = self.meta.slice
        for i in range(tile.shape[0]):
            for y in range(tile.shape[1]):
                for x in range(tile.shape[2]):
                    value = tile[i, y, x]
                    self.results.sum[i] += value
                    self.results.weighted[i, 0] += value * self.params.mask[y, x]
                    self.results.image[y, x, 1] += value * self.params.scale[i]
                    self.results.n[0] += 1
        for i in range(flat.size):
            flat[i] += sl.origin[1] * 1000 + sl.shape[2] + sl.shape[0] * 100000 + i

    def merge(self, dest, src):
        dest.sum[:] = src.sum
        dest.weighted[:] = src.weighted
        dest.image += src.image
        dest.where += src.where
        dest.n += src.n


def tile_params():
    rng = np.random.default_rng(3)
    return {
        "mask": ff.UDF.aux_data(rng.integers(0, 9, (8, 9)), kind="sig", dtype="int64"),
        "scale": ff.UDF.aux_data(rng.integers(1, 9, (6, 5)), kind="nav", dtype="int64"),
    }


@pytest.mark.parametrize("shape", [None, (2, 3, 4), (1, 8, 2), (7, 1, 9)])
@pytest.mark.parametrize("with_roi", [False, True])
def test_tilings_that_cut_columns(ctx, shape, with_roi):
    data = numbers((6, 5, 8, 9), "int32")
    roi = np.random.default_rng(1).random((6, 5)) < 0.5 if with_roi else None
    options = {} if shape is None else {"tileshape": shape}
    found = both(ctx, data, Tiles, params=tile_params, options=options, roi=roi)
    chosen = data.reshape(-1, 8, 9) if roi is None else data[roi]
    np.testing.assert_array_equal(found["sum"], chosen.sum((1, 2)))
    assert found["n"][0] == chosen.size


class Stacks(Native):
    """Some whole frames at a time, or whole partitions."""

    def get_result_buffers(self):
        return {"max": self.buffer("nav", dtype="int64"), "sum": self.buffer("sig", dtype="int64")}

    def merge(self, dest, src):
        dest.max[:] = src.max
        dest.sum += src.sum


class Frames(Stacks):
    @ff.compiled
    def process_frames(self, frames):
        for i in range(frames.shape[0]):
            self.results.max[i] = frames[i].max()
        self.results.sum += frames.sum(axis=0)


class Partitions(Stacks):
    @ff.compiled
    def process_partition(self, frames):
        for i in range(frames.shape[0]):
            self.results.max[i] = frames[i].max()
            self.results.sum += frames[i]


@pytest.mark.parametrize("cls", [Frames, Partitions])
def test_stacks_and_partitions(ctx, cls):
    data = numbers((6, 5, 8, 9), "int16")
    roi = np.ones((6, 5), bool)
    roi[1, 2:4] = False
    found = both(ctx, data, cls, roi=roi)
    np.testing.assert_array_equal(found["sum"], data[roi].sum(0))
    np.testing.assert_array_equal(found["max"], data[roi].max((1, 2)))


class Merged(Native):
    """Everything that can be compiled is."""

    def get_result_buffers(self):
        return {
            "n": self.buffer("nav", dtype="float64"),
            "largest": self.buffer("sig", dtype="float64"),
            "count": self.buffer("single", (2,), dtype="int64", use="private"),
            "double": self.buffer("single", (2,), dtype="int64", use="result_only"),
        }

    def get_task_data(self):
        return {"scratch": np.zeros(4), "factor": 3}

    def preprocess(self):
        self.results.largest[:] = -np.inf
        self.results.n[:] = 5

    @ff.compiled
    def add(self, a, b):
        return a + b * self.params.factor

    @ff.compiled
    def process_frame(self, frame):
        scratch = self.task_data.scratch
        scratch[0] += 1
        self.results.n = self.add(self.results.n[0], frame[0, 0]) + self.task_data.factor
        self.results.count[0] += 1
        for y in range(frame.shape[0]):
            for x in range(frame.shape[1]):
                self.results.largest[y, x] = max(self.results.largest[y, x], frame[y, x])

    @ff.compiled
    def postprocess(self):
        self.results.n += 0.25
        self.results.count[1] += 1 if self.task_data.scratch[0] == self.results.n.size else 100

    @ff.compiled
    def merge(self, dest, src):
        dest.n = src.n
        dest.count += src.count
        for i in range(dest.largest.shape[0]):
            for j in range(dest.largest.shape[1]):
                dest.largest[i, j] = max(dest.largest[i, j], src.largest[i, j])

    def get_results(self):
        return {"double": self.results.count * 2}


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_all_methods(executor):
    data = numbers((8, 7, 4, 5), "float32")
    made = ff.Context.make_with(executor)
    found = both(made, data, Merged, params=lambda: {"factor": 2}, options={"num_partitions": 4})
    np.testing.assert_array_equal(found["largest"], data.max((0, 1)))
    np.testing.assert_array_equal(found["n"], 5 + 2 * data[..., 0, 0].reshape(-1) + 3.25)
    assert found["double"].tolist() == [112, 8]


def test_map(ctx):
    data = numbers((4, 5, 6, 7), "uint16")
    ds = dataset(ctx, data)
    largest = ctx.map(ds, ff.compiled(lambda frame: frame.max()))
    np.testing.assert_array_equal(largest.data, data.max((2, 3)))
    assert largest.data.dtype == np.float32

    @ff.compiled
    def rows(frame):
        found = np.zeros(frame.shape[0], np.int32)
        for y in range(frame.shape[0]):
            found[y] = frame[y].sum()
        return found

    sums = ctx.map(ds, rows)
    assert sums.data.dtype == np.int32
    np.testing.assert_array_equal(sums.data, data.sum(3))
    # One element for all frames but those of ones.
    shorter = ff.compiled(lambda frame: frame[0, : 4 if frame.max() == 1 else 1].copy())
    with pytest.raises(UDFError, match=r"returned shape \(1,\) for this frame, and \(4,\) for"):
        ctx.map(ds, shorter)


LIMIT = 5


@ff.compiled
def is_large(value):
    return value > LIMIT


class Calls(Native):
    def get_result_buffers(self):
        return {"n": self.buffer("nav", dtype="int64")}

    @ff.compiled
    def process_frame(self, frame):
        for value in frame.flat:
            if is_large(value):
                self.results.n += 1


def test_functions_that_methods_call(ctx, monkeypatch):
    data = numbers((4, 5, 6, 7), "uint16")
    assert is_large(6)
    assert not is_large(5)
    np.testing.assert_array_equal(both(ctx, data, Calls)["n"], (data > 5).sum((2, 3)).reshape(-1))
    monkeypatch.setitem(globals(), "LIMIT", 50)
    np.testing.assert_array_equal(both(ctx, data, Calls)["n"], (data > 50).sum((2, 3)).reshape(-1))


class OfTheSameName(Native):
    """Adds in place to another array, which has the name of a result, and assigns it."""

    def get_result_buffers(self):
        return {"image": self.buffer("sig", dtype="int64")}

    def get_task_data(self):
        return {"image": np.zeros(tuple(self.meta.dataset_shape.sig), "int64")}

    @ff.compiled
    def process_frame(self, frame):
        total = self.task_data.image
        total += frame
        self.results.image = total

    def merge(self, dest, src):
        dest.image[:] += src.image


def test_assigning_what_another_array_of_that_name_was_added_to(ctx):
    data = numbers((4, 5, 6, 7), "uint16")
    np.testing.assert_array_equal(both(ctx, data, OfTheSameName)["image"], data.sum((0, 1)))


class Where(Native):
    def get_result_buffers(self):
        n = len(self.meta.dataset_shape.nav)
        return {
            "where": self.buffer("nav", (n,), "int64"),
            "shape": self.buffer("nav", (4,), "int64"),
            "one": self.buffer("nav", (), self.meta.input_dtype),
        }

    @ff.compiled
    def process_frame(self, frame):
        self.results.where[:] = self.meta.coordinates[0]
        self.results.shape[0] = self.meta.dataset_shape.nav[1]
        self.results.shape[1] = self.meta.dataset_shape.sig[0]
        self.results.shape[2] = self.meta.partition_shape.nav[0]
        self.results.shape[3] = self.meta.slice.origin[0]
        self.results.one[:] = self.xp.zeros(1, self.meta.input_dtype) + 1


@pytest.mark.parametrize("with_roi", [False, True])
def test_meta(ctx, with_roi):
    data = numbers((6, 5, 4, 3), "uint8")
    roi = np.random.default_rng(1).random((6, 5)) < 0.5 if with_roi else None
    found = both(ctx, data, Where, roi=roi)
    expected = np.argwhere(np.ones((6, 5), bool) if roi is None else roi)
    np.testing.assert_array_equal(found["where"], expected)


class Fill(Native):
    """A mask on sparse frames."""

    def get_backends(self):
        return (self.BACKEND_SCIPY_CSR,)

    def get_result_buffers(self):
        return {"sum": self.buffer("nav", dtype="float64"), "n": self.buffer("nav", dtype="int64")}

    @ff.compiled
    def process_frame(self, frame):
        for i in range(frame.data.size):
            self.results.sum[0] += frame.data[i] * self.params.mask[frame.indices[i]]
        self.results.n[0] = frame.indices.size + 1000 * frame.shape[1]


class FillTiles(Fill):
    @ff.compiled
    def process_tile(self, tile):
        for i in range(tile.shape[0]):
            for k in range(tile.indptr[i], tile.indptr[i + 1]):
                self.results.sum[i] += tile.data[k] * self.params.mask[tile.indices[k]]
            self.results.n[i] += tile.indptr[i + 1] - tile.indptr[i]


def sparse_data(seed=5):
    rng = np.random.default_rng(seed)
    data = numbers((6, 5, 8, 9), "float32")
    data[rng.random(data.shape) < 0.9] = 0
    return data


@pytest.mark.parametrize("cls", [Fill, FillTiles])
@pytest.mark.parametrize("stored", ["dense", "sparse"])
@pytest.mark.parametrize("with_roi", [False, True])
def test_sparse_frames(ctx, cls, stored, with_roi):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    data = sparse_data()
    mask = np.arange(72.0)
    given = data
    if stored == "sparse":
        from framefold.io.dataset.base import DataSet

        given = scipy_sparse.csr_matrix(data.reshape(30, 72))
        ds = ctx.load("memory", data=given, nav_shape=(6, 5), sig_shape=(8, 9))
        assert isinstance(ds, DataSet)
    else:
        ds = dataset(ctx, given)
    roi = np.random.default_rng(1).random((6, 5)) < 0.5 if with_roi else None
    found = ctx.run_udf(dataset=ds, udf=cls(mask=mask), roi=roi)
    chosen = data.reshape(30, 72) if roi is None else data.reshape(30, 72)[roi.reshape(-1)]
    np.testing.assert_allclose(found["sum"].raw_data, chosen @ mask)
    n = (chosen != 0).sum(1) + (72000 if cls is Fill else 0)
    np.testing.assert_array_equal(found["n"].raw_data, n)


def test_corrections(ctx):
    from framefold.io.corrections import CorrectionSet

    data = numbers((4, 5, 6, 7), "float32")
    corrections = CorrectionSet(dark=np.ones((6, 7)), gain=np.full((6, 7), 2.0))
    found = both(ctx, data, Above, params=lambda: {"threshold": 40}, corrections=corrections)
    expected = ((data - 1) * 2 > 40).sum((2, 3)).reshape(-1)
    np.testing.assert_array_equal(found["n"], expected)


def test_a_new_value_of_a_scalar_compiles_nothing(ctx, monkeypatch):
    data = numbers((4, 5, 6, 7), "uint16")
    first = results(ctx, data, Above(threshold=10))

    def not_again(wanted):
        raise AssertionError("compiled again")

    monkeypatch.setattr("framefold.compilation._compiler.compile_wanted", not_again)
    second = results(ctx, data, Above(threshold=90))
    np.testing.assert_array_equal(second["image"], (data > 90).sum((0, 1)))
    assert not np.array_equal(first["image"], second["image"])


class Slices(Native):
    def get_result_buffers(self):
        return {"first": self.buffer("nav", (4,), "int64")}

    @ff.compiled
    def process_frame(self, frame):
        if self.params.n < 0:
            raise ValueError(self.params.text)
        self.results.first[:] = frame[0, : self.params.n]

    @ff.compiled
    def merge(self, dest, src):
        dest.first[:] = src.first[:, : self.params.n_merged]


def test_what_assigns_to_slices_and_what_raises_a_text_is_kept(ctx, monkeypatch):
    # Exceptions of values are made by functions of the interpreter.
    data = numbers((4, 5, 6, 7), "uint16")
    params = {"n": 4, "n_merged": 4, "text": "below"}
    both(ctx, data, Slices, params=lambda: params)
    monkeypatch.setattr(store, "_loaded", {})
    monkeypatch.setattr("framefold.compilation._compiler.compile_wanted", None)
    both(ctx, data, Slices, params=lambda: params)
    with pytest.raises(ValueError, match=r"broadcast input array from shape \(3,\)"):
        results(ctx, data, Slices(**params | {"n": 3}))
    with pytest.raises(ValueError, match="below"):
        results(ctx, data, Slices(**params | {"n": -1}))
    # Compiled code has no texts of numbers, and merge is not run again by the interpreter.
    with pytest.raises(ValueError, match="broadcast an array into the slice that it is assigned"):
        results(ctx, data, Slices(**params | {"n_merged": 3}))


def test_what_is_kept_is_for_any_number_of_threads(monkeypatch):
    """Workers have another one. Numba itself refuses another one once its threads are there."""
    kept_for = []
    for n in "12":
        monkeypatch.setenv("NUMBA_NUM_THREADS", n)
        kept_for.append(store.about_numba())
    assert kept_for[0] == kept_for[1]
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert store.about_numba() != kept_for[0]


def test_beside_others_in_one_pass(ctx):
    # The dtype that all share is known when they are compiled.
    data = numbers((4, 5, 6, 7), "uint16")

    class Shared(Above):
        def get_preferred_input_dtype(self):
            return np.uint8

    udfs = [Shared(threshold=40.5), ff.SumUDF(), Above(threshold=30)]
    found = ctx.run_udf(dataset=dataset(ctx, data), udf=udfs)
    np.testing.assert_array_equal(found[0]["image"].data, (data > 40.5).sum((0, 1)))
    np.testing.assert_array_equal(found[1]["intensity"].data, data.sum((0, 1), dtype="f4"))
    np.testing.assert_array_equal(found[2]["image"].data, (data > 30).sum((0, 1)))


@ff.compiled
def write(results, value):
    results.n = value


class OtherNames(Native):
    """Arguments of ``merge`` by position, in the interpreter, too."""

    def get_result_buffers(self):
        return {"n": self.buffer("nav", dtype="int64"), "s": self.buffer("sig", dtype="int64")}

    @ff.compiled
    def process_frame(self, frame):
        write(self.results, frame[0, 0])
        self.results.s += frame

    @ff.compiled
    def merge(self, total, part):
        total.n = part.n
        total.s += part.s


def test_arguments_of_other_names(ctx):
    data = numbers((4, 5, 6, 7), "uint16")
    found = both(ctx, data, OtherNames, options={"num_partitions": 3})
    np.testing.assert_array_equal(found["s"], data.sum((0, 1)))
    np.testing.assert_array_equal(found["n"], data[..., 0, 0].reshape(-1))
