"""Compiled functions compute with integers, truth values, and nothing at all, as NumPy does."""

import numpy as np
import pytest
from compiled_cases import both, cache  # noqa: F401

import framefold as ff

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


class One(ff.UDF):
    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"x": self.buffer("nav", dtype="float64", extra_shape=(self.params.n,))}


def test_unsigned_integers_with_signed_ones(ctx):
    """Beyond 2⁵³, neighbours are the same as floating-point numbers."""

    class Compares(One):
        @ff.compiled
        def process_frame(self, frame):
            x, u, i, k = self.results.x, frame[0], self.params.i, self.params.k
            x[0] = u[0] == 2**53
            x[1] = u[0] != k
            x[2] = 0 < u[0] <= 2**53
            x[3] = i[0] < u[0]
            x[4] = k >= int(u[0])
            x[5] = u[1] > -1
            x[6] = (u == 2**53).sum() + 10 * (u > i).sum() + 100 * (u[0] == i).sum()
            x[7] = (u[:1] == np.array(k)).sum()
            x[8] = u[0] == 2.0**53  # with a floating-point number, in NumPy, too
            least = None
            for each in i[:1]:  # 2⁵³
                least = each if least is None or each < least else least
            x[9] = (u > least).sum() + 10 * (u[0] > least) + 100 * (u[1] > np.int8(-1))
            x[10] = (u > i.astype(np.int32)).sum()

    frames = np.array([[[2**53 + 1, 2**64 - 1, 2**63, 4]]], "uint64")
    params = {"n": 11, "i": np.array([2**53, -1, 5, 4]), "k": 2**53}
    found = both(ctx, frames, Compares, params=lambda: params)["x"][0]
    np.testing.assert_array_equal(found, [0, 1, 0, 1, 0, 1, 30, 0, 1, 113, 3])


def test_unsigned_integers_among_signed_ones(ctx):
    """Also beside numbers that may be None."""

    class Among(One):
        @ff.compiled
        def process_frame(self, frame):
            x, u, i = self.results.x, frame[0], self.params.i
            x[0] = u[0] in (2**53, 4)
            x[1] = u[0] not in [2**53, -1]
            x[2] = i[0] in (u[0], u[1])
            x[3] = u[3] in (2, 4)
            x[4] = i[3] in list(u)
            least = None
            for number in range(3):
                x[5 + number] = (u[0] == least) + 10 * (u[3] == least) + 100 * (least != u[0])
                x[8] += least in (u[0], u[3])
                least = i[number * 3]
            x[9] = np.array_equal(u[:1], i[:1]) + 10 * np.array_equal(u[3:], i[3:])
            x[10] = np.array_equal(u[3:], i) + 10 * np.array_equal(u[3:], [4])

    frames = np.array([[[2**53 + 1, 2**64 - 1, 2**63, 4]]], "uint64")
    params = {"n": 11, "i": np.array([2**53, -1, 5, 4, 0, 0, 0])}
    found = both(ctx, frames, Among, params=lambda: params)["x"][0]
    np.testing.assert_array_equal(found, [0, 1, 0, 1, 1, 100, 100, 110, 1, 0, 10])


SEVEN = 7


