"""Code outside of the folders of installed packages: what it uses, and whether it is the same.

Other processes import users' modules by name, where they may be older or newer than here.
"""

from __future__ import annotations

import dis
import sys
import zlib
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache, lru_cache, partial
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

#: A module, and the names of what is used of it.
Use = tuple[ModuleType, set[str]]
#: A number for the code or value of each name; others where it is not the same.
Facts = dict[str, int]


def modules_used(function: FunctionType) -> Iterator[Use]:
    """The users' modules that a function refers to as modules, as in ``helpers.f(x)``.

    Whether its module imports them, or the function itself.
    """
    names = names_in(function.__code__)
    found = [function.__globals__.get(name) for name in globals_in(function.__code__)]
    found += [_content(cell) for cell in function.__closure__ or ()]
    package = function.__globals__.get("__package__")
    for name in _imports_in(function.__code__):
        found += [sys.modules.get(name), sys.modules.get(f"{package}.{name}")]
    for module in found:
        if isinstance(module, ModuleType) and _is_imported(module):
            yield module, names


def facts(uses: Iterable[Use]) -> Facts:
    """What modules have by these names, with the code that this refers to in turn.

    Of functions and classes the code counts; of numbers, texts, arrays, and lists, tuples, sets and
    dicts of such the values; of all else the type. Arrays, lists, sets and dicts whose name begins
    with an underscore do not count: caches, which are filled while code works.
    """
    found = _Facts()
    for module, names in uses:
        found.add(module.__name__, module, names)
    return found.found


class _Facts:
    def __init__(self) -> None:
        self.found: Facts = {}
        self._seen: set[Any] = set()

    def add(self, path: str, value: Any, names: set[str]) -> None:
        """Take in a value that is used by code with these names in it."""
        if isinstance(value, ModuleType):
            self._add_module(value, names)
            return
        if isinstance(value, partial):
            self._note(f"{path}()", _text((value.args, value.keywords)))
            value = value.func
        if callable(value) and not isinstance(value, type):
            # Of a bound method, of what Numba compiles, and of a decorated function.
            for name in ("__func__", "py_func", "__wrapped__"):
                value = getattr(value, name, value)
        if isinstance(value, FunctionType | type) and _is_in_a_file(value.__module__):
            if id(value) in self._seen:
                return
            self._seen.add(id(value))
            if isinstance(value, type):
                self._add_class(path, value)
            else:
                self._add_function(path, value)
        elif not _is_cache(path, value):
            self._note(path, _text(value))
            if _is_in_a_file(type(value).__module__):
                self.add(f"{path}.{type(value).__name__}", type(value), names)

    def _note(self, path: str, fact: Any) -> None:
        self.found[path] = zlib.crc32(repr(fact).encode())

    def _add_module(self, module: ModuleType, names: set[str]) -> None:
        key = module.__name__, frozenset(names)
        if key in self._seen or not _is_imported(module):
            return
        self._seen.add(key)
        for name in sorted(names & vars(module).keys()):
            self.add(f"{module.__name__}.{name}", vars(module)[name], names)

    def _add_function(self, path: str, function: FunctionType) -> None:
        defaults = function.__defaults__, function.__kwdefaults__
        self._note(path, (of_code(function.__code__), _text(defaults)))
        names = names_in(function.__code__)
        for name in sorted(globals_in(function.__code__) & function.__globals__.keys()):
            self.add(f"{function.__module__}.{name}", function.__globals__[name], names)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            self.add(f"{path}.{name}", _content(cell), names)
        for module, names in modules_used(function):
            self._add_module(module, names)

    def _add_class(self, path: str, cls: type) -> None:
        self._note(path, [f"{base.__module__}.{base.__qualname__}" for base in cls.__bases__])
        for base in cls.__bases__:
            self.add(f"{path}.{base.__name__}", base, set())
        for name, member in sorted(vars(cls).items()):
            member = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(member, FunctionType) or not name.startswith("__"):
                self.add(f"{path}.{name}", member, set())


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _is_imported(module: ModuleType) -> bool:
    """Whether other processes import it, and may have another of its name."""
    name = module.__name__
    return name != "__main__" and name in sys.modules and is_of_user(name)


