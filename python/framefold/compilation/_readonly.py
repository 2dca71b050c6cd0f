"""What compiled code gets to read stays as it is: frames, parameters, AUX data, arrays of modules.

They have a type of Numba's that is read-only. A few of Numba's functions write into such an array
all the same, or return it with a type that is not. This module imports Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numba
import numpy as np
from numba.core import ir
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import models
from numba.core.errors import NumbaTypeError
from numba.core.extending import register_model, typeof_impl
from numba.core.imputils import impl_ret_borrowed, lower_builtin
from numba.core.typed_passes import NopythonTypeInference
from numba.core.typing.templates import signature

from framefold.common import _foreign

nt: Any = numba.types

#: Functions that write into one of their arguments, and which that is, which Numba does not check.
WRITES_INTO = {np.fill_diagonal: 0, np.nan_to_num: 0, np.dot: 2, "array.itemset": 0}
#: Methods of functions of ``numba.vectorize`` that write anywhere, and read anywhere.
UNCHECKED = ("at", "reduceat")
#: Those that return an array itself where it has the layout that is asked for.
RETURNS_ITSELF = (np.ascontiguousarray, np.asfortranarray)


class NdIter(nt.NumpyNdIterType):  # type: ignore[misc]
    """The type of ``np.nditer``, whose elements can be written to as the arrays can."""

    @property
    def views(self) -> list[Any]:
        """The types of its elements."""
        read_only = (_is_read_only(array) for array in self.arrays)
        return [
            nt.Array(dtype, 0, "C", readonly=each)
            for dtype, each in zip(self.dtypes, read_only, strict=True)
        ]


register_model(NdIter)(models.NdIter)


def _is_read_only(found: Any) -> bool:
    return isinstance(found, nt.Array) and not found.mutable


class Same:
    """A function for compiled code that gives back its argument.

    Parameters
    ----------
    name
        Tells it from others.
    to
        Of the argument's type, the type that it is given back as, of the same data; may raise.
    """

    def __init__(self, name: str, to: Callable[[Any], Any]) -> None:
        self.name, self.to = name, to


class SameType(nt.Callable, nt.Dummy):  # type: ignore[misc]
    """The type of one."""

    def __init__(self, function: Same) -> None:
        self.to = function.to
        super().__init__(name=f"framefold.Same({function.name})")

    def get_call_type(self, context: Any, arguments: Any, named: Any) -> Any:
        """What comes back."""
        (found,) = arguments
        return signature(self.to(found), found)

    def get_call_signatures(self) -> Any:
        """None that would be known without arguments."""
        return (), False

    def get_impl_key(self, signature: Any) -> Any:
        """All of them have the same code."""
        return Same


register_model(SameType)(models.OpaqueModel)


@typeof_impl.register(Same)  # type: ignore[untyped-decorator]
def _type_of_same(function: Same, c: Any) -> Any:
    return SameType(function)


@lower_builtin(Same, nt.Any)  # type: ignore[untyped-decorator]
def _same(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return impl_ret_borrowed(context, builder, signature.return_type, arguments[0])


def as_type(to: Any) -> Same:
    """A function for compiled code that gives back its argument as that type."""
    return Same(str(to), lambda found: to)


def put(
    function: Any, scope: Any, body: list[Any], loc: Any, value: Any, name: str = "$framefold"
) -> Any:
    """A new variable that is assigned that value at the end of ``body``."""
    variable = scope.redefine(name, loc)
    body.append(ir.Assign(value, variable, loc))
    _foreign.define(function, variable.name, value)
    return variable


def definition(function: Any, variable: Any) -> Any:
    """The one value of a variable; None if there are several, or none is known."""
    try:
        return function.get_definition(variable)
    except KeyError:
        return None


@register_pass(mutates_CFG=True, analysis_only=False)
class KeepReadOnly(NopythonTypeInference):  # type: ignore[misc]
    """Finds types as Numba does, but what is part of a read-only array is read-only.

    What writes into such an array is refused.
    """

    _name = "framefold_keep_read_only"

    def run_pass(self, state: Any) -> bool:
        """Find the types; once more, if some have to be others."""
        declared = state.return_type
        super().run_pass(state)
        if self._correct(state):
            state.return_type = declared
            super().run_pass(state)
        for block in state.func_ir.blocks.values():
            for statement in block.body:
                self.refuse(state, statement)
                for target in self._written_to(state, statement):
                    # As Numba says it where it does check.
                    text = f"Cannot modify readonly array of type: {target}"
                    if _is_read_only(target):
                        raise NumbaTypeError(text, loc=statement.loc)
        return True

    def _correct(self, state: Any) -> bool:
        """Whether there were statements to change."""
        changed = False
        for block in state.func_ir.blocks.values():
            body: list[Any] = []
            for statement in block.body:
                new = partial(put, state.func_ir, block.scope, body, statement.loc)
                other = self.change(state, statement, new)
                if other is not None:
                    changed = True
                    if isinstance(other, ir.Assign):
                        _foreign.define(state.func_ir, other.target.name, other.value)
                body.append(statement if other is None else other)
            block.body = body
        return changed

    def change(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to put in the place of a statement; None if it stays as it is.

        Parameters
        ----------
        new
            Makes a variable of a value, before the statement.
        """
        if not isinstance(statement, ir.Assign):
            return None
        value = self._right(state, statement, new)
        return value and ir.Assign(value, statement.target, statement.loc)

    def _right(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to assign instead, if it is not what Numba would."""
        called, arguments = self._call(state, statement)
        found, value, loc = state.typemap[statement.target.name], statement.value, statement.loc
        if called in RETURNS_ITSELF and _is_read_only(arguments[0]):
            if arguments[0].layout == "A" and not value.vararg:
                # Only in the run is it known whether it would be copied. Then the result can be
                # written to, so it always is.
                array = value.args[0] if value.args else value.kws[0][1]
                method = new(ir.Expr.getattr(array, "copy", loc))
                return ir.Expr.call(value.func, (new(ir.Expr.call(method, (), (), loc)),), (), loc)
            if arguments[0].ndim > 1 and found.layout != arguments[0].layout != "A":
                return None  # copied
            to = found.copy(readonly=True)
        elif called is np.nditer and any(_is_read_only(array) for array in found.arrays):
            to = NdIter(found.arrays)
        else:
            return None
        function = new(ir.Global("as_type", as_type(to), loc))
        return ir.Expr.call(function, (new(value),), (), loc)

    def refuse(self, state: Any, statement: Any) -> None:
        """Raise an error for what is not to be compiled."""
        called, _ = self._call(state, statement)
        if not isinstance(called, tuple):  # a function's own method, and its name
            return
        if isinstance(called[0], nt.Function) and called[1] in UNCHECKED:
            text = f"Numba does not check the indices of ufunc.{called[1]}: write a loop instead"
            raise NumbaTypeError(text, loc=statement.loc)

    def _written_to(self, state: Any, statement: Any) -> Iterator[Any]:
        """The types of arrays that a statement writes into, and Numba does not look at."""
        if isinstance(statement, ir.SetItem | ir.StaticSetItem):
            target = state.typemap[statement.target.name]
            if isinstance(target, nt.NumpyFlatType):
                yield target.array_type
        called, arguments = self._call(state, statement)
        index = WRITES_INTO.get(called)
        if index is not None and index < len(arguments):
            array = arguments[index]
            if called is np.nan_to_num and self._keeps(state, statement.value, array):
                return
            yield array

    def _keeps(self, state: Any, call: Any, array: Any) -> bool:
        """Whether a call of ``np.nan_to_num`` copies, or there is nothing for it to replace."""
        if not isinstance(getattr(array, "dtype", None), nt.Float | nt.Complex):
            return True
        given = dict(call.kws).get("copy", call.args[1] if len(call.args) > 1 else None)
        if given is None:
            return call.vararg is None
        return getattr(state.typemap[given.name], "literal_value", None) is True

    def _call(self, state: Any, statement: Any) -> tuple[Any, tuple[Any, ...]]:
        """The function or method that a statement calls, and the types of its arguments."""
        value = getattr(statement, "value", None)
        if not isinstance(value, ir.Expr) or value.op != "call":
            return None, ()
        function = state.typemap[value.func.name]
        if isinstance(function, nt.BoundFunction):
            return function.typing_key, (function.this, *state.calltypes[value].args)
        if isinstance(function, nt.Function):
            return function.typing_key, state.calltypes[value].args
        return None, ()
