"""Large arrays that several threads copy."""

from __future__ import annotations

import numpy as np
import pytest

from framefold.common import _copying
from framefold.common.container import MaskContainer


@pytest.fixture(params=[1, 3, 8])
def n_threads(request, monkeypatch):
    """So many threads share the copy of a few rows."""
    started = []

    class Counted(_copying.threading.Thread):
        def start(self):
            started.append(self)
            super().start()

    monkeypatch.setattr(_copying.threading, "Thread", Counted)
    monkeypatch.setattr(_copying, "LEN_SHARE", 40)
    monkeypatch.setattr(_copying, "available_cores", lambda: request.param)
    yield request.param
    assert len(started) == request.param - 1
    assert not any(thread.is_alive() for thread in started)


@pytest.mark.parametrize("lengths", [[29], [1] * 17, [3, 0, 9, 1, 4]])
def test_all_rows_are_copied_in_order(n_threads, lengths):
    rng = np.random.default_rng(3)
    arrays = [rng.integers(0, 99, (n, 5, 4), dtype=np.int32)[:, ::-1, ::2] for n in lengths]
    copy = _copying.concatenated(arrays, np.dtype(np.int32))
    assert copy.flags.c_contiguous
    assert not any(np.shares_memory(copy, array) for array in arrays)
    np.testing.assert_array_equal(copy, np.concatenate(arrays))


def test_masks_stay_as_they_are_when_they_are_computed(n_threads):
    stack = np.arange(12 * 20.0).reshape(12, 4, 5)
    masks = MaskContainer(lambda: stack)
    before = masks.computed_masks
    stack[:] = 0
    np.testing.assert_array_equal(before, np.arange(12 * 20.0).reshape(12, 4, 5))


def test_other_dtypes_are_converted_by_way_of_the_common_one():
    # 2**53 + 1 is a float64 first, as NumPy has it, and rounded a second time.
    arrays = [np.array([[2**53 + 1]]), np.array([[0.5]])]
    copy = _copying.concatenated(arrays, np.dtype(np.float32))
    assert copy.dtype == np.float32
    np.testing.assert_array_equal(copy, np.concatenate(arrays).astype(np.float32))
