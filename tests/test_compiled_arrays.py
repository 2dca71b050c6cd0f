"""Operations on arrays that Numba does without looking at shapes are as in NumPy where compiled."""

import cmath  # noqa: F401
import math  # noqa: F401

import numpy as np
import pytest
from compiled_cases import both, cache, dataset, interpreted, results  # noqa: F401

import framefold as ff
from framefold.exceptions import UDFError

numba = pytest.importorskip("numba")

DATA = np.arange(1, 2 * 3 * 6 * 7 + 1).reshape(2, 3, 6, 7).astype("int32")
OUTSIDE = "broadcast|output"


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


class One(ff.UDF):
    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"x": self.buffer("nav", dtype="float64", extra_shape=(7,))}

    def get_task_data(self):
        return {"image": np.zeros((6, 7))}


def parameters():
    return {"dark": np.ones((7, 6)), "small": np.full((3, 3), 1e6), "weights": np.ones(3)}


def case(*lines, options=""):
    """A class whose code are ``lines``."""
    scope = dict(globals())
    source = f"class Case(One):\n  @ff.compiled{options}\n  def process_frame(self, frame):\n   "
    body = "\n   ".join(["x = self.results.x; image = self.task_data.image", *lines])
    exec(f"{source}{body}", scope)
    return scope["Case"]


def one_of(lines, options=""):
    """A class whose code is one of ``lines``, which ``self.params.which`` counts from 0.

    They are compiled together, and for the first only: alone, each takes a second.
    """
    chosen = (f"if self.params.which == {n}: {line}" for n, line in enumerate(lines))
    return case(*chosen, options=options)


@numba.njit
def add_in_place(array, other):
    array += other


@numba.vectorize
def total(one, other):
    return one + other


DO_NOT_FIT = (
    "f = frame.astype(np.float64); f -= self.params.dark",
    "f = frame.astype(np.float64); f -= self.params.small",
    "self.results.x += self.params.weights",
    "x *= self.params.weights",
    "x += frame",
    "x += frame[:1]",
    "x[:2] /= frame[:3, 0]",
    "x[:1] += frame[:3, 0]",
    "b = frame > 3; b &= (frame < 9)[:3]",
    "f = frame.copy(); f <<= frame[:3]",
    "np.add(self.params.weights, 1, x)",
    "a = (self.params.weights, 1, x); np.add(*a)",
    "np.outer(self.params.weights, self.params.weights, image)",
    "b = np.zeros(2, np.bool_); np.isneginf(self.params.weights, out=b)",
    "add_in_place(x, self.params.weights)",
)


@pytest.mark.parametrize("line", DO_NOT_FIT)
def test_shapes_that_do_not_fit(ctx, line):
    with pytest.raises(ValueError, match=OUTSIDE) as caught:
        results(ctx, DATA, one_of(DO_NOT_FIT)(which=DO_NOT_FIT.index(line), **parameters()))
    assert "frame 0" in " ".join(caught.value.__notes__)


def test_shapes_that_do_not_fit_an_output_of_numba_vectorize(ctx):
    # By itself, as what has such a function is compiled anew for each run.
    with pytest.raises(ValueError, match=OUTSIDE) as caught:
        results(ctx, DATA, case("total(self.params.weights, 1, x)")(**parameters()))
    assert "frame 0" in " ".join(caught.value.__notes__)


def test_shapes_that_fit(ctx):
    class Fits(One):
        @ff.compiled
        def process_frame(self, frame):
            image, x = self.task_data.image, self.results.x
            image[:] = frame
            image -= self.params.dark.T
            image *= frame[:1]
            image += frame[:, :1]
            image[:, :3] += image[:, 3:6]
            np.subtract(image, frame[0], image)
            f = frame.copy()
            f //= frame[0]
            f |= frame % 5
            f <<= frame % 2
            f **= 2
            image += f
            c = np.ones((3, 3))
            np.outer(self.params.weights, 2 * self.params.weights, c)
            one = np.array(3.0)
            one += self.params.weights[0]
            x += one
            add_in_place(x, image[5])
            x[:3] += c[0]

    both(ctx, DATA, Fits, params=parameters)


