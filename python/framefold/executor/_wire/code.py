"""Classes and functions on their way to workers, which may have others of the same name.

Workers import what lies in folders of installed packages. All other code is sent as it is here: a
module may have been reloaded or assigned to since, or be found elsewhere there, or not at all. What
it refers to as a module, workers import, and what is used of it has to be the same there.
"""

from __future__ import annotations

import gc
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
    Facts,
    Use,
    differing,
    facts,
    facts_of,
    is_of_user,
    modules_used,
    of_code,
)
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
#: What `functools.cache` makes of a function.
_Cached = type(cache(lambda: None))
_KINDS = (type, types.FunctionType, types.MethodType, partial, _Cached)


class Code:
    """A class or function; where it is unpickled, it becomes one that does the same.

    As it is here, with all code of users' modules that it refers to. If that cannot be pickled, or
    is too large, workers import it by name, and see that their modules are the same.
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        file = _Limited()
        pickler = _pickler_of_code()(file)
        try:
            pickler.dump(self._value)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            uses = pickler.uses
            names = [(module.__name__, sorted(names)) for module, names in uses]
            return _made, (file.getvalue(), _PYTHON, names, facts(uses))
        digests = {name: _digest(sys.modules[name]) for name in sorted(pickler.modules)}
        return _imported, (pickles.packed(self._value), digests, facts_of(self._value), reason)


def sent(value: Any) -> Any:
    """What to send of a value: itself, unless it is code that may not be imported as it is here."""
    return Code(value) if isinstance(value, _KINDS) else value


def _reduced_transform(transform: Transform) -> tuple[Any, ...]:
    """A transform goes as its class and its parameters do."""
    kwargs = {key: sent(value) for key, value in transform._kwargs.items()}
    return transform_of, (sent(type(transform)), kwargs)


def _reduced_cached(function: Any) -> Any:
    """A function that is cached goes as its code does; Python's own pickles name it."""
    inner = getattr(function, "__wrapped__", None)
    if not is_of_user(function.__module__):
        return function.__reduce__()
    if not any(each is inner for each in gc.get_referents(function)):
        raise pickle.PicklingError(
            f"'{function.__qualname__}' hides the function that it caches (functools.wraps): put "
            f"functools.wraps below functools.cache"
        )
    return _cached, (inner, function.cache_parameters()), vars(function)


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    return lru_cache(**parameters)(function)


def _reduced_property(value: cached_property[Any]) -> Any:
    """Without its lock, which it has up to Python 3.11."""
    if type(value) is not cached_property:
        return NotImplemented
    return cached_property, (value.func,), {"attrname": value.attrname}


pickles.reduced_by[Transform] = _reduced_transform
pickles.reduced_by[_Cached] = _reduced_cached
pickles.reduced_by[cached_property] = _reduced_property


@cache
def _pickler_of_code() -> Any:
    """A pickler that takes along the code of users' modules.

    What cloudpickle registers for that holds for all threads, which would pickle by name what they
    began with as it is.
    """

    class Pickler(pickles.pickler_by_value()):  # type: ignore[misc]
        def __init__(self, file: io.BytesIO) -> None:
            super().__init__(file, protocol=5)
            #: Whose code was taken along, and could be imported.
            self.modules: set[str] = set()
            #: What it uses of modules that are imported there.
            self.uses: list[Use] = []

        def reducer_override(self, obj: Any) -> Any:
            if not isinstance(obj, (type, types.FunctionType)) or not is_of_user(obj.__module__):
                return super().reducer_override(obj)
            if obj.__module__ != "__main__" and obj.__module__ in sys.modules:
                self.modules.add(obj.__module__)
            if isinstance(obj, type):
                reduced = _foreign.reduced_class(obj)
            else:
                self.uses += modules_used(obj)
                reduced = _foreign.reduced_function(self, obj)
            if isinstance(obj, type) and issubclass(obj, (UDF, Transform)):
                # A worker would take the class that it has made of it before, with other bases.
                return _foreign.without_identity(reduced)
            return reduced

    return Pickler


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
