"""Products with masks on CUDA devices."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from cuda_masks import CUPYX, dense_masks, products, sparse_masks
from cuda_udfs import SIG
from sparse_files import counts, write_raw_csr

from framefold.common import Shape, Slice
from framefold.common.container import MaskContainer
from framefold.exceptions import InvalidArgumentError
from framefold.udf import UDF
from framefold.udf.masks import ApplyMasksUDF

NAV = (3, 4)


@pytest.fixture
def data():
    return counts((*NAV, *SIG), "uint16")


class InTiles(ApplyMasksUDF):
    """In parts of frames, so that products add up."""

    def get_tiling_preferences(self):
        return {"depth": 2, "total_size": 80}


def open_as(ctx, data, tmp_path, native):
    if native == "dense":
        return ctx.load("memory", data=data, num_partitions=3)
    path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
    return ctx.load("raw_csr", path, num_partitions=3)


@pytest.mark.parametrize("native", ["dense", "sparse"])
@pytest.mark.parametrize("format_", ["cupy", *CUPYX])
@pytest.mark.parametrize("make", [dense_masks, sparse_masks])
@pytest.mark.parametrize("dtype", ["float32", "int16", "complex64"])
def test_products(ctx, device, data, tmp_path, native, format_, make, dtype):
    masks = make(5, SIG, dtype)
    dataset = open_as(ctx, data, tmp_path, native)
    # CuPy has no sparse arrays of integers.
    options = {} if device.is_real else {"preferred_dtype": InTiles.USE_NATIVE_DTYPE}
    plain = ctx.run_udf(dataset, ApplyMasksUDF(lambda: masks, **options))["intensity"].data
    expected = products(data, masks)
    for whole in (True, False):
        cls = ApplyMasksUDF if whole else InTiles
        udf = cls(lambda: masks, backends=(format_,), **options)
        result = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data
        np.testing.assert_allclose(result, expected, rtol=device.rtol)
        explained = str(ctx.explain(dataset, udf))
        assert f"{cls.__name__}: by tile, {format_}" in explained
        # Tiles of sparse data are whole frames; others are not: parts of masks are needed.
        in_parts = not whole and native == "dense"
        assert ("(1 per frame)" in explained) != in_parts
        assert result.dtype == plain.dtype
    if not device.is_real:  # where libraries may hold some for later products
        device.check_released()


@pytest.mark.parametrize("use_sparse", [False, True])
@pytest.mark.parametrize("dtype", ["int16", "float32", "float64"])
def test_infinite_parts_of_complex_frames_times_real_masks(ctx, device, use_sparse, dtype):
    data = np.full((3, *SIG), 1 + 2j, dtype="complex64")
    data.real[0, 0, 0], data.imag[1, 0, 0] = np.inf, -np.inf
    dataset, masks = ctx.load("memory", data=data, sig_dims=2), np.ones((2, *SIG), dtype)
    masks[1, 1:] = 2
    options = {"mask_factories": lambda: masks, "use_sparse": use_sparse}
    expected = ctx.run_udf(dataset, ApplyMasksUDF(**options))["intensity"].data
    assert not np.isnan(expected).any()
    for backends in (None, ("cupy",)):
        udf = ApplyMasksUDF(**options, backends=backends)
        found = ctx.run_udf(dataset, udf, backends="cupy")["intensity"].data
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.real, expected.real, rtol=device.rtol)
        np.testing.assert_allclose(found.imag, expected.imag, rtol=device.rtol)


@pytest.mark.parametrize("use_sparse", [False, True])
def test_infinite_frames_times_complex_masks(ctx, device, use_sparse):
    data = np.ones((2, *SIG), dtype="float32")
    data[0, 0, 0], data[1, 2, 1] = np.inf, -np.inf
    dataset = ctx.load("memory", data=data, sig_dims=2)
    masks = np.full((1, *SIG), 1 - 2j, dtype="complex64")
    udf = ApplyMasksUDF(lambda: masks, use_sparse=use_sparse, backends=("cupy",))
    found = ctx.run_udf(dataset, udf, backends="cupy")["intensity"].data[:, 0]
    assert found.real.tolist() == [np.inf, -np.inf]
    assert found.imag.tolist() == [-np.inf, np.inf]


@pytest.mark.parametrize("native", ["dense", "sparse"])
@pytest.mark.parametrize("format_", ["cupy", *CUPYX[:2]])
@pytest.mark.parametrize("shift", [(2, -3), (-1, 1), (100, 0)])
def test_shifts(ctx, device, data, tmp_path, native, format_, shift):
    masks = dense_masks(2, SIG)
    dataset = open_as(ctx, data, tmp_path, native)
    udf = ApplyMasksUDF(lambda: masks, backends=(format_,), shifts=shift)
    result = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data
    np.testing.assert_allclose(result, products(data, masks, shift), rtol=device.rtol)


def test_masks_are_brought_to_a_worker_once(ctx, machine, data):
    dataset = ctx.load("memory", data=data, num_partitions=6)
    asked = []

    class Masks(ApplyMasksUDF):
        def _products(self, frames, sig_slice):
            masks = self.task_data.masks
            before = masks.get_for_sig_slice

            def count(*args, **options):
                asked.append(args)
                return before(*args, **options)

            masks.get_for_sig_slice = count
            try:
                return super()._products(frames, sig_slice)
            finally:
                masks.get_for_sig_slice = before

    udf = Masks(lambda: dense_masks(3, SIG), backends=("cupy",))
    ctx.run_udf(dataset=dataset, udf=udf)
    assert len(asked) == 1


# --- Integers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("use_sparse", [False, True])
@pytest.mark.parametrize("shift", [None, (1, 0)])
def test_integers_are_right_or_an_error(ctx, device, whole, use_sparse, shift):
    frames = np.zeros((3, 4, 5), dtype="int64")
    frames[0, 1:] = 2**62
    frames[1, 1:, :2] = 2**62
    frames[2, 1:] = np.arange(5)
    signs = np.ones((1, 4, 5), dtype="int64")
    signs[:, :, 1::2] = -1
    dataset = ctx.load("memory", data=frames, sig_dims=2)
    cls = ApplyMasksUDF if whole else InTiles

    def run(mask, frame, backends=("cupy",)):
        options = {"preferred_dtype": cls.USE_NATIVE_DTYPE, "use_sparse": use_sparse}
        udf = cls(lambda: mask, backends=backends, shifts=shift, **options)
        return ctx.run_udf(dataset, udf, roi=np.arange(3) == frame)["intensity"].raw_data.tolist()

    assert run(signs, 1) == [[0]]
    assert run(signs, 2) == [[6]]
    assert run(np.abs(signs), 2) == [[30]]
    for frame in (0, 1):
        with pytest.raises(InvalidArgumentError, match="which int64 cannot hold"):
            run(np.abs(signs), frame)


@pytest.mark.parametrize("format_", CUPYX)
def test_sparse_frames_with_sums_that_may_not_fit_are_refused(ctx, device, format_):
    if device.is_real:
        pytest.skip("CuPy has no sparse arrays of integers")
    dataset = ctx.load("memory", data=np.full((1, 2, *SIG), 2**40))
    masks = np.full((1, *SIG), 2**30)
    masks[:, ::2] *= -1
    options = {"preferred_dtype": ApplyMasksUDF.USE_NATIVE_DTYPE, "backends": (format_,)}
    with pytest.raises(InvalidArgumentError, match=r"beyond what int64 can hold.*'float64'"):
        ctx.run_udf(dataset, ApplyMasksUDF(lambda: masks, **options))


@pytest.mark.parametrize("format_", ["cupy", *CUPYX])
def test_integers_as_narrow_as_masks(ctx, device, format_):
    data = np.full((1, 2, *SIG), 300, dtype="int16")
    dataset = ctx.load("memory", data=data)
    options = {"preferred_dtype": ApplyMasksUDF.USE_NATIVE_DTYPE, "backends": (format_,)}
    if device.is_real and format_ != "cupy":
        options["preferred_dtype"] = "float32"

    def run(mask):
        udf = ApplyMasksUDF(lambda: mask[None], mask_dtype="int16", **options)
        return ctx.run_udf(dataset, udf)["intensity"]

    few = np.zeros(SIG, dtype="int16")
    few[0, 0] = 100
    assert (run(few).data == 30_000).all()
    few[0, 0] = 200
    if options["preferred_dtype"] == "float32":
        assert (run(few).data == 60_000).all()
        return
    with pytest.raises(InvalidArgumentError, match="which int16 cannot hold"):
        run(few)


@pytest.mark.parametrize("dtype", ["float16", ">f4"])
def test_masks_of_dtypes_that_sparse_arrays_do_not_know(ctx, device, dtype):
    data = counts((*NAV, *SIG), "uint8").astype("float16") % 8
    dataset, masks = ctx.load("memory", data=data), dense_masks(2, SIG, dtype)
    options = {"preferred_dtype": ApplyMasksUDF.USE_NATIVE_DTYPE, "backends": ("cupy",)}
    udf = ApplyMasksUDF(lambda: masks, use_sparse=True, **options)
    result = ctx.run_udf(dataset, udf)["intensity"]
    assert result.dtype == np.result_type("float16", masks.dtype)
    np.testing.assert_allclose(result.data, products(data, masks), rtol=2e-3)


# --- Parts of masks for functions of one's own ------------------------------------------------


@pytest.mark.parametrize("form", [False, "scipy.sparse.csr", "scipy.sparse.csc"])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_parts_of_a_container(device, form, transpose, dtype):
    masks = sparse_masks(5, SIG, dtype)
    container = MaskContainer(lambda: masks, use_sparse=form, backend="cupy")
    part = Slice((1, 0), Shape((2, SIG[1]), sig_dims=2))
    found = container.get(part, transpose=transpose)
    assert type(found).__module__.partition(".")[0] == ("cupyx" if form else "cupy")
    if form:
        assert type(found).__name__ == f"{form[-3:]}_matrix"
        found = found.toarray()
    expected = container.get(part, transpose=transpose, backend="numpy", sparse_backend=False)
    np.testing.assert_array_equal(found.get(), expected)
    assert isinstance(expected, np.ndarray)


@pytest.mark.parametrize("transpose", [False, True])
def test_parts_are_there_when_the_host_has_forgotten_them(device, transpose):
    def part():
        container = MaskContainer(lambda: dense_masks(5, SIG), backend="cupy")
        return container.get(Slice((1, 0), Shape((2, SIG[1]), sig_dims=2)), transpose=transpose)

    found = part()
    gc.collect()
    expected = dense_masks(5, SIG)[:, 1:3].reshape((5, -1))
    np.testing.assert_array_equal(found.get(), expected.T if transpose else expected)


class OwnProducts(UDF):
    """Products with masks that were made beforehand, or anew for each partition."""

    def __init__(self, container, seen):
        super().__init__(container=container, seen=seen)

    def get_backends(self):
        return (self.BACKEND_CUPY,)

    def get_result_buffers(self):
        return {"intensity": self.buffer("nav", extra_shape=(5,), where="device")}

    def get_task_data(self):
        made = MaskContainer(lambda: sparse_masks(5, SIG, "float32"), use_sparse=True)
        return {"masks": self.params.container or made}

    def get_tiling_preferences(self):
        return {"depth": 2, "total_size": 80}

    def process_tile(self, tile):
        part = self.task_data.masks.get(self.meta.slice, transpose=False, backend="cupy")
        self.params.seen.append((self.meta.slice.origin[1:], weakref.ref(part)))
        self.results.intensity[:] += part.dot(tile.reshape((len(tile), -1)).T).T


@pytest.mark.parametrize("beforehand", [True, False])
def test_parts_are_brought_once(ctx, device, data, beforehand):
    masks, seen = sparse_masks(5, SIG, "float32"), []
    container = MaskContainer(lambda: masks, use_sparse=True) if beforehand else None
    dataset = ctx.load("memory", data=data, num_partitions=3)
    result = ctx.run_udf(dataset=dataset, udf=OwnProducts(container, seen))["intensity"].data
    np.testing.assert_allclose(result, products(data, masks), rtol=device.rtol)
    places = {place for place, _ in seen}
    assert len(places) > 1
    assert len({id(part) for _, part in seen}) == len(places) * (1 if beforehand else 3)
    gc.collect()
    assert all(part() is None for _, part in seen)
    if not device.is_real:
        device.check_released()
