"""Frames turned by ``flip`` and ``transpose``, held against NumPy."""

from __future__ import annotations

import copy
import json
import pickle
from itertools import product

import numpy as np
import pytest
from detector_files import (
    write_blo,
    write_empad,
    write_frms6,
    write_mrc,
    write_seq,
    write_seq_sidecars,
    write_spe,
)
from real_files import manifest, real_data
from shared_contexts import shared
from sparse_files import counts, write_raw_csr
from vendor_files import write_dm, write_k2is, write_ser, write_tvips

import framefold as ff
from framefold.exceptions import InvalidArgumentError
from framefold.io.corrections import CorrectionSet
from framefold.utils.write_mib import write_mib

NAV, SIG = (3, 4), (16, 64)
#: All ways to turn frames but none at all.
TURNS = [
    {"flip": flip, "transpose": transpose}
    for flip, transpose in product((None, "y", "x", "yx"), (False, True))
][1:]


def turned(array, flip=None, transpose=False):
    """By NumPy."""
    if transpose:
        array = array.swapaxes(-1, -2)
    return np.flip(array, [{"y": -2, "x": -1}[axis] for axis in flip or ""])


def name_of(turn):
    return f"{turn['flip']}-{turn['transpose']}"


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


@pytest.fixture(scope="module")
def array():
    return counts((*NAV, *SIG), "uint16", density=0.7)


class Witness(ff.UDF):
    """Sums by one of the methods, to whole numbers."""

    def __init__(self, method="tile", depth=7, size=1 << 20):
        super().__init__(method=method, depth=depth, size=size)

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {
            "each": self.buffer("nav", dtype="int64"),
            "total": self.buffer("sig", dtype="int64"),
            "place": self.buffer("nav", dtype="int64"),
        }

    def get_tiling_preferences(self):
        return {"depth": self.params.depth, "total_size": self.params.size}

    def get_method(self):
        return self.params.method

    def process_tile(self, tile):
        self._add(np.asarray(tile, dtype="int64"))

    process_partition = process_tile

    def process_frame(self, frame):
        self._add(np.asarray(frame, dtype="int64")[np.newaxis])

    def _add(self, tile):
        weights = np.arange(np.prod(self.meta.dataset_shape.sig)).reshape(
            tuple(self.meta.dataset_shape.sig)
        )
        own = weights[self.meta.slice.get(sig_only=True)]
        axes = tuple(range(1, tile.ndim))
        self.results.each[:] += tile.sum(axis=axes)
        self.results.place[:] += (tile * own).sum(axis=axes)
        self.results.total[:] += tile.sum(axis=0)

    def merge(self, dest, src):
        dest.each[:] = src.each
        dest.place[:] = src.place
        dest.total[:] += src.total


def check(ctx, dataset, expected, roi=None, udf=None):
    """Frames and results of all methods are those of an array."""
    assert tuple(dataset.shape) == expected.shape
    whole = expected.astype("int64")
    sig = dataset.shape.sig.dims
    chosen = np.ones(expected.shape[:-sig], bool) if roi is None else roi
    results = ctx.run_udf(dataset=dataset, udf=Witness() if udf is None else udf, roi=roi)
    axes = tuple(range(1, 1 + sig))
    selected = whole[chosen]
    weights = np.arange(np.prod(expected.shape[-sig:])).reshape(expected.shape[-sig:])
    assert np.array_equal(results["total"].data, selected.sum(axis=0))
    for name, numbers in (("each", selected), ("place", selected * weights)):
        assert np.array_equal(np.asarray(results[name].data)[chosen], numbers.sum(axis=axes))


