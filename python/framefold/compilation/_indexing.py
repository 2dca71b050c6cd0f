"""Indices of arrays in compiled code: checked, and with the axes that NumPy has.

Numba's ``a.flat[i]`` takes any index, and ``a[mask]`` a mask of any length. Masks beside numbers
and other arrays have axes of their own there, where NumPy takes them as the numbers of what they
select; beside ``None``, and ``...`` that stands for no axis, its axes are in another order for some
indices. This module imports Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
from numba.core import cgutils, ir
from numba.core.errors import NumbaTypeError
from numba.core.extending import intrinsic
from numba.core.imputils import impl_ret_borrowed
from numba.np.arrayobj import make_array

from framefold.compilation._arithmetic import array_of
from framefold.compilation._instead import OUTSIDE
from framefold.compilation._order import InOrder

nt: Any = numba.types

MASKS = "a mask has to be as long as the axis that it is an index of"
AXES = (
    "compiled code has axes of these indices in another order than NumPy: take them one after the "
    "other, as in a[0][:, indices][:, None] for a[0, :, indices, None]"
)


def _flat_index(*, checked: bool) -> Any:
    @intrinsic
    def index_of(typing_context: Any, flat: Any, index: Any) -> Any:
        signed = getattr(index, "signed", True)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            struct = cgutils.create_struct_proxy(flat)(context, builder, value=arguments[0])
            size = make_array(flat.array_type)(context, builder, struct.array).nitems
            at = arguments[1]
            if signed:
                below = builder.icmp_signed("<", at, at.type(0))
                at = builder.select(below, builder.add(at, size), at)
            if checked:
                with builder.if_then(builder.icmp_unsigned(">=", at, size), likely=False):
                    context.call_conv.return_user_exc(builder, IndexError, (OUTSIDE,))
            return at

        # By these types, Numba finds the code again.
        return nt.intp(flat, nt.intp if signed else nt.uintp), codegen

    return index_of


#: Counts negative indices of ``a.flat`` from the end, and refuses those outside or not.
FLAT_INDEX = {checked: _flat_index(checked=checked) for checked in (False, True)}


@intrinsic
def masks_fit(typing_context: Any, array: Any, index: Any) -> Any:
    """An index, whose masks have to be as long as the axes that they are for."""
    array = array_of(array)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lengths = cgutils.unpack_tuple(
            builder, make_array(array)(context, builder, arguments[0]).shape
        )
        many = isinstance(index, nt.BaseTuple)
        parts = cgutils.unpack_tuple(builder, arguments[1]) if many else [arguments[1]]
        bad = cgutils.false_bit
        axes = _axes_of(index, array.ndim)
        for axis, kind, part in zip(axes, parts_of(index), parts, strict=True):
            if is_mask(kind):
                (length,) = cgutils.unpack_tuple(
                    builder, make_array(kind)(context, builder, part).shape
                )
                differs = builder.icmp_signed("!=", length, lengths[axis])
                bad = builder.or_(bad, differs)
        with builder.if_then(bad, likely=False):
            context.call_conv.return_user_exc(builder, IndexError, (MASKS,))
        return impl_ret_borrowed(context, builder, index, arguments[1])

    return index(array, index), codegen


def parts_of(index: Any) -> tuple[Any, ...]:
    """The types of the parts of an index, which is a tuple or is not."""
    return tuple(index.types) if isinstance(index, nt.BaseTuple) else (index,)


def is_slice(part: Any) -> bool:
    """Whether a part of an index keeps the axes that it is for."""
    return isinstance(part, nt.SliceType | nt.EllipsisType)


def is_mask(part: Any) -> bool:
    """Whether a part of an index selects along an axis."""
    return isinstance(part, nt.Array) and part.dtype == nt.boolean and part.ndim == 1


def _axes_of(index: Any, ndim: int) -> Iterator[int]:
    """The axis that each part of an index is for, or begins at."""
    kinds = parts_of(index)
    left_out = ndim - sum(not isinstance(each, nt.EllipsisType | nt.NoneType) for each in kinds)
    axis = 0
    for kind in kinds:
        yield axis
        axis += left_out if isinstance(kind, nt.EllipsisType) else not isinstance(kind, nt.NoneType)


def _needs_numbers(parts: tuple[Any, ...], ndim: int, loc: Any) -> bool:
    """Whether masks are to be numbers, as NumPy gives them no axes of their own where they are.

    Raises
    ------
    NumbaTypeError
        If Numba has axes in another order than NumPy.
    """
    arrays = [each for each in parts if isinstance(each, nt.Array) and each.ndim > 0]
    if not arrays:
        return False
    labels = list(_labels(parts, ndim))
    n_axes = max(each.ndim for each in arrays)
    # Numba finds the axes without None, and counts an axis for each array where it puts those in.
    found = _result_axes([each for each in labels if each not in ("new", "nothing")], n_axes)
    for at, label in enumerate(labels):
        if label == "new":
            found.insert(sum(each not in ("number", "nothing") for each in labels[:at]), label)
    if found != _result_axes(labels, n_axes):
        raise NumbaTypeError(AXES, loc=loc)
    return any(map(is_mask, parts)) and (_are_apart(labels) or len(arrays) > 1)


def _labels(parts: tuple[Any, ...], ndim: int) -> Iterator[str]:
    """What each part of an index is, and the axes that it leaves out."""
    left_out = ndim - sum(not isinstance(each, nt.EllipsisType | nt.NoneType) for each in parts)
    for part in parts:
        if isinstance(part, nt.EllipsisType):
            yield from ["axis"] * left_out or ["nothing"]
            left_out = 0
        elif isinstance(part, nt.SliceType):
            yield "axis"
        elif isinstance(part, nt.NoneType):
            yield "new"
        else:
            yield "array" if isinstance(part, nt.Array) and part.ndim > 0 else "number"
    yield from ["axis"] * left_out


def _places(labels: list[str]) -> list[int]:
    return [at for at, each in enumerate(labels) if each in ("array", "number")]


def _are_apart(labels: list[str]) -> bool:
    """Whether there is something between numbers and arrays."""
    places = _places(labels)
    return places[-1] - places[0] >= len(places)


def _result_axes(labels: list[str], n_axes: int) -> list[str]:
    """The axes of what NumPy selects: those of arrays are first if they are apart."""
    at = 0 if _are_apart(labels) else _places(labels)[0]
    kept = [each for each in labels if each in ("axis", "new")]
    return kept[:at] + ["array"] * n_axes + kept[at:]


class Indexing(InOrder):
    """Finds types, and has indices taken as NumPy takes them."""

    def _index(self, state: Any, array: Any, access: Any, new: Callable[[Any], Any]) -> Any:
        """What to take for an index; None if it stays as it is."""
        kind, index, loc = state.typemap[array.name], access.index, access.loc
        checked = bool(state.flags.boundscheck)
        if isinstance(kind, nt.NumpyFlatType):
            if not isinstance(index, ir.Var):
                index = new(ir.Const(index, loc))
            return self._called(FLAT_INDEX[checked], (array, index), loc, new)
        index = index_variable(access)
        if index is None or not array_of(kind):
            return None
        made, parts = index, parts_of(state.typemap[index.name])
        if isinstance(access, ir.Expr) and state.typemap[index.name] == nt.ellipsis:
            made = new(ir.Expr.build_tuple((index,), loc))  # alone, Numba cannot read by it
        needs_numbers = _needs_numbers(parts, array_of(kind).ndim, loc)
        if checked and any(map(is_mask, parts)):
            made = self._called(masks_fit, (array, made), loc, new)
        if needs_numbers:
            made = self._with_numbers(made, parts, loc, new)
        return None if made is index else made

    def _with_numbers(
        self, index: Any, parts: tuple[Any, ...], loc: Any, new: Callable[[Any], Any]
    ) -> Any:
        """An index that is a tuple, with numbers of what masks select in the place of masks."""
        made = []
        for at, kind in enumerate(parts):
            part = new(ir.Expr.static_getitem(index, at, None, loc))
            made.append(self._called(np.flatnonzero, (part,), loc, new) if is_mask(kind) else part)
        return new(ir.Expr.build_tuple(made, loc))

    def _called(
        self, function: Any, arguments: tuple[Any, ...], loc: Any, new: Callable[[Any], Any]
    ) -> Any:
        """A variable that has what a function gives."""
        return new(ir.Expr.call(new(ir.Global("function", function, loc)), arguments, (), loc))


def index_variable(access: Any) -> Any:
    """The variable that has an index; None if there is none, as of some that are constant."""
    return access.index if isinstance(access.index, ir.Var) else access.index_var
