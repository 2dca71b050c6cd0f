"""Dask arrays as data sets: each chunk once, whatever the chunks are."""

import gc
import pickle
import weakref

import numpy as np
import pytest
from dask_scripts import workers_without_them
from delayed_cases import PerFrame, Total, assert_same, same_bits
from known_oddities import odd

import framefold as ff
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.udf import UDF
from framefold.udf.stddev import StdDevUDF

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask.array is not installed")

SHAPE = (6, 4, 2, 10, 12)
CHUNKS = {
    "rows": (2, 4, 2, 10, 12),
    "parts of rows": (1, 2, 2, 10, 12),
    "single frames": (1, 1, 1, 10, 12),
    "boxes of the scan": (2, 3, 1, 10, 12),
    "columns of the scan": (6, 1, 2, 10, 12),
    "parts of frames": (2, 4, 2, 4, 5),
    "everything cut": (2, 3, 1, 4, 6),
    "uneven": ((1, 2, 3), (3, 1), (2,), (10,), (7, 5)),
    "one": SHAPE,
}


@pytest.fixture(scope="module")
def data():
    return np.random.default_rng(1).integers(0, 4000, size=SHAPE, dtype=np.uint16)


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


@pytest.fixture(scope="module")
def in_memory(inline, data):
    """Results of the same data without Dask."""
    return inline.run_udf(dataset=inline.load("memory", data=data, sig_dims=2), udf=udfs())


@pytest.fixture(scope="module", params=["inline", "threads", "delayed"])
def ctx(request):
    with ff.Context.make_with(request.param) as context:
        yield context


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    with ff.Context.make_with("processes", cpus=2) as context:
        with workers_without_them(tmp_path_factory.mktemp("packages")):
            context.run_udf(context.load("memory", data=np.ones((4, 3, 3))), Total())  # starts them
            assert len(context.executor.worker_ids) == 2
        yield context


def watched(data, chunks):
    """An array, and the chunks that are computed, as they are."""
    seen = []

    def note(block, block_id=None):
        seen.append(block_id)
        return block

    array = da.from_array(data, chunks=chunks)
    return array.map_blocks(
        note, dtype=data.dtype, meta=np.empty((0,) * data.ndim, data.dtype)
    ), seen


def udfs():
    return [PerFrame(), Total(), ff.SumUDF(), ff.SumSigUDF(), StdDevUDF()]


def close(found, expected):
    for mine, other in zip(found, expected, strict=True):
        for name in other:
            if other[name].data.dtype != object:
                a, b = mine[name].data, other[name].data
                np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=name)


def computed(results):
    """The results, which delayed runs compute in one go."""
    lazy = [
        each.delayed_data for of in results for each in of.values() if hasattr(each, "delayed_data")
    ]
    return dask.compute(*lazy)


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("min_size", [0, 3000, None])
def test_every_chunk_is_computed_once(inline, ctx, data, in_memory, chunks, min_size):
    array, seen = watched(data, chunks)
    dataset = ctx.load("dask", array, sig_dims=2, min_size=min_size)
    results = ctx.run_udf(dataset=dataset, udf=udfs())
    assert (seen == []) == (ctx.executor.later.__qualname__.startswith("Delayed"))
    values = computed(results)
    assert len(seen) == len(set(seen)) == np.prod(array.numblocks)
    expected = inline.run_udf(dataset=dataset, udf=udfs())
    if values:
        wanted = [each.data for of in expected for each in of.values()]
        assert all(same_bits(mine, other) for mine, other in zip(values, wanted, strict=True))
    close(expected, in_memory)
    # To look at each delayed result computes all chunks again: that is done once for each cut.
    if not values or min_size == 3000:
        for mine, other in zip(results, expected, strict=True):
            assert_same(mine, other, "executors")


