"""How compiled code computes quotients as NumPy does, and ``int`` and ``float`` as Python does.

Numba's ``np.floor_divide`` rounds before it rounds down; its quotients of arrays of short integers
are ``float32``, as is what it computes of ``float32`` and integers of any size, and its
``math.sqrt`` of ``float32``; its ``int`` of an unsigned number is unsigned. This module imports
Numba.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core import ir
from numba.core.errors import NumbaTypeError
from numba.np.numpy_support import as_dtype

from framefold.compilation._instead import (
    both_of_integers,
    both_quotients,
    finite,
    floor_quotient,
    is_among,
    other_or_one_none,
    power_of_integers,
    remainder_of_integers,
    rest_of_integers,
    same_or_both_none,
)
from framefold.compilation._readonly import KeepReadOnly

nt: Any = numba.types

#: Quotients that are rounded down, as functions.
QUOTIENTS = (np.floor_divide, np.divmod, operator.ifloordiv)
#: Functions that end the process where the smallest of signed integers is divided by -1, or take
#: signed integers for unsigned ones, and what to call for those.
REMAINDERS = {
    np.remainder: remainder_of_integers,
    np.divmod: both_of_integers,
    np.fmod: rest_of_integers,
}
#: Powers, which are floating-point numbers that are rounded to integers.
POWERS = (np.power, operator.ipow)
#: Products of arrays, which are no ufuncs, and how Numba calls their arguments.
PRODUCTS = dict.fromkeys((np.outer, np.kron, np.cross), ("a", "b", "out"))
#: NumPy 2.4 has the second one, older ones have the first, or both.
INTEGRALS = [vars(np)[name] for name in ("trapz", "trapezoid") if name in vars(np)]
PRODUCTS |= dict.fromkeys(INTEGRALS, ("y", "x", "dx"))
#: The functions of operators that Numba has for arrays of more types than NumPy.
UFUNCS = {operator.sub: np.subtract, operator.neg: np.negative, operator.pos: np.positive}
#: Operators that compare, and NumPy's functions: only these are exact for ``uint64`` with signed
#: integers, which the operators compare as floating-point numbers.
COMPARISONS = {
    operator.eq: np.equal,
    operator.ne: np.not_equal,
    operator.lt: np.less,
    operator.le: np.less_equal,
    operator.gt: np.greater,
    operator.ge: np.greater_equal,
    operator.contains: is_among,
}
#: The same where one may be None, which is equal to None alone, and to be compared an error.
WITH_NONE = COMPARISONS | {operator.eq: same_or_both_none, operator.ne: other_or_one_none}
#: What NumPy computes of differences of elements, which masks have none of.
PERCENTILES = (np.percentile, np.quantile, np.nanpercentile, np.nanquantile)
DTYPE_NAMES = "the name of a dtype has to be in the code, as in a.dtype == 'float32'"
NORMS = (
    "np.linalg.norm takes no text in compiled code: without it, it is that of 'fro'; that of 'nuc' "
    "is np.linalg.svd(a)[1].sum()"
)
#: Types of numbers that may be Python's.
OF_PYTHON_NUMBERS = {nt.int64: int, nt.float64: float, nt.complex128: complex}
#: What makes a number of the Python type of that name: ``int(a) - int(b)`` may be below 0.
PYTHON_NUMBERS = {int: np.int64, float: np.float64}
#: What is of double precision in Python: ``math.exp(100)`` is finite.
OF_PYTHON = frozenset((complex, *filter(callable, (*vars(math).values(), *vars(cmath).values()))))
#: Methods that make a number of Python's.
ITEMS = ("number.item", "array.item")
#: What makes integers of floating-point numbers, and refuses those that are none.
TO_INTEGERS = (int, round, math.floor, math.ceil, math.trunc)
#: What is called before ``int`` in their place: Numba calls the C library for them.
ROUNDED = {math.floor: np.floor, math.ceil: np.ceil, math.trunc: np.trunc}


def array_of(found: Any) -> Any:
    """The type of an array that there is, or may be; None if it is none."""
    found = found.type if isinstance(found, nt.Optional) else found
    return found if isinstance(found, nt.Array) else None


def dtype_of(found: Any) -> Any:
    """The type of a number, or of the elements of an array."""
    return getattr(array_of(found), "dtype", nt.unliteral(found))


def is_float(found: Any) -> bool:
    """Whether it is a floating-point number, or an array of them."""
    return isinstance(dtype_of(found), nt.Float)


def _are_signed(kinds: Any) -> bool:
    """Whether two are integers or truth values that are computed with as signed integers."""
    dtypes = [*map(dtype_of, kinds)]
    integers = all(isinstance(each, nt.Integer | nt.Boolean) for each in dtypes)
    return integers and np.promote_types(*map(as_dtype, dtypes)).kind == "i"


def in_place_of(function: Any, kinds: Any) -> Any:
    """What to call for a quotient or a power, of these operands; None if it is right."""
    if function in QUOTIENTS and any(map(is_float, kinds)):
        return both_quotients if function is np.divmod else floor_quotient
    if function in REMAINDERS and _are_signed(kinds):
        return REMAINDERS[function]
    dtypes = [*map(dtype_of, kinds)]
    if function in POWERS and all(isinstance(each, nt.Integer) for each in dtypes):
        exact = np.promote_types(*map(as_dtype, dtypes)).kind in "iu"
        return power_of_integers if exact else None
    return None


def _comparison(function: Any, kinds: Any) -> Any:
    """What to call to compare ``uint64`` with signed integers; None for all else."""
    numbers = kinds
    if function is operator.contains:
        container = nt.unliteral(kinds[0])
        if not isinstance(container, nt.UniTuple | nt.List):
            return None
        numbers = (container.dtype, kinds[1])
    may_be_none = any(isinstance(each, nt.Optional) for each in numbers)
    dtypes = [dtype_of(each.type if isinstance(each, nt.Optional) else each) for each in numbers]
    signed = any(isinstance(each, nt.Integer) and each.signed for each in dtypes)
    if not signed or nt.uint64 not in dtypes:
        return None
    return (WITH_NONE if may_be_none else COMPARISONS).get(function)


def _comparison_of_dtypes(function: Any, kinds: Any, loc: Any) -> bool | None:
    """Whether a dtype is one of those that texts name; None for all else."""
    found = [each for each in kinds if isinstance(each, nt.DType)]
    if function not in (operator.eq, operator.ne, operator.contains) or len(found) != 1:
        return None
    (other,) = (each for each in kinds if not isinstance(each, nt.DType))
    if isinstance(other, nt.Sequence | nt.ListType | nt.Set) and not isinstance(
        other, nt.BaseTuple
    ):
        names = [other.dtype]
    else:
        names = [*other] if isinstance(other, nt.BaseTuple) else [other]
    if nt.unicode_type not in map(nt.unliteral, names):
        return None
    if not all(isinstance(each, nt.StringLiteral) for each in names):
        raise NumbaTypeError(DTYPE_NAMES, loc=loc)
    # Not made dtypes here: NumPy takes no name that it does not know for an error.
    among = any(as_dtype(found[0].dtype) == each.literal_value for each in names)
    return among != (function is operator.ne)


def _is_short(found: Any) -> bool:
    """Whether it is an integer that ``float32`` can hold, or an array of them."""
    dtype = dtype_of(found)
    return dtype == nt.boolean or (isinstance(dtype, nt.Integer) and dtype.bitwidth <= 16)


def _is_long(found: Any) -> bool:
    """Whether it is an integer that ``float32`` cannot hold, or an array of them.

    A number of ``int64`` may be one of Python's, which is computed with in the other's type.
    """
    dtype = dtype_of(found)
    if not isinstance(dtype, nt.Integer) or not (array_of(found) or dtype != nt.int64):
        return False
    return bool(dtype.bitwidth > 16)


def _is_single(found: Any) -> bool:
    """Whether it is ``float32`` or ``complex64``, or an array of them."""
    return dtype_of(found) in (nt.float32, nt.complex64)


def _for_numpy(found: Any) -> Any:
    """What NumPy calls a type; of a number that may be one of Python's, its type there."""
    found = found.type if isinstance(found, nt.Optional) else found
    dtype = dtype_of(found)
    python = None if array_of(found) else OF_PYTHON_NUMBERS.get(dtype)
    return python or as_dtype(dtype)