PARTS = (
    "x[:] = 1; x[1:] += x[:-1]",
    "x[:] = frame[0]; x[::-1] -= x",
    "x[:] = frame[0]; x *= x",
    "f = frame.astype(np.float64); f -= f[0]; x[:] = f[1]",
    "x[:] = frame[0]; np.add(x[:-1], x[:-1], x[1:])",
    "x[:3] = frame[0, :3]; np.dot(self.params.small, x[:3], x[:3])",
    "x[:] = frame[0]; np.round(x[:-1], out=x[1:])",
    "x[:] = frame[0]; x[:-1].clip(0, 100, x[1:])",
)


@pytest.mark.parametrize("line", PARTS)
@pytest.mark.parametrize("options", ["", "(boundscheck=False)"])
def test_operands_that_are_a_part_of_the_result(ctx, line, options):
    both(
        ctx,
        DATA,
        one_of(PARTS, options),
        params=lambda: {"which": PARTS.index(line), **parameters()},
    )


def test_an_output_in_a_tuple_with_numbers(ctx):
    both(ctx, DATA, case("a = (4.0, 5.0, x); np.add(*a)"))


def test_read_only_operands_that_are_a_part_of_the_result(ctx):
    line = "f = frame.astype(np.float64); f -= np.broadcast_to(f[0], f.shape)"
    with pytest.raises(ValueError, match="make a copy of it before"):
        results(ctx, DATA, case(line)())


#: In one function, as signed and unsigned indices of one array are not to have the same code.
FLAT = (
    "x[0] = frame.flat[-1]",
    "x[0] = frame.T.flat[-2]",
    "x[0] = frame[:, 1:3].flat[np.int8(-3)]",
    "x[0] = frame.flat[np.uint8(41)]",
    "image.flat[-2] = 3; image.T.flat[-1] = 4; x[:] = image[5]",
)


@pytest.mark.parametrize("line", FLAT)
@pytest.mark.parametrize("options", ["", "(boundscheck=False)"])
def test_flat_indices_count_from_the_end(ctx, line, options):
    both(ctx, DATA, one_of(FLAT, options), params=lambda: {"which": FLAT.index(line)})


@pytest.mark.parametrize("index", ["42", "-43", "np.uint64(42)"])
def test_flat_indices_outside(ctx, index):
    lines = f"x[0] = frame.flat[{index}]", f"image.flat[{index}] = 1"
    for which in range(len(lines)):
        with pytest.raises(IndexError, match="out of bounds"):
            results(ctx, DATA, one_of(lines)(which=which))


MASK = np.ones(3, bool)


def indices():
    return {
        "mask": np.arange(42) % 3 == 0,
        "rows": np.arange(6) % 2 == 0,
        "columns": np.arange(7) > 3,
        "row": -6,
        "some": np.array([-6, 5, 2]),
        "each": np.array([[0, -7]] * 6),
    }


#: Lines, and an index for each that is outside of the array, or a mask that is not as long.
INDICES = {
    "x[0] = frame.ravel()[p.mask].sum()": {"mask": np.ones(30, bool)},
    "x[0] = frame[p.rows, 2].sum()": {"rows": np.ones(7, bool)},
    "x[0] = frame[None, ..., p.columns].sum()": {"columns": MASK},
    "c = frame.copy(); c[..., p.columns] = 0; x[0] = c.sum()": {"columns": np.ones(6, bool)},
    "c = frame.copy(); c[1, p.columns] += 1; x[:] = c[1]": {"columns": np.ones(8, bool)},
    "a = (frame, p.some, 0); x[0] = np.take(*a).sum()": {"some": np.array([0, 7])},
    "x[0] = frame.take(p.row, axis=0).sum()": {"row": 6},
    "x[0] = frame.take(p.some, axis=-1).sum()": {"some": np.array([0, 7])},
    "x[0] = frame.take(p.some).sum()": {"some": np.array([0, 42])},
    "x[0] = np.take_along_axis(frame, p.each, 1).sum()": {"each": np.array([[0, -8]] * 6)},
    "x[0] = np.delete(frame, p.some).sum()": {"some": np.array([0, 42])},
}
ALWAYS_INSIDE = "x[0] = np.delete(frame, slice(1, 4)).sum()"
ALWAYS_OUTSIDE = "x[0] = frame[0, MASK].sum()"
WITH_INDICES = [f"p = self.params; {line}" for line in (*INDICES, ALWAYS_INSIDE, ALWAYS_OUTSIDE)]


