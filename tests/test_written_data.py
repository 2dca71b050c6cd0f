"""Functions that write into the frames and tiles they get, without others seeing it."""

from __future__ import annotations

import numpy as np
import pytest
from shared_contexts import shared
from sparse_files import counts, write_raw_csr

import framefold as ff
from framefold.io.corrections import CorrectionSet
from framefold.udf import UDF

h5py = pytest.importorskip("h5py", reason="h5py writes compressed files")

NAV, SIG = (4, 5), (8, 6)
LOW = 30


@pytest.fixture
def data():
    return counts((*NAV, *SIG), "uint16")


class Sums(UDF):
    """Sums over both kinds of axes, and how many frames and pixels were looked at."""

    def __init__(self, dtype="float32", formats=("numpy",), low=LOW):
        super().__init__(dtype=dtype, formats=formats, low=low)

    def get_backends(self):
        return self.params.formats

    def get_tiling_preferences(self):
        return {"depth": 3, "total_size": 300}

    def get_preferred_input_dtype(self):
        return self.params.dtype or self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {
            "each": self.buffer("nav", dtype="float64"),
            "total": self.buffer("sig", dtype="float64"),
            "n": self.buffer("single", dtype=int),
        }

    def add(self, array, depth):
        dense = array if isinstance(array, np.ndarray) else _dense(array)
        dense = np.asarray(dense).reshape((depth, *self.results.total.shape))
        self.results.each[:] += dense.sum(axis=(1, 2))
        self.results.total[:] += dense.sum(axis=0)
        self.results.n[:] += dense.size

    def merge(self, dest, src):
        dest.each[:] = src.each
        dest.total[:] += src.total
        dest.n[:] += src.n


def _dense(array):
    return array.toarray() if hasattr(array, "toarray") else array.todense()


class ReadsTiles(Sums):
    def process_tile(self, tile):
        self.add(tile, tile.shape[0])


class ReadsFrames(Sums):
    def process_frame(self, frame):
        self.add(frame, 1)


class WritesTiles(Sums):
    def process_tile(self, tile):
        self.results.n[:] += 0
        tile[tile < self.params.low] = 0
        self.add(tile, tile.shape[0])
        tile[:] = 77


class WritesFrames(Sums):
    def process_frame(self, frame):
        frame[frame < self.params.low] = 0
        self.add(frame, 1)
        frame[:] = 77


class WritesPartitions(Sums):
    def process_partition(self, partition):
        partition[partition < self.params.low] = 0
        self.add(partition, partition.shape[0])
        partition[:] = 77


WRITERS = [WritesTiles, WritesFrames, WritesPartitions]


def check(result, data, udf):
    low = udf.params.low if type(udf).__name__.startswith("Writes") else 0
    expected = np.where(data < low, 0, data).astype(float)
    np.testing.assert_array_equal(result["each"].data, expected.sum(axis=(2, 3)))
    np.testing.assert_array_equal(result["total"].data, expected.sum(axis=(0, 1)))
    assert result["n"].data[0] == data.size


def load(ctx, kind, data, tmp_path):
    """The data, and what functions are to see of them."""
    if kind == "memory":
        return ctx.load("memory", data=data, num_partitions=3), data
    if kind == "fortran":
        return ctx.load("memory", data=np.asfortranarray(data), num_partitions=3), data
    if kind == "columns":
        tileshape = (2, SIG[0], 4)
        return ctx.load("memory", data=data, tileshape=tileshape, num_partitions=3), data
    if kind == "read-only":
        data.flags.writeable = False
        return ctx.load("memory", data=data, num_partitions=3), data
    if kind == "mapped":
        np.save(tmp_path / "a.npy", data)
        return ctx.load("npy", tmp_path / "a.npy", num_partitions=3), data
    if kind == "big-endian":
        np.save(tmp_path / "a.npy", data.astype(">u2"))
        return ctx.load("npy", tmp_path / "a.npy", num_partitions=3), data
    if kind == "sparse":
        path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
        return ctx.load("raw_csr", path, num_partitions=3), data
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(2, 5, 4, 3), compression="gzip")
    return ctx.load("hdf5", tmp_path / "a.h5", ds_path="x", num_partitions=3), data


