"""Products with masks on CUDA devices, on a stand-in for CuPy."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_masks import CUPYX, dense_masks, products, sparse_masks
from cuda_udfs import NAV, SIG, check_released
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
@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (dense_masks, "float32"),
        (dense_masks, "int16"),
        (sparse_masks, "int16"),
        (sparse_masks, "complex64"),
    ],
)
def test_products(ctx, machine, data, tmp_path, native, format_, make, dtype):
    masks = make(5, SIG, dtype)
    dataset = open_as(ctx, data, tmp_path, native)
    udf = InTiles(lambda: masks, backends=(format_,), preferred_dtype=InTiles.USE_NATIVE_DTYPE)
    told = str(ctx.explain(dataset, udf))
    assert f"InTiles: by tile, {format_}" in told
    # Sparse tiles are whole frames; dense ones are not, so that parts of masks are needed.
    assert (format_ != "cupy" or native == "sparse") or "(2 per frame)" in told
    result = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data
    np.testing.assert_allclose(result, products(data, masks), rtol=1e-5)
    assert result.dtype == ctx.run_udf(dataset, ApplyMasksUDF(
        lambda: masks, preferred_dtype=InTiles.USE_NATIVE_DTYPE
    ))["intensity"].data.dtype  # fmt: skip
    check_released(machine)


@pytest.mark.parametrize("format_", ["cupy", *CUPYX[:2]])
@pytest.mark.parametrize("shift", [(2, -3), (-1, 1), (100, 0)])
def test_shifts(ctx, machine, data, tmp_path, format_, shift):
    masks = dense_masks(2, SIG)
    dataset = open_as(ctx, data, tmp_path, "sparse")
    udf = ApplyMasksUDF(lambda: masks, backends=(format_,), shifts=shift)
    result = ctx.run_udf(dataset=dataset, udf=udf)["intensity"].data
    np.testing.assert_allclose(result, products(data, masks, shift), rtol=1e-5)


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