def write_all(folder, array):
    """The same frames in many formats: names, paths or other first arguments, and options."""
    h5py, tifffile = pytest.importorskip("h5py"), pytest.importorskip("tifffile")
    np.save(folder / "scan.npy", array)
    np.save(folder / "fortran.npy", np.asfortranarray(array))
    array.astype(">u2").tofile(folder / "scan.raw")
    write_mib(folder / "scan.mib", array)
    write_blo(folder / "scan.blo", array.astype("uint8")[..., :16])
    write_empad(folder / "scan.xml", np.resize(array, (*NAV, 128, 128)).astype("float32"))
    write_mrc(folder / "scan.mrc", array.reshape(-1, *SIG))
    write_seq(folder / "scan.seq", array.reshape(-1, *SIG))
    write_dm(folder / "scan.dm4", array)
    write_frms6(folder / "pixels.hdr", array)
    write_spe(folder / "scan.spe", array.reshape(-1, *SIG))
    write_ser(folder / "scan_1.ser", array.reshape(-1, *SIG))
    write_tvips(folder, "scan", array.reshape(-1, *SIG))
    with h5py.File(folder / "scan.h5", "w") as file:
        file.create_dataset("data", data=array, chunks=(1, 3, 5, 24), compression="gzip")
    tifffile.imwrite(folder / "scan.tif", array.reshape(-1, *SIG), photometric="minisblack")
    ctx = ff.Context.make_with("inline")
    ctx.export_dataset(ctx.load("memory", data=array), folder / "scan.zarr", chunks=(1, 4, 7, 20))
    write_raw_csr(folder / "sparse", array.reshape(-1, *SIG), NAV)
    raw = {"dtype": ">u2", "nav_shape": NAV, "sig_shape": SIG}
    yield from (
        ("raw", folder / "scan.raw", raw),
        ("raw", folder / "scan.raw", {**raw, "io_backend": "buffered", "sync_offset": 2}),
        ("raw_csr", folder / "sparse" / "scan.toml", {}),
        *(
            ("auto", folder / f"scan.{ending}", {})
            for ending in ("npy", "mib", "blo", "xml", "mrc", "seq", "dm4", "h5", "tif", "zarr")
        ),
        ("frms6", folder / "pixels.hdr", {}),
        *(("auto", folder / name, {}) for name in ("fortran.npy", "scan.spe", "scan_1.ser")),
        ("tvips", folder / "scan_000.tvips", {}),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory, array):
    return list(write_all(tmp_path_factory.mktemp("files"), array))


@pytest.mark.parametrize("turn", TURNS, ids=name_of)
@pytest.mark.filterwarnings("ignore::framefold.warnings.DataSetWarning")
@pytest.mark.filterwarnings("ignore::framefold.warnings.MissingFramesWarning")
def test_frames_of_all_formats(ctx, files, turn):
    for filetype, path, options in files:
        plain = ctx.load(filetype, path, **options)
        dataset = ctx.load(filetype, path, **options, **turn)
        there = plain.valid_mask
        expected = turned(plain[there], **turn)
        assert np.array_equal(dataset[there], expected), path
        assert np.array_equal(dataset.valid_mask, there)
        roi = there & (np.arange(there.size).reshape(there.shape) % 3 != 1)
        frames = np.zeros((*there.shape, *expected.shape[1:]), expected.dtype)
        frames[there] = expected
        check(ctx, dataset, frames, roi=roi, udf=Witness(depth=2, size=3000))
        assert dataset.format == plain.format
        assert dataset.paths == plain.paths


def test_large_frames_in_bands_of_rows(ctx, tmp_path):
    frames = np.random.default_rng(2).integers(0, 4096, (2, 1860, 2048)).astype("uint16")
    path = write_k2is(tmp_path, "scan", frames)
    for turn in TURNS[::3]:
        dataset = ctx.open(path, **turn)
        sums = ctx.run_udf(dataset=dataset, udf=[ff.SumUDF(), ff.MaxUDF()])
        expected = turned(ctx.open(path)[...], **turn)
        assert np.array_equal(sums[0]["intensity"].data, expected.sum(axis=0))
        assert np.array_equal(sums[1]["intensity"].data, expected.max(axis=0))


