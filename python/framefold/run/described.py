"""Values as text: whether another one is the same, in this process or another.

Of functions and classes of the user's, the code is compared, with all that it refers to in turn:
functions and classes of the user's, values in modules and closures. Of libraries, names are.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Set
from enum import Enum
from typing import Any

import numpy as np

from framefold.common import _foreign
from framefold.common._user_code import (
    ABOUT,
    Cached,
    attributes_in,
    cached_by,
    globals_in,
    is_of_user,
    modules_used,
    parts_of,
)
from framefold.common.buffers import BufferWrapper
from framefold.exceptions import UnsupportedError
from framefold.udf.base import UDF

#: Longer texts are shown by their digests.
LONGEST = 200
#: Values within values are looked at so deep.
DEEPEST = 30
#: Whose text says all of them; objects of classes that derive from these may have attributes.
NUMBERS = (bool, int, float, complex)

#: Members of classes that are looked at under any name, such as `__call__`.
_CODE = (types.FunctionType, functools.partialmethod, Cached, property)
#: Members of classes that are no code, and differ from process to process.
_NO_CODE = frozenset({"_abc_impl"})
#: Members that are shown by their names.
_BY_NAME = (types.MemberDescriptorType, types.GetSetDescriptorType)


def described(value: Any) -> str:
    """A value as text: the same for equal values, in any process.

    Raises
    ------
    UnsupportedError
        If nothing is known of a value that could be compared.
    """
    known = _Known()
    try:
        text = known.text(value)
        code = "".join(known.code())
    except UnsupportedError:
        raise
    except Exception as error:  # of the user's objects, which may do anything when looked at
        raise UnsupportedError(
            f"a {type(value).__name__}, or what it refers to, cannot be looked at: "
            f"{type(error).__name__}: {error}"
        ) from error
    return f"{text} {digest(code.encode())}" if code else text


def shown(value: Any) -> str:
    """A value as text for people, also one that cannot be compared."""
    try:
        text = described(value)
    except UnsupportedError:
        text = f"a {type(value).__module__}.{type(value).__qualname__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({digest(text.encode())})"


def digest(data: Any) -> str:
    """Of bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()[:32]}"


