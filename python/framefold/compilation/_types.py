"""What stands for ``self`` in compiled code: structs of named members, as extension types of Numba.

This module imports Numba; it is imported when the first function is compiled.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, compiler
from numba.core import ir as numba_ir
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.datamodel import models
from numba.core.errors import TypingError
from numba.core.extending import (
    intrinsic,
    overload_method,
    register_model,
    typeof_impl,
)
from numba.core.imputils import impl_ret_borrowed, lower_getattr_generic
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.untyped_passes import IRProcessing, ReconstructSSA
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from framefold.common import _foreign
from framefold.common._user_code import with_known_annotations
from framefold.compilation._assigned import CheckAssigned
from framefold.compilation._checked import CheckArrays, CheckHelpers
from framefold.compilation._literals import AddTypes
from framefold.compilation._lowering import ONLY_LINKED, Lowering
from framefold.compilation._readonly import Same, definition, put
from framefold.compilation.marks import MARK, Options, options_of
from framefold.compilation.names import LIBRARIES, home

nt: Any = numba.types

_numbers = itertools.count()
I64 = ir.IntType(64)


class Members(nt.Type):  # type: ignore[misc]
    """A struct whose members are reached as attributes.

    Parameters
    ----------
    title
        What it is in the user's code: ``self.results``.
    members
        Name and type of each.
    methods
        Name and compiled function of each.
    bad
        Names that cannot be used, and why.
    about
        What to say where a name is none of these.
    """

    def __init__(
        self,
        title: str,
        members: dict[str, Any],
        methods: dict[str, Any] | None = None,
        bad: dict[str, str] | None = None,
        about: str = "",
        knows: str = "",
    ) -> None:
        self.title, self.members = title, members
        self.methods, self.bad, self.about = methods or {}, bad or {}, about
        #: What there would be, if only names that the code asks for are members.
        self.knows = knows
        super().__init__(name=f"framefold.{title}#{next(_numbers)}")


class RowsType(Members):
    """Rows of sparse data."""


@register_model(Members)
@register_model(RowsType)
class MembersModel(models.StructModel):  # type: ignore[misc]
    """A struct of the members."""

    def __init__(self, dmm: Any, fe_type: Members) -> None:
        super().__init__(dmm, fe_type, list(fe_type.members.items()))


@infer_getattr
class MembersAttributes(AttributeTemplate):  # type: ignore[misc]
    """Types of members."""

    key = Members

    def generic_resolve(self, value: Members, name: str) -> Any:
        """The type of a member, None for methods, which are looked for elsewhere."""
        if name in value.members:
            return value.members[name]
        if name in value.methods:
            return None
        if name in value.bad:
            raise TypingError(f"{value.title}.{name} is {value.bad[name]}")
        known = value.knows or ", ".join((*value.members, *value.methods)) or "none"
        raise TypingError(
            f"compiled code knows no {value.title}.{name}; it knows: {known}{value.about}"
        )


@lower_getattr_generic(Members)  # type: ignore[untyped-decorator]
def _member(context: Any, builder: Any, value_type: Members, value: Any, name: str) -> Any:
    struct = cgutils.create_struct_proxy(value_type)(context, builder, value=value)
    # What is taken out counts as one more reference, and so does what is put in below.
    return impl_ret_borrowed(context, builder, value_type.members[name], getattr(struct, name))


def make_members(members: Members) -> Any:
    """An intrinsic that makes a value of that type of a tuple of its members."""

    @intrinsic
    def make(typing_context: Any, values: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            struct = cgutils.create_struct_proxy(members)(context, builder)
            for index, name in enumerate(members.members):
                setattr(struct, name, builder.extract_value(arguments[0], index))
            return impl_ret_borrowed(context, builder, members, struct._getvalue())

        return members(values), codegen

    return make


def make_view(array: Any) -> Any:
    """An intrinsic that makes an array of an address, a shape, and strides if it has gaps."""
    gaps = array.layout != "C"

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out = make_array(array)(context, builder)
        shape = cgutils.unpack_tuple(builder, arguments[1], array.ndim) if array.ndim else []
        size = ir.Constant(I64, context.get_abi_sizeof(context.get_data_type(array.dtype)))
        if gaps:
            strides = cgutils.unpack_tuple(builder, arguments[2], array.ndim)
        else:
            strides, step = [], size
            for length in reversed(shape):
                strides.insert(0, step)
                step = builder.mul(step, length)
        populate_array(
            out,
            data=builder.inttoptr(arguments[0], out.data.type),
            shape=shape,
            strides=strides,
            itemsize=size,
            meminfo=None,
        )
        return out._getvalue()

    shape_type = nt.UniTuple(nt.intp, array.ndim)
    if gaps:

        @intrinsic
        def make_strided(typing_context: Any, address: Any, shape: Any, strides: Any) -> Any:
            return array(nt.intp, shape_type, shape_type), codegen

        return make_strided

    @intrinsic
    def make(typing_context: Any, address: Any, shape: Any) -> Any:
        return array(nt.intp, shape_type), codegen

    return make


def make_constant(of: Any) -> Any:
    """An intrinsic that makes the one value of a type without data."""

    @intrinsic
    def make(typing_context: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.get_dummy_value()

        return of(), codegen

    return make


def load_number(of: Any) -> Any:
    """An intrinsic that reads a number at an address and an offset."""

    @intrinsic
    def load(typing_context: Any, address: Any, offset: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = context.get_data_type(of)
            pointer = builder.inttoptr(builder.add(*arguments), kind.as_pointer())
            return context.unpack_value(builder, of, pointer)

        return of(nt.intp, nt.intp), codegen

    return load


load_int = load_number(nt.intp)


@intrinsic
def store_int(typing_context: Any, address: Any, value: Any) -> Any:
    """Write a number to an address."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], I64.as_pointer()))
        return context.get_dummy_value()

    return nt.void(nt.intp, nt.intp), codegen