@pytest.mark.parametrize("chunks", ["boxes of the scan", "everything cut", "parts of rows"])
def test_only_chunks_with_selected_frames_are_computed(inline, ctx, data, chunks):
    array, seen = watched(data, CHUNKS[chunks])
    dataset = ctx.load("dask", array, sig_dims=2, min_size=3000)
    roi = np.zeros(SHAPE[:3], dtype=bool)
    roi[1, 2:4, 1] = roi[5, 3, 0] = True
    results = ctx.run_udf(dataset=dataset, udf=udfs(), roi=roi)
    computed(results)
    wanted = set()
    for index in np.ndindex(array.numblocks):
        starts = [sum(lengths[:k]) for lengths, k in zip(array.chunks, index, strict=True)]
        box = tuple(
            slice(start, start + lengths[k])
            for start, lengths, k in zip(starts, array.chunks, index, strict=True)
        )
        if roi[box[:3]].any():
            wanted.add(index)
    assert sorted(seen) == sorted(wanted)
    in_memory = inline.load("memory", data=data, sig_dims=2)
    close(results, inline.run_udf(dataset=in_memory, udf=udfs(), roi=roi))


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_worker_processes(inline, processes, data, chunks):
    array = da.from_array(data, chunks=chunks)
    dataset = processes.load("dask", array, sig_dims=2, min_size=0)
    found = processes.run_udf(dataset=dataset, udf=udfs())
    for mine, other in zip(found, inline.run_udf(dataset=dataset, udf=udfs()), strict=True):
        assert_same(mine, other, chunks)


def test_step_by_step(ctx, data):
    array, seen = watched(data, CHUNKS["rows"])
    dataset = ctx.load("dask", array, sig_dims=2)
    steps = [
        float(step.buffers[0]["intensity"].data.sum())
        for step in ctx.run_udf_iter(dataset=dataset, udf=ff.SumUDF())
    ]
    assert len(steps) == 3
    assert steps[-1] == data.sum(dtype="float32")
    assert len(seen) == 3


@pytest.mark.parametrize("dtype", ["bool", "int8", ">u2", ">f4", "float16", "complex64"])
def test_dtypes(ctx, dtype):
    data = np.random.default_rng(3).integers(0, 2, size=(4, 5, 6, 7)).astype(dtype)
    dataset = ctx.load("dask", da.from_array(data, chunks=(2, 3, 4, 7)), sig_dims=2)
    assert dataset.dtype == data.dtype.newbyteorder("=")
    picked = ctx.run_udf(dataset=dataset, udf=ff.PickUDF())["intensity"].data
    assert np.array_equal(picked.reshape(data.shape), data)


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ("longdouble", "wider than frames can hold; convert it with astype\\('float64'\\)"),
        ("clongdouble", "wider than frames can hold; convert it with astype\\('complex128'\\)"),
        ("M8[s]", "frames hold bools, integers, floats or complex numbers"),
    ],
)
def test_dtypes_that_frames_cannot_hold(ctx, dtype, message):
    data = np.zeros((4, 5, 6, 7), dtype)
    if data.dtype.kind in "fc" and data.dtype.itemsize == 8 << (data.dtype.kind == "c"):
        pytest.skip("long doubles are doubles here")
    for given in (("memory", data), ("dask", da.from_array(data, chunks=2))):
        with pytest.raises(InvalidArgumentError, match=message):
            ctx.load(*given, sig_dims=2)


@pytest.mark.parametrize("sig_dims", [1, 2, 3, 4])
def test_axes(ctx, sig_dims):
    data = np.arange(4 * 5 * 6 * 7, dtype="float64").reshape(4, 5, 6, 7)
    dataset = ctx.load("dask", da.from_array(data, chunks=2), sig_dims=sig_dims)
    nav = data.shape[: 4 - sig_dims] or (1,)
    assert tuple(dataset.shape.nav) == nav
    sums = ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF())["intensity"].data
    assert np.array_equal(sums, data.reshape((*nav, -1)).sum(axis=-1))