class _Known:
    """What is known of a value, and the functions and classes that it led to."""

    def __init__(self) -> None:
        #: Functions and classes in the order in which they were found, and their places by address.
        self._found: list[Any] = []
        self._places: dict[int, int] = {}
        #: Names of modules, and of what of them was looked at.
        self._modules: set[tuple[str, ...]] = set()

    def code(self) -> Iterator[str]:
        """What the functions and classes are that were found, and those that these lead to."""
        for each in self._found:  # which grows meanwhile
            where = f"{each.__module__}.{each.__qualname__}"
            described = self._class if isinstance(each, type) else self._function
            try:
                yield described(each)
            except UnsupportedError as error:
                raise UnsupportedError(f"{where} uses {error}") from None

    def text(self, value: Any, depth: int = 0) -> str:
        """A value; functions and classes of the user's by their names and numbers."""
        if depth > DEEPEST:
            raise UnsupportedError(f"a {type(value).__name__} refers to too many others")
        inner = functools.partial(self.text, depth=depth + 1)
        if value is None or type(value) in NUMBERS or isinstance(value, np.dtype):
            return repr(value)
        if isinstance(value, np.generic):
            return f"{value.dtype.str} {value!r}"
        if type(value) in (str, bytes):
            data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            return repr(value) if len(value) <= LONGEST else f"{len(value)} of {digest(data)}"
        if isinstance(value, np.ndarray) and type(value) in (np.ndarray, np.memmap):
            return self._array(value, depth)
        if isinstance(value, BufferWrapper):
            mask = inner(value.valid_mask) if value.kind == "nav" else ""
            return f"{value.kind} {value.extra_shape} {inner(np.asarray(value))} {mask}"
        if isinstance(value, Mapping) and type(value).__module__ in ("builtins", "types"):
            items = ((inner(key), inner(each)) for key, each in value.items())
            return "{" + ", ".join(f"{key}: {each}" for key, each in items) + "}"
        if isinstance(value, (list, tuple)) and _is_plain(value):
            return f"{inner(type(value))}[" + ", ".join(map(inner, value)) + "]"
        if isinstance(value, Set) and type(value).__module__ == "builtins":
            return "set[" + ", ".join(sorted(map(inner, value))) + "]"
        if isinstance(value, (slice, range)):
            return f"{type(value).__name__}{inner((value.start, value.stop, value.step))}"
        if isinstance(value, os.PathLike) and not _is_of_user(type(value).__module__):
            return repr(os.fspath(value))
        return self._of_code(value, depth) or self._made_again(value, depth)

    def _array(self, value: np.ndarray[Any, Any], depth: int) -> str:
        if value.dtype.hasobject:
            return f"objects {value.shape} {self.text(value.tolist(), depth + 1)}"
        array = np.ascontiguousarray(value)
        plain = array.dtype.kind in "biufc" and array.size > 0
        data = array.reshape(-1).view(np.uint8) if plain else array.tobytes()
        dtype = value.dtype.str if value.dtype.names is None else repr(value.dtype)
        return f"{dtype} {value.shape} {digest(data)}"

    def _of_code(self, value: Any, depth: int) -> str:
        """Of functions, classes and modules; empty for all others."""
        inner = functools.partial(self.text, depth=depth + 1)
        if isinstance(value, type):
            name = f"class {value.__module__}.{value.__qualname__}"
            return self._numbered(name, value) if _has_own_code(value) else name
        if isinstance(value, types.FunctionType):
            return self._numbered(f"function {value.__module__}.{value.__qualname__}", value)
        if isinstance(value, functools.partial):
            parts = type(value), value.func, value.args, value.keywords, vars(value)
            return f"partial {inner(parts)}"
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__} {vars(value).get('__version__', '')}"
        if isinstance(value, types.MethodType):
            return f"method {inner((value.__self__, value.__func__))}"
        if isinstance(value, types.CodeType):
            return digest(inner(parts_of(value)).encode())
        if isinstance(value, (staticmethod, classmethod)):
            return f"{type(value).__name__} {inner(value.__func__)}"
        if isinstance(value, property):
            return f"property {inner((value.fget, value.fset, value.fdel))}"
        if isinstance(value, functools.cached_property):
            return f"property {inner(value.func)}"
        if isinstance(value, _BY_NAME):
            return f"{type(value).__name__} {value.__name__}"
        function = getattr(value, "py_func", None)
        if isinstance(function, types.FunctionType):  # what numba makes of it
            options = sorted((k, str(v)) for k, v in _foreign.options_of_numba(value).items())
            return f"compiled {inner((function, options))}"
        if isinstance(value, Cached):
            function = cached_by(value)
            if function is None:
                name = getattr(value, "__qualname__", "")
                raise UnsupportedError(f"'{name}' of functools.cache, which hides its function")
            return f"cached {inner(function)}"
        if isinstance(value, types.BuiltinFunctionType):
            of = value.__self__
            bound = "" if of is None or isinstance(of, types.ModuleType) else inner(of)
            return f"{value.__module__ or ''}.{value.__name__} {bound}"
        if type(value) is np.vectorize:  # after a call, it has ufuncs beside its options
            public = {k: v for k, v in vars(value).items() if not k.startswith("_")}
            return f"vectorized {inner(public)}"
        if isinstance(value, np.ufunc):
            return f"ufunc {_home_of(value)}.{value.__name__}"
        return ""

    def _made_again(self, value: Any, depth: int) -> str:
        """Any other object: how it says that it is made again, which pickles hold, too."""
        cls = type(value)
        inner = functools.partial(self.text, depth=depth + 1)
        reduce = copyreg.dispatch_table.get(cls)
        try:
            made = value.__reduce_ex__(4) if reduce is None else reduce(value)
            parts: Any = made
            if isinstance(made, tuple):
                # The last ones are iterators over items.
                parts = [*made[:3], *(None if each is None else list(each) for each in made[3:5])]
        except Exception as error:
            why = f"a {cls.__name__}, which cannot be compared with another one: {error}"
            raise UnsupportedError(why) from None
        if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
            parts = (parts, getattr(value, "__dict__", None))  # pickles lose it
        own = any("__reduce__" in vars(each) for each in cls.__mro__[:-1])
        file = _file_digest(cls.__module__) if own and not _is_of_user(cls.__module__) else ""
        return f"{cls.__module__}.{cls.__qualname__} {inner(parts)} {file}"

    def _numbered(self, name: str, value: Any) -> str:
        place = self._places.setdefault(id(value), len(self._found))
        if place == len(self._found):
            self._found.append(value)  # and kept, so that no other value gets its address
        return f"{name} {place}"

    def _function(self, function: types.FunctionType) -> str:
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_set(cell)]
        marks = {key: value for key, value in vars(function).items() if key != "__wrapped__"}
        rest = function.__code__, function.__defaults__, function.__kwdefaults__, cells, marks
        parts = [self.text(rest)]
        if _is_of_user(function.__module__):
            names, found = attributes_in(function.__code__), function.__globals__
            for name in sorted(globals_in(function.__code__) & found.keys()):
                parts.append(f"{name}: {self._used(name, found[name], names)}")
            parts += [self._used(m.__name__, m, names) for m, names in modules_used(function)]
        return f"({', '.join(parts)})"

    def _used(self, name: str, value: Any, names: Iterable[str]) -> str:
        """A value that code refers to by a name; of modules, what has one of the names."""
        if not isinstance(value, types.ModuleType) or not _is_of_user(value.__name__):
            try:
                return self.text(value)
            except UnsupportedError as error:
                raise UnsupportedError(f"{name!r}, {error}") from None
        own = sorted(set(names) & vars(value).keys())
        key = value.__name__, *own
        if key in self._modules:
            return f"module {value.__name__}"
        self._modules.add(key)
        parts = [f"{each}: {self._used(each, vars(value)[each], names)}" for each in own]
        return f"module {value.__name__} {parts}"

    def _class(self, cls: type) -> str:
        """A class with its code, and that of the classes that it derives from."""
        parts = [f"{each.__module__}.{each.__qualname__}" for each in cls.__mro__]
        if _is_of_user(type(cls).__module__):
            parts.append(self.text(type(cls)))
        if issubclass(cls, Enum):
            parts += [self.text([(key, each.value) for key, each in cls.__members__.items()])]
        for each in cls.__mro__:
            if not (_is_of_user(each.__module__) or (issubclass(cls, UDF) and _is_other(each))):
                continue
            for key, member in sorted(vars(each).items()):
                if key in ABOUT:
                    continue
                is_code = isinstance(getattr(member, "__func__", member), _CODE)
                is_member = not key.startswith("__") and key not in _NO_CODE
                if is_code or (is_member and not _is_of_enum(each, key)):
                    parts.append(f"{key}: {self._used(key, member, ())}")
        return f"({', '.join(parts)})"


