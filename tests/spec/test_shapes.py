"""Shapes and slices: what UDFs compute with them, checked against indexing with NumPy."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefold.common import Shape, Slice
from framefold.common.slice import SliceUsageError

SCAN = Shape((4, 5, 6, 7), sig_dims=2)


def corners(part):
    return part.origin, tuple(part.shape), part.shape.sig_dims


def test_parts_of_a_shape():
    assert SCAN.nav == (4, 5)
    assert SCAN.sig == (6, 7)
    assert (SCAN.dims, SCAN.nav_dims, SCAN.sig_dims, SCAN.size) == (4, 2, 2, 840)
    assert SCAN.flatten_nav() == Shape((20, 6, 7), sig_dims=2)
    assert SCAN.flatten_sig() == Shape((4, 5, 42), sig_dims=1)
    assert type(SCAN.to_tuple()) is tuple
    assert np.zeros(SCAN.nav).shape == (4, 5)
    assert np.prod(SCAN.sig) == 42
    assert pickle.loads(pickle.dumps(SCAN)) == SCAN
    assert Shape(SCAN, sig_dims=1).sig == (7,)


def test_shapes_are_extended_on_either_side():
    extra = (3,)
    assert (SCAN + extra) == Shape((4, 5, 6, 7, 3), sig_dims=3)
    assert (extra + SCAN.sig) == Shape((3, 6, 7), sig_dims=2)
    assert SCAN.nav + SCAN.sig == SCAN


def test_shapes_compare_with_shapes_and_with_tuples():
    assert Shape((4, 5, 6, 7), sig_dims=1) != SCAN
    assert SCAN == (4, 5, 6, 7)
    assert hash(SCAN) == hash(Shape((4, 5, 6, 7), sig_dims=2))
    with pytest.raises(ValueError, match="sig_dims 3 does not fit"):
        Shape((2, 2), sig_dims=3)


def test_lengths_are_whole_numbers():
    for dims in ([4, 5, 6, 7], np.array(SCAN), (np.int64(4), 5, np.uint8(6), 7), iter(SCAN)):
        assert Shape(dims, sig_dims=2) == SCAN
    for dims in ((np.True_, 2, 3), (True, 2, 3), (1.0, 2, 3), {4, 5, 6}):
        with pytest.raises(TypeError):
            Shape(dims, sig_dims=2)


def test_slices_index_arrays():
    part = Slice((1, 1, 2, 3), Shape((2, 3, 4, 1), sig_dims=2))
    data = np.arange(840).reshape(SCAN)
    assert part.get() == (slice(1, 3), slice(1, 4), slice(2, 6), slice(3, 4))
    assert np.array_equal(part.get(data), data[1:3, 1:4, 2:6, 3:4])
    assert np.array_equal(part.get(data, sig_only=True), data[..., 2:6, 3:4])
    assert np.array_equal(part.get(data[0, 0], sig_only=True), data[0, 0, 2:6, 3:4])
    assert np.array_equal(part.get(data[..., 0, 0], nav_only=True), data[1:3, 1:4, 0, 0])
    assert corners(part.nav) == ((1, 1), (2, 3), 0)
    assert corners(part.sig) == ((2, 3), (4, 1), 2)
    assert corners(part.discard_nav()) == ((0, 0, 2, 3), (0, 0, 4, 1), 2)
    assert Slice.from_shape((4, 5, 6), sig_dims=1) == Slice((0, 0, 0), Shape((4, 5, 6), sig_dims=1))


def test_moving_and_clipping():
    part = Slice((1, 1), Shape((3, 3), sig_dims=1))
    assert corners(part.shift(Slice((1, 0), part.shape))) == ((0, 1), (3, 3), 1)
    assert corners(part.shift_by((-3, 2))) == ((-2, 3), (3, 3), 1)
    assert corners(part.shift_by((-3, 2)).clip_to(Shape((9, 5), sig_dims=1))) == ((0, 3), (1, 2), 1)
    assert part.shift_by((5, 5)).clip_to(Shape((4, 4), sig_dims=1)).is_null()
    assert not part.is_null()


@given(st.data())
def test_subslices_cover_each_cell_once(data):
    dims = data.draw(st.integers(1, 3))
    shape = data.draw(st.tuples(*[st.integers(1, 7)] * dims))
    step = data.draw(st.tuples(*[st.integers(1, 8)] * dims))
    origin = data.draw(st.tuples(*[st.integers(0, 3)] * dims))
    whole = Slice(origin, Shape(shape, sig_dims=1))
    seen = np.zeros([a + b for a, b in zip(origin, shape, strict=True)], dtype=int)
    for part in whole.subslices(step):
        assert all(a <= b for a, b in zip(part.shape, step, strict=True))
        part.get(seen)[...] += 1
    assert (whole.get(seen) == 1).all()
    assert seen.sum() == whole.shape.size


@given(st.data())
def test_flattened_and_masked_slices_select_the_same_frames(data):
    nav = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(nav) - 1))
    origin = [data.draw(st.integers(0, length - 1)) for length in nav[: axis + 1]]
    extent = [1] * axis + [data.draw(st.integers(1, nav[axis] - origin[axis]))]
    behind = nav[axis + 1 :]
    part = Slice((*origin, *[0] * len(behind), 0), Shape((*extent, *behind, 3), sig_dims=1))
    frames = np.arange(np.prod(nav))
    flat = part.flatten_nav((*nav, 3))
    assert part.flatten_nav(nav) == flat
    expected = part.get(frames.reshape(nav), nav_only=True).reshape(-1)
    assert np.array_equal(flat.get(frames, nav_only=True), expected)

    roi = data.draw(st.lists(st.booleans(), min_size=len(frames), max_size=len(frames)))
    roi = np.array(roi).reshape(nav)
    within = flat.adjust_for_roi(roi)
    selected = within.get(frames[roi.reshape(-1)], nav_only=True)
    assert np.array_equal(selected, [frame for frame in expected if roi.reshape(-1)[frame]])
    assert flat.adjust_for_roi(None) is flat


def test_slices_that_do_not_fit_each_other():
    flat = Slice((1, 0), Shape((3, 3), sig_dims=1))
    deep = Slice((1, 1, 0), Shape((2, 2, 3), sig_dims=1))
    for call, message in [
        (lambda: flat.intersection_with(deep), "cannot intersect"),
        (lambda: flat.shift(deep), "cannot shift"),
        (lambda: flat.shift_by((1,)), "cannot shift"),
        (lambda: flat.clip_to(deep.shape), "cannot clip"),
        (lambda: list(flat.subslices((3,))), "cannot divide"),
        (lambda: list(flat.subslices((3, 0))), "empty"),
        (lambda: deep.flatten_nav((5, 5, 3)), r"do not follow each other in a scan of shape \(5"),
        (lambda: deep.adjust_for_roi(np.ones((5, 5), dtype=bool)), "2 navigation axes"),
        (lambda: Slice((0,), flat.shape), "does not fit the shape"),
        (lambda: Slice((0, 0), (2, 2)), "is the tuple"),
    ]:
        with pytest.raises(SliceUsageError, match=message):
            call()


@pytest.mark.parametrize("length", [2.7, 3.0, "3", np.float64(3)])
def test_lengths_and_places_are_whole(length):
    with pytest.raises(TypeError):
        Shape((length, 3), sig_dims=1)
    with pytest.raises(TypeError):
        Slice((length, 0), Shape((4, 3), sig_dims=1))
    shape = Shape(np.array([4, 3]), sig_dims=1)
    assert all(type(each) is int for each in (*shape, *Slice(np.array([1, 2]), shape).origin))