@pytest.mark.parametrize("line", [*INDICES, ALWAYS_INSIDE])
def test_masks_and_indices_inside(ctx, line):
    which = (*INDICES, ALWAYS_INSIDE).index(line)
    both(ctx, DATA, one_of(WITH_INDICES), params=lambda: {"which": which, **indices()})


@pytest.mark.parametrize("line", [*INDICES, ALWAYS_OUTSIDE])
def test_masks_and_indices_outside(ctx, line):
    which = (*INDICES, ALWAYS_INSIDE, ALWAYS_OUTSIDE).index(line)
    for cls in one_of(WITH_INDICES), interpreted(one_of(WITH_INDICES)):
        with pytest.raises(IndexError, match=r"did not match|out of bounds"):
            results(ctx, DATA, cls(which=which, **indices() | INDICES.get(line, {})))


@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_medians_with_nan(ctx):
    class Medians(One):
        @ff.compiled
        def process_frame(self, frame):
            x, numbers = self.results.x, self.params.numbers
            x[0], x[1], x[2] = np.median(numbers), np.median(numbers[2:5]), np.median(frame)
            a = (numbers[1:],)
            x[3], x[4], x[5] = np.median(*a), np.median(a=numbers[3:5]), np.median(numbers[::-2])
            x[6] = np.median(numbers[:0])

    numbers = np.array([5, np.nan, 1, 2, 3, np.nan, 9, np.inf], "float32")
    both(ctx, DATA, Medians, params=lambda: {"numbers": numbers})


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_isclose(ctx):
    class Close(One):
        @ff.compiled
        def process_frame(self, frame):
            x, numbers, ints = self.results.x, self.params.numbers, self.params.ints
            x[0] = np.isclose(numbers, numbers).sum()
            by_name = np.isclose(b=numbers[1:2] + 1e-3, a=numbers, rtol=0.1, atol=5, equal_nan=True)
            x[1] = by_name.sum()
            x[2] = np.isclose(ints, ints[::-1], 0.0, 250.0).sum()
            x[3] = np.isclose(numbers, 4.0).sum() + 100 * np.isclose(frame, frame + 1, 2.0).sum()
            x[4] = np.isclose(numbers[0], numbers)[2, 1] + 2 * np.isclose(1.0, 1.0)
            # Of unsigned numbers.
            u, n = frame.astype(np.uint8), self.params.n
            x[5] = np.isclose(u, n, atol=50.0).sum() + 100 * np.allclose(n, u[:2], 0.0, 255.0)
            close = self.xp.isclose(frame, frame[:1] + 7, 0.1)
            close |= frame == 3
            x[6] = close.sum()

    numbers = np.arange(1.0, 37).reshape(6, 6)
    numbers[1:3, 1] = np.nan, np.inf
    params = {"numbers": numbers, "ints": np.array([[1, 255, 3]], "uint8"), "n": np.uint8(60)}
    found = both(ctx, DATA, Close, params=lambda: params)["x"][0]
    assert found[0] == 35
    # The second row with NaN, 2 of the first, and 3 of the third: 6 without either tolerance.
    assert found[1] == 11


