"""Python's numbers and types in compiled code, where NumPy takes them as those of an array.

To Numba, each integer in the code is one of ``int64``, of which ``uint64`` arrays make ``float64``,
and arrays of shorter unsigned ones take none in place; and ``float`` and the like are functions,
and no dtypes. This module imports Numba.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numba
import numpy as np
from numba.core import ir
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.datamodel import models
from numba.core.errors import NumbaTypeError
from numba.core.extending import register_model, typeof_impl
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import signature

from framefold.common import _foreign
from framefold.compilation._arithmetic import array_of
from framefold.compilation._readonly import definition, put

nt: Any = numba.types

#: What NumPy takes Python's types for.
DTYPES = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}
#: Methods of arrays that take a dtype first.
BY_DTYPE = ("astype", "view")
#: Functions of NumPy's of two operands of one type, which are the last ones.
OF_TWO = {name for name, each in vars(np).items() if isinstance(each, np.ufunc) and each.nin == 2}
OF_TWO = OF_TWO - {"ldexp"} | {"where"}
#: Of integers in the code, they give others.
OF_INTEGERS = (operator.add, operator.sub, operator.mul)
SHIFTS = (operator.ilshift, operator.irshift)


class Fitting:
    """A function for compiled code that gives back an integer, of the dtype that NumPy takes it as.

    Parameters
    ----------
    value
        The integer.
    in_place
        Whether it is beside an array that stays of its dtype.
    """

    def __init__(self, value: int, *, in_place: bool, shifts: bool = False) -> None:
        self.value, self.in_place, self.shifts = value, in_place, shifts

    def type_beside(self, other: Any, number: Any) -> Any:
        """The type of the integer beside something of another type."""
        dtype = getattr(array_of(other), "dtype", None)
        if not isinstance(dtype, nt.Integer):
            return number
        if self.in_place and not dtype.minval <= self.value <= dtype.maxval:
            text = f"NumPy refuses it, too: the array stays {dtype}, which has no {self.value}"
            raise NumbaTypeError(text)
        if dtype.signed:
            return number
        if self.in_place and self.shifts and self.value >= dtype.bitwidth:
            text = f"shifted by {self.value} bits, nothing is left of {dtype}: write a[:] = 0"
            raise NumbaTypeError(text)
        if not (self.in_place or dtype == nt.uint64):
            return number  # of others, compiled code has no dtype that integers do not fit
        return dtype if 0 <= self.value <= dtype.maxval else number


class FittingType(nt.Callable, nt.Dummy):  # type: ignore[misc]
    """The type of one."""

    def __init__(self, function: Fitting) -> None:
        self.function = function
        super().__init__(
            name=f"framefold.Fitting({function.value}, {function.in_place}, {function.shifts})"
        )

    def get_call_type(self, context: Any, arguments: Any, named: Any) -> Any:
        """What comes back."""
        return signature(self.function.type_beside(*arguments), *arguments)

    def get_call_signatures(self) -> Any:
        """None that would be known without arguments."""
        return (), False

    def get_impl_key(self, signature: Any) -> Any:
        """All of them have the same code."""
        return Fitting


register_model(FittingType)(models.OpaqueModel)


@typeof_impl.register(Fitting)  # type: ignore[untyped-decorator]
def _type_of_fitting(function: Fitting, c: Any) -> Any:
    return FittingType(function)


@lower_builtin(Fitting, nt.Any, nt.Any)  # type: ignore[untyped-decorator]
def _fitting(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.cast(builder, arguments[1], signature.args[1], signature.return_type)


@register_pass(mutates_CFG=False, analysis_only=False)
class AddTypes(FunctionPass):  # type: ignore[misc]
    """Has integers in the code take the dtypes of what is beside them, and types be dtypes.

    It is before types are found, by Numba for itself, too; `settle` is to be called after that.
    """

    _name = "framefold_add_types"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Put in calls and NumPy's types."""
        function = state.func_ir
        for block in function.blocks.values():
            body: list[Any] = []
            for statement in block.body:
                value = getattr(statement, "value", None)
                if isinstance(statement, ir.Assign) and isinstance(value, ir.Expr):
                    new = partial(put, function, block.scope, body, statement.loc)
                    if value.op in ("binop", "inplace_binop"):
                        in_place = value.op == "inplace_binop"
                        operands = [value.lhs, value.rhs]
                        made = _beside(
                            function, operands, new, in_place=in_place, shifts=value.fn in SHIFTS
                        )
                        value.lhs, value.rhs = made
                    elif value.op == "call":
                        _change_call(function, value, new)
                body.append(statement)
            block.body = body
        return True


