"""How compiled code computes quotients as NumPy does, and ``int`` and ``float`` as Python does.

Numba's ``np.floor_divide`` rounds before it rounds down; its quotients of arrays of short integers
are ``float32``; its ``int`` of an unsigned number is unsigned. This module imports Numba.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core import ir

from framefold.compilation._instead import floor_quotient
from framefold.compilation._readonly import KeepReadOnly

nt: Any = numba.types

#: Quotients that are rounded down, as functions.
QUOTIENTS = (np.floor_divide, np.divmod, operator.ifloordiv)
#: What makes a number of the Python type of that name: ``int(a) - int(b)`` may be below 0.
PYTHON_NUMBERS = {int: np.int64, float: np.float64}


def array_of(found: Any) -> Any:
    """The type of an array that there is, or may be; None if it is none."""
    found = found.type if isinstance(found, nt.Optional) else found
    return found if isinstance(found, nt.Array) else None


def _dtype(found: Any) -> Any:
    """The type of a number, or of the elements of an array."""
    return getattr(array_of(found), "dtype", found)


def is_float(found: Any) -> bool:
    """Whether it is a floating-point number, or an array of them."""
    return isinstance(_dtype(found), nt.Float)


def _is_short(found: Any) -> bool:
    """Whether it is an integer that ``float32`` can hold, or an array of them."""
    dtype = _dtype(found)
    return dtype == nt.boolean or (isinstance(dtype, nt.Integer) and dtype.bitwidth <= 16)


def _is_item(found: Any) -> bool:
    """Whether it is an array without axes."""
    array = array_of(found)
    return array is not None and array.ndim == 0


class Arithmetic(KeepReadOnly):
    """Finds types, and has what to compute in the place of what is computed otherwise."""

    def _definition(self, function: Any, variable: Any) -> Any:
        """The one value of a variable; None if there are several, or none is known."""
        try:
            return function.get_definition(variable)
        except KeyError:
            return None

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

    def _binop(self, state: Any, value: Any, new: Callable[[Any], Any]) -> Any:
        """What to take in the place of an operator; None if it stays as it is."""
        kinds = [state.typemap[each.name] for each in (value.lhs, value.rhs)]
        # Of arrays with axes, Numba makes a loop with the operator for numbers.
        if value.fn is operator.floordiv and any(map(_is_item, kinds)):
            arrays = [each for each in map(array_of, kinds) if each]
            if any(map(is_float, kinds)) and all(map(_is_item, arrays)):
                return self._quotient((value.lhs, value.rhs), kinds, new, value.loc)
        if value.fn is operator.truediv and self._divides_short(kinds):
            lhs = self._as_float(value.lhs, new, value.loc)
            return ir.Expr.binop(value.fn, lhs, value.rhs, value.loc)
        return None

    def _divides_short(self, kinds: Any) -> bool:
        """Whether a quotient is one of arrays, and ``float64`` for NumPy alone."""
        return any(map(array_of, kinds)) and all(map(_is_short, kinds))

    def _as_float(self, variable: Any, new: Callable[[Any], Any], loc: Any) -> Any:
        return new(ir.Expr.binop(operator.mul, variable, new(ir.Const(1.0, loc)), loc))

    def _call_of_division(
        self, state: Any, statement: Any, made: Any, new: Callable[[Any], Any]
    ) -> Any:
        """The same for ``np.divide``, or for what is called in its place, ``made``."""
        called, kinds = self._call(state, statement)
        if called not in (np.divide, operator.truediv) or not self._divides_short(kinds[:2]):
            return made
        value, loc, names = statement.value, statement.loc, ("a", "b", "out")
        first, *others = made.args if made else self._given(state, value, names, new).values()
        return ir.Expr.call(value.func, (self._as_float(first, new, loc), *others), (), loc)

    def _python_number(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to call in the place of ``int`` and ``float``."""
        called, kinds = self._call(state, statement)
        function = PYTHON_NUMBERS.get(called)
        if function is None or not kinds:
            return None
        short = isinstance(kinds[0], nt.Integer) and kinds[0].bitwidth < 64
        if not (short if called is int else kinds[0] == nt.float32):
            return None
        name = new(ir.Global(function.__name__, function, statement.loc))
        value = statement.value
        return ir.Expr.call(name, value.args, value.kws, statement.loc, value.vararg)

    def _call_of_quotient(
        self, state: Any, statement: Any, made: Any, new: Callable[[Any], Any]
    ) -> Any:
        """What to call in the place of a quotient of floating-point numbers, or of ``made``."""
        called, kinds = self._call(state, statement)
        if called not in QUOTIENTS or not any(map(is_float, kinds)):
            return made
        value, loc = statement.value, statement.loc
        names = ("a", "b", "out", "remainder")
        a, b, *outs = made.args if made else self._given(state, value, names, new).values()
        if called is operator.ifloordiv and array_of(kinds[0]):
            outs = [a]
        quotient = self._quotient((a, b), kinds, new, loc)
        if called is not np.divmod:
            return self._copied(quotient, outs[0], new, loc) if outs else quotient
        remainder = new(ir.Global("remainder", np.remainder, loc))
        rest = new(ir.Expr.call(remainder, (a, b, *outs[1:]), (), loc))
        first = self._copied(quotient, outs[0], new, loc) if outs else quotient
        return ir.Expr.build_tuple([new(first), rest], loc)

    def _quotient(self, operands: Any, kinds: Any, new: Callable[[Any], Any], loc: Any) -> Any:
        function = new(ir.Global("floor_quotient", floor_quotient, loc))
        # Of arrays without axes, it would be what it is called in the place of.
        numbers = [
            new(ir.Expr.getitem(each, new(ir.Expr.build_tuple((), loc)), loc))
            if _is_item(kind)
            else each
            for each, kind in zip(operands, kinds, strict=False)
        ]
        return ir.Expr.call(function, tuple(numbers), (), loc)

    def _copied(self, value: Any, out: Any, new: Callable[[Any], Any], loc: Any) -> Any:
        """A value that is written into an output, as functions of NumPy's write into theirs."""
        function = new(ir.Global("positive", np.positive, loc))
        return ir.Expr.call(function, (new(value), out), (), loc)
