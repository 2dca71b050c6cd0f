"""From marked functions to machine code, by Numba; the one door to it."""

from __future__ import annotations

import os
import re
from types import FunctionType
from typing import Any

import numba
from llvmlite import ir
from numba.core import ir as numba_ir
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError
from numba.core.extending import intrinsic

from framefold.common import _foreign
from framefold.compilation import _source, _types
from framefold.compilation._lowering import ONLY_LINKED
from framefold.compilation.marks import Options, options_of
from framefold.compilation.plan import FAILURE, Wanted
from framefold.exceptions import UDFError

nt: Any = numba.types
I64 = ir.IntType(64)
N_ARGUMENTS = 5


class MachineCode:
    """An object file, and what it needs to be loaded."""

    def __init__(
        self, data: bytes, entries: tuple[str, ...], needed: set[str], returns: str
    ) -> None:
        self.data, self.entries = data, entries
        #: The type of what the function returns that processes the data; empty for None.
        self.returns = returns
        #: Whether it is loaded without Numba.
        self.alone = all(each in IN_C or each == DESTRUCTOR for each in needed)
        #: Whether another process can use it: not what calls into the interpreter, nor what has
        #: addresses of this process.
        here = (*IN_PYTHON, UNRESOLVED, OF_ARRAYS)
        self.can_be_kept = not any(each.startswith(here) for each in needed - OF_MESSAGES)
        #: Whether it reads arrays of the module where they lie, so that other runs cannot use it.
        self.is_of_one_run = any(each.startswith(OF_ARRAYS) for each in needed)


def compile_wanted(wanted: Wanted) -> tuple[MachineCode, Any]:
    """The machine code, and what keeps it loaded: a dict of entries to addresses, and its owner.

    Raises
    ------
    UDFError
        If something cannot be compiled; names the function, the line, and the reason.
    """
    with _types.anew(), _foreign.machine_code_on_demand():
        return _compiled(wanted)


def _compiled(wanted: Wanted) -> tuple[MachineCode, Any]:
    makers: list[tuple[str, Any, Any]] = [("process", _source.process_entry, wanted.process)]
    if wanted.postprocess is not None:
        makers.append(("end", _source.end_entry, wanted.postprocess))
    if wanted.merge is not None:
        makers.append(("merge", _source.merge_entry, wanted.merge))
    compiled: list[tuple[str, Any]] = []
    for name, make, function in makers:
        # The last one has the C functions in its code, so that all is made once.
        first = _exported(name, compiled) if name == makers[-1][0] else None
        try:
            compiled.append((name, _overload(make(wanted, first))))
        except NumbaError as error:
            raise cannot(wanted.udf, function, error) from None
        except Exception as error:
            # Numba passes on what its own code raises in the middle of compiling.
            raise cannot(wanted.udf, function, error) from error
    returns = _returned(wanted)
    if wanted.makes_frames and returns:
        raise UDFError(
            f"{wanted.udf}.{wanted.process.__name__} returns {returns}, which has no effect; "
            f"write into the array that it is given: out[:] = …"
        )
    return _linked(compiled, returns)


def _returned(wanted: Wanted) -> str:
    """The type of what a function returns that has to write into an array; empty for None."""
    made = _types.dispatcher(wanted.process, wanted.options)
    found = (result.signature.return_type for result in made.overloads.values())
    return next((str(each) for each in found if each != nt.none), "")


def _overload(entry: Any) -> Any:
    made = numba.njit(nogil=True, error_model="python", **ONLY_LINKED)(entry)
    signature = (nt.intp,) * N_ARGUMENTS
    made.compile(signature)
    return made.overloads[signature]


def _linked(compiled: list[tuple[str, Any]], returns: str) -> tuple[MachineCode, Any]:
    with global_compiler_lock:
        library = compiled[-1][1].library
        data = _foreign.object_code_of(library)
        names = tuple(name for name, _ in compiled)
        addresses = {name: library.get_pointer_to_function(f"framefold_{name}") for name in names}
        code = MachineCode(data, names, _needed(library), returns)
    return code, (addresses, compiled)