def _is_item(found: Any) -> bool:
    """Whether it is an array without axes."""
    array = array_of(found)
    return array is not None and array.ndim == 0


def in_double(function: Any, kinds: Any) -> list[bool]:
    """Which operands, of functions of two, are to be ``float64`` for NumPy alone.

    They are integers with ``float32``, and short ones by short ones, where there are arrays.
    """
    mixed = function is not np.ldexp and any(map(_is_single, kinds))
    short = function in (np.divide, operator.truediv) and all(map(_is_short, kinds))
    arrays = any(map(array_of, kinds))
    return [arrays and (short or (mixed and _is_long(kind))) for kind in kinds]


class Arithmetic(KeepReadOnly):
    """Finds types, and has what to compute in the place of what is computed otherwise."""

    def refuse(self, state: Any, statement: Any) -> None:
        """Raise an error for what is not to be compiled."""
        super().refuse(state, statement)
        value = getattr(statement, "value", None)
        function, kinds = self._call(state, statement)
        if function is np.linalg.norm and nt.unicode_type in map(nt.unliteral, kinds):
            raise NumbaTypeError(NORMS, loc=statement.loc)
        if function in PERCENTILES and dtype_of(kinds[0]) == nt.boolean:
            function, kinds = np.subtract, (kinds[0], kinds[0])  # of which it is made there
        if isinstance(value, ir.Expr) and value.op in ("binop", "unary"):
            function = UFUNCS.get(value.fn)
            kinds = tuple(state.typemap[each.name] for each in value.list_vars())
        if isinstance(function, np.ufunc) and any(map(array_of, kinds)):
            dtypes = [*map(_for_numpy, kinds)]
            try:
                function.resolve_dtypes((*dtypes, *[None] * (function.nargs - len(dtypes))))
            except TypeError as error:
                raise NumbaTypeError(f"NumPy refuses it, too: {error}", loc=statement.loc) from None

    def _given(
        self, state: Any, call: Any, names: tuple[str, ...], new: Callable[[Any], Any]
    ) -> dict[str, Any]:
        """The arguments of a call by name; those of a method begin with its array."""
        given = list(call.args)
        if isinstance(state.typemap[call.func.name], nt.BoundFunction):
            given.insert(0, state.func_ir.get_definition(call.func).value)
        if call.vararg is not None:
            for index in range(len(state.typemap[call.vararg.name])):
                item = ir.Expr.static_getitem(call.vararg, index, None, call.loc)
                given.append(new(item))
        return dict(zip(names, given, strict=False)) | dict(call.kws)

    def _called_as(
        self, call: Any, function: Any, given: dict[str, Any], new: Callable[[Any], Any]
    ) -> Any:
        """A call of a function with other arguments, of which as many are given by name.

        Of the same types, Numba finds what it compiled for the call that there was.
        """
        name = new(ir.Global(function.__name__, function, call.loc))
        n_by_place = len(given) - len(call.kws)
        by_place = tuple(given.values())[:n_by_place]
        return ir.Expr.call(name, by_place, tuple(given.items())[n_by_place:], call.loc)

    def _binop(self, state: Any, value: Any, new: Callable[[Any], Any]) -> Any:
        """What to take in the place of an operator; None if it stays as it is."""
        kinds = [state.typemap[each.name] for each in (value.lhs, value.rhs)]
        if (known := _comparison_of_dtypes(value.fn, kinds, value.loc)) is not None:
            return ir.Const(known, value.loc)
        if function := _comparison(value.fn, kinds):
            name = new(ir.Global("compare", function, value.loc))
            return ir.Expr.call(name, (value.lhs, value.rhs), (), value.loc)
        # Of arrays with axes, Numba makes a loop with the operator for numbers.
        if value.fn is operator.floordiv and any(map(_is_item, kinds)):
            arrays = [each for each in map(array_of, kinds) if each]
            if any(map(is_float, kinds)) and all(map(_is_item, arrays)):
                operands = (value.lhs, value.rhs)
                return self._quotient(floor_quotient, operands, kinds, new, value.loc)
        wide = in_double(value.fn, kinds)
        if not any(wide):
            return None
        lhs, rhs = self._as_floats((value.lhs, value.rhs), wide, new)
        return ir.Expr.binop(value.fn, lhs, rhs, value.loc)

    def _as_floats(self, operands: Any, wide: list[bool], new: Callable[[Any], Any]) -> list[Any]:
        """Operands, those of them as ``float64`` for which ``wide`` says so."""
        made = list(operands)
        for index, each in enumerate(operands):
            if index < len(wide) and wide[index]:
                one = new(ir.Const(1.0, each.loc))
                made[index] = new(ir.Expr.binop(operator.mul, each, one, each.loc))
        return made

    def _call_in_double(
        self, state: Any, statement: Any, made: Any, new: Callable[[Any], Any]
    ) -> Any:
        """What to call in the place of a function of two operands, or of ``made``."""
        called, kinds = self._call(state, statement)
        value, names = statement.value, ("a", "b", "out", "other")
        if called in PRODUCTS and made is None and any(in_double(called, kinds[:2])):
            a, b, _ = PRODUCTS[called]
            named = self._given(state, value, PRODUCTS[called], new)
            # Both, as np.kron takes the dtype of the first.
            wide = in_double(called, kinds[:2]) if called in INTEGRALS else [True, True]
            named[a], named[b] = self._as_floats((named[a], named[b]), wide, new)
            return self._called_as(value, called, named, new)
        if called is np.kron and made is None and any(map(array_of, kinds[:2])):
            # Numba's is of the dtype of the first.
            first, second = (as_dtype(dtype_of(kind)) for kind in kinds[:2])
            both = np.promote_types(first, second)
            if both != first:
                named = self._given(state, value, PRODUCTS[called], new)
                dtype = new(ir.Global("dtype", both.type, value.loc))
                if array_of(kinds[0]):
                    method = new(ir.Expr.getattr(named["a"], "astype", value.loc))
                    made = ir.Expr.call(method, (dtype,), (), value.loc)
                else:
                    made = ir.Expr.call(dtype, (named["a"],), (), value.loc)
                named["a"] = new(made)
                return self._called_as(value, called, named, new)
        if not isinstance(called, np.ufunc) or called.nin != 2:
            return made
        if called in QUOTIENTS and any(map(is_float, kinds)):
            return made  # of which those below take care
        wide = in_double(called, kinds[:2])
        if not any(wide):
            return made
        given = made.args if made else tuple(self._given(state, value, names, new).values())
        return ir.Expr.call(value.func, self._as_floats(given, wide, new), (), statement.loc)

    def _sign(self, state: Any, statement: Any, made: Any, new: Callable[[Any], Any]) -> Any:
        """What to call in the place of ``np.sign`` of what is unsigned, or of ``made``.

        Numba takes the upper half of them for numbers below 0.
        """
        called, kinds = self._call(state, statement)
        dtype = dtype_of(kinds[0]) if called is np.sign else None
        if not isinstance(dtype, nt.Integer) or dtype.signed:
            return made
        value, loc = statement.value, statement.loc
        given = made.args if made else self._given(state, value, ("a", "out"), new).values()
        first, *outs = given
        number = new(ir.Global("number", as_dtype(dtype).type, loc))
        one = new(ir.Expr.call(number, (new(ir.Const(1, loc)),), (), loc))
        smaller = new(ir.Global("minimum", np.minimum, loc))
        return ir.Expr.call(smaller, (first, one, *outs), (), loc)

    def _python_number(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to call in the place of ``int`` and ``float``, and others that make integers."""
        called, kinds = self._call(state, statement)
        value, loc = statement.value, statement.loc
        checks = not state.flags.auto_parallel.enabled  # threads of Numba lose exceptions
        if checks and called in TO_INTEGERS and value.args and [*map(is_float, kinds)] == [True]:
            name = new(ir.Global(finite.__name__, finite, loc))
            number = new(ir.Expr.call(name, value.args, (), loc))
            if called not in ROUNDED:
                return ir.Expr.call(value.func, (number,), (), loc)
            name = new(ir.Global("rounded", ROUNDED[called], loc))
            number = new(ir.Expr.call(name, (number,), (), loc))
            return ir.Expr.call(new(ir.Global("int", int, loc)), (number,), (), loc)
        function = PYTHON_NUMBERS.get(called)
        if function is None or not kinds:
            return self._of_python(state, value, called, kinds, new)
        short = isinstance(kinds[0], nt.Integer) and kinds[0].bitwidth < 64
        if not (short if called is int else kinds[0] == nt.float32):
            return None
        name = new(ir.Global(function.__name__, function, loc))
        return ir.Expr.call(name, value.args, value.kws, loc, value.vararg)

    def _of_python(
        self, state: Any, value: Any, called: Any, kinds: Any, new: Callable[[Any], Any]
    ) -> Any:
        """What to take in the place of what is of Python's types; None if it stays as it is."""
        loc, single = value.loc, [*map(_is_single, kinds)]
        if called in OF_PYTHON and any(single):
            given = self._given(state, value, ("x", "y"), new).values()
            return ir.Expr.call(value.func, self._as_floats(tuple(given), single, new), (), loc)
        if called not in ITEMS:
            return None
        if single[0]:
            return ir.Expr.binop(operator.mul, new(value), new(ir.Const(1.0, loc)), loc)
        dtype = dtype_of(kinds[0])
        if isinstance(dtype, nt.Integer) and dtype.bitwidth < 64:
            return ir.Expr.call(new(ir.Global("int64", np.int64, loc)), (new(value),), (), loc)
        return None

    def _call_of_quotient(
        self, state: Any, statement: Any, made: Any, new: Callable[[Any], Any]
    ) -> Any:
        """What to call in the place of a quotient, remainder or power, or of ``made``."""
        called, kinds = self._call(state, statement)
        function = in_place_of(called, kinds[:2])
        if function is None:
            return made
        value, loc = statement.value, statement.loc
        names = ("a", "b", "out", "remainder")
        a, b, *outs = made.args if made else self._given(state, value, names, new).values()
        if called in (operator.ifloordiv, operator.ipow) and array_of(kinds[0]):
            outs = [a]
        made = self._quotient(function, (a, b), kinds, new, loc)
        if called is np.power and not any(map(array_of, kinds[:2])):
            # Of numbers, operators are of 64 bits, and functions as short as the numbers.
            both = np.promote_types(*(as_dtype(dtype_of(kind)) for kind in kinds[:2]))
            name = new(ir.Global("dtype", both.type, loc))
            made = ir.Expr.call(name, (new(made),), (), loc)
        if not outs:
            return made
        if called is not np.divmod:
            return self._copied(made, outs[0], new, loc)
        # Both are there before the first is written, as outputs may be parts of operands.
        both = new(made)
        parts = [new(ir.Expr.static_getitem(both, index, None, loc)) for index in range(2)]
        for index, out in enumerate(outs):
            parts[index] = new(self._copied(parts[index], out, new, loc))
        return ir.Expr.build_tuple(parts, loc)

    def _quotient(
        self, function: Any, operands: Any, kinds: Any, new: Callable[[Any], Any], loc: Any
    ) -> Any:
        """A call of a function of the operands, whose types are ``kinds``."""
        # Of arrays without axes, it would be what it is called in the place of.
        numbers = [
            new(ir.Expr.getitem(each, new(ir.Expr.build_tuple((), loc)), loc))
            if _is_item(kind)
            else each
            for each, kind in zip(operands, kinds, strict=False)
        ]
        numbers = self._as_floats(numbers, in_double(operator.floordiv, kinds[:2]), new)
        name = new(ir.Global(function.__name__, function, loc))
        return ir.Expr.call(name, tuple(numbers), (), loc)

    def _copied(self, value: Any, out: Any, new: Callable[[Any], Any], loc: Any) -> Any:
        """A value that is written into an output, as functions of NumPy's write into theirs."""
        value = value if isinstance(value, ir.Var) else new(value)
        return ir.Expr.call(new(ir.Global("positive", np.positive, loc)), (value, out), (), loc)