@pytest.mark.parametrize("turn", TURNS, ids=name_of)
@pytest.mark.parametrize("tile", [(1, 2, 3), (3, 5, 7), (2, 16, 9), (5, 3, 64), (12, 16, 64)])
def test_tiles_of_any_shape(ctx, array, turn, tile):
    dataset = ctx.load("memory", data=array, tileshape=tile, **turn)
    check(ctx, dataset, turned(array, **turn))
    plan, _ = ctx._plan(dataset, [Witness()], None)
    assert tuple(plan.tile_shape) == (tile[:0:-1] if turn["transpose"] else tile[1:])


@pytest.mark.parametrize("turn", TURNS, ids=name_of)
def test_methods_dtypes_and_odd_shapes(ctx, turn):
    rng = np.random.default_rng(7)
    for number, shape in enumerate([(1, 1), (1, 9), (9, 1), (2, 3), (17, 33), (70, 35)]):
        dtype = ("bool", "uint8", "int16", ">u4", "float32", "int64")[number]
        data = rng.integers(0, 2 if dtype == "bool" else 99, (2, 3, *shape)).astype(dtype)
        dataset = ctx.load("memory", data=data, num_partitions=2, **turn)
        for method in ("tile", "frame", "partition"):
            check(ctx, dataset, turned(data, **turn), udf=Witness(method))
    data = rng.normal(size=(2, 3, 5, 6)) + 1j * rng.normal(size=(2, 3, 5, 6))
    for dtype in ("complex64", "complex128", "float16", "float64"):
        values = data.astype(dtype) if dtype.startswith("c") else data.real.astype(dtype)
        dataset = ctx.load("memory", data=values, **turn)
        assert np.array_equal(np.asarray(dataset), turned(values, **turn))
    # Only the last two axes of a frame are turned.
    data = rng.integers(0, 99, (2, 3, 4, 5, 6))
    check(ctx, ctx.load("memory", data=data, sig_dims=3, **turn), turned(data, **turn))


def test_frames_of_one_axis(ctx):
    data = np.arange(24).reshape(2, 3, 4)
    dataset = ctx.load("memory", data=data, sig_dims=1)
    check(ctx, dataset.orient(flip="x"), data[..., ::-1])
    for wrong, said in (({"flip": "y"}, "flip='y'"), ({"transpose": True}, "transpose=True")):
        with pytest.raises(InvalidArgumentError, match=rf"{said} needs .*two axes.*\[4\]"):
            dataset.orient(**wrong)


def test_what_is_no_way_to_turn_frames(ctx, array):
    dataset = ctx.load("memory", data=array)
    for wrong in ({"flip": "z"}, {"flip": ""}, {"flip": "yy"}, {"flip": 1}, {"transpose": "no"}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            dataset.orient(**wrong)
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            ctx.load("memory", data=array, **wrong)
    assert np.array_equal(dataset.orient()[1, 2], array[1, 2])
    assert "orientation" not in dataset.orient().metadata


@pytest.mark.parametrize("turn", TURNS, ids=name_of)
def test_sparse_frames(ctx, turn, tmp_path):
    scipy = pytest.importorskip("scipy.sparse")
    data = counts((3, 4, 9, 11), "uint16")
    rows = scipy.csr_array(data.reshape(12, 99))
    plain = ctx.load("memory", data=rows, nav_shape=(3, 4), sig_shape=(9, 11))
    expected = turned(data, **turn)

    class Sparse(Witness):
        def get_backends(self):
            return (self.BACKEND_SCIPY_CSR,)

        def process_tile(self, tile):
            assert tile.has_canonical_format
            dense = tile.toarray().astype("int64")
            super()._add(dense.reshape(-1, *expected.shape[2:]))

    dataset = plain.orient(**turn)
    roi = np.arange(12).reshape(3, 4) % 2 == 0
    check(ctx, dataset, expected, udf=Sparse())
    check(ctx, dataset, expected, roi=roi)
    ctx.convert(dataset, tmp_path / "copy.toml")
    assert np.array_equal(ctx.open(tmp_path / "copy.toml")[...], expected)


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "delayed"])
def test_all_executors(executor, array, files, tmp_path):
    da = pytest.importorskip("dask.array")
    turn = {"flip": "y", "transpose": True}
    expected = turned(array, **turn)
    roi = np.arange(12).reshape(NAV) % 3 > 0
    with shared(executor) as context:
        path = next(path for _, path, _ in files if path.name == "scan.h5")
        lazy = da.from_array(array, chunks=(1, 4, 16, 64))
        for dataset in (
            context.open(path, **turn),
            context.load("memory", data=array, **turn),
            context.load("dask", lazy, min_size=0, **turn),
        ):
            check(context, dataset, expected)
            check(context, dataset, expected, roi=roi)
            total = context.run_udf(dataset=dataset, udf=ff.SumUDF())["intensity"].data
            assert np.array_equal(np.asarray(total), expected.sum(axis=(0, 1)))