KINDS = ["memory", "fortran", "columns", "read-only", "mapped", "big-endian", "sparse", "chunks"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", None])
@pytest.mark.parametrize("writer", WRITERS)
def test_writers_among_readers(ctx, tmp_path, data, kind, dtype, writer):
    original = data.copy()
    dataset, seen = load(ctx, kind, data, tmp_path)
    udfs = [ReadsTiles(dtype), writer(dtype), ReadsFrames(dtype), writer(dtype, low=50)]
    udfs += [ReadsTiles(dtype), ReadsFrames("float64")]
    for udf, result in zip(udfs, ctx.run_udf(dataset, udfs), strict=True):
        check(result, seen, udf)
    check(ctx.run_udf(dataset, udfs[1]), seen, udfs[1])
    np.testing.assert_array_equal(data, original)
    check(ctx.run_udf(dataset, udfs[0]), seen, udfs[0])


@pytest.mark.parametrize("writer", WRITERS)
def test_corrected_data(ctx, data, writer):
    dark = np.full(SIG, 1.0)
    dataset = ctx.load("memory", data=data, num_partitions=2)
    udfs = [writer(), ReadsTiles(), writer(low=40)]
    results = ctx.run_udf(dataset, udfs, corrections=CorrectionSet(dark=dark))
    for udf, result in zip(udfs, results, strict=True):
        low = -np.inf if isinstance(udf, ReadsTiles) else udf.params.low
        corrected = data - dark
        expected = np.where(corrected < low, 0, corrected)
        np.testing.assert_array_equal(result["total"].data, expected.sum(axis=(0, 1)))


@pytest.mark.parametrize("executor", ["processes", "delayed"])
def test_other_executors(data, executor):
    options = {"cpus": 2} if executor == "processes" else {}
    with shared(executor, **options) as ctx:
        dataset = ctx.load("memory", data=data, num_partitions=5)
        udfs = [WritesFrames(), ReadsTiles(), WritesTiles()]
        for udf, result in zip(udfs, ctx.run_udf(dataset, udfs), strict=True):
            check(result, data, udf)


def test_what_is_written_late_is_not_counted_twice(ctx, data):
    """Whether a function writes may follow from the data; all before that is done once more."""

    class WritesSometimes(Sums):
        def process_frame(self, frame):
            if self.meta.coordinates[0, 1] == 3:
                frame[frame < LOW] = 0
            self.add(frame, 1)

    dataset = ctx.load("memory", data=data, num_partitions=2)
    reader, udf = ReadsTiles(), WritesSometimes()
    result, other = ctx.run_udf(dataset, [udf, reader])
    expected = data.copy()
    expected[:, 3][expected[:, 3] < LOW] = 0
    np.testing.assert_array_equal(result["total"].data, expected.sum(axis=(0, 1)))
    assert result["n"].data[0] == data.size
    check(other, data, reader)


def test_kept_frames_stay_as_they_were_left(ctx, data):
    kept = []

    class Keeps(Sums):
        def process_frame(self, frame):
            frame += 1000
            kept.append((self.meta.coordinates[0], frame))
            self.add(frame, 1)

    dataset = ctx.load("memory", data=data, num_partitions=2)
    ctx.run_udf(dataset, [Keeps(), WritesFrames()])
    assert len({tuple(position) for position, _ in kept}) == data[..., 0, 0].size
    for (y, x), frame in kept:
        np.testing.assert_array_equal(frame, data[y, x] + 1000)


def test_frames_that_are_written_to_at_the_end(ctx, data):
    class AtTheEnd(Sums):
        def preprocess(self):
            self.frames = []

        def process_frame(self, frame):
            self.frames.append(frame)

        def postprocess(self):
            for frame in self.frames:
                frame[frame < LOW] = 0
                self.results.total += frame
            self.frames.clear()

    dataset = ctx.load("memory", data=data, num_partitions=2)
    result = ctx.run_udf(dataset, AtTheEnd())
    expected = np.where(data < LOW, 0, data).sum(axis=(0, 1))
    np.testing.assert_array_equal(result["total"].data, expected)


@pytest.mark.parametrize("format_", sorted(UDF.CPU_BACKENDS))
@pytest.mark.parametrize("native", ["dense", "sparse"])
@pytest.mark.parametrize("frames", [False, True])
def test_formats(ctx, tmp_path, data, format_, native, frames):
    pytest.importorskip("sparse")

    def change(array):
        entries = array.data if hasattr(array, "toarray") or hasattr(array, "todense") else array
        if isinstance(array, np.matrix):
            entries = array
        if isinstance(entries, dict):
            for key in entries:
                entries[key] = entries[key] * 2
        else:
            entries *= 2

    class Doubles(Sums):
        def process_frame(self, frame):
            change(frame)
            self.add(frame, 1)

        def process_tile(self, tile):
            change(tile)
            self.add(tile, tile.shape[0])

        def get_method(self):
            return "frame" if frames else "tile"

    class Reads(ReadsTiles, ReadsFrames):
        def get_method(self):
            return "frame" if frames else "tile"

    kind = "memory" if native == "dense" else "sparse"
    dataset, _ = load(ctx, kind, data, tmp_path)
    udfs = [Reads(formats=(format_,)), Doubles(formats=(format_,)), Reads(formats=(format_,))]
    first, doubled, last = ctx.run_udf(dataset, udfs)
    check(first, data, udfs[0])
    check(last, data, udfs[2])
    np.testing.assert_array_equal(doubled["total"].data, 2 * data.sum(axis=(0, 1)))


def test_refusals_in_the_words_of_others(ctx, data):
    """Numba, for one, raises a TypeError; and functions raise errors of their own."""

    class Refused(Sums):
        def process_frame(self, frame):
            if not frame.flags.writeable:
                raise TypeError("No matching definition for readonly array(float32, 2d, C)")
            self.add(frame, 1)

    class Wraps(Sums):
        def process_frame(self, frame):
            try:
                frame += 1
            except ValueError as error:
                raise RuntimeError("this frame is strange") from error
            self.add(frame, 1)

    dataset = ctx.load("memory", data=data, num_partitions=2)
    refused, wraps = ctx.run_udf(dataset, [Refused(), Wraps()])
    np.testing.assert_array_equal(refused["total"].data, data.sum(axis=(0, 1)))
    np.testing.assert_array_equal(wraps["total"].data, (data + 1).sum(axis=(0, 1)))


class DeepSums(Sums):
    def get_tiling_preferences(self):
        return {"depth": 100, "total_size": 1 << 20}


class WritesFlatTiles(DeepSums):
    def process_tile(self, tile):
        flat = tile.ravel()  # a copy, were there anything between frames
        flat[flat < self.params.low] = 0
        self.add(tile, tile.shape[0])


class WritesFlatPartitions(DeepSums):
    def process_partition(self, partition):
        flat = partition.reshape(-1)
        flat[flat < self.params.low] = 0
        self.add(partition, partition.shape[0])


class WritesFlatFrames(DeepSums):
    def process_frame(self, frame):
        flat = frame.reshape(-1)
        flat[flat < self.params.low] = 0
        self.add(frame, 1)


@pytest.mark.parametrize("lies", ["together", "apart", "backwards", "after headers"])
@pytest.mark.parametrize("selected", ["all", "every second", "some"])
@pytest.mark.parametrize("writer", [WritesFlatTiles, WritesFlatFrames, WritesFlatPartitions])
def test_writes_through_flat_views(ctx, tmp_path, data, lies, selected, writer):
    """Frames that are lent may have something between them, and NumPy cannot flatten such tiles."""
    if lies == "after headers":
        headers = np.full((20, 1, SIG[1]), 999, dtype=data.dtype)
        whole = np.concatenate([headers, data.reshape((20, *SIG))], axis=1)
        np.save(tmp_path / "a.npy", whole)
        array = np.load(tmp_path / "a.npy", mmap_mode="r")[:, 1:].reshape((*NAV, *SIG))
    else:
        array = {
            "together": data,
            "apart": np.repeat(data, 2, axis=1)[:, ::2],
            "backwards": data[::-1].copy()[::-1],
        }[lies]
    roi = np.ones(NAV, dtype=bool)
    if selected != "all":
        roi.reshape(-1)[1::2] = False
        roi[0] = selected == "every second"
        roi[0, 1::2] = False
    dataset = ctx.load("memory", data=array, num_partitions=2)
    for udfs in ([writer(None)], [writer(None), writer("float32"), writer(None, low=50)]):
        for udf, result in zip(udfs, ctx.run_udf(dataset, udfs, roi=roi), strict=True):
            frames = data[roi]
            expected = np.where(frames < udf.params.low, 0, frames).astype(float)
            np.testing.assert_array_equal(result["total"].data, expected.sum(axis=0))
            np.testing.assert_array_equal(result["each"].raw_data, expected.sum(axis=(1, 2)))


def add_random(frame):
    before = frame.copy()
    np.random.default_rng(5).random(out=frame, dtype=frame.dtype)
    frame += before


WRITES = {
    "dot": lambda frame: np.dot(frame @ frame.T, frame.copy(), out=frame),
    "random": add_random,
    "sort": lambda frame: frame.sort(axis=0),
    "shuffle": lambda frame: np.random.default_rng(5).shuffle(frame),
    "copyto": lambda frame: np.copyto(frame, 1, where=frame < LOW),
    "clip": lambda frame: np.clip(frame, 1, LOW, out=frame),
    "nan_to_num": lambda frame: np.nan_to_num(frame, copy=False, nan=1),
    "put_along_axis": lambda frame: np.put_along_axis(
        frame, frame.argmax(axis=1, keepdims=True), 0, axis=1
    ),
    "view": lambda frame: frame.view("i4").__ior__(1 << 20),
    "memoryview": lambda frame: memoryview(frame.reshape(-1)).__setitem__(3, 7.0),
}


@pytest.mark.parametrize("how", WRITES)
def test_functions_of_numpy_that_write(data, how):
    class Writes(Sums):
        def process_frame(self, frame):
            WRITES[how](frame)
            self.add(frame, 1)

    ctx = ff.Context.make_with("inline")
    lent = data.astype("float32")
    lent[0, 0, 0, 0] = np.nan
    expected = lent.copy()
    for frame in expected.reshape((-1, *SIG)):
        WRITES[how](frame)
    result = ctx.run_udf(ctx.load("memory", data=lent, num_partitions=2), Writes())
    np.testing.assert_array_equal(result["each"].data, expected.sum(axis=(2, 3)))
    assert np.isnan(lent).sum() == 1


def test_errors_that_are_not_about_frames_end_the_run(data):
    calls = []

    class Vandal(Sums):
        def process_frame(self, frame):
            calls.append(frame.flags.writeable)
            constant = np.zeros(3)
            constant.flags.writeable = False
            constant[:] = 1

    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=data, num_partitions=2)
    with pytest.raises(ValueError, match="read-only") as caught:
        ctx.run_udf(dataset, Vandal())
    assert calls == [False, True]
    assert "work on a copy" in caught.value.__notes__[0]

    class Fails(Sums):
        def process_frame(self, frame):
            calls.append("failed")
            raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        ctx.run_udf(dataset, Fails())
    assert calls.count("failed") == 1

    class CannotSave(Sums):
        def process_frame(self, frame):
            calls.append("saved")
            raise OSError(30, "Read-only file system")

    with pytest.raises(OSError, match="Read-only") as caught:
        ctx.run_udf(dataset, CannotSave())
    assert calls.count("saved") == 1
    assert "copy" not in caught.value.__notes__[0]


