"""Code outside of the folders of installed packages: what it uses, and whether it is the same.

Other processes import users' modules by name, where they may be older or newer than here.
"""

from __future__ import annotations

import dis
import gc
import inspect
import sys
import zlib
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache, lru_cache, partial, partialmethod
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

#: A module, and the names of what is used of it.
Use = tuple[ModuleType, set[str]]
#: A number for the code or value of each name; others where it is not the same.
Facts = dict[str, int]
#: Stands for a cache of a closure in which there is nothing yet.
EMPTY = 0
#: Values within values are looked at so deep.
DEEPEST = 8
#: Members of classes and modules that say nothing of what they do: annotations, where they are, and
#: the names that methods assign, in any order.
ABOUT = frozenset(("__annotate__", "__annotate_func__", "__firstlineno__", "__static_attributes__"))
#: What `functools.cache` makes of a function.
Cached = type(cache(lambda: None))
_PLAIN = (bool, int, float, complex, str, bytes, range, np.generic, np.dtype, type(None))


def modules_used(function: FunctionType) -> Iterator[Use]:
    """The users' modules that a function refers to as modules, as in ``helpers.f(x)``.

    Whether its module imports them, or the function itself.
    """
    names = attributes_in(function.__code__)
    found = [function.__globals__.get(name) for name in globals_in(function.__code__)]
    found += [_content(cell) for cell in function.__closure__ or ()]
    package = function.__globals__.get("__package__")
    for name in _imports_in(function.__code__):
        found += [sys.modules.get(name), sys.modules.get(f"{package}.{name}")]
    for module in found:
        if isinstance(module, ModuleType) and _is_imported(module):
            yield module, names


def facts(uses: Iterable[Use], classes: set[type] | None = None) -> Facts:
    """What modules have by these names, with the code that this refers to in turn.

    Of functions and classes the code counts, with what decorators have put around it; of numbers,
    texts, dtypes, arrays, and lists, tuples, sets and dicts of such the values; of functions and
    classes of libraries the names; of all else the type.
    Arrays, lists, sets and dicts whose name begins with an underscore do not count: caches, which
    are filled while code works; nor do lists, sets and dicts in the closures of decorators, and
    what classes in lists and dicts have beside methods. ``classes`` are added to by what is found.
    """
    found = _Facts()
    for module, names in uses:
        found.add(module.__name__, module, names)
    if classes is not None:
        classes |= found.classes
    return found.found


def facts_of(value: Any) -> Facts:
    """What a class or function is, with all code and values that it refers to in turn.

    As in :func:`facts`, but of values numbers and texts alone count: modules that cannot be sent
    have models, files and tables that are made when they are needed first.
    """
    found = _Facts(code_alone=True)
    found.add(f"{value.__module__}.{getattr(value, '__qualname__', '')}", value, set())
    return found.found


