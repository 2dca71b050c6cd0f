"""What Numba computes with arrays without looking at their shapes, in compiled code with a look.

Its ``a += b`` and ``np.add(a, b, out)`` read behind the smaller array, and read what they have
written where both are parts of one array; its ``a.flat[i]`` takes any index. This module imports
Numba.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core import cgutils, ir
from numba.core.compiler_machinery import register_pass
from numba.core.extending import intrinsic
from numba.core.imputils import impl_ret_borrowed
from numba.np.arrayobj import extents_may_overlap, get_array_memory_extents, make_array
from numba.np.ufunc.dufunc import DUFunc

from framefold.compilation._readonly import KeepReadOnly
from framefold.compilation.marks import compiled

nt: Any = numba.types

SHAPES = "operands could not be broadcast together: an output has to have the shape of the result"
OVERLAP = "the operand is a part of what is written to; make a copy of it before"
OUTSIDE = "index is out of bounds"

#: As functions, ``a += b`` and the like.
IN_PLACE = (
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
    operator.iand,
    operator.ior,
    operator.ixor,
    operator.ilshift,
    operator.irshift,
)


def _array(found: Any) -> Any:
    """The type of an array that there is, or may be; None if it is none."""
    found = found.type if isinstance(found, nt.Optional) else found
    return found if isinstance(found, nt.Array) else None


@intrinsic
def fits(typing_context: Any, target: Any, operand: Any) -> Any:
    """An operand, which has to have the shape of what is written to, or to be spread over it."""
    target, operand = _array(target), _array(operand)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lengths, others = (
            cgutils.unpack_tuple(builder, make_array(kind)(context, builder, value).shape)
            if kind.ndim
            else []
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        bad = cgutils.false_bit if operand.ndim <= target.ndim else cgutils.true_bit
        for length, other in zip(reversed(lengths), reversed(others), strict=False):
            differs = builder.icmp_signed("!=", length, other)
            long = builder.icmp_signed("!=", other, other.type(1))
            bad = builder.or_(bad, builder.and_(differs, long))
        with builder.if_then(bad, likely=False):
            context.call_conv.return_user_exc(builder, ValueError, (SHAPES,))
        return impl_ret_borrowed(context, builder, operand, arguments[1])

    return operand(target, operand), codegen


def _overlaps(typing_context: Any, target: Any, operand: Any) -> Any:
    """Whether an operand may have elements of what is written to, at other places than there."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        extents, both = [], []
        for kind, value in zip(signature.args, arguments, strict=True):
            array = make_array(kind)(context, builder, value)
            shape = cgutils.unpack_tuple(builder, array.shape) if kind.ndim else []
            strides = cgutils.unpack_tuple(builder, array.strides) if kind.ndim else []
            extents += get_array_memory_extents(
                context, builder, kind, array, shape, strides, array.data
            )
            both.append([builder.ptrtoint(array.data, cgutils.intp_t), *shape, *strides])
        found = extents_may_overlap(context, builder, *extents)
        if target.dtype != operand.dtype or target.ndim != operand.ndim:
            return found
        differ = cgutils.false_bit
        for one, other in zip(*both, strict=True):
            differ = builder.or_(differ, builder.icmp_signed("!=", one, other))
        return builder.and_(found, differ)

    return nt.boolean(target, operand), codegen


overlap: Any = intrinsic(_overlaps)


@numba.njit  # type: ignore[untyped-decorator]
def apart(target: Any, operand: Any) -> Any:
    """An operand, or a copy of it where it may change while it is used, as in NumPy."""
    return operand.copy() if overlap(target, operand) else operand


@numba.njit  # type: ignore[untyped-decorator]
def kept(target: Any, operand: Any) -> Any:
    """An operand that is read-only: those that overlap are rare, and a copy needs an allocator."""
    if overlap(target, operand):
        raise ValueError(OVERLAP)
    return operand


