"""Which names compiled code uses, and a fingerprint of it: what it is compiled of.

Numbers and arrays that a function finds in its module or in a closure are compiled in, so they
belong to the fingerprint, as do the functions that it calls.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Sequence
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from framefold.common import _foreign
from framefold.common._user_code import globals_in, names_in
from framefold.compilation.marks import MARK, options_of


class UncertainError(Exception):
    """A function uses a value that has no fingerprint."""


def functions_of(function: FunctionType) -> Iterator[FunctionType]:
    """A function, and all those written in Python that it reaches.

    By global names, closures, and defaults of arguments, also within tuples.
    """
    seen: list[FunctionType] = []
    waiting = [function]
    while waiting:
        each = waiting.pop()
        if any(each is other for other in seen):
            continue
        seen.append(each)
        yield each
        for _, value in _reached(each):
            waiting.extend(_functions_in(value))


def keeps(function: Any) -> bool:
    """Whether machine code of a function may be kept on disk, by all functions that it reaches."""
    found = (options_of(each) for each in functions_of(function))
    return all(options is None or options.cache for options in found)


def _functions_in(value: Any) -> Iterator[FunctionType]:
    """Functions that a value is, or has in it."""
    value = getattr(value, "py_func", value)
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _functions_in(each)


def _reached(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Names and values of what is not in the function's code."""
    for default in function.__defaults__ or ():
        yield "default", default
    yield from (function.__kwdefaults__ or {}).items()
    names = names_in(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue
    found = function.__globals__
    for name in sorted(globals_in(function.__code__)):
        if name in found:
            value = found[name]
            yield name, value
            if isinstance(value, ModuleType):
                yield from _within(name, value, names, [])


def _within(
    path: str, module: ModuleType, names: set[str], seen: list[ModuleType]
) -> Iterator[tuple[str, Any]]:
    """What a module of the user's has by any of these names, and modules in it."""
    if _is_library(module) or any(module is each for each in seen):
        return
    seen.append(module)
    for name in sorted(names & vars(module).keys()):
        value = vars(module)[name]
        yield f"{path}.{name}", value
        if isinstance(value, ModuleType):
            yield from _within(f"{path}.{name}", value, names, seen)


def _is_library(module: ModuleType) -> bool:
    """Whether a module is one whose contents belong to a version of Python, NumPy or Numba."""
    name = module.__name__.partition(".")[0]
    if name not in sys.stdlib_module_names:
        return name in LIBRARIES
    # The user may have a module of such a name.
    file = getattr(module, "__file__", None)
    if file is None:
        return name in sys.builtin_module_names
    return str(file).startswith((sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")))


LIBRARIES = ("numpy", "numba", "scipy", "framefold")


def fingerprint(function: FunctionType) -> str:
    """What a function is compiled of, with all that it reaches.

    Raises
    ------
    UncertainError
        If it uses something of which there is no telling; names it.
    """
    from hashlib import sha256  # which loads a large library

    parts = sha256()
    functions = list(functions_of(function))
    for each in functions:
        parts.update(repr((_code(each.__code__), getattr(each, MARK, None))).encode())
        for name, value in _reached(each):
            parts.update(_value(name, value, functions).encode())
    return parts.hexdigest()


def _code(code: CodeType) -> tuple[Any, ...]:
    constants = tuple(
        _code(each) if isinstance(each, CodeType) else (type(each).__name__, repr(each))
        for each in code.co_consts
    )
    # Errors name file and line.
    place = code.co_filename, code.co_firstlineno, code.co_name
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_flags
    return (*place, code.co_code.hex(), constants, names, code.co_linetable.hex())


def _value(name: str, value: Any, functions: Sequence[FunctionType] = ()) -> str:
    """What a value is, with its name; of functions, which of these it is."""
    if (function := getattr(value, "py_func", None)) is not None:
        # Numba compiles it; followed by `functions_of`, too.
        options = _foreign.options_of_numba(value)
        which = _value("", function, functions)
        return f"{name}={which}{sorted((k, str(v)) for k, v in options.items())};"
    if isinstance(value, FunctionType):
        for number, each in enumerate(functions):
            if each is value:
                return f"{name}=function {number};"
        raise UncertainError(f"the function {name!r}")  # within something that is not followed
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise UncertainError(name)
        from hashlib import sha256

        digest = sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{name}={value.dtype!r}{value.shape}{digest};"
    if isinstance(value, Enum):
        return f"{name}={value!r}{_value('', value.value)};"
    if isinstance(value, bool | int | float | complex | str | bytes | np.generic | type(None)):
        return f"{name}={type(value).__name__}:{value!r};"
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", "")
        items = "".join(_value("", each, functions) for each in value)
        return f"{name}={fields}({items});"
    if isinstance(value, ModuleType):
        return f"{name}=module {value.__name__} {getattr(value, '__version__', '')};"
    if isinstance(value, type):
        return f"{name}={_class(name, value)};"
    if isinstance(value, BuiltinFunctionType | np.ufunc | np.dtype):
        return f"{name}={value!r};"
    if callable(value) and home(value) in ("numpy", "math", "cmath"):
        return f"{name}={value!r};"
    if type(value).__module__.startswith("numba.core.types."):
        return f"{name}={value!r};"
    raise UncertainError(f"{name!r}, which is of type {type(value).__name__}")


def _class(name: str, value: type) -> str:
    """What compiled code can know of a class."""
    if issubclass(value, Enum):
        members = ((key, member.value) for key, member in value.__members__.items())
        return f"{value!r}{[_value(key, each) for key, each in members]}"
    if issubclass(value, tuple) and hasattr(value, "_fields"):
        return f"{value!r}{value._fields}"
    # Of exceptions, the name alone: the interpreter raises them.
    if issubclass(value, BaseException) or home(value) in ("builtins", *LIBRARIES):
        return repr(value)
    raise UncertainError(f"the class {name!r}")


def home(value: Any) -> str:
    """The package that something is from."""
    return str(getattr(value, "__module__", "")).partition(".")[0]
