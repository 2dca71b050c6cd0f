"""What user code has outside of its results, and whether it changes it.

A worker process has copies of its own: a list that a function appends to stays as it is here. Code
of libraries is not looked at, nor what it keeps in files or in the memory of compiled code.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
import types
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import PurePath
from typing import Any

import numpy as np

from framefold.udf.base import UDF

#: How many objects are looked at, of each container how many, and how deep.
MOST = 2000
MOST_OF_ONE = 200
DEPTH = 5
#: Of a large array, about so many elements are looked at.
SAMPLE = 1 << 14

#: Methods of a UDF that always run in the main process.
MAIN_SIDE = ("merge", "merge_all", "get_results")
#: Methods that change what they belong to.
CHANGING = {"add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert"}
CHANGING |= {"pop", "popitem", "popleft", "put", "put_nowait", "remove", "reverse", "setdefault"}
CHANGING |= {"sort", "update", "write", "writelines"}
_LOADS = frozenset({"LOAD_DEREF", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF"})
_METHODS = frozenset({"LOAD_METHOD", "LOAD_ATTR"})
_CONTAINERS = (list, dict, set, bytearray, deque)


class Outside:
    """What the classes and parameters of some UDFs refer to, as it is now.

    Parameters
    ----------
    udfs
        Whose classes and parameters are looked at.
    anywhere
        Whether it is compared with another process, where the same objects have other addresses.
    main_side
        Whether to look at methods, too, that always run in the main process, if there is one.
    """

    def __init__(
        self, udfs: Iterable[UDF], anywhere: bool = False, main_side: bool = False
    ) -> None:
        self._anywhere = anywhere
        self._left_out = () if main_side else MAIN_SIDE
        self._left = MOST
        self._seen: set[int] = set()
        #: The name of something that the code is seen to change; None if there is none.
        self.changed: str | None = None
        #: Name and state of all that was found.
        self._states: dict[str, Any] = {}
        #: What of the user's modules it is: their names, and names in them.
        self.parts: set[tuple[str, str]] = set()
        for udf in udfs:
            self.add(type(udf))
            for name, value in udf._kwargs.items():
                self._states[f"parameter {name!r} of {type(udf).__name__}"] = self._state(value, 0)

    def add(self, cls: type) -> None:
        """Look at a class, with those that it derives from, too."""
        for each in cls.__mro__:
            if _is_of_user(each.__module__):
                self._look_at_class(each)

    def add_value(self, name: str, value: Any) -> None:
        """Look at some value, too."""
        self._states[name] = self._state(value, 0)

    def difference(self, later: Outside) -> str | None:
        """What was changed until ``later``, or the code says that it changes; None if nothing."""
        if later.changed is not None:
            return later.changed
        for name, state in later._states.items():
            if name not in self._states or self._states[name] != state:
                return name
        return None

    @property
    def digests(self) -> dict[str, int]:
        """The same in short, to be sent to other processes."""
        return {name: zlib.crc32(repr(state).encode()) for name, state in self._states.items()}

    def _identity(self, value: Any) -> Any:
        return f"a {type(value).__qualname__}" if self._anywhere else id(value)

    def _look_at_class(self, cls: type) -> None:
        self.parts.add((cls.__module__, cls.__qualname__))
        for name, value in list(vars(cls).items()):
            if name in self._left_out or (name.startswith("__") and name.endswith("__")):
                continue
            function = _function_of(value)
            self._states[f"{cls.__name__}.{name}"] = self._state(function, 0)

    def _look_at_function(self, function: types.FunctionType) -> None:
        code, names = function.__code__, function.__globals__
        self.parts.add((function.__module__, function.__qualname__))
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))
        found = {name: _content(cell) for name, cell in cells.items()}
        for each in _codes(code):
            for name in each.co_names:
                if name in names:
                    found[name] = names[name]
                    if isinstance(names[name], types.ModuleType) and _is_of_user(
                        names[name].__name__
                    ):
                        members = vars(names[name])
                        used = [n for n in each.co_names if n in members]
                        found.update((n, members[n]) for n in used)
                        self.parts.update((names[name].__name__, n) for n in used)
            changed = _changes(each, found)
            if changed is not None and self.changed is None:
                self.changed = f"{changed!r}, which {function.__qualname__} refers to"
        self._states[f"the code of {function.__qualname__}"] = _digest(code)
        for name, value in found.items():
            self._states[f"{name!r}, which {function.__qualname__} refers to"] = self._state(
                value, 0
            )
        for value in function.__defaults__ or ():
            self._states[f"a default of {function.__qualname__}"] = self._state(value, 0)

    def _state(self, value: Any, depth: int) -> Any:
        """Something that compares equal as long as the value stays as it is."""
        if value is None or isinstance(value, (bool, int, str, bytes)):
            return value
        if isinstance(value, (float, complex, np.generic)):
            return repr(value)
        if isinstance(value, np.ndarray):
            return _state_of_array(value)
        self._left -= 1
        if isinstance(value, types.FunctionType):
            if id(value) not in self._seen and _is_of_user(value.__module__):
                self._seen.add(id(value))
                self._look_at_function(value)
            return self._identity(value)
        if isinstance(value, types.MethodType):
            return self._state(value.__func__, depth), self._state(value.__self__, depth)
        if isinstance(value, types.BuiltinMethodType):  # such as that of a list
            owner = value.__self__
            module = owner is None or isinstance(owner, types.ModuleType)
            return value.__name__, None if module else self._state(owner, depth)
        if isinstance(value, partial):
            return self._state((value.func, value.args, value.keywords), depth)
        if self._left < 0 or depth > DEPTH or id(value) in self._seen:
            return len(value) if isinstance(value, _CONTAINERS) else self._identity(value)
        if isinstance(value, type):
            self._seen.add(id(value))
            if _is_of_user(value.__module__):
                self._look_at_class(value)
            return self._identity(value)
        try:
            return self._state_of_object(value, depth + 1)
        except Exception:
            return object()  # it changes while it is looked at, or does as it likes: never the same

    def _state_of_object(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict):
            items = list(islice(value.items(), MOST_OF_ONE))
            return len(value), [(self._state(k, depth), self._state(v, depth)) for k, v in items]
        if isinstance(value, bytearray):
            return len(value), zlib.crc32(value)
        if isinstance(value, (list, tuple, deque)):
            return len(value), [self._state(v, depth) for v in islice(value, MOST_OF_ONE)]
        if isinstance(value, (set, frozenset)):
            return len(value), sorted(repr(v) for v in islice(value, MOST_OF_ONE))
        if _is_of_user(type(value).__module__) and hasattr(value, "__dict__"):
            self._seen.add(id(value))
            return {k: self._state(v, depth) for k, v in list(vars(value).items())[:MOST_OF_ONE]}
        return self._identity(value)


def _state_of_array(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype.hasobject:
        return array.shape, array.dtype.str
    step = max(1, array.size // SAMPLE)
    # An odd step meets all columns of arrays whose rows are a power of two long.
    sample = array.flat[:: step | 1]
    return array.shape, array.dtype.str, zlib.crc32(sample.tobytes())


def _function_of(member: Any) -> Any:
    """The function behind a member of a class, if it is such a thing."""
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not assigned yet


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _digest(code: types.CodeType) -> int:
    """Differs for code that does something else."""
    digest = 0
    for each in _codes(code):
        constants = [c for c in each.co_consts if isinstance(c, (int, float, complex, str, bytes))]
        digest = zlib.crc32(each.co_code, digest)
        digest = zlib.crc32(repr((each.co_names, constants)).encode(), digest)
    return digest


def _changes(code: types.CodeType, found: dict[str, Any]) -> str | None:
    """The name of something outside that the code assigns to, or calls a changing method of."""
    before: str | None = None
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        outer = instruction.argval
        if name in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            return str(outer)
        if name in ("STORE_DEREF", "DELETE_DEREF") and outer in code.co_freevars and outer in found:
            return str(outer)
        if name in _METHODS and outer in CHANGING and before is not None:
            value = found.get(before)
            if isinstance(value, _CONTAINERS) or _is_writer(value):
                return str(before)
        before = str(outer) if name in _LOADS else None
    return None


def _is_writer(value: Any) -> bool:
    """Whether a value takes things in: a queue, or a file."""
    # Of the class: `__getattr__` of users may raise anything.
    return not isinstance(value, types.ModuleType) and (
        hasattr(type(value), "put") or hasattr(type(value), "write")
    )


#: Where the modules of libraries are.
_LIBRARIES = tuple(
    path
    for key in ("stdlib", "platstdlib", "purelib", "platlib")
    if (path := sysconfig.get_path(key)) is not None
)
_OF_USER: dict[str, bool] = {}


def _is_of_user(module: str | None) -> bool:
    """Whether code of this module belongs to the program rather than to a library."""
    if module is None:
        return False
    known = _OF_USER.get(module)
    if known is None:
        known = _OF_USER[module] = _find_out(module)
    return known


def _find_out(name: str) -> bool:
    if name == "__main__":
        return True
    if name == "builtins" or name.partition(".")[0] in ("framefold", "numpy"):
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:  # built into Python, or made by the program
        return name.partition(".")[0] not in sys.stdlib_module_names
    # Users have packages of their own, and systems have other folders for them.
    folders = PurePath(file).parts
    in_library = "site-packages" in folders or "dist-packages" in folders
    return not (in_library or file.startswith(_LIBRARIES))
