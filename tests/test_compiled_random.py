"""Random statements of compiled functions give what NumPy gives.

``FRAMEFOLD_STRESS_SECONDS`` says for how long at least, ``FRAMEFOLD_SEED`` where chance begins.
What the guide says is computed differently is left out: numbers are small, and none is NaN.
"""

import os
import random
import re
import time

import numpy as np
import pytest

numba = pytest.importorskip("numba")
NumbaError = pytest.importorskip("numba.core.errors").NumbaError
_types = pytest.importorskip("framefold.compilation._types")

SECONDS = float(os.environ.get("FRAMEFOLD_STRESS_SECONDS", "0"))
SEED = int(os.environ.get("FRAMEFOLD_SEED", "20"))
N_LINES = 3
#: As many refusals for each line that is compiled are too many: about one of ten is refused.
N_REFUSED = 20

DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 float32 float64 complex64 complex128"
#: Views of arrays with one axis of 6, and with 4 and 6 elements along two.
VIEWS = {
    "v": ("{}", "{}[::-1]", "{}.repeat(2)[::2]", "np.broadcast_to({}[:1], (6,))", "{}[:0]"),
    "m": (
        "{}",
        "{}[::-1]",
        "{}[:, ::-1]",
        "{}.T.copy().T",
        "{}[:1]",
        "{}.repeat(2).reshape(4, 12)[:, ::2]",
    ),
}
NUMBERS = ("2", "3", "0.25", "np.int8(3)", "np.float32(0.5)")
OPERATORS = ("+", "*", "==", "!=", "<", ">=")
BITS = ("&", "|", "^")
#: Of an array, a number or an array, or integers.
VALUES = (
    "{a} {operator} {b}",
    "{b} {operator} {a}",
    "{i} {bits} {i}",
    "{r} - {r}",
    "{r} / ({b} * {b} + 1)",
    "{r} // 4.0",
    "{s} % 3",
    "np.fmod({s}, {s} * 2 + 1)",
    "np.where({r} > {b}, {a}, {b})",
    "np.{binary}({r}, {b})",
    "np.{unary}({n})",
    "{n}.{total}()",
    "np.{total}({a} > {b})",
    "{m}.sum(axis={axis})",
    "np.cumsum({n})",
    "np.diff({s})",
    "np.sort({v})[::{step}]",
    "np.unique({a})",
    "np.roll({a}, {step})",
    "np.flip({m}, {axis})",
    "np.concatenate(({v}, {v}))",
    "np.stack(({m}, {m}), axis={axis})",
    "np.repeat({a}, 2)",
    "np.take({m}, some, {axis})",
    "np.clip({s}, -1, 3)",
    "np.round({r} * 0.5)",
    "np.searchsorted(np.sort({r}), {r})",
    "np.digitize({r}, np.sort({v64}))",
    "np.bincount(np.abs({w}) % 5, minlength=2)",
    "np.outer({v}, {v})",
    "np.nonzero({a})[0]",
    "np.argsort({v}, kind='mergesort')",
    "np.array([k * e for k, e in enumerate({v})])",
    "{m}[{two}]",
    "{v}[{one}]",
    "{n}.astype(np.{dtype})",
)
ONE = ("1:", ":-1", "::-1", "::2", "...", "-3:", "some", "mask", "5:1:-1", "0:0", "some[1]", "2")
TWO = [
    "1",
    ":, 1",
    "1:",
    ":-1",
    "::-1, ::-1",
    "..., 1",
    "1, 1:",
    "1, :-1",
    "1, ::-1",
    "some",
    ":, some",
    "1, some",
    "some, 2",
    "some, some",
    ":, mask",
    "1, mask",
    "None, 1",
    "0:0",
    "2:, 1",
    "1, None",
    "1, 2",
]
STATEMENTS = (
    "w = {m}.copy(); w[{two}] = w[{two}]",
    "w = {m}.copy(); w[{two}] {assign}= w[{two}]",
    "w = {m}.copy()[::-1]; w[{two}] {assign}= {m}[{two}]",
    "w = {v}.repeat(2)[::2]; w[{one}] {assign}= w[{one}]",
    "w = {v}.copy(); w[{one}] = {n}.ravel()[1]",
    "w = {v}.copy(); w[{one}] {assign}= {v}[{one}]",
    "w = {m}.copy(); w {assign}= {v}",
    "w = {m}.copy(); np.{ufunc}(w[1:], w[:-1], w[1:])",
    "w = {m}.copy(); w.T[{one}] = w.T[{one}]",
    "w = np.zeros(6, np.{dtype}); w[{one}] = {v}[{one}]",
    "w = {v}.copy(); w[0], w[1] = w[1], w[0]",
)
CHOICES = {
    **{"operator": OPERATORS, "bits": BITS, "one": ONE, "two": TWO, "assign": ("", "+", "*")},
    **{"axis": ("0", "1", "-1"), "step": ("1", "-1", "2"), "dtype": ("int64", "float64", "int16")},
    "binary": ("maximum", "minimum", "fmax", "hypot", "logical_and", "add", "multiply"),
    "ufunc": ("add", "multiply"),
    "unary": ("abs", "square", "isfinite", "logical_not", "conjugate"),
    "total": ("sum", "min", "max", "mean", "prod", "any", "all", "argmax"),
}


