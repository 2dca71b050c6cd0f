"""``self.meta``, masks of results, and the life of a UDF."""

import numpy as np
import pytest
from known_oddities import POSITIONS_WITHOUT_DATA

from framefold.exceptions import UDFError, UnsupportedError
from framefold.udf import UDF
from framefold.warnings import UseDiscouragedWarning


class Simple(UDF):
    """One number per frame."""

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.results.x[:] = frame.sum()


@pytest.fixture
def roi():
    roi = np.zeros((6, 7), dtype=bool)
    roi[1, 2] = roi[0, 0] = roi[5, 6] = roi[3, 3] = True
    return roi


def test_meta_in_every_hook(ctx, dataset, data, roi):
    class Curious(Simple):
        def get_result_buffers(self):
            meta = self.meta
            assert tuple(meta.dataset_shape.nav) == (6, 7)
            assert tuple(meta.dataset_shape.sig) == (10, 12)
            assert meta.dataset_dtype == np.uint16
            assert meta.input_dtype == np.float32
            assert np.array_equal(meta.roi, roi)
            return super().get_result_buffers()

        def process_frame(self, frame):
            meta = self.meta
            index = meta.slice.origin[0]
            y, x = np.argwhere(roi)[index]
            assert np.array_equal(meta.coordinates, [(y, x)])
            assert np.array_equal(frame, data[y, x])
            assert meta.slice.get(nav_only=True) == (slice(index, index + 1),)
            assert meta.slice.get(sig_only=True) == (slice(0, 10), slice(0, 12))
            assert tuple(meta.sig_slice.shape) == (10, 12)
            assert meta.tiling_scheme_idx == 0
            assert len(meta.tiling_scheme) == 1
            assert tuple(meta.tiling_scheme.shape.sig) == (10, 12)
            assert meta.tiling_scheme[0] == meta.sig_slice
            assert meta.device_class == "cpu"
            assert meta.array_backend == UDF.BACKEND_NUMPY
            assert meta.threads_per_worker >= 1
            assert tuple(meta.partition_shape.sig) == (10, 12)
            assert meta.get_valid_nav_mask() is None
            super().process_frame(frame)

        def merge(self, dest, src):
            self.seen = [*getattr(self, "seen", []), int(self.meta.get_valid_nav_mask().sum())]
            dest.x[:] = src.x

        def get_results(self):
            assert self.seen == sorted(self.seen)
            assert self.seen[0] == 0
            assert self.meta.slice is None
            assert self.meta.array_backend is None
            assert np.array_equal(self.meta.coordinates, np.argwhere(roi))
            assert self.meta.get_valid_nav_mask().all()
            assert np.array_equal(self.meta.get_valid_nav_mask(full_nav=True), roi.reshape(-1))
            with pytest.raises(ValueError, match="partition_shape"):
                _ = self.meta.partition_shape
            return {}

    result = ctx.run_udf(dataset, Curious(), roi=roi)
    assert np.array_equal(result["x"].raw_data, data[roi].sum(axis=(1, 2)).astype(np.float32))


@pytest.mark.parametrize("method", ["process_frame", "process_tile", "process_partition"])
@pytest.mark.parametrize("with_roi", [False, True])
def test_meta_is_of_the_partition_where_buffers_are_whole(ctx, data, roi, method, with_roi):
    class Ends(UDF):
        def get_result_buffers(self):
            yx = {name: self.buffer("nav", (2,), int) for name in ("task", "before", "after")}
            return {**yx, "width": self.buffer("sig", dtype=int)}

        def look(self):
            meta = self.meta
            if meta.slice is not None:
                assert tuple(meta.slice.shape) == tuple(meta.partition_shape)
                assert len(meta.coordinates) == meta.partition_shape[0]
            assert meta.tiling_scheme_idx is None
            assert meta.sig_slice.get() == (slice(0, 10), slice(0, 12))
            return meta.coordinates

        def get_task_data(self):
            return {"yx": self.look()}

        def preprocess(self):
            self.results.before[:] = self.look()

        def postprocess(self):
            self.results.task[:] = self.task_data.yx
            self.results.after[:] = self.look()
            self.results.width[:] = np.arange(12)[self.meta.sig_slice.get()[1]]

        def cleanup(self):
            self.look()

        def merge(self, dest, src):
            for name, array in src.items():
                getattr(dest, name)[:] = array

    setattr(Ends, method, lambda self, pixels: None)
    dataset = ctx.load("memory", data=data, num_partitions=4, tileshape=(3, 5, 4))
    roi = roi if with_roi else None
    result = ctx.run_udf(dataset, Ends(), roi=roi)
    expected = np.argwhere(np.ones((6, 7), bool) if roi is None else roi)
    for name in ("task", "before", "after"):
        assert np.array_equal(result[name].raw_data, expected)
    assert np.array_equal(result["width"].data, np.tile(np.arange(12), (10, 1)))


