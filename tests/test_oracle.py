"""Random data, dtypes, ROIs, partitions and executors against NumPy; the same bits everywhere."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from known_oddities import POSITIONS_WITHOUT_DATA

import framefold as ff
from framefold.udf import UDF

DTYPES = ["bool", "u1", "<u2", ">u2", "<u4", ">u4", "u8", "i1", ">i2", "<i4", "i8"]
DTYPES += ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c16"]

CONTEXTS = [
    ff.Context.make_with("inline"),
    ff.Context.make_with("threads", cpus=1),
    ff.Context.make_with("threads", cpus=2),
    ff.Context.make_with("threads", cpus=5),
]


@st.composite
def jobs(draw):
    nav = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    sig = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = nav + sig
    if dtype.kind == "b":
        data = rng.random(shape) < 0.5
    elif dtype.kind in "iu":
        info = np.iinfo(dtype)
        data = rng.integers(info.min, info.max, shape, dtype=dtype.newbyteorder("="), endpoint=True)
    else:
        data = rng.normal(size=shape, scale=100)
        if dtype.kind == "c":
            data = data + 1j * rng.normal(size=shape)
    data = data.astype(dtype)
    if draw(st.booleans()):
        data = np.asfortranarray(data)
    roi = None
    if draw(st.booleans()):
        roi = rng.random(nav) < draw(st.floats(0.05, 1))
        roi.flat[rng.integers(roi.size)] = True
    num_partitions = draw(st.none() | st.integers(1, 9))
    sync_offset = draw(st.integers(-2, 2))
    limit = int(np.prod(nav))
    if not -limit < sync_offset < limit:
        sync_offset = 0
    return data, len(sig), roi, num_partitions, sync_offset


class PythonSum(UDF):
    """Sum of selected frames, exactly, and the number of frames."""

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {
            "total": self.buffer(kind="sig", dtype=object),
            "n": self.buffer(kind="single", dtype=int),
            "position": self.buffer(kind="nav", dtype=int),
        }

    def process_frame(self, frame):
        self.results.total[:] += frame.astype(object)
        self.results.n += 1
        nav = tuple(self.meta.dataset_shape.nav)
        self.results.position[:] = np.ravel_multi_index(self.meta.coordinates[0], nav)

    def merge(self, dest, src):
        dest.total[:] += src.total
        dest.n[:] += src.n
        dest.position[:] = src.position


def selected(data, sig_dims, roi, sync_offset):
    """Selected positions that have data, and their frames."""
    nav = data.shape[: data.ndim - sig_dims]
    frames = data.reshape((-1, *data.shape[data.ndim - sig_dims :]))
    positions = np.arange(len(frames)) if roi is None else np.flatnonzero(roi)
    shifted = positions + sync_offset
    there = (shifted >= 0) & (shifted < len(frames))
    return nav, positions[there], frames[shifted[there]]


@settings(max_examples=120)
@given(jobs())
@POSITIONS_WITHOUT_DATA
def test_equals_numpy_on_every_executor(job):
    data, sig_dims, roi, num_partitions, sync_offset = job
    nav, positions, frames = selected(data, sig_dims, roi, sync_offset)
    udfs = [ff.SumUDF(dtype="f8"), ff.SumSigUDF(), PythonSum()]
    if data.dtype.kind != "c":
        udfs.append(ff.MaxUDF())
    all_results = []
    for ctx in CONTEXTS:
        dataset = ctx.load(
            "memory",
            data=data,
            sig_dims=sig_dims,
            num_partitions=num_partitions,
            sync_offset=sync_offset,
        )
        all_results.append(ctx.run_udf(dataset=dataset, udf=udfs, roi=roi))

    total, sums, exact, *rest = all_results[0]
    exact_sum = frames.astype(object).sum(axis=0)
    if len(frames):
        assert (exact["total"].data == exact_sum).all() or data.dtype.kind in "fc"
    assert exact["n"].data[0] == len(frames)
    expected_dtype = np.result_type(data.dtype, np.float64)
    assert total["intensity"].data.dtype == expected_dtype
    if data.dtype.kind in "iub":
        rounded = np.zeros(frames.shape[1:]) + exact_sum.astype(np.float64)
        assert np.array_equal(total["intensity"].data, rounded)
    else:
        wide = frames.astype(np.result_type(data.dtype, np.float64))
        np.testing.assert_allclose(total["intensity"].data, wide.sum(axis=0), rtol=1e-12, atol=1e-9)

    of_each = sums["intensity"]
    axes = tuple(range(1, frames.ndim))
    wide = frames.astype(np.result_type(data.dtype, np.float64)).sum(axis=axes)
    valid = np.zeros(nav, dtype=bool)
    valid.flat[positions] = True
    assert np.array_equal(of_each.valid_mask, valid)
    np.testing.assert_allclose(of_each.data.flat[positions], wide, rtol=1e-5, atol=1e-3)
    assert np.isnan(of_each.data[~valid]).all()
    assert np.array_equal(exact["position"].data.flat[positions], positions)
    if rest and len(frames):
        assert np.array_equal(rest[0]["intensity"].data, frames.max(axis=0))

    for results in all_results[1:]:
        for one, other in zip(all_results[0], results, strict=True):
            for name, buffer in one.items():
                assert_same_bits(buffer.raw_data, other[name].raw_data)


def assert_same_bits(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if a.dtype == object:
        assert (a == b).all()
    else:
        assert a.tobytes() == b.tobytes()


def test_float_sums_have_the_same_bits_on_every_executor():
    rng = np.random.default_rng(5)
    data = (rng.normal(size=(40, 50, 16, 16)) * 10 ** rng.uniform(-6, 6, (40, 50, 16, 16))).astype(
        np.float32
    )
    udfs = [ff.SumUDF(), ff.SumSigUDF(), ff.StdDevUDF(), ff.LogsumUDF(), ff.CoMUDF()]
    udfs.append(ff.ApplyMasksUDF(mask_factories=[lambda: rng_mask()]))
    reference = None
    for ctx in CONTEXTS * 2:
        dataset = ctx.load("memory", data=data)
        results = ctx.run_udf(dataset=dataset, udf=udfs)
        flat = [buffer.raw_data for result in results for buffer in result.values()]
        reference = reference or flat
        for one, other in zip(reference, flat, strict=True):
            assert_same_bits(one, other)


def rng_mask():
    return np.random.default_rng(1).normal(size=(16, 16))
