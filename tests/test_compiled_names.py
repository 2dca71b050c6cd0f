"""What machine code is made of: where any of it changes, it is compiled anew."""

import enum
from collections import namedtuple
from types import FunctionType, ModuleType

import numpy as np
import pytest
from compiled_cases import both, cache  # noqa: F401

import framefold as ff
from framefold.compilation import store
from framefold.compilation.names import UncertainError, fingerprint

numba = pytest.importorskip("numba")


DATA = np.random.default_rng(0).integers(0, 100, (4, 5, 6, 7)).astype("uint16")


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


def uses():
    return value  # noqa: F821


def of(value):
    """The fingerprint of a function that uses this as a global."""
    return fingerprint(FunctionType(uses.__code__, {"value": value}))


def module(name, **members):
    made = ModuleType(name)
    vars(made).update(members)
    return made


def divide(value):
    return 1.0 / value


def with_default(function):
    return lambda value, function=function: function(value)


def with_keyword(function):
    return lambda value, *, function=function: function(value)


#: Made in the test: signatures are compiled.
PAIRS = {
    "members of an enum": lambda: [enum.Enum("E", {"A": 1}), enum.Enum("E", {"A": 5})],
    "a member of an enum": lambda: [enum.Enum("E", {"A": each}).A for each in (1, 5)],
    "options of Numba": lambda: [
        numba.njit(error_model=each)(divide) for each in ("numpy", "python")
    ],
    "signatures": lambda: [numba.njit(each)(divide) for each in ("f4(f4)", "f8(f8)")],
    "fields of a class": lambda: [namedtuple("P", each) for each in ("x y", "y x")],
    "fields of a tuple": lambda: [namedtuple("P", each)(1, 2) for each in ("x y", "y x")],
    "fields of an array": lambda: [np.zeros(2, [(each, "i4")]) for each in "xy"],
    "a module with the name of a library's": lambda: [
        module("profile", value=each) for each in (3, 8)
    ],
    "signs of zero": lambda: [0.0, -0.0],
    "kinds of one": lambda: [1, True],
    "what overrides a builtin": lambda: [lambda: 1, lambda: 2],
    "functions in a tuple": lambda: [(1, (each,)) for each in (divide, uses)],
    "functions of Numba in a tuple": lambda: [(numba.njit(each),) for each in (divide, uses)],
    "functions in a named tuple": lambda: [namedtuple("P", "f")(each) for each in (divide, uses)],
    "which function is where": lambda: [(divide, each, uses) for each in (divide, uses)],
    "functions as defaults": lambda: [with_default(each) for each in (divide, uses)],
    "functions as defaults of keywords": lambda: [with_keyword(each) for each in (divide, uses)],
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_what_tells_code_apart(pair):
    first, second = pair()
    assert of(first) == of(first)
    assert of(first) != of(second)


class Own:
    pass


@pytest.mark.parametrize("value", [Own, Own(), [1], numba.vectorize(divide)])
def test_what_nothing_is_known_of_is_compiled_anew(value):
    with pytest.raises(UncertainError):
        of(value)


class Failure(ValueError):
    pass


@pytest.mark.parametrize("value", [Failure, np.float32, numba.float32, np.sin, len, int, (1, "a")])
def test_what_is_known_by_its_name(value):
    assert of(value) == of(value)


def test_enums_that_change(ctx):
    dataset = ctx.load("memory", data=np.ones((2, 3, 4, 5), "f4"))

    def run(factor):
        kind = enum.Enum("kind", {"FACTOR": factor})
        scale = ff.compiled(lambda frame: frame[0, 0] * kind.FACTOR.value)
        return ctx.map(dataset, scale).data

    assert (run(2) == 2).all()
    assert (run(3) == 3).all()


settings = ModuleType("settings")
settings.inner = ModuleType("settings.inner")
settings.inner.factor = 3
#: Not what the function below has as a parameter.
gain = object()


WEIGH = """
@mark
def scale(value):
    return value * {factor}
class Weighs(ff.UDF):
    def get_result_buffers(self):
        return {{"x": self.buffer("nav", dtype="int64")}}
    @ff.compiled
    def process_frame(self, frame):
        self.results.x[0] = {call}
"""


#: What comes before the class, and how it calls ``scale``.
WAYS = {
    "a tuple": ("weights = (scale,)", "weights[0](1)"),
    "a named tuple": ("weights = namedtuple('Weights', 'one')(scale)", "weights.one(1)"),
    "a default": ("@ff.compiled\ndef weigh(value, by=scale): return by(value)", "weigh(1)"),
}


@pytest.mark.filterwarnings("ignore:First-class function")
@pytest.mark.parametrize("mark", [ff.compiled, numba.njit], ids=["compiled", "njit"])
@pytest.mark.parametrize("way", WAYS)
def test_functions_in_other_values_are_edited(ctx, way, mark):
    made, call = WAYS[way]
    for factor in (2, 5, 2):
        scope = {"ff": ff, "mark": mark, "namedtuple": namedtuple}
        text = WEIGH.format(factor=factor, call=call).replace("class", f"{made}\nclass", 1)
        exec(compile(text, "<cell>", "exec"), scope)
        dataset = ctx.load("memory", data=DATA)
        assert (ctx.run_udf(dataset, scope["Weighs"]())["x"].data == factor).all()


HELPED = """
factor = 2
{decorator}
def scale(value):
    return value * factor
{between}
class Helped(ff.UDF):
    def get_result_buffers(self):
        return {{"x": self.buffer("nav", dtype="float64")}}
    @ff.compiled
    def process_frame(self, frame):
        self.results.x[0] = scale(1.0)
"""
HELPERS = {
    "njit": ("@numba.njit", "scale(1.0)"),
    "a signature": ("@numba.njit('f8(f8)')", ""),
    "in another": ("@numba.njit", "inner = scale\n@numba.njit\ndef scale(x): return inner(x)"),
    "in a module": (
        "@numba.njit",
        "m = module('m', scale=scale)\nscale = ff.compiled(lambda x: m.scale(x))",
    ),
    "calls itself": (
        "@numba.njit",
        "inner = scale\n@numba.njit\ndef scale(x): return inner(x) if x == 1 else scale(x - 1)",
    ),
}


@pytest.mark.parametrize("helper", HELPERS)
def test_functions_of_numba_see_values_of_now(ctx, helper):
    decorator, between = HELPERS[helper]
    scope = {"ff": ff, "numba": numba, "module": module}
    exec(compile(HELPED.format(decorator=decorator, between=between), "<cell>", "exec"), scope)
    dataset = ctx.load("memory", data=DATA)
    for factor in (2, 10):
        scope["factor"] = factor
        for _ in range(2):
            assert (ctx.run_udf(dataset, scope["Helped"]())["x"].data == factor).all()
            store._loaded.clear()  # as in another process, which reads the file if there is one


def test_functions_of_numba_stay_as_they_are(ctx):
    scope = {"ff": ff, "numba": numba}
    exec(compile(HELPED.format(decorator="@numba.njit", between=""), "<cell>", "exec"), scope)
    ctx.run_udf(ctx.load("memory", data=DATA), scope["Helped"]())
    assert scope["scale"].signatures == []


class Scaled(ff.UDF):
    def get_result_buffers(self):
        return {"n": self.buffer("nav", dtype="int64")}

    @ff.compiled
    def process_frame(self, frame):
        self.results.n[0] = frame[0, 0] * settings.inner.factor * self.params.gain


def test_what_is_compiled_in_and_what_is_not(ctx, monkeypatch):
    first = DATA[..., 0, 0].astype("int64")
    dataset = ctx.load("memory", data=DATA)

    def run(gain):
        return ctx.run_udf(dataset, Scaled(gain=gain))["n"].data

    np.testing.assert_array_equal(run(2), first * 6)
    n_compiled = len(store._loaded)
    # A global of the name of a parameter belongs to something else, and so does its value.
    monkeypatch.setitem(globals(), "gain", 7)
    np.testing.assert_array_equal(run(5), first * 15)
    assert len(store._loaded) == n_compiled
    monkeypatch.setattr(settings.inner, "factor", 4)
    np.testing.assert_array_equal(run(2), first * 8)


def above(limit):
    @ff.compiled
    def count(frame):
        return (frame > limit).sum()

    return count


def test_values_of_closures_are_compiled_in(ctx):
    dataset = ctx.load("memory", data=DATA)
    for limit in (5, 50):
        counts = ctx.map(dataset, above(limit)).data
        np.testing.assert_array_equal(counts, (limit < DATA).sum((2, 3)))


class Size(namedtuple("Size", "rows columns")):
    def __new__(cls, rows):
        return super().__new__(cls, rows, 2 * rows)


def test_named_tuples_among_parameters_are_tuples(ctx):
    class Sizes(ff.UDF):
        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype="float64", extra_shape=(4,))}

        @ff.compiled
        def process_frame(self, frame):
            size, x = self.params.size, self.results.x
            some = size if frame[0, 0] > 50 else (1, 1)
            x[0] = np.full(size, 0.5).sum() + some[1]
            x[1] = frame[size]
            x[2] = len(size + some)
            for place in np.ndindex(size):
                x[3] += frame[place]

    both(ctx, DATA, Sizes, params=lambda: {"size": Size(2)})