QUOTIENTS = (
    "x[:] = np.floor_divide(self.params.q, 0.1)",
    "x[0] = np.floor_divide(1.0, 0.1); x[1] = np.floor_divide(1.0, 0.0)",
    "x[:] = self.params.q; x //= 0.1",
    "x[:] = 1; x[1:] //= x[:-1] * 0.1",
    "a = (self.params.q, 0.1, x); np.floor_divide(*a)",
    "q, r = np.divmod(self.params.q, 0.1); x[:] = q + r",
    "f = frame.copy(); f //= 2; x[:] = f[1]; np.floor_divide(frame[0], 2, f[0])",
    "z = np.array(1.0); x[0] = z // 0.1; z //= 0.1; x[1] = z[()]",
    # Of expressions, Numba computes those once that it takes to be used once.
    "q, r = np.divmod(frame[1] + 0.5, frame[0] * 0.3); x[:] = q + 100 * r",
    "f = frame[0].astype(np.float32) / np.float32(3); x[:] = np.divmod(frame[1], f)[0]",
    "f = frame[0].astype(np.float32) / np.float32(3); x[:] = np.divmod(f, frame[1] % 3 + 1)[1]",
    # Outputs are written when both are computed.
    "a = frame[0] * 0.7; np.divmod(a, 0.3, x, a); x += 100 * a",
    "a = frame[0] * 0.7; q = a.copy(); np.divmod(2.0, a[:6], q[1:], a[1:]); x[:] = q + 100 * a",
    "x[0] = np.floor_divide(np.array(5), np.float32(2)) + np.divmod(np.array(5), np.float32(3))[1]",
    "f = np.full(3, 2.5, 'f4'); f //= np.array(2); x[0] = f[0]",
)


#: Of integers that ``float32`` can hold.
DIVISIONS = (
    "u = frame.astype(np.uint16); x[:] = (u / u.max())[1]",
    "x[:] = np.divide(frame[0].astype(np.int8), frame[1].astype(np.uint8))",
    "f = np.zeros(7, 'f4'); np.divide((frame[0] > 2), frame[1].astype(np.uint8), f); x[:] = f",
    "z = np.array(np.uint16(1)); x[0] = z / np.uint8(3)",
)
REMAINDERS = (
    "i = np.full(7, -(2**31), 'i4'); x[:] = np.remainder(i, np.full(7, -1, 'i4'))",
    "i = np.full(7, -(2**31), 'i4'); x[:] = np.divmod(i, np.full(7, -1, 'i4'))[1]",
    "f = frame.copy(); np.mod(frame[0] - 9, f[0] - 4, f[1]); x[:] = f[1]",
    "x[:] = np.fmod(frame[0] - 4, 3); x[0] = np.fmod(frame[0, 0] - 9, 3)",
    "i = np.full(7, -(2**31), 'i4'); x[:] = np.fmod(i, frame[0].astype(np.uint16) % 5)",
    "f = frame[0] - 4; np.fmod(-9, f[1:], f[:-1]); x[:] = f",
)
SIGNS = (
    "u = (frame[0] % 2 * 200).astype(np.uint8); x[:] = np.sign(u); x[0] = np.sign(u[0])",
    "u = (frame[1] % 2 * 200).astype(np.uint8); v = u.copy(); np.sign(u, v); x[:] = v",
)
#: Of ``float32``, and integers that it cannot hold.
SINGLE = (
    "f = frame.astype(np.float32) / np.float32(3); x[:] = (f * np.arange(7))[1]",
    "f = frame.astype(np.float32) / np.float32(3); x[:] = (frame - f)[2]",
    "f = frame[0].astype(np.float32); f -= frame[1] + 2**30; x[:] = np.maximum(f, np.arange(7))",
    "f = frame.astype(np.complex64) * np.float32(0.1); x[:] = (f * frame).real[1]",
    "x[0] = (self.params.c * np.float32(3)).real",
    "f = np.ones(3, 'f4'); i = np.arange(3) + 2**24; x[:3] = np.outer(b=i, a=f)[0]",
    "f = np.ones(3, 'f4'); i = np.arange(3) + 2**24; x[:6] = np.kron(f, i)[:6]",
    "f = np.ones(3, 'f4'); i = np.arange(3) + 2**24; x[:3] = np.cross(i, f)",
    "x[:6] = np.kron(frame[0, :2].astype(np.uint8), self.params.q[:3])",
    "f = frame[0].astype('f4') / np.float32(3); x[:] = np.kron(2, f) + np.kron(frame[1], 0.5)",
    "u = (frame[0] % 2 * 200 + 9).astype('u1'); x[:2] = np.average(u, weights=u), np.mean(u > 9)",
    "u = (frame[1] * 9999).astype('u2'); f = frame[0].astype('f4') / np.float32(3); "
    "x[0] = np.average(u, weights=u[::-1]); x[1] = np.average(u, weights=f)",
    "f = frame.astype(np.float32) / np.float32(3); x[:6] = np.trapezoid(f, x=np.arange(7) ** 2)",
)
PYTHON_NUMBERS = (
    "u = frame[0].astype(np.uint8); x[0] = int(u[0]) - int(u[1]); x[1] = int(np.uint32(3)) - 4",
    "f = frame[0].astype(np.float32) / np.float32(3); x[0] = float(f[0]) * float(f[4])",
    "q = self.params.q; v = q[3] * -5; x[0] = math.floor(v); x[1] = math.ceil(v); "
    "x[2] = math.trunc(v); x[3] = round(v); x[4] = int(q[2] * 2.0**63)",
    "f = frame[0].astype(np.float32) / np.float32(3); x[0] = math.sqrt(f[0])",
    "f = frame[0].astype(np.float32) / np.float32(3); x[0] = cmath.log(f[1]).real",
    "f = frame[0].astype(np.float32); x[0] = math.exp(f[0] + 99); x[1] = math.hypot(*(f[1], 3))",
    "c = self.params.c; x[0] = abs(cmath.exp(c)); x[1] = complex(c).real + c.item().real",
    "u = frame[0].astype(np.uint8); x[0] = u[0].item() - u[1].item(); x[1] = u[:1].item() - 20",
)
#: In one function, as compiling takes long.
ARITHMETIC = (*QUOTIENTS, *DIVISIONS, *REMAINDERS, *SIGNS, *SINGLE, *PYTHON_NUMBERS)