def test_workers_of_dask(array, files):
    da = pytest.importorskip("dask.array")
    turn = {"flip": "x", "transpose": True}
    path = next(path for _, path, _ in files if path.name == "scan.h5")
    with shared("dask", cpus=1) as context:
        check(context, context.open(path, **turn), turned(array, **turn))
        lazy = da.from_array(array, chunks=(1, 4, 16, 64))
        check(context, context.load("dask", lazy, min_size=0, **turn), turned(array, **turn))


@pytest.mark.parametrize("turn", TURNS, ids=name_of)
def test_corrections_are_of_turned_frames(ctx, array, turn):
    dataset = ctx.load("memory", data=array, **turn)
    expected = turned(array, **turn).astype("float32")
    rng = np.random.default_rng(4)
    shape = expected.shape[2:]
    dark = rng.integers(0, 9, shape).astype("float32")
    gain = rng.integers(1, 4, shape).astype("float32")
    excluded = np.zeros(shape, bool)
    excluded[2, 5] = True
    corrections = CorrectionSet(dark=dark, gain=gain, excluded_pixels=excluded)
    found = ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), corrections=corrections)["intensity"].data
    total = ((expected - dark) * gain).sum(axis=(0, 1), dtype="float64")
    around = total[1:4, 4:7].sum() - total[2, 5]
    total[2, 5] = around / 8
    assert np.allclose(found, total, rtol=1e-6)


@pytest.mark.parametrize("turn", TURNS, ids=name_of)
def test_corrections_of_files_turn_along(ctx, array, turn, tmp_path):
    frames = array.reshape(-1, *SIG)
    write_seq(tmp_path / "scan.seq", frames)
    rng = np.random.default_rng(4)
    dark, gain = rng.integers(0, 9, SIG), rng.integers(1, 4, SIG)
    write_seq_sidecars(
        tmp_path / "scan.seq", dark.astype("float32"), gain.astype("float32"), bad_row=3
    )
    plain = ctx.open(tmp_path / "scan.seq")
    own = plain.get_correction_data()
    assert own.have_corrections()
    dataset = ctx.open(tmp_path / "scan.seq", **turn)
    assert np.array_equal(
        dataset.get_correction_data().get_dark_frame(), turned(own.get_dark_frame(), **turn)
    )
    assert np.allclose(dataset[...], turned(plain[...], **turn))
    none = CorrectionSet()
    for each, expected in ((dataset, turned(frames, **turn)), (plain, frames)):
        total = ctx.run_udf(dataset=each, udf=ff.SumUDF(), corrections=none)["intensity"].data
        assert np.array_equal(total, expected.sum(axis=0))


