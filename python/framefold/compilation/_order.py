"""Operators with arrays are computed before what stands behind them writes into the arrays.

Numba computes them at their use, with other operators in one loop: ``(a + 1) * change(a)``, where
``change`` writes into ``a``, would add to what was written. This module imports Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
from numba.core import ir
from numba.np.ufunc.dufunc import DUFunc

from framefold.compilation._arithmetic import Arithmetic, array_of
from framefold.compilation._literals import FittingType
from framefold.compilation.names import LIBRARIES, home

nt: Any = numba.types

#: Packages whose functions write into no array but an output; what is written in C may have none.
HOMES = ("", "None", "builtins", "_operator", "math", "cmath", *LIBRARIES)


def _is_own(kind: Any) -> bool:
    """Whether it is the type of a function or a method of the user's, or of what runs one."""
    if isinstance(kind, nt.BoundFunction):
        return not isinstance(kind.this, nt.Array)
    if type(kind) is nt.Function:
        # Those of `numba.vectorize` write into an output alone.
        return not isinstance(kind.typing_key, DUFunc) and home(kind.typing_key) not in HOMES
    if isinstance(kind, nt.NumberClass | nt.NamedTupleClass | nt.ExceptionClass | FittingType):
        return False
    return isinstance(kind, nt.Callable | nt.FunctionType | nt.RecursiveCall | nt.Generator)


class InOrder(Arithmetic):
    """Finds types, and has each operator with arrays computed before they are written into."""

    _early: list[Any]

    def has_output(self, called: Any, kinds: Any) -> bool:
        """Whether a function of a library is given an array to write its result into."""
        raise NotImplementedError

    def _correct(self, state: Any) -> bool:
        """Whether there were statements to change."""
        blocks = state.func_ir.blocks.values()
        self._early = [each for block in blocks for each in self._before_writes(state, block)]
        return super()._correct(state)

    def change(self, state: Any, statement: Any, new: Callable[..., Any]) -> Any:
        """What to put in the place of a statement; None if it stays as it is."""
        changed = self.changed(state, statement, new)
        if any(statement is each for each in self._early):
            # Of a name as the user's are, Numba computes the value where it stands.
            value = new((changed or statement).value, "framefold")
            return ir.Assign(value, statement.target, statement.loc)
        return changed

    def changed(self, state: Any, statement: Any, new: Callable[..., Any]) -> Any:
        """The same, of what is computed in its place."""
        return super().change(state, statement, new)

    def _before_writes(self, state: Any, block: Any) -> Iterator[Any]:
        """Operators with arrays that may be written into before the values are used."""
        waiting: dict[str, Any] = {}
        for statement in block.body:
            for each in statement.list_vars():
                waiting.pop(each.name, None)
            if self._may_write(state, statement):
                yield from waiting.values()
                waiting.clear()
            elif self._may_wait(state, statement):
                waiting[statement.target.name] = statement

    def _may_wait(self, state: Any, statement: Any) -> bool:
        """Whether it is an operator, or the like, with arrays that can be written into."""
        value = getattr(statement, "value", None)
        if not isinstance(statement, ir.Assign) or not isinstance(value, ir.Expr):
            return False
        if value.op not in ("binop", "unary"):
            called, _ = self._call(state, statement)
            if not isinstance(called, np.ufunc | DUFunc):
                return False
        arrays = (array_of(state.typemap[each.name]) for each in value.list_vars())
        # Of what is read-only, what has this layout may be a view of what is not.
        return any(each and (each.mutable or each.layout == "A") for each in arrays)

    def _may_write(self, state: Any, statement: Any) -> bool:
        """Whether a statement may write into an array: all but those known not to."""
        if not isinstance(statement, ir.Assign):
            return not isinstance(statement, ir.Del)
        value = statement.value
        if not isinstance(value, ir.Expr):
            return False
        if value.op == "inplace_binop":
            return array_of(state.typemap[value.lhs.name]) is not None
        if value.op != "call":
            return False
        called, kinds = self._call(state, statement)
        return (
            any(map(_is_own, (state.typemap[value.func.name], *state.calltypes[value].args)))
            or state.typemap[statement.target.name] == nt.none
            or self.has_output(called, kinds)
            or any(self._written_to(state, statement))
        )