def _change_call(function: Any, call: Any, new: Any) -> None:
    called = definition(function, call.func)
    is_method = isinstance(called, ir.Expr) and called.op == "getattr"
    of_numpy, name = is_of_numpy(function, called), called.attr if is_method else ""
    args = list(call.args)
    if of_numpy and name in OF_TWO:
        two = slice(1, 3) if name == "where" else slice(2)
        args[two] = _beside(function, args[two], new, in_place=False)
    n_types = len(args) if of_numpy else int(name in BY_DTYPE)
    args[:n_types] = [_dtype(function, each, new) for each in args[:n_types]]
    # Of the same kind: Numba itself adds to them.
    call.args = type(call.args)(args)
    call.kws = type(call.kws)(
        (key, _dtype(function, each, new) if key == "dtype" else each) for key, each in call.kws
    )


def is_of_numpy(function: Any, value: Any) -> bool:
    """Whether a value is an attribute of NumPy, or of ``self.xp``."""
    if not isinstance(value, ir.Expr) or value.op != "getattr":
        return False
    owner = definition(function, value.value)
    if isinstance(owner, ir.Expr):
        return bool(owner.op == "getattr" and owner.attr == "xp")
    return getattr(owner, "value", None) is np


def _dtype(function: Any, variable: Any, new: Any) -> Any:
    """A variable, or one of NumPy's types if it is one of Python's."""
    found = definition(function, variable)
    value = found.value if isinstance(found, ir.Global | ir.FreeVar) else None
    made = next((to for of, to in DTYPES.items() if value is of), None)
    return variable if made is None else new(ir.Global(made.__name__, made, variable.loc))


def _beside(
    function: Any, operands: Any, new: Any, *, in_place: bool, shifts: bool = False
) -> list[Any]:
    """Two operands; if one is an integer in the code, a call of that with the other."""
    made = list(operands)
    numbers = [_integer(function, each) for each in operands]
    if len(numbers) != 2 or numbers.count(None) != 1 or (in_place and numbers[1] is None):
        return made
    at = int(numbers[0] is None)
    number, other, loc = operands[at], operands[1 - at], operands[at].loc
    fitting = new(
        ir.Global("fitting", Fitting(numbers[at] or 0, in_place=in_place, shifts=shifts), loc)
    )
    made[at] = new(ir.Expr.call(fitting, (other, number), (), loc))
    return made


def _integer(function: Any, variable: Any) -> int | None:
    """The integer of Python's that a variable is in all runs; None for all else."""
    found = definition(function, variable)
    if isinstance(found, ir.Expr) and found.op == "binop" and found.fn in OF_INTEGERS:
        two = _integer(function, found.lhs), _integer(function, found.rhs)
        return None if None in two else found.fn(*two)
    value = found.value if isinstance(found, ir.Const | ir.Global | ir.FreeVar) else None
    return value if type(value) is int else None


def settle(state: Any) -> None:
    """Leave out calls that changed no type, so that the numbers are constants to Numba again."""
    for block in state.func_ir.blocks.values():
        for at, statement in enumerate(block.body):
            value = getattr(statement, "value", None)
            if not isinstance(value, ir.Expr) or value.op != "call":
                continue
            if not isinstance(state.typemap[value.func.name], FittingType):
                continue
            number = value.args[1]
            if state.typemap[statement.target.name] == state.typemap[number.name]:
                same = definition(state.func_ir, number)
                same = number if isinstance(same, ir.Expr) else same
                block.body[at] = ir.Assign(same, statement.target, statement.loc)
                _foreign.define(state.func_ir, statement.target.name, same)
