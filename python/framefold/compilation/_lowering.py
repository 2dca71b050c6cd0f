"""How arrays are assigned to slices in compiled code: without the text of an exception.

Where shapes differ, Numba's code writes them down, for which it compiles all that texts are made
of: seconds of the first function, and most of the machine code of each. The interpreter raises such
an exception anew, with NumPy's text. This module imports Numba.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import models
from numba.core.extending import register_model
from numba.core.imputils import lower_builtin
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import signature
from numba.np import arrayobj

nt: Any = numba.types

#: Options of functions that only compiled code calls: without others by which the interpreter and C
#: would.
ONLY_LINKED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
#: The same of those that this package calls there: a function is compiled once, and has the
#: ``fastmath`` of its first caller if it says nothing.
HELPER: Any = ONLY_LINKED | {"fastmath": False}
SLICE = "could not broadcast an array into the slice that it is assigned to: their shapes differ"
#: What Numba calls there, which is for each kind of processor to define; older ones raise a fixed
#: text.
RAISES = getattr(arrayobj, "raise_with_shape_context", object())


class RaisesType(nt.Callable, nt.Dummy):  # type: ignore[misc]
    """The type of a function that takes two shapes, and raises an exception with a fixed text."""

    def __init__(self) -> None:
        super().__init__(name="framefold.Raises")

    def get_call_type(self, context: Any, arguments: Any, named: Any) -> Any:
        """Of all shapes."""
        return signature(nt.none, *arguments)

    def get_call_signatures(self) -> Any:
        """None that would be known without arguments."""
        return (), False

    def get_impl_key(self, signature: Any) -> Any:
        """All of them have the same code."""
        return RaisesType


register_model(RaisesType)(models.OpaqueModel)


@lower_builtin(RaisesType, nt.Any, nt.Any)  # type: ignore[untyped-decorator]
def _raises(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    context.call_conv.return_user_exc(builder, ValueError, (SLICE,))
    return context.get_dummy_value()


class Types:
    """What Numba knows of types, but of the function that raises.

    Parameters
    ----------
    known
        What Numba knows.
    """

    def __init__(self, known: Any) -> None:
        self._known = known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._known, name)

    def resolve_value_type(self, value: Any) -> Any:
        """The type of a value."""
        return RaisesType() if value is RAISES else self._known.resolve_value_type(value)


#: The same for the same, by which Numba finds code again.
_types_of = cache(Types)


class LowerAssignments(Lower):  # type: ignore[misc]
    """Makes code of a function as Numba does, but where it assigns to a slice."""

    context: Any

    def lower_setitem(self, *of_statement: Any) -> Any:
        """Make code of ``a[i] = b``."""
        context = self.context
        self.context = context.subtarget(typing_context=_types_of(context.typing_context))
        try:
            return super().lower_setitem(*of_statement)
        finally:
            self.context = context


@register_pass(mutates_CFG=True, analysis_only=False)
class Lowering(NativeLowering):  # type: ignore[misc]
    """Makes code of a function."""

    _name = "framefold_lowering"

    @property
    def lowering_class(self) -> Any:
        """What does."""
        return LowerAssignments