def test_corrections_of_own_classes_are_not_turned(array):
    class Corrected(ff.io.dataset.memory.MemoryDataSet):
        def get_correction_data(self):
            return CorrectionSet(dark=np.ones(SIG))

    with pytest.raises(ff.exceptions.UnsupportedError, match="Corrected says itself"):
        Corrected(array).orient(flip="y")


def test_axes_keep_the_places_of_pixels(ctx, array):
    dataset = ctx.load("memory", data=array).calibrate(
        pixel_size=[(2, "mrad"), (0.5, "mrad")], centre=(3, 10), names=["a", "b", "energy", "x"]
    )

    def places(dataset, axis):
        found = dataset.axes[axis]
        return found.offset + found.scale * np.arange(found.size)

    for turn in TURNS:
        other = dataset.orient(**turn)
        rows, columns = places(dataset, 2), places(dataset, 3)
        if turn["transpose"]:
            rows, columns = columns, rows
        flip = turn["flip"] or ""
        assert np.allclose(places(other, 2), rows[::-1] if "y" in flip else rows)
        assert np.allclose(places(other, 3), columns[::-1] if "x" in flip else columns)
        names = [axis.name for axis in other.axes]
        assert names == ["a", "b", *(["y", "energy"] if turn["transpose"] else ["energy", "x"])]
    assert dataset.orient(flip="y").metadata["angle_step_y"] == -2
    # What is given together with them is of the turned frames.
    fresh = ctx.load(
        "memory", data=array, flip="y", transpose=True, pixel_size="1mrad", centre=(1, 2)
    )
    assert [str(axis) for axis in fresh.axes[2:]] == [
        "y: 64 × 1 mrad, from -1 mrad",
        "x: 16 × 1 mrad, from -2 mrad",
    ]


def test_one_after_the_other(ctx, array):
    dataset = ctx.load("memory", data=array)
    for first, then in product(TURNS, TURNS):
        both = dataset.orient(**first).orient(**then)
        assert np.array_equal(both[1, 2], turned(turned(array[1, 2], **first), **then))
    assert "orientation" not in dataset.orient(flip="y").orient(flip="y").metadata
    assert dataset.orient(flip="y").metadata["orientation"] == "flip y of memory"
    # The data set itself stays as it is.
    assert np.array_equal(dataset[1, 2], array[1, 2])


def test_pickles_and_copies(ctx, array, files):
    da = pytest.importorskip("dask.array")
    path = next(path for _, path, _ in files if path.name == "scan.npy")
    turn = {"flip": "x", "transpose": True}
    lazy = da.from_array(array, chunks=(1, 4, 16, 64))
    for plain in (ctx.open(path), ctx.load("memory", data=array), ctx.load("dask", lazy)):
        dataset = plain.orient(**turn).calibrate(pixel_size="2mrad")
        for again in (pickle.loads(pickle.dumps(dataset)), copy.copy(dataset)):
            assert again.axes == dataset.axes
            assert again.metadata == dataset.metadata
            assert np.array_equal(again[1, 2], turned(array[1, 2], **turn))


@pytest.mark.parametrize("ending", ["npy", "zarr", "h5", "hspy", "zspy"])
def test_copies_are_turned(ctx, array, files, tmp_path, ending):
    path = next(path for _, path, _ in files if path.name == "scan.npy")
    turn = {"flip": "y", "transpose": True}
    ctx.export_dataset(ctx.open(path, **turn), tmp_path / f"a.{ending}")
    ctx.export_dataset(ctx.open(path), tmp_path / f"b.{ending}", **turn)
    for name in ("a", "b"):
        written = ctx.open(tmp_path / f"{name}.{ending}")
        assert np.array_equal(written[...], turned(array, **turn))
        expected = None if ending == "npy" else "transpose, flip y of npy"
        assert written.metadata.get("orientation") == expected