def test_axes_in_the_order_of_chunks(ctx, data):
    array, seen = watched(data, CHUNKS["columns of the scan"])
    kept = ctx.load("dask", array, sig_dims=2, min_size=0)
    moved = ctx.load("dask", array, sig_dims=2, min_size=0, preserve_dimensions=False)
    assert tuple(kept.shape) == SHAPE
    assert tuple(moved.shape) == (4, 6, 2, 10, 12)
    assert "1 piece" in kept.meta["read in"]
    assert "4 pieces" in moved.meta["read in"]
    sums = ctx.run_udf(dataset=moved, udf=ff.SumSigUDF())["intensity"].data
    expected = data.sum(axis=(3, 4), dtype="float32").swapaxes(0, 1)
    assert np.array_equal(sums, expected)
    assert len(seen) == 4


@odd("chunks do not hold runs of frames", "there is only one partition")
def test_what_is_done_is_said(ctx, data):
    array = da.from_array(data, chunks=CHUNKS["everything cut"])
    dataset = ctx.load("dask", array, sig_dims=2)
    assert dataset.format == "dask"
    assert dataset.array is array
    assert "72 in a grid of (3, 2, 2, 3, 2)" in dataset.meta["chunks"]
    explained = ctx.explain(dataset, ff.SumUDF())
    assert "up to 24 chunks are put together, to make runs of frames" in explained
    assert "can only be read as a whole" in explained
    assert dataset.warnings == []
    large = da.zeros((2000, 2000, 32, 32), dtype="uint8", chunks=(2000, 50, 32, 32))
    warned = ctx.load("dask", large, sig_dims=2).warnings
    assert len(warned) == 2
    assert "up to 3.81 GiB are in memory at a time for each worker" in warned[0]
    assert "only one partition" in warned[1]


def test_small_chunks_are_taken_together(ctx):
    array = da.zeros((1000, 256, 256), dtype="float32", chunks=(1, 256, 256))
    assert "63 pieces" in ctx.load("dask", array, sig_dims=2).meta["read in"]
    assert "8 pieces" in ctx.load("dask", array, sig_dims=2, min_size=32 << 20).meta["read in"]
    assert "1000 pieces" in ctx.load("dask", array, sig_dims=2, min_size=0).meta["read in"]


class Kept(UDF):
    """Counts pieces of data that are alive at a time."""

    def get_result_buffers(self):
        return {"n": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.results.n[:] = len(ALIVE)


ALIVE: set[int] = set()


def test_one_piece_is_in_memory_at_a_time(inline):
    def make(block_info=None):
        block = np.ones((1, 8, 64, 64), dtype="float32")
        ALIVE.add(id(block))
        weakref.finalize(block, ALIVE.discard, id(block))
        return block

    array = da.map_blocks(
        make, chunks=((1,) * 20, (8,), (64,), (64,)), meta=np.empty((0,) * 4, "f4")
    )
    dataset = inline.load("dask", array, sig_dims=2, min_size=0)
    counts = inline.run_udf(dataset=dataset, udf=Kept())["n"].data
    assert counts.max() == 1


def failing(data, at):
    def fail(block, block_id=None):
        if block_id == at:
            raise ZeroDivisionError(f"in {block_id}")
        return block

    array = da.from_array(data, chunks=CHUNKS["boxes of the scan"])
    return array.map_blocks(fail, dtype=data.dtype, meta=np.empty((0,) * 5, data.dtype))


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_a_chunk_that_cannot_be_computed_is_named(data, executor, request):
    if executor == "processes":
        context = request.getfixturevalue("processes")
    else:
        context = ff.Context.make_with(executor)
    dataset = context.load("dask", failing(data, (1, 1, 0, 0, 0)), sig_dims=2)
    with pytest.raises(ZeroDivisionError) as caught:
        context.run_udf(dataset=dataset, udf=PerFrame())
    notes = " ".join(caught.value.__notes__)
    assert "chunk (1, 1, 0, 0, 0) of the Dask array" in notes
    assert "partition 1" in notes


def test_it_is_itself_in_a_delayed_run(data):
    context = ff.Context.make_with("delayed")
    dataset = context.load("dask", failing(data, (1, 1, 0, 0, 0)), sig_dims=2)
    with pytest.raises(ZeroDivisionError, match=r"\(1, 1, 0, 0, 0\)"):
        _ = context.run_udf(dataset=dataset, udf=PerFrame())["total"].data


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda b: b.astype("float64"), InvalidArgumentError, "has dtype float64.*says uint16"),
        (lambda b: b[:1], InvalidArgumentError, r"shape \(1, 3, 1, 10, 12\).*says \(2, 3, 1"),
        (lambda b: np.ma.masked_less(b, 5), UnsupportedError, "masked array"),
        (lambda b: [1, 2], UnsupportedError, r"builtins\.list"),
    ],
)
def test_chunks_that_are_not_what_the_array_says(ctx, data, change, kind, message):
    array = da.from_array(data, chunks=CHUNKS["boxes of the scan"])
    wrong = array.map_blocks(change, dtype=data.dtype, meta=np.empty((0,) * 5, data.dtype))
    dataset = ctx.load("dask", wrong, sig_dims=2)
    # Which partition comes first is up to Dask, in a delayed run.
    with pytest.raises(kind, match=rf"chunk \(\d, \d, \d, 0, 0\) of the Dask array.*{message}"):
        computed([ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF())])


