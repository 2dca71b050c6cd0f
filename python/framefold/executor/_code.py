"""Classes and functions on their way to workers, which may have others of the same name.

Workers import modules on their own. Where one was reloaded or assigned to since, or is not the one
that is found by its name, they would run other code than this process, or none. So what lies in
modules of the user's is sent in both ways, by name and as it is here.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import types
from collections.abc import Callable
from functools import cache, partial, reduce
from typing import Any

from framefold.executor import _shared
from framefold.executor._failures import OtherwiseError
from framefold.executor._outside import Outside
from framefold.udf.base import UDF

#: What is larger is not sent as it is, in bytes.
MOST = 16 << 20
#: The name of a module, and of something in it.
Part = tuple[str, str]

_KINDS = (type, types.FunctionType, types.MethodType, partial)
#: Code of another version of Python cannot be run.
_PYTHON = sys.version_info[:2]


class Code:
    """A class or function; where it is unpickled, it becomes one that does the same.

    By name if that gives the same, which keeps what the modules have there; else as it is here.
    """

    def __init__(self, value: Any, parts: list[Part]) -> None:
        self._value = value
        self._parts = parts

    def __reduce__(self) -> tuple[Any, ...]:
        by_name, _ = _shared.dumps_by_value(self._value, share=False)
        as_it_is = _as_it_is(self._value, {module for module, _ in self._parts})
        digests = _digests(self._parts, _here)
        return _received, (by_name, as_it_is, self._parts, digests, _PYTHON)


def sent(value: Any) -> Any:
    """What to send of a value: itself, unless it has code that workers would import."""
    if not isinstance(value, _KINDS):
        return value
    outside = Outside((), anywhere=True, main_side=True)
    if isinstance(value, type):
        outside.add(value)
    else:
        outside.add_value("", value)
    parts = sorted(part for part in outside.parts if _is_found(part))
    return Code(value, parts) if parts else value


def _is_found(part: Part) -> bool:
    """Whether something would be imported by its name; what is in the main script is not."""
    try:
        _here(part)
    except (KeyError, AttributeError):
        return False
    return part[0] != "__main__"


def _here(part: Part) -> Any:
    return reduce(getattr, part[1].split("."), sys.modules[part[0]])


def _imported(part: Part) -> Any:
    return reduce(getattr, part[1].split("."), importlib.import_module(part[0]))


def _digests(parts: list[Part], find: Callable[[Part], Any]) -> dict[str, int]:
    outside = Outside((), anywhere=True, main_side=True)
    for part in parts:
        outside.add_value(".".join(part), find(part))
    return outside.digests


def _as_it_is(value: Any, modules: set[str]) -> bytes | str:
    """The pickle of a value with the code of these modules, or why there is none."""
    try:
        file = _Limited()
        _pickler_of_code()(file, modules).dump(value)
        return file.getvalue()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@cache
def _pickler_of_code() -> Any:
    """A pickler that takes along the code of some modules.

    What cloudpickle registers for that holds for all threads, which would pickle by name what they
    began with as it is.
    """
    from cloudpickle.cloudpickle import _dynamic_class_reduce

    class Pickler(_shared.pickler_by_value()):  # type: ignore[misc]
        def __init__(self, file: io.BytesIO, modules: set[str]) -> None:
            super().__init__(file, protocol=5)
            self._modules = modules

        def reducer_override(self, obj: Any) -> Any:
            if not isinstance(obj, (type, types.FunctionType)) or not self._takes_along(obj):
                reduced = super().reducer_override(obj)
            elif isinstance(obj, type):
                reduced = _dynamic_class_reduce(obj)
            else:
                reduced = self._dynamic_function_reduce(obj)
            if isinstance(obj, type) and issubclass(obj, UDF) and isinstance(reduced, tuple):
                # Without its id, by which a worker would take the class that it has made of it
                # before, with other bases.
                make, arguments, *rest = reduced
                if make.__name__ == "_make_skeleton_class":
                    return make, (*arguments[:4], None, *arguments[5:]), *rest
            return reduced

        def _takes_along(self, obj: Any) -> bool:
            name = getattr(obj, "__module__", None) or ""
            while name and name not in self._modules:
                name = name.rpartition(".")[0]
            return bool(name)

    return Pickler


class _Limited(io.BytesIO):
    """Takes no more than code does: there may be any amount of data in a module."""

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > MOST:
            raise ValueError(f"with all that it refers to, it takes more than {MOST} bytes")
        return super().write(data)


def _received(
    by_name: bytes,
    as_it_is: bytes | str,
    parts: list[Part],
    digests: dict[str, int],
    python: tuple[int, int],
) -> Any:
    """What becomes of a :class:`Code` in a worker.

    Raises
    ------
    OtherwiseError
        If it is not the same there, and could not be sent.
    """
    if python != _PYTHON:
        as_it_is = "the worker has another version of Python"
    try:
        here = _digests(parts, _imported)
    except Exception:
        if isinstance(as_it_is, str):
            raise
        return _made(as_it_is, parts)
    names = [name for name in digests if digests[name] != here.get(name)]
    if not names:
        return pickle.loads(by_name)
    if isinstance(as_it_is, bytes):
        return _made(as_it_is, parts)
    of_code = [name for name in names if name.startswith("the code of ")]
    if of_code and python == _PYTHON:
        raise OtherwiseError(
            f"{of_code[0]} is not the same in worker processes, and cannot be sent to them "
            f"({as_it_is}); make another context, whose workers import modules anew"
        )
    return pickle.loads(by_name)  # what else a module keeps may be another in each process


def _made(as_it_is: bytes, parts: list[Part]) -> Any:
    try:
        return pickle.loads(as_it_is)
    except Exception as error:
        names = ", ".join(sorted({module for module, _ in parts}))
        raise OtherwiseError(
            f"code of {names} is not found in worker processes, or is not the same there, and "
            f"cannot be made of what was sent ({type(error).__name__}: {error}); see that they can "
            f"import it as it is here, and make another context, whose workers import it anew"
        ) from error
