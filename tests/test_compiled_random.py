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
    "{n}.astype({python})",
    "{g} {on_integers} {k}",
    "{k} {on_integers} ({g} + 1)",
    "np.{of_integers}({g}, {k})",
    "np.where({g} > {k}, {g}, {k})",
    "{i} << {k}",
    "{i} >> {k}",
    "~{i}",
    "np.power({w}, {k})",
    "{n} ** {k}",
    "{r} > {k} if {w}[:1].size else {k} > 2",
    "{v}[{v} > {k}]",
    "{m}[{r}[0] > 1]",
    "{m}[:, {r}[0] > 1]",
    "{m}[{m}[:, 1] >= {k}]",
    "{n}.sum() {operator} {b}",
    "{n}.{total}() / {k}",
    "np.{spread}({n})",
    "np.{spread}({s})",
    "np.median({r})",
    "np.percentile({s}, 30)",
    "np.isin({r}, {v})",
    "np.intersect1d({r}, {r})",
    "np.setdiff1d({r}, {r})",
    "np.interp({r}.ravel(), np.arange(6.0), {v64})",
    "np.convolve({s}.ravel()[:5], {s}.ravel()[:3])",
    "np.correlate({n}.ravel()[:5], {n}.ravel()[:3])",
    "np.dot({f}, {f})",
    "{f} @ {f}",
    "np.{shape}({m})",
    "np.{of_vector}({v})",
    "np.append({a}, {b})",
    "np.delete({v}, {step})",
    "np.full_like({a}, {k})",
    "np.arange({k}) + {n}.ravel()[:{k}]",
    "np.array([{n}.ravel()[0], {k}, 2 * {n}.ravel()[1]])",
    "np.argwhere({a} > {k})",
    "np.extract({v} > 0, {v})",
    "np.select([{v} > 1, {v} < 1], [{v}, {v}])",
    "np.nan_to_num({n})",
    "np.array_split({v}, 4)[{step}]",
    "np.array_equal({a}, {a})",
    "np.allclose({r}, {r})",
    "np.cumprod({n})",
    "np.trapezoid({n})",
    "np.vander({f}, 3)",
    "np.linalg.norm({f})",
    "np.sum({m}, axis={axis})",
    "np.argmax({r}, axis={axis})",
    "np.average({n}, weights=np.abs({n}) + 1)",
    "{m}.ravel()[{step}:]",
    "{m}.T[{one}]",
    "{v}.copy().reshape(2, 3)[:, {step}]",
    "{n}.ravel()[0] {operator} {n}.ravel()[1]",
    "{s}.ravel()[0] // {k}",
    "{s}.ravel()[0] % {k}",
    "divmod({s}.ravel()[0], {k})[{one_of_two}]",
    "abs({n}.ravel()[2])",
    "max({s}.ravel()[0], {s}.ravel()[1], {k})",
    "min({s}.ravel()[0], {k})",
    "{a}.ravel()[0] in {v}",
    "{r}.ravel()[0] in (1, 2, {k})",
    "{r}.ravel()[0] < {r}.ravel()[1] <= {k}",
    "not {a}.ravel()[0]",
    "{n}.ravel()[0] if {r}.ravel()[1] > 1 else {n}.ravel()[2]",
    "int({r}.ravel()[0] * 2)",
    "round(float({s}.ravel()[0]))",
    "{python}({s}.ravel()[0])",
    "sum([e * 2 for e in {n}.ravel() if e != 1])",
    "len([e for e in {r}.ravel() if e > {k}])",
    "sorted([e for e in {s}.ravel()])[{step}]",
    "[e for row in {m} for e in row][{step}]",
    "sum([k * e for k, e in zip(range(5), {n}.ravel())])",
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
    "w = {h}.copy(); w {in_place}= {k}",
    "w = {h}.copy()[::-1]; w[{k}:] {in_place}= {k}",
    "w = {s}.copy(); w {in_place}= {k}",
    "w = {m}.copy(); w[{r}[0, 0] > 1] = {k}",
    "w = {v}.copy(); w[w > 1] {assign}= 1",
    "w = {m}.copy(); w[:, 1], w[:, 2] = w[:, 2].copy(), w[:, 1].copy()",
    "w = {m}.copy(); v = w[1:]; v[...] = {k}; w[{one}] += v[0, 0]",
    "w = {m}.copy(); w.T[1] {assign}= {m}[:, 2]",
    "w = {m}.copy(); w.ravel()[{k}] = 1",
    "w = {m}.copy(); w.flat[{k}] {assign}= 2",
    "w = {m}.copy(); np.fill_diagonal(w, {k})",
    "w = {v}.copy(); w.sort()",
    "w = {v}.copy(); w.fill({k})",
    "w = np.zeros((4, 6), np.{dtype}); w[:] = {m}; w[{two}] = {k}",
    "w = np.zeros({k}); w[:] = {r}.ravel()[0]; w[-1] -= 1",
    "w = 0.0\n for e in {n}.ravel():\n  w = w + e * {k}\n  if abs(w) > 9: break",
    "w = np.zeros(6)\n for j in range({k}, 0, -1): w[j] = {s}.ravel()[j] + w[j - 1]",
    "w = 0\n for j, row in enumerate({m}):\n  if row.ravel()[0] == 1: continue\n  w += j * 2",
    "w = 0\n while w < {k} and {r}.ravel()[w] < 3: w += 1",
    "w = {s}.ravel()[0]\n for e in {s}.ravel():\n  if e > w: w = e",
    "w = np.zeros(4, np.int64)\n for e in {i}.ravel(): w[e] += 1",
    "w = []\n for e in {n}.ravel(): w.append(e + {k})",
    "w = {n}.copy(); u = w; u {assign}= {k}; w = w + u",
)
CHOICES = {
    **{"operator": OPERATORS, "bits": BITS, "one": ONE, "two": TWO, "assign": ("", "+", "*")},
    **{"axis": ("0", "1", "-1"), "step": ("1", "-1", "2"), "dtype": ("int64", "float64", "int16")},
    "binary": ("maximum", "minimum", "fmax", "hypot", "logical_and", "add", "multiply"),
    "ufunc": ("add", "multiply"),
    "unary": ("abs", "square", "isfinite", "logical_not", "conjugate"),
    "on_integers": ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "**", "==", "<", "/"),
    "of_integers": (
        "add",
        "subtract",
        "floor_divide",
        "maximum",
        "minimum",
        "bitwise_and",
        "power",
    ),
    "in_place": ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "**"),
    "k": ("1", "2", "3"),
    "one_of_two": ("0", "1"),
    "python": ("float", "int", "bool"),
    "spread": ("var", "std", "ptp", "nanmean", "nansum", "nanmax", "count_nonzero"),
    "shape": ("transpose", "ravel", "triu", "tril", "rot90", "fliplr", "flipud", "trace", "diag"),
    "of_vector": ("diag", "atleast_2d", "flatnonzero", "ediff1d", "cumsum", "copy", "trim_zeros"),
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
        for dtype in [*DTYPES.split(), "uint64"]:
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
        if kind in ("g", "h"):  # those with which integers in the code are as with no others
            dtypes = ["uint64"] if kind == "g" else ["uint8", "uint16", "uint32", "uint64"]
            return self.rng.choice(VIEWS["v"]).format(f"v_{self.rng.choice(dtypes)}")
        if kind == "f":
            return self.rng.choice(VIEWS["v"][:4]).format("v_float64")
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