def test_masked_pixels_are_no_numbers_in_memory_either(ctx, data):
    array = da.from_array(data, chunks=CHUNKS["boxes of the scan"])
    with pytest.raises(InvalidArgumentError, match="elements of data are masked"):
        ctx.load("memory", data=da.ma.masked_less(array, 5), sig_dims=2)
    dataset = ctx.load("memory", data=da.ma.filled(da.ma.masked_less(array, 5), 0), sig_dims=2)
    assert np.array_equal(np.asarray(dataset), np.where(data < 5, 0, data))


def test_masks_of_dask_arrays_are_seen_wherever_arrays_are_taken():
    from framefold.io.corrections import CorrectionSet

    def masked(*shape):
        values = da.arange(np.prod(shape), chunks=3).reshape(shape)
        return da.ma.masked_less(values, 1)

    for what, take in {
        "AUX data": lambda: UDF.aux_data(masked(6, 7), "nav"),
        "dark": lambda: CorrectionSet(dark=masked(4, 4)),
        "gain": lambda: CorrectionSet(gain=masked(4, 4)),
        "a mask": lambda: ff.ApplyMasksUDF([lambda: masked(4, 4)]).masks.dtype,
        "the shifts of ApplyMasksUDF": lambda: ff.ApplyMasksUDF(
            [lambda: np.ones((4, 4))], shifts=masked(6, 7, 2)
        ),
        "yx": lambda: ff.Shift([masked(2), masked(2)]),
    }.items():
        with pytest.raises(InvalidArgumentError, match=f"^elements of {what} are masked; "):
            take()
    UDF.aux_data(da.ma.filled(masked(6, 7), 0), "nav")
    positions = np.random.default_rng(1).random((6, 7, 2))
    known = positions.copy()
    known[2, 3] = np.nan
    positions[2, 3] = 1e3
    given = da.ma.masked_greater(da.from_array(positions, chunks=(2, 7, 2)), 10)
    fit, expected = ff.fit_origin(given, clip=None), ff.fit_origin(known, clip=None)
    np.testing.assert_array_equal(fit.shifts, expected.shifts)


def test_masks_of_dask_arrays_are_seen_in_what_functions_give(inline):
    dataset = inline.load("memory", data=np.arange(48.0).reshape(3, 4, 2, 2), sig_dims=2)

    def masked(array):
        return da.ma.masked_less(da.from_array(np.asarray(array), chunks=2), 60)

    class Bright(UDF):
        def get_result_buffers(self):
            return {"total": self.buffer(kind="nav", dtype="float64")}

        def process_frame(self, frame):
            self.results.total[:] = frame.sum()

        def get_results(self):
            return {"total": masked(self.results.total)}

    total = inline.run_udf(dataset, Bright())["total"]
    np.testing.assert_array_equal(total.valid_mask, total.data >= 60)
    assert 0 < np.count_nonzero(total.valid_mask) < 12
    pixels = ff.SumUDF()
    image = ff.from_result(pixels, "intensity", lambda image: masked(image - 250))
    with pytest.raises(InvalidArgumentError, match="returned masked elements; expected numbers"):
        inline.run_udf(dataset, [pixels, ff.ReductionUDF("masks", masks=image)])
    with pytest.raises(ff.udf.base.UDFException, match="returned masked elements for this frame"):
        inline.map(dataset=dataset, f=lambda frame: masked(frame[:1, 1]))