@POSITIONS_WITHOUT_DATA
def test_positions_without_data_never_become_valid(ctx, data):
    class Mirror(Simple):
        def get_result_buffers(self):
            return {**super().get_result_buffers(), "v": self.buffer("nav", use="result_only")}

        def get_results(self):
            return {"v": self.meta.get_valid_nav_mask()}

    dataset = ctx.load("memory", data=data, sync_offset=5)
    result = ctx.run_udf(dataset, Mirror())
    assert np.array_equal(result["v"].raw_data, np.arange(42) < 37)
    assert np.array_equal(result["x"].valid_mask.reshape(-1), np.arange(42) < 37)


def test_the_roi_of_a_run_is_read_only(ctx, dataset, roi):
    class Moving(Simple):
        def preprocess(self):
            self.meta.roi[:] = self.meta.roi[::-1].copy()

    with pytest.raises(ValueError, match="read-only"):
        ctx.run_udf(dataset=dataset, udf=Moving(), roi=roi)
    udf = Simple()
    ctx.run_udf(dataset=dataset, udf=udf, roi=roi)
    with pytest.raises(ValueError, match="read-only"):
        udf.meta.roi[:] = False
    assert roi.flags.writeable


def test_input_dtype_is_common_to_the_data_and_what_each_prefers(ctx, dataset):
    class Prefers(Simple):
        def get_preferred_input_dtype(self):
            return self.params.dtype

        def process_frame(self, frame):
            assert frame.dtype == self.meta.input_dtype == np.dtype(self.params.expected)

    def run(*dtypes):
        expected = [np.result_type(np.uint16, dtype) for dtype in dtypes]
        udfs = zip(dtypes, expected, strict=True)
        ctx.run_udf(dataset, [Prefers(dtype=dtype, expected=each) for dtype, each in udfs])

    run(UDF.USE_NATIVE_DTYPE)
    run(np.float32)
    run(np.int8)
    run(np.float32, np.complex64)
    run(UDF.USE_NATIVE_DTYPE, np.uint32, np.float64)


def test_masks_of_results(ctx, dataset, roi):
    sig_mask = np.zeros((10, 12), dtype=bool)
    sig_mask[2:5, 3:9] = True

    class Masked(UDF):
        def get_result_buffers(self):
            return {
                "n": self.buffer(kind="nav"),
                "s": self.buffer(kind="sig", use="result_only"),
                "m": self.buffer(kind="nav", extra_shape=(2,), use="result_only"),
            }

        def process_frame(self, frame):
            self.results.n[:] = 1

        def merge(self, dest, src):
            dest.n[:] = src.n

        def get_results(self):
            nav = np.ones((len(self.results.n), 2))
            return {
                "s": self.with_mask(np.ones((10, 12)), mask=sig_mask),
                "m": self.with_mask(nav, mask=np.array([True, False])),
            }

    result = ctx.run_udf(dataset, Masked(), roi=roi)
    s, m, n = result["s"], result["m"], result["n"]
    assert np.array_equal(s.valid_mask, sig_mask)
    assert s.masked_data.count() == sig_mask.sum() == s.raw_masked_data.count()
    assert s.valid_slice_bounding == (slice(2, 5), slice(3, 9))
    assert s.get_valid_slice_inner(axis=0) == (slice(0, 0), slice(None))
    assert m.data.shape == (6, 7, 2)
    assert np.array_equal(m.valid_mask[..., 0], roi)
    assert not m.valid_mask[..., 1].any()
    assert m.raw_masked_data.count() == 4
    assert n.valid_slice_bounding == (slice(0, 6), slice(0, 7))
    whole = ctx.run_udf(dataset, Simple())["x"]
    assert whole.get_valid_slice_inner() == (slice(0, 6), slice(None))
    rows = np.zeros((6, 7), dtype=bool)
    rows[0] = rows[2:5] = True
    rows[5, :3] = True
    part = ctx.run_udf(dataset, Simple(), roi=rows)["x"]
    for axis in (0, -2):
        assert part.get_valid_slice_inner(axis) == (slice(2, 5), slice(None))
    for axis in (1, -1):
        assert part.get_valid_slice_inner(axis) == (slice(None), slice(0, 0))
    with pytest.raises(IndexError):
        part.get_valid_slice_inner(2)