def _is_in_a_file(name: str | None) -> bool:
    """Whether other processes import a user's module, which has a file if they can."""
    return is_of_user(name) and getattr(sys.modules.get(name or ""), "__file__", None) is not None


def _is_cache(path: str, value: Any) -> bool:
    is_private = path.rpartition(".")[2].startswith("_")
    return is_private and isinstance(value, list | set | dict | np.ndarray)


def _text(value: Any, depth: int = 8) -> str:
    """Differs for values that differ, where they are plain."""
    kind = type(value)
    inner = depth - 1
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return f"{kind.__name__}:{value!r}"
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest = zlib.crc32(np.ascontiguousarray(value).tobytes())
        return f"{value.dtype!r}{value.shape}{digest}"
    text = f"{kind.__module__}.{kind.__qualname__}"
    if depth == 0:
        return text
    if isinstance(value, Enum):
        return f"{text}.{value.name}={_text(value.value, inner)}"
    if isinstance(value, tuple | list):
        return f"{text}{[_text(each, inner) for each in value]}"
    if isinstance(value, set | frozenset):
        return f"{text}{sorted(_text(each, inner) for each in value)}"
    if isinstance(value, dict):
        return f"{text}{[(_text(key, inner), _text(v, inner)) for key, v in value.items()]}"
    if isinstance(value, SimpleNamespace):
        return f"{text}{_text(dict(vars(value)), inner)}"
    return text


def of_code(code: CodeType) -> tuple[Any, ...]:
    """What makes up a piece of code, without where it comes from."""
    constants = [
        of_code(each) if isinstance(each, CodeType) else _text(each) for each in code.co_consts
    ]
    return code.co_code, code.co_names, constants


def names_in(code: CodeType) -> set[str]:
    """All names of attributes and globals in a piece of code and those within it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= names_in(constant)
    return names


def globals_in(code: CodeType) -> frozenset[str]:
    """The names of globals alone: a parameter of that name is something else."""
    return _arguments(code, GLOBAL)


#: The instructions that take a value from the globals.
GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME")


def _imports_in(code: CodeType) -> list[str]:
    """The names of modules that code imports itself."""
    return sorted(_arguments(code, ("IMPORT_NAME",)))


# The code of a function is looked through for each run, and for each change of its parameters.
@lru_cache(4096)
def _arguments(code: CodeType, instructions: tuple[str, ...]) -> frozenset[str]:
    names = {each.argval for each in dis.get_instructions(code) if each.opname in instructions}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _arguments(constant, instructions)
    return frozenset(names)


@cache
def _libraries() -> tuple[str, ...]:
    """Where the modules of libraries are."""
    import sysconfig  # many a worker process does without, and without pathlib

    keys = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(path for key in keys if (path := sysconfig.get_path(key)) is not None)


def is_of_user(name: str | None) -> bool:
    """Whether the module of that name lies outside of the folders of installed packages."""
    # What is imported later is looked at then.
    return name is not None and name in sys.modules and _lies_outside(name)


@cache
def _lies_outside(name: str) -> bool:
    if name == "builtins" or name.partition(".")[0] in ("framefold", "numpy"):
        return False
    if name == "__main__":
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:  # built into Python, or made by the program
        return name.partition(".")[0] not in sys.stdlib_module_names
    # Packages may be installed for one user, and systems have other folders for them.
    from pathlib import PurePath

    folders = PurePath(file).parts
    in_library = "site-packages" in folders or "dist-packages" in folders
    return not (in_library or file.startswith(_libraries()) or _is_installed(name, file))


def _is_installed(name: str, file: str) -> bool:
    """Whether a file lies in a folder that packages were installed in, as by ``pip --target``."""
    from pathlib import Path, PurePath

    depth = name.count(".") + PurePath(file).name.startswith("__init__.")
    folders = Path(file).parents
    return depth < len(folders) and name.partition(".")[0] in _installed_in(folders[depth])


@cache
def _installed_in(folder: Path) -> frozenset[str]:
    """The names of modules and packages in a folder that a package manager has put there."""
    found = set()
    for record in folder.glob("*.dist-info/RECORD"):
        for line in record.read_text(encoding="utf-8", errors="replace").splitlines():
            found.add(line.partition(",")[0].partition("/")[0].partition(".")[0])
    return frozenset(found)
