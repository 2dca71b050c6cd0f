"""Classes and functions on their way to workers, which may have others of the same name.

Workers import what lies in folders of installed packages. All other code is sent as it is here: a
module may have been reloaded or assigned to since, or be found elsewhere there, or not at all. What
it refers to as a module, workers import, and what is used of it has to be the same there.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import types
import zlib
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache, partial
from typing import Any

from framefold.common import _foreign
from framefold.common._user_code import (
    ABOUT,
    Cached,
    Facts,
    Use,
    cached_by,
    differing,
    facts,
    facts_of,
    is_of_user,
    modules_used,
    of_code,
    signature_of,
)
from framefold.executor._processes.channels import CAN_SHARE
from framefold.executor._wire import pickles
from framefold.executor._wire.failures import DifferentCodeError
from framefold.udf.base import UDF
from framefold.udf.transform import Transform, transform_of

#: What is larger is sent by name, in bytes.
MOST = 16 << 20

#: Code of another version of Python cannot be run.
_PYTHON = sys.version_info[:2]
#: What to do about modules of workers that are others.
_ANEW = (
    "make another context, whose workers import modules anew; on a cluster that you connected to, "
    "bring its modules up to date and restart its workers (client.restart())"
)
_SENT = (
    "What code refers to by its own name, after 'from module import name' at the top of its file, "
    "is sent as it is here"
)
_KINDS = (type, types.FunctionType, types.MethodType, partial, Cached)


class _Classes:
    """Those of users' modules in one pickle."""

    def __init__(self, imported: set[type]) -> None:
        #: What code gets by name, too, so that there is one class of it.
        self.imported = imported
        #: What code has as it is here.
        self.as_they_are: set[type] = set()
        #: What workers import: it is among parameters, or code refers to it that they import.
        self.by_name: set[type] = set()


class Code:
    """A class or function; where it is unpickled, it becomes one that does the same.

    As it is here, with all code of users' modules that it refers to. If that cannot be pickled, or
    is too large, workers import it by name, and see that their modules are the same.
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced(_Classes(set()))

    def reduced(self, classes: _Classes) -> tuple[Any, ...]:
        """What pickles make of it, with others beside it."""
        file = _Limited()
        pickler = _pickler_of_code()(file, classes)
        try:
            pickler.dump(self._value)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            uses = pickler.uses
            names = [(module.__name__, sorted(names)) for module, names in uses]
            return _made, (file.getvalue(), _PYTHON, names, facts(uses, classes.by_name))
        digests = {name: _digest(sys.modules[name]) for name in sorted(pickler.modules)}
        return _imported, (pickles.packed(self._value), digests, facts_of(self._value), reason)


def sent(value: Any) -> Any:
    """What to send of a value: itself, unless it is code that may not be imported as it is here."""
    return Code(value) if isinstance(value, _KINDS) else value


def dumps(value: Any, share: bool = CAN_SHARE) -> tuple[bytes, list[memoryview]]:
    """The pickle of a value for workers, and its large arrays if they are to be shared.

    A class that workers import, as it is among parameters or as code refers to it that they import,
    is imported by all code: ``mode is Mode.FAST`` and ``isinstance`` ask for one class of a name.
    """
    imported: set[type] = set()
    while True:
        classes = _Classes(imported)
        dumped = pickles.dumps_by(partial(_pickler_with_code(), classes), value, share)
        both = classes.as_they_are & classes.by_name
        if not both:
            return dumped
        del dumped
        imported |= both


def packed(value: Any) -> bytes:
    """The same, with all that belongs to it in one piece."""
    return dumps(value, share=False)[0]


def shared(value: Any) -> pickles.SharedPickle:
    """The same, for several processes."""
    return pickles.SharedPickle(*dumps(value))


@cache
def _pickler_with_code() -> Any:
    class Pickler(pickles.pickler_by_value()):  # type: ignore[misc]
        def __init__(self, classes: _Classes, file: io.BytesIO, **options: Any) -> None:
            super().__init__(file, **options)
            self._classes = classes

        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, Code):
                return obj.reduced(self._classes)
            if isinstance(obj, type) and _can_be_imported(obj):
                self._classes.by_name.add(obj)
            return super().reducer_override(obj)

    return Pickler


def _can_be_imported(value: Any) -> bool:
    """Whether it is of a module of the user's, and what that has by its name."""
    module = str(value.__module__)
    if module == "__main__" or not is_of_user(module):
        return False
    found: Any = sys.modules.get(module)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _reduced_transform(transform: Transform) -> tuple[Any, ...]:
    """A transform goes as its class and its parameters do."""
    kwargs = {key: sent(value) for key, value in transform._kwargs.items()}
    return transform_of, (sent(type(transform)), kwargs)


def _reduced_cached(function: Any) -> Any:
    """A function that is cached goes as its code does; Python's own pickles name it."""
    inner = cached_by(function)
    if inner is None:
        raise pickle.PicklingError(
            f"'{function.__qualname__}' hides the function that it caches (functools.wraps): put "
            f"functools.wraps below functools.cache"
        )
    return _cached, (inner, function.cache_parameters()), vars(function)


