"""What Numba computes with arrays without looking at their shapes, in compiled code with a look.

Its ``a += b`` and ``np.add(a, b, out)`` read behind the smaller array, and read what they have
written where both are parts of one array, as its ``a[0, 1:] = b`` does; its ``np.take`` and the
like take any index along an axis; its ``np.median`` sorts NaN among the numbers, and its
``np.isclose`` of arrays writes behind its result, and of unsigned numbers has differences that
wrap; its ``np.floor_divide`` rounds before it rounds down, its ``np.clip`` of integers rounds
bounds, and with arrays as bounds writes behind its result; quotients of arrays of short integers
are ``float32``, and sums of many numbers are rounded to it one by one. This module imports Numba.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
from numba.core import cgutils, ir
from numba.core.compiler_machinery import register_pass
from numba.core.errors import NumbaTypeError
from numba.core.extending import intrinsic
from numba.core.imputils import impl_ret_borrowed
from numba.np.arrayobj import extents_may_overlap, get_array_memory_extents, make_array
from numba.np.numpy_support import as_dtype
from numba.np.ufunc.dufunc import DUFunc

from framefold.common import _foreign
from framefold.compilation._arithmetic import array_of, dtype_of, in_double, in_place_of, is_float
from framefold.compilation._indexing import Indexing, index_variable, is_mask, is_slice, parts_of
from framefold.compilation._instead import (
    NAMES,
    REPLACED,
    WITH_OUTPUT,
    floats,
    in_order,
    inside,
    integers,
    nan_if_any,
    several,
    square,
)
from framefold.compilation._literals import is_of_numpy, settle
from framefold.compilation._lowering import HELPER
from framefold.compilation._readonly import definition
from framefold.compilation._sums import OF_MANY, OF_NOTHING, SINGLE, function_for

nt: Any = numba.types

SHAPES = "operands could not be broadcast together: an output has to have the shape of the result"
OVERLAP = "the operand is a part of what is written to; make a copy of it before"
AXES = "along an axis, np.take takes indices of one axis in compiled code: pass indices.ravel()"

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


@intrinsic
def fits(typing_context: Any, target: Any, operand: Any) -> Any:
    """An operand, which has to have the shape of what is written to, or to be spread over it."""
    target, operand = array_of(target), array_of(operand)

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


def _shared(typing_context: Any, target: Any, operand: Any) -> Any:
    """Whether an operand may have elements of what is written to."""
    return _shares(target, operand, in_place_too=True)


def _overlaps(typing_context: Any, target: Any, operand: Any) -> Any:
    """The same, but not where all of them are at the same places."""
    return _shares(target, operand, in_place_too=False)


def _shares(target: Any, operand: Any, *, in_place_too: bool) -> Any:
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
        if in_place_too or target.dtype != operand.dtype or target.ndim != operand.ndim:
            return found
        differ = cgutils.false_bit
        for one, other in zip(*both, strict=True):
            differ = builder.or_(differ, builder.icmp_signed("!=", one, other))
        return builder.and_(found, differ)

    return nt.boolean(target, operand), codegen


shared: Any = intrinsic(_shared)
overlap: Any = intrinsic(_overlaps)


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def apart(target: Any, operand: Any) -> Any:
    """An operand, or a copy of it where it may change while it is used, as in NumPy."""
    return operand.copy() if overlap(target, operand) else operand


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def separate(target: Any, operand: Any) -> Any:
    """The same for what computes an element of those at other places, too."""
    return operand.copy() if shared(target, operand) else operand


@numba.njit(**HELPER)  # type: ignore[untyped-decorator]
def kept(target: Any, operand: Any) -> Any:
    """An operand that is read-only: those that overlap are rare, and a copy needs an allocator."""
    if overlap(target, operand):
        raise ValueError(OVERLAP)
    return operand


#: NumPy's functions that take indices, and how Numba calls their arguments: what is indexed, the
#: indices, and the axis.
BY_INDEX = {
    np.take: ("a", "indices", "axis"),
    np.take_along_axis: ("arr", "indices", "axis"),
    np.delete: ("arr", "obj"),
}
#: Those with an output, which is last, that look at shapes but not at what overlaps.
BY_OUTPUT = {
    np.dot: ("a", "b", "out"),
    np.round: ("a", "decimals", "out"),
    np.around: ("a", "decimals", "out"),
    np.clip: ("a", "a_min", "a_max", "out"),
}
#: How Numba calls the arguments of functions, which of them is not looked at where it is of a type,
#: and what does.
UNSEEN: dict[Any, Any] = {
    np.linalg.solve: (("a", "b"), 0, nt.Array, square),
    np.linalg.norm: (("x", "ord"), 0, nt.Array, in_order),
}
UNSEEN |= dict.fromkeys(
    (np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit),
    (("ary", "indices_or_sections", "axis"), 1, nt.Integer, several),
)
#: Methods that are such functions.
METHODS = {(nt.Array, "take"): np.take, (nt.Array, "clip"): np.clip}
METHODS |= {(nt.Array, each.__name__): each for each in (np.sum, np.mean, np.var, np.std)}


def _may_share(kind: Any) -> bool:
    """Whether what is of a type may be a view of an array that is written to."""
    # Of what is read-only, this layout alone may be a view of what is not.
    return isinstance(kind, nt.Array) and kind.ndim > 0 and (kind.mutable or kind.layout == "A")


def _is_row_in_order(array: Any, parts: Any, value: Any) -> bool:
    """Whether it is ``a[i] = b`` with rows that are contiguous, which Numba does right.

    It copies those that the row's first element is in, and from all others it reads an element
    before it writes there.
    """
    return (
        (array.ndim, array.layout) == (2, "C")
        and (len(parts) == 1 and isinstance(parts[0], nt.Integer))
        and isinstance(value, nt.Array)
        and (value.ndim, value.layout, value.dtype) == (1, "C", array.dtype)
    )


@register_pass(mutates_CFG=True, analysis_only=False)
class CheckArrays(Indexing):
    """Finds types, keeps what is read-only so, and has shapes and indices checked."""

    _name = "framefold_check_arrays"

    def run_pass(self, state: Any) -> bool:
        """Find the types, of other functions where those of NumPy's are replaced.

        This is before types are found, as what Numba's functions return is of other types.
        """
        for block in state.func_ir.blocks.values():
            for index, statement in enumerate(block.body):
                if isinstance(statement, ir.Assign):
                    other = self._other(state.func_ir, statement.value)
                    if other is not None:
                        loc = statement.loc
                        value = ir.Global(other.__name__, other, loc)
                        block.body[index] = ir.Assign(value, statement.target, loc)
                        _foreign.define(state.func_ir, statement.target.name, value)
        super().run_pass(state)
        settle(state)
        return True

    def _other(self, function: Any, value: Any) -> Any:
        """What to take for a function of NumPy's, also of ``self.xp``; None for all else."""
        if isinstance(value, ir.Global | ir.FreeVar):
            found = value.value
        elif is_of_numpy(function, value) and value.attr in NAMES:
            found = getattr(np, value.attr)
        else:
            return None
        return next((other for this, other in REPLACED.items() if this is found), None)

    def has_output(self, called: Any, kinds: Any) -> bool:
        """Whether a function of a library is given an array to write its result into."""
        function = METHODS.get(called, called)
        if function in IN_PLACE:
            return array_of(kinds[0]) is not None
        if isinstance(function, np.ufunc | DUFunc):
            n_arguments = function.nin + 1
        else:
            n_arguments = WITH_OUTPUT.get(function, (None, len(BY_OUTPUT.get(function, ()))))[1]
        return 0 < n_arguments <= len(kinds) and array_of(kinds[-1]) is not None

    def checks_shapes(self, state: Any) -> bool:
        """Whether shapes are checked, and not only what overlaps."""
        return bool(state.flags.boundscheck)

    def changed(self, state: Any, statement: Any, new: Callable[..., Any]) -> Any:
        """What to put in the place of a statement; None if it stays as it is."""
        if (changed := super().changed(state, statement, new)) is not None:
            return changed
        value, loc = getattr(statement, "value", None), statement.loc
        if isinstance(statement, ir.SetItem | ir.StaticSetItem):
            return self._assigned(state, statement, new)
        if not isinstance(value, ir.Expr) or not isinstance(statement, ir.Assign):
            return None
        made = None
        if value.op in ("getitem", "static_getitem"):
            index = self._index(state, value.value, value, new)
            made = index and ir.Expr.getitem(value.value, index, loc)
        elif value.op == "inplace_binop":
            given = [value.rhs, value.lhs]
            kinds = [state.typemap[each.name] for each in given]
            rhs, lhs = self._fitting(state, given, kinds, 1, new)
            function = in_place_of(value.fn, kinds[::-1]) if array_of(kinds[1]) else None
            if function is not None:
                quotient = self._quotient(function, (lhs, rhs), kinds[::-1], new, loc)
                return ir.Assign(self._copied(quotient, lhs, new, loc), statement.target, loc)
            (rhs,) = self._as_floats((rhs,), in_double(value.fn, kinds), new)
            if rhs is not value.rhs:
                made = ir.Expr.inplace_binop(value.fn, value.immutable_fn, lhs, rhs, loc)
        elif value.op == "binop":
            made = self._binop(state, value, new)
        elif value.op == "call":
            made = self._python_number(state, statement, new)
            made = made or self._copy_of_integers(state, statement, new)
            made = made or self._median(state, statement, new)
            made = made or self._of_many(state, statement, new)
            made = made or self._seen(state, statement, new)
            made = made or self._clip(state, statement, new)
            made = made or self._call_by_index(state, statement, new)
            made = made or self._call_by_output(state, statement, new)
            made = made or self._call_with_output(state, statement, new)
            made = self._call_in_double(state, statement, made, new)
            made = self._sign(state, statement, made, new)
            made = self._call_of_quotient(state, statement, made, new)
        return made and ir.Assign(made, statement.target, loc)

    def _assigned(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to put in the place of ``a[i] = b``; None if it stays as it is."""
        target, value, loc = statement.target, statement.value, statement.loc
        index = self._index(state, target, statement, new)
        array, given = state.typemap[target.name], index_variable(statement)
        # Of slices alone, Numba finds what they overlap. Of others, it leaves out some of the axes.
        parts = () if given is None else parts_of(state.typemap[given.name])
        if isinstance(array, nt.Array) and not (parts and all(map(is_slice, parts))):
            in_order = _is_row_in_order(array, parts, state.typemap[value.name])
            if not in_order and not self._is_in_place(state, statement):
                value = self._separate(state, target, value, loc, new)
            # NumPy, too, reads a mask of all elements while it writes.
            if given is not None and not (array.ndim == 1 and is_mask(parts[0])):
                used = given if index is None else index
                own = self._separate_index(target, used, state.typemap[given.name], loc, new)
                index = index if own is used else own
        if index is not None:
            return ir.SetItem(target, index, value, loc)
        if value is statement.value:
            return None
        if isinstance(statement, ir.SetItem):
            return ir.SetItem(target, given, value, loc)
        return ir.StaticSetItem(target, statement.index, given, value, loc)

    def _is_in_place(self, state: Any, statement: Any) -> bool:
        """Whether it is the end of ``a[i] += b``, which is there already."""
        known = partial(definition, state.func_ir)
        made = known(statement.value)
        part: Any = known(made.lhs) if getattr(made, "op", "") == "inplace_binop" else None
        if getattr(part, "op", "") not in ("getitem", "static_getitem"):
            return False
        same = (part.value, statement.target), (index_variable(part), index_variable(statement))
        return all(None not in two and known(two[0]) is known(two[1]) is not None for two in same)

    def _separate(
        self, state: Any, target: Any, value: Any, loc: Any, new: Callable[[Any], Any]
    ) -> Any:
        """A value, or a copy where it is an array that shares memory with what is written to."""
        if not _may_share(state.typemap[value.name]) or self._is_new(state, value):
            return value
        return self._called(separate, (target, value), loc, new)

    def _separate_index(
        self, target: Any, index: Any, kinds: Any, loc: Any, new: Callable[[Any], Any]
    ) -> Any:
        """An index of these types, whose parts share no memory with what is written to."""
        if not any(map(_may_share, parts_of(kinds))):
            return index
        if not isinstance(kinds, nt.BaseTuple):
            return self._called(separate, (target, index), loc, new)
        made = []
        for at, kind in enumerate(kinds):
            part = new(ir.Expr.static_getitem(index, at, None, loc))
            if _may_share(kind):
                part = self._called(separate, (target, part), loc, new)
            made.append(part)
        return new(ir.Expr.build_tuple(made, loc))

    def _median(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to take in the place of a median of numbers that may be NaN."""
        value, loc = statement.value, statement.loc
        called, kinds = self._call(state, statement)
        if called is not np.median or not isinstance(array_of(kinds[0]).dtype, nt.Float):
            return None
        array = self._given(state, value, ("a",), new)["a"]
        check = new(ir.Global("nan_if_any", nan_if_any, loc))
        return ir.Expr.call(check, (array, new(value)), (), loc)

    def _of_many(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to call for sums and the like in single precision."""
        value, loc = statement.value, statement.loc
        called, kinds = self._call(state, statement)
        called = METHODS.get(called, called)
        array = array_of(kinds[0]) if called in OF_MANY else None
        if array is None:
            return None
        returned = state.calltypes[value].return_type
        found = array.dtype if called in OF_NOTHING else dtype_of(returned)
        if found not in SINGLE:
            if called not in OF_NOTHING:
                return None
            name = new(ir.Global("deviation", OF_NOTHING[called], loc))
            array = self._given(state, value, ("a",), new)["a"]
            return ir.Expr.call(name, (array,), (), loc)
        given = self._given(state, value, ("a", "axis", "dtype"), new)
        axis = given["axis"] if "axis" in given else new(ir.Const(None, loc))
        types = [new(ir.Global(each.__name__, each, loc)) for each in SINGLE[found]]
        along_axes, fastmath = array_of(returned) is not None, bool(state.flags.fastmath)
        function = function_for(called, along_axes=along_axes, fastmath=fastmath)
        name = new(ir.Global(function.__name__, function, loc))
        return ir.Expr.call(name, (given["a"], axis, *types), (), loc)

    def _seen(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to call for a function that takes anything for one of its arguments."""
        value, loc = statement.value, statement.loc
        called, kinds = self._call(state, statement)
        if called not in UNSEEN:
            return None
        names, at, kind, look = UNSEEN[called]
        if not isinstance(kinds[at], kind):
            return None
        given = self._given(state, value, names, new)
        check = new(ir.Global(look.__name__, look, loc))
        given[names[at]] = new(ir.Expr.call(check, (given[names[at]],), (), loc))
        return self._called_as(value, called, given, new)

    def _copy_of_integers(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to call for ``np.nan_to_num`` of what has no NaN, which does not copy."""
        value, loc = statement.value, statement.loc
        called, kinds = self._call(state, statement)
        if called is not np.nan_to_num or value.vararg or not array_of(kinds[0]):
            return None
        given = self._given(state, value, ("x", "copy"), new)
        literal = state.typemap[given["copy"].name] if "copy" in given else None
        if isinstance(array_of(kinds[0]).dtype, nt.Float | nt.Complex) or (
            literal and getattr(literal, "literal_value", None) is not True
        ):
            return None
        return ir.Expr.call(new(ir.Expr.getattr(given["x"], "copy", loc)), (), (), loc)

    def _clip(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to take in the place of ``np.clip`` with bounds that it is not right with."""
        called, kinds = self._call(state, statement)
        function, bounds = METHODS.get(called, called), (*kinds[1:3], nt.none, nt.none)[:2]
        if function is not np.clip or not array_of(kinds[0]):
            return None
        arrays = any(array_of(each) or isinstance(each, nt.BaseTuple | nt.List) for each in bounds)
        wide = None
        if not is_float(kinds[0]) and any(map(is_float, bounds)):
            wide = floats  # for bounds that are none of integers
        elif dtype_of(kinds[0]) == nt.boolean and any(
            isinstance(dtype_of(each), nt.Integer) for each in bounds
        ):
            wide = integers
        if not arrays and not wide:
            return None
        loc = statement.loc
        given = self._given(state, statement.value, BY_OUTPUT[np.clip], new)
        for each, kind in zip(BY_OUTPUT[np.clip][:3], (kinds[0], *bounds), strict=True):
            # A method may have one bound, the function has two.
            given[each] = given.pop(each, None) or new(ir.Const(None, loc))
            if wide and (each == "a" or dtype_of(kind) == nt.boolean):
                name = new(ir.Global(wide.__name__, wide, loc))
                given[each] = new(ir.Expr.call(name, (given[each],), (), loc))
        if not arrays:
            return self._called_as(statement.value, function, given, new)
        made = None
        for at, limit in enumerate((np.maximum, np.minimum)):
            bound = given.get(BY_OUTPUT[np.clip][1 + at])
            if isinstance(bounds[at], nt.NoneType | nt.Omitted):
                continue
            value = new(made) if made else given["a"]
            if isinstance(bounds[at], nt.Number):
                none = new(ir.Const(None, loc))
                both = (none, bound) if at else (bound, none)
                name, operands = new(ir.Global("clip", np.clip, loc)), (value, *both)
            else:
                if not array_of(bounds[at]):
                    name = new(ir.Global("asarray", np.asarray, loc))
                    bound = new(ir.Expr.call(name, (bound,), (), loc))
                name, operands = new(ir.Global(limit.__name__, limit, loc)), (value, bound)
            made = ir.Expr.call(name, operands, (), loc)
        if len(kinds) < 4 or not array_of(kinds[3]):
            return made
        if self.checks_shapes(state):
            name = new(ir.Global("fits", fits, loc))
            made = ir.Expr.call(name, (given["out"], new(made)), (), loc)
        return self._copied(made, given["out"], new, loc)

    def _call_by_index(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to call in the place of a function that takes indices without a look."""
        value, loc = statement.value, statement.loc
        called, kinds = self._call(state, statement)
        function = METHODS.get(called, called)
        if function not in BY_INDEX:
            return None
        indices, along = array_of(kinds[1]), isinstance(kinds[-1], nt.Integer)
        if function is np.take and along and indices and indices.ndim > 1:
            raise NumbaTypeError(AXES, loc=loc)
        if not state.flags.boundscheck:
            return None
        if isinstance(kinds[1], nt.SliceType):
            return None
        names = BY_INDEX[function]
        given = self._given(state, value, names, new)
        array, indices = (given[name] for name in names[:2])
        axis = given["axis"] if "axis" in given else new(ir.Const(None, loc))
        check = new(ir.Global("inside", inside, loc))
        given[names[1]] = new(ir.Expr.call(check, (array, axis, indices), (), loc))
        return self._called_as(value, function, given, new)

    def _call_by_output(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to call in the place of a function that does not look at what overlaps."""
        value, loc = statement.value, statement.loc
        called, kinds = self._call(state, statement)
        function = METHODS.get(called, called)
        names = BY_OUTPUT.get(function, ())
        if not names or len(kinds) < len(names) or not array_of(kinds[-1]):
            return None
        first, out = (as_dtype(dtype_of(kinds[at])) for at in (0, -1))
        if not np.can_cast(first, out, "same_kind"):
            raise NumbaTypeError(f"{function.__name__} of {first} has no output of {out}", loc=loc)
        given = self._given(state, value, names, new)
        for name, kind in zip(names[:-1], map(array_of, kinds), strict=False):
            if not kind:
                continue
            check = self._apart(state, given[name], kind)
            if check and function is np.dot:
                check = separate
            if check:
                called = new(ir.Global(check.__name__, check, loc))
                given[name] = new(ir.Expr.call(called, (given["out"], given[name]), (), loc))
        return self._called_as(value, function, given, new)

    def _call_with_output(self, state: Any, statement: Any, new: Callable[[Any], Any]) -> Any:
        """What to call in the place of a function that is given an output."""
        value, loc = statement.value, statement.loc
        called, kinds = self._call(state, statement)
        if called in WITH_OUTPUT:
            function, n_arguments = WITH_OUTPUT[called]
            if len(kinds) < n_arguments or not self.checks_shapes(state) or not array_of(kinds[-1]):
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
        return None if made == list(value.args) else ir.Expr.call(value.func, made, (), loc)

    def _fitting(
        self, state: Any, given: list[Any], kinds: Any, n_in: int, new: Callable[[Any], Any]
    ) -> list[Any]:
        """Operands and outputs, ``n_in`` of them operands, with those replaced that are checked."""
        made = list(given)
        arrays = [array_of(kind) for kind in kinds]
        for out in range(n_in, len(given)):
            for index, array in enumerate(arrays):
                if index == out or not array or not arrays[out]:
                    continue
                functions = [fits] if self.checks_shapes(state) else []
                if index < n_in and (function := self._apart(state, given[index], array)):
                    functions.append(function)
                for function in functions:
                    loc = given[index].loc
                    name = new(ir.Global(function.__name__, function, loc))
                    made[index] = new(ir.Expr.call(name, (given[out], made[index]), (), loc))
        return made

    def _apart(self, state: Any, variable: Any, array: Any) -> Any:
        """What to call for an operand that may be a part of the output; None if it cannot."""
        if self._is_new(state, variable):
            return None
        if array.mutable:
            return apart
        # Of what is read-only, this alone may be a view of what is not.
        return kept if array.layout == "A" else None

    def _is_new(self, state: Any, variable: Any) -> bool:
        """Whether an array was made by an operator, so that it is part of no other."""
        found = definition(state.func_ir, variable)
        return isinstance(found, ir.Expr) and found.op in ("binop", "unary")


@register_pass(mutates_CFG=True, analysis_only=False)
class CheckHelpers(CheckArrays):
    """The same for functions of ``numba.njit``, which Numba checks indices of only on demand."""

    _name = "framefold_check_helpers"

    def checks_shapes(self, state: Any) -> bool:
        """Always."""
        return True