def arithmetic(line):
    numbers = np.array([1.0, 0.5, -1.0, 0.3, np.inf, 7.0, -0.0])
    return {"which": ARITHMETIC.index(line), "q": numbers, "c": np.complex64(0.1)}


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero):RuntimeWarning")
@pytest.mark.parametrize("line", QUOTIENTS)
def test_quotients_that_are_rounded_down(ctx, line):
    both(ctx, DATA, one_of(ARITHMETIC), params=lambda: arithmetic(line))


@pytest.mark.parametrize("line", SINGLE)
def test_float32_with_long_integers(ctx, line):
    both(ctx, DATA, one_of(ARITHMETIC), params=lambda: arithmetic(line))


@pytest.mark.parametrize("line", DIVISIONS)
def test_quotients_of_short_integers(ctx, line):
    both(ctx, DATA, one_of(ARITHMETIC), params=lambda: arithmetic(line))


@pytest.mark.filterwarnings("ignore:(overflow|divide by zero):RuntimeWarning")
@pytest.mark.parametrize("line", REMAINDERS)
def test_remainders_of_integers(ctx, line):
    both(ctx, DATA, one_of(ARITHMETIC), params=lambda: arithmetic(line))


@pytest.mark.parametrize("line", SIGNS)
def test_signs_of_unsigned_integers(ctx, line):
    both(ctx, DATA, one_of(ARITHMETIC), params=lambda: arithmetic(line))


@pytest.mark.parametrize("line", PYTHON_NUMBERS)
def test_python_numbers_of_elements(ctx, line):
    both(ctx, DATA, one_of(ARITHMETIC), params=lambda: arithmetic(line))


def test_sums_of_many_numbers_of_single_precision(ctx):
    class Sums(One):
        @ff.compiled
        def process_frame(self, frame):
            x, many, gaps = self.results.x, self.params.many, self.params.gaps
            x[0] = many.sum() + np.sum(many, 0) + np.sum(many[::4], dtype=np.float32)
            x[1] = many.mean() + np.average(many)
            x[2] = many.std() + np.var(many)
            x[3] = np.nansum(gaps)
            x[4] = np.average(many, weights=many)
            turned = many * np.complex64(1j)
            x[5] = turned.sum().imag + np.var(turned)
            x[6] = many.reshape(2, 2**9, -1).sum(axis=(1, 2))[1]

    many = np.full(2**18, 1001, "float32")  # of which NumPy's pairwise sums are exact
    gaps = many.copy()
    gaps[::2] = np.nan
    both(ctx, DATA[:1, :1], Sums, params=lambda: {"many": many, "gaps": gaps})


