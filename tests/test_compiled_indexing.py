"""Indices of arrays in compiled code mean what they mean in NumPy, and what is assigned, too."""

import numpy as np
import pytest
from compiled_cases import both, cache, results  # noqa: F401

import framefold as ff
from framefold.exceptions import UDFError

pytest.importorskip("numba")

DATA = np.arange(1, 2 * 3 * 6 * 8 + 1).reshape(2, 3, 6, 8).astype("int32")


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


#: For what is run in the interpreter, too.
reads_first = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.3.0",
    reason="NumPy itself reads indices that it has written over, and writes behind arrays",
)


class One(ff.UDF):
    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"x": self.buffer("nav", dtype="int64", extra_shape=(8, 12))}


def test_indices_and_what_is_assigned_are_read_first(ctx):
    class Assigned(One):
        @ff.compiled
        def process_frame(self, frame):
            x, a, b = self.results.x, np.array([3, 0, 2, 1]), np.array([[1, 0, 3, 2]])
            c, d = np.arange(5), np.arange(16).reshape((2, 8))
            a[a] = np.arange(4) * 5
            b[0, b[0]] += 10
            c[np.array([4, 3, 2, 1, 0])] = c
            d[0, d[0] % 2 > 0] = d[0, :3:-1]
            x[0, :4], x[1, :4], x[2, :5], x[3, :8] = a, b[0], c, d[0]

    x = results(ctx, DATA, Assigned())["x"]
    # As NumPy itself does from 2.3 on.
    assert (x[..., 0, :4] == [5, 15, 10, 0]).all()
    assert (x[..., 1, :4] == [11, 10, 13, 12]).all()
    assert (x[..., 2, :5] == [4, 3, 2, 1, 0]).all()
    assert (x[..., 3, :8] == [0, 7, 2, 6, 4, 5, 6, 4]).all()


@reads_first
def test_what_is_assigned_may_be_a_part_of_the_same_array(ctx):
    class Assigned(One):
        @ff.compiled
        def process_frame(self, frame):
            f, x, some = frame.copy(), self.results.x, np.array([3, 0, 2, 1])
            f[0, 1:] = f[0, :0:-1]
            f[1, 3:] = f[1, 1:-2]
            f[2, some] = f[2, 4:]
            f[3, f[3] % 2 > 0] = f[3, :3:-1]
            row = f[4, 1:-1]
            row += 1
            f[4, 2:] = row
            f[5, 1:] += f[5, :-1]
            f.reshape((2, 3, 8))[1, :2, 0] = f.reshape((2, 3, 8))[1, 1::-1, 0]
            x[:6, :8] = f
            some[some] = np.arange(4) * 5
            x[6, :4] = some
            x[7], x[6] = x[6], x[7]

    both(ctx, DATA, Assigned)


def test_rows_may_overlap_what_is_assigned(ctx):
    class Assigned(One):
        @ff.compiled
        def process_frame(self, frame):
            x, f = self.results.x, frame.copy()
            flat = f.reshape(48)
            for first in range(5, 8):
                f[1] = flat[first : first + 8]
                f[1] += f[0]
                f[3] = flat[first + 20 : first + 28][::-1]
                f[2] = flat[first + 7 : first + 8]
            x[:6, :8] = f

    both(ctx, DATA, Assigned)


@reads_first
def test_indices_and_read_only_views_may_be_a_part_of_the_same_array(ctx):
    class Assigned(One):
        @ff.compiled
        def process_frame(self, frame):
            f, x, some = frame.copy(), self.results.x, np.array([[3, 0, 2, 1]])
            some[0, some[0]] = np.arange(4) * 5
            x[6, :4] = some[0]
            some[0] = np.array([1, 0, 3, 2])
            some[0, some[0]] += 10
            x[6, 4:8] = some[0]
            mask = np.arange(8) % 3 > 0
            mask[mask[::-1]] = False
            x[7, :8] = mask
            masks = np.ones((2, 8), np.bool_)
            masks[0, masks[0, ::-1]] = np.arange(8) % 3 > 0
            x[7, 8:] = masks[0, :4]
            f[0, 3:] = np.broadcast_to(f[0], (2, 8))[1, 1:-2]
            f[1, 3:] = np.broadcast_to(f[1, 1:-2], (5,))
            x[:6, :8] = f

    both(ctx, DATA, Assigned)


def masks():
    columns = np.arange(8) % 3 == 0
    return {"rows": np.array([False, True, True]), "columns": columns, "two": np.arange(8) % 5 == 1}


def test_axes_of_masks_beside_other_indices(ctx):
    class Axes(One):
        @ff.compiled
        def process_frame(self, frame):
            x, rows, columns = self.results.x, self.params.rows, self.params.columns
            two = self.params.two
            stack = frame.copy().reshape((2, 3, 8))
            x[:3, :3] = stack[1, :, columns]
            x[3:6, :3] = stack[-1, ..., columns] * 2
            x[6, :2] = stack[0, rows, two]
            stack[0, :, columns] = stack[1, :3, :3].T
            stack[1][rows, two] += 9000
            stack[1, :2, columns] += 100
            x[:6, 4:] = stack.reshape((6, 8))

    both(ctx, DATA, Axes, params=masks)


def test_arrays_beside_none(ctx):
    class Axes(One):
        @ff.compiled
        def process_frame(self, frame):
            x, f, one = self.results.x, frame.copy(), np.array([1, 0, 2])
            two, both = np.array([2, 1, 0]), np.array([[1, 0], [2, 1]])
            x[:3, :1] = f[one, two, None]
            x[:3, 1:2] = f[one, None, 0]
            x[3:4, :3] = f[None, one, two]
            x[4:6, :2] = f[None, both][0, :, :, 1]
            x[6:, :3] = f.reshape((2, 3, 8))[:, one, two, None][:, :, 0]
            f[one, two, None] = x[:3, 1:2] + 100
            f[None, both] += 1000
            x[:6, 4:] = f

    both(ctx, DATA, Axes)


def after_a_number(frame, one, two):
    return frame[0, None, one]


def of_two_axes(frame, one, two):
    return frame[two, None]


def around_none(frame, one, two):
    return frame.reshape((2, 3, 8))[:, one, None, 0]


def before_a_slice(frame, one, two):
    return frame.reshape((2, 3, 8))[one, one, None]


def around_no_axis(frame, one, two):
    return frame.reshape((2, 3, 8))[:, one, ..., 0]


@pytest.mark.parametrize(
    "taken", [after_a_number, of_two_axes, around_none, before_a_slice, around_no_axis]
)
def test_axes_that_numba_has_in_another_order_are_refused(ctx, taken):
    class Axes(One):
        @ff.compiled
        def process_frame(self, frame):
            one, two = np.array([1, 0]), np.array([[1, 0, 2], [2, 1, 1]])
            self.results.x[0, 0] = self.params.taken(frame.copy(), one, two).sum()

    with pytest.raises(UDFError, match="take them one after the other"):
        results(ctx, DATA, Axes(taken=ff.compiled(taken)))
