"""Compiled functions that call others: themselves, each other, and such as need the interpreter."""

import operator

import numpy as np
import pytest
from compiled_cases import both, cache  # noqa: F401

import framefold as ff

numba = pytest.importorskip("numba")
overload = pytest.importorskip("numba.extending").overload

DATA = np.arange(6 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


class Ends(ff.UDF):
    """Fills its results at the end of a partition."""

    def get_result_buffers(self):
        return {"yx": self.buffer("nav", (2,), int), "place": self.buffer("nav", (6,), int)}

    @ff.compiled
    def process_frame(self, frame):
        self.results.place[0] = 1

    @ff.compiled
    def postprocess(self):
        self.results.yx[:] = self.meta.coordinates
        self.results.place[:, 1] = self.meta.slice.origin[0]
        self.results.place[:, 2] = self.meta.slice.shape[0]
        self.results.place[:, 3] = self.meta.sig_slice.shape[1] + self.meta.slice.origin[2]
        self.results.place[:, 4] = self.meta.partition_shape.nav[0]
        self.results.place[:, 5] = self.params.number


@pytest.mark.parametrize("with_roi", [False, True])
def test_the_end_of_a_partition_knows_all_its_frames(ctx, with_roi):
    roi = np.arange(6).reshape(2, 3) % 4 != 1 if with_roi else None
    number = np.arange(6.0).reshape(2, 3)
    found = both(
        ctx,
        DATA,
        Ends,
        params=lambda: {"number": ff.UDF.aux_data(number, "nav", dtype="float64")},
        options={"num_partitions": 2},
        roi=roi,
    )
    selected = np.ones((2, 3), bool) if roi is None else roi
    np.testing.assert_array_equal(found["yx"], np.argwhere(selected))
    np.testing.assert_array_equal(found["place"][:, 5], number[selected])


@ff.compiled
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


@ff.compiled
def is_even(n):
    return True if n == 0 else is_odd(n - 1)


@ff.compiled
def is_odd(n):
    return False if n == 0 else is_even(n - 1)


@ff.compiled
def said(n):
    print("got", n)
    return said_with(n, "more") + 1


@ff.compiled
def said_with(n, text):
    print(text, n + 1)
    return n


@ff.compiled
def doubled(array):
    array *= 2
    return array


@ff.compiled
def negative(array):
    array *= -1
    return array


def test_what_stands_before_a_call_is_computed_before_it(ctx):
    class Before(Calls):
        @ff.compiled
        def process_frame(self, frame):
            one, other = frame[0].copy(), frame[1].copy()
            self.results.a[0] = ((one + 1) * doubled(one)).sum()
            self.results.b[0] = (np.maximum(other * 4, 7) - self.changed(other)).sum()

        @ff.compiled
        def changed(self, array):
            array[0] = 100
            return 0.5

    both(ctx, DATA, Before)


@numba.njit(inline="always")
def filled(array):
    array[:2] = 100
    return 0.5


def of_overload(array):
    array[1:] = 10
    return 0.25


@overload(of_overload)
def _of_overload(array):
    return of_overload


@numba.vectorize
def added(a, b):
    return a + b


@pytest.mark.filterwarnings("ignore:(?s).*First-class function type feature is experimental")
def test_what_stands_before_any_other_writing_is_computed_before_it(ctx):
    class Before(Calls):
        @ff.compiled
        def process_frame(self, frame):
            def nested(array):
                array[0] = 50
                return 0.5

            a, b = frame[0].copy(), frame[1].copy()
            chosen = doubled if frame[0, 0] > 20 else negative
            found = (a + 1) * nested(a) + 10 * ((a - 1) * filled(a))
            found += (a + 2) * of_overload(a) + (a - 2) * np.add(a, 1, a)
            found += added(added(a, 1), a) * filled(a) + (a + 3) * operator.iadd(a, 1)
            found += added(a, 2) * np.add(a, 1, a)
            found += (np.broadcast_to(b, (2, 5)) - 1)[0] * 2 + -b * chosen(b)
            self.results.a[0] = found.sum()
            c = (np.broadcast_to(b, (2, 5)) + 1) * filled(b)
            self.results.b[0] = c.sum() + ((b * 2) - np.round(b * 0.3, 0, b)).sum()

    both(ctx, DATA, Before)


@pytest.fixture(params=[factorial, is_even, said])
def function(request):
    return request.param


class Calls(ff.UDF):
    def get_result_buffers(self):
        return {"a": self.buffer("nav", dtype="float64"), "b": self.buffer("nav", dtype="float64")}


def test_functions_that_call_functions(ctx, capfd, function):
    class Both(Calls):
        @ff.compiled
        def process_frame(self, frame):
            self.results.a[0] = function(3)
            self.results.b[0] = function(int(frame[0, 0]) % 7)

    found = both(ctx, DATA, Both)
    values = DATA[:, :, 0, 0].reshape(-1).astype(int) % 7
    if function is factorial:
        expected = [1, 1, 2, 6, 24, 120, 720]
        np.testing.assert_array_equal(found["a"], 6)
        np.testing.assert_array_equal(found["b"], np.take(expected, values))
    elif function is is_even:
        np.testing.assert_array_equal(found["a"], 0)
        np.testing.assert_array_equal(found["b"], values % 2 == 0)
    else:
        np.testing.assert_array_equal(found["b"], values + 1)
        lines = [f"got 3\nmore 4\ngot {n}\nmore {n + 1}\n" for n in values]
        assert capfd.readouterr().out == "".join(lines) * 2  # compiled, and in the interpreter