class _Facts:
    def __init__(self, *, code_alone: bool = False) -> None:
        self.found: Facts = {}
        self.classes: set[type] = set()
        self._code_alone = code_alone
        self._seen: set[Any] = set()
        #: Values whose text was taken in by a name, and the code in them.
        self._texts: dict[tuple[str, int], tuple[Any, dict[int, Any]]] = {}

    def add(self, path: str, value: Any, names: set[str]) -> None:
        """Take in a value that is used by code with these names in it."""
        if isinstance(value, ModuleType):
            self._add_module(value, names)
            return
        if isinstance(value, partial | partialmethod):
            self._add_text(f"{path}()", (value.args, *value.keywords.items()), names)
            value = value.func
        if isinstance(value, MethodType):
            self.add(f"{path}.__self__", value.__self__, names)
            value = value.__func__
        if isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType):
            self.add(path, value.__self__, names)  # of np.add.reduce, np.add
        if isinstance(value, FunctionType):
            self._add_function(path, value)
        elif isinstance(value, type) and _is_in_a_file(value.__module__):
            self._add_class(path, value)
        elif (function := _wrapped(value)) is not None:
            if not self._has_seen(value):
                self.add(path, function, names)
        elif not _is_cache(path, value):
            self._add_text(path, value, names)
        if _is_in_a_file(type(value).__module__):
            self.add(f"{path}.{type(value).__name__}", type(value), names)

    def _add_text(self, path: str, value: Any, names: set[str]) -> None:
        """Take in a value by its text, and the code that lies in it by what it is."""
        known = self._texts.get((path, id(value)))
        if known is None:
            code: dict[int, Any] = {}
            text = _text(value, code)
            if not self._code_alone:
                self._note(path, text)
            elif (plain := _plain_in(value)) is not None:
                self._note(path, plain)
            self._texts[path, id(value)] = value, code
        else:  # what is used of modules may be something else
            code = {key: each for key, each in known[1].items() if isinstance(each, ModuleType)}
        for each in code.values():
            if isinstance(each, type) and _is_in_a_file(each.__module__):
                self._add_class(f"{path}[]", each, values=False)
            elif each is not value:
                self.add(f"{path}[]", each, names)

    def _note(self, path: str, fact: Any) -> None:
        # Beside what else has that name: a function and its cells, of which some are functions.
        self.found[path] = zlib.crc32(repr(fact).encode(), self.found.get(path, 0))

    def _add_module(self, module: ModuleType, names: set[str]) -> None:
        key = module.__name__, frozenset(names)
        if key in self._seen or not _is_imported(module):
            return
        self._seen.add(key)
        for name in sorted(names & vars(module).keys()):
            self.add(f"{module.__name__}.{name}", vars(module)[name], names)

    def _add_function(self, path: str, function: FunctionType) -> None:
        code, home = function.__code__, function.__globals__.get("__name__")
        names = attributes_in(code)
        is_own = _is_in_a_file(home)
        # Of a library's, which may be around one of the user's, what it refers to alone.
        self._note(path, of_code(code) if is_own else _text(function))
        if self._has_seen(function):
            return
        inner = _wrapped(function)
        if inner is not None:
            self.add(f"{path}.__wrapped__", inner, names)
        lists_count = is_own and inner is None  # those of decorators are caches, counts, times
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if name not in _stored_in(code):  # such as a number of calls
                self._add_cell(f"{path}.{name}", _content(cell), names, lists_count)
        if not is_own and home in sys.modules:
            return
        # Also of what Python makes for named tuples of the user's, which is in no module.
        defaults = function.__defaults__, *(function.__kwdefaults__ or {}).items()
        self._add_text(f"{path}()", defaults, names)
        if not is_own:
            return
        for name in sorted(globals_in(code) & function.__globals__.keys()):
            self.add(f"{home}.{name}", function.__globals__[name], names)
        for module, used in modules_used(function):
            self._add_module(module, used)

    def _add_cell(self, path: str, value: Any, names: set[str], lists_count: bool) -> None:
        if not isinstance(value, list | set | dict) or (lists_count and value):
            self.add(path, value, names)
        elif lists_count:
            self.found.setdefault(path, EMPTY)

    def _add_class(self, path: str, cls: type, *, values: bool = True) -> None:
        """Take in a class; with what it has beside its methods, if it is not one in a container."""
        self.classes.add(cls)
        self._note(path, [f"{base.__module__}.{base.__qualname__}" for base in cls.__bases__])
        if self._has_seen(cls, values):
            return
        for base in cls.__bases__:
            self.add(f"{path}.{base.__name__}", base, set())
        for name, member in sorted(vars(cls).items()):
            if name in ABOUT:
                continue
            member = getattr(member, "__func__", getattr(member, "fget", member))
            is_code = isinstance(member, FunctionType) or _wrapped(member) is not None
            if is_code or (values and not name.startswith("__")):
                self.add(f"{path}.{name}", member, set())

    def _has_seen(self, value: Any, how: Any = None) -> bool:
        """Whether that was taken in before, by whatever name; code refers to itself."""
        has_seen = (id(value), how) in self._seen
        self._seen.add((id(value), how))
        return has_seen


def differing(some: Facts, others: Facts) -> Iterator[str]:
    """The names of what is not the same."""
    for path in sorted(some.keys() | others.keys()):
        pair = some.get(path), others.get(path)
        if pair[0] != pair[1] and EMPTY not in pair:
            yield path


def _wrapped(value: Any) -> Any:
    """The function in what decorators, Numba, NumPy and Python's caches make of one."""
    inside = {} if isinstance(value, type) else getattr(value, "__dict__", {})
    for name in ("py_func", "pyfunc", "__wrapped__", "func"):
        if callable(inside.get(name)):
            return inside[name]
    return None


def cached_by(value: Any) -> Any:
    """The function of a :data:`Cached`; None where ``functools.wraps`` above hides it."""
    function = getattr(value, "__wrapped__", None)
    return function if any(each is function for each in gc.get_referents(value)) else None


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