def test_the_command_line(ctx, array, files, command, tmp_path):
    path = next(path for _, path, _ in files if path.name == "scan.mib")
    turn = ["--flip", "yx", "--transpose"]
    expected = turned(array, flip="yx", transpose=True)
    facts = json.loads(command("info", path, "--json", *turn))
    assert facts["sig_shape"] == [64, 16]
    assert facts["row_order"].startswith("turned (transpose, flip yx); without that, as stored")
    assert facts["metadata"]["orientation"]["value"] == "transpose, flip yx of mib"
    command("run", "sum", path, "-o", tmp_path / "sum.npy", *turn)
    assert np.array_equal(np.load(tmp_path / "sum.npy"), expected.sum(axis=(0, 1)))
    command("convert", path, tmp_path / "copy.npy", *turn)
    assert np.array_equal(np.load(tmp_path / "copy.npy"), expected)
    command("info", path, "--flip", "z", code=2)
    # HyperSpy's orientation, which is the default of its own format alone.
    for name, words, flipped in (
        ("a.hspy", [], True),
        ("b.hspy", ["--orientation", "framefold"], False),
        ("c.hspy", ["--flip", "x"], None),
        ("d.h5", [], False),
        ("e.npy", ["--orientation", "hyperspy"], True),
    ):
        said = command("convert", path, tmp_path / name, *words)
        assert ("as HyperSpy shows" in said) == (flipped is True)
        frames = turned(array, flip={True: "y", False: None, None: "x"}[flipped])
        assert np.array_equal(ctx.open(tmp_path / name)[...], frames), name
    assert "flip y of mib" in command("info", tmp_path / "a.hspy")
    words = ["--flip", "x", "--orientation", "hyperspy"]
    wrong = command("convert", path, tmp_path / "f.hspy", *words, code=2)
    assert "turned already (flip x)" in wrong


# rosettasciio leaves files to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::framefold.warnings.DataSetWarning")
def test_copies_for_hyperspy_are_as_hyperspy_shows_the_original(ctx, tmp_path):
    quantum = pytest.importorskip("rsciio.quantumdetector")
    hspy = pytest.importorskip("rsciio.hspy")
    n = 0
    for entry in manifest("MIB"):
        path = real_data() / entry["file"]
        try:
            theirs = np.asarray(quantum.file_reader(str(path))[0]["data"])
        except Exception:  # raw frames, among others
            continue
        dataset = ctx.open(path)
        target = tmp_path / f"copy_{n}.hspy"
        ctx.export_dataset(dataset, target, compression="none")
        signal = hspy.file_reader(str(target))[0]
        sig = theirs.shape[-2:]
        assert np.array_equal(signal["data"].reshape(-1, *sig), theirs.reshape(-1, *sig)), path
        assert ctx.open(target).metadata["orientation"] == "flip y of mib"
        n += 1
    if not manifest("MIB"):
        pytest.skip("no real files")
    assert n > 8