@pytest.mark.parametrize("dtype", ["uint8", "uint64"])
def test_integers_in_the_code_are_of_the_dtype_of_unsigned_arrays(ctx, dtype):
    """In place they were an error; beside ``uint64``, all was rounded to ``float64``."""

    class Counts(ff.UDF):
        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype=dtype, extra_shape=(9, 4))}

        @ff.compiled
        def process_frame(self, frame):
            x, a = self.results.x, frame[0]
            x[:] = a
            x[0] += 1
            x[1] -= 3
            x[1, 2:] *= 2
            x[2] //= SEVEN
            x[2] <<= 1
            x[3] %= 10
            x[3] |= 16
            x[4] = (a // 10).astype(a.dtype) + 2 * (a % SEVEN)
            x[5] = np.maximum(a, 5) >> 1
            x[6] = np.where(a > 2, a, 1) & 255
            x[7] = (2 * a - 1) ^ 3
            x[8] = a // (2 * SEVEN - 1) + (SEVEN + 1)
            x[7] += np.ldexp(a & 7, 0).astype(a.dtype) + self.xp.minimum(6, a).astype(a.dtype)

    largest = np.iinfo(dtype).max
    frames = np.array([[[largest, largest // 2**10, 0, 4]]], dtype)
    both(ctx, frames, Counts)


def test_powers_of_integers_are_not_rounded(ctx):
    """Numba's ``np.power`` and ``a **= b`` are made of floating-point numbers."""

    class Powers(ff.UDF):
        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype="int64", extra_shape=(6, 3))}

        @ff.compiled
        def process_frame(self, frame):
            x, a = self.results.x, frame[0]
            x[0] = np.power(a, 2)
            x[1] = a
            x[1] **= 2
            x[2] = np.power(a[0], a[2]) + np.power(3, a & 7)
            np.power(a, a & 7, x[3])
            x[4] = np.power(a.astype(np.uint64), self.params.two).astype(np.int64)
            x[5] = np.power(a > 3, 2) + np.power(a / 2, 2).astype(np.int64)

    frames = np.array([[[2**27 + 1, -(2**28) + 3, 2]]], "int64")
    found = both(ctx, frames, Powers, params=lambda: {"two": np.uint64(2)})
    assert found["x"][0, 1, 0] == (2**27 + 1) ** 2 != float((2**27 + 1) ** 2)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32"])
def test_powers_of_numbers_are_as_short_as_these(ctx, dtype):
    """Those of functions, as NumPy's; operators are of 64 bits."""

    class Powers(One):
        @ff.compiled
        def process_frame(self, frame):
            x, a = self.results.x, frame[0]
            x[0] = np.power(a[0], a[1])
            x[1] = np.power(a[1], a[1]) + np.power(a, a)[1]

    largest = np.iinfo(dtype).max
    frames = np.array([[[largest - 3, 5]]], dtype)
    both(ctx, frames, Powers, params=lambda: {"n": 2})


def test_types_of_python_are_dtypes(ctx):
    kind = complex

    class Types(One):
        @ff.compiled
        def process_frame(self, frame):
            x, a = self.results.x, frame.astype(float)
            x[:6] = a[0] / 4
            x[6] = (a / 4).astype(int).sum() + frame.astype(bool).sum()
            x[7] = np.sum(frame, dtype=float) + frame.sum(dtype=int)
            x[8] = np.ones(3, bool).sum() + self.xp.zeros_like(frame, dtype=float)[0, 0]
            x[9] = np.array([1, 2.5], dtype=kind).real.sum() + np.asarray(frame, float)[0, 1]
            x[10] = isinstance(self.params.n, int) + float(self.params.n) + int(a[0, 2])

    both(ctx, np.arange(6).reshape(1, 1, 6), Types, params=lambda: {"n": 11})


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_dtypes_are_compared_with_names(ctx, dtype):
    """To Numba, no dtype is equal to a text."""

    class Dtypes(One):
        @ff.compiled
        def process_frame(self, frame):
            x = self.results.x
            x[0] = frame.dtype == "float32"
            x[1] = frame.dtype != "u2"
            x[2] = 3 if "uint16" == frame.dtype else 4  # noqa: SIM300
            x[3] = frame.dtype in ("f4", "f8")
            x[4] = frame.dtype not in ["uint8", "<u2"]
            x[5] = self.meta.input_dtype == "float32"
            x[6] = (frame.dtype != "bfloat16") + 10 * (frame.dtype in ("", "u2"))

    both(ctx, np.zeros((1, 1, 4), dtype), Dtypes, params=lambda: {"n": 7})


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_norms_of_what_is_reversed(ctx, dtype):
    """Numba reads the memory before it."""

    class Norms(One):
        @ff.compiled
        def process_frame(self, frame):
            x, row = self.results.x, frame[1].copy()
            x[0] = np.linalg.norm(row[::-1])
            x[1] = np.linalg.norm(frame[::-1, 2], 2)
            x[2] = np.linalg.norm(x=row[::2]) + np.linalg.norm(frame[::-1]) + np.linalg.norm(row)

    data = np.arange(1, 13).reshape(1, 3, 4).astype(dtype)
    both(ctx, data, Norms, params=lambda: {"n": 3}, equal=False)


def test_clip_of_truth_values(ctx):
    """With integers as bounds, they are integers, of which there are more than two."""

    class Clips(One):
        @ff.compiled
        def process_frame(self, frame):
            x, mask = self.results.x, frame > 3
            x[0] = np.clip(mask, 2, 3).sum()
            x[1] = mask.clip(-1, 0).sum()
            x[3] = np.clip(mask, mask, True).sum()
            x[4:10] = np.clip(mask[0], -2.5, 0.5)
            x[0] += np.clip(mask, False, 2).sum() + np.clip(mask, -3, True).sum()
            x[1] += mask.clip(2).sum() + mask.clip(None, -1).sum()
            x[3] += (
                frame.clip(0.5).sum() + frame.clip(frame.T[:1]).sum() + mask.clip(False, 0.5).sum()
            )

    both(ctx, np.arange(6).reshape(1, 1, 6), Clips, params=lambda: {"n": 10})


@pytest.mark.filterwarnings(
    "ignore:(Degrees of freedom|invalid value|Mean of empty):RuntimeWarning"
)
@pytest.mark.parametrize("options", [{}, {"fastmath": True}])
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float64", "complex64"])
def test_deviations_of_nothing(ctx, options, dtype):
    class Nothing(One):
        @ff.compiled(**options)
        def process_frame(self, frame):
            x, none = self.results.x, frame[frame.shape[0] :]
            x[0] = np.var(none)
            x[1] = none.std()
            x[2] = frame.var() + frame.std()

    both(
        ctx, (np.arange(6) % 2 * 2).reshape(1, 2, 3).astype(dtype), Nothing, params=lambda: {"n": 3}
    )


def test_an_ellipsis_alone_is_an_index(ctx):
    class Whole(One):
        @ff.compiled
        def process_frame(self, frame):
            x, part = self.results.x, self.results.x[...]
            part[0] = frame[...].sum() + np.array(frame[0, 1])[...]
            x[1] = part[0] + frame[..., 1].sum() + np.array(frame[0, 1])[()] + frame[...,].sum()

    both(ctx, np.arange(6).reshape(1, 2, 3), Whole, params=lambda: {"n": 2})