def test_fastmath_is_of_the_function_alone(ctx):
    """Both call the same, in an order in which the first one decides what is compiled."""

    class Fast(One):
        @ff.compiled(fastmath=True)
        def process_frame(self, frame):
            self.results.x[0] = np.nansum(self.params.gaps) + np.median(self.params.gaps)

    class Precise(One):
        @ff.compiled
        def process_frame(self, frame):
            x, gaps = self.results.x, self.params.gaps
            x[0] = np.nansum(gaps)
            x[1] = np.median(gaps)

    gaps = np.array([[[1, np.nan, 2]]], "complex64").real  # of strides that no other test has
    ctx.run_udf(ctx.load("memory", data=DATA, sig_dims=2), Fast(gaps=gaps))
    both(ctx, DATA[:1, :1], Precise, params=lambda: {"gaps": gaps})


def test_clip_of_integers_with_other_bounds(ctx):
    class Clipped(One):
        @ff.compiled
        def process_frame(self, frame):
            x, c = self.results.x, frame.clip(3.5, 5.5)
            x[0], x[1] = c[0, 0], c[1, 6]
            x[2] = np.clip(frame, a_max=2.5, a_min=None)[0, 4]
            x[3] = np.clip(frame, 1, 3)[0, 0]

    both(ctx, DATA, Clipped)


def test_clip_with_arrays_as_bounds(ctx):
    class Clipped(One):
        @ff.compiled
        def process_frame(self, frame):
            x, low, some = self.results.x, self.params.low, frame[0, :3]
            image = np.clip(frame[:1], low, low)  # of one row
            x[0], x[1] = image.shape[0], image[5, 6]
            x[2] = frame[:, :1].clip(low)[3, 3]
            x[3] = np.clip(frame.astype(np.uint8), -1, low.astype(np.uint8))[2, 1]
            x[4] = np.clip(some, some[::-1], 2)[2] + np.clip(some, a_max=some[:1], a_min=3)[2]
            np.clip(low[:1] * 1.0, low * 1.0, 50, self.task_data.image)
            x[5] = self.task_data.image[5, 5]
            # Of tuples, and of expressions as operands.
            row = np.clip(some * 1.5, some - 0.5, (2.5, 99.0, 1.0))
            x[6] = row[0] + 10 * row[2] + np.clip(some[:1] * 1.0, (9.0, 9.0), 50).size

    both(ctx, DATA, Clipped, params=lambda: {"low": DATA[0, 0] + 3})


def test_copies_that_numba_does_not_make(ctx):
    class Copies(One):
        @ff.compiled
        def process_frame(self, frame):
            c = frame.copy()
            some, all_of_them = np.resize(c, 3), np.nan_to_num(c)
            some[:] = 0
            all_of_them[:] = 0
            self.results.x[:] = c[0]

    both(ctx, DATA, Copies)


REFUSED = (
    "x[0] = np.bincount(np.array([-1, 2]))[0]",
    "x[0] = np.average(frame, weights=self.params.weights)",
    "x[:2] = np.linalg.solve(np.ones((1, 2)), np.ones(1))",
    "x[0] = int(self.params.weights[0] * np.inf)",
    "x[0] = round(self.params.weights[0] * np.nan)",
    "x[0] = math.floor(self.params.weights[0] * -np.inf)",
    "x[0] = len(np.array_split(frame[0], -1))",
    "x[0] = len(np.hsplit(frame, indices_or_sections=-1))",
)


@pytest.mark.parametrize("line", REFUSED)
def test_what_numpy_refuses(ctx, line):
    for cls in one_of(REFUSED), interpreted(one_of(REFUSED)):
        with pytest.raises(
            (TypeError, ValueError, OverflowError),
            match=r"negative|below 0|larger than 0|weights|square|integer",
        ):
            results(ctx, DATA, cls(which=REFUSED.index(line), weights=np.ones(7)))


#: Of types that NumPy has no loops for.
OF_TRUTH_VALUES = (
    "x[:] = (frame[0] > 3) - (frame[1] > 9)",
    "x[:] = -(frame[0] > 3)",
    "x[:] = np.sign(frame[0] > 3)",
    "np.positive(frame[0] > 3, x)",
    "x[0] = np.percentile(frame > 3, 50) + np.nanquantile(frame > 3, 0.5)",
)