_with_methods: set[str] = set()


def allow_method(name: str) -> None:
    """Let compiled code call a method of that name of those that have it."""
    if name in _with_methods:
        return
    _with_methods.add(name)

    def choose(self: Any, *arguments: Any) -> Any:
        method = self.methods.get(name)
        if method is None:
            return None

        def call(self: Any, *arguments: Any) -> Any:
            return method(self, *arguments)

        return call

    overload_method(Members, name, inline="never")(choose)


@typeof_impl.register(FunctionType)  # type: ignore[untyped-decorator]
def _type_of_function(function: Any, c: Any) -> Any:
    """The type of a function that is marked: what Numba compiles of it."""
    options = options_of(function)
    if options is None:
        return None
    return nt.Dispatcher(dispatcher(function, options))


class _Anew(threading.local):
    """Whether this thread compiles for framefold, so that nothing that was compiled is used."""

    on = False


_anew = _Anew()
#: What Numba makes of functions here, by what it is made of: a function that is marked, or what the
#: user had Numba make of one.
_made: dict[tuple[int, Options | None], tuple[Any, Any]] = {}
#: All of them.
_own: weakref.WeakSet[Any] = weakref.WeakSet()


@contextmanager
def anew() -> Iterator[None]:
    """Compile everything anew: what is in modules and closures may have changed."""
    _made.clear()
    _anew.on = True
    try:
        yield
    finally:
        _anew.on = False


def dispatcher(function: FunctionType, options: Options) -> Any:
    """What Numba compiles of a function; the same for the same function, until `anew`."""
    known = _made.get((id(function), options))
    if known is not None and known[0] is function:
        return known[1]
    made = numba.njit(
        boundscheck=options.boundscheck,
        fastmath=options.fastmath,
        error_model="python",
        nogil=True,
        pipeline_class=Compiler,
        **ONLY_LINKED,
    )(with_known_annotations(function))
    _own.add(made)
    if MARK in vars(function):
        _made[id(function), options] = function, made
    return made


@typeof_impl.register(CPUDispatcher)  # type: ignore[untyped-decorator]
def _type_of_dispatcher(found: Any, c: Any) -> Any:
    """The type of what Numba makes of a function: in code of framefold, of one made anew.

    The user's keeps code with the values of the module that there were when it was compiled.
    """
    own = found in _own or home(found) in LIBRARIES
    if _anew.on and not own and not found.targetoptions.get("forceobj"):
        found = _made_anew(found)
    return nt.Dispatcher(found)


def _made_anew(found: Any) -> Any:
    known = _made.get((id(found), None))
    if known is not None and known[0] is found:
        return known[1]
    # Not called by the interpreter; by its address it may be, as a function among others.
    options = {**found.targetoptions, "no_cpython_wrapper": True}
    made = numba.jit(pipeline_class=HelperCompiler, locals=found.locals, **options)(found.py_func)
    _own.add(made)
    _made[id(found), None] = found, made  # known to itself while it is compiled
    signatures = _foreign.declared_signatures(found)
    if signatures is not None:
        for each in signatures:
            made.compile(each)
        made.disable_compile()
    return made


def array_type(dtype: Any, ndim: int, *, writeable: bool, gaps: bool = False) -> Any:
    """The type of an array."""
    return nt.Array(from_dtype(dtype), ndim, "A" if gaps else "C", readonly=not writeable)