def _is_of_user(name: str | None) -> bool:
    """Whether the module of that name lies outside of the folders of installed packages."""
    return name is None or name not in sys.modules or is_of_user(name)


def _home_of(ufunc: np.ufunc) -> str:
    """The module of a library that has a ufunc by its name; the shortest name, if several do."""
    name = ufunc.__name__
    if name.endswith("(vectorized)"):
        raise UnsupportedError("a ufunc of numpy.frompyfunc, which hides its function")
    modules = [(k, m) for k, m in list(sys.modules.items()) if isinstance(m, types.ModuleType)]
    homes = [k for k, m in modules if vars(m).get(name) is ufunc and not _is_of_user(k)]
    if not homes:
        raise UnsupportedError(
            f"the ufunc {name!r}, which hides its function, and is in no module of a library"
        )
    return min(homes, key=lambda home: (len(home), home))


def _has_own_code(cls: type) -> bool:
    """Whether the code of a class is looked at: the user's, and functions of other libraries."""
    return _is_of_user(cls.__module__) or (issubclass(cls, UDF) and _is_other(cls))


def _is_other(cls: type) -> bool:
    """Whether a class is of another library than framefold and Python's own."""
    name = cls.__module__.partition(".")[0]
    return name != "framefold" and name not in sys.stdlib_module_names


def _is_of_enum(cls: type, key: str) -> bool:
    """Whether it is one of the members of an Enum, or what Python keeps of these."""
    return issubclass(cls, Enum) and (key in cls.__members__ or (key[:1] == key[-1:] == "_"))


def _is_plain(value: list[Any] | tuple[Any, ...]) -> bool:
    """Whether its entries are all that there is: of lists and tuples, and of named tuples."""
    return type(value) in (list, tuple) or (
        hasattr(type(value), "_fields") and not hasattr(value, "__dict__")
    )


def _is_set(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _file_digest(name: str) -> str:
    path = getattr(sys.modules.get(name), "__file__", None)
    if path is None:
        return "built in"
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