@pytest.mark.parametrize("line", OF_TRUTH_VALUES)
def test_types_that_numpy_refuses(ctx, line):
    with pytest.raises(UDFError, match=r"NumPy refuses it, too: .*(boolean|BoolDType)"):
        results(ctx, DATA, case(line)())
    with pytest.raises(TypeError, match=r"boolean|BoolDType"):
        results(ctx, DATA, interpreted(case(line))())


@pytest.mark.parametrize("line", ["np.round(frame * 0.3, 0, out)", "np.around(frame, 1, out=out)"])
def test_outputs_that_numpy_refuses(ctx, line):
    line = f"out = np.zeros(frame.shape, np.uint8); {line}; x[0] = out.sum()"
    data = DATA.astype("float32") - 9
    with pytest.raises(UDFError, match=r"a?round of float(32|64) has no output of uint8"):
        results(ctx, data, case(line)())
    with pytest.raises(TypeError, match="same_kind"):
        results(ctx, data, interpreted(case(line))())


def test_numbers_that_may_be_none(ctx):
    lines = "best = None\n   for e in frame[0]:\n    if best is None or e > best: best = e"
    both(ctx, DATA, case(lines, "x[0] = (frame - best).sum()"))


@numba.vectorize
def largest(a, b):
    return max(a, b)


@pytest.mark.filterwarnings("ignore:ufunc.* is experimental")
@pytest.mark.filterwarnings("ignore:(?s).*Compilation requested for previously compiled")
@pytest.mark.parametrize(
    "line",
    [
        "largest.at(frame, np.array([0, 1]), 99.0)",
        "largest.at(x, np.array([0, 50_000_000]), 99.0)",
        "x[:2] = largest.reduceat(x, np.array([0, 50_000_000]))",
    ],
)
def test_ufunc_at_is_refused(ctx, line):
    with pytest.raises(UDFError, match=r"Numba does not check the indices of ufunc\.\w*at:"):
        results(ctx, DATA, case(line)())


def test_shapes_in_stages_and_merge(ctx):
    class Subtracts(ff.Transform):
        @ff.compiled
        def process_frame(self, frame, out):
            out[:] = frame
            out += self.params.dark

    piped = dataset(ctx, DATA).pipe(Subtracts(dark=np.ones((7, 6), "int32")))
    with pytest.raises(ValueError, match=OUTSIDE):
        ctx.run_udf(dataset=piped, udf=ff.SumUDF())

    class Merges(case("x[:] = 1")):
        @ff.compiled
        def merge(self, dest, src):
            dest.x[:] = src.x
            dest.x += src.x[0, :3]

    with pytest.raises(ValueError, match="operands could not be broadcast together"):
        results(ctx, DATA, Merges())


class Histograms(One):
    def get_task_data(self):
        return self.parts(np.zeros((2, 7)))

    @ff.compiled
    def process_frame(self, frame):
        self.task_data.dark[0] += 1
        self.results.x[0] = self.task_data.all[0].sum() + self.task_data.other[1]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (lambda a: {"all": a, "dark": a[0], "other": np.ones(2)}, "'all' and 'dark', which share"),
        (lambda a: {"all": a, "dark": np.ones(2), "other": a[0]}, "'all' and 'other', which sh"),
        (
            lambda a: {"all": (a[1], a), "dark": a[0], "other": np.ones(2)},
            "an array twice in 'all'",
        ),
    ],
)
def test_task_data_that_share_memory(ctx, parts, said):
    cls = type("Shares", (Histograms,), {"parts": staticmethod(parts)})
    with pytest.raises(UDFError, match=f"get_task_data of Shares, .* returns {said}"):
        results(ctx, DATA, cls())


def test_task_data_that_only_are_of_one_array(ctx):
    def parts(counts):
        table = np.arange(14.0)
        table.flags.writeable = False
        # What the code does not use does not matter.
        return {"all": table.reshape(2, 7), "dark": counts[0], "other": table, "unused": counts}

    both(ctx, DATA, type("Parts", (Histograms,), {"parts": staticmethod(parts)}))