def only_arrays(attribute: str) -> Same:
    """A function for compiled code that gives back an array, and refuses all else.

    Parameters
    ----------
    attribute
        What is assigned to, in the user's words: ``self.task_data.x``.
    """

    def check(found: Any) -> Any:
        if isinstance(found, nt.Array) and found.mutable:
            return found
        what = "a read-only array" if isinstance(found, nt.Array) else f"no array ({found})"
        raise TypingError(
            f"{attribute} is {what} and cannot be replaced; keep it in an array that "
            f"get_task_data makes, of one element for a number"
        )

    return Same(attribute, check)


@register_pass(mutates_CFG=False, analysis_only=False)
class AssignToArrays(FunctionPass):  # type: ignore[misc]
    """Lets ``self.results.x = value`` write into the array, as in the interpreter.

    ``self.results.x += value`` has written into it already, before it is assigned; what is no array
    has not changed, and is refused.
    """

    _name = "framefold_assign_to_arrays"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Replace each assignment of that kind."""
        changed = False
        function = state.func_ir
        for block in function.blocks.values():
            body: list[Any] = []
            for statement in block.body:
                if not isinstance(statement, numba_ir.SetAttr) or not self._holds_arrays(
                    function, statement.target
                ):
                    body.append(statement)
                    continue
                changed = True
                target, loc = statement.target, statement.loc
                new = partial(put, function, block.scope, body, loc)
                refuse = only_arrays(f"{self._named(function, target)}.{statement.attr}")
                present = new(numba_ir.Expr.getattr(target, statement.attr, loc))
                check = new(numba_ir.Global("only_arrays", refuse, loc))
                array = new(numba_ir.Expr.call(check, (present,), (), loc))
                if not self._is_in_place(function, statement):
                    everything = new(numba_ir.Const(Ellipsis, loc))
                    body.append(numba_ir.SetItem(array, everything, statement.value, loc))
            block.body = body
        return changed

    def _named(self, function: Any, variable: Any) -> str:
        """What it is in the user's code, as far as that can be known: ``self.task_data``."""
        found = definition(function, variable)
        if isinstance(found, numba_ir.Expr) and found.op == "getattr":
            return f"{self._named(function, found.value)}.{found.attr}"
        return str(found.name if isinstance(found, numba_ir.Arg) else variable.name)

    def _holds_arrays(self, function: Any, target: Any) -> bool:
        """Whether it is ``self.results`` or the like, or an argument, as in ``merge``."""
        found = definition(function, target)
        if isinstance(found, numba_ir.Expr) and found.op == "getattr":
            return found.attr in ("results", "params", "task_data")
        return isinstance(found, numba_ir.Arg) and found.name != "self"

    def _is_in_place(self, function: Any, statement: Any) -> bool:
        found = definition(function, statement.value)
        if not isinstance(found, numba_ir.Expr) or found.op != "inplace_binop":
            return False
        left = definition(function, found.lhs)
        return (
            isinstance(left, numba_ir.Expr)
            and left.op == "getattr"
            and left.attr == statement.attr
            and self._are_same(function, left.value, statement.target)
        )

    def _are_same(self, function: Any, one: Any, other: Any) -> bool:
        """Whether both are the same attribute of the same attribute and so on of an argument."""
        one, other = definition(function, one), definition(function, other)
        if isinstance(one, numba_ir.Expr) and isinstance(other, numba_ir.Expr):
            return (
                one.op == other.op == "getattr"
                and one.attr == other.attr
                and self._are_same(function, one.value, other.value)
            )
        return isinstance(one, numba_ir.Arg) and one is other


class HelperCompiler(compiler.CompilerBase):  # type: ignore[misc]
    """Numba's own, with types of which read-only arrays stay so, and shapes that are checked.

    Names without a value are an error. Assigning to slices is without the text of an exception.
    """

    finds_types: type = CheckHelpers

    def define_pipelines(self) -> list[Any]:
        """The one pipeline, without object mode."""
        made = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        others = {
            ReconstructSSA: CheckAssigned,
            NopythonTypeInference: self.finds_types,
            NativeLowering: Lowering,
        }
        made.passes = [(others.get(each, each), about) for each, about in made.passes]
        made.add_pass_after(AddTypes, CheckAssigned)
        made.finalize()
        return [made]


class Compiler(HelperCompiler):
    """For functions that are marked: with the pass above, too."""

    finds_types = CheckArrays

    def define_pipelines(self) -> list[Any]:
        """The same pipeline and the pass."""
        (made,) = super().define_pipelines()
        made.add_pass_after(AssignToArrays, IRProcessing)
        made.finalize()
        return [made]
