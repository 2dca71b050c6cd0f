"""What machine code is made of: where any of it changes, it is compiled anew."""

import enum
from collections import namedtuple
from types import FunctionType, ModuleType

import numpy as np
import pytest
from compiled_cases import cache  # noqa: F401

import framefold as ff
from framefold.compilation.names import UncertainError, fingerprint

numba = pytest.importorskip("numba")


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


PAIRS = {
    "members of an enum": [enum.Enum("E", {"A": 1}), enum.Enum("E", {"A": 5})],
    "a member of an enum": [enum.Enum("E", {"A": each}).A for each in (1, 5)],
    "options of Numba": [numba.njit(error_model=each)(divide) for each in ("numpy", "python")],
    "signatures": [numba.njit(each)(divide) for each in ("f4(f4)", "f8(f8)")],
    "fields of a class": [namedtuple("P", each) for each in ("x y", "y x")],
    "fields of a tuple": [namedtuple("P", each)(1, 2) for each in ("x y", "y x")],
    "fields of an array": [np.zeros(2, [(each, "i4")]) for each in "xy"],
    "a module with the name of a library's": [module("profile", value=each) for each in (3, 8)],
    "signs of zero": [0.0, -0.0],
    "kinds of one": [1, True],
    "what overrides a builtin": [lambda: 1, lambda: 2],
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_what_tells_code_apart(pair):
    first, second = pair
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


def test_enums_that_change():
    dataset = ff.Context.make_with("inline").load("memory", data=np.ones((2, 3, 4, 5), "f4"))

    def run(factor):
        kind = enum.Enum("kind", {"FACTOR": factor})
        scale = ff.compiled(lambda frame: frame[0, 0] * kind.FACTOR.value)
        return ff.Context.make_with("inline").map(dataset, scale).data

    assert (run(2) == 2).all()
    assert (run(3) == 3).all()