def test_copies_for_hyperspy_of_data_that_are_turned(ctx, array, tmp_path):
    write_mib(tmp_path / "scan.mib", array)
    dataset = ctx.open(tmp_path / "scan.mib")
    for ending, flip in [("hspy", "y"), ("zspy", "y"), ("zarr", None), ("h5", None), ("npy", None)]:
        ctx.export_dataset(dataset, tmp_path / f"copy.{ending}")
        copied = ctx.open(tmp_path / f"copy.{ending}")
        assert np.array_equal(copied[...], turned(array, flip))
        expected = None if flip is None else "flip y of mib"
        assert copied.metadata.get("orientation") == expected
    ctx.export_dataset(dataset.orient(flip="y"), tmp_path / "a.hspy")
    assert np.array_equal(ctx.open(tmp_path / "a.hspy")[...], turned(array, "y"))
    ctx.export_dataset(dataset, tmp_path / "b.hspy", orientation="framefold")
    copied = ctx.open(tmp_path / "b.hspy")
    assert np.array_equal(copied[...], array)
    assert "orientation" not in copied.metadata
    ctx.export_dataset(dataset, tmp_path / "c.zarr", orientation="hyperspy")
    assert np.array_equal(ctx.open(tmp_path / "c.zarr")[...], turned(array, "y"))
    with pytest.raises(InvalidArgumentError, match=r"turned already \(flip x\)"):
        ctx.export_dataset(dataset, tmp_path / "d.hspy", flip="x", orientation="hyperspy")
    with pytest.raises(InvalidArgumentError, match="'upside down'"):
        ctx.export_dataset(dataset, tmp_path / "d.hspy", orientation="upside down")
    # Corrections and regions of interest are of the data set's frames, whatever is written.
    dark = np.arange(SIG[0] * SIG[1], dtype="float32").reshape(SIG)
    roi = dataset.roi[1]
    ctx.export_dataset(dataset, tmp_path / "e.hspy", corrections=CorrectionSet(dark=dark), roi=roi)
    found = ctx.open(tmp_path / "e.hspy")[...].reshape(4, *SIG)
    assert np.array_equal(found, turned(array[1] - dark, "y"))
    # What HyperSpy shows as it is, is written as it is.
    memory = ctx.load("memory", data=array)
    ctx.export_dataset(memory, tmp_path / "f.hspy")
    assert np.array_equal(ctx.open(tmp_path / "f.hspy")[...], array)


def test_runs_say_that_frames_are_turned(ctx, array, tmp_path):
    write_mib(tmp_path / "scan.mib", array)
    dataset = ctx.open(tmp_path / "scan.mib", flip="y")
    rows = [row["value"] for row in dataset.diagnostics if row["name"] == "row order"]
    assert rows[0].startswith("turned (flip y); without that, as stored, the bottom row")
    assert "turned (flip y)" in ctx.explain(dataset, ff.SumUDF())
    assert "turned" not in ctx.explain(ctx.open(tmp_path / "scan.mib"), ff.SumUDF())


def small_real_files():
    chosen = {}
    for entry in manifest():
        if entry["size"] < 20e6 and entry["readable"]:
            chosen.setdefault(entry["format"], []).append(entry["file"])
    return [name for names in chosen.values() for name in names[:3]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", small_real_files())
def test_real_files(ctx, name):
    path = real_data() / name
    try:
        plain = ctx.open(path)
    except ff.exceptions.FramefoldError as error:
        pytest.skip(f"not opened by itself: {error}")
    there = np.zeros(tuple(plain.shape.nav), bool)
    there.flat[np.flatnonzero(plain.valid_mask)[:7]] = True
    frames = plain[there]
    for turn in TURNS:
        if plain.shape.sig.dims == 1 and turn != {"flip": "x", "transpose": False}:
            continue
        if plain.axes[-1].name == "colour":
            with pytest.raises(ff.exceptions.InvalidArgumentError, match="cannot be turned"):
                plain.orient(**turn)
            continue
        dataset = plain.orient(**turn)
        assert np.array_equal(dataset[there], turned(frames, **turn), equal_nan=True)
        # Parts of frames, as tiles of a large depth take them.
        udf = Pieces()
        found = ctx.run_udf(dataset=dataset, udf=udf, roi=there)["frames"].data[there]
        expected = turned(
            ctx.run_udf(dataset=plain, udf=udf, roi=there)["frames"].data[there], **turn
        )
        assert np.array_equal(found, expected, equal_nan=True)


class Pieces(ff.UDF):
    """Puts frames together from small parts of them."""

    def get_result_buffers(self):
        dtype = np.result_type(self.meta.input_dtype, "float64")
        shape = tuple(self.meta.dataset_shape.sig)
        return {"frames": self.buffer("nav", extra_shape=shape, dtype=dtype)}

    def get_tiling_preferences(self):
        return {"depth": 7, "total_size": 1 << 14}

    def process_tile(self, tile):
        part = self.meta.slice.get(sig_only=True)
        self.results.frames[(slice(None), *part)] = tile
