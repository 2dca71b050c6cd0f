"""Differences from the reference that stay, as docs/compatibility.md tells them."""

from __future__ import annotations

import numpy as np
import pytest
from known_oddities import POSITIONS_WITHOUT_DATA

from framefold.common.math import count_nonzero, flat_nonzero, ndenumerate
from framefold.udf import UDF


def test_axes_in_front_of_a_shape_are_in_front(ctx):
    shape = ctx.load("memory", data=np.zeros((4, 4, 8, 8)), sig_dims=2).shape
    assert (3,) + shape.nav == (3, 4, 4)  # noqa: RUF005 - what scripts write
    assert shape.nav + (3,) == (4, 4, 3)  # noqa: RUF005 - the same in both


class Counts(UDF):
    """1 for each frame, as a number of that dtype."""

    def __init__(self, dtype):
        super().__init__(dtype=dtype)

    def get_result_buffers(self):
        return {"x": self.buffer("nav", dtype=self.params.dtype)}

    def process_frame(self, frame):
        self.results.x[:] = 1


@pytest.mark.parametrize(("dtype", "nothing"), [("float32", np.nan), ("int32", 0), ("bool", False)])
@POSITIONS_WITHOUT_DATA
def test_the_mask_shows_positions_without_data(ctx, tmp_path, dtype, nothing):
    path = tmp_path / "short.raw"
    np.ones((7, 5, 5), np.float32).tofile(path)
    dataset = ctx.load("raw", path=path, nav_shape=(3, 3), sig_shape=(5, 5), dtype="float32")
    result = ctx.run_udf(dataset, Counts(dtype))["x"]
    np.testing.assert_array_equal(result.data.reshape(-1)[7:], [nothing, nothing])
    np.testing.assert_array_equal(result.masked_data.mask.reshape(-1), np.arange(9) >= 7)
    assert result.masked_data.sum() == 7


@pytest.mark.parametrize(("dtype", "nothing"), [("float32", np.nan), ("int32", 0)])
def test_the_mask_shows_what_is_not_merged_yet(ctx, dtype, nothing):
    dataset = ctx.load("memory", data=np.ones((6, 5, 5)), sig_dims=2, num_partitions=3)
    part = next(ctx.run_udf_iter(dataset, Counts(dtype)))
    result = part[0]["x"]
    missing = ~part.damage.data
    assert missing.sum() == 4
    np.testing.assert_array_equal(result.data[missing], [nothing] * 4)
    np.testing.assert_array_equal(result.masked_data.mask, missing)


@pytest.mark.parametrize("fill", [0, 3, np.nan])
def test_what_is_not_zero_in_sparse_arrays_with_another_fill_value(fill):
    sparse = pytest.importorskip("sparse")
    dense = np.full((4, 5), fill)
    dense[1, 2], dense[2, 2], dense[3, 3] = 7, 0, 1
    array = sparse.COO.from_numpy(dense, fill_value=fill)
    assert count_nonzero(array) == np.count_nonzero(dense)
    np.testing.assert_array_equal(flat_nonzero(array), np.flatnonzero(dense))
    found = np.zeros((4, 5))
    for index, value in ndenumerate(array):
        found[index] = value
    np.testing.assert_array_equal(found, dense)


def test_differences_are_on_the_page():
    from pathlib import Path

    page = (Path(__file__).parents[1] / "docs" / "compatibility.md").read_text(encoding="utf-8")
    for words in ("`(3,) + ds.shape.nav` is", "integers have no NaN and hold 0", "selects nothing"):
        assert words in page