class Lines:
    """Makes lines that NumPy runs, and arrays for them."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        numbers = np.random.default_rng(seed)
        self.arrays = {
            "some": np.array([2, 0, 3]),
            "mask": np.arange(6) % 3 == 1,
        }
        for dtype in DTYPES.split():
            low = 0 if dtype.startswith(("u", "b")) else -3
            for kind, shape in (("v", 6), ("m", (4, 6))):
                values = numbers.integers(low, 2 if dtype == "bool" else 4, shape).astype(dtype)
                self.arrays[f"{kind}_{dtype}"] = values * np.ones((), dtype)
                if values.dtype.kind in "fc":
                    self.arrays[f"{kind}_{dtype}"] = values / values.dtype.type(4)
        for array in self.arrays.values():
            array.flags.writeable = False

    def operand(self, kind):
        """An array, or a part of it; or, for some kinds, a number."""
        if kind == "b" and self.rng.random() < 0.3:
            return self.rng.choice(NUMBERS)
        dtypes = DTYPES.split()
        if kind in ("r", "s", "i", "w"):
            dtypes = [each for each in dtypes if not each.startswith("c")]
        if kind in ("i", "w"):
            dtypes = [each for each in dtypes if "int" in each]
        if kind in ("s", "n", "w"):
            dtypes = [each for each in dtypes if not each.startswith(("u", "b"))]
        axes = kind if kind in VIEWS else "v" if kind == "w" else self.rng.choice("vvm")
        name = "v_float64" if kind == "v64" else f"{axes}_{self.rng.choice(dtypes)}"
        return self.rng.choice(VIEWS[name[0]][: 1 if kind == "v64" else None]).format(name)

    def fill(self, template):
        """A template with something for each of its names."""

        def chosen(found):
            name = found[1]
            return self.rng.choice(CHOICES[name]) if name in CHOICES else self.operand(name)

        return re.sub(r"\{(\w+)\}", chosen, template)

    def line(self):
        """One that NumPy runs, what it gives there, and the arrays that it uses."""
        while True:
            line = self.fill(self.rng.choice((*VALUES, *STATEMENTS)))
            line = line if line.startswith("w = ") else f"w = {line}"
            names = [each for each in self.arrays if re.search(rf"\b{each}\b", line)]
            arrays = [self.arrays[each] for each in names]
            scope = {"np": np}
            exec(f"def function({', '.join(names)}):\n {line}\n return w", scope)
            try:
                with np.errstate(all="raise"):
                    expected = scope["function"](*arrays)
            except (TypeError, ValueError, IndexError, ArithmeticError, Warning):
                continue
            return line, scope["function"], arrays, expected


def test_random_lines():
    until, counts = time.monotonic() + SECONDS, {True: 0, False: 0}
    lines = Lines(SEED)
    while counts[True] < N_LINES or time.monotonic() < until:
        line, function, arrays, expected = lines.line()
        print(line)
        # As ``framefold.compilation`` has it, but to be called by the interpreter.
        made = numba.njit(boundscheck=True, pipeline_class=_types.Compiler)(function)
        try:
            made.compile(tuple(map(numba.typeof, arrays)))
        # Numba passes on what its own code raises in the middle of compiling.
        except (NumbaError, NotImplementedError, AttributeError):
            counts[False] += 1
            assert counts[False] < N_REFUSED * (1 + counts[True]), counts
            continue
        found = made(*arrays)
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        counts[True] += 1
    print("seed", SEED, counts)