def test_masks_that_do_not_fit():
    udf = Simple()
    with pytest.raises(ValueError, match=r"\(3,\).*\(2, 2\)"):
        udf.with_mask(np.zeros((2, 2)), np.zeros(3, dtype=bool))
    with pytest.raises(ValueError, match="dtype float64"):
        udf.with_mask(np.zeros((2, 2)), np.zeros((2, 2)))


def test_item_access_in_merge_works_with_a_warning(ctx, dataset, data):
    class Old(Simple):
        def merge(self, dest, src):
            dest["x"][:] = src["x"]

    with pytest.warns(UseDiscouragedWarning, match=r"use \.x instead"):
        result = ctx.run_udf(dataset, Old())
    assert np.array_equal(result["x"].data, data.sum(axis=(2, 3)).astype(np.float32))


def test_array_formats(ctx, dataset):
    class Formats(Simple):
        def get_backends(self):
            return self.params.backends

    for backends in ["numpy", ("cupy", "numpy"), UDF.BACKEND_ALL]:
        ctx.run_udf(dataset, Formats(backends=backends))
    with pytest.raises(UnsupportedError, match=r"Formats takes no array format .*'cupy' needs"):
        ctx.run_udf(dataset, Formats(backends=("cupy",)))
    with pytest.raises(UDFError, match="'numpie', which is no array format"):
        ctx.run_udf(dataset, Formats(backends=("numpie",)))
    assert UDF.BACKEND_SCIPY_CSR in UDF.SPARSE_BACKENDS & UDF.D2_BACKENDS & UDF.CPU_BACKENDS
    target = np.zeros((2, 3))
    assert Simple().forbuf(np.arange(6), target).shape == (2, 3)


def test_hooks_are_called_in_order(ctx, data):
    calls = []

    class Logged(Simple):
        def get_task_data(self):
            calls.append("task")
            return {"factor": 2}

        def preprocess(self):
            where = "main" if self.meta.slice is None else "worker"
            calls.append(f"preprocess {where}")

        def process_frame(self, frame):
            if calls[-1] != "process":
                calls.append("process")
            self.results.x[:] = self.task_data.factor

        def postprocess(self):
            calls.append("postprocess")

        def cleanup(self):
            calls.append("cleanup")

        def merge(self, dest, src):
            calls.append("merge")
            dest.x[:] = src.x

        def get_results(self):
            calls.append("results")
            return {}

    import framefold as ff

    inline = ff.Context.make_with("inline")
    dataset = inline.load("memory", data=data, num_partitions=2)
    result = inline.run_udf(dataset, Logged())
    assert (result["x"].data == 2).all()
    part = ["task", "preprocess worker", "process", "postprocess", "cleanup", "merge"]
    assert calls == ["preprocess main", *part, *part, "results"]


def test_every_dtype_of_buffers(ctx, dataset, roi):
    class Everything(UDF):
        def get_result_buffers(self):
            return {
                "text": self.buffer(kind="nav", dtype="U4"),
                "flag": self.buffer(kind="nav", dtype=bool),
                "number": self.buffer(kind="nav", dtype="int16"),
                "anything": self.buffer(kind="nav", dtype=object),
                "pair": self.buffer(kind="nav", dtype=[("a", "i4"), ("b", "f8")]),
                "half": self.buffer(kind="nav", dtype="float16"),
                "complex": self.buffer(kind="nav", dtype="complex128"),
                "time": self.buffer(kind="nav", dtype="datetime64[s]"),
            }

        def process_frame(self, frame):
            results = self.results
            results.text[:] = "abc"
            results.flag[:] = True
            results.number[:] = -3
            results.anything[0] = {"a": [1]}
            results.pair["a"] = 4
            results.pair["b"] = 0.5
            results.half[:] = 1.5
            results.complex[:] = 1j
            results.time[:] = np.datetime64("2020-01-01T00:00:00")

    result = ctx.run_udf(dataset, Everything(), roi=roi)
    inside, outside = tuple(np.argwhere(roi)[1]), (0, 1)
    assert result["text"].data[inside] == "abc"
    assert result["text"].data[outside] == ""
    assert result["flag"].data[inside]
    assert not result["flag"].data[outside]
    assert (result["number"].data[inside], result["number"].data[outside]) == (-3, 0)
    assert result["anything"].data[inside] == {"a": [1]}
    assert result["anything"].data[outside] is None
    assert result["pair"].data[inside].tolist() == (4, 0.5)
    assert result["half"].data[inside] == 1.5
    assert np.isnan(result["half"].data[outside])
    assert result["complex"].data[inside] == 1j
    assert np.isnan(result["complex"].data[outside])
    assert np.isnat(result["time"].data[outside])