def _flat_index(*, checked: bool) -> Any:
    @intrinsic
    def index_of(typing_context: Any, flat: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            struct = cgutils.create_struct_proxy(flat)(context, builder, value=arguments[0])
            size = make_array(flat.array_type)(context, builder, struct.array).nitems
            at = arguments[1]
            if getattr(index, "signed", True):
                below = builder.icmp_signed("<", at, at.type(0))
                at = builder.select(below, builder.add(at, size), at)
            if checked:
                with builder.if_then(builder.icmp_unsigned(">=", at, size), likely=False):
                    context.call_conv.return_user_exc(builder, IndexError, (OUTSIDE,))
            return at

        return nt.intp(flat, nt.intp), codegen

    return index_of


#: Counts negative indices of ``a.flat`` from the end, and refuses those outside or not.
FLAT_INDEX = {checked: _flat_index(checked=checked) for checked in (False, True)}


@compiled
def _outer(a: Any, b: Any, out: Any) -> Any:
    return np.multiply(np.ravel(a)[:, None], np.ravel(b), out)


@compiled
def _isposinf(x: Any, out: Any) -> Any:
    return np.logical_and(np.isinf(x), ~np.signbit(x), out)


@compiled
def _isneginf(x: Any, out: Any) -> Any:
    return np.logical_and(np.isinf(x), np.signbit(x), out)


#: NumPy's functions with an output that Numba writes in Python, and how many arguments that makes.
WITH_OUTPUT = {np.outer: (_outer, 3), np.isposinf: (_isposinf, 2), np.isneginf: (_isneginf, 2)}


@register_pass(mutates_CFG=True, analysis_only=False)
class CheckArrays(KeepReadOnly):
    """Finds types, keeps what is read-only so, and has shapes and indices checked."""

    _name = "framefold_check_arrays"

    def checks_shapes(self, state: Any) -> bool:
        """Whether shapes are checked, and not only what overlaps."""
        return bool(state.flags.boundscheck)

    def change(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to put in the place of a statement; None if it stays as it is."""
        if (changed := super().change(state, statement, new)) is not None:
            return changed
        value, loc = getattr(statement, "value", None), statement.loc
        if isinstance(statement, ir.SetItem | ir.StaticSetItem):
            index = self._flat_index(state, statement.target, statement, new)
            return index and ir.SetItem(statement.target, index, value, loc)
        if not isinstance(value, ir.Expr) or not isinstance(statement, ir.Assign):
            return None
        made = None
        if value.op in ("getitem", "static_getitem"):
            index = self._flat_index(state, value.value, value, new)
            made = index and ir.Expr.getitem(value.value, index, loc)
        elif value.op == "inplace_binop":
            given = [value.rhs, value.lhs]
            kinds = [state.typemap[each.name] for each in given]
            rhs, lhs = self._fitting(state, given, kinds, 1, new)
            if rhs is not value.rhs:
                made = ir.Expr.inplace_binop(value.fn, value.immutable_fn, lhs, rhs, loc)
        elif value.op == "call":
            made = self._call_with_output(state, statement, new)
        return made and ir.Assign(made, statement.target, loc)

    def _call_with_output(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to call in the place of a function that is given an output."""
        value, loc = statement.value, statement.loc
        called, kinds = self._call(state, statement)
        if called in WITH_OUTPUT:
            function, n_arguments = WITH_OUTPUT[called]
            if len(kinds) < n_arguments or not self.checks_shapes(state) or not _array(kinds[-1]):
                return None
            other = new(ir.Global(function.__name__, function, loc))
            return ir.Expr.call(other, value.args, value.kws, loc, value.vararg)
        in_place = called in IN_PLACE
        if not in_place and not isinstance(called, np.ufunc | DUFunc):
            return None
        n_in = 1 if in_place else called.nin
        if len(kinds) <= n_in:
            return None
        given = list(value.args)
        for index in range(len(kinds) - len(given)):
            given.append(new(ir.Expr.static_getitem(value.vararg, index, None, loc)))
        step = -1 if in_place else 1  # outputs are last
        made = self._fitting(state, given[::step], kinds[::step], n_in, new)[::step]
        return None if made == given else ir.Expr.call(value.func, made, (), loc)

    def _fitting(
        self, state: Any, given: list[Any], kinds: Any, n_in: int, new: Callable[[Any], Any]
    ) -> list[Any]:
        """Operands and outputs, ``n_in`` of them operands, with those replaced that are checked."""
        made = list(given)
        arrays = [_array(kind) for kind in kinds]
        for out in range(n_in, len(given)):
            for index, array in enumerate(arrays):
                if index == out or not array or not arrays[out]:
                    continue
                functions = [fits] if self.checks_shapes(state) else []
                if index < n_in and not self._is_new(state, given[index]):
                    # Of what is read-only, this alone may be a view of what is not.
                    rare = array.layout == "A"
                    functions += [apart] if array.mutable else [kept] if rare else []
                for function in functions:
                    loc = given[index].loc
                    name = new(ir.Global(function.__name__, function, loc))
                    made[index] = new(ir.Expr.call(name, (given[out], made[index]), (), loc))
        return made

    def _is_new(self, state: Any, variable: Any) -> bool:
        """Whether an array was made by an operator, so that it is part of no other."""
        try:
            found = state.func_ir.get_definition(variable)
        except KeyError:
            return False
        return isinstance(found, ir.Expr) and found.op in ("binop", "unary")

    def _flat_index(self, state: Any, array: Any, access: Any, new: Callable[[Any], Any]) -> Any:
        """What to take for the index of ``a.flat[…]``; None for what is something else."""
        if not isinstance(state.typemap[array.name], nt.NumpyFlatType):
            return None
        index, loc = access.index, access.loc
        if not isinstance(index, ir.Var):
            index = new(ir.Const(index, loc))
        function = FLAT_INDEX[bool(state.flags.boundscheck)]
        name = new(ir.Global("flat_index", function, loc))
        return new(ir.Expr.call(name, (array, index), (), loc))


@register_pass(mutates_CFG=True, analysis_only=False)
class CheckHelpers(CheckArrays):
    """The same for functions of ``numba.njit``, which Numba checks indices of only on demand."""

    _name = "framefold_check_helpers"

    def checks_shapes(self, state: Any) -> bool:
        """Always."""
        return True