def _exported(name: str, others: list[tuple[str, Any]]) -> Any:
    """An intrinsic that adds C functions to the code of what calls it: of that, and of others."""

    @intrinsic
    def exported(typing_context: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _entry(context, builder.module, f"framefold_{name}", builder.function)
            for other, result in others:
                context.active_code_library.add_linking_library(result.library)
                callee = context.declare_function(builder.module, result.fndesc)
                _entry(context, builder.module, f"framefold_{other}", callee)
            return context.get_dummy_value()

        return nt.void(), codegen

    return exported


def _entry(context: Any, module: Any, name: str, callee: Any) -> None:
    """A C function that calls what Numba compiles, and returns 1 if that raises."""
    function = ir.Function(module, ir.FunctionType(ir.IntType(32), [I64] * N_ARGUMENTS), name)
    builder = ir.IRBuilder(function.append_basic_block())
    arguments = (nt.intp,) * N_ARGUMENTS
    status, _ = context.call_conv.call_function(builder, callee, nt.intp, arguments, function.args)
    with builder.if_then(status.is_error, likely=False):
        slot = builder.add(function.args[0], ir.Constant(I64, 8 * FAILURE))
        address = builder.ptrtoint(status.excinfoptr, I64)
        builder.store(address, builder.inttoptr(slot, I64.as_pointer()))
        builder.ret(ir.Constant(ir.IntType(32), 1))
    builder.ret(ir.Constant(ir.IntType(32), 0))


#: Functions of the C library that machine code may call, and that any process has.
_IN_C = """
memcpy memset memmove acos acosh asin asinh atan atan2 atanh cbrt ceil copysign
cos cosh erf erfc exp exp2 expm1 fabs floor fma fmax fmin fmod frexp hypot ldexp
lgamma log log10 log1p log2 modf nearbyint nextafter pow remainder rint round
sin sincos sinh sqrt tan tanh tgamma trunc
"""
IN_C = frozenset(_IN_C.split())
IN_C |= {f"{name}f" for name in IN_C}
#: Ends memory that Numba's arrays own; there is none where nothing is allocated.
DESTRUCTOR = "NRT_MemInfo_call_dtor"


#: How functions of the interpreter are named, and those of Numba that call them.
IN_PYTHON = (
    "Py",
    "_Py",
    "numba_gil",
    "numba_unpickle",
    "numba_do_raise",
    "NRT_adapt",
    "NRT_Mem_Python",
)
#: Addresses that Numba fills in when it has loaded the code: of functions that call themselves.
UNRESOLVED = ".numba.unresolved$"
#: Addresses of arrays of the module that the code does not hold: large or not contiguous ones.
OF_ARRAYS = "numba.dynamic.globals."
#: What makes the text of an exception with numbers in it: it is there in each process, and is never
#: called, as the interpreter raises such an exception anew.
OF_MESSAGES = frozenset(
    (
        "PyErr_SetString",
        "PyExc_RuntimeError",
        "PyObject_Hash",
        "PyTuple_Pack",
        "PyUnicode_FromKindAndData",
    )
)


def _needed(library: Any) -> set[str]:
    """The names of what machine code uses and does not have."""
    text = str(library.get_llvm_str())
    names = re.findall(r"^declare [^@]*@\"?([\w.$]+)\"?\(", text, re.MULTILINE)
    names += re.findall(r"^@\"?([\w.$]+)\"? = external ", text, re.MULTILINE)
    names += (each for each in (UNRESOLVED, OF_ARRAYS) if each in text)
    return {name for name in names if not name.startswith("llvm.")}


def return_type(function: FunctionType, dtype: str, ndim: int) -> str:
    """The dtype of what a function of a frame returns, by name; of an array, that of its elements.

    Raises
    ------
    UDFError
        If it cannot be compiled, or returns something else.
    """
    import numpy as np
    from numba.np.numpy_support import as_dtype

    frame = _types.array_type(np.dtype(dtype), ndim, writeable=False)
    try:
        with _types.anew(), _foreign.machine_code_on_demand():
            made = _types.dispatcher(function, options_of(function) or Options())
            made.compile((frame,))
    except NumbaError as error:
        raise cannot("map", function, error) from None
    except Exception as error:
        raise cannot("map", function, error) from error
    found = made.overloads[(frame,)].signature.return_type
    if isinstance(found, nt.Array):
        found = found.dtype
    if not isinstance(found, nt.Number | nt.Boolean):
        raise UDFError(
            f"the compiled function {function.__name__} returns {found}; expected a number, or an "
            f"array of numbers of the same shape for each frame"
        )
    return str(as_dtype(found).name)


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
#: What Numba says where a name, or what a function returns, would have arrays of two dtypes.
_TWO_DTYPES = re.compile(
    r"(?:Cannot unify|No conversion from) (?:readonly )?array\((\w+),[^\n]*? "
    r"(?:and|to) (?:readonly )?array\((\w+),"
)
#: What Numba says where a value gets a name within an expression, and is used in it.
_NAMED_WITHIN = re.compile(r"Type of variable '\$[^']+' cannot be determined, .* unknown location")
#: What Numba says where a plain function of Python is called.
_PLAIN_FUNCTION = re.compile(r"Untyped \w+ name '(\w+)':\s*Cannot determine.*<class 'function'>")


#: What Numba says where it has no function for such arguments, and why not.
_NOT_THERE = re.compile(r"No implementation of function [^\n]*found for signature:\s*>>> ([^\n]+)")
_WHY_NOT = re.compile(r"raised a specific error:\s*\w+: (?!Failed in nopython)([^\n]+)")


def cannot(udf: str, function: FunctionType, error: Any) -> UDFError:
    """What is said where Numba cannot compile something: function, file, line and reason."""
    text = _COLOURS.sub("", str(getattr(error, "msg", None) or error))
    place = _place(function, text, error)
    if not isinstance(error, NumbaError):
        text = _why(error) or f"Numba fails with {type(error).__name__} {text}".rstrip()
    if _NAMED_WITHIN.search(text):
        text = (
            "a value gets a name within an expression that goes on with it, as in "
            "(m := frame.max()) > 3; give it the name in a line before"
        )
    lines = [line.strip() for line in _without_candidates(_innermost(text)).splitlines()]
    skipped = (
        "File ",
        "During:",
        "Failed in ",
        "- Resolution failure",
        "- During",
        "<source",
        "Enable",
    )
    said: list[str] = []
    for line in lines:
        if not line or line.startswith(skipped) or set(line) <= set("^~-_ ") or line in said:
            continue
        said.append(line)
    reason = " ".join(said[:6]) or type(error).__name__
    if len(reason) > 600:
        reason = reason[:600] + " …"
    reason += _of_two_precisions(text)
    if "not allowed in a homogeneous sequence" in text:
        reason += "; of arrays, a.copy() makes a copy, and np.stack((a, b)) one of several"
    if plain := _PLAIN_FUNCTION.search(text):
        reason += f"; if {plain[1]} is a function of yours, mark it with @ff.compiled, too"
    line = f"\n    {place[2]}" if place[2] else ""
    made = UDFError(
        f"{udf}.{function.__name__} cannot be compiled: line {place[1]} of {place[0]}: "
        f"{reason}{line}"
    )
    made.add_note("leave out @ff.compiled to run it in the interpreter")
    return made


def _of_two_precisions(text: str) -> str:
    """What to do where a name would have arrays of single and of double precision; else nothing."""
    found = _TWO_DTYPES.search(text)
    for low, high in (("float32", "float64"), ("complex64", "complex128")):
        if found is not None and {low, high} == set(found.groups()):
            return (
                f"; convert what is {high}, as in (a * b).astype(np.{low}): of {low} and integers "
                f"of 32 or 64 bits it is {high}, as in NumPy"
            )
    return ""


def _why(error: Exception) -> str:
    """Why Numba's own code fails, where it does not say so and the place tells; else nothing."""
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    if entry is None:
        return ""
    code, found = entry.tb_frame.f_code, entry.tb_frame.f_locals
    if code.co_qualname == "BooleanArrayIndexer.__init__":
        return (
            "a mask of several axes is no index in compiled code; write a loop over the elements, "
            "or np.where(mask, this, that)"
        )
    if code.co_qualname == "NumpyRulesInplaceArrayOperator.generic" and "args" in found:
        left, right = found["args"][:2]
        if not getattr(left, "mutable", True):
            return (
                "what is on the left is changed in place, and frames, parameters and AUX data are "
                "read-only; change a copy: a = frame.copy()"
            )
        to = f"np.{left.dtype}(b)" if isinstance(right, nt.Number) else "b.astype(a.dtype)"
        left, right = (getattr(each, "dtype", each) for each in (left, right))
        return (
            f"what is on the left is changed in place and stays {left}, which cannot hold what is "
            f"computed with {right}: arrays keep their dtype; declare another one, or convert what "
            f"is on the right, as in a += {to}"
        )
    if "(IMPORT_NAME)" in str(error):
        return "compiled code cannot import; do so at the head of the file"
    if "Can't index at" in str(error):
        return "values are missing; of a named tuple with defaults, pass all of them"
    return ""


def _innermost(text: str) -> str:
    """Of an error in a method that was called as ``self.method(…)``, what is said of that method.

    Numba says all that it tried for each call around it, before and after.
    """
    if _types.allow_method.__name__ not in text:
        return text
    inner = text.rpartition("Rejected as the implementation raised a specific error:")[2]
    return inner.partition("During: resolving callee")[0].replace("TypingError: ", "")


def _without_candidates(text: str) -> str:
    """Of an error that lists all functions that Numba tried, what it looked for, and why not."""
    missing = _NOT_THERE.search(text)
    if missing is None:
        return text
    why = _WHY_NOT.search(text, missing.end())
    if why and missing[1].startswith("_"):
        return why[1]  # names what the user calls, and this is within
    return f"Numba has no {missing[1]}" + (f": {why[1]}" if why else "")


def _reached(error: Exception, file: str) -> Any:
    """Where in the user's code Numba was when its own code failed."""
    found, entry = None, error.__traceback__
    while entry is not None:
        for value in entry.tb_frame.f_locals.values():
            # Not `getattr`, which structs of Numba answer by an error.
            loc = getattr(value, "__dict__", {}).get("loc")
            if isinstance(loc, numba_ir.Loc) and str(loc.filename) == file:
                found = loc
        entry = entry.tb_next
    return found


def _place(function: FunctionType, text: str, error: Any) -> tuple[str, int, str]:
    """File and line of the user's code that an error is about, and the line."""
    import linecache

    own = function.__code__.co_filename
    found = re.findall(r'File "([^"]+)", line (\d+)', text)
    found += re.findall(r"\(?([^\s()\"]+\.py|<[^>]+>)[ ]?[(:](\d+)\)", text)
    nowhere = ("<framefold", "unknown location")
    files = [(name, int(line)) for name, line in found if not name.startswith(nowhere)]
    mine = [(name, line) for name, line in files if os.path.basename(name) == os.path.basename(own)]
    loc = getattr(error, "loc", None) if isinstance(error, NumbaError) else _reached(error, own)
    if loc is not None and os.path.basename(str(loc.filename)) == os.path.basename(own):
        # Where Numba was when it failed is no more than near, if it says where.
        mine.insert(len(mine) if isinstance(error, NumbaError) else 0, (own, int(loc.line)))
    outer = [(name, line) for name, line in files if "numba" not in name.split(os.sep)]
    name, line = (mine or outer or [(own, function.__code__.co_firstlineno)])[-1]
    return own if (name, line) in mine else name, line, linecache.getline(own, line).strip()