def _text(value: Any, code: dict[int, Any] | None = None, around: tuple[int, ...] = ()) -> str:
    """Differs for values that differ, where they are plain; all others are added to ``code``."""
    kind = type(value)
    if isinstance(value, _PLAIN):
        return f"{kind.__name__}:{value!r}"
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest = zlib.crc32(np.ascontiguousarray(value).tobytes())
        mask = value.mask.tobytes() if isinstance(value, np.ma.MaskedArray) else b""
        return f"{value.dtype!r}{value.shape}{digest}{zlib.crc32(mask)}"
    text = f"{kind.__module__}.{kind.__qualname__}{_name(value)}"
    if len(around) == DEEPEST or id(value) in around:
        return text
    inner = partial(_text, code=code, around=(*around, id(value)))
    if isinstance(value, Enum):
        return f"{text}.{value.name}={inner(value.value)}"
    if isinstance(value, np.ndarray):
        return f"{text}{value.dtype!r}{inner(value.tolist())}"
    if isinstance(value, slice):
        return f"{text}{[inner(each) for each in (value.start, value.stop, value.step)]}"
    if isinstance(value, tuple | list):
        return f"{text}{[inner(each) for each in value]}"
    if isinstance(value, set | frozenset):
        return f"{text}{[inner(each) for each in sorted(value, key=_order)]}"
    if isinstance(value, dict | MappingProxyType):
        return f"{text}{[(inner(key), inner(v)) for key, v in value.items()]}"
    if isinstance(value, SimpleNamespace):
        return f"{text}{inner(dict(vars(value)))}"
    if code is not None:
        # Of objects in a container, there may be many of one class.
        is_object = around and not callable(value) and not isinstance(value, ModuleType)
        each = kind if is_object else value
        code[id(each)] = each
    return text


def _name(value: Any) -> str:
    """That of a class, or of a function that Python or NumPy made; empty for all else."""
    made_by = type(value).__module__.partition(".")[0]
    if not (isinstance(value, type) or (callable(value) and made_by in ("builtins", "numpy"))):
        return ""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    return f" {getattr(value, '__module__', '')}.{name}"


def _plain_in(value: Any) -> Any:
    """Numbers and texts, also in tuples, which do not change; None for all else."""
    if isinstance(value, tuple):
        return [_plain_in(each) for each in value]
    return _text(value) if isinstance(value, _PLAIN) and value is not None else None


def _order(value: Any) -> tuple[str, str]:
    """The same for the same value, wherever it lies."""
    code = getattr(value, "__code__", None)
    return _text(value), repr(of_code(code)) if isinstance(code, CodeType) else ""


def of_code(code: CodeType) -> tuple[Any, ...]:
    """What makes up a piece of code, without where it comes from."""
    *parts, constants = parts_of(code)
    texts = [of_code(each) if isinstance(each, CodeType) else _text(each) for each in constants]
    return *parts, texts


def parts_of(code: CodeType) -> tuple[Any, ...]:
    """What makes up a piece of code, its constants last: what Python compares, but for places."""
    parameters = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames
    steps: Any = code.co_code
    constants: tuple[Any, ...] = code.co_consts
    if ABOUT.intersection(code.co_names):
        steps, constants = _without_places(code)
    return (steps, code.co_exceptiontable, *names, *parameters, constants)


def _without_places(code: CodeType) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """The steps of code, and what each is of, but for what the body of a class says of itself.

    From Python 3.13 on, it stores the number of its first line.
    """
    steps = [(each.opname, each.argval) for each in dis.get_instructions(code)]
    for name in ABOUT:
        if ("STORE_NAME", name) in steps:
            at = steps.index(("STORE_NAME", name))
            del steps[at - 1 : at + 1]
    return tuple(opname for opname, _ in steps), tuple(argval for _, argval in steps)


def names_in(code: CodeType) -> set[str]:
    """All names of attributes and globals in a piece of code and those within it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= names_in(constant)
    return names


def attributes_in(code: CodeType) -> set[str]:
    """All names in code, and texts that may be names, as in ``getattr(helpers, "scale")``."""
    return names_in(code) | _texts_in(code)


def _texts_in(code: CodeType) -> set[str]:
    texts: set[str] = set()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            texts |= _texts_in(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            texts.add(constant)
    return texts


def globals_in(code: CodeType) -> frozenset[str]:
    """The names of globals alone: a parameter of that name is something else."""
    return _arguments(code, GLOBAL)


#: The instructions that take a value from the globals.
GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME")


def _stored_in(code: CodeType) -> frozenset[str]:
    """The names of variables of closures that code assigns to."""
    return _arguments(code, ("STORE_DEREF",))


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


def with_known_annotations(function: FunctionType) -> FunctionType:
    """The function, or the same without annotations, if these are names that nothing has.

    cloudpickle and Numba look at them. From Python 3.14 on, only that finds out that names are
    missing, such as those that type checkers alone import.
    """
    try:
        _ = function.__annotations__
    except Exception:  # of the user's expressions
        names = function.__code__, function.__globals__, function.__name__, function.__defaults__
        same = FunctionType(*names, function.__closure__)
        for name in ("__kwdefaults__", "__qualname__", "__module__", "__doc__"):
            setattr(same, name, getattr(function, name))
        vars(same).update(vars(function))
        return same
    return function


def signature_of(function: Any) -> inspect.Signature:
    """What :func:`inspect.signature` says, whatever the annotations are: they may be texts."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.STRING)
    return inspect.signature(function)


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