def _reduced_elsewhere(function: Any) -> Any:
    """The same beside code: by name, as other functions are, where it can be imported."""
    is_of_script = function.__module__ == "__main__" or "<locals>" in function.__qualname__
    return _reduced_cached(function) if is_of_script else function.__reduce__()


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    return lru_cache(**parameters)(function)


def _reduced_property(value: cached_property[Any]) -> Any:
    """Without its lock, which it has up to Python 3.11."""
    if type(value) is not cached_property:
        return NotImplemented
    return cached_property, (value.func,), {"attrname": value.attrname}


pickles.reduced_by[Transform] = _reduced_transform
pickles.reduced_by[Cached] = _reduced_elsewhere
pickles.reduced_by[cached_property] = _reduced_property


@cache
def _pickler_of_code() -> Any:
    """A pickler that takes along the code of users' modules.

    What cloudpickle registers for that holds for all threads, which would pickle by name what they
    began with as it is.
    """

    class Pickler(pickles.pickler_by_value()):  # type: ignore[misc]
        def __init__(self, file: io.BytesIO, classes: _Classes) -> None:
            super().__init__(file, protocol=5)
            self._classes = classes
            #: Whose code was taken along, and could be imported.
            self.modules: set[str] = set()
            #: What it uses of modules that are imported there.
            self.uses: list[Use] = []

        def reducer_override(self, obj: Any) -> Any:
            code = (type, types.FunctionType, Cached)
            if not isinstance(obj, code) or not is_of_user(obj.__module__):
                return super().reducer_override(obj)
            if isinstance(obj, Cached):
                return _reduced_cached(obj)
            if obj.__module__ != "__main__" and obj.__module__ in sys.modules:
                self.modules.add(obj.__module__)
            if not isinstance(obj, type):
                self.uses += modules_used(obj)
                return _foreign.reduced_function(self, obj)
            if obj in self._classes.imported:
                self.uses.append((sys.modules[obj.__module__], {obj.__qualname__.split(".")[0]}))
                return super().reducer_override(obj)
            if not _can_be_made(obj):
                raise pickle.PicklingError(f"the keywords of class {obj.__qualname__} are not kept")
            reduced = _foreign.reduced_class(obj)
            if issubclass(obj, (UDF, Transform)):
                # A worker would take the class that it has made of it before, with other bases.
                return _foreign.without_identity(reduced)
            if _can_be_imported(obj):
                self._classes.as_they_are.add(obj)
            return reduced

    return Pickler


def _can_be_made(cls: Any) -> bool:
    """Whether a class can be made of what is in it, and needs no keywords as in `(Base, key=1)`."""
    try:
        signature_of(super(cls, cls).__init_subclass__).bind()
    except TypeError:
        return False
    except ValueError:  # it is Python's own
        return True
    return True


class _Limited(io.BytesIO):
    """Takes no more than code does: there may be any amount of data in a module."""

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > MOST:
            raise ValueError(f"with all that it refers to, it takes more than {MOST} bytes")
        return super().write(data)


def _made(
    data: bytes,
    python: tuple[int, int],
    uses: Sequence[tuple[str, list[str]]] = (),
    expected: Facts | None = None,
) -> Any:
    """What becomes of code that was sent as it is.

    Raises
    ------
    DifferentCodeError
        If nothing can be made of it there, or a module that it uses is not the same.
    """
    try:
        if python != _PYTHON:
            raise ImportError(f"it is of Python {python[0]}.{python[1]}")
        found = facts((importlib.import_module(name), set(names)) for name, names in uses)
        value = pickle.loads(data)
    except Exception as error:
        raise DifferentCodeError(
            f"code cannot be made of what was sent ({type(error).__name__}: {error}); see that "
            f"workers have what it imports, and the same version of Python. {_SENT}"
        ) from error
    for path in differing(found, expected or {}):
        raise DifferentCodeError(
            f"{path} is not the same in worker processes, which import modules once; {_ANEW}. "
            f"{_SENT}"
        )
    return value


def _imported(by_name: bytes, digests: Facts, expected: Facts, reason: str) -> Any:
    """What becomes of code that cannot be sent.

    Raises
    ------
    DifferentCodeError
        If it is not the same there, or a module that it refers to.
    """
    value = pickle.loads(by_name)
    modules = {name: _digest(importlib.import_module(name)) for name in digests}
    found = {path: fact for path, fact in facts_of(value).items() if path in expected}
    both = {path: expected[path] for path in found}
    for path in (*differing(found, both), *differing(modules, digests)):
        raise DifferentCodeError(
            f"{path} is not the same in worker processes, and cannot be sent to them ({reason}); "
            f"{_ANEW}"
        )
    return value


def _digest(module: types.ModuleType) -> int:
    """Differs for modules whose functions, methods, numbers or texts are others."""
    found: list[Any] = []
    for name, value in sorted(vars(module).items()):
        members = {} if name in ABOUT else {name: value}
        if isinstance(value, type) and value.__module__ == module.__name__:
            within = vars(value).items()
            members = {f"{name}.{key}": member for key, member in within if key not in ABOUT}
        for each, member in members.items():
            if isinstance(member, types.FunctionType):
                found.append((each, *of_code(member.__code__)))
            elif isinstance(member, (int, float, complex, str)) and not each.startswith("__"):
                found.append((each, member))
    return zlib.crc32(repr(found).encode())