ARRAY = da.zeros((4, 5, 6, 7), chunks=(2, 5, 6, 7))


@pytest.mark.parametrize(
    ("array", "options", "kind", "message"),
    [
        (np.zeros((4, 5, 6)), {}, InvalidArgumentError, "got a ndarray.*load.'memory'"),
        (ARRAY, {"sig_dims": 5}, InvalidArgumentError, "between 1 and 4"),
        (ARRAY, {"sig_dims": 0}, InvalidArgumentError, "between 1 and 4"),
        (ARRAY, {"sig_dims": "2"}, InvalidArgumentError, "expected a whole number"),
        (ARRAY[ARRAY[:, 0, 0, 0] > 0], {}, InvalidArgumentError, "compute_chunk_sizes"),
        (ARRAY[:0], {}, InvalidArgumentError, "no element"),
        (ARRAY.astype("datetime64[s]"), {}, InvalidArgumentError, "dtype datetime64"),
        (ARRAY, {"nav_shape": (20,)}, UnsupportedError, "nav_shape=.*reshape"),
        (ARRAY, {"sig_shape": (42,)}, UnsupportedError, "sig_shape=.*reshape"),
        (ARRAY, {"sync_offset": 1}, UnsupportedError, "sync_offset=1 has no meaning"),
        (ARRAY, {"num_partitions": 3}, UnsupportedError, "partitions follow the chunks"),
        (ARRAY, {"io_backend": "mmap"}, UnsupportedError, "Dask reads the data"),
        (ARRAY, {"min_size": -1}, InvalidArgumentError, "a number of bytes"),
        (ARRAY, {"min_size": "1 MiB"}, InvalidArgumentError, "a number of bytes"),
        (ARRAY, {"chunks": 3}, InvalidArgumentError, "no option 'chunks'"),
    ],
)
def test_what_does_not_fit_is_refused(ctx, array, options, kind, message):
    with pytest.raises(kind, match=message):
        ctx.load("dask", array, **options)


def test_options_that_are_none_are_as_good_as_left_out(ctx):
    dataset = ctx.load("dask", dask_array=ARRAY, sig_dims=2, nav_shape=None, io_backend=None)
    assert tuple(dataset.shape) == ARRAY.shape


def test_pickles_hold_the_tasks(inline, data):
    array = da.from_array(data, chunks=CHUNKS["everything cut"])
    dataset = inline.load("dask", array, sig_dims=2, min_size=0)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.meta == dataset.meta
    assert_same(
        inline.run_udf(again, PerFrame()), inline.run_udf(dataset, PerFrame()), "made again"
    )


def test_the_scheduler_that_is_set_computes_chunks(inline, data):
    asked = []

    def get(graph, keys, **options):
        asked.append(len(keys))
        return dask.local.get_sync(graph, keys, **options)

    dataset = inline.load("dask", da.from_array(data, chunks=CHUNKS["rows"]), sig_dims=2)
    with dask.config.set(scheduler=get):
        inline.run_udf(dataset=dataset, udf=ff.SumUDF())
    assert asked == [1, 1, 1]


def test_nothing_is_left_of_a_data_set(inline):
    dataset = inline.load("dask", da.zeros((4, 5, 6, 7), chunks=(2, 5, 6, 7)))
    inline.run_udf(dataset=dataset, udf=ff.SumUDF())
    reader = weakref.ref(dataset._reader)
    del dataset
    gc.collect()
    assert reader() is None
