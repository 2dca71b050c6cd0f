"""Products with masks on CUDA devices."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_masks import CUPYX, dense_masks, products, sparse_masks
from cuda_udfs import NAV, SIG
from sparse_files import counts, write_raw_csr

from framefold.udf.masks import ApplyMasksUDF


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
    for whole in (True, False):
        cls = ApplyMasksUDF if whole else InTiles
        udf = cls(lambda: masks, backends=(format_,), **options)
        result = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data
        np.testing.assert_allclose(result, products(data, masks), rtol=device.rtol)
        told = str(ctx.explain(dataset, udf))
        assert f"{cls.__name__}: by tile, {format_}" in told
        # Tiles of sparse data are whole frames; others are not: parts of masks are needed.
        in_parts = not whole and native == "dense"
        assert ("(1 per frame)" in told) != in_parts
        plain = ApplyMasksUDF(lambda: masks, **options)
        assert result.dtype == ctx.run_udf(dataset, plain)["intensity"].data.dtype
    if not device.is_real:  # where libraries may hold some for later products
        device.check_released()


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