class Unlocked(UDF):
    """Sums of frames, whose flag is set first, as of arrays that are one's own."""

    def __init__(self, way):
        super().__init__(way=way)

    def get_result_buffers(self):
        return {"sum": self.buffer(kind="nav")}

    def process_frame(self, frame):
        if self.params.way == "flags":
            frame.flags.writeable = True
        else:
            frame.setflags(write=True)
        frame[frame < LOW] = 0
        self.results.sum[:] = frame.sum()


@pytest.mark.parametrize("way", ["flags", "setflags"])
@pytest.mark.parametrize("lent", [True, False])
def test_the_flag_that_allows_writing_can_be_set(ctx, data, way, lent):
    frames = data.astype("float32" if lent else "uint16")
    before = frames.copy()
    dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=3)
    sums = ctx.run_udf(dataset, Unlocked(way))["sum"].data
    assert np.array_equal(sums, np.where(data < LOW, 0, data).sum(axis=(2, 3)))
    # What belongs to the user stays as it is.
    assert np.array_equal(frames, before)


def test_functions_that_only_read_get_the_memory_itself(data):
    class Looks(Sums):
        def process_tile(self, tile):
            assert np.shares_memory(tile, data)
            assert not tile.flags.writeable
            self.add(tile, tile.shape[0])

    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=data, num_partitions=2)
    udfs = [Looks(None), WritesTiles(None)]
    for udf, result in zip(udfs, ctx.run_udf(dataset, udfs), strict=True):
        check(result, data, udf)
